//! What of LEDBAT++ can be set, and what is allowed. Knows no window.

use serde::Deserialize;

use crate::params::{ParamError, require};

/// Parameters; the defaults are the draft's.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Queueing-delay target T (-01 §4.2: 60 ms).
    pub target_ms: f64,
    /// Use min(T, base RTT) as the target (Bagnulo 2023 §7). The gain keeps T.
    pub enhanced: bool,
    /// The target is never below this (the draft has no such thing: 0): a host cannot tell a shorter delay from its own noise.
    pub least_target_ms: f64,
    /// The host is a receiver, whose reductions are paid with received bytes: a slowdown begins with a drain, and the window grows only while
    /// it is the limit.
    pub receiver: bool,
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
    /// To one half as soon as the delay is above the target, then none for one RTT: the pseudo-code of Bagnulo 2023, Fig. 2,
    /// whose β_d has no value; here that of a loss.
    Halve,
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
            least_target_ms: 0.0,
            receiver: false,
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

impl Config {
    pub(super) fn check(&self) -> Result<(), ParamError> {
        require(self.target_ms > 0.0, "ledbat_pp", "target_ms must be above 0")?;
        require(self.burst_segments >= 0.0, "ledbat_pp", "burst_segments must not be negative")?;
        require(self.max_gain_divisor >= 1.0, "ledbat_pp", "max_gain_divisor must be at least 1")
    }
}
