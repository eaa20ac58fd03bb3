//! TCP-NICE computed by hand on the link of Carofiglio 2010, 10 Mbit/s with 100 packets: RTT 50 to 170 ms, threshold 74 ms.

use proptest::prelude::*;

use super::*;

const MSS: f64 = 1500.0;

fn ms(ms: f64) -> Span {
    Span::from_millis_f64(ms)
}

/// A flow of `segments` in congestion avoidance that has seen RTTs of 50 and 170 ms.
fn flow(segments: f64) -> TcpNice {
    let mut flow = TcpNice::new(Config::default(), &Start { mss: 1500, ..Start::default() });
    (flow.cwnd, flow.ssthresh, flow.range) = (segments * MSS, MSS, Some((ms(50.0), ms(170.0))));
    flow
}

/// A round of one-segment acknowledgements with these RTTs: only the last ends it.
fn round(flow: &mut TcpNice, rtts: &[f64]) {
    flow.round.restart(1000);
    for (i, rtt) in rtts.iter().enumerate() {
        let last = i + 1 == rtts.len();
        flow.on_ack(&Ack {
            acked: 1500,
            in_flight: flow.cwnd(),
            rtt: Some(ms(*rtt)),
            prior_delivered: if last { 1000 } else { 0 },
            delivered: 2000,
            cwnd_limited: true,
            ..Ack::default()
        });
    }
}

#[test]
fn more_than_half_the_window_above_the_threshold_halves_it() {
    let rtts = |high: usize| [vec![74.1; high], vec![74.0; 20 - high]].concat();
    let mut ten = flow(20.0);
    round(&mut ten, &rtts(10));
    assert_eq!(ten.segments(), 19.0, "exactly half is Vegas: 6.5 segments queued");
    let mut eleven = flow(20.0);
    round(&mut eleven, &rtts(11));
    assert_eq!(eleven.segments(), 10.0);
}

/// W 40: 1.98 segments queued at 52.6 ms: hold; 5.5 at 58 ms: one less; none at 50 ms: one more.
#[test]
fn vegas_holds_between_one_and_three_segments() {
    for (rtt, want) in [(52.6, 40.0), (58.0, 39.0), (50.0, 41.0)] {
        let mut flow = flow(40.0);
        round(&mut flow, &[rtt; 40]);
        assert_eq!(flow.segments(), want, "{rtt} ms");
    }
}

#[test]
fn permanent_congestion_halves_to_a_forty_eighth() {
    let mut flow = flow(1.0);
    for divisor in [2.0, 4.0, 8.0, 16.0, 32.0, 48.0, 48.0] {
        round(&mut flow, &[120.0, 120.0]);
        assert!((flow.segments() - 1.0 / divisor).abs() < 1e-12, "1/{divisor}: {}", flow.segments());
    }
    assert_eq!(flow.cwnd(), 31);
    round(&mut flow, &[50.0, 50.0]);
    assert!(flow.segments() > 1.0, "above one within a period of quiet");
}

/// A host that sends one segment a period instead of two (Carofiglio 2010) is judged by that one.
#[test]
fn a_single_segment_is_a_round_below_one() {
    let mut flow = flow(0.5);
    flow.ssthresh = flow.cwnd;
    round(&mut flow, &[120.0]);
    assert_eq!(flow.segments(), 0.25);
    round(&mut flow, &[120.0, 60.0]);
    assert!(flow.segments() > 1.0, "one of two is exactly half");
}

#[test]
fn slow_start_doubles_until_a_segment_queues() {
    let mut flow = flow(10.0);
    flow.ssthresh = f64::INFINITY;
    round(&mut flow, &[50.0; 10]);
    assert_eq!(flow.segments(), 20.0);
    round(&mut flow, &[60.0; 20]);
    assert!((flow.segments() - (40.0 * 50.0 / 60.0 + 1.0)).abs() < 1e-9);
    assert!(!flow.in_slow_start());
}

#[test]
fn a_loss_rules_its_round() {
    let event = |cause| Congestion { now: Time::ZERO, cause, lost: 1500, in_flight: 60_000, srtt: ms(60.0) };
    let mut flow = flow(40.0);
    flow.on_congestion(&event(Cause::Loss));
    assert_eq!(flow.segments(), 20.0);
    round(&mut flow, &[150.0; 30]);
    assert_eq!(flow.segments(), 20.0, "no second halving in the same round");
    flow.on_congestion(&event(Cause::Timeout));
    assert_eq!(flow.segments(), 1.0);
}

/// One acknowledgement for two segments counts for two.
#[test]
fn delayed_acknowledgements_do_not_hide_congestion() {
    let mut flow = flow(20.0);
    flow.round.restart(1000);
    for i in 0..6 {
        flow.on_ack(&Ack {
            acked: 3000,
            rtt: Some(ms(100.0)),
            prior_delivered: if i == 5 { 1000 } else { 0 },
            delivered: 2000,
            ..Ack::default()
        });
    }
    assert_eq!(flow.segments(), 10.0);
}

proptest! {
    /// At most one halving a round, and never below the floor.
    #[test]
    fn at_most_one_halving_a_round(rounds in prop::collection::vec(prop::collection::vec(50.0f64..200.0, 1..60), 1..40)) {
        let mut flow = flow(30.0);
        for rtts in rounds {
            let before = flow.segments();
            round(&mut flow, &rtts);
            prop_assert!(flow.segments() >= (before / 2.0).max(1.0 / 48.0) - 1e-9);
        }
    }
}
