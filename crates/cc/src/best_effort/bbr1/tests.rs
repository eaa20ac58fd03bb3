//! BBRv1 against Linux tcp_bbr.c: start-up, drain, the cycle of gains, the probe of the RTT.

use proptest::prelude::*;

use super::*;
use crate::events::RateSample;

const MSS: u64 = 1500;
const RTT: Span = Span::from_millis(40);

fn start() -> Start {
    Start { mss: MSS as u32, ..Start::default() }
}

/// A flow that has found 10 Mbit/s and 40 ms and cruises in PROBE_BW.
fn cruising() -> Bbr1 {
    let mut flow = Bbr1::new(Config { aggregation: false, ..Config::default() }, &start());
    (flow.mode, flow.cycle, flow.min_rtt) = (Mode::ProbeBw, 3, Some(RTT));
    flow.full_pipe.declare();
    flow.rate.update(0, 10_000_000);
    flow.cwnd = 74 * MSS;
    flow
}

/// An acknowledgement of one segment at 10 Mbit/s.
fn ack(at: Time, delivered: u64, flight: u64) -> Ack {
    let rate = RateSample { delivered: 50_000, interval: RTT, ..RateSample::default() };
    Ack {
        now: at,
        acked: MSS,
        in_flight: flight,
        rtt: Some(RTT),
        srtt: RTT,
        delivered,
        prior_delivered: delivered.saturating_sub(flight),
        rate: Some(rate),
        cwnd_limited: true,
        ..Ack::default()
    }
}

/// 10 Mbit/s, 40 ms, 1500 bytes: 67 segments and room for three bursts of two, even: 74, when probing 76; paced 1 % below.
#[test]
fn window_and_pacing_in_probe_bw() {
    let mut flow = cruising();
    flow.pacer.rate = Rate::from_bps(9_900_000);
    for _ in 0..200 {
        flow.on_ack(&ack(Time::from_millis(1), 1_000_000, 74 * MSS));
    }
    assert_eq!(flow.cwnd(), 74 * MSS);
    assert_eq!(flow.pacing_rate(), Some(Rate::from_bps(9_900_000)));
    flow.cycle = 0;
    flow.on_ack(&ack(Time::from_millis(1), 1_000_000, 74 * MSS));
    flow.on_ack(&ack(Time::from_millis(1), 1_000_000, 74 * MSS));
    assert_eq!(flow.cwnd(), 76 * MSS);
    assert_eq!(flow.pacing_rate(), Some(Rate::from_bps(12_375_000)));
}

/// 5/4 of the pipe are 42 segments, with room for bursts 50: reached when 48 are out and two leave next.
#[test]
fn the_probing_phase_ends_with_the_burst_that_fills_it() {
    for (segments, phase) in [(47, 0), (48, 1)] {
        let mut flow = cruising();
        flow.pacer.rate = Rate::from_bps(9_900_000);
        (flow.cycle, flow.cycle_start) = (0, Time::ZERO);
        flow.on_ack(&ack(Time::from_millis(41), 1_000_000, segments * MSS));
        assert_eq!(flow.cycle, phase, "{segments} segments out");
    }
}

#[test]
fn first_pacing_rate_is_the_startup_gain_times_the_initial_window() {
    let flow = Bbr1::new(Config { pacing_margin_percent: 0, ..Config::default() }, &Start { handshake_rtt: Some(RTT), ..start() });
    assert_eq!(flow.cwnd(), 10 * MSS);
    assert_eq!(flow.pacing_rate(), Some(Rate::from_bps(3_000_000 * 739 / 256)));
}

/// PROBE_RTT: entered 10 s after the last minimum, four segments, left no earlier than 200 ms after the pipe has drained.
#[test]
fn probe_rtt_comes_after_ten_seconds_and_lasts_two_hundred_milliseconds() {
    let mut flow = cruising();
    flow.min_rtt_at = Time::from_millis(500);
    let step = |flow: &mut Bbr1, ms: u64, flight: u64| {
        flow.on_ack(&Ack { rtt: Some(Span::from_millis(41)), ..ack(Time::from_millis(ms), 10_000 * ms, flight) });
        flow.snapshot().phase
    };
    assert_eq!(step(&mut flow, 10_500, 74 * MSS), "probe_bw");
    assert_eq!(step(&mut flow, 10_501, 74 * MSS), "probe_rtt");
    assert_eq!(flow.cwnd(), 4 * MSS);
    assert_eq!(step(&mut flow, 10_540, 5 * MSS), "probe_rtt");
    for ms in (10_541..=10_740).step_by(10) {
        assert_eq!(step(&mut flow, ms, 4 * MSS), "probe_rtt", "{ms}");
    }
    assert_eq!(step(&mut flow, 10_740, 4 * MSS), "probe_rtt");
    assert_eq!(step(&mut flow, 10_741, 4 * MSS), "probe_bw");
    assert_eq!(flow.cwnd(), 75 * MSS, "the old window and this acknowledgement");
    assert_eq!(flow.min_rtt, Some(Span::from_millis(41)));
}

