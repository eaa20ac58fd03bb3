//! LEDBAT with dynamic gain (Abu 2010): the 2009 draft's controller whose gain, once the flow is steady, becomes one digit
//! that falls with the window. Knows only how the gain is chosen; the window is [`Ledbat`]'s.

use lowtide_units::Time;
use serde::Deserialize;

use crate::controller::{Controller, Start};
use crate::events::{Ack, Congestion, Restart, Snapshot};
use crate::params::{ParamError, Params, require};
use crate::scavenger::ledbat::{Config as LedbatConfig, Ledbat, check};

/// Parameters; the defaults are the paper's.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// TARGET (Abu 2010 §III: 25 ms).
    pub target_ms: f64,
    /// The gain before the flow is steady, in segments per RTT and second of offset (40: TCP's ramp at 25 ms).
    #[serde(alias = "gain_per_s")]
    pub initial_gain_per_s: f64,
    /// How the printed formula `10^⌈log10[cwnd]⌉ / cwnd` is read.
    pub reading: Reading,
    /// Acknowledgements in a row at or above the target that make the flow steady.
    pub steady_samples: u32,
    /// Samples in the current-delay filter.
    pub filter_samples: usize,
    /// The filter's length as a part of the window, as in [`crate::scavenger::ledbat`].
    pub filter_window: f64,
    /// Whether samples older than an RTT are dropped, as in [`crate::scavenger::ledbat`].
    pub filter_ages: bool,
    /// The window's floor in segments (Abu 2010: 1).
    pub min_segments: f64,
}

/// The exponent k of gain = 10^k / cwnd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// ⌈log10 cwnd⌉: a gain in [1, 10), as the text demands.
    Ceiling,
    /// ⌈log10 ⌊cwnd⌋⌉.
    FlooredCeiling,
    /// The number of cwnd's digits: 10 at exact powers of ten.
    Digits,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            target_ms: 25.0,
            initial_gain_per_s: 40.0,
            reading: Reading::Ceiling,
            steady_samples: 1,
            filter_samples: 4,
            filter_window: 0.0,
            filter_ages: true,
            min_segments: 1.0,
        }
    }
}

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("ledbat-dynamic")?;
    require(config.initial_gain_per_s > 0.0, "ledbat-dynamic", "initial_gain_per_s must be above 0")?;
    check(&ledbat_config(&config), "ledbat-dynamic")?;
    Ok(Box::new(LedbatDynamic::new(config, start)))
}

/// The parameters of the LEDBAT below it.
pub fn ledbat_config(config: &Config) -> LedbatConfig {
    LedbatConfig {
        target_ms: config.target_ms,
        allowed_increase: f64::INFINITY,
        min_segments: config.min_segments,
        filter_samples: config.filter_samples,
        filter_window: config.filter_window,
        filter_ages: config.filter_ages,
        ..LedbatConfig::default()
    }
}

/// The state of one flow.
#[derive(Debug)]
pub struct LedbatDynamic {
    config: Config,
    ledbat: Ledbat,
    at_target: u32,
    /// Latched when the queueing delay first reaches the target.
    steady: bool,
}

impl LedbatDynamic {
    /// A flow at its initial window of two segments.
    pub fn new(config: Config, start: &Start) -> LedbatDynamic {
        LedbatDynamic { config, ledbat: Ledbat::new(ledbat_config(&config), start), at_target: 0, steady: false }
    }

    fn gain_per_s(&self) -> f64 {
        if !self.steady {
            return self.config.initial_gain_per_s;
        }
        dynamic_gain(self.ledbat.segments(), self.config.reading)
    }

    fn look_for_steady_state(&mut self) {
        let reached = self.ledbat.queueing_ns().is_some_and(|q| q >= self.ledbat.target_ns());
        self.at_target = if reached { self.at_target + 1 } else { 0 };
        self.steady |= self.at_target >= self.config.steady_samples.max(1);
    }
}

/// 10^k / `segments`, in segments per RTT and second of offset.
pub fn dynamic_gain(segments: f64, reading: Reading) -> f64 {
    // The guard keeps exact powers of ten exact.
    let below = match reading {
        Reading::Ceiling => segments * (1.0 - 1e-12),
        Reading::FlooredCeiling => libm::floor(segments) * (1.0 - 1e-12),
        Reading::Digits => libm::floor(segments) + 0.5,
    };
    let mut power = 1.0;
    while power < below {
        power *= 10.0;
    }
    power / segments
}

impl Controller for LedbatDynamic {
    fn on_ack(&mut self, ack: &Ack) {
        self.ledbat.observe(ack);
        if !self.steady {
            self.look_for_steady_state();
        }
        let gain = self.gain_per_s() * self.config.target_ms / 1e3;
        self.ledbat.steer(ack, gain);
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.ledbat.on_congestion(event);
    }

    fn on_restart(&mut self, restart: &Restart) {
        self.ledbat.on_restart(restart);
    }

    fn on_undo(&mut self, now: Time) {
        self.ledbat.on_undo(now);
    }

    fn on_mss(&mut self, mss: u32) {
        self.ledbat.on_mss(mss);
    }

    fn cwnd(&self) -> u64 {
        self.ledbat.cwnd()
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot { phase: if self.steady { "steady" } else { "initial" }, ..self.ledbat.snapshot() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_units::Span;

    /// The printed formula, 10^⌈log₁₀[cwnd]⌉ / cwnd (Abu 2010), leaves open what the brackets mean: at 10, 10.5, 12 and 100 packets.
    #[test]
    fn gain_table_of_the_three_readings() {
        use Reading::{Ceiling, Digits, FlooredCeiling};
        let rows = [(Ceiling, [1.0, 9.52, 8.33, 1.0]), (FlooredCeiling, [1.0, 0.95, 8.33, 1.0]), (Digits, [10.0, 9.52, 8.33, 10.0])];
        for (reading, gains) in rows {
            for (segments, gain) in [10.0, 10.5, 12.0, 100.0].into_iter().zip(gains) {
                let got = dynamic_gain(segments, reading);
                assert!((got - gain).abs() < 0.005, "{reading:?} at {segments}: {got} is not {gain}");
            }
        }
    }

    #[test]
    fn the_gain_changes_once_the_target_is_reached_and_never_back() {
        let mut flow = LedbatDynamic::new(Config::default(), &Start { mss: 1000, initial_window: Some(12_000), ..Start::default() });
        let mut at = |ms: u64, owd_ms: i64| {
            let before = flow.ledbat.segments();
            let now = Time::from_millis(ms);
            flow.on_ack(&Ack {
                now,
                acked: 12_000,
                in_flight: 12_000,
                owd: Some(owd_ms * 1_000_000),
                srtt: Span::from_millis(1),
                cwnd_limited: true,
                ..Ack::default()
            });
            (flow.snapshot().phase, (flow.ledbat.segments() - before) * before / 12.0)
        };
        let (phase, change) = at(10, 50);
        assert_eq!(phase, "initial");
        assert!((change - 1.0).abs() < 1e-9, "40 per second and 25 ms: one segment per RTT, got {change}");
        assert_eq!(at(20, 75).0, "steady");
        let (phase, change) = at(30, 50);
        assert_eq!(phase, "steady");
        assert!((change - 0.025 * 10.0 / 13.0 * 10.0).abs() < 1e-9, "{change}");
    }
}
