//! Each published fault against the number it makes of the draft's rule, and against the draft with its switch off.

use super::*;

const MSS: f64 = 1340.0;

/// A flow at its initial window and its socket.
struct Pair {
    flow: Published,
    tcb: SocketState,
}

impl Pair {
    fn new(config: Config) -> Pair {
        let tcb = SocketState::new(&lowtide_cc::Start { mss: 1340, ..lowtide_cc::Start::default() });
        let mut flow = Published::new(config);
        flow.adopt(&tcb);
        Pair { flow, tcb }
    }

    /// In congestion avoidance at a window, a base of 140 ms and a queue.
    fn avoiding(config: Config, cwnd: f64, queue_ms: f64) -> Pair {
        let mut pair = Pair::new(config);
        let flow = &mut pair.flow;
        flow.base.update(Time::ZERO, 140_000_000);
        for _ in 0..FILTER {
            flow.current.push(Time::ZERO, ((140.0 + queue_ms) * 1e6) as i64);
        }
        (flow.initial, flow.may_slow_start) = (false, false);
        pair.set(cwnd, 0.0);
        pair
    }

    fn set(&mut self, cwnd: f64, ssthresh: f64) {
        (self.flow.cwnd, self.flow.ssthresh) = (cwnd, ssthresh);
        self.flow.publish(&mut self.tcb);
    }

    /// Two segments acknowledged at `at` ms; the RTT is `rtt_ms`.
    fn ack(&mut self, at: u64, rtt_ms: f64) {
        self.duplicate(at, rtt_ms);
        self.flow.increase_window(&mut self.tcb, 2);
    }

    /// An acknowledgement on which the socket lets nothing grow.
    fn duplicate(&mut self, at: u64, rtt_ms: f64) {
        self.tcb.now = ms(at);
        self.flow.pkts_acked(&mut self.tcb, 1, Span::from_millis_f64(rtt_ms));
    }
}

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

/// The change that one acknowledgement makes at a queue of `queue_ms`.
fn change(config: Config, cwnd: f64, queue_ms: f64) -> f64 {
    let mut pair = Pair::avoiding(config, cwnd, queue_ms);
    // The delays stand; what the echo would say is not asked.
    pair.tcb.now = ms(1);
    pair.flow.increase_window(&mut pair.tcb, 2);
    pair.flow.cwnd - cwnd
}

fn without(fault: impl Fn(&mut Config)) -> Config {
    let mut config = Config::default();
    fault(&mut config);
    config
}

#[test]
fn one_byte_an_acknowledgement_whatever_the_base() {
    assert_eq!(change(Config::default(), 26_800.0, 30.0), 1.0);
    let segments = without(|c| c.gain_in_bytes = false);
    // A tenth of the window acknowledged: a tenth of a segment.
    assert!((change(segments, 26_800.0, 30.0) - 134.0).abs() < 1e-9);
}

#[test]
fn mixed_units_make_the_gain_one() {
    for (base_ms, divisor) in [(5u64, 16.0), (10, 12.0), (60, 2.0), (140, 1.0)] {
        let gain = |config| {
            let mut flow = Pair::new(config).flow;
            flow.base.update(Time::ZERO, (base_ms * 1_000_000) as i64);
            flow.gain()
        };
        assert_eq!(gain(Config::default()), 1.0);
        assert_eq!(gain(without(|c| c.mixed_units = false)), 1.0 / divisor);
    }
}

#[test]
fn above_the_target_the_window_wraps() {
    let two = |exponent| 2f64.powi(exponent);
    // 61 to 119 ms: the quotient is one, the decrease GAIN, and −W/2 as an unsigned number is the larger.
    assert_eq!(change(Config::default(), 26_800.0, 61.0), two(31) - 13_400.0);
    assert_eq!(change(Config::default(), 26_800.0, 119.0), two(31) - 13_400.0);
    assert_eq!(change(Config::default(), two(31), 61.0), two(30));
    // 120 ms: W + (1 − W) is one byte. From there the next acknowledgement goes to 2³¹.
    assert_eq!(change(Config::default(), 26_800.0, 120.0), 1.0 - 26_800.0);
    assert_eq!(change(Config::default(), 1.0, 120.0), two(31) - 1.0);
    // 180 ms: W + 1 − 2W is negative.
    assert_eq!(change(Config::default(), 26_800.0, 180.0), two(32) + 1.0 - 2.0 * 26_800.0);
    // The draft: at 90 ms half the window over a round trip, at 63 ms a twentieth less the gain.
    let fixed = without(|c| c.unsigned_decrease = false);
    assert!((change(fixed, 26_800.0, 90.0) - 0.1 * (MSS - 13_400.0)).abs() < 1e-6);
    assert!((change(fixed, 26_800.0, 150.0) + 0.1 * 13_400.0).abs() < 1e-6, "at most half");
}

