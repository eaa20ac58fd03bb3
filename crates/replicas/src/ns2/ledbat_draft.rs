//! LEDBAT's draft of 2009 and its dynamic gain as Abu 2010 ran them in ns-2.34: `lowtide-cc`'s algorithms by a clock that counts
//! seconds in double precision. ns-2 adds a hop's delay to that clock at each hop (`common/scheduler.cc`, `Scheduler::schedule`:
//! `e->time_ = clock_ + delay`), so that equal delays differ by what the sums round off, and a delay exactly at the target is above
//! or below it by chance. Delays count in femtoseconds here. For comparison with that paper only.

use lowtide_cc::params::require;
use lowtide_cc::scavenger::ledbat::{self, Ledbat};
use lowtide_cc::scavenger::ledbat_dynamic::{self, dynamic_gain, ledbat_config};
use lowtide_cc::{Ack, Congestion, Controller, ParamError, Params, Restart, Snapshot, Start};
use lowtide_units::{Span, Time};
use serde::Deserialize;

use crate::contract::Replica;

/// Small beside what ns-2's scheduler rounds off: 14 fs at 100 s.
const FS_PER_NS: f64 = 1e6;
/// The clock's own parameter, beside those of the algorithm.
const HOPS: &str = "hops_ms";

/// The clock's parameter.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Clock {
    /// The delays of the idle path's hops, in their order; zeros: an exact clock.
    hops_ms: [f64; 3],
}

/// `ledbat-2009-ns2`: `ledbat-2009` and the path's three hops, `hops_ms`.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Replica>, ParamError> {
    let (hops_ms, params) = split(params, "ledbat-2009-ns2")?;
    let preset = Params::from_toml(ledbat::DRAFT_2009).unwrap_or_default();
    let params = params.over(&preset);
    let config: ledbat::Config = params.read("ledbat-2009-ns2")?;
    ledbat::check(&config, "ledbat-2009-ns2")?;
    Ok(Box::new(LedbatDraft::new(config, Gain::Fixed(config.gain()), hops_ms, start)))
}

/// `ledbat-dynamic-ns2`: `ledbat-dynamic` likewise.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build_dynamic(params: &Params, start: &Start) -> Result<Box<dyn Replica>, ParamError> {
    let (hops_ms, params) = split(params, "ledbat-dynamic-ns2")?;
    let config: ledbat_dynamic::Config = params.read("ledbat-dynamic-ns2")?;
    require(config.initial_gain_per_s > 0.0, "ledbat-dynamic-ns2", "initial_gain_per_s must be above 0")?;
    ledbat::check(&ledbat_config(&config), "ledbat-dynamic-ns2")?;
    Ok(Box::new(LedbatDraft::new(ledbat_config(&config), Gain::Dynamic { config, at_target: 0, steady: false }, hops_ms, start)))
}

fn split(params: &Params, name: &str) -> Result<([f64; 3], Params), ParamError> {
    let (own, rest) = params.split(HOPS);
    let clock: Clock = own.read(name)?;
    require(clock.hops_ms.iter().all(|hop| *hop >= 0.0), name, "hops_ms must be at least 0")?;
    Ok((clock.hops_ms, rest))
}

/// GAIN, in segments per RTT.
#[derive(Clone, Copy, Debug)]
enum Gain {
    Fixed(f64),
    /// As `ledbat-dynamic`.
    Dynamic {
        config: ledbat_dynamic::Config,
        at_target: u32,
        steady: bool,
    },
}

/// The state of one flow.
#[derive(Debug)]
pub struct LedbatDraft {
    /// Told delays in fs, and its target likewise: the algorithm knows ratios and differences of delays only.
    ledbat: Ledbat,
    gain: Gain,
    hops_ms: [f64; 3],
}

impl LedbatDraft {
    fn new(config: ledbat::Config, gain: Gain, hops_ms: [f64; 3], start: &Start) -> LedbatDraft {
        let config = ledbat::Config { target_ms: config.target_ms * FS_PER_NS, ..config };
        LedbatDraft { ledbat: Ledbat::new(config, start), gain, hops_ms }
    }

