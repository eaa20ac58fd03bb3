//! Both ends over a path that delays by a fixed time and drops what a test says, step by step from `tcp-socket-base.cc`. The records of
//! `crates/sim/tests/ns3` compare whole runs.

use std::collections::VecDeque;

use lowtide_cc::Start;
use lowtide_net::Ecn;
use lowtide_replicas::ns3::reno::NewReno;
use lowtide_replicas::ns3::socket::State;
use lowtide_units::{Rate, Span, Time};

use super::receiver::{Receiver, ReceiverConfig};
use super::recovery::RecoveryOps;
use super::socket::{Socket, SocketConfig};
use crate::packet::Packet;

const SEGMENT: u32 = 1448;
const RTT: Span = Span::from_millis(40);

/// A connection over a path of a rate and a delay, without limit of queue.
struct Pair {
    socket: Socket,
    receiver: Receiver,
    now: Time,
    rate: Option<Rate>,
    free: Time,
    data: VecDeque<(Time, Packet)>,
    acks: VecDeque<(Time, Packet)>,
    sent: Vec<(Time, u32)>,
    /// Transmissions to drop, counted from zero; and a segment whose first `.1` transmissions are dropped.
    drop: Vec<usize>,
    drop_segment: (u32, u32),
    /// Segments below are marked on the way.
    marked: u32,
}

impl Pair {
    fn new(segments: u64, recovery: RecoveryOps) -> Pair {
        let config = SocketConfig { segment: SEGMENT, recovery, min_rto: Span::from_secs(1), snd_buf: 1 << 30, pacing: false, ecn: true };
        let start = Start { mss: SEGMENT, handshake_rtt: Some(RTT), ..Start::default() };
        let mut socket = Socket::new(0, config, Box::new(NewReno), &start, 1 << 30);
        socket.write(segments * u64::from(SEGMENT));
        let receiver = ReceiverConfig {
            segment: SEGMENT,
            del_ack_max_count: 1,
            del_ack_timeout: Span::from_millis(200),
            rcv_buf: 1 << 30,
            scale: 14,
            ecn: true,
            dctcp: false,
        };
        Pair {
            socket,
            receiver: Receiver::new(0, receiver),
            now: Time::ZERO,
            rate: None,
            free: Time::ZERO,
            data: VecDeque::new(),
            acks: VecDeque::new(),
            sent: Vec::new(),
            drop: Vec::new(),
            drop_segment: (0, 0),
            marked: 0,
        }
    }

    fn flush(&mut self) {
        while let Some(mut packet) = self.socket.poll(self.now) {
            if packet.seq < self.marked {
                packet.ecn = Ecn::Ce;
            }
            let number = self.sent.len();
            self.sent.push((self.now, packet.seq));
            if packet.seq == self.drop_segment.0 && self.drop_segment.1 > 0 {
                self.drop_segment.1 -= 1;
            } else if !self.drop.contains(&number) {
                let departs = self.rate.map_or(self.now, |rate| self.free.max(self.now) + rate.time_for(u64::from(packet.size)));
                self.free = departs;
                self.data.push_back((departs + RTT / 2, packet));
            }
        }
    }

    fn run(&mut self, until_ms: u64) {
        self.flush();
        loop {
            let timers = self.socket.deadline().into_iter().chain(self.receiver.deadline());
            let next = timers.chain(self.data.front().map(|d| d.0)).chain(self.acks.front().map(|a| a.0)).min();
            let Some(next) = next.filter(|at| *at <= Time::from_millis(until_ms)) else { return };
            self.now = next;
            if self.data.front().is_some_and(|d| d.0 <= self.now) {
                let (_, packet) = self.data.pop_front().expect("just seen");
                let ack = self.receiver.on_data(&packet, self.now);
                self.acks.extend(ack.map(|ack| (self.now + RTT / 2, ack)));
            } else if self.acks.front().is_some_and(|a| a.0 <= self.now) {
                let (_, ack) = self.acks.pop_front().expect("just seen");
                self.socket.on_ack(&ack, self.now);
            } else {
                let ack = self.receiver.on_timer(self.now);
                self.acks.extend(ack.map(|ack| (self.now + RTT / 2, ack)));
                self.socket.on_timer(self.now);
            }
            self.flush();
        }
    }

