//! LEDBAT (RFC 6817), and the parameters that make it its 2009 draft (draft-shalunov-ledbat-congestion-00).
//!
//! One-way delay steers a linear controller to a fixed queueing delay. Knows nothing of retransmissions or pacing. A host
//! without one-way delays leaves the window where slow start left it.

use lowtide_units::Span;
use serde::Deserialize;

use crate::controller::{Controller, Start};
use crate::delay::{BaseDelay, CurrentDelay};
use crate::events::{Ack, Cause, Congestion, Restart, Snapshot};
use crate::params::{ParamError, Params, require};

/// Parameters; the defaults are RFC 6817's.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// TARGET (RFC 6817 §3.3: at most 100 ms; the drafts of 2009: 25 ms).
    pub target_ms: f64,
    /// GAIN: segments per RTT while the queue is empty (§3.3: at most 1). Unset: 1.
    pub gain: Option<f64>,
    /// The same as the 2009 drafts write it, per second of offset: `gain = gain_per_s · target`. Give one of the two.
    pub gain_per_s: Option<f64>,
    /// ALLOWED_INCREASE in segments above what was in flight (§2.4.2: 1). `inf`: grow while the window is the limit, as the
    /// 2009 drafts, which have no such bound.
    pub allowed_increase: f64,
    /// Grow by one segment a round trip at most, whatever the gain (the drafts of 2009: never faster than TCP; `tcp_ledbat.c` of
    /// Rossi and Valenti).
    pub bounded: bool,
    /// MIN_CWND in segments (§2.4.2: 2).
    pub min_segments: f64,
    /// INIT_CWND in segments (§2.4.2: 2).
    pub initial_segments: u32,
    /// Whether to start, and to recover from a timeout, by slow start (§2.4.2 leaves it open).
    pub slow_start: SlowStart,
    /// Samples in CURRENT_FILTER, a minimum (§3.4.2: at least 4), none older than an RTT.
    pub filter_samples: usize,
    /// Samples in CURRENT_FILTER as a part of the window in segments, at least one, instead of a fixed number; 0: off. The 2009
    /// drafts allow up to one half.
    pub filter_window: f64,
    /// Drop samples older than a smoothed RTT (RFC 6817 §3.4.2; the 2009 drafts know no age).
    pub filter_ages: bool,
}

/// Which slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlowStart {
    /// None: the controller runs from the first acknowledgement.
    None,
    /// RFC 5681 by bytes, left when the queueing delay reaches the target.
    Reno,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            target_ms: 100.0,
            gain: None,
            gain_per_s: None,
            allowed_increase: 1.0,
            bounded: false,
            min_segments: 2.0,
            initial_segments: 2,
            slow_start: SlowStart::None,
            filter_samples: 4,
            filter_window: 0.0,
            filter_ages: true,
        }
    }
}

impl Config {
    /// GAIN in segments per RTT.
    pub fn gain(&self) -> f64 {
        self.gain_per_s.map_or(self.gain.unwrap_or(1.0), |g| g * self.target_ms / 1e3)
    }
}

/// Parameters that turn the RFC into the drafts of 2009 (gain 1 is their 40 per second at 25 ms), with the floor of Abu 2010.
pub const DRAFT_2009: &str = "target_ms = 25.0\nallowed_increase = inf\nmin_segments = 1.0";
/// The same with the bound on growth.
pub const DRAFT_2009_BOUNDED: &str = "target_ms = 25.0\nallowed_increase = inf\nmin_segments = 1.0\nbounded = true";

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("ledbat")?;
    check(&config, "ledbat")?;
    Ok(Box::new(Ledbat::new(config, start)))
}

/// Whether an implementation may run with `config`.
///
/// # Errors
/// An impossible parameter, told under the algorithm's `name`.
pub fn check(config: &Config, name: &str) -> Result<(), ParamError> {
    require(config.target_ms > 0.0, name, "target_ms must be above 0")?;
    require(config.gain.is_none() || config.gain_per_s.is_none(), name, "give gain or gain_per_s, not both")?;
    require(config.gain() > 0.0 && config.gain().is_finite(), name, "the gain must be above 0")?;
    require(config.allowed_increase >= 0.0, name, "allowed_increase must be at least 0")?;
    require(config.min_segments > 0.0 && config.min_segments.is_finite(), name, "min_segments must be above 0")?;
    require(config.filter_window >= 0.0 && config.filter_window.is_finite(), name, "filter_window must be at least 0")
}

/// The state of one LEDBAT flow.
#[derive(Debug)]
pub struct Ledbat {
    config: Config,
    mss: f64,
    cwnd: f64,
    ssthresh: f64,
    /// Both in ns.
    base: BaseDelay,
    current: CurrentDelay,
    before_episode: (f64, f64),
}

impl Ledbat {
    /// A flow at its initial window.
    pub fn new(config: Config, start: &Start) -> Ledbat {
        let cwnd = start.window_or(config.initial_segments) as f64;
        let ssthresh = if config.slow_start == SlowStart::None { 0.0 } else { f64::INFINITY };
        Ledbat {
            config,
            mss: f64::from(start.mss),
            cwnd,
            ssthresh,
            base: BaseDelay::ten_minutes(),
            current: CurrentDelay::new(config.filter_samples),
            before_episode: (cwnd, ssthresh),
        }
    }

