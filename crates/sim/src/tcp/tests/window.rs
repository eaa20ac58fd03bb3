//! What the window does: when it is reduced, when it grows, what limits it.

use super::*;

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
        pair.receiver = Receiver::new(0, ReceiverConfig { quick: 0, grows: false, ..ReceiverConfig::linux(MSS) });
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

/// 20 Mbit/s, 40 ms, no queue limit, one segment in 301 lost, for 10 s. A window that grows by a segment an RTT and halves at a loss has a
/// mean of √(3/2p) = 21.2 segments (Mathis et al. 1997, with an ACK a segment): 0.31 of the line; with LEDBAT++'s gain of 1/3 at this base
/// RTT √⅓ of that. Ten seconds and the slow start before them leave a quarter to either side. Who grows faster or gives back less gets
/// more. BBR, Copa (outside its competitive mode) and lowtide do not take a third of a per cent of loss for congestion.
#[test]
fn every_algorithm_carries_what_its_response_to_loss_leaves_it() {
    let mathis = 0.31;
    for algorithm in lowtide_cc::registry::ALGORITHMS {
        let (least, most) = match algorithm.name {
            "bbr1" | "bbr2" | "bbr3" | "copa" | "lowtide" => (0.8, 1.0),
            "ledbat_pp" | "ledbat_pp-enhanced" => (0.75 * mathis / 3f64.sqrt(), 1.25 * mathis / 3f64.sqrt()),
            "westwood" | "scalable" | "hybla" | "illinois" | "bic" | "veno" | "yeah" | "libutp" => (mathis, 1.0),
            _ => (0.75 * mathis, 1.25 * mathis),
        };
        let start = Start { mss: MSS, handshake_rtt: Some(Span::from_millis(40)), ..Start::default() };
        let cc = algorithm.build(&lowtide_cc::Params::default(), &start).unwrap_or_else(|e| panic!("{e}"));
        let config = SenderConfig::linux(MSS);
        let mut pair = Pair::bulk(config);
        pair.sender = Sender::new(0, config, cc, Some(Span::from_millis(40)), 1 << 40);
        pair.sender.write(u64::MAX);
        pair.rate = Some(Rate::from_mbps_f64(20.0));
        pair.drop = (0..20_000).filter(|n| n % 301 == 300).collect();
        pair.run(Time::from_secs_f64(10.0));
        let share = pair.receiver.delivered() as f64 * 8.0 / 10.0 / 20e6;
        assert!((least..=most).contains(&share), "{}: {share:.3} of the line, not {least:.3} to {most:.3}", algorithm.name);
    }
}
