//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus-01) and its enhanced target (Bagnulo 2023 §7).
//!
//! Delay is measured as RTT, the increase is slowed by the base RTT, the decrease is multiplicative, and periodic
//! slowdowns drain the queue so that every flow sees the base RTT. Knows nothing of retransmissions or pacing.

use lowtide_units::{Span, Time};
use serde::Deserialize;

use crate::controller::{Controller, Start};
use crate::delay::{BaseDelay, CurrentDelay};
use crate::events::{Ack, Cause, Congestion, Restart, Snapshot};
use crate::params::{ParamError, Params, require};
use crate::round::Round;

/// Parameters; the defaults are the draft's.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Queueing-delay target T (-01 §4.2: 60 ms).
    pub target_ms: f64,
    /// Use min(T, base RTT) as the target (Bagnulo 2023 §7). The gain keeps T.
    pub enhanced: bool,
    /// Segments that one acknowledgement releases. They are a queue themselves to whoever comes behind them, but the first of
    /// them does not see it: the time of their transmission is left free below the target, where the host knows it. The draft has
    /// no such thing: 0.
    pub burst_segments: f64,
    /// Largest divisor of the gain (-01 §4.3: 16).
    pub max_gain_divisor: f64,
    /// The factor C of the multiplicative decrease (-01 §4.2: 1).
    pub decrease_constant: f64,
    /// How the decrease of a round is spread.
    pub decrease: Decrease,
    /// What ends the ramp after a slowdown.
    pub ramp_exit: RampExit,
    /// Periodic slowdowns; off only to measure what they cost.
    pub slowdowns: bool,
    /// Samples in the current-delay filter (-01 §4.1: at least 4).
    pub filter_samples: usize,
    /// Forget filter samples older than one smoothed RTT (RFC 6817; -01 has no such limit).
    pub filter_age: bool,
}

/// How the decrease of a round is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decrease {
    /// In proportion to the bytes acknowledged, at most half the window a round.
    Prorated,
    /// The whole amount at once, then none for one RTT (the published rLEDBAT module).
    Step,
}

/// What ends the ramp after a slowdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RampExit {
    /// Only the window of before the slowdown (-01 §4.4).
    Ssthresh,
    /// That, or a queueing delay above the target (the published rLEDBAT module, Apple).
    Target,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            target_ms: 60.0,
            enhanced: false,
            burst_segments: 0.0,
            max_gain_divisor: 16.0,
            decrease_constant: 1.0,
            decrease: Decrease::Prorated,
            ramp_exit: RampExit::Ssthresh,
            slowdowns: true,
            filter_samples: 4,
            filter_age: false,
        }
    }
}

/// Segments in the initial window, at the floor and during a freeze (-01 §4.4).
const MIN_SEGMENTS: u32 = 2;
/// A slowdown holds the floor for this many RTTs (-01 §4.4).
const FREEZE_RTTS: u64 = 2;
/// The first slowdown comes this many RTTs after the initial slow start (-01 §4.4).
const FIRST_SLOWDOWN_RTTS: u64 = 2;
/// The next slowdown comes this many times the last one's duration after it (-01 §4.4).
const PERIOD: u64 = 9;
/// Initial slow start ends above this part of the target (-01 §4.3).
const SLOW_START_EXIT: f64 = 0.75;

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("ledbat_pp")?;
    require(config.target_ms > 0.0, "ledbat_pp", "target_ms must be above 0")?;
    require(config.burst_segments >= 0.0, "ledbat_pp", "burst_segments must not be negative")?;
    require(config.max_gain_divisor >= 1.0, "ledbat_pp", "max_gain_divisor must be at least 1")?;
    Ok(Box::new(LedbatPp::new(config, start)))
}