    fn gain(&mut self) -> f64 {
        let reached = self.ledbat.queueing_ns().is_some_and(|queueing| queueing >= self.ledbat.target_ns());
        let segments = self.ledbat.segments();
        let (config, steady) = match &mut self.gain {
            Gain::Fixed(gain) => return *gain,
            Gain::Dynamic { config, at_target, steady } => {
                *at_target = if reached { *at_target + 1 } else { 0 };
                *steady |= *at_target >= config.steady_samples.max(1);
                (config, *steady)
            }
        };
        let per_s = if steady { dynamic_gain(segments, config.reading) } else { config.initial_gain_per_s };
        per_s * config.target_ms / 1e3
    }
}

/// What the scheduler adds to the delay of a packet `sent` over an idle path, in fs.
fn rounding(sent: Time, hops_ms: [f64; 3]) -> i64 {
    let arrived = hops_ms.iter().fold(sent.secs_f64(), |clock, hop| clock + hop / 1e3);
    let exact = hops_ms.iter().sum::<f64>() / 1e3;
    ((arrived - sent.secs_f64() - exact) * 1e9 * FS_PER_NS) as i64
}

impl Replica for LedbatDraft {}

impl Controller for LedbatDraft {
    fn on_ack(&mut self, ack: &Ack) {
        let by_clock = |(owd, rtt): (i64, Span)| owd * FS_PER_NS as i64 + rounding(ack.now - rtt, self.hops_ms);
        let ack = Ack { owd: ack.owd.zip(ack.rtt).map(by_clock), ..*ack };
        self.ledbat.observe(&ack);
        let gain = self.gain();
        self.ledbat.steer(&ack, gain);
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
        let snapshot = self.ledbat.snapshot();
        let phase = match self.gain {
            Gain::Fixed(_) => snapshot.phase,
            Gain::Dynamic { steady, .. } => {
                if steady {
                    "steady"
                } else {
                    "initial"
                }
            }
        };
        let queueing_delay = self.ledbat.queueing_ns().map(|fs| Span::from_nanos((fs / FS_PER_NS) as u64));
        Snapshot { phase, queueing_delay, ..snapshot }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of 6.2, 28 and 6.2 ms in doubles: 0.040 399 999 999 998 215 s from 41.6 s on, 0.040 400 000 000 019 53 s from 83.2 s on.
    #[test]
    fn equal_delays_differ_by_what_the_sums_round_off() {
        let hops = [6.2, 28.0, 6.2];
        assert_eq!(rounding(Time::from_millis(41_600), hops), -1);
        assert_eq!(rounding(Time::from_millis(83_200), hops), 19);
        assert_eq!(rounding(Time::from_millis(83_200), hops), rounding(Time::from_millis(100_003), hops));
        assert_eq!(rounding(Time::from_millis(83_200), [0.0; 3]), 0);
    }

    /// 40 ms at the base and 40 ms above 64 s: an exact clock sees an empty queue, ns-2's 20 fs.
    #[test]
    fn a_clock_of_doubles_sees_a_queue_in_its_rounding() {
        let queueing = |hops_ms| {
            let config = ledbat::Config { filter_samples: 1, ..ledbat::Config::default() };
            let mut flow = LedbatDraft::new(config, Gain::Fixed(1.0), hops_ms, &Start::default());
            for at in [41_640, 83_240] {
                let ms = Span::from_millis(40);
                let now = Time::from_millis(at);
                flow.on_ack(&Ack { now, acked: 1448, owd: Some(40_400_000), rtt: Some(ms), srtt: ms, ..Ack::default() });
            }
            flow.ledbat.queueing_ns().expect("two samples")
        };
        assert_eq!(queueing([0.0; 3]), 0.0);
        assert_eq!(queueing([6.2, 28.0, 6.2]), 20.0);
    }
}
