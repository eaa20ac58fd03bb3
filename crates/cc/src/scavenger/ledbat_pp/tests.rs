//! LEDBAT++ against steps worked out by hand from the draft (docs/algorithms/ledbat_pp.md).

use proptest::prelude::*;

use super::*;

const MSS: f64 = 1000.0;

fn ms(ms: f64) -> Span {
    Span::from_millis_f64(ms)
}

fn flow(config: Config) -> LedbatPp {
    LedbatPp::new(config, &Start { mss: 1000, ..Start::default() })
}

/// An acknowledgement as the tables assume it: window-limited, every one in a new round's flight.
fn ack(at_ms: f64, acked: u64, rtt_ms: f64) -> Ack {
    Ack {
        now: Time::from_secs_f64(at_ms / 1e3),
        acked,
        in_flight: 1,
        rtt: Some(ms(rtt_ms)),
        srtt: ms(110.0),
        cwnd_limited: true,
        ..Ack::default()
    }
}

fn with_base(config: Config, base_ms: f64) -> LedbatPp {
    let mut flow = flow(config);
    flow.base.update(Time::ZERO, ms(base_ms).nanos() as i64);
    flow
}

#[test]
fn gain_table() {
    let cases = [
        (60.0, 2.0),
        (120.0, 1.0),
        (120.000001, 1.0),
        (119.999, 2.0),
        (7.5, 16.0),
        (7.999, 16.0),
        (8.0, 15.0),
        (10.0, 12.0),
        (15.0, 8.0),
        (20.0, 6.0),
        (24.0, 5.0),
        (30.0, 4.0),
        (40.0, 3.0),
        (59.9, 3.0),
        (0.0, 16.0),
    ];
    for (base, divisor) in cases {
        assert_eq!(1.0 / with_base(Config::default(), base).gain(), divisor, "base {base} ms");
    }
    assert_eq!(flow(Config::default()).gain(), 1.0 / 16.0);
}

/// The change of a window of 100 packets over one round at a constant queueing delay (-01 §4.2).
fn change_per_round(config: Config, base: f64, window: f64, queueing: f64) -> f64 {
    let mut flow = with_base(config, base);
    flow.phase = Phase::Avoidance;
    flow.cwnd = window * MSS;
    flow.quota = flow.cwnd / 2.0;
    let mut one = ack(0.0, (window * MSS) as u64, base + queueing);
    one.in_flight = (window * MSS) as u64;
    flow.on_ack(&one);
    flow.cwnd / MSS - window
}

#[test]
fn window_rule_table() {
    let table = [
        (30.0, 0.5, 0.1667),
        (60.0, 0.5, 0.1667),
        (60.3, 0.0, -0.3333),
        (63.0, -4.5, -4.8333),
        (75.0, -24.5, -24.8333),
        (90.0, -49.5, -49.8333),
        (90.3, -50.0, -50.0),
        (120.0, -50.0, -50.0),
    ];
    for (queueing, half, sixth) in table {
        let close = |base, want: f64| {
            let got = change_per_round(Config::default(), base, 100.0, queueing);
            assert!((got - want).abs() < 1e-3, "base {base}, qd {queueing}: {got} is not {want}");
        };
        close(60.0, half);
        close(20.0, sixth);
    }
}

/// Bagnulo 2023, Fig. 2: a half at the first sign of too much, and no more for one RTT.
#[test]
fn halving_takes_one_half_once_per_rtt() {
    let halve = Config { decrease: Decrease::Halve, ..Config::default() };
    assert!((change_per_round(halve, 60.0, 100.0, 59.0) - 0.5).abs() < 1e-3);
    let mut flow = with_base(halve, 60.0);
    flow.phase = Phase::Avoidance;
    flow.cwnd = 100.0 * MSS;
    flow.quota = flow.cwnd / 2.0;
    for (at, segments) in [(1.0, 50.0), (100.0, 50.0), (121.0, 50.0), (123.0, 25.0)] {
        flow.on_ack(&ack(at, MSS as u64, 121.0));
        assert!((flow.cwnd / MSS - segments).abs() < 1.0, "{} segments at {at} ms", flow.cwnd / MSS);
        flow.quota = flow.cwnd;
    }
}

