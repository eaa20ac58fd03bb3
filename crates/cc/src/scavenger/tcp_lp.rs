//! TCP-LP (Kuzmanovic 2003 through RFC 6297 §4.1 and Carofiglio 2010): Reno that withdraws when the smoothed one-way delay
//! passes 15 % of the range seen. Knows nothing of retransmissions; without one-way delays it is Reno.

use lowtide_units::{Span, Time};
use serde::Deserialize;

use crate::controller::{Controller, Start};
use crate::events::{Ack, Cause, Congestion, Restart, Snapshot};
use crate::params::{ParamError, Params, require};

/// Parameters; the defaults are RFC 6297's description (§4.1), and where it names no number those of Linux's `tcp_lp.c`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// δ: the part of the delay range whose passing is an early congestion indication (0.15).
    pub threshold: f64,
    /// The weight of a new delay in the smoothed one (1/8).
    pub smoothing: f64,
    /// The inference phase in RTTs (Linux: 3).
    pub inference_rtts: f64,
    /// When an indication that persists takes the window to the floor.
    pub persist: Persist,
    /// The floor in segments (RFC 6297, Linux: 1).
    pub min_segments: f64,
}

/// When a second indication counts as persistent congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Persist {
    /// Within the inference phase (RFC 6297).
    During,
    /// At its end; within it the window is only held (Carofiglio 2010).
    After,
}

impl Default for Config {
    fn default() -> Config {
        Config { threshold: 0.15, smoothing: 0.125, inference_rtts: 3.0, persist: Persist::During, min_segments: 1.0 }
    }
}

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("tcp_lp")?;
    require(config.threshold > 0.0 && config.threshold < 1.0, "tcp_lp", "threshold must lie between 0 and 1")?;
    require(config.smoothing > 0.0 && config.smoothing <= 1.0, "tcp_lp", "smoothing must be above 0 and at most 1")?;
    require(config.inference_rtts >= 0.0, "tcp_lp", "inference_rtts must be at least 0")?;
    require(config.min_segments > 0.0 && config.min_segments.is_finite(), "tcp_lp", "min_segments must be above 0")?;
    Ok(Box::new(TcpLp::new(config, start)))
}

/// Delays in ns after the first one seen, so that the zero point of the clocks cannot matter.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Delays {
    origin: i64,
    min: f64,
    max: f64,
    smoothed: f64,
}

/// The state of one TCP-LP flow.
#[derive(Debug)]
pub struct TcpLp {
    config: Config,
    mss: f64,
    cwnd: f64,
    ssthresh: f64,
    delays: Option<Delays>,
    /// Until the first loss the largest delay is still being learned, and indications mean nothing.
    learning: bool,
    reacted: Option<Time>,
    inference: Span,
    /// An inference phase whose end has not been judged yet (`Persist::After`).
    inferring: bool,
    before_episode: (f64, f64),
}

impl TcpLp {
    /// A flow at its initial window.
    pub fn new(config: Config, start: &Start) -> TcpLp {
        let cwnd = start.window_or(10) as f64;
        TcpLp {
            config,
            mss: f64::from(start.mss),
            cwnd,
            ssthresh: f64::INFINITY,
            delays: None,
            learning: true,
            reacted: None,
            inference: Span::ZERO,
            inferring: false,
            before_episode: (cwnd, f64::INFINITY),
        }
    }

    fn floor(&self) -> f64 {
        self.config.min_segments * self.mss
    }

    fn observe(&mut self, ack: &Ack) {
        let Some(owd) = ack.owd else { return };
        let d = self.delays.get_or_insert(Delays { origin: owd, min: 0.0, max: 0.0, smoothed: 0.0 });
        let delay = (owd - d.origin) as f64;
        d.min = d.min.min(delay);
        d.max = d.max.max(delay);
        d.smoothed += (delay - d.smoothed) * self.config.smoothing;
    }

    /// The smoothed delay is above δ of its range; never without a new delay.
    fn early_indication(&self, ack: &Ack) -> bool {
        ack.owd.is_some() && self.delays.is_some_and(|d| d.smoothed > d.min + self.config.threshold * (d.max - d.min))
    }

    fn react(&mut self, now: Time, rtt: Span, to_floor: bool) {
        self.cwnd = if to_floor { self.floor() } else { (self.cwnd / 2.0).max(self.floor()) };
        self.ssthresh = self.cwnd.max(2.0 * self.mss);
        self.reacted = Some(now);
        self.inference = rtt.mul_f64(self.config.inference_rtts);
        self.inferring = true;
    }

    /// An early indication halves the window, another one in the inference phase leaves one segment (RFC 6297 §4.1). True if the window is
    /// not to grow on this acknowledgement.
    fn withdraw(&mut self, ack: &Ack) -> bool {
        let rtt = ack.rtt.unwrap_or(ack.srtt);
        let indicated = self.early_indication(ack);
        let inside = self.reacted.is_some_and(|at| ack.now < at + self.inference);
        let persistent = match self.config.persist {
            Persist::During => inside,
            Persist::After if inside => return true,
            Persist::After => std::mem::take(&mut self.inferring),
        };
        // One reaction an RTT: what a reaction does shows one RTT later.
        if indicated && self.reacted.is_none_or(|at| ack.now >= at + rtt) {
            self.react(ack.now, rtt, persistent);
            return true;
        }
        inside
    }

    /// RFC 5681 by bytes.
    fn grow(&mut self, ack: &Ack) {
        let slow_start = self.cwnd < self.ssthresh;
        if !ack.may_grow(self.cwnd(), slow_start) {
            return;
        }
        if slow_start {
            self.cwnd = (self.cwnd + ack.acked as f64).min(self.ssthresh);
        } else {
            self.cwnd += self.mss * ack.acked as f64 / self.cwnd;
        }
    }
}

impl Controller for TcpLp {
    fn on_ack(&mut self, ack: &Ack) {
        self.observe(ack);
        if ack.in_recovery || (!self.learning && self.withdraw(ack)) {
            return;
        }
        self.grow(ack);
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.before_episode = (self.cwnd, self.ssthresh);
        self.learning = false;
        self.reacted = Some(event.now);
        match event.cause {
            Cause::Loss | Cause::Ecn => {
                self.ssthresh = (self.cwnd / 2.0).max(2.0 * self.mss);
                self.cwnd = self.cwnd.min(self.ssthresh);
            }
            Cause::Timeout => {
                self.ssthresh = (event.in_flight as f64 / 2.0).max(2.0 * self.mss);
                self.cwnd = self.cwnd.min(self.mss);
            }
        }
    }

    fn on_restart(&mut self, restart: &Restart) {
        if restart.idle > restart.rto {
            self.cwnd = self.cwnd.min(10.0 * self.mss);
        }
    }

    fn on_undo(&mut self, _now: Time) {
        (self.cwnd, self.ssthresh) = self.before_episode;
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = f64::from(mss);
    }

    fn cwnd(&self) -> u64 {
        (self.cwnd as u64).max(1)
    }

    fn snapshot(&self) -> Snapshot {
        let phase = match (self.learning, self.inferring, self.cwnd < self.ssthresh) {
            (true, _, _) => "learning",
            (_, true, _) => "inference",
            (_, _, true) => "slow_start",
            _ => "avoidance",
        };
        // One-way delays have an arbitrary zero: the base means nothing to a reader.
        let queueing_delay = self.delays.map(|d| Span::from_nanos((d.smoothed - d.min) as u64));
        Snapshot { queueing_delay, ..Snapshot::of(self.cwnd(), self.ssthresh, phase) }
    }
}

#[cfg(test)]
mod tests;
