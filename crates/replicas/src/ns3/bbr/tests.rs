//! ns-3's TcpBbr by hand: what its socket makes of the window, its floor of PROBE_RTT, and its bursts.

use proptest::prelude::*;

use super::*;
use lowtide_cc::RateSample;

const MSS: u64 = 1340;
const RTT: Span = Span::from_millis(40);

fn start() -> Start {
    Start { mss: MSS as u32, handshake_rtt: Some(RTT), ..Start::default() }
}

/// A flow in STARTUP that sees 10 Mbit/s; the pipe holds 50,000 bytes.
fn ack(ms: u64, delivered: u64, flight: u64) -> Ack {
    Ack {
        now: Time::from_millis(ms),
        acked: MSS,
        in_flight: flight,
        srtt: RTT,
        delivered,
        prior_delivered: delivered.saturating_sub(flight),
        rate: Some(RateSample { delivered: 50_000, interval: RTT, ..RateSample::default() }),
        ..Ack::default()
    }
}

fn loss(ms: u64, flight: u64) -> Congestion {
    Congestion { now: Time::from_millis(ms), cause: Cause::Loss, lost: MSS, in_flight: flight, srtt: RTT }
}

/// As after STARTUP: 10 Mbit/s, 40 ms, window and threshold given.
fn cruising(cwnd: u64, ssthresh: u64) -> BbrNs3 {
    let mut flow = BbrNs3::new(&start());
    flow.rate = RateMax::new(10_000_000);
    (flow.full, flow.cycle, flow.cwnd, flow.ssthresh) = (true, 3, cwnd as u32, ssthresh as u32);
    flow.enter(Mode::ProbeBw, 1.0, 2.0);
    flow
}

/// What the socket has sampled is what counts: two bytes lost among repairs, a rate that stands since, and no round ended.
#[test]
fn the_sockets_sample_is_taken_for_the_acknowledgements() {
    let mut flow = cruising(100_000, 54_020);
    (flow.socket, flow.round_end) = (Socket::Recovery, 1_000_000);
    let sample =
        SocketSample { bps: 5_000_000, prior_delivered: 999_999, delivered: None, app_limited: false, in_flight: 50_000, lost: MSS };
    let beside = Beside { sample: Some(sample), ..Beside::default() };
    flow.on_ack_beside(&Ack { in_recovery: true, ..ack(1, 1_100_000, 60_000) }, &beside);
    assert_eq!((flow.rate.max(), flow.rounds), (5_000_000, 0));
    assert_eq!(flow.cwnd(), u64::from(flow.in_flight_at(2.0)), "no bytes that came ahead: the sample has no time");
    let sample = Some(SocketSample { prior_delivered: 1_000_000, ..sample });
    flow.on_ack_beside(&ack(2, 1_100_000, 60_000), &Beside { sample, ..Beside::default() });
    assert_eq!((flow.rounds, flow.round_end), (1, 1_100_000));
}

/// ns-3 announces every segment that finds nothing out, but TcpBbr listens only once PROBE_RTT has set `m_appLimited`.
#[test]
fn a_restart_counts_after_the_first_probe_rtt() {
    for (has_probed, rate) in [(false, 7_500_000), (true, 10_000_000)] {
        let mut flow = cruising(100_000, 54_020);
        (flow.has_probed, flow.acked_any, flow.pacing_bps) = (has_probed, true, 7_500_000.0);
        flow.on_restart(&Restart { now: Time::from_millis(5), idle: Span::ZERO, rto: Span::from_secs(1) });
        assert_eq!((flow.idle_restart, flow.pacing_rate()), (has_probed, Some(Rate::from_bps(rate))));
    }
}

/// 10 segments in 40 ms are 2.68 Mbit/s; paced at 2.89 times that, but not before the initial window has been answered.
#[test]
fn the_initial_window_is_not_paced() {
    let mut flow = BbrNs3::new(&Start { initial_window: Some(10 * MSS), ..start() });
    assert_eq!((flow.cwnd(), flow.pacing_rate()), (10 * MSS, None));
    flow.on_ack(&Ack { rate: None, ..ack(40, MSS, 10 * MSS) });
    assert_eq!(flow.pacing_rate(), Some(Rate::from_bps(7_745_200)));
}

/// 50,000 bytes twice, three segments of bursts: 104,020; with 1,340 bytes that came ahead 105,360.
#[test]
fn the_window_is_two_products_three_segments_and_what_comes_ahead() {
    let mut flow = cruising(200_000, 54_020);
    flow.on_ack(&ack(1, 1_000_000, 50_000));
    assert_eq!(flow.cwnd(), 105_360);
    assert_eq!(flow.pacing_rate(), Some(Rate::from_bps(10_000_000)));
}