#[test]
fn enhanced_target_is_the_base_rtt_below_sixty() {
    let enhanced = Config { enhanced: true, ..Config::default() };
    for (queueing, want) in [(25.0, -14.833), (30.0, -29.833), (30.06, -30.0)] {
        let got = change_per_round(enhanced, 20.0, 60.0, queueing);
        assert!((got - want).abs() < 1e-3, "qd {queueing}: {got} is not {want}");
    }
    for queueing in [10.0, 59.0, 61.0, 200.0] {
        assert_eq!(change_per_round(enhanced, 100.0, 80.0, queueing), change_per_round(Config::default(), 100.0, 80.0, queueing));
    }
    let mut falling = with_base(enhanced, 80.0);
    falling.on_ack(&ack(1.0, 1000, 30.0));
    assert_eq!(falling.target_ns(), 30e6);
}

/// A life worked out by hand from the draft, to a thousandth of a byte.
#[test]
fn worked_trace() {
    let rows: [(f64, u64, f64, &str, f64); 24] = [
        (60.0, 1000, 60.0, "slow_start", 2500.0),
        (61.0, 1000, 61.0, "slow_start", 3000.0),
        (130.0, 2000, 66.0, "slow_start", 4000.0),
        (131.0, 1000, 68.0, "slow_start", 4500.0),
        (240.0, 2000, 106.0, "slow_start", 5500.0),
        (241.0, 1000, 107.0, "slow_start", 6000.0),
        (242.0, 1000, 108.0, "slow_start", 6500.0),
        (243.0, 1000, 106.0, "avoidance", 6500.0),
        (250.0, 1000, 112.0, "avoidance", 6576.923),
        (340.0, 1000, 124.0, "avoidance", 6652.946),
        (341.0, 1000, 126.0, "avoidance", 6728.101),
        (342.0, 1000, 127.0, "avoidance", 6802.416),
        (343.0, 1000, 128.0, "avoidance", 6809.253),
        (344.0, 1000, 190.0, "avoidance", 6782.682),
        (345.0, 1000, 220.0, "avoidance", 6739.733),
        (346.0, 1000, 220.0, "avoidance", 6680.586),
        (347.0, 1000, 220.0, "avoidance", 6180.586),
        (463.0, 1000, 118.0, "freeze", 2000.0),
        (530.0, 1000, 90.0, "freeze", 2000.0),
        (640.0, 2000, 64.0, "freeze", 2000.0),
        (700.0, 2000, 61.0, "ramp", 3000.0),
        (761.0, 3000, 60.0, "ramp", 4500.0),
        (822.0, 4000, 62.0, "avoidance", 6180.586),
        (900.0, 1000, 62.0, "avoidance", 6261.485),
    ];
    let mut flow = flow(Config::default());
    for (row, (at, acked, rtt, phase, cwnd)) in rows.into_iter().enumerate() {
        let mut one = ack(at, acked, rtt);
        one.in_flight = if phase == "freeze" || phase == "ramp" { 2000 } else { 8000 };
        flow.on_ack(&one);
        assert_eq!(flow.snapshot().phase, phase, "row {}", row + 1);
        assert!((flow.cwnd - cwnd).abs() < 1e-3, "row {}: {} is not {cwnd}", row + 1, flow.cwnd);
    }
    assert_eq!(flow.next_slowdown, Some(Time::from_millis(4053)));
}

#[test]
fn loss_and_timeout_in_every_state() {
    let event = |cause| Congestion { now: Time::from_millis(9000), cause, lost: 1000, in_flight: 30_000, srtt: ms(110.0) };
    let freeze = Phase::Freeze { end: Time::from_millis(9100) };
    let after = |phase, cause| {
        let mut flow = with_base(Config::default(), 60.0);
        (flow.phase, flow.cwnd, flow.saved) = (phase, 40_000.0, 40_000.0);
        if phase == freeze {
            flow.cwnd = 2000.0;
        }
        flow.on_congestion(&event(cause));
        (flow.snapshot().phase, flow.cwnd, flow.ssthresh)
    };
    use Phase::*;
    for phase in [InitialSlowStart, Avoidance, Ramp, SlowStartAfterTimeout] {
        assert_eq!(after(phase, Cause::Loss), ("avoidance", 20_000.0, 20_000.0), "{phase:?}");
    }
    assert_eq!(after(freeze, Cause::Loss), ("freeze", 2000.0, 20_000.0));
    assert_eq!(after(InitialSlowStart, Cause::Timeout), ("slow_start", 1000.0, 15_000.0));
    assert_eq!(after(Avoidance, Cause::Timeout), ("slow_start_after_timeout", 1000.0, 15_000.0));
    assert_eq!(after(Ramp, Cause::Timeout), ("ramp", 1000.0, 15_000.0));
    assert_eq!(after(freeze, Cause::Timeout), ("ramp", 1000.0, 20_000.0));
}