    /// TARGET in ns.
    pub fn target_ns(&self) -> f64 {
        self.config.target_ms * 1e6
    }

    /// The queueing delay in ns; none before the first sample.
    pub fn queueing_ns(&self) -> Option<f64> {
        Some((self.current.min()? - self.base.min()?) as f64)
    }

    /// The window in segments.
    pub fn segments(&self) -> f64 {
        self.cwnd / self.mss
    }

    fn floor(&self) -> f64 {
        self.config.min_segments * self.mss
    }

    /// Takes the delay sample: base first, then the filter (§2.4.2).
    pub fn observe(&mut self, ack: &Ack) {
        if let Some(delay) = ack.owd {
            self.base.update(ack.now, delay);
            if self.config.filter_window > 0.0 {
                self.current.resize((self.config.filter_window * self.segments()) as usize);
            }
            self.current.push(ack.now, delay);
        }
        if self.config.filter_ages {
            self.current.forget(ack.now, ack.srtt);
        }
    }

    /// Moves the window with `gain` segments per RTT at an empty queue.
    pub fn steer(&mut self, ack: &Ack, gain: f64) {
        if ack.in_recovery {
            return;
        }
        let queueing = self.queueing_ns();
        if self.in_slow_start() {
            let at_target = queueing.is_some_and(|q| q >= self.target_ns());
            if !at_target {
                return self.slow_start(ack);
            }
            self.ssthresh = self.cwnd;
        }
        if let Some(queueing) = queueing {
            self.avoid(ack, gain, queueing);
        }
    }

    fn in_slow_start(&self) -> bool {
        match self.config.slow_start {
            SlowStart::None => false,
            SlowStart::Reno => self.cwnd < self.ssthresh,
        }
    }

    fn slow_start(&mut self, ack: &Ack) {
        if !ack.may_grow(self.cwnd(), true) {
            return;
        }
        self.cwnd = (self.cwnd + ack.acked as f64).min(self.ssthresh);
    }

    /// cwnd += GAIN · off_target · acked · MSS / cwnd, within what was in flight plus ALLOWED_INCREASE (§2.4.2).
    fn avoid(&mut self, ack: &Ack, gain: f64, queueing: f64) {
        let offset = (self.target_ns() - queueing) / self.target_ns();
        let steps = if self.config.bounded { (gain * offset).min(1.0) } else { gain * offset };
        let change = steps * ack.acked as f64 * self.mss / self.cwnd;
        if self.config.allowed_increase.is_finite() {
            let most = ack.in_flight as f64 + self.config.allowed_increase * self.mss;
            self.cwnd = (self.cwnd + change).min(most);
        } else if change < 0.0 || ack.may_grow(self.cwnd(), false) {
            self.cwnd += change;
        }
        self.cwnd = self.cwnd.max(self.floor());
    }
}

impl Controller for Ledbat {
    fn on_ack(&mut self, ack: &Ack) {
        self.observe(ack);
        self.steer(ack, self.config.gain());
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.before_episode = (self.cwnd, self.ssthresh);
        let timeout = event.cause == Cause::Timeout;
        if self.config.slow_start == SlowStart::Reno {
            self.ssthresh = (event.in_flight as f64 / 2.0).max(2.0 * self.mss);
        }
        // The outer minimum: a window of one segment after a timeout is not raised to MIN_CWND.
        self.cwnd = self.cwnd.min(if timeout { self.mss } else { (self.cwnd / 2.0).max(self.floor()) });
        if !timeout {
            self.ssthresh = self.ssthresh.min(self.cwnd);
        }
    }

    fn on_restart(&mut self, restart: &Restart) {
        if restart.idle <= restart.rto {
            return;
        }
        self.current.clear();
        // With a finite ALLOWED_INCREASE the first acknowledgement bounds the window by what is in flight.
        if self.config.allowed_increase.is_infinite() {
            self.cwnd = self.cwnd.min(f64::from(self.config.initial_segments) * self.mss);
        }
    }

    fn on_undo(&mut self, _now: lowtide_units::Time) {
        (self.cwnd, self.ssthresh) = self.before_episode;
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = f64::from(mss);
    }

    fn cwnd(&self) -> u64 {
        (self.cwnd as u64).max(1)
    }

    fn snapshot(&self) -> Snapshot {
        let shown = self.config.slow_start != SlowStart::None && self.ssthresh.is_finite();
        Snapshot {
            cwnd: self.cwnd(),
            ssthresh: shown.then_some(self.ssthresh as u64),
            // One-way delays have an arbitrary zero: the base means nothing to a reader.
            base_delay: None,
            queueing_delay: self.queueing_ns().map(|ns| Span::from_nanos(ns as u64)),
            phase: if self.in_slow_start() { "slow_start" } else { "avoidance" },
        }
    }
}

#[cfg(test)]
mod tests;
