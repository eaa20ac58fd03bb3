//! Both ends of a connection over a path that delays by a fixed time and drops what the test says (spec K, "Tests").

use std::collections::VecDeque;

use lowtide_cc::{Ack, Cause, Congestion, Controller, Snapshot};
use lowtide_net::Ecn;
use lowtide_units::{Rate, Span, Time};

use super::receiver::{Receiver, ReceiverConfig};
use super::rto::RtoProfile;
use super::sender::{Detection, Sender, SenderConfig};
use crate::packet::Packet;

const MSS: u32 = 1448;

/// A Reno of ten lines, so that these tests depend on no algorithm of `cc`.
#[derive(Debug)]
struct Reno {
    cwnd: f64,
    ssthresh: f64,
    per_ack: bool,
}

impl lowtide_replicas::Replica for Reno {
    fn on_ack_beside(&mut self, ack: &Ack, _: &lowtide_replicas::Beside) {
        self.on_ack(ack);
    }

    fn on_repaired(&mut self, most: u64) {
        self.cwnd = self.ssthresh.min(most as f64);
    }
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
        let sack = !config.detection.counts_duplicates();
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

fn with(detection: Detection) -> SenderConfig {
    SenderConfig { detection, tlp: false, ..SenderConfig::linux(MSS) }
}

/// Two holes are repaired a few ms apart, a third one's repair is lost: an impatient timer runs from the first repair.
#[test]
fn an_impatient_timer_runs_from_the_first_partial_acknowledgement() {
    let expired = |impatient| {
        let mut pair = Pair::bulk(SenderConfig { impatient, rto: RtoProfile::Rfc, ..with(Detection::Rfc6675) });
        pair.rate = Some(Rate::from_mbps_f64(20.0));
        pair.drop = vec![2, 6];
        pair.drop_segment = (9, 2);
        pair.run(Time::from_millis(2000));
        assert_eq!(pair.sender.stats().timeouts, 1, "{:?}", pair.times_of(9));
        pair.times_of(9)[2]
    };
    let (first, last) = (expired(true), expired(false));
    assert!(first < last && last < first + 40, "{first} {last}");
}

/// Segment 14 leaves after the reduction and is lost; it is repaired before the recovery ends and all behind it is SACKed. Linux counts it
/// as the next episode's cause then; in ns-3 only an acknowledgement that SACKs more would begin one.
#[test]
fn in_ns3_a_loss_behind_the_recovery_point_may_reduce_nothing() {
    let episodes = |disorder| {
        let mut pair = Pair::new(SenderConfig { disorder, ..with(Detection::Rfc6675) }, 10.0, 1e6);
        pair.sender.write(20 * u64::from(MSS));
        pair.drop = vec![0, 13, 15];
        pair.run(Time::from_millis(2000));
        assert!(pair.sender.is_done() && pair.times_of(14).len() == 2, "{:?}", pair.sent);
        let stats = pair.sender.stats();
        (stats.episodes, stats.timeouts)
    };
    assert_eq!((episodes(true), episodes(false)), ((1, 0), (2, 0)));
}
