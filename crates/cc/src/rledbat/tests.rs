//! The receiver: edges, payment, losses, RTTs. `closed_loop.rs` has a sender that obeys the window.

mod closed_loop;
mod way_back;

use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;
use crate::controller::{Controller, Start};
use crate::events::{Ack, Congestion, Restart};
use crate::params::Params;

/// What a control was told.
#[derive(Debug, Default)]
struct Told {
    samples: Vec<Span>,
    limited: Vec<bool>,
    restarts: u32,
}

/// A window that stays as it is.
#[derive(Debug)]
struct Fixed(u64, Arc<Mutex<Told>>);

impl Controller for Fixed {
    fn on_ack(&mut self, ack: &Ack) {
        let mut told = self.1.lock().expect("one thread");
        told.samples.extend(ack.rtt);
        told.limited.push(ack.cwnd_limited);
    }
    fn on_congestion(&mut self, _: &Congestion) {}
    fn on_restart(&mut self, _: &Restart) {
        self.1.lock().expect("one thread").restarts += 1;
    }
    fn on_mss(&mut self, _: u32) {}
    fn cwnd(&self) -> u64 {
        self.0
    }
    fn snapshot(&self) -> Snapshot {
        Snapshot::of(self.0, f64::INFINITY, "avoidance")
    }
}

/// A connection whose window is `window` for ever, and what its control is told.
fn held(mss: u32, window: u64) -> (Receiver, Arc<Mutex<Told>>) {
    let told = Arc::default();
    let mut flow = flow(window, 7);
    flow.mss = u64::from(mss);
    (Receiver::new(flow, Group::new(Box::new(Fixed(window, Arc::clone(&told))), mss, Span::ZERO)), told)
}

fn flow(window: u64, scale: u8) -> Flow {
    let mut flow = Flow::new(Time::ZERO, 1460, 1460, scale, true);
    flow.set_window(window);
    flow
}

fn out(ms: u64, ack: u32, field: u16) -> Outgoing {
    Outgoing { now: Time::from_millis(ms), ack, field, tsval: Some(ms as u32) }
}

fn data(ms: u64, seq: u32, len: u32, tsval: u32, tsecr: u32) -> Segment {
    Segment { now: Time::from_millis(ms), seq, len, wire: len.min(1460), timestamps: Some((tsval, tsecr)), ce: false }
}

/// Nobody knows what the first segment seen comes after: it shows what the host shows. Then the field is ours.
#[test]
fn the_field_is_rounded_up() {
    let second = |window: u64, scale: u8, field: u16| {
        let mut flow = flow(window, scale);
        assert_eq!(flow.on_outgoing(&out(0, 0, 1), 0, false), 1);
        flow.on_outgoing(&out(1, 0, field), 0, false)
    };
    assert_eq!(second(2920, 7, u16::MAX), 23);
    assert_eq!(second(2920, 14, u16::MAX), 1);
    assert_eq!(second(70_000, 0, u16::MAX), 65_535);
    assert_eq!(second(70_000, 0, 0), 0);
    assert_eq!(second(70_000, 0, 300), 300);
}

/// Edge 100,000, then a goal of 2920: the field falls with the acknowledgement number until the debt is paid.
#[test]
fn a_reduction_is_paid_with_received_bytes() {
    let mut flow = flow(2920, 1);
    for (ack, field, shown) in
        [(0, 50_000, 50_000), (0, u16::MAX, 50_000), (40_000, u16::MAX, 30_000), (97_080, u16::MAX, 1460), (98_540, u16::MAX, 1460)]
    {
        assert_eq!(flow.on_outgoing(&out(1, ack, field), 0, false), shown, "acknowledgement {ack}");
    }
}

/// The highest byte at 5000 came with TSval 90: below it a later TSval is a loss, an equal one only once the hole is old.
#[test]
fn retransmissions_are_losses_once_a_window() {
    let with_hole = || {
        let mut flow = flow(100_000, 7);
        flow.on_outgoing(&out(0, 1000, u16::MAX), 0, false);
        flow.srtt = Span::from_millis(40);
        flow.on_segment(&data(10, 1000, 1000, 80, 0), 1000);
        flow.on_segment(&data(11, 4000, 1000, 90, 0), 2000);
        flow
    };
    let lost = |segment: Segment| with_hole().on_segment(&segment, 2000).map(|report| report.lost);
    assert_eq!(lost(data(12, 2000, 1000, 91, 0)), Some(true));
    assert_eq!(lost(data(12, 2000, 1000, 90, 0)), Some(false), "reordered");
    assert_eq!(lost(data(32, 2000, 1000, 90, 0)), Some(true), "the hole is older than half an RTT");
    assert_eq!(lost(data(12, 1000, 1000, 95, 0)), None, "entirely old");
    let mut twice = with_hole();
    assert_eq!(twice.on_segment(&data(12, 2000, 1000, 91, 0), 2000).map(|r| r.lost), Some(true));
    assert_eq!(twice.on_segment(&data(13, 3000, 1000, 92, 0), 3000).map(|r| r.lost), Some(false), "the same flight");
    assert!(later(0x0000_0005, 0xffff_fff0) && !later(0xffff_fff0, 5));
}

