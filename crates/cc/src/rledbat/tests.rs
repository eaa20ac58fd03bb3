//! The receiver: edges, payment, losses, and a closed loop with a sender that obeys the window.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::controller::{Controller, Start};
use crate::events::Ack;
use crate::params::Params;
use crate::registry;

/// A window set by hand that counts what it is told.
#[derive(Debug, Default)]
struct Fixed {
    window: u64,
    losses: u32,
    pauses: u32,
    samples: Vec<Span>,
    limited: Vec<bool>,
}

impl WindowControl for Fixed {
    fn on_data(&mut self, data: &Data) {
        self.samples.extend(data.rtt);
        self.limited.push(data.limited);
    }
    fn on_loss(&mut self, _: Time, _: Span, _: u64) {
        self.losses += 1;
    }
    fn on_pause(&mut self, _: Time, _: Span, _: Span) {
        self.pauses += 1;
    }
    fn on_mss(&mut self, _: u32) {}
    fn window(&self) -> u64 {
        self.window
    }
}

fn fixed(window: u64, scale: u8) -> Receiver<Fixed> {
    Receiver::new(Config::default(), Fixed { window, ..Fixed::default() }, 1460, scale)
}

fn out(ms: u64, ack: u32, field: u16) -> Outgoing {
    Outgoing { now: Time::from_millis(ms), ack, field, tsval: Some(ms as u32) }
}

fn data(ms: u64, seq: u32, len: u32, tsval: u32, tsecr: u32) -> Segment {
    Segment { now: Time::from_millis(ms), seq, len, wire: len.min(1460), timestamps: Some((tsval, tsecr)), ce: false }
}

#[test]
fn the_field_is_rounded_up() {
    assert_eq!(fixed(2920, 7).on_outgoing(&out(0, 0, u16::MAX)), 23);
    assert_eq!(fixed(2920, 14).on_outgoing(&out(0, 0, u16::MAX)), 1);
    assert_eq!(fixed(70_000, 0).on_outgoing(&out(0, 0, u16::MAX)), 65_535);
    assert_eq!(fixed(70_000, 0).on_outgoing(&out(0, 0, 0)), 0);
    assert_eq!(fixed(70_000, 0).on_outgoing(&out(0, 0, 300)), 300);
}

/// Edge 100 000, then a goal of 2920: the field falls with the acknowledgement number until the debt is paid.
#[test]
fn a_reduction_is_paid_with_received_bytes() {
    let mut receiver = fixed(100_000, 0);
    receiver.already_shown(0, 100_000);
    receiver.control.window = 2920;
    for (ack, field) in [(0, 65_535), (40_000, 60_000), (97_080, 2920), (98_540, 2920)] {
        assert_eq!(receiver.on_outgoing(&out(1, ack, 65_535)), field, "acknowledgement {ack}");
    }
    assert_eq!(receiver.edge, (1 << 32) + 98_540 + 2920);
}

/// The highest byte at 5000 came with TSval 90: below it a later TSval is a loss, an equal one only once the hole is old.
#[test]
fn retransmissions_are_losses_once_a_window() {
    let receiver = || {
        let mut receiver = fixed(100_000, 7);
        receiver.on_outgoing(&out(0, 1000, u16::MAX));
        receiver.srtt = Span::from_millis(40);
        receiver.on_segment(&data(10, 1000, 1000, 80, 0));
        receiver.on_segment(&data(11, 4000, 1000, 90, 0));
        receiver
    };
    let losses = |segment: Segment| {
        let mut receiver = receiver();
        receiver.on_segment(&segment);
        receiver.control.losses
    };
    assert_eq!(losses(data(12, 2000, 1000, 91, 0)), 1);
    assert_eq!(losses(data(12, 2000, 1000, 90, 0)), 0, "reordered");
    assert_eq!(losses(data(32, 2000, 1000, 90, 0)), 1, "the hole is older than half an RTT");
    assert_eq!(losses(data(12, 1000, 1000, 95, 0)), 0, "entirely old");
    let mut twice = receiver();
    twice.on_segment(&data(12, 2000, 1000, 91, 0));
    twice.on_segment(&data(13, 3000, 1000, 92, 0));
    assert_eq!(twice.control.losses, 1, "the same flight");
    assert!(later(0x0000_0005, 0xffff_fff0) && !later(0xffff_fff0, 5));
}

