//! LEDBAT as its first simulations ran it: `tcp_ledbat.c` of Valenti, Testa and Rossi (Télécom ParisTech, June 2009) in ns-2's
//! Linux agent, with which Carofiglio 2010 was measured. Whole packets and whole milliseconds; the minimum of the last two delays;
//! no slow start; each acknowledgement counts its offset from the target towards a packet more, or one less at once when the
//! count falls below zero. For comparison with that paper only. Knows nothing of retransmissions.
//!
//! Source: the module for ns-2 (with `ns-linux-c.h`, the ICCCN 2010 notice and the defaults below), from which the kernel module
//! github.com/silviov/TCP-LEDBAT (7d348ea, the first commit) differs in two ways: there the delay is scaled by the estimated rate of the
//! receiver's clock, as in `tcp_lp_ns2`, and the histories hold one sample more.

use lowtide_units::Span;
use serde::Deserialize;

use super::window::{Agent, Module, Window};
use crate::contract::{Beside, Replica};
use crate::ns2::clock::{RemoteClock, timestamps};
use lowtide_cc::delay::{BaseDelay, CurrentDelay};
use lowtide_cc::params::{ParamError, Params, require};
use lowtide_cc::{Ack, Start};

/// Parameters; the defaults are the module's.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// `target`, cut to whole milliseconds: the module takes an integer.
    pub target_ms: f64,
    /// `alpha1 / alpha2`: packets a round trip at an empty queue, were it not for the bound of one.
    pub gain: f64,
    /// `noise_filter_len`: one more than the delays whose minimum is the current delay.
    pub noise_filter_len: usize,
    /// `base_histo_len`: one more than the minutes that the base delay is remembered.
    pub base_histo_len: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config { target_ms: 25.0, gain: 1.0, noise_filter_len: 3, base_histo_len: 6 }
    }
}

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Replica>, ParamError> {
    let config: Config = params.read("ledbat-ns2")?;
    require(config.target_ms >= 1.0, "ledbat-ns2", "target_ms must be at least 1: it is cut to whole milliseconds")?;
    require(config.gain > 0.0 && config.gain.is_finite(), "ledbat-ns2", "gain must be above 0")?;
    require(config.noise_filter_len >= 2 && config.base_histo_len >= 2, "ledbat-ns2", "a history of length n holds n − 1: at least 2")?;
    Ok(Box::new(Agent::new(LedbatNs2::new(config), start)))
}

/// The state of one flow; delays in ms.
#[derive(Debug)]
pub struct LedbatNs2 {
    target: i64,
    gain: f64,
    clock: RemoteClock,
    /// Whether the last delay was one (`LEDBAT_VALID_OWD`).
    valid: bool,
    base: BaseDelay,
    current: CurrentDelay,
    /// Milliseconds of offset towards the next packet (`snd_cwnd_cnt`).
    count: i64,
}

impl LedbatNs2 {
    /// A flow without samples.
    pub fn new(config: Config) -> LedbatNs2 {
        LedbatNs2 {
            target: config.target_ms as i64,
            gain: config.gain,
            clock: RemoteClock::default(),
            valid: false,
            base: BaseDelay::new(config.base_histo_len - 1, Span::from_secs(60)),
            current: CurrentDelay::new(config.noise_filter_len - 1),
            count: 0,
        }
    }

    fn queueing(&self) -> Option<i64> {
        Some(self.current.min()? - self.base.min()?)
    }
}

impl Module for LedbatNs2 {
    /// `tcp_ledbat_rtt_sample`. The rate of the receiver's clock decides only whether there is a delay at all: the module then
    /// takes the difference of the timestamps as it is.
    fn measure(&mut self, _window: &mut Window, ack: &Ack, _beside: &Beside) {
        let Some(stamps) = timestamps(ack) else { return };
        let rate = self.clock.update(stamps);
        let delay = (stamps.0 - stamps.1).abs();
        self.valid = delay > 0;
        if rate.is_some() && self.valid {
            self.current.push(ack.now, delay);
            self.base.update(ack.now, delay);
        }
    }

    /// `tcp_ledbat_cong_avoid`. Empty histories are both infinite (`ledbat_min_circ_buff`: 0xffffffff), so that before the rate of the
    /// receiver's clock is known, in the first round trip, the queue counts as empty.
    fn avoid(&mut self, window: &mut Window, _ack: &Ack) {
        if !self.valid || !window.may_grow() {
            return;
        }
        let queueing = self.queueing().unwrap_or(0);
        let offset = ((self.target - queueing) as f64 * self.gain) as i64;
        let count = self.count + offset.min(self.target);
        let packets = libm::floor(window.cwnd);
        if count >= packets as i64 * self.target {
            (window.cwnd, self.count) = (packets + 1.0, 0);
        } else if count >= 0 {
            self.count = count;
        } else {
            window.cwnd = (packets - 1.0).max(1.0);
            self.count = if packets > 1.0 { (packets as i64 - 2) * self.target } else { 0 };
        }
    }

    fn reduce(&mut self, window: &mut Window) {
        window.halve();
        self.count = 0;
    }

    fn delays(&self) -> (Option<Span>, Option<Span>) {
        (None, self.queueing().map(|ms| Span::from_millis(ms.unsigned_abs())))
    }
}

#[cfg(test)]
mod tests {
    use lowtide_units::Time;

    use super::*;
    use lowtide_cc::{Cause, Congestion, Controller as _};

