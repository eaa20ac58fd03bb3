//! Both ends of a connection over a path that delays by a fixed time and drops what the test says.

mod timers;
mod transcript;
mod window;

use std::collections::VecDeque;

use lowtide_cc::{Ack, Cause, Congestion, Controller, Snapshot, Start};
use lowtide_net::Ecn;
use lowtide_units::{Rate, Span, Time};

use super::receiver::{Receiver, ReceiverConfig};
use super::sender::{LossRecovery, Sender, SenderConfig};
use crate::packet::Packet;

const MSS: u32 = 1448;

/// A Reno of ten lines, so that these tests depend on no algorithm of `cc`.
#[derive(Debug)]
struct Reno {
    cwnd: f64,
    ssthresh: f64,
    per_ack: bool,
}

impl Controller for Reno {
    fn on_ack(&mut self, ack: &Ack) {
        if ack.in_recovery || !ack.may_grow(self.cwnd as u64, self.cwnd < self.ssthresh) {
            return;
        }
        let acked = if self.per_ack { f64::from(MSS).min(ack.acked as f64) } else { ack.acked as f64 };
        self.cwnd += if self.cwnd < self.ssthresh { acked } else { f64::from(MSS) * acked / self.cwnd };
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.ssthresh = (event.in_flight as f64 / 2.0).max(2.0 * f64::from(MSS));
        self.cwnd = if event.cause == Cause::Timeout { f64::from(MSS) } else { self.ssthresh };
    }

    fn on_restart(&mut self, restart: &lowtide_cc::Restart) {
        if restart.idle > restart.rto {
            self.cwnd = self.cwnd.min(10.0 * f64::from(MSS));
        }
    }

    fn on_mss(&mut self, _mss: u32) {}

    fn cwnd(&self) -> u64 {
        self.cwnd as u64
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot { cwnd: self.cwnd as u64, ..Snapshot::default() }
    }
}

/// A connection over a path of a rate and a delay, without limit of queue.
struct Pair {
    sender: Sender,
    receiver: Receiver,
    now: Time,
    rtt: Span,
    rate: Option<Rate>,
    free: Time,
    data: VecDeque<(Time, Packet)>,
    acks: VecDeque<(Time, Packet)>,
    sent: Vec<(Time, u32)>,
    /// Transmissions to drop, counted from zero; and a segment whose first `.1` transmissions are dropped.
    drop: Vec<usize>,
    drop_segment: (u32, u32),
    /// What would arrive between these arrives at the second.
    stall: (Time, Time),
    /// Segments below are marked on the way.
    marked: u32,
}

impl Pair {
    fn new(config: SenderConfig, cwnd: f64, ssthresh: f64) -> Pair {
        let cc = Box::new(Reno { cwnd: cwnd * f64::from(MSS), ssthresh: ssthresh * f64::from(MSS), per_ack: false });
        let sack = config.has_sack();
        Pair {
            sender: Sender::new(0, config, cc, None, 1 << 40),
            receiver: Receiver::new(0, ReceiverConfig { every: 1, sack, ..ReceiverConfig::linux(MSS) }),
            now: Time::ZERO,
            rtt: Span::from_millis(40),
            rate: None,
            free: Time::ZERO,
            data: VecDeque::new(),
            acks: VecDeque::new(),
            sent: Vec::new(),
            drop: Vec::new(),
            drop_segment: (0, 0),
            stall: (Time::ZERO, Time::ZERO),
            marked: 0,
        }
    }

    fn bulk(config: SenderConfig) -> Pair {
        let mut pair = Pair::new(config, 10.0, 1e6);
        pair.sender.write(u64::MAX);
        pair
    }

    fn flush(&mut self) {
        while let Some(mut packet) = self.sender.poll(self.now) {
            if packet.seq < self.marked {
                packet.ecn = Ecn::Ce;
            }
            let number = self.sent.len();
            self.sent.push((self.now, packet.seq));
            if packet.seq == self.drop_segment.0 && self.drop_segment.1 > 0 {
                self.drop_segment.1 -= 1;
                continue;
            }
            if self.drop.binary_search(&number).is_ok() {
                continue;
            }
            let departs = match self.rate {
                Some(rate) => self.free.max(self.now) + rate.time_for(u64::from(packet.size)),
                None => self.now,
            };
            self.free = departs;
            let arrives = departs + self.rtt / 2;
            let stalled = (self.stall.0..self.stall.1).contains(&arrives);
            self.data.push_back((if stalled { self.stall.1 } else { arrives }, packet));
        }
    }