/// The state of one LEDBAT++ flow.
#[derive(Debug)]
pub struct LedbatPp {
    config: Config,
    mss: f64,
    cwnd: f64,
    ssthresh: f64,
    phase: Phase,
    base: BaseDelay,
    current: CurrentDelay,
    /// When the filter last took a sample; one RTT later the queueing delay counts as unknown.
    sampled: Option<Time>,
    round: Round,
    /// What this round may still take away.
    quota: f64,
    /// The earliest next decrease of `Decrease::Step`.
    next_step: Time,
    next_slowdown: Option<Time>,
    slowdown_start: Time,
    /// The delivered mark after which an acknowledged segment has seen the drained queue.
    drained: Option<u64>,
    /// The window before the running slowdown, halved once if that loses something.
    saved: f64,
    saved_halved: bool,
    /// Initial slow start ended in a loss: the first slowdown is timed from the end of recovery.
    time_first_slowdown: bool,
    in_recovery: bool,
    /// The largest in-flight of this round and the last, for flows that never use more than the floor.
    peak_in_flight: [u64; 2],
    before_episode: (f64, f64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    InitialSlowStart,
    Avoidance,
    Freeze { end: Time },
    Ramp,
    SlowStartAfterTimeout,
}

impl LedbatPp {
    /// A flow at its initial window.
    pub fn new(config: Config, start: &Start) -> LedbatPp {
        let cwnd = start.window_or(MIN_SEGMENTS) as f64;
        LedbatPp {
            config,
            mss: f64::from(start.mss),
            cwnd,
            ssthresh: f64::INFINITY,
            phase: Phase::InitialSlowStart,
            base: BaseDelay::ten_minutes(),
            current: CurrentDelay::new(config.filter_samples),
            sampled: None,
            round: Round::default(),
            quota: cwnd / 2.0,
            next_step: Time::ZERO,
            next_slowdown: None,
            slowdown_start: start.now,
            drained: None,
            saved: 0.0,
            saved_halved: false,
            time_first_slowdown: false,
            in_recovery: false,
            peak_in_flight: [0; 2],
            before_episode: (cwnd, f64::INFINITY),
        }
    }

    fn base_ns(&self) -> Option<f64> {
        self.base.min().map(|ns| ns as f64)
    }

    fn full_target_ns(&self) -> f64 {
        self.config.target_ms * 1e6
    }

    fn target_ns(&self) -> f64 {
        match self.base_ns() {
            Some(base) if self.config.enhanced => self.full_target_ns().min(base),
            _ => self.full_target_ns(),
        }
    }

    /// The queueing delay of a burst's first segment at which its last bit is at the target. Below the time of the window's
    /// floor there is nothing to aim at.
    fn aim_ns(&self, segment_time: Span) -> f64 {
        let target = self.target_ns();
        let time = |segments: f64| (segments * segment_time.nanos() as f64).min(target);
        (target - time(self.config.burst_segments)).max(time(f64::from(MIN_SEGMENTS)))
    }

    /// GAIN = 1 / min(16, ceil(2T / base)) (-01 §4.3), with the draft's T whatever the target in use.
    fn gain(&self) -> f64 {
        let base = self.base_ns().unwrap_or(0.0);
        if base <= 0.0 {
            return 1.0 / self.config.max_gain_divisor;
        }
        // The guard keeps exact divisors exact: 2T / base = 2.0 is a divisor of 2.
        let divisor = libm::ceil(2.0 * self.full_target_ns() / base - 1e-9);
        1.0 / divisor.clamp(1.0, self.config.max_gain_divisor)
    }

    fn queueing_ns(&self) -> Option<f64> {
        Some((self.current.min()? - self.base.min()?).max(0) as f64)
    }

    fn floor(&self) -> f64 {
        f64::from(MIN_SEGMENTS) * self.mss
    }

    fn take_sample(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.base.update(ack.now, rtt.nanos() as i64);
            self.current.push(ack.now, rtt.nanos() as i64);
            self.sampled = Some(ack.now);
        }
        if self.config.filter_age {
            self.current.forget(ack.now, ack.srtt);
        }
    }

    /// The queueing delay if it is known and not older than an RTT.
    fn fresh_queueing_ns(&self, ack: &Ack) -> Option<f64> {
        let age = ack.now.since(self.sampled?);
        self.queueing_ns().filter(|_| ack.rtt.is_some() || age <= ack.srtt)
    }

    fn on_round(&mut self, ack: &Ack) {
        self.quota = self.cwnd / 2.0;
        self.peak_in_flight = [ack.in_flight, self.peak_in_flight[0]];
    }

    /// Slowdowns fall due and freezes end by time. True if a slowdown starts here.
    fn time_transitions(&mut self, ack: &Ack) -> bool {
        let phase = self.phase;
        match phase {
            Phase::Avoidance if !ack.in_recovery && self.next_slowdown.is_some_and(|t| ack.now >= t) => {
                if self.uses_no_more_than_the_floor() {
                    self.next_slowdown = Some(ack.now + ack.srtt * (2 * PERIOD));
                    return false;
                }
                self.start_slowdown(ack);
                true
            }
            Phase::Freeze { end } if ack.now >= end && self.has_seen_the_drained_queue(ack) => {
                self.phase = Phase::Ramp;
                false
            }
            _ => false,
        }
    }

    fn uses_no_more_than_the_floor(&self) -> bool {
        self.cwnd <= self.floor() || self.peak_in_flight.iter().all(|&bytes| bytes as f64 <= self.floor())
    }

