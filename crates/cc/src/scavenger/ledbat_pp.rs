//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus-01) and its enhanced target (Bagnulo 2023 §7).
//!
//! Delay is measured as RTT, the increase is slowed by the base RTT, the decrease is multiplicative, and periodic
//! slowdowns drain the queue so that every flow sees the base RTT. Knows nothing of retransmissions or pacing.

mod config;
mod law;
mod slowdown;

use lowtide_units::{Span, Time};

use crate::controller::{Controller, Start};
use crate::delay::{BaseDelay, CurrentDelay};
use crate::events::{Ack, Cause, Congestion, Restart, Snapshot};
use crate::params::{ParamError, Params};
use crate::round::Round;
pub use config::{Config, Decrease, RampExit};
pub use slowdown::{FIRST_SLOWDOWN_RTTS, FREEZE_RTTS, SLOWDOWN_INTERVAL_FACTOR};

/// Segments in the initial window, at the floor and during a freeze (-01 §4.4).
const MIN_SEGMENTS: u32 = 2;
/// Initial slow start ends above this part of the target (-01 §4.3).
const SLOW_START_EXIT: f64 = 0.75;

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("ledbat_pp")?;
    config.check()?;
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
    /// How much of the smoothed RTT is a queue on the way back that the samples leave out.
    way_back: Span,
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
    /// At a receiver: a slowdown has begun, what was permitted before is still arriving.
    Drain,
    Freeze {
        end: Time,
    },
    Ramp,
    SlowStartAfterTimeout,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::InitialSlowStart => "slow_start",
            Phase::Avoidance => "avoidance",
            Phase::Drain => "drain",
            Phase::Freeze { .. } => "freeze",
            Phase::Ramp => "ramp",
            Phase::SlowStartAfterTimeout => "slow_start_after_timeout",
        }
    }
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
            way_back: Span::ZERO,
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

    fn clamp(&mut self) {
        self.cwnd = self.cwnd.max(self.floor());
    }

    fn halve(&mut self) {
        self.ssthresh = (self.cwnd / 2.0).max(self.floor());
        self.cwnd = self.ssthresh;
    }

    fn on_loss(&mut self, event: &Congestion) {
        match self.phase {
            Phase::Drain | Phase::Freeze { .. } => {
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
        self.way_back = ack.way_back;
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
            Phase::Drain | Phase::Freeze { .. } => self.cwnd = self.floor(),
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
        if matches!(self.phase, Phase::InitialSlowStart | Phase::Drain | Phase::Freeze { .. }) {
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
        let span = |ns: f64| Span::from_nanos(ns as u64);
        Snapshot {
            base_delay: self.base.min().map(|ns| span(ns as f64)),
            queueing_delay: self.queueing_ns().map(span),
            ..Snapshot::of(self.cwnd(), self.ssthresh, self.phase.name())
        }
    }
}

#[cfg(test)]
mod tests;