#[test]
fn duplicate_acknowledgements_keep_their_field() {
    let mut receiver = fixed(50_000, 7);
    let first = receiver.on_outgoing(&out(0, 1000, u16::MAX));
    receiver.on_segment(&data(10, 3000, 1000, 5, 0));
    receiver.control.window = 90_000;
    assert_eq!(receiver.on_outgoing(&out(10, 1000, u16::MAX)), first);
    receiver.on_segment(&data(11, 1000, 2000, 5, 0));
    assert_eq!(receiver.on_outgoing(&out(11, 4000, u16::MAX)), 90_000u64.div_ceil(128) as u16);
}

#[test]
fn a_pause_gives_no_sample() {
    let mut receiver = fixed(50_000, 7);
    receiver.on_outgoing(&out(0, 1000, u16::MAX));
    receiver.on_segment(&data(20, 1000, 1000, 5, 0));
    receiver.on_outgoing(&out(20, 2000, u16::MAX));
    receiver.on_segment(&data(5000, 2000, 1000, 4900, 20));
    assert_eq!(receiver.control.samples, [Span::from_millis(20)]);
    assert_eq!(receiver.control.pauses, 1);
}

/// The first segments of a long path arrive in pairs, a round trip apart: that is no pause, or there would never be a sample.
#[test]
fn a_long_path_is_no_pause() {
    let mut receiver = fixed(50_000, 7);
    receiver.on_outgoing(&out(0, 1000, u16::MAX));
    receiver.on_segment(&data(300, 1000, 1000, 5, 9999));
    receiver.on_outgoing(&out(300, 2000, u16::MAX));
    receiver.on_segment(&data(600, 2000, 1000, 305, 300));
    assert_eq!((receiver.control.pauses, receiver.control.samples.as_slice()), (0, &[Span::from_millis(300)][..]));
}

/// An application that does not read: the host's window is shown as it is, down to nothing and back, and is not taken for ours.
#[test]
fn a_window_that_the_host_closes_is_not_the_limit() {
    let mut receiver = fixed(50_000, 7);
    let mut step = |ms: u64, ack: u32, field: u16| {
        let shown = receiver.on_outgoing(&out(ms, ack, field));
        // The sender uses what it was shown to the last byte.
        let (from, bytes) = (receiver.received.next() as u32, u32::from(shown) << 7);
        receiver.on_segment(&data(ms + 20, from, bytes, ms as u32, ms as u32));
        (shown, receiver.control.limited.last().copied())
    };
    assert_eq!(step(1000, 0, u16::MAX), (391, Some(true)));
    assert_eq!(step(1100, 391 << 7, 100), (100, Some(false)));
    assert_eq!(step(1200, 491 << 7, 0), (0, Some(false)));
    assert_eq!(step(1300, 491 << 7, u16::MAX), (391, Some(true)));
}

/// 100 Gbit/s and 10 s: TCP's largest window over and over, past every wrap of sequence numbers and timestamps.
#[test]
fn no_overflow_at_a_hundred_gigabit_and_ten_seconds() {
    const STEP: u32 = 800_000_000;
    let mut receiver = fixed(u64::MAX, 14);
    let start = 0xffff_0000u32;
    for n in 0..1000u64 {
        let (ms, ack) = (n * 10_000, start.wrapping_add((n as u32).wrapping_mul(STEP)));
        assert_eq!(receiver.on_outgoing(&Outgoing { tsval: Some((ms << 10) as u32), ..out(ms, ack, u16::MAX) }), u16::MAX);
        receiver.on_segment(&data(ms + 10_000, ack, STEP, (ms << 10) as u32, (ms << 10) as u32));
    }
    assert_eq!(receiver.received.next(), (1 << 32) + u64::from(start) + 1000 * u64::from(STEP));
    assert_eq!((receiver.window(), receiver.control.losses), (MAX_WINDOW, 0));
}

/// A sender that sends whatever the edge and its own window permit, over a link of 20 Mbit/s with an endless buffer.
struct Loop<W> {
    receiver: Receiver<W>,
    base: Span,
    sender_window: u64,
    data: VecDeque<(Time, u64, u32)>,
    acks: VecDeque<(Time, u64, u64, u32)>,
    sent: u64,
    acked: u64,
    edge: u64,
    echo: u32,
    link_free: Time,
    delivered: u64,
}

const SEGMENT: u64 = 1448;