    fn start_slowdown(&mut self, ack: &Ack) {
        self.saved = self.cwnd;
        self.saved_halved = false;
        self.ssthresh = self.cwnd;
        self.cwnd = self.floor();
        self.slowdown_start = ack.now;
        self.drained = None;
        self.next_slowdown = None;
        self.phase = Phase::Freeze { end: ack.now + ack.srtt * FREEZE_RTTS };
    }

    /// The smoothed RTT may be shorter than the old flight needs to drain: ask for one acknowledgement of something that
    /// was sent when no more than the floor was left.
    fn has_seen_the_drained_queue(&mut self, ack: &Ack) -> bool {
        if self.drained.is_none() && ack.in_flight.saturating_sub(ack.acked) as f64 <= self.floor() {
            self.drained = Some(ack.delivered);
        }
        self.drained.is_some_and(|mark| ack.prior_delivered >= mark || ack.in_flight as f64 <= self.floor())
    }

    fn end_slowdown(&mut self, now: Time) {
        let took = now.since(self.slowdown_start);
        self.next_slowdown = self.config.slowdowns.then(|| now + took * PERIOD);
        self.phase = Phase::Avoidance;
    }

    fn end_initial_slow_start(&mut self, now: Time, srtt: Span) {
        self.next_slowdown = self.config.slowdowns.then(|| now + srtt * FIRST_SLOWDOWN_RTTS);
        self.phase = Phase::Avoidance;
    }

    fn initial_slow_start(&mut self, ack: &Ack, queueing: Option<f64>) {
        if queueing.is_some_and(|q| q > SLOW_START_EXIT * self.target_ns()) {
            self.ssthresh = self.cwnd;
            self.end_initial_slow_start(ack.now, ack.srtt);
            return;
        }
        self.slow_start(ack);
        if self.cwnd >= self.ssthresh {
            self.end_initial_slow_start(ack.now, ack.srtt);
        }
    }

    fn ramp(&mut self, ack: &Ack, queueing: Option<f64>) {
        if self.config.ramp_exit == RampExit::Target && queueing.is_some_and(|q| q > self.target_ns()) {
            self.ssthresh = self.cwnd;
            self.end_slowdown(ack.now);
            self.avoid(ack, queueing);
            return;
        }
        self.slow_start(ack);
        if self.cwnd >= self.ssthresh || (!ack.may_grow(self.cwnd(), true) && self.is_overdue(ack)) {
            self.end_slowdown(ack.now);
        }
    }

    /// A flow that does not use its window would never reach the old one: it gives up after twice the time it should take.
    fn is_overdue(&self, ack: &Ack) -> bool {
        let expected = libm::log(self.ssthresh / self.floor()).max(1.0) / libm::log(1.0 + self.gain());
        ack.now.since(self.slowdown_start) > ack.srtt.mul_f64(2.0 * expected + FREEZE_RTTS as f64)
    }

    fn slow_start_after_timeout(&mut self, ack: &Ack, queueing: Option<f64>) {
        if queueing.is_some_and(|q| q > self.target_ns()) {
            self.phase = Phase::Avoidance;
            return;
        }
        self.slow_start(ack);
        if self.cwnd >= self.ssthresh {
            self.phase = Phase::Avoidance;
        }
    }

    /// Times (1 + GAIN) per RTT, up to ssthresh (-01 §4.3).
    fn slow_start(&mut self, ack: &Ack) {
        if ack.may_grow(self.cwnd(), true) && self.cwnd < self.ssthresh {
            self.cwnd = (self.cwnd + self.gain() * ack.acked as f64).min(self.ssthresh);
        }
    }

    /// Per RTT: + GAIN up to the target, + max(GAIN - C·W·(qd/T - 1), -W/2) above it (-01 §4.2).
    fn avoid(&mut self, ack: &Ack, queueing: Option<f64>) {
        let Some(queueing) = queueing else { return };
        let excess = queueing / self.aim_ns(ack.segment_time) - 1.0;
        let growth = self.gain() * self.mss / self.cwnd;
        let shrink = if excess > 0.0 { self.config.decrease_constant * excess - growth } else { -growth };
        if shrink <= 0.0 {
            if ack.may_grow(self.cwnd(), false) {
                self.cwnd -= shrink * ack.acked as f64;
            }
            return;
        }
        let due = match self.config.decrease {
            Decrease::Prorated => (shrink * ack.acked as f64).min(ack.acked as f64 / 2.0).min(self.quota),
            Decrease::Step if ack.now >= self.next_step => {
                self.next_step = ack.now + ack.rtt.unwrap_or(ack.srtt);
                (shrink * self.cwnd).min(self.cwnd / 2.0)
            }
            Decrease::Step => 0.0,
        };
        self.cwnd -= due;
        self.quota -= due;
    }

