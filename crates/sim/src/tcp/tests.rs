//! Both ends over a path that delays by 40 ms and drops what the test says.

mod timers;
mod transcript;
mod window;

use lowtide_cc::{Ack, Cause, Congestion, Controller, Snapshot, Start};
use lowtide_units::{Rate, Span, Time};

use super::receiver::{Receiver, ReceiverConfig};
use super::sender::{LossRecovery, Sender, SenderConfig};

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

type Pair = crate::pair::Pair<Sender, Receiver>;

impl Pair {
    fn new(config: SenderConfig, cwnd: f64, ssthresh: f64) -> Pair {
        let cc = Box::new(Reno { cwnd: cwnd * f64::from(MSS), ssthresh: ssthresh * f64::from(MSS), per_ack: false });
        let receiver = ReceiverConfig { every: 1, sack: config.has_sack(), ..ReceiverConfig::linux(MSS) };
        Pair::of(Sender::new(0, config, cc, None, 1 << 40), Receiver::new(0, receiver))
    }

    fn bulk(config: SenderConfig) -> Pair {
        let mut pair = Pair::new(config, 10.0, 1e6);
        pair.sender.write(u64::MAX);
        pair
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
