//! Tail loss probes and timeouts, with reason and without.

use super::*;

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
