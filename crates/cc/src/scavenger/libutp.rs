//! libutp's congestion control (`apply_ccontrol`, commit 3110314) and that of libutp-mod (Alsaadi 2018, commit 0c452e1): LEDBAT
//! with a fixed number of bytes per RTT. Window arithmetic as in the source: doubles, cut to whole bytes at every step. Knows
//! neither uTP's packets nor its retransmissions.

mod history;

use lowtide_units::{Span, Time};
use serde::Deserialize;

use crate::controller::{Controller, Start};
use crate::events::{Ack, Cause, Congestion, Snapshot};
use crate::params::{ParamError, Params, require};
pub use history::DelayHistory;
use history::Drift;

/// Parameters; the defaults are libutp's.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Target delay (CCONTROL_TARGET: 100 ms).
    pub target_ms: f64,
    /// MAX_CWND_INCREASE_BYTES_PER_RTT: 3000; libutp-mod one packet, 1382.
    pub gain_bytes: f64,
    /// The least time between two halvings.
    pub loss_gate: LossGate,
    /// The window's maximum in bytes (opt_sndbuf: 1 MiB), also the first slow-start threshold.
    pub max_window: u64,
}

/// The least time between two halvings (`maybe_decay_win`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossGate {
    /// MAX_WINDOW_DECAY, 100 ms whatever the RTT: libutp.
    Fixed,
    /// One smoothed RTT: libutp-mod.
    Srtt,
}

impl Default for Config {
    fn default() -> Config {
        Config { target_ms: 100.0, gain_bytes: 3000.0, loss_gate: LossGate::Fixed, max_window: 1 << 20 }
    }
}

/// What libutp-mod changes in the window (its commit 0c452e1).
pub(crate) const MOD: &str = "gain_bytes = 1382.0\nloss_gate = \"srtt\"";

/// MIN_WINDOW_SIZE.
const MIN_WINDOW: u64 = 10;
/// MAX_WINDOW_DECAY.
const MAX_WINDOW_DECAY: Span = Span::from_millis(100);
/// No growth after this long without a send that the window refused.
const MAXED_OUT: Span = Span::from_millis(1000);
/// Slow start ends above this part of the target.
const SLOW_START_EXIT: f64 = 0.9;
/// Clocks that drift apart faster than this, in µs per 5 s, are taken for a cheat and penalised.
const DRIFT_ALLOWED: i64 = 200_000;

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("libutp")?;
    require(config.target_ms > 0.0, "libutp", "target_ms must be above 0")?;
    require(config.gain_bytes > 0.0 && config.gain_bytes.is_finite(), "libutp", "gain_bytes must be above 0")?;
    require(config.max_window >= MIN_WINDOW, "libutp", "max_window must be at least 10 bytes")?;
    Ok(Box::new(Libutp::new(config, start)))
}

/// The state of one connection.
#[derive(Debug)]
pub struct Libutp {
    config: Config,
    packet: u64,
    window: u64,
    ssthresh: u64,
    slow_start: bool,
    history: DelayHistory,
    drift: Drift,
    decayed: Option<Time>,
    maxed_out: Option<Time>,
}

impl Libutp {
    /// A connection at its initial window of one packet.
    pub fn new(config: Config, start: &Start) -> Libutp {
        Libutp {
            config,
            packet: u64::from(start.mss),
            window: start.window_or(1).min(config.max_window),
            ssthresh: config.max_window,
            slow_start: true,
            history: DelayHistory::default(),
            drift: Drift::new(start.now),
            decayed: None,
            maxed_out: None,
        }
    }

    /// The queueing delay in µs with the penalty for a drifting clock (`apply_ccontrol`: `our_delay`).
    fn delay_us(&self, rtt: Option<Span>) -> i64 {
        let rtt_us = rtt.map_or(i64::MAX, |rtt| (rtt.nanos() / 1000) as i64);
        let delay = self.history.value().min(rtt_us);
        let drift = self.drift.per_five_seconds();
        if drift < -DRIFT_ALLOWED { delay + (-drift - DRIFT_ALLOWED) / 7 } else { delay }
    }

