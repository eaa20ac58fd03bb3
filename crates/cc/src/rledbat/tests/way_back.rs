//! The queue on the way back, found by the peer's timestamps. Both errors are safe: what is told is never below what the way there makes of it
//! but for a clock's drift, never above the round trip.

use proptest::prelude::*;

use super::*;
use crate::rledbat::{WayBack, since};

const MS: f64 = 1e6;
/// The ways without queues.
const THERE: f64 = 13.0 * MS;
const BACK: f64 = 9.0 * MS;
/// The drift of 100 ppm in two minutes, at whose beginning the way there was last empty, and in one of the periods below; and two ticks.
const DRIFT: f64 = 16.0 * MS;

/// A path whose peer's clock began `offset` ms apart from ours and makes `rate` ticks a millisecond.
struct Ways {
    filter: WayBack,
    offset: f64,
    rate: f64,
}

impl Ways {
    fn new(offset: f64, rate: f64) -> Ways {
        Ways { filter: WayBack::default(), offset, rate }
    }

    /// What a control is told, less the empty path's round trip: with queues of `there` and `back` ns, of a segment that arrives `at` ns.
    fn told(&mut self, at: f64, there: f64, back: f64) -> f64 {
        let left = at - THERE - there;
        let tsval = ((left / MS * self.rate + self.offset).floor() as i64) as u32;
        let (now, rtt) = (Time::from_nanos(at as u64), Span::from_nanos((THERE + there + BACK + back) as u64));
        let queue = self.filter.queue(now, rtt, Some(since(now, tsval)));
        assert!(queue <= rtt);
        (rtt - queue).nanos() as f64 - THERE - BACK
    }
}

/// As much of a second as `at` ns are in `period` s.
fn phase(at: f64, period: f64) -> f64 {
    (at / 1e9 / period).fract()
}

/// A queue that fills within 20 s and then is gone, as one window's.
fn saw(at: f64, height: f64) -> f64 {
    (phase(at, 20.0) * 1.1 - 0.1).max(0.0) * height
}

const OFFSETS: [f64; 4] = [0.0, 1e6 + 0.4, 4_294_960_000.7, 2_147_470_000.2];

#[test]
fn a_queue_on_the_way_back_is_left_out_and_one_on_the_way_there_is_not() {
    for offset in OFFSETS {
        let mut ways = Ways::new(offset, 1.0);
        for n in 1..60_000u32 {
            let at = 1e9 + f64::from(n) * 10.37 * MS;
            let (there, back) = (saw(at, 40.0 * MS), if n < 200 { 0.0 } else { (350.0 + 150.0 * phase(at, 7.0)) * MS });
            let told = ways.told(at, there, back);
            assert!(told >= there - 1.0 && (told <= there + 2.0 * MS || n < 10), "{offset}, {n}: {told} told, {there} there, {back} back");
        }
    }
}

/// A tick's edge must not look like a queue on the way back.
#[test]
fn without_a_queue_on_the_way_back_a_sample_is_the_round_trip() {
    for offset in OFFSETS {
        let mut ways = Ways::new(offset, 1.0);
        for n in 1..100_000u32 {
            let at = 1e9 + f64::from(n) * 1.237 * MS;
            let there = saw(at, 60.0 * MS).floor();
            assert_eq!(ways.told(at.floor(), there, 0.0), there, "{offset}, {n}");
        }
    }
}

proptest! {
    /// Whatever the queues do and whenever the flow began: at most that is left out by which the way back's queue is above its least.
    #[test]
    fn no_queue_on_the_way_there_is_ever_left_out(
        offset in 0.0..4e9f64,
        steps in prop::collection::vec((1u32..3_000, 0u32..600, 0u32..600, 0u8..3), 1..400),
    ) {
        let mut ways = Ways::new(offset, 1.0);
        let (mut at, mut least) = (1e9, f64::MAX);
        let (mut there, mut back) = (0.0, 0.0);
        for (gap, f, b, what) in steps {
            at += f64::from(gap) * 0.1 * MS;
            match what {
                0 => there = f64::from(f) * MS,
                1 => back = f64::from(b) * MS,
                _ => {}
            }
            least = back.min(least);
            let told = ways.told(at, there, back);
            prop_assert!(told >= there + least - 1e3, "{} told, {} there, {} back, least {}", told, there, back, least);
            prop_assert!(told <= there + back + 1e3);
        }
    }
}

