//! TCP-LP as ns-3.37 models it after Linux's module: what Kapetanidou 2024 measured as TcpLp. Whole milliseconds, a delay range
//! that starts afresh with every indication, and a reaction at every acknowledgement, so that a flow which sees any queue of
//! its own stays at a few segments. `tcp_lp` is the algorithm.

use lowtide_units::{Span, Time};
use serde::Deserialize;

use lowtide_cc::reno_base::{Base, Law, Rival, Window};
use lowtide_cc::scavenger::tcp_lp_range::DelayRange;
use lowtide_cc::{Ack, Congestion};
use lowtide_cc::{Controller, Start};
use lowtide_cc::{ParamError, Params};

/// The inference phase in RTTs.
const INFERENCE_RTTS: u64 = 3;

/// The parameters of ns-3's form, the only one.
pub const NS3: &str = "base = { per_ack = true, reduce_from = 'pipe', idle = 'keep' }\n";

/// Parameters.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The NewReno it stands on.
    pub base: Base,
}

/// The registry's constructor.
///
/// # Errors
/// Unknown parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("tcp_lp-ns3")?;
    Ok(Box::new(Rival::new(config.base, Lp::default(), start)))
}

/// Delays in whole milliseconds of the host's one-way clock, which both ends share in ns-3.
#[derive(Debug, Default)]
struct Lp {
    delays: DelayRange,
    last_drop: Option<Time>,
    inference: Span,
}

impl Lp {
    fn inferring(&self, now: Time) -> bool {
        self.last_drop.is_some_and(|at| now.since(at) < self.inference)
    }
}

impl Law for Lp {
    fn measure(&mut self, window: &mut Window, ack: &Ack) {
        if let Some(owd) = ack.owd.filter(|owd| *owd > 0) {
            self.delays.sample((owd / 1_000_000) as u32);
        }
        if let Some(age) = ack.echo_age.filter(|age| *age > Span::ZERO) {
            self.inference = age * INFERENCE_RTTS;
        }
        let inferring = self.inferring(ack.now);
        if self.delays.smoothed() > self.delays.threshold() {
            self.delays.start_afresh();
            window.cwnd = if inferring { 1.0 } else { (window.cwnd / 2.0).max(1.0) };
            self.last_drop = Some(ack.now);
        }
    }

    /// NewReno, whose congestion avoidance rests during inference.
    fn adjust(&mut self, window: &mut Window, ack: &Ack) {
        let rest = window.slow_start_on(ack);
        if rest > 0.0 && !self.inferring(ack.now) {
            window.avoid_as_reno(rest);
        }
    }

    fn reduce(&mut self, window: &mut Window, event: &Congestion) {
        window.halve(event);
    }

    fn delays(&self) -> (Option<Span>, Option<Span>) {
        (None, self.delays.queueing().map(|ms| Span::from_millis(u64::from(ms))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> Rival<Lp> {
        let base = Base { per_ack: true, ..Base::default() };
        Rival::new(base, Lp::default(), &Start { mss: 1000, ..Start::default() })
    }

    fn ack(at_ms: u64, owd_ms: i64) -> Ack {
        Ack {
            now: Time::from_millis(at_ms),
            acked: 1000,
            in_flight: 10_000,
            echo_age: Some(Span::from_millis(50)),
            owd: Some(owd_ms * 1_000_000),
            cwnd_limited: true,
            ..Ack::default()
        }
    }

    /// s: 25, then towards 60: 29, 33, 36; the range 25 to 60 has its threshold at 30.
    #[test]
    fn the_range_starts_afresh_at_every_indication_and_a_second_one_leaves_a_segment() {
        let mut flow = flow();
        flow.on_ack(&ack(0, 25));
        assert_eq!((flow.law.delays.smoothed(), flow.law.delays.min, flow.window.cwnd), (25, 25, 11.0));
        flow.on_ack(&ack(1, 60));
        assert_eq!((flow.law.delays.smoothed(), flow.window.cwnd), (29, 6.5));
        assert_eq!((flow.law.delays.min, flow.law.delays.max), (29, 58));
        for n in 2..5 {
            flow.on_ack(&ack(n, 60));
        }
        assert!(flow.window.cwnd <= 3.0, "{} segments: every acknowledgement reacts, slow start adds one back", flow.window.cwnd);
    }

    /// An inference phase is three times the age of the echo, whatever the RTT: a second indication within it takes all but one.
    #[test]
    fn the_inference_phase_goes_by_the_echo() {
        let after = |gap_ms: u64| {
            let mut flow = flow();
            for (at, owd) in [(0, 25), (1, 60), (2, 60), (1 + gap_ms, 60)] {
                flow.law.measure(&mut flow.window, &ack(at, owd));
            }
            // The second: 29 of 25 and no more. Then 33 and 36 of 29 to 58, past its 33 with the fourth.
            flow.window.cwnd
        };
        assert_eq!((after(149), after(150)), (1.0, 2.5));
    }

    #[test]
    fn a_constant_delay_is_no_indication() {
        let mut flow = flow();
        for n in 0..100 {
            flow.on_ack(&ack(n, 25));
        }
        assert_eq!(flow.window.cwnd, 110.0);
    }
}