    /// A flow of `packets` whose two first acknowledgements, 20 ms apart, told of 25 ms and so began the histories.
    fn flow(packets: f64, config: Config) -> Agent<LedbatNs2> {
        let start = Start { mss: 1000, initial_window: Some(1000), ..Start::default() };
        let mut flow = Agent::new(LedbatNs2::new(config), &start);
        // Not the limit: nothing is counted yet.
        for at_ms in [100, 120] {
            flow.on_ack(&Ack { in_flight: 0, ..ack(at_ms, 25.0) });
        }
        (flow.window.cwnd, flow.window.ssthresh) = (packets, 2.0);
        flow
    }

    /// The receiver's clock is 25 ms late in `owd_ms`: where the path is empty.
    fn ack(at_ms: u64, owd_ms: f64) -> Ack {
        let rtt = Span::from_millis(60);
        let owd = Some((owd_ms * 1e6) as i64);
        Ack { now: Time::from_millis(at_ms), acked: 1000, owd, rtt: Some(rtt), srtt: rtt, in_flight: u64::MAX, ..Ack::default() }
    }

    fn acks(flow: &mut Agent<LedbatNs2>, owd_ms: f64, n: u64) {
        (0..n).for_each(|i| flow.on_ack(&ack(200 + 10 * i, owd_ms)));
    }

    /// Four packets of 25 ms each to count at an empty queue: the fourth acknowledgement adds a packet.
    #[test]
    fn an_empty_queue_adds_a_packet_a_window() {
        let mut flow = flow(4.0, Config::default());
        acks(&mut flow, 25.0, 3);
        assert_eq!((flow.window.cwnd, flow.module.count), (4.0, 75));
        acks(&mut flow, 25.0, 1);
        assert_eq!((flow.window.cwnd, flow.module.count), (5.0, 0));
    }

    /// 15 ms in the queue count 10 each: ten acknowledgements for the hundred of four packets; at the target none.
    #[test]
    fn the_offset_is_what_counts() {
        let mut flow = flow(4.0, Config::default());
        acks(&mut flow, 40.0, 10);
        // The first of them still has an old 25 among its two delays: 25, then nine tens, and the ninth is past the hundred.
        assert_eq!((flow.window.cwnd, flow.module.count), (5.0, 10));
        acks(&mut flow, 50.0, 5);
        assert_eq!((flow.window.cwnd, flow.module.count), (5.0, 20), "one more of 40 ms, then the target");
    }

    /// 40 ms in the queue, 15 too many: the count falls below zero and a packet goes at once, most of the next one counted.
    #[test]
    fn above_the_target_a_packet_goes_when_the_count_is_used_up() {
        let mut flow = flow(4.0, Config::default());
        flow.module.count = 20;
        acks(&mut flow, 65.0, 2);
        assert_eq!((flow.window.cwnd, flow.module.count), (4.0, 30), "25 at first: the old delay is the smaller");
        acks(&mut flow, 65.0, 3);
        assert_eq!((flow.window.cwnd, flow.module.count), (3.0, 50), "30, 15, 0, and the next is below");
    }

    /// Two packets of 25 ms each: the second acknowledgement adds one, though there is no delay yet to compare.
    #[test]
    fn before_the_first_delay_the_queue_counts_as_empty() {
        let start = Start { mss: 1000, initial_window: Some(2000), ..Start::default() };
        let mut flow = Agent::new(LedbatNs2::new(Config::default()), &start);
        flow.on_ack(&ack(100, 25.0));
        assert_eq!((flow.window.cwnd, flow.module.count, flow.module.queueing()), (2.0, 25, None));
        flow.on_ack(&ack(100, 26.0));
        assert_eq!((flow.window.cwnd, flow.module.queueing()), (3.0, None), "both echo the same timestamp");
    }

    #[test]
    fn one_packet_stays() {
        let mut flow = flow(1.0, Config::default());
        acks(&mut flow, 150.0, 20);
        assert_eq!((flow.window.cwnd, flow.module.count), (1.0, 0));
        acks(&mut flow, 45.0, 6);
        assert_eq!((flow.window.cwnd, flow.module.count), (2.0, 5), "5 ms an acknowledgement: the fifth adds one");
    }

    /// Ten times the gain reaches the bound of a packet a window; below the target the fall is as steep as the gain says.
    #[test]
    fn the_gain_is_bounded_upwards_only() {
        let mut flow = flow(4.0, Config { gain: 10.0, ..Config::default() });
        acks(&mut flow, 45.0, 3);
        assert_eq!((flow.window.cwnd, flow.module.count), (4.0, 75));
        acks(&mut flow, 52.0, 1);
        assert_eq!((flow.window.cwnd, flow.module.count), (5.0, 0), "45 is the smaller");
        acks(&mut flow, 52.0, 1);
        assert_eq!((flow.window.cwnd, flow.module.count), (4.0, 75), "2 ms too many are 20");
    }

    /// Targets and delays are whole milliseconds: 2.4 is 2, and 1.6 ms in the queue are 2.
    #[test]
    fn milliseconds_are_whole() {
        let mut flow = flow(4.0, Config { target_ms: 2.4, ..Config::default() });
        acks(&mut flow, 26.6, 9);
        assert_eq!((flow.window.cwnd, flow.module.count), (4.0, 2), "at the target, but for the first");
    }

    #[test]
    fn a_loss_halves_and_a_timeout_leaves_one() {
        let mut flow = flow(9.0, Config::default());
        flow.module.count = 70;
        let mut event =
            Congestion { now: Time::from_millis(300), cause: Cause::Loss, lost: 1000, in_flight: 9000, srtt: Span::from_millis(60) };
        flow.on_congestion(&event);
        assert_eq!((flow.window.cwnd, flow.module.count), (4.0, 0));
        event.cause = Cause::Timeout;
        flow.on_congestion(&event);
        assert_eq!((flow.window.cwnd, flow.window.ssthresh), (1.0, 2.0));
    }
}
