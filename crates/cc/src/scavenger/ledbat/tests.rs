//! LEDBAT against hand-computed steps of RFC 6817 §2.4.2 and of the 2009 draft.

use lowtide_units::Time;
use proptest::prelude::*;

use super::*;

const MSS: f64 = 1000.0;

fn flow(toml: &str, window: u64) -> Ledbat {
    let config = Params::from_toml(toml).expect("TOML").read("ledbat").expect("parameters");
    Ledbat::new(config, &Start { mss: 1000, initial_window: Some(window), ..Start::default() })
}

fn ack(at_ms: u64, acked: u64, owd_ms: f64, in_flight: u64) -> Ack {
    Ack {
        now: Time::from_millis(at_ms),
        acked,
        in_flight,
        owd: Some((owd_ms * 1e6) as i64),
        srtt: Span::from_millis(1),
        cwnd_limited: true,
        ..Ack::default()
    }
}

/// The change in bytes that one acknowledgement of a segment makes at a queueing delay, from a window of 20 segments.
fn change(toml: &str, queueing_ms: f64) -> f64 {
    let mut flow = flow(toml, 20_000);
    flow.base.update(Time::ZERO, -5_000_000_000);
    flow.on_ack(&ack(100, 1000, -5000.0 + queueing_ms, 20_000));
    flow.cwnd - 20_000.0
}

/// GAIN · off · acked · MSS / cwnd with 1000 · 1000 / 20 000 = 50 bytes; the zero point of the delays means nothing.
#[test]
fn window_rule() {
    for (queueing, want) in [(0.0, 50.0), (25.0, 37.5), (100.0, 0.0), (150.0, -25.0), (300.0, -100.0)] {
        assert_eq!(change("", queueing), want, "{queueing} ms");
    }
    for (queueing, want) in [(0.0, 50.0), (25.0, 0.0), (50.0, -50.0)] {
        assert_eq!(change(DRAFT_2009, queueing), want, "2009, {queueing} ms");
    }
}

/// Bounded, a gain of ten grows as one does while a tenth of the target is left, and falls as fast as ever.
#[test]
fn a_bounded_gain_grows_by_one_a_round_trip() {
    for (queueing, want) in [(0.0, 50.0), (20.0, 50.0), (23.75, 25.0), (50.0, -500.0)] {
        assert_eq!(change(&format!("{DRAFT_2009_BOUNDED}\ngain = 10.0"), queueing), want, "{queueing} ms");
    }
}

/// gain 5 … 400 per second at 25 ms is G = 0.125 … 10.
#[test]
fn gain_per_second_is_gain_times_target() {
    for (gain, want) in [(5.0, 0.125), (40.0, 1.0), (80.0, 2.0), (320.0, 8.0), (400.0, 10.0)] {
        assert_eq!(change(&format!("{DRAFT_2009}\ngain_per_s = {gain}"), 0.0), want * 50.0, "{gain}/s");
    }
    let both = Params::from_toml("gain = 1.0\ngain_per_s = 40.0").expect("TOML");
    assert!(build(&both, &Start::default()).expect_err("both").to_string().contains("gain_per_s"));
}

#[test]
fn the_window_stays_within_what_was_in_flight_and_the_allowed_increase() {
    let mut limited = flow("", 20_000);
    limited.on_ack(&ack(1, 1000, 10.0, 5000));
    assert_eq!(limited.cwnd, 6000.0);
    let mut none = flow("allowed_increase = 0.0", 20_000);
    none.on_ack(&ack(1, 1000, 10.0, 20_000));
    assert_eq!(none.cwnd, 20_000.0, "no growth beyond what was in flight");
    let mut floor = flow("", 20_000);
    floor.on_ack(&ack(1, 1000, 10.0, 0));
    assert_eq!(floor.cwnd, 2.0 * MSS);
}

#[test]
fn slow_start_ends_at_the_target() {
    let mut flow = flow("slow_start = \"reno\"", 2000);
    flow.on_ack(&ack(1, 2000, 10.0, 2000));
    assert_eq!((flow.cwnd, flow.snapshot().phase), (4000.0, "slow_start"));
    flow.current.clear();
    flow.on_ack(&ack(9, 1000, 110.0, 4000));
    assert_eq!((flow.cwnd, flow.snapshot().phase), (4000.0, "avoidance"));
}

#[test]
fn losses_halve_to_the_floor_and_a_timeout_leaves_one_segment() {
    let event = |cause| Congestion { now: Time::ZERO, cause, lost: 1000, in_flight: 20_000, srtt: Span::from_millis(50) };
    let mut one = flow("", 20_000);
    one.on_congestion(&event(Cause::Loss));
    assert_eq!(one.cwnd, 10_000.0);
    one.on_undo(Time::ZERO);
    assert_eq!(one.cwnd, 20_000.0);
    one.on_congestion(&event(Cause::Timeout));
    assert_eq!(one.cwnd, MSS);
    one.on_congestion(&event(Cause::Loss));
    assert_eq!(one.cwnd, MSS, "not raised to the floor");
    one.on_ack(&ack(1, 1000, 10.0, 1000));
    assert_eq!(one.cwnd, 2.0 * MSS);
}

/// Only differences of one-way delays count, and old samples leave the filter after an RTT.
/// Half of a window of 6 segments: the minimum of three samples, however old; of a window of one: the sample itself.
#[test]
fn a_filter_of_half_the_window() {
    let toml = format!("{DRAFT_2009}\nfilter_window = 0.5\nfilter_ages = false");
    let delays = [0.0, 40.0, 30.0, 45.0, 50.0];
    let estimate = |window: u64| {
        let mut flow = flow(&toml, window);
        delays.iter().enumerate().for_each(|(i, &delay)| flow.observe(&ack(100 * i as u64, 1000, delay, window)));
        flow.queueing_ns().expect("samples")
    };
    assert_eq!(estimate(6000), 30e6);
    assert_eq!(estimate(4000), 45e6);
    assert_eq!(estimate(1000), 50e6);
    assert!(Params::from_toml("filter_window = -1.0").is_ok_and(|p| build(&p, &Start::default()).is_err()));
}

#[test]
fn a_sample_older_than_an_rtt_is_not_current() {
    let mut flow = flow("", 20_000);
    flow.on_ack(&ack(1, 1000, 10.0, 20_000));
    flow.on_ack(&ack(100, 1000, 60.0, 20_000));
    assert_eq!(flow.queueing_ns(), Some(50e6));
    let before = flow.cwnd;
    flow.on_ack(&Ack { owd: None, ..ack(200, 1000, 0.0, 20_000) });
    assert_eq!(flow.cwnd, before, "no delay, no move");
}

proptest! {
    /// Shifting every delay by a constant changes nothing.
    #[test]
    fn the_zero_point_of_the_clock_does_not_matter(offset in -1_000_000_000_000i64..1_000_000_000_000, delays in prop::collection::vec(0i64..500, 1..200)) {
        let (mut plain, mut shifted) = (flow("", 20_000), flow("", 20_000));
        for (i, delay) in delays.into_iter().enumerate() {
            let one = ack(i as u64, 1000, delay as f64, plain.cwnd());
            plain.on_ack(&one);
            shifted.on_ack(&Ack { owd: one.owd.map(|d| d + offset), ..one });
            prop_assert_eq!(plain.cwnd, shifted.cwnd);
        }
    }
}