    fn clamp(&mut self) {
        self.cwnd = self.cwnd.max(self.floor());
    }

    fn halve(&mut self) {
        self.ssthresh = (self.cwnd / 2.0).max(self.floor());
        self.cwnd = self.ssthresh;
    }

    fn on_loss(&mut self, event: &Congestion) {
        match self.phase {
            Phase::Freeze { .. } => {
                if !self.saved_halved {
                    self.ssthresh = (self.saved / 2.0).max(self.floor());
                    self.saved_halved = true;
                }
            }
            Phase::InitialSlowStart => {
                self.halve();
                self.end_initial_slow_start(event.now, event.srtt);
                self.time_first_slowdown = true;
            }
            Phase::Ramp => {
                self.halve();
                self.end_slowdown(event.now);
            }
            Phase::Avoidance | Phase::SlowStartAfterTimeout => {
                self.halve();
                self.phase = Phase::Avoidance;
            }
        }
    }

    fn on_timeout(&mut self, event: &Congestion) {
        self.ssthresh = match self.phase {
            Phase::Freeze { .. } => self.saved / 2.0,
            _ => event.in_flight as f64 / 2.0,
        }
        .max(self.floor());
        self.phase = match self.phase {
            Phase::Avoidance => Phase::SlowStartAfterTimeout,
            Phase::Freeze { .. } => Phase::Ramp,
            same => same,
        };
        self.cwnd = self.mss.min(self.cwnd);
    }
}

impl Controller for LedbatPp {
    fn on_ack(&mut self, ack: &Ack) {
        self.take_sample(ack);
        if self.round.ended_by(ack) {
            self.on_round(ack);
        }
        self.peak_in_flight[0] = self.peak_in_flight[0].max(ack.in_flight);
        if self.in_recovery && !ack.in_recovery && self.time_first_slowdown {
            self.end_initial_slow_start(ack.now, ack.srtt);
            self.time_first_slowdown = false;
        }
        self.in_recovery = ack.in_recovery;
        if self.time_transitions(ack) || ack.in_recovery {
            return;
        }
        let queueing = self.fresh_queueing_ns(ack);
        match self.phase {
            Phase::InitialSlowStart => self.initial_slow_start(ack, queueing),
            Phase::Avoidance => self.avoid(ack, queueing),
            Phase::Freeze { .. } => self.cwnd = self.floor(),
            Phase::Ramp => self.ramp(ack, queueing),
            Phase::SlowStartAfterTimeout => self.slow_start_after_timeout(ack, queueing),
        }
        self.clamp();
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.before_episode = (self.cwnd, self.ssthresh);
        match event.cause {
            Cause::Loss | Cause::Ecn => self.on_loss(event),
            Cause::Timeout => self.on_timeout(event),
        }
    }

    fn on_restart(&mut self, restart: &Restart) {
        if restart.idle <= restart.rto {
            return;
        }
        self.current.clear();
        self.sampled = None;
        if matches!(self.phase, Phase::InitialSlowStart | Phase::Freeze { .. }) {
            self.cwnd = self.cwnd.min(self.floor());
            return;
        }
        let old = self.cwnd;
        self.cwnd = self.cwnd.min(self.floor());
        self.ssthresh = if self.ssthresh.is_finite() { self.ssthresh.max(0.75 * old) } else { 0.75 * old };
        // The pause has drained the queue: what follows is the ramp of a slowdown that began now.
        self.slowdown_start = restart.now;
        self.phase = Phase::Ramp;
    }

    fn on_undo(&mut self, _now: Time) {
        (self.cwnd, self.ssthresh) = self.before_episode;
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = f64::from(mss);
        self.clamp();
    }

    fn cwnd(&self) -> u64 {
        (self.cwnd as u64).max(1)
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            cwnd: self.cwnd(),
            ssthresh: self.ssthresh.is_finite().then_some(self.ssthresh as u64),
            base_delay: self.base.min().map(|ns| Span::from_nanos(ns as u64)),
            queueing_delay: self.queueing_ns().map(|ns| Span::from_nanos(ns as u64)),
            phase: match self.phase {
                Phase::InitialSlowStart => "slow_start",
                Phase::Avoidance => "avoidance",
                Phase::Freeze { .. } => "freeze",
                Phase::Ramp => "ramp",
                Phase::SlowStartAfterTimeout => "slow_start_after_timeout",
            },
        }
    }
}

#[cfg(test)]
mod tests;