/// Recovery: the first round replaces what left the network, afterwards the old window is back. No halving.
#[test]
fn recovery_conserves_packets_for_a_round_and_restores_the_window() {
    let mut flow = cruising();
    let (now, flight) = (Time::from_millis(1), 74 * MSS);
    flow.on_ack(&ack(now, 500_000, flight));
    flow.on_congestion(&Congestion { now, cause: Cause::Loss, lost: 3 * MSS, in_flight: flight, srtt: RTT });
    assert_eq!(flow.cwnd(), 74 * MSS);
    flow.on_ack(&Ack { lost: 3 * MSS, in_recovery: true, ..ack(now, 501_500, flight) });
    assert_eq!(flow.cwnd(), 71 * MSS, "in flight after this acknowledgement, and what it acknowledged");
    flow.on_ack(&Ack { in_recovery: true, ..ack(now, 503_000, 71 * MSS) });
    assert_eq!(flow.cwnd(), 71 * MSS);
    flow.on_ack(&Ack { in_recovery: true, prior_delivered: 501_500, ..ack(now, 620_000, 71 * MSS) });
    assert_eq!(flow.cwnd(), 72 * MSS, "after a round it grows again");
    flow.on_ack(&ack(now, 621_500, 72 * MSS));
    assert_eq!(flow.cwnd(), 74 * MSS);
}

#[test]
fn a_timeout_leaves_one_segment_until_the_flight_is_delivered() {
    let mut flow = cruising();
    let now = Time::from_millis(1);
    flow.on_ack(&ack(now, 500_000, 74 * MSS));
    flow.on_congestion(&Congestion { now, cause: Cause::Timeout, lost: 74 * MSS, in_flight: 74 * MSS, srtt: RTT });
    assert_eq!(flow.cwnd(), MSS);
    flow.on_ack(&ack(now, 501_500, MSS));
    assert_eq!(flow.cwnd(), 4 * MSS);
    flow.on_ack(&ack(now, 500_000 + 74 * MSS, 4 * MSS));
    assert_eq!(flow.cwnd(), 74 * MSS);
}

fn policed(ms: u64, delivered: u64, lost: u64) -> Seen {
    Seen { now: Time::from_millis(ms), delivered, lost, loss: true, app_limited: false, round_start: true, probing_bandwidth: true }
}

/// Two intervals of four rounds with a fifth lost at the same rate: the rate is believed for 48 rounds.
#[test]
fn a_policer_is_found_in_two_intervals_and_forgotten_after_48_rounds() {
    let mut policer = Policer::default();
    let (mut ms, mut delivered, mut lost) = (0, 0, 0);
    let mut rounds = 0;
    while policer.rate().is_none() {
        policer.update(&policed(ms, delivered, lost));
        (ms, delivered, lost) = (ms + 40, delivered + 50_000, lost + 10_000);
        rounds += 1;
        assert!(rounds <= 10);
    }
    assert_eq!(policer.rate(), Some(10_000_000));
    for round in 1..48 {
        assert_eq!(policer.update(&policed(ms, delivered, lost)), Verdict::Same, "round {round}");
    }
    assert_eq!(policer.update(&policed(ms, delivered, lost)), Verdict::Expired);
    assert_eq!(policer.rate(), None);
}

#[test]
fn less_than_a_fifth_lost_is_no_policer() {
    let mut policer = Policer::default();
    for round in 0..40 {
        policer.update(&policed(40 * round, 50_000 * round, 9_000 * round));
        assert_eq!(policer.rate(), None);
    }
}

proptest! {
    /// The first phase of PROBE_BW is never the draining one, whatever the seed.
    #[test]
    fn probe_bw_never_starts_in_the_draining_phase(seed in any::<u64>()) {
        let mut flow = Bbr1::new(Config::default(), &Start { seed, ..start() });
        flow.probe_bandwidth(Time::ZERO);
        prop_assert_ne!(CYCLE[flow.cycle], UNIT * 3 / 4);
    }
}
