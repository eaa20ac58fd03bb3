//! Both ends over a path that delays by 40 ms there and back and drops what a test says, step by step from `tcp.cc`, `tcp-reno.cc` and
//! `tcp-linux.cc`.

use std::collections::VecDeque;

use lowtide_cc::{Params, Start};
use lowtide_units::{Span, Time};

use super::agent::{Agent, AgentConfig};
use super::sink::{Sink, SinkConfig};
use crate::packet::Packet;

const SIZE: u32 = 1448;

struct Pair {
    agent: Agent,
    sink: Sink,
    now: Time,
    data: VecDeque<(Time, Packet)>,
    acks: VecDeque<(Time, Packet)>,
    sent: Vec<(u64, u32)>,
    /// Transmissions to drop, counted from zero; and a segment whose first `.1` transmissions are dropped.
    drop: Vec<usize>,
    drop_segment: (u32, u32),
}

fn pair(linux: bool, timestamps: bool, one_way: bool, segments: u64) -> Pair {
    let config = AgentConfig { linux, size: SIZE, timestamps, minrto: Span::from_millis(200), one_way };
    let start = Start { mss: SIZE, initial_window: Some(if one_way { 2 } else { 10 } * u64::from(SIZE)), ..Start::default() };
    let control = lowtide_replicas::by_name("reno-ns2").expect("known").build(&Params::default(), &start).expect("no parameters");
    let mut agent = Agent::new(0, config, control.into_replica().expect("any host"), 1 << 40);
    agent.write(segments.saturating_mul(u64::from(SIZE)));
    let sink = SinkConfig { size: SIZE, every: 1, interval: Span::from_millis(100), buffer: 1 << 30, scale: 14 };
    Pair {
        agent,
        sink: Sink::new(0, sink),
        now: Time::ZERO,
        data: VecDeque::new(),
        acks: VecDeque::new(),
        sent: Vec::new(),
        drop: Vec::new(),
        drop_segment: (0, 0),
    }
}

impl Pair {
    fn flush(&mut self) {
        while let Some(packet) = self.agent.poll(self.now) {
            let number = self.sent.len();
            self.sent.push((self.now.nanos() / 1_000_000, packet.seq));
            if packet.seq == self.drop_segment.0 && self.drop_segment.1 > 0 {
                self.drop_segment.1 -= 1;
            } else if !self.drop.contains(&number) {
                self.data.push_back((self.now + Span::from_millis(20), packet));
            }
        }
    }

    fn run(&mut self, until_ms: u64) {
        self.flush();
        loop {
            let timers = self.agent.deadline().into_iter().chain(self.sink.deadline());
            let next = timers.chain(self.data.front().map(|d| d.0)).chain(self.acks.front().map(|a| a.0)).min();
            let Some(next) = next.filter(|at| *at <= Time::from_millis(until_ms)) else { return };
            self.now = next;
            if self.data.front().is_some_and(|d| d.0 <= self.now) {
                let (_, packet) = self.data.pop_front().expect("just seen");
                let ack = self.sink.on_data(&packet, self.now);
                self.acks.extend(ack.map(|ack| (self.now + Span::from_millis(20), ack)));
            } else if self.acks.front().is_some_and(|a| a.0 <= self.now) {
                let (_, ack) = self.acks.pop_front().expect("just seen");
                self.agent.on_ack(&ack, self.now);
            } else {
                let ack = self.sink.on_timer(self.now);
                self.acks.extend(ack.map(|ack| (self.now + Span::from_millis(20), ack)));
                self.agent.on_timer(self.now);
            }
            self.flush();
        }
    }

    fn times_of(&self, seq: u32) -> Vec<u64> {
        self.sent.iter().filter(|s| s.1 == seq).map(|s| s.0).collect()
    }
}