#[test]
fn duplicate_acknowledgements_keep_their_field() {
    let mut flow = flow(50_000, 7);
    flow.on_outgoing(&out(0, 1000, 16), 0, false);
    let first = flow.on_outgoing(&out(0, 1000, u16::MAX), 0, false);
    assert_eq!(first, 391);
    flow.on_segment(&data(10, 3000, 1000, 5, 0), 1000);
    flow.set_window(90_000);
    assert_eq!(flow.on_outgoing(&out(10, 1000, u16::MAX), 0, false), first);
    flow.on_segment(&data(11, 1000, 2000, 5, 0), 1000);
    assert_eq!(flow.on_outgoing(&out(11, 4000, u16::MAX), 0, false), 90_000u64.div_ceil(128) as u16);
}

/// A control that moves its own edge goes on above a hole, by what arrived and a step.
#[test]
fn an_edge_with_a_step_moves_over_holes_and_never_by_a_burst() {
    let mut flow = flow(50_000, 7);
    flow.step = Some(1460);
    flow.on_outgoing(&out(0, 1000, 16), 0, false);
    flow.on_segment(&data(10, 2000, 1000, 5, 0), 1000);
    let edge = 1000 + 16 * 128;
    assert_eq!(u64::from(flow.on_outgoing(&out(10, 1000, u16::MAX), 0, false)), (edge + 1000 + 1460 - 1000u64).div_ceil(128));
}

/// A segment that waited for its permission, which a delayed acknowledgement gave 40 ms late, was not late itself; one that had its permission was.
#[test]
fn at_a_floor_of_one_segment_each_gives_a_sample() {
    let mut flow = flow(1460, 0);
    flow.step = Some(1460);
    flow.srtt = Span::from_millis(20);
    flow.on_outgoing(&out(0, 1000, 1460), 0, false);
    flow.on_segment(&data(20, 1000, 1460, 10, 0), 1000);
    flow.on_outgoing(&out(60, 2460, u16::MAX), 0, false);
    let report = flow.on_segment(&data(80, 2460, 1460, 70, 60), 2460).expect("it is due");
    assert!(report.rtt.is_some_and(|rtt| about(20).contains(&rtt)), "{report:?}");
    flow.on_outgoing(&out(81, 3920, u16::MAX), 0, false);
    let report = flow.on_segment(&data(581, 3920, 1460, 571, 81), 3920).expect("it is due");
    assert_eq!(report.rtt, None, "the sender paused");
}

/// The labels tick each 1.024 µs.
fn about(ms: u64) -> std::ops::Range<Span> {
    Span::from_millis(ms) - Span::from_nanos(1024)..Span::from_millis(ms) + Span::from_nanos(1025)
}

#[test]
fn a_pause_gives_no_sample() {
    let (mut receiver, told) = held(1000, 50_000);
    receiver.on_outgoing(&out(1, 1000, u16::MAX));
    receiver.on_segment(&data(21, 1000, 1000, 5, 1), 1000);
    receiver.on_outgoing(&out(21, 2000, u16::MAX));
    receiver.on_segment(&data(1000, 2000, 1000, 900, 21), 2000);
    let told = told.lock().expect("one thread");
    assert!(matches!(told.samples[..], [sample] if about(20).contains(&sample)), "{told:?}");
    assert_eq!(told.restarts, 1);
}

/// The first segments of a long path arrive in pairs, a round trip apart: that is no pause, or there would never be a sample.
#[test]
fn a_long_path_is_no_pause() {
    let (mut receiver, told) = held(1000, 50_000);
    receiver.on_outgoing(&out(0, 1000, u16::MAX));
    receiver.on_segment(&data(300, 1000, 1000, 5, 0), 1000);
    receiver.on_outgoing(&out(300, 2000, u16::MAX));
    receiver.on_segment(&data(600, 2000, 1000, 305, 300), 2000);
    let told = told.lock().expect("one thread");
    assert!(told.samples.len() == 2 && told.samples.iter().all(|sample| about(300).contains(sample)) && told.restarts == 0, "{told:?}");
}

/// An application that does not read: the host's window is shown as it is, down to nothing and back, and is not taken for ours.
#[test]
fn a_window_that_the_host_closes_is_not_the_limit() {
    let mut flow = flow(50_000, 7);
    flow.on_outgoing(&out(0, 0, 16), 0, false);
    let mut step = |ms: u64, ack: u32, field: u16| {
        let shown = flow.on_outgoing(&out(ms, ack, field), 0, false);
        // The sender uses what it was shown to the last byte.
        let bytes = u32::from(shown) << 7;
        let report = flow.on_segment(&data(ms + 20, ack, bytes, ms as u32, ms as u32), ack);
        (shown, report.map(|report| report.limited))
    };
    assert_eq!(step(1000, 0, u16::MAX), (391, Some(true)));
    assert_eq!(step(1100, 391 << 7, 100), (100, Some(false)));
    assert_eq!(step(1200, 491 << 7, 0), (0, None));
    assert_eq!(step(1300, 491 << 7, u16::MAX), (391, Some(true)));
}