/// Rounds a ramp takes from 2 to 50 packets: one window acknowledged per round.
#[test]
fn ramp_length() {
    for (base, rounds) in [(60.0, 8), (20.0, 21), (120.0, 5)] {
        let mut flow = with_base(Config::default(), base);
        (flow.phase, flow.cwnd, flow.ssthresh) = (Phase::Ramp, 2.0 * MSS, 50.0 * MSS);
        let mut count = 0;
        while flow.phase == Phase::Ramp {
            count += 1;
            let mut one = ack(f64::from(count) * base, flow.cwnd as u64, base);
            one.in_flight = flow.cwnd as u64;
            flow.on_ack(&one);
        }
        assert_eq!(count, rounds, "base {base}");
    }
}

/// A way back with a queue that makes round trips twenty times as long takes nothing from how fast the rate grows, nor from the target's part of the
/// path: s² times the growth a round trip, at most slow start's; T stays the most to aim at.
#[test]
fn a_queue_on_the_way_back_slows_no_growth() {
    let grown = |way_back: f64, window: f64| {
        let mut flow = with_base(Config { enhanced: true, ..Config::default() }, 20.0);
        flow.cwnd = window;
        flow.phase = Phase::Avoidance;
        let mut one = ack(1.0, window as u64, 20.0);
        (one.srtt, one.way_back, one.cwnd_limited) = (ms(20.0 + way_back), ms(way_back), true);
        flow.on_ack(&one);
        ((flow.cwnd - window) / MSS, flow.target_ns() / 1e6)
    };
    let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
    let (plain, target) = grown(0.0, 1000.0 * MSS);
    assert!(near(plain, 1.0 / 6.0) && near(target, 20.0));
    let (stretched, target) = grown(20.0, 1000.0 * MSS);
    assert!(near(stretched, 4.0 / 6.0) && near(target, 40.0), "{stretched} {target}");
    let (stretched, target) = grown(380.0, 1000.0 * MSS);
    assert!(near(stretched, 400.0 / 6.0) && near(target, 60.0), "{stretched} {target}");
    let (stretched, _) = grown(380.0, 60.0 * MSS);
    assert!(near(stretched, 10.0), "no faster than slow start: {stretched}");
}

/// From one slowdown's exit to the next one's entry: nine times its duration, to the acknowledgement.
#[test]
fn slowdowns_come_nine_durations_apart() {
    let mut flow = with_base(Config::default(), 60.0);
    let (mut now, mut exit, mut periods) = (0.0f64, 0.0f64, 0);
    let (mut entry, mut last): (Option<f64>, Option<f64>) = (None, None);
    while periods < 10 {
        let window = flow.cwnd as u64;
        let gap = 110.0 * MSS / window as f64;
        now += gap;
        let mut one = ack(now, 1000, 60.0 + 59.0);
        one.in_flight = window;
        one.cwnd_limited = window < 60_000;
        flow.on_ack(&one);
        match (flow.phase, entry) {
            (Phase::Freeze { .. }, None) => {
                if let Some(duration) = last {
                    let waited = now - exit;
                    assert!((waited - 9.0 * duration).abs() <= gap + 1e-6, "waited {waited} ms after {duration} ms");
                    periods += 1;
                }
                entry = Some(now);
            }
            (Phase::Avoidance, Some(start)) => (last, exit, entry) = (Some(now - start), now, None),
            _ => {}
        }
    }
}

proptest! {
    /// Outside loss and slowdowns no acknowledgement takes more than half of what it acknowledges.
    #[test]
    fn decrease_is_at_most_half_of_what_was_acked(events in prop::collection::vec((1u64..40, 1u64..4000, 20u64..400, any::<bool>()), 1..400)) {
        let mut flow = flow(Config::default());
        let mut now = 0.0;
        for (step, acked, rtt, limited) in events {
            now += step as f64;
            let (before, phase) = (flow.cwnd, flow.phase);
            let mut one = ack(now, acked, rtt as f64);
            one.in_flight = flow.cwnd as u64;
            one.cwnd_limited = limited;
            flow.on_ack(&one);
            prop_assert!(flow.cwnd >= 2.0 * MSS);
            if flow.phase == phase {
                prop_assert!(flow.cwnd >= before - acked as f64 / 2.0 - 1e-6);
            }
        }
    }
}