/// Ten leave, then twenty at 40 ms, of which the first is lost. Its nineteen duplicates at 80 ms say nothing, but each sets the
/// timer anew: 200 ms later it fires. What it repairs acknowledges all that was out, and the window is three segments.
#[test]
fn duplicates_only_put_the_linux_agents_timer_off() {
    let mut pair = pair(true, false, false, u64::MAX);
    pair.drop = vec![10];
    pair.run(330);
    assert_eq!(pair.times_of(10), [40, 280]);
    let at = |ms: u64| pair.sent.iter().filter(|s| s.0 == ms).count();
    assert_eq!((at(40), at(80), at(280), at(320)), (20, 0, 1, 3));
    assert_eq!((pair.agent.stats().timeouts, pair.agent.stats().retransmits), (1, 1));
}

/// With timestamps the duplicates are samples, too: they echo the last that came in order and so seem 80 ms old instead of 40.
#[test]
fn duplicates_are_samples_where_there_are_timestamps() {
    let srtt = |timestamps| {
        let mut pair = pair(true, timestamps, false, u64::MAX);
        pair.drop = vec![10];
        pair.run(85);
        pair.agent.srtt()
    };
    assert!(srtt(true) > Span::from_millis(72) && srtt(true) < Span::from_millis(80), "19 steps of an eighth towards 80 ms");
    assert_eq!(srtt(false), Span::from_millis(40));
}

/// The retransmission is lost as well: the window is reduced at each expiry, not once.
#[test]
fn each_expiry_is_told() {
    let mut pair = pair(true, false, false, u64::MAX);
    pair.drop_segment = (10, 3);
    pair.run(1000);
    assert_eq!(pair.times_of(10), [40, 280, 680]);
    assert_eq!((pair.agent.stats().timeouts, pair.agent.stats().episodes), (2, 2));
}

/// Three duplicates: Reno repairs at 80 ms, once, and the first two let a new segment each go (RFC 3042).
#[test]
fn reno_repairs_at_the_third_duplicate() {
    let mut pair = pair(false, false, false, 60);
    pair.drop = vec![10];
    pair.run(100);
    assert_eq!(pair.times_of(10), [40, 80]);
    let at_80: Vec<u32> = pair.sent.iter().filter(|s| s.0 == 80).map(|s| s.1).collect();
    assert_eq!(at_80[..3], [30, 31, 10]);
    pair.run(3000);
    assert!(pair.agent.is_done() && pair.agent.stats().timeouts == 0);
}

/// A hole and its repair are lost: the timeout goes back to the left edge, and its one repair acknowledges all that was held above.
#[test]
fn a_timeout_goes_back_to_the_left_edge() {
    let mut pair = pair(false, false, false, 60);
    pair.drop_segment = (12, 2);
    pair.run(5000);
    assert!(pair.agent.is_done());
    let stats = pair.agent.stats();
    assert_eq!((stats.timeouts, stats.episodes), (1, 2));
}

/// The Linux agent's SYN and one segment leave together; Reno's SYN alone (`delay_growth_`). It has a number and no payload.
#[test]
fn a_syn_without_handshake_takes_a_number_and_no_payload() {
    for (linux, times) in [(true, [0, 0, 40, 40, 40, 40]), (false, [0, 40, 40, 80, 80, 80])] {
        let mut pair = pair(linux, false, true, 5);
        pair.agent.close();
        pair.run(200);
        assert_eq!(pair.sent.iter().map(|s| s.0).collect::<Vec<_>>(), times, "Linux: {linux}");
        assert_eq!(pair.sink.delivered(), u64::from(SIZE) * 5);
        assert!(pair.agent.is_done());
    }
}

/// The sink echoes what came at or below the left edge, duplicates too; nothing above a hole.
#[test]
fn the_echo_is_of_the_left_edge() {
    let mut sink = pair(true, true, false, 1).sink;
    let mut echo = |seq, ms| {
        let sent = Time::from_millis(ms);
        let packet = Packet { seq, sent, ..Packet::new(0, crate::packet::Kind::Data, SIZE + crate::packet::TCP_HEADER, sent) };
        sink.on_data(&packet, Time::from_millis(99)).map(|a| a.echo.nanos() / 1_000_000)
    };
    assert_eq!([echo(0, 1), echo(2, 3), echo(3, 4), echo(0, 7), echo(1, 9)], [1, 1, 1, 7, 9].map(Some));
}
