//! ns-3's TcpBbr by hand: what its socket makes of the window, its floor of PROBE_RTT, and its bursts.

use proptest::prelude::*;

use super::*;

const MSS: u32 = 1340;
const RTT: Span = Span::from_millis(40);

/// A flow whose handshake took 40 ms, and its socket.
fn started(seed: u64) -> (Bbr, SocketState) {
    let start = Start { mss: MSS, handshake_rtt: Some(RTT), ..Start::default() };
    let (mut bbr, mut tcb) = (Bbr::new(seed), SocketState::new(&start));
    bbr.congestion_state_set(&mut tcb, State::Open);
    (bbr, tcb)
}

/// One segment delivered at `ms`, at 10 Mbit/s; the pipe holds 50,000 bytes.
fn sample(delivered: u64, flight: u32) -> RateSample {
    RateSample {
        total_delivered: delivered,
        bps: 10_000_000,
        prior_delivered: delivered.saturating_sub(u64::from(flight)),
        delivered: Some(50_000),
        acked_sacked: MSS,
        prior_in_flight: flight,
        ..RateSample::default()
    }
}

fn ack(bbr: &mut Bbr, tcb: &mut SocketState, ms: u64, delivered: u64, flight: u32) {
    (tcb.now, tcb.bytes_in_flight, tcb.last_acked_sacked) = (Time::from_millis(ms), flight.saturating_sub(MSS), MSS);
    bbr.cong_control(tcb, &sample(delivered, flight));
}

/// `EnterRecovery` and the end of it in `ProcessAck`.
fn recovery(bbr: &mut Bbr, tcb: &mut SocketState, in_flight: u32) {
    (tcb.bytes_in_flight, tcb.last_acked_sacked) = (in_flight, MSS);
    bbr.congestion_state_set(tcb, State::Recovery);
    tcb.state = State::Recovery;
    tcb.ssthresh = bbr.get_ss_thresh(tcb, in_flight);
}

fn recovered(bbr: &mut Bbr, tcb: &mut SocketState) {
    bbr.cwnd_event(tcb, Event::CompleteCwr);
    bbr.congestion_state_set(tcb, State::Open);
    (tcb.state, tcb.cwnd) = (State::Open, tcb.ssthresh);
}

/// As after STARTUP: 10 Mbit/s, 40 ms, window and threshold given.
fn cruising(cwnd: u32, ssthresh: u32) -> (Bbr, SocketState) {
    let (mut bbr, mut tcb) = started(0);
    bbr.rate = RateMax::new(10_000_000);
    (bbr.full, bbr.cycle, tcb.cwnd, tcb.ssthresh) = (true, 3, cwnd, ssthresh);
    bbr.enter(Mode::ProbeBw, 1.0, 2.0);
    (bbr, tcb)
}

/// ns-3 announces every segment that finds nothing out, but TcpBbr listens only once PROBE_RTT has set `m_appLimited`.
#[test]
fn a_restart_counts_after_the_first_probe_rtt() {
    for (has_probed, bps) in [(false, 7_500_000.0), (true, 10_000_000.0)] {
        let (mut bbr, mut tcb) = cruising(100_000, 54_020);
        (bbr.app_limited, tcb.pacing_bps) = (has_probed, 7_500_000.0);
        bbr.cwnd_event(&mut tcb, Event::TxStart);
        assert_eq!((bbr.idle_restart, tcb.pacing_bps), (has_probed, bps));
    }
}

/// 10 segments in 40 ms are 2.68 Mbit/s; paced at 2.89 times that.
#[test]
fn the_first_rate_is_the_initial_windows() {
    let (_, tcb) = started(0);
    assert_eq!((tcb.cwnd, tcb.pacing_bps, tcb.pacing), (10 * MSS, 7_745_200.0, true));
}

/// 50,000 bytes twice, three segments of bursts: 104,020; with 1,340 bytes that came ahead 105,360.
#[test]
fn the_window_is_two_products_three_segments_and_what_comes_ahead() {
    let (mut bbr, mut tcb) = cruising(200_000, 54_020);
    ack(&mut bbr, &mut tcb, 1, 1_000_000, 50_000);
    assert_eq!((tcb.cwnd, tcb.pacing_bps), (105_360, 10_000_000.0));
}

/// Recovery: what is in flight and one segment, then a round of packet conservation; its end leaves the threshold of STARTUP's end.
#[test]
fn a_recovery_ends_at_the_threshold() {
    let (mut bbr, mut tcb) = cruising(100_000, 54_020);
    bbr.next_round_delivered = 2_000_000;
    recovery(&mut bbr, &mut tcb, 97_320);
    assert_eq!((tcb.cwnd, tcb.ssthresh, bbr.prior_cwnd), (98_660, 54_020, 100_000));
    recovered(&mut bbr, &mut tcb);
    ack(&mut bbr, &mut tcb, 41, 1_100_000, 90_000);
    assert_eq!(tcb.cwnd, 54_020 + MSS);
}