/// An hour with clocks 100 ppm fast and slow, an upload that fills the way back for five minutes and pauses for ten seconds.
#[test]
fn a_clock_that_drifts_for_an_hour_costs_two_minutes_drift() {
    for rate in [1.0 - 1e-4, 1.0 + 1e-4, 1.0 - 2e-5, 1.0 + 2e-5] {
        let mut ways = Ways::new(5e8, rate);
        for n in 1..360_000u32 {
            let at = 1e9 + f64::from(n) * 10.37 * MS;
            let busy = phase(at, 310.0) > 10.0 / 310.0;
            let (there, back) = (saw(at, 40.0 * MS), if busy { (350.0 + 150.0 * phase(at, 7.0)) * MS } else { 0.0 });
            let told = ways.told(at, there, back);
            assert!(told >= there - DRIFT, "{rate}, {n}: {} ms hidden", (there - told) / MS);
            assert!(told <= there + DRIFT, "{rate}, {n}: {} ms too many", (told - there) / MS);
        }
    }
}

/// The worst case: a rival's queue stands on the way there all the time, so that no sample tells of the drift.
#[test]
fn a_clock_that_drifts_for_an_hour_hides_no_queue_that_stands() {
    for rate in [1.0 - 1e-4, 1.0 + 1e-4] {
        let mut ways = Ways::new(5e8, rate);
        for n in 1..360_000u32 {
            let at = 1e9 + f64::from(n) * 10.37 * MS;
            let there = if n < 100 { 0.0 } else { (30.0 + 30.0 * phase(at, 9.0)) * MS };
            let told = ways.told(at, there, 5.0 * MS * phase(at, 3.0));
            assert!(told >= there - DRIFT, "{rate}, {n}: {} ms hidden", (there - told) / MS);
        }
    }
}

/// Also one that is set while queues stand: forward by less than the queue on the way there and 60 ms (what the base may fall) it hides no more
/// than that queue and than the step, else no more than passes for drift; and once both ways have been empty all is as before.
#[test]
fn a_clock_that_is_set_hides_no_queue() {
    for step in [-4e6, -900.0, -100.0, -20.0, -5.0, 5.0, 20.0, 100.0, 900.0, 4e6] {
        let mut ways = Ways::new(5e8, 1.0);
        for n in 1..20_000u32 {
            let at = 1e9 + f64::from(n) * 10.37 * MS;
            if n == 3_000 {
                ways.offset += step;
            }
            let empty = n < 100 || (10_000..10_100).contains(&n);
            let there = if empty { 0.0 } else { (30.0 + 30.0 * phase(at, 9.0)) * MS };
            let back = if empty { 0.0 } else { 200.0 * MS };
            let told = ways.told(at, there, back);
            let hidden = if n < 10_000 && (0.0..120.0).contains(&step) { DRIFT + step.min(60.0) * MS } else { DRIFT };
            assert!(told >= there - hidden, "{step}, {n}: {} ms hidden", (there - told) / MS);
            assert!(n < 10_200 || told <= there + DRIFT, "{step}, {n}: {} ms too many", (told - there) / MS);
        }
    }
}

