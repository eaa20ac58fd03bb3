//! Both ends of a connection over a path that delays by a fixed time and drops what the test says.

mod transcript;

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

#[test]
fn the_loss_of_the_last_of_ten_is_probed_without_a_timeout() {
    let mut pair = Pair::new(SenderConfig::linux(MSS), 10.0, 1e6);
    pair.sender.write(10 * u64::from(MSS));
    pair.drop = vec![9];
    pair.run(Time::from_secs_f64(2.0));
    // The ninth ACK comes at 40 ms; one segment is out: 2·SRTT + 200 ms, and never later than the RTO (240 ms). Whether the probe repaired
    // a loss would show in the next acknowledgement (RFC 8985 §7.4.2).
    assert_eq!((pair.sender.stats().timeouts, pair.sender.stats().episodes), (0, 0));
    assert_eq!(pair.times_of(9), [0, 280]);
    assert!(pair.sender.is_done());
}

#[test]
fn two_lost_at_the_tail_are_probed_after_two_round_trips() {
    let mut pair = Pair::new(SenderConfig::linux(MSS), 10.0, 1e6);
    pair.sender.write(10 * u64::from(MSS));
    pair.drop = vec![8, 9];
    pair.run(Time::from_secs_f64(2.0));
    assert_eq!(pair.times_of(9), [0, 122], "2·SRTT and TCP_TIMEOUT_MIN after the last ACK");
    assert_eq!((pair.sender.stats().timeouts, pair.sender.stats().episodes), (0, 1));
    assert!(pair.sender.is_done());
}

#[test]
fn timeouts_double() {
    let mut pair = Pair::new(with(LossRecovery::Sack), 1.0, 1e6);
    pair.sender.write(u64::from(MSS));
    pair.drop = vec![0, 1, 2, 3];
    pair.run(Time::from_secs_f64(60.0));
    assert_eq!(pair.times_of(0), [0, 1000, 3000, 7000, 15000]);
    assert_eq!(pair.sender.stats().episodes, 1, "one episode, however often the timer backs off");
}

/// Ten are lost, the first arrives at the second try and the two behind it do not: that timeout is a new one.
#[test]
fn a_timeout_after_progress_starts_over() {
    let mut pair = Pair::bulk(with(LossRecovery::Sack));
    pair.drop = (0..10).chain([11, 12]).collect();
    pair.run(Time::from_millis(3500));
    assert_eq!((pair.sender.stats().timeouts, pair.sender.stats().episodes), (2, 2));
    // At 1000 the first leaves again; acknowledged at 1040 it makes two but no RTT sample, so that the timer stays backed off (RFC 6298
    // §5, Karn): 2 s later the window is one.
    assert_eq!((pair.times_of(0).as_slice(), pair.times_of(1)[..3].to_vec()), ([0, 1000].as_slice(), vec![0, 1040, 3040]));
    assert_eq!(pair.sent.iter().filter(|s| (3_040..3_080).contains(&(s.0.nanos() / 1_000_000))).count(), 1);
}

/// What is sent in recovery and lost was sent at the reduced rate: the window is reduced again when the episode is over.
#[test]
fn a_loss_behind_the_recovery_point_is_the_next_episode() {
    for detection in [LossRecovery::Linux, LossRecovery::Sack] {
        let run = |lost: u32| {
            let mut pair = Pair::bulk(with(detection));
            pair.rate = Some(Rate::from_mbps_f64(20.0));
            (pair.drop, pair.drop_segment) = (vec![4], (lost, 1));
            pair.run(Time::from_millis(300));
            pair
        };
        let undisturbed = run(u32::MAX);
        let again = undisturbed.sent.iter().rposition(|s| s.1 == 4).expect("sent again");
        let behind = undisturbed.sent[again + 1].1;
        assert_eq!((undisturbed.sender.stats().episodes, run(behind).sender.stats().episodes), (1, 2), "{detection:?}, {behind}");
    }
}

#[test]
fn a_sack_above_a_hole_does_not_grow_the_window() {
    let cwnd_at = |ms: f64| {
        let mut pair = Pair::new(with(LossRecovery::Linux), 20.0, 10.0);
        (pair.rate, pair.drop) = (Some(Rate::from_mbps_f64(20.0)), vec![4]);
        pair.sender.write(u64::MAX);
        pair.run(Time::from_secs_f64(ms / 1e3));
        pair.sender.snapshot().cwnd
    };
    // Segments take 0.6 ms: 0 to 3 are acknowledged up to 42.4 ms, then two SACKs come before the third starts recovery.
    assert!(cwnd_at(42.5) > cwnd_at(41.9));
    assert_eq!(cwnd_at(43.9), cwnd_at(42.5));
    assert!(cwnd_at(44.3) < cwnd_at(43.9));
}