/// Recovery: what is in flight and one segment, then a round of packet conservation; its end leaves the threshold of STARTUP's end.
#[test]
fn a_recovery_ends_at_the_threshold() {
    let mut flow = cruising(100_000, 54_020);
    flow.round_end = 2_000_000;
    flow.on_congestion(&loss(1, 100_000));
    flow.on_ack(&Ack { in_recovery: true, lost: MSS, ..ack(1, 1_000_000, 100_000) });
    assert_eq!(flow.cwnd(), 100_000 - 2 * MSS + MSS);
    flow.on_ack(&ack(41, 1_100_000, 90_000));
    assert_eq!(flow.cwnd(), 54_020 + MSS);
}

/// In STARTUP the threshold is 2³² − 1: the window is without bound until the pipe is full, and then wraps to four segments.
#[test]
fn before_the_pipe_is_full_a_recovery_leaves_no_window_and_then_four_segments() {
    let mut flow = BbrNs3::new(&start());
    flow.on_congestion(&loss(1, 50_000));
    flow.on_ack(&Ack { in_recovery: true, lost: MSS, ..ack(1, 1_000_000, 50_000) });
    flow.on_ack(&ack(41, 1_100_000, 50_000));
    assert_eq!(flow.cwnd(), u64::from(u32::MAX));
    let (mut ms, mut delivered) = (41, 1_100_000);
    while !flow.full {
        assert_eq!(flow.cwnd(), u64::from(u32::MAX));
        (ms, delivered) = (ms + 40, delivered + 100_000);
        flow.on_ack(&ack(ms, delivered, 50_000));
    }
    assert_eq!((flow.cwnd(), flow.mode), (4 * MSS, Mode::ProbeBw));
    assert_eq!(flow.ssthresh, 54_020);
}

/// PROBE_RTT: more than 10 s after the smallest smoothed RTT, four segments, 200 ms and a round; then the window is back.
#[test]
fn probe_rtt_goes_by_the_smoothed_rtt() {
    let mut flow = cruising(100_000, 54_020);
    let mut step = |ms, delivered, flight| {
        flow.on_ack(&Ack { srtt: Span::from_millis(45), ..ack(ms, delivered, flight) });
        (flow.mode.name(), flow.cwnd() / MSS)
    };
    assert_eq!(step(10_000, 1_000_000, 100_000).0, "probe_bw");
    assert_eq!(step(10_001, 1_100_000, 100_000), ("probe_rtt", 4));
    assert_eq!(step(10_041, 1_200_000, 5 * MSS), ("probe_rtt", 4));
    assert_eq!(step(10_100, 1_300_000, MSS), ("probe_rtt", 4));
    assert_eq!(step(10_241, 1_400_000, MSS), ("probe_rtt", 4));
    assert_eq!(step(10_242, 1_500_000, MSS).0, "probe_bw");
    assert_eq!(flow.rt_prop, Some(Span::from_millis(45)));
    assert!(flow.cwnd() >= 100_000);
}

#[test]
fn a_timeout_leaves_one_segment_and_then_four() {
    let mut flow = cruising(100_000, 54_020);
    flow.on_congestion(&Congestion { cause: Cause::Timeout, ..loss(1, 100_000) });
    assert_eq!(flow.cwnd(), MSS);
    flow.on_ack(&ack(41, 1_000_000, MSS));
    assert_eq!(flow.cwnd(), 4 * MSS);
    flow.on_ack(&ack(42, 1_001_340, MSS));
    assert_eq!(flow.cwnd(), 5 * MSS, "what went before does not come back");
}

/// Nothing is expected in the first second, and the epoch ends with 4096 bytes: three segments of 1340, then one.
#[test]
fn an_epoch_counts_whole_seconds_and_few_bytes() {
    let mut extra = Extra::new(Time::ZERO);
    let mut seen = Vec::new();
    for ms in 1..=4 {
        extra.update(&ack(ms, 0, 0), false, 10_000_000, 1 << 20);
        seen.push(extra.epoch_acked / MSS);
    }
    assert_eq!((seen, extra.most[0]), (vec![1, 2, 3, 1], 3 * MSS));
    assert_eq!(extra.allowance(80_000), 1000);
}

proptest! {
    /// The first phase of PROBE_BW is never the draining one, whatever the seed.
    #[test]
    fn probe_bw_never_starts_in_the_draining_phase(seed in any::<u64>()) {
        let mut flow = BbrNs3::new(&Start { seed, ..start() });
        flow.probe_bandwidth(Time::ZERO);
        prop_assert_ne!(flow.pacing_gain, 0.75);
        prop_assert_ne!(flow.cycle, 2);
    }
}