#[test]
fn slow_start_ends_at_the_first_millisecond_of_queue() {
    let windows = |config, queue_ms: f64| {
        let mut pair = Pair::new(config);
        pair.ack(140, 140.0);
        let first = pair.flow.cwnd;
        for n in 0..4 {
            pair.ack(141 + n, 140.0 + queue_ms);
        }
        (first, pair.flow.cwnd, pair.flow.initial)
    };
    assert_eq!(windows(Config::default(), 0.9), (11.0 * MSS, 15.0 * MSS, true), "less than a millisecond is none");
    let (_, last, initial) = windows(Config::default(), 1.0);
    assert!(!initial && last < 14.0 * MSS);
    let fixed = without(|c| c.whole_three_quarters = false);
    assert!(windows(fixed, 45.0).2 && !windows(fixed, 46.0).2);
}

/// A flow that left slow start at 1000 ms with an RTT of 140 ms: the slowdown is due at 1280 ms.
fn slowed(config: Config) -> Pair {
    let mut pair = Pair::avoiding(config, 26_800.0, 0.0);
    pair.flow.srtt = Span::from_millis(140);
    pair.flow.leave_initial_slow_start(ms(1000));
    pair.ack(1300, 140.0);
    pair
}

#[test]
fn a_slowdown_is_two_bytes_until_the_timer_and_one_step_after_it() {
    let mut pair = slowed(Config::default());
    assert_eq!((pair.tcb.cwnd, pair.tcb.ssthresh), (2, 26_800));
    // `ReTxTimeout`.
    pair.tcb.now = ms(2300);
    pair.tcb.ssthresh = pair.flow.get_ss_thresh(&pair.tcb, 0);
    pair.tcb.cwnd = pair.tcb.segment;
    assert_eq!(pair.tcb.ssthresh, 2 * 1340);
    pair.ack(2640, 140.0);
    assert_eq!((pair.flow.cwnd, pair.flow.slowdown_due), (2.0 * MSS, None), "the one step of slow start");
    pair.ack(2780, 140.0);
    assert_eq!(pair.flow.cwnd, 2.0 * MSS + 1.0, "then one byte an acknowledgement");
    // It lasted from 1280 to 2780 ms; the next one comes nine times that later.
    assert_eq!(pair.flow.slowdown_due, Some(ms(2780 + 9 * 1500)));
}

#[test]
fn in_segments_a_slowdown_lasts_two_round_trips_and_ramps_back() {
    let config = without(|c| (c.freeze_in_bytes, c.one_step_ramp, c.threshold_follows) = (false, false, false));
    let mut pair = slowed(config);
    assert_eq!(pair.flow.cwnd, 2.0 * MSS);
    pair.ack(1560, 140.0);
    assert_eq!(pair.flow.cwnd, 2.0 * MSS, "1280 and two round trips");
    for n in 1..=18 {
        pair.ack(1560 + n, 140.0);
        assert_eq!(pair.flow.cwnd, (2.0 + n as f64) * MSS);
    }
    pair.ack(1600, 140.0);
    assert_eq!(pair.flow.slowdown_due, Some(ms(1600 + 9 * 320)));
}

/// What the socket sets, at a recovery's end or a timeout, is what grows from then on.
#[test]
fn what_the_socket_sets_counts() {
    let mut pair = Pair::avoiding(Config::default(), 26_800.0, 0.0);
    pair.duplicate(1, 140.0);
    assert_eq!(pair.flow.cwnd, 26_800.0, "nothing grows on a duplicate");
    pair.tcb.cwnd = 13_400;
    pair.ack(2, 140.0);
    assert_eq!(pair.tcb.cwnd, 13_401);
}

#[test]
fn the_threshold_follows_the_window_down() {
    for (follows, threshold) in [(true, 26_800.0), (false, 50_000.0)] {
        let mut pair = Pair::avoiding(without(|c| c.threshold_follows = follows), 26_800.0, 0.0);
        pair.set(26_800.0, 50_000.0);
        pair.ack(1, 140.0);
        assert_eq!((pair.flow.cwnd, pair.flow.ssthresh), (26_801.0, threshold));
    }
}

#[test]
fn delays_are_the_smoothed_rtt_in_whole_milliseconds() {
    let seen = |config| {
        let mut pair = Pair::new(config);
        (pair.tcb.now, pair.tcb.timestamp_echo) = (Time::from_nanos(350_700_000), 200);
        pair.flow.observe(&pair.tcb, Span::from_micros(141_900));
        pair.flow.base.min()
    };
    assert_eq!(seen(Config::default()), Some(141_000_000));
    assert_eq!(seen(without(|c| c.smoothed_delay = false)), Some(150_700_000));
}