/// In STARTUP the threshold is 2³² − 1: the window is without bound until the next acknowledgement adds to it and it wraps to four segments,
/// once the pipe is full.
#[test]
fn before_the_pipe_is_full_a_recovery_leaves_no_window_and_then_four_segments() {
    let (mut bbr, mut tcb) = started(0);
    recovery(&mut bbr, &mut tcb, 50_000);
    recovered(&mut bbr, &mut tcb);
    assert_eq!(tcb.cwnd, u32::MAX);
    let (mut ms, mut delivered) = (41, 1_100_000);
    while !bbr.full {
        assert_eq!(tcb.cwnd, u32::MAX);
        (ms, delivered) = (ms + 40, delivered + 100_000);
        ack(&mut bbr, &mut tcb, ms, delivered, 50_000);
    }
    assert_eq!((tcb.cwnd, bbr.mode), (4 * MSS, Mode::ProbeBw));
    assert_eq!(tcb.ssthresh, 54_020);
}

/// `ModulateCwndForRecovery` counts in signed numbers: 2³² − 1 less a segment is one segment.
#[test]
fn a_loss_out_of_a_window_without_bound_leaves_a_segment() {
    let (mut bbr, mut tcb) = started(0);
    (tcb.cwnd, tcb.state) = (u32::MAX, State::Recovery);
    bbr.set_cwnd(&mut tcb, &RateSample { lost: MSS, ..sample(1_000_000, 50_000) });
    assert_eq!(tcb.cwnd, 4 * MSS, "and the floor is four");
}

/// PROBE_RTT: more than 10 s after the smallest smoothed RTT, four segments, 200 ms and a round; then the window is back.
#[test]
fn probe_rtt_goes_by_the_smoothed_rtt() {
    let (mut bbr, mut tcb) = cruising(100_000, 54_020);
    tcb.last_rtt = Span::from_millis(45);
    let mut step = |ms, delivered, flight| {
        ack(&mut bbr, &mut tcb, ms, delivered, flight + MSS);
        (bbr.phase().expect("a phase"), tcb.cwnd / MSS)
    };
    assert_eq!(step(10_000, 1_000_000, 100_000).0, "probe_bw");
    assert_eq!(step(10_001, 1_100_000, 100_000), ("probe_rtt", 4));
    assert_eq!(step(10_041, 1_200_000, 4 * MSS), ("probe_rtt", 4));
    assert_eq!(step(10_100, 1_300_000, MSS), ("probe_rtt", 4));
    assert_eq!(step(10_241, 1_400_000, MSS), ("probe_rtt", 4));
    assert_eq!(step(10_242, 1_500_000, MSS).0, "probe_bw");
    assert_eq!(bbr.rt_prop, Some(Span::from_millis(45)));
    assert!(tcb.cwnd >= 100_000);
}

#[test]
fn after_a_timeout_what_went_before_does_not_come_back() {
    let (mut bbr, mut tcb) = cruising(100_000, 54_020);
    bbr.congestion_state_set(&mut tcb, State::Loss);
    (tcb.state, tcb.cwnd) = (State::Loss, MSS);
    ack(&mut bbr, &mut tcb, 41, 1_000_000, MSS);
    assert_eq!(tcb.cwnd, 4 * MSS);
    ack(&mut bbr, &mut tcb, 42, 1_001_340, MSS);
    assert_eq!(tcb.cwnd, 5 * MSS);
}

/// Nothing is expected in the first second, and the epoch ends with 4096 bytes: three segments of 1340, then one.
#[test]
fn an_epoch_counts_whole_seconds_and_few_bytes() {
    let mut extra = Extra::new(Time::ZERO);
    let mut seen = Vec::new();
    for ms in 1..=4 {
        extra.update(Time::from_millis(ms), MSS, false, 10_000_000, 1 << 20);
        seen.push(extra.epoch_acked / u64::from(MSS));
    }
    assert_eq!((seen, extra.most[0]), (vec![1, 2, 3, 1], 3 * u64::from(MSS)));
    assert_eq!(extra.allowance(80_000), 1000);
}

proptest! {
    /// The first phase of PROBE_BW is never the draining one, whatever the seed.
    #[test]
    fn probe_bw_never_starts_in_the_draining_phase(seed in any::<u64>()) {
        let (mut bbr, _) = started(seed);
        bbr.enter_probe_bw(Time::ZERO);
        prop_assert_ne!(bbr.pacing_gain, 0.75);
        prop_assert_ne!(bbr.cycle, 2);
    }
}