impl<W: WindowControl> Loop<W> {
    fn new(receiver: Receiver<W>, base_ms: u64, sender_segments: u64) -> Loop<W> {
        let mut this = Loop {
            receiver,
            base: Span::from_millis(base_ms),
            sender_window: sender_segments * SEGMENT,
            data: VecDeque::new(),
            acks: VecDeque::new(),
            sent: 0,
            acked: 0,
            edge: 0,
            echo: 0,
            link_free: Time::ZERO,
            delivered: 0,
        };
        this.acknowledge(Time::from_millis(1));
        this
    }

    fn acknowledge(&mut self, now: Time) {
        let tsval = (now.nanos() / 1_000_000) as u32;
        let field = self.receiver.on_outgoing(&Outgoing { now, ack: self.delivered as u32, field: u16::MAX, tsval: Some(tsval) });
        self.acks.push_back((now + self.base / 2, self.delivered, self.delivered + (u64::from(field) << 7), tsval));
    }

    fn step(&mut self) -> Time {
        let data_first = self.data.front().is_some_and(|d| self.acks.front().is_none_or(|a| d.0 <= a.0));
        if data_first {
            let Some((now, seq, echo)) = self.data.pop_front() else { return Time::MAX };
            let tsval = (now.nanos() / 1_000_000) as u32;
            let timestamps = Some((tsval, echo));
            self.delivered = seq + SEGMENT;
            self.receiver.on_segment(&Segment { now, seq: seq as u32, len: SEGMENT as u32, wire: SEGMENT as u32, timestamps, ce: false });
            self.acknowledge(now);
            return now;
        }
        let Some((now, ack, edge, tsval)) = self.acks.pop_front() else { return Time::MAX };
        assert!(edge >= self.edge, "the right edge moved from {} to {edge}", self.edge);
        (self.acked, self.edge, self.echo) = (ack, edge, tsval);
        while self.sent + SEGMENT <= self.edge.min(self.acked + self.sender_window) {
            self.link_free = self.link_free.max(now) + Span::from_micros(600);
            self.data.push_back((self.link_free + self.base / 2, self.sent, self.echo));
            self.sent += SEGMENT;
        }
        now
    }

    fn run(&mut self, until: Time, mut each: impl FnMut(&mut Self, Time)) {
        loop {
            let now = self.step();
            if now > until {
                return;
            }
            each(self, now);
        }
    }
}

fn looped(profile: &str, base_ms: u64, sender_segments: u64) -> Loop<Box<dyn Controller>> {
    let start = Start { mss: SEGMENT as u32, ..Start::default() };
    Loop::new(build(profile, &Params::default(), &start, 7).expect("a profile"), base_ms, sender_segments)
}

/// Alone on 20 Mbit/s: the receiver fills the line, at the target's delay or below.
#[test]
fn alone_it_uses_the_line_within_its_target() {
    for (profile, base, least, target) in
        [("ledbat_pp-burst", 20, 0.90, 60), ("ledbat_pp-enhanced-burst", 20, 0.88, 20), ("rledbat-fig2", 20, 0.85, 60)]
    {
        let mut flow = looped(profile, base, 10_000);
        let mut delays = Vec::new();
        flow.run(Time::from_millis(20_000), |_, _| {});
        let before = flow.delivered;
        flow.run(Time::from_millis(80_000), |f, now| delays.push(f.link_free.since(now)));
        let share = (flow.delivered - before) as f64 * 8.0 / 60.0 / (20e6 * SEGMENT as f64 / 1500.0);
        delays.sort_unstable();
        let p95 = delays[delays.len() * 95 / 100];
        assert!(share > least, "{profile}: {share:.3} of the line");
        assert!(p95 <= Span::from_millis(target + 3), "{profile}: {p95} of queue");
    }
}

/// Windows of LEDBAT++ in the sender after each acknowledgement, on the same link.
fn sender_windows(params: &Params, base: Span, segments: usize) -> Vec<u64> {
    let start = Start { mss: SEGMENT as u32, ..Start::default() };
    let mut cc = registry::by_name("ledbat_pp").expect("registered").build(params, &start).expect("parameters");
    let (mut acks, mut sent, mut delivered) = (VecDeque::new(), 0, 0);
    let (mut now, mut link_free) = (Time::from_millis(1), Time::ZERO);
    let mut windows = Vec::new();
    while windows.len() < segments {
        while sent - delivered + SEGMENT <= cc.cwnd() {
            link_free = link_free.max(now) + Span::from_micros(600);
            acks.push_back((link_free + base, now, delivered));
            sent += SEGMENT;
        }
        let (at, left, prior_delivered) = acks.pop_front().expect("something is in flight");
        let (in_flight, rtt) = (sent - delivered, at.since(left));
        (now, delivered) = (at, delivered + SEGMENT);
        let (rtt, srtt) = (Some(rtt), rtt);
        cc.on_ack(&Ack { now, acked: SEGMENT, in_flight, rtt, srtt, delivered, prior_delivered, cwnd_limited: true, ..Ack::default() });
        windows.push(cc.cwnd());
    }
    windows
}