/// 100 Gbit/s and 10 s: TCP's largest window over and over, past every wrap of sequence numbers and timestamps.
#[test]
fn no_overflow_at_a_hundred_gigabit_and_ten_seconds() {
    const STEP: u32 = 800_000_000;
    let mut flow = flow((1 << 30) - 1, 14);
    let start = 0xffff_0000u32;
    for n in 0..1000u64 {
        let (ms, ack) = (n * 10_000, start.wrapping_add((n as u32).wrapping_mul(STEP)));
        let tsval = (ms << 10) as u32;
        assert_eq!(flow.on_outgoing(&Outgoing { tsval: Some(tsval), ..out(ms, ack, u16::MAX) }, 0, false), u16::MAX);
        let report = flow.on_segment(&data(ms + 10_000, ack, STEP, tsval, tsval), ack).expect("within the window");
        assert_eq!((report.got, report.lost), (u64::from(STEP), false));
    }
}

/// Acknowledgements at 0.0 (TSval 7, edge 3000) and 0.4 ms (7, 6000); a segment that ends at 6000 echoes 7 at 20.4 ms.
#[test]
fn the_edge_rule_removes_the_tick_and_the_first_echo_counts_once() {
    let at = |us: u64| Time::from_nanos(us * 1000);
    let rtts = |rule: RttRule, tsecr: u32| {
        let mut flow = flow(3000, 0).with_rtts_by(rule);
        flow.on_outgoing(&Outgoing { now: Time::from_millis(1), ack: 0, field: 3000, tsval: Some(7) }, 0, false);
        flow.on_outgoing(&Outgoing { now: at(1400), ack: 3000, field: 3000, tsval: Some(7) }, 0, false);
        let segment = Segment { now: at(21_400), ..data(0, 3000, 1460, 30, tsecr) };
        let mut rtt = |start: u32| flow.on_segment(&Segment { seq: start, ..segment }, start).and_then(|report| report.rtt);
        [rtt(3000), rtt(4460)]
    };
    let about = |rtt: Option<Span>, us: u64| rtt.is_some_and(|rtt| rtt.nanos().abs_diff(us * 1000) <= 1024);
    let [first, second] = rtts(RttRule::Edge, 7);
    assert!(about(first, 20_000) && about(second, 20_000), "{first:?} {second:?}");
    let [first, second] = rtts(RttRule::FirstEcho, 7);
    assert!(about(first, 20_400) && second.is_none(), "{first:?} {second:?}");
    assert_eq!(rtts(RttRule::Edge, 8), [None; 2], "a TSval that was never sent");
}

#[test]
fn a_reduction_gives_no_first_echo_sample() {
    let mut flow = flow(3000, 0).with_rtts_by(RttRule::FirstEcho);
    flow.on_outgoing(&out(1, 0, 6000), 0, false);
    flow.on_outgoing(&out(2, 1460, 6000), 0, false);
    assert_eq!(flow.on_segment(&data(22, 1460, 1460, 30, 2), 1460).map(|report| report.rtt), Some(None));
}

#[test]
fn an_unknown_profile_or_parameter_is_named() {
    let start = Start::default();
    assert!(build("rledbatt", &Params::default(), &start, 7).expect_err("misspelt").to_string().contains("ledbat_pp-enhanced"));
    let params = Params::from_toml("targett_ms = 1").expect("TOML");
    assert!(build("ledbat_pp", &params, &start, 7).expect_err("misspelt").to_string().contains("target_ms"));
}

proptest! {
    /// Whatever arrives and whatever the window control wants: the edge never moves left, the field never exceeds the host's
    /// and is zero only where the host's is.
    #[test]
    fn edges_never_move_left(
        first in any::<u32>(), scale in 0u8..=14,
        steps in prop::collection::vec((0u32..4, 0u32..20, 1u32..3000, any::<u16>(), 0u64..200_000), 1..200),
    ) {
        let mut receiver = flow(2920, scale);
        let (mut next, mut kernel_edge, mut edge) = (0u64, 0u64, 0u64);
        for (i, (kind, skip, len, field, window)) in steps.into_iter().enumerate() {
            let ms = i as u64;
            receiver.set_window(window);
            if kind == 0 {
                let seq = first.wrapping_add((next as u32).wrapping_add(skip * 1000));
                receiver.on_segment(&data(ms, seq, len, ms as u32, 0), first.wrapping_add(next as u32));
                if skip == 0 {
                    next += u64::from(len);
                }
                continue;
            }
            // The host itself never moves its edge to the left.
            let least = kernel_edge.saturating_sub(next).div_ceil(1 << scale).min(65_535) as u16;
            let field = field.max(least);
            kernel_edge = kernel_edge.max(next + (u64::from(field) << scale));
            let shown = receiver.on_outgoing(&out(ms, first.wrapping_add(next as u32), field), 0, false);
            prop_assert!(shown <= field);
            prop_assert!(shown > 0 || field == 0);
            let now = next + (u64::from(shown) << scale);
            prop_assert!(now >= edge || shown == field, "{edge} to {now}");
            edge = edge.max(now);
        }
    }
}