/// RFC 7323 §4.1: a tick lasts from 1 ms to 1 s; others count microseconds, or milliseconds in leaps (HZ = 100).
#[test]
fn a_clock_that_counts_no_milliseconds_hides_no_queue() {
    for rate in [0.001, 0.01, 0.1, 0.25, 0.5, 0.9, 1.1, 2.0, 10.0, 1000.0] {
        let mut ways = Ways::new(5e8, rate);
        for n in 1..100_000u32 {
            let at = 1e9 + f64::from(n) * 1.37 * MS;
            let (there, back) = (saw(at, 60.0 * MS), 300.0 * MS * phase(at, 7.0));
            let told = ways.told(at, there, back);
            assert!(told >= there - DRIFT, "{rate}, {n}: {} ms hidden", (there - told) / MS);
        }
    }
}

/// Hosts add a few ms to each way, never the least to both at once. An upload's own queue comes and goes, and from the tenth second on a download
/// fills the way back.
#[test]
fn jitter_of_hosts_is_no_clock_that_drifts() {
    let mut ways = Ways::new(5e8, 1.0);
    for n in 1..6_000u32 {
        let at = 1e9 + f64::from(n) * 10.37 * MS;
        let jitter = |k: u32| f64::from(n.wrapping_mul(2_654_435_761).rotate_left(k) % 3_000) * 1e3;
        let mine = jitter(7);
        let (there, back) = (saw(at, 30.0 * MS) + mine, 3.0 * MS - mine + if n < 1_000 { 0.0 } else { 350.0 * MS });
        let told = ways.told(at, there, back);
        assert!(told <= there + 8.0 * MS, "{n}: {} ms too many", (told - there) / MS);
    }
}

/// At 1 Mbit/s a segment takes 12 ms: the first ones leave in pairs, and when one leaves alone for the first time the way back is full.
#[test]
fn a_way_there_that_is_empty_for_the_first_time_costs_what_it_falls() {
    let mut ways = Ways::new(5e8, 1.0);
    for n in 1..6_000u32 {
        let at = 1e9 + f64::from(n) * 10.37 * MS;
        let (there, back) = (if n < 800 { 12.0 * MS } else { saw(at, 30.0 * MS) }, if n < 500 { 0.0 } else { 350.0 * MS });
        let told = ways.told(at, there, back);
        assert!(told <= there + 15.0 * MS, "{n}: {} ms too many", (told - there) / MS);
    }
}

/// A flow of the path whose clock is another's is measured by its round trips, and disturbs no other.
#[test]
fn flows_with_clocks_of_their_own_do_not_disturb_one_another() {
    let mut ways = Ways::new(5e8, 1.0);
    for n in 1..20_000u32 {
        let at = 1e9 + f64::from(n) * 10.37 * MS;
        let (there, back) = (saw(at, 40.0 * MS), if n < 100 { 0.0 } else { 300.0 * MS });
        let other = n % 3 == 0;
        ways.offset = if other { 9e8 } else { 5e8 };
        let told = ways.told(at, there, back);
        let right = if other { there + back } else { there };
        assert!((right - 1.0..=right + 2.0 * MS).contains(&told) || n < 10, "{n}: {told} told of {there} there and {back} back");
    }
}

/// An upload fills the way back from the first packet on, so that the least round trip has 110 ms of it. Once it pauses, and what our bunched
/// acknowledgements release is a queue on the way there as long as the one that they waited in: round trips as short as the least, with the way
/// there anything from 0 to 90 ms. That is no other clock, and when the upload comes back all that it adds is left out as before.
#[test]
fn a_queue_that_moves_from_the_way_back_to_the_way_there_is_no_other_clock() {
    let mut ways = Ways::new(5e8, 1.0);
    for n in 1..30_000u32 {
        let at = 1e9 + f64::from(n) * 1.37 * MS;
        let (there, back) = match n {
            ..1_000 => (0.0, 110.0 * MS),
            10_000..11_000 => (phase(at, 0.1) * 90.0 * MS, (100.0 - phase(at, 0.1) * 90.0) * MS),
            _ => (saw(at, 30.0 * MS), 350.0 * MS),
        };
        let told = ways.told(at, there, back);
        assert!(told >= there - 1.0 && told <= there + 113.0 * MS, "{n}: {} ms too many", (told - there) / MS);
    }
}