#[test]
fn congestion_avoidance_grows_by_one_segment_a_round_trip_counted_in_bytes_and_half_counted_in_acks() {
    for (per_ack, growth) in [(false, 1.0), (true, 0.5)] {
        let mut pair = Pair::new(with(LossRecovery::Linux), 20.0, 10.0);
        let cc = Box::new(Reno { cwnd: 20.0 * f64::from(MSS), ssthresh: 10.0 * f64::from(MSS), per_ack });
        pair.sender = Sender::new(0, with(LossRecovery::Linux), cc, None, 1 << 40);
        pair.receiver = Receiver::new(0, ReceiverConfig { quick: 0, ..ReceiverConfig::linux(MSS) });
        pair.sender.write(u64::MAX);
        pair.run(Time::from_millis(100 * 40));
        let grown = (pair.sender.snapshot().cwnd as f64 / f64::from(MSS) - 20.0) / 100.0;
        assert!((grown - growth).abs() < 0.12 * growth, "{grown} for {growth}");
    }
}

#[test]
fn an_application_at_half_rate_does_not_grow_the_window_and_an_idle_one_restarts() {
    let mut pair = Pair::new(with(LossRecovery::Linux), 20.0, 10.0);
    for n in 1..=100 {
        pair.sender.write(10 * u64::from(MSS));
        pair.run(Time::from_millis(40 * n));
    }
    assert_eq!(pair.sender.snapshot().cwnd, 20 * u64::from(MSS));
    pair.run(Time::from_millis(4000 + 2400));
    pair.sender.write(u64::from(MSS));
    pair.run(Time::from_millis(7000));
    assert_eq!(pair.sender.snapshot().cwnd, 10 * u64::from(MSS));
}

#[test]
fn rate_samples_never_exceed_the_link_by_more_than_a_packet() {
    #[derive(Debug)]
    struct Probe(u64, Span);
    impl Controller for Probe {
        fn on_ack(&mut self, ack: &Ack) {
            if let Some(sample) = ack.rate {
                let allowed = Rate::from_mbps_f64(20.0).bytes_in(sample.interval) + 2 * u64::from(MSS);
                assert!(sample.delivered <= allowed, "{sample:?}");
                self.0 += 1;
                self.1 = sample.interval;
            }
        }
        fn on_congestion(&mut self, _event: &Congestion) {}
        fn on_mss(&mut self, _mss: u32) {}
        fn cwnd(&self) -> u64 {
            (10 + self.0 / 50) * u64::from(MSS)
        }
        fn snapshot(&self) -> Snapshot {
            Snapshot { cwnd: self.0, ..Snapshot::default() }
        }
    }
    let mut pair = Pair::bulk(with(LossRecovery::Linux));
    pair.sender = Sender::new(0, with(LossRecovery::Linux), Box::new(Probe(0, Span::ZERO)), None, 1 << 40);
    pair.sender.write(u64::MAX);
    pair.rate = Some(Rate::from_mbps_f64(20.0));
    pair.run(Time::from_secs_f64(20.0));
    assert!(pair.sender.snapshot().cwnd > 1000, "samples taken: {}", pair.sender.snapshot().cwnd);
}

#[test]
fn the_peers_window_is_obeyed_and_does_not_count_as_use_of_ours() {
    let mut pair = Pair::new(with(LossRecovery::Linux), 20.0, 10.0);
    let config = ReceiverConfig { buffer: 10 * u64::from(MSS), scale: 0, every: 1, ..ReceiverConfig::linux(MSS) };
    pair.receiver = Receiver::new(0, config);
    let cc = Box::new(Reno { cwnd: 20.0 * f64::from(MSS), ssthresh: f64::from(MSS), per_ack: false });
    pair.sender = Sender::new(0, with(LossRecovery::Linux), cc, None, config.buffer);
    pair.sender.write(u64::MAX);
    pair.run(Time::from_millis(4001));
    assert_eq!(pair.sent.len(), 10 * 101);
    assert_eq!(pair.sender.snapshot().cwnd, 20 * u64::from(MSS));
}