    fn times_of(&self, seq: u32) -> Vec<u64> {
        self.sent.iter().filter(|s| s.1 == seq).map(|s| s.0.nanos() / 1_000_000).collect()
    }
}

/// Three duplicates repair the first hole; the next ones leave one segment for two acknowledgements.
#[test]
fn a_loss_is_repaired_by_the_third_duplicate() {
    let mut pair = Pair::new(60, RecoveryOps::prr());
    pair.drop = vec![10];
    pair.run(79);
    assert_eq!(pair.times_of(10), [40]);
    pair.run(5000);
    assert_eq!(pair.times_of(10), [40, 80]);
    assert!(pair.socket.is_done());
    let stats = pair.socket.stats();
    assert_eq!((stats.episodes, stats.timeouts, stats.retransmits), (1, 0, 1));
}

/// Two holes are repaired a few ms apart, a third one's repair is lost: the timer runs from the first partial acknowledgement, the impatient
/// variant of RFC 6582 §4.
#[test]
fn the_timer_runs_from_the_first_partial_acknowledgement() {
    let mut pair = Pair::new(200, RecoveryOps::prr());
    pair.rate = Some(Rate::from_mbps_f64(20.0));
    pair.drop = vec![2, 6];
    pair.drop_segment = (9, 2);
    pair.run(3000);
    assert_eq!(pair.socket.stats().timeouts, 1);
    // Sent at 0, its acknowledgements come from 41 ms on; the repair of 2 is acknowledged a round trip later.
    let times = pair.times_of(9);
    assert!((1080..1090).contains(&times[2]), "{times:?}");
}

/// `ReTxTimeout` doubles the timer and starts over with one segment; after six in a row the connection ends (`DataRetries`).
#[test]
fn timeouts_double_and_the_seventh_ends_the_connection() {
    let mut pair = Pair::new(1, RecoveryOps::prr());
    pair.drop_segment = (0, 100);
    pair.run(300_000);
    assert_eq!(pair.times_of(0), [0, 1000, 3000, 7000, 15_000, 31_000, 63_000]);
    assert!(pair.socket.deadline().is_none() && !pair.socket.is_done());
}

/// A mark reduces once a window: until something sent after the reduction is acknowledged.
#[test]
fn marks_reduce_once_a_window() {
    let mut pair = Pair::new(200, RecoveryOps::prr());
    pair.marked = 10;
    pair.run(45);
    assert_eq!((pair.socket.stats().episodes, pair.socket.tcb.state), (1, State::Cwr));
    pair.run(3000);
    assert_eq!(pair.socket.stats().episodes, 1);
    assert!(pair.socket.is_done());
}

/// `TcpClassicRecovery` goes to the threshold at once: half of what is in flight when the third duplicate has come.
#[test]
fn the_classic_recovery_stands_at_the_threshold() {
    let mut pair = Pair::new(60, RecoveryOps::Classic);
    pair.drop = vec![10];
    pair.run(82);
    assert_eq!((pair.socket.tcb.state, pair.socket.tcb.cwnd), (State::Recovery, pair.socket.tcb.ssthresh));
    assert!((6..=9).contains(&(pair.socket.tcb.cwnd / SEGMENT)), "{}", pair.socket.tcb.cwnd);
}

/// A window below one segment sends nothing; the timer, which runs although nothing is out, gives one.
#[test]
fn a_window_below_a_segment_waits_for_the_timer() {
    let mut pair = Pair::new(100, RecoveryOps::prr());
    pair.run(45);
    pair.socket.tcb.cwnd = 2;
    pair.data.clear();
    pair.acks.truncate(1);
    let before = pair.sent.len();
    pair.run(900);
    assert_eq!(pair.sent.len(), before);
    pair.run(1300);
    assert!(pair.sent.len() > before && pair.socket.stats().timeouts == 1);
}