    /// What `apply_ccontrol` makes of a delay: the gain, none while the window was not the limit, then slow start or LEDBAT, then the bounds.
    fn apply(&mut self, now: Time, acked: u64, delay_us: i64) {
        let target = self.config.target_ms * 1e3;
        let window = self.window as f64;
        let part = acked.min(self.window) as f64 / acked.max(self.window) as f64;
        let mut gain = self.config.gain_bytes * part * ((target - delay_us as f64) / target);
        if gain > 0.0 && self.maxed_out.is_none_or(|at| now.since(at) > MAXED_OUT) {
            gain = 0.0;
        }
        let ledbat = ((window + gain).max(MIN_WINDOW as f64)) as u64;
        if !self.slow_start {
            self.window = ledbat;
        } else {
            let slow_start = (window + part * self.packet as f64) as u64;
            if slow_start > self.ssthresh {
                self.slow_start = false;
            } else if delay_us as f64 > target * SLOW_START_EXIT {
                self.slow_start = false;
                self.ssthresh = self.window;
            } else {
                self.window = slow_start.max(ledbat);
            }
        }
        self.window = self.window.clamp(MIN_WINDOW, self.config.max_window);
    }

    /// `maybe_decay_win`: both programs count in whole milliseconds.
    fn decay(&mut self, now: Time, srtt: Span) {
        let gate = match self.config.loss_gate {
            LossGate::Fixed => MAX_WINDOW_DECAY,
            LossGate::Srtt => Span::from_millis(srtt.nanos() / 1_000_000),
        };
        if self.decayed.is_some_and(|at| now.since(at) < gate) {
            return;
        }
        self.window = (self.window / 2).max(MIN_WINDOW);
        self.slow_start = false;
        self.ssthresh = self.window;
        self.decayed = Some(now);
    }
}

impl Controller for Libutp {
    fn on_ack(&mut self, ack: &Ack) {
        // `last_maxed_out_window` is the time of the refusal, which an acknowledgement may be long in following.
        match ack.limited_at {
            Some(at) => self.maxed_out = Some(at),
            None if ack.cwnd_limited => self.maxed_out = Some(ack.now),
            None => {}
        }
        let Some(owd) = ack.owd else { return };
        let delay_us = owd.div_euclid(1000);
        self.history.add(ack.now, delay_us);
        self.drift.add(ack.now, delay_us);
        if let Some(rtt) = ack.rtt {
            self.history.bound_by((rtt.nanos() / 1000) as i64);
        }
        if ack.acked > 0 && !ack.in_recovery {
            self.apply(ack.now, ack.acked, self.delay_us(ack.rtt));
        }
    }

    /// A loss is told at every repair here: the gate is the algorithm's own.
    fn on_congestion(&mut self, event: &Congestion) {
        match event.cause {
            Cause::Loss | Cause::Ecn => self.decay(event.now, event.srtt),
            // An idle connection only shrinks towards one packet.
            Cause::Timeout if event.in_flight == 0 && self.window > self.packet => {
                self.window = (self.window * 2 / 3).max(self.packet);
            }
            Cause::Timeout => {
                self.window = self.packet.min(self.config.max_window);
                self.slow_start = true;
            }
        }
    }

    fn on_mss(&mut self, mss: u32) {
        self.packet = u64::from(mss);
    }

    fn hears_every_loss(&self) -> bool {
        true
    }

    fn cwnd(&self) -> u64 {
        self.window
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            cwnd: self.window,
            ssthresh: Some(self.ssthresh),
            // One-way delays have an arbitrary zero: the base means nothing to a reader.
            base_delay: None,
            queueing_delay: Some(Span::from_micros(self.history.value().max(0) as u64)),
            phase: if self.slow_start { "slow_start" } else { "avoidance" },
        }
    }
}

#[cfg(test)]
mod tests;
