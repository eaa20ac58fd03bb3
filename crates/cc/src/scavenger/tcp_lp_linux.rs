//! TCP-LP as Linux has it (`tcp_lp.c`, which ns-2's Linux agent runs too), for comparison with results obtained with it. It
//! differs from the paper's and RFC 6297's description in four ways, all of which make it less of a scavenger: every indication
//! forgets the extremes of the delay; one is reacted to at every acknowledgement; slow start may resume after one; and delays
//! count from the clocks' offset, so that hosts with unrelated clocks never see an indication. Knows nothing of retransmissions.

use lowtide_units::{Span, Time};
use serde::Deserialize;

use crate::controller::{Controller, Start};
use crate::events::{Ack, Congestion};
use crate::params::{ParamError, Params};
use crate::reno_base::{Base, Law, Rival, Window};
use crate::scavenger::tcp_lp_range::DelayRange;

/// Parameters.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The base's variant.
    pub base: Base,
    /// The receiver's clock against the sender's, in ms, added to every delay (a simulator's clocks agree: 0).
    pub clock_offset_ms: u32,
}

/// The inference phase in round-trip times.
const INFERENCE_RTTS: u64 = 3;

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("tcp_lp-linux")?;
    Ok(Box::new(Rival::new(config.base, TcpLpLinux::new(config), start)))
}

/// The state of one flow.
#[derive(Debug)]
pub struct TcpLpLinux {
    config: Config,
    delays: DelayRange,
    inference: Span,
    last_drop: Option<Time>,
    inferring: bool,
}

impl TcpLpLinux {
    /// A flow without samples.
    pub fn new(config: Config) -> TcpLpLinux {
        TcpLpLinux { config, delays: DelayRange::default(), inference: Span::ZERO, last_drop: None, inferring: false }
    }

    fn indicates(&self) -> bool {
        self.delays.smoothed() >= self.delays.threshold()
    }
}

impl Law for TcpLpLinux {
    fn measure(&mut self, window: &mut Window, ack: &Ack) {
        let Some(owd) = ack.owd else { return };
        self.delays.sample(((owd.unsigned_abs() / 1_000_000) as u32).wrapping_add(self.config.clock_offset_ms));
        if let Some(rtt) = ack.rtt {
            self.inference = rtt * INFERENCE_RTTS;
        }
        self.inferring = self.last_drop.is_some_and(|at| ack.now.since(at) < self.inference);
        if self.indicates() {
            self.delays.start_afresh();
            window.cwnd = if self.inferring { 1.0 } else { libm::floor(window.cwnd / 2.0).max(1.0) };
            self.last_drop = Some(ack.now);
        }
    }

    fn adjust(&mut self, window: &mut Window, ack: &Ack) {
        if !self.inferring {
            window.grow_as_reno(ack);
        }
    }

    fn reduce(&mut self, window: &mut Window, event: &Congestion) {
        window.halve(event);
    }

    fn phase(&self) -> &'static str {
        if self.inferring { "inference" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(offset: u32) -> (TcpLpLinux, Window) {
        let start = Start { mss: 1000, initial_window: Some(40_000), ..Start::default() };
        (TcpLpLinux::new(Config { clock_offset_ms: offset, ..Config::default() }), Window::new(Base::default(), &start))
    }

    fn ack(at_ms: u64, owd_ms: i64) -> Ack {
        let rtt = Span::from_millis(50);
        Ack { now: Time::from_millis(at_ms), acked: 1000, owd: Some(owd_ms * 1_000_000), rtt: Some(rtt), srtt: rtt, ..Ack::default() }
    }

    /// The first sample is an indication (25 >= 25), and the range becomes 25 … 50.
    #[test]
    fn the_first_sample_halves() {
        let (mut law, mut window) = flow(0);
        law.measure(&mut window, &ack(100, 25));
        assert_eq!((window.cwnd, law.delays.min, law.delays.max), (20.0, 25, 50));
        law.measure(&mut window, &ack(150, 25));
        assert_eq!((window.cwnd, law.inferring), (20.0, true), "25 < 25 + 15 % of 25");
    }

    /// A standing queue is forgotten: min follows the smoothed delay while the delay stays at 60. In eighths it is
    /// 200, 235, 266, 293, 317; the thresholds are 28, 29 + 4, 33 + 4: indications at 29, 33 and 39.
    #[test]
    fn the_base_creeps_up_to_a_standing_queue() {
        let (mut law, mut window) = flow(0);
        law.measure(&mut window, &ack(100, 25));
        let mut seen = vec![law.delays.min];
        for n in 1..40 {
            law.measure(&mut window, &ack(100 + 1000 * n, 60));
            if seen.last() != Some(&law.delays.min) {
                seen.push(law.delays.min);
            }
        }
        assert_eq!(seen[..4], [25, 29, 33, 39]);
        assert!(*seen.last().expect("some") > 45 && !law.indicates(), "{seen:?}");
    }

    /// An unrelated clock lifts the threshold to 15 % of its own offset: nothing is ever an indication again.
    #[test]
    fn an_offset_of_the_clocks_makes_it_reno() {
        let (mut law, mut window) = flow(1_000_000);
        law.measure(&mut window, &ack(100, 25));
        window.cwnd = 40.0;
        (0..1000).for_each(|n| law.measure(&mut window, &ack(200 + n, 145)));
        assert_eq!(window.cwnd, 40.0);
    }

    /// Two indications within three round trips leave one segment.
    #[test]
    fn a_second_indication_within_the_inference_phase_takes_all() {
        let (mut law, mut window) = flow(0);
        law.measure(&mut window, &ack(100, 25));
        (0..6).for_each(|n| law.measure(&mut window, &ack(110 + n, 200)));
        assert_eq!(window.cwnd, 1.0);
    }
}
