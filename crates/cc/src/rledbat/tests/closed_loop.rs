//! The receiver in a closed loop with a sender that obeys the window.

use std::collections::VecDeque;

use super::*;
use crate::registry;

/// A sender that sends whatever the edge and its own window permit, over a link of 20 Mbit/s with an endless buffer.
struct Loop {
    receiver: Receiver,
    base: Span,
    sender_window: u64,
    /// When it arrives, where it begins, its timestamps.
    data: VecDeque<(Time, u64, (u32, u32))>,
    acks: VecDeque<(Time, u64, u64, u32)>,
    sent: u64,
    acked: u64,
    edge: u64,
    echo: u32,
    link_free: Time,
    delivered: u64,
}

const SEGMENT: u64 = 1448;

impl Loop {
    fn new(receiver: Receiver, base_ms: u64, sender_segments: u64) -> Loop {
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
        this.acknowledge(Time::from_millis(1), 23);
        this
    }

    fn acknowledge(&mut self, now: Time, field: u16) {
        let tsval = (now.nanos() / 1_000_000) as u32;
        let field = self.receiver.on_outgoing(&Outgoing { now, ack: self.delivered as u32, field, tsval: Some(tsval) });
        self.acks.push_back((now + self.base / 2, self.delivered, self.delivered + (u64::from(field) << 7), tsval));
    }

    fn step(&mut self) -> Time {
        let data_first = self.data.front().is_some_and(|d| self.acks.front().is_none_or(|a| d.0 <= a.0));
        if data_first {
            let Some((now, seq, timestamps)) = self.data.pop_front() else { return Time::MAX };
            let timestamps = Some(timestamps);
            let segment = Segment { now, seq: seq as u32, len: SEGMENT as u32, wire: SEGMENT as u32, timestamps, ce: false };
            self.receiver.on_segment(&segment, seq as u32);
            self.delivered = seq + SEGMENT;
            self.acknowledge(now, u16::MAX);
            return now;
        }
        let Some((now, ack, edge, tsval)) = self.acks.pop_front() else { return Time::MAX };
        assert!(edge >= self.edge, "the right edge moved from {} to {edge}", self.edge);
        (self.acked, self.edge, self.echo) = (ack, edge, tsval);
        while self.sent + SEGMENT <= self.edge.min(self.acked + self.sender_window) {
            self.link_free = self.link_free.max(now) + Span::from_micros(600);
            let timestamps = ((now.nanos() / 1_000_000) as u32, self.echo);
            self.data.push_back((self.link_free + self.base / 2, self.sent, timestamps));
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

fn looped(profile: &str, base_ms: u64, sender_segments: u64) -> Loop {
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

/// The same samples give the same window as in a sender, through slow start and congestion avoidance, to two segments: the field is
/// rounded up to units of 128 bytes, so that now and then a segment ends more than a segment below the edge, and lets nothing grow.
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
            assert!(ours.abs_diff(*theirs) < 2 * SEGMENT, "base {base_ms}, segment {n}: {ours} here, {theirs} in a sender");
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

/// The edge rule's RTT is the link's, to a tick of the labels (1.024 µs).
#[test]
fn the_edge_rule_measures_the_true_rtt() {
    let (receiver, told) = held(SEGMENT as u32, 10 * SEGMENT);
    let mut flow = Loop::new(receiver, 20, 1000);
    flow.run(Time::from_millis(2000), |_, _| {});
    let told = told.lock().expect("one thread");
    assert!(told.samples.len() > 900);
    let settled = &told.samples[100..];
    let (least, truth) = (settled.iter().min().expect("samples"), Span::from_micros(20_600));
    assert!(least.nanos().abs_diff(truth.nanos()) <= 1024, "{least} of {truth}");
}