#[test]
fn every_algorithm_of_the_registry_moves_data_over_a_lossy_path() {
    // The published LEDBAT++ counts on ns-3's timer to leave a window of two bytes.
    for algorithm in lowtide_cc::registry::ALGORITHMS.iter().filter(|algorithm| algorithm.name != "ledbat_pp-published") {
        let start = Start { mss: MSS, handshake_rtt: Some(Span::from_millis(40)), ..Start::default() };
        let cc = algorithm.build(&lowtide_cc::Params::default(), &start).unwrap_or_else(|e| panic!("{e}"));
        let config = SenderConfig::linux(MSS);
        let mut pair = Pair::bulk(config);
        pair.sender = Sender::new(0, config, cc, Some(Span::from_millis(40)), 1 << 40);
        pair.sender.write(u64::MAX);
        pair.rate = Some(Rate::from_mbps_f64(20.0));
        pair.drop = (0..20_000).filter(|n| n % 301 == 300).collect();
        pair.run(Time::from_secs_f64(10.0));
        assert!(pair.receiver.delivered() > 100_000, "{}: {} bytes", algorithm.name, pair.receiver.delivered());
    }
}

/// 20 segments of window; nothing arrives for half a second: the timer (240 ms) expires though nothing is lost.
fn stalled(recovery: LossRecovery) -> Pair {
    let mut pair = Pair::new(with(recovery), 20.0, 10.0);
    pair.sender.write(u64::MAX);
    pair.rate = Some(Rate::from_mbps_f64(20.0));
    pair.stall = (Time::from_millis(1000), Time::from_millis(1500));
    pair
}

/// Reno with its window of before the episode.
#[derive(Debug)]
struct Undoing(Reno, f64);

impl Controller for Undoing {
    fn on_ack(&mut self, ack: &Ack) {
        self.0.on_ack(ack);
    }
    fn on_congestion(&mut self, event: &Congestion) {
        self.1 = self.0.cwnd;
        self.0.on_congestion(event);
    }
    fn on_undo(&mut self, _now: Time) {
        (self.0.cwnd, self.0.ssthresh) = (self.1, self.1);
    }
    fn on_mss(&mut self, _mss: u32) {}
    fn cwnd(&self) -> u64 {
        self.0.cwnd()
    }
    fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }
}

#[test]
fn a_spurious_timeout_is_taken_back_with_the_first_acknowledgement() {
    for (recovery, undo) in [(LossRecovery::Sack, false), (LossRecovery::Linux, true)] {
        let mut pair = stalled(recovery);
        let reno = Reno { cwnd: 20.0 * f64::from(MSS), ssthresh: 10.0 * f64::from(MSS), per_ack: false };
        pair.sender = Sender::new(
            0,
            SenderConfig { rto_floor: Some(Span::from_millis(200)), ..with(recovery) },
            Box::new(Undoing(reno, 0.0)),
            None,
            1 << 40,
        );
        pair.sender.write(u64::MAX);
        pair.run(Time::from_millis(990));
        let before = pair.sender.snapshot().cwnd;
        pair.run(Time::from_millis(1490));
        let stats = pair.sender.stats();
        assert!(stats.timeouts >= 1 && pair.sender.snapshot().cwnd < before / 2, "{stats:?}");
        pair.run(Time::from_millis(1530));
        let stats = pair.sender.stats();
        assert_eq!(stats.undone, u64::from(undo), "{stats:?}");
        assert_eq!(pair.sender.snapshot().cwnd >= before, undo, "{} of {before}", pair.sender.snapshot().cwnd);
        pair.run(Time::from_millis(2500));
        // The probes and the timer's own retransmissions are for nothing in any case; all the rest need not be.
        let resent = pair.sender.stats().retransmits;
        assert_eq!(resent <= 3, undo, "{resent} sent again");
    }
}

#[test]
fn a_timeout_with_reason_is_not_taken_back() {
    let mut pair = Pair::new(SenderConfig::linux(MSS), 4.0, 1e6);
    pair.sender.write(12 * u64::from(MSS));
    pair.drop = (0..6).collect();
    pair.run(Time::from_secs_f64(60.0));
    let stats = pair.sender.stats();
    assert!(stats.timeouts > 0 && pair.sender.is_done(), "{stats:?}");
    assert_eq!(stats.undone, 0, "{stats:?}");
}