/// The same samples give the same window as in a sender, through slow start and congestion avoidance. A field in units of 128
/// bytes is rounded up: now and then a segment leaves an acknowledgement earlier.
#[test]
fn it_holds_the_window_that_a_sender_would() {
    let params = Params::from_toml("slowdowns = false\nburst_segments = 0.0").expect("TOML");
    let start = Start { mss: SEGMENT as u32, ..Start::default() };
    for base_ms in [20, 60] {
        let mut flow = Loop::new(build("ledbat_pp-burst", &params, &start, 7).expect("a profile"), base_ms, 10_000);
        let (mut ours, mut seen) = (Vec::new(), 0);
        flow.run(Time::from_millis(30_000), |f, _| {
            if f.delivered > seen {
                seen = f.delivered;
                ours.push(f.receiver.window());
            }
        });
        let theirs = sender_windows(&params, Span::from_millis(base_ms), ours.len());
        assert!(theirs.iter().max() > Some(&(60 * SEGMENT)), "it fills the line and its target");
        for (n, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert!(ours.abs_diff(*theirs) < SEGMENT, "base {base_ms}, segment {n}: {ours} here, {theirs} in a sender");
        }
    }
}

/// A sender held to ten segments by its own window does not make ours grow. What looks used: ten segments, one more, two of a
/// tick of the labels; growth goes on for an RTT after that, at a gain of 1/6.
#[test]
fn the_window_does_not_grow_while_it_is_not_the_limit() {
    let mut flow = looped("ledbat_pp-burst", 20, 10);
    flow.run(Time::from_millis(60_000), |f, now| {
        let segments = f.receiver.window() as f64 / SEGMENT as f64;
        assert!(segments <= 13.0 * (1.0 + 1.0 / 6.0), "{segments:.2} segments at {now}");
    });
}

/// The edge rule's RTT is the link's, to the nanosecond.
#[test]
fn the_edge_rule_measures_the_true_rtt() {
    let control = Fixed { window: 10 * SEGMENT, ..Fixed::default() };
    let mut flow = Loop::new(Receiver::new(Config::default(), control, SEGMENT as u32, 7), 20, 1000);
    flow.run(Time::from_millis(2000), |_, _| {});
    let samples = &flow.receiver.control.samples;
    assert!(samples.len() > 900);
    let settled = &samples[100..];
    assert!(settled.iter().all(|s| *s >= Span::from_micros(20_600)), "never below the true RTT");
    assert_eq!(settled.iter().min(), Some(&Span::from_micros(20_600)));
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
        let mut receiver = fixed(2920, scale);
        let (mut next, mut kernel_edge, mut edge) = (0u64, 0u64, 0u64);
        for (i, (kind, skip, len, field, window)) in steps.into_iter().enumerate() {
            let ms = i as u64;
            receiver.control.window = window;
            if kind == 0 {
                receiver.on_segment(&data(ms, first.wrapping_add((next as u32).wrapping_add(skip * 1000)), len, ms as u32, 0));
                if skip == 0 {
                    next += u64::from(len);
                }
                continue;
            }
            // The host itself never moves its edge to the left.
            let least = kernel_edge.saturating_sub(next).div_ceil(1 << scale).min(65_535) as u16;
            let field = field.max(least);
            kernel_edge = kernel_edge.max(next + (u64::from(field) << scale));
            let shown = receiver.on_outgoing(&Outgoing { now: Time::from_millis(ms), ack: first.wrapping_add(next as u32), field, tsval: Some(ms as u32) });
            prop_assert!(shown <= field);
            prop_assert!(shown > 0 || field == 0);
            let now = next + (u64::from(shown) << scale);
            prop_assert!(now >= edge || shown == field, "{edge} to {now}");
            edge = edge.max(now);
        }
    }
}