    fn run(&mut self, until: Time) {
        self.flush();
        loop {
            let timer = self.sender.deadline().into_iter().chain(self.receiver.deadline());
            let next = timer.chain(self.data.front().map(|d| d.0)).chain(self.acks.front().map(|a| a.0)).min();
            let Some(next) = next.filter(|&at| at <= until) else { break };
            self.now = next.max(self.now);
            self.step();
        }
        self.now = until;
    }

    fn step(&mut self) {
        if self.data.front().is_some_and(|d| d.0 <= self.now) {
            let (_, packet) = self.data.pop_front().expect("just seen");
            let ack = self.receiver.on_data(&packet, self.now);
            self.acks.extend(ack.map(|ack| (self.now + self.rtt / 2, ack)));
        } else if self.acks.front().is_some_and(|a| a.0 <= self.now) {
            let (_, ack) = self.acks.pop_front().expect("just seen");
            self.sender.on_ack(&ack, self.now);
            self.flush();
        } else {
            let ack = self.receiver.on_timer(self.now);
            self.acks.extend(ack.map(|ack| (self.now + self.rtt / 2, ack)));
            self.sender.on_timer(self.now);
            self.flush();
        }
    }

    fn times_of(&self, seq: u32) -> Vec<u64> {
        self.sent.iter().filter(|s| s.1 == seq).map(|s| s.0.nanos() / 1_000_000).collect()
    }
}

const WAYS: [LossRecovery; 3] = [LossRecovery::Linux, LossRecovery::Sack, LossRecovery::NewReno];

fn with(recovery: LossRecovery) -> SenderConfig {
    match recovery {
        LossRecovery::Linux => SenderConfig::linux(MSS),
        rfc => SenderConfig::rfc(MSS, rfc),
    }
}

#[test]
fn a_lost_segment_is_repaired_one_round_trip_later_by_every_rule() {
    for detection in WAYS {
        let mut pair = Pair::bulk(with(detection));
        pair.drop = vec![4];
        pair.run(Time::from_millis(500));
        assert_eq!(pair.times_of(4), [0, 40], "{detection:?}");
        let stats = pair.sender.stats();
        assert_eq!((stats.retransmits, stats.timeouts, stats.episodes), (1, 0, 1), "{detection:?}");
    }
}

/// Of two holes in a window NewReno repairs one a round trip.
#[test]
fn a_second_hole_costs_newreno_a_round_trip() {
    let mut pair = Pair::bulk(with(LossRecovery::NewReno));
    pair.drop = vec![2, 4];
    pair.run(Time::from_millis(700));
    let stats = pair.sender.stats();
    assert_eq!((stats.timeouts, stats.episodes, pair.times_of(4)), (0, 1, vec![0, 80]));
}

#[test]
fn a_lost_retransmission_waits_for_the_timer_with_rfc_6675_and_one_round_trip_with_rack() {
    for (detection, timeouts) in [(LossRecovery::Linux, 0), (LossRecovery::Sack, 1)] {
        let mut pair = Pair::bulk(with(detection));
        // Spacing by the link's rate keeps ACKs coming after the retransmission.
        pair.rate = Some(Rate::from_mbps_f64(20.0));
        pair.drop_segment = (4, 2);
        pair.run(Time::from_millis(2000));
        assert_eq!(pair.sender.stats().timeouts, timeouts, "{detection:?}: {:?}", pair.times_of(4));
    }
}

/// The acknowledgement of all that was out when the first mark was reported carries the last mark of that window.
#[test]
fn a_window_of_marks_reduces_once() {
    let episodes = |marked| {
        let mut pair = Pair { marked, ..Pair::bulk(SenderConfig { ecn: true, ..SenderConfig::linux(MSS) }) };
        pair.run(Time::from_millis(200));
        pair.sender.stats().episodes
    };
    assert_eq!([0, 1, 9, 10, 11].map(episodes), [0, 1, 1, 1, 2]);
}
