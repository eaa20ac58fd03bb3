//! libutp against hand-computed steps of `apply_ccontrol` and of what losses and timeouts do, and libutp-mod beside it.

use proptest::prelude::*;

use super::*;

fn flow(toml: &str) -> Libutp {
    let config = Params::from_toml(toml).expect("TOML").read("libutp").expect("parameters");
    Libutp::new(config, &Start { mss: 1382, ..Start::default() })
}

fn ack(at_ms: u64, acked: u64, queue_ms: i64) -> Ack {
    Ack {
        now: Time::from_millis(at_ms),
        acked,
        in_flight: acked,
        owd: Some(-7_000_000_000 + queue_ms * 1_000_000),
        rtt: Some(Span::from_millis(400)),
        srtt: Span::from_millis(40),
        cwnd_limited: true,
        ..Ack::default()
    }
}

/// The queueing delay once three samples have it, from a window set by hand.
fn step(flow: &mut Libutp, window: u64, acked: u64, queue_ms: i64) -> u64 {
    flow.on_ack(&ack(0, 0, 0));
    for _ in 0..3 {
        flow.on_ack(&ack(0, 0, queue_ms));
    }
    flow.window = window;
    flow.on_ack(&ack(1, acked, queue_ms));
    flow.window
}

/// 3000 · (1382 / 4382) = 946.14 beats the packet per window of slow start; whole bytes at every step.
#[test]
fn start_up_adds_three_thousand_bytes_per_rtt() {
    let mut flow = flow("");
    assert_eq!(flow.cwnd(), 1382);
    for (at, window) in [(1, 4382), (2, 5328), (3, 6106)] {
        flow.on_ack(&ack(at, 1382, 0));
        assert_eq!(flow.cwnd(), window);
    }
    let mut modified = super::tests::flow(MOD);
    for (at, window) in [(1, 2764), (2, 3455)] {
        modified.on_ack(&ack(at, 1382, 0));
        assert_eq!(modified.cwnd(), window);
    }
}

#[test]
fn window_rule_outside_slow_start() {
    for (queue, want) in [(0, 20_207), (50, 20_103), (100, 20_000), (150, 19_896), (250, 19_689)] {
        let mut flow = flow("");
        flow.slow_start = false;
        assert_eq!(step(&mut flow, 20_000, 1382, queue), want, "{queue} ms");
    }
    let mut floor = flow("");
    floor.slow_start = false;
    assert_eq!(step(&mut floor, 1000, 1000, 390), 10);
}

#[test]
fn slow_start_ends_above_ninety_percent_of_the_target() {
    let mut at = flow("");
    assert!(step(&mut at, 20_000, 1382, 90) > 20_000);
    let mut above = flow("");
    assert_eq!(step(&mut above, 20_000, 1382, 91), 20_000);
    assert_eq!((above.slow_start, above.ssthresh), (false, 20_000));
}

#[test]
fn no_growth_a_second_after_the_window_was_last_full() {
    let mut flow = flow("");
    flow.slow_start = false;
    step(&mut flow, 20_000, 1382, 0);
    let idle = |at| Ack { cwnd_limited: false, ..ack(at, 1382, 0) };
    let before = flow.window;
    flow.on_ack(&idle(1001));
    assert!(flow.window > before);
    let before = flow.window;
    flow.on_ack(&idle(1002));
    assert_eq!(flow.window, before);
}

/// An RTT of 1.2 s: the refusal lies longer back than a second when the acknowledgement comes (`last_maxed_out_window`).
#[test]
fn the_window_was_full_when_a_send_was_refused_not_when_the_acknowledgement_came() {
    let grown = |refused| {
        let mut flow = flow("");
        flow.slow_start = false;
        flow.window = 20_000;
        flow.on_ack(&Ack { limited_at: Some(Time::from_millis(refused)), ..ack(1300, 1382, 0) });
        flow.window > 20_000
    };
    assert!(grown(300) && !grown(299));
}

/// Two losses 60 ms apart at an RTT of 40 ms: one halving for libutp, two for libutp-mod.
#[test]
fn the_loss_gate_is_wall_clock_or_rtt() {
    let loss =
        |ms| Congestion { now: Time::from_millis(ms), cause: Cause::Loss, lost: 1382, in_flight: 40_000, srtt: Span::from_millis(40) };
    for (toml, want) in [("", 20_000), (MOD, 10_000)] {
        let mut flow = flow(toml);
        flow.window = 40_000;
        flow.on_congestion(&loss(500));
        flow.on_congestion(&loss(539));
        assert_eq!(flow.cwnd(), 20_000);
        flow.on_congestion(&loss(560));
        assert_eq!(flow.cwnd(), want, "{toml}");
        flow.on_congestion(&loss(600));
        assert_eq!(flow.cwnd(), want / 2);
    }
}

#[test]
fn timeouts() {
    let timeout = |in_flight| Congestion { now: Time::ZERO, cause: Cause::Timeout, lost: 0, in_flight, srtt: Span::from_millis(40) };
    let mut busy = flow("");
    (busy.window, busy.slow_start) = (30_000, false);
    busy.on_congestion(&timeout(30_000));
    assert_eq!((busy.cwnd(), busy.slow_start), (1382, true));
    let mut idle = flow("");
    idle.window = 30_000;
    idle.on_congestion(&timeout(0));
    assert_eq!(idle.cwnd(), 20_000);
}

/// A queueing delay above the RTT is a base that is too low.
#[test]
fn the_delay_never_exceeds_the_rtt() {
    let mut flow = flow("");
    flow.on_ack(&ack(0, 0, 0));
    let late = |ms| Ack { rtt: Some(Span::from_millis(50)), ..ack(ms, 1382, 300) };
    for ms in 1..=6 {
        flow.on_ack(&late(ms));
    }
    assert_eq!(flow.history.value(), 50_000);
}

/// A clock that seems to win 100 ms a second is penalised beyond 200 ms per five seconds.
#[test]
fn a_drifting_clock_is_penalised() {
    let mut flow = flow("");
    for second in 0..120i64 {
        flow.on_ack(&Ack { owd: Some(-second * 100_000_000), ..ack(second as u64 * 1000, 0, 0) });
    }
    let drift = flow.drift.per_five_seconds();
    assert!((-500_000..-400_000).contains(&drift), "{drift}");
    assert_eq!(flow.delay_us(None), flow.history.value() + (-drift - 200_000) / 7);
}

proptest! {
    /// The zero point of the delays changes nothing, and the window stays between ten bytes and the buffer.
    #[test]
    fn zero_point_and_bounds(offset in -1i64 << 50..1 << 50, delays in prop::collection::vec((0i64..400, 1u64..60_000), 1..200)) {
        let (mut plain, mut shifted) = (flow(""), flow(""));
        for (i, (delay, acked)) in delays.into_iter().enumerate() {
            let one = ack(i as u64 * 20, acked, delay);
            plain.on_ack(&one);
            shifted.on_ack(&Ack { owd: one.owd.map(|d| d + offset * 1000), ..one });
            prop_assert_eq!(plain.window, shifted.window);
            prop_assert!((10..=1 << 20).contains(&plain.window));
        }
    }
}
