//! BBRv2 against google/bbr tcp_bbr2.c (v2alpha): the bounds learned from loss, the probing cycle.

use proptest::prelude::*;

use super::*;

const MSS: u64 = 1500;
const RTT: Span = Span::from_millis(40);

/// A flow that has found 10 Mbit/s and 40 ms and is in this phase of PROBE_BW.
fn in_phase(phase: Phase) -> Bbr2 {
    let mut flow = Bbr2::new(Config::default(), &Start { mss: MSS as u32, ..Start::default() });
    flow.full_pipe.declare();
    (flow.mode, flow.cwnd, flow.rate) = (Mode::ProbeBw, 67 * MSS, [10_000_000, 10_000_000]);
    (flow.min_rtt, flow.recent_rtt, flow.delivered) = (Some(RTT), Some(RTT), 1_000_000);
    flow.start_down(Time::ZERO);
    flow.cycle.phase = phase;
    flow
}

/// An acknowledgement whose sample saw `lost` of `flight` segments lost.
fn ack(ms: u64, lost: u64, flight: u64, new_round: bool) -> Ack {
    let rate = RateSample { delivered: 50_000, interval: RTT, tx_in_flight: flight * MSS, lost: lost * MSS, ..RateSample::default() };
    let delivered = 1_000_000 + ms * 1250;
    Ack {
        now: Time::from_millis(ms),
        acked: MSS,
        lost: lost * MSS,
        in_flight: flight * MSS,
        rtt: Some(RTT),
        srtt: RTT,
        delivered,
        prior_delivered: if new_round { delivered } else { 0 },
        rate: Some(rate),
        cwnd_limited: true,
        ..Ack::default()
    }
}

#[test]
fn headroom_leaves_fourteen_of_a_hundred() {
    let mut flow = in_phase(Phase::Cruise);
    assert_eq!(flow.inflight_cap(), u64::MAX);
    flow.bounds.inflight_high = 100 * MSS;
    assert_eq!(flow.inflight_cap(), 86 * MSS);
    flow.cycle.phase = Phase::Up;
    assert_eq!(flow.inflight_cap(), 100 * MSS);
    flow.bounds.inflight_high = 4 * MSS;
    assert_eq!(flow.inflight_with_headroom(), 4 * MSS);
}

#[test]
fn three_of_a_hundred_lost_is_too_much_and_one_is_not() {
    for (lost, phase) in [(3, "probe_bw_down"), (1, "probe_bw_up")] {
        let mut flow = in_phase(Phase::Up);
        (flow.cycle.samples_from_probe, flow.bounds.inflight_high) = (true, 120 * MSS);
        flow.on_ack(&ack(1, lost, 100, false));
        assert_eq!(flow.snapshot().phase, phase, "{lost} lost");
        assert_eq!(flow.bounds.inflight_high, if lost == 3 { 100 } else { 120 } * MSS);
    }
}

/// Loss while cruising: the rate and the flight keep 0.703, but never less than what was delivered in the round.
#[test]
fn loss_outside_probing_lowers_the_bounds_once_a_round() {
    let mut flow = in_phase(Phase::Cruise);
    flow.cwnd = 100 * MSS;
    let slow = |ms, lost, new_round| {
        let one = ack(ms, lost, 60, new_round);
        Ack {
            rate: one.rate.map(|s| RateSample { delivered: 30_000, ..s }),
            prior_delivered: if new_round { one.delivered } else { 900_000 },
            ..one
        }
    };
    flow.bounds.forget_signals();
    flow.on_ack(&slow(1, 2, false));
    assert_eq!(flow.bounds.rate_low, u64::MAX, "the round is not over");
    let cwnd = flow.cwnd;
    flow.on_ack(&slow(40, 0, true));
    assert_eq!(flow.bounds.rate_low, 10_000_000 * 180 / 256);
    assert_eq!(flow.bounds.inflight_low, cwnd * 180 / 256);
    flow.on_ack(&slow(41, 2, false));
    flow.on_ack(&slow(80, 0, true));
    assert_eq!(flow.bounds.rate_low, 6_000_000, "what was delivered");
}

/// 25 Mbit/s and 30 ms are 62 segments of 1514 bytes: Reno would need so many rounds.
#[test]
fn probes_come_after_the_wait_or_as_many_rounds_as_reno_needs() {
    let mut flow = in_phase(Phase::Cruise);
    (flow.mss, flow.rate, flow.min_rtt, flow.cwnd) = (1514, [25_000_000, 0], Some(Span::from_millis(30)), 200 * 1514);
    flow.cycle.rounds = 0;
    let rounds = (0..).take_while(|_| {
        flow.cycle.rounds += 1;
        flow.on_ack(&Ack { rtt: None, rate: None, ..ack(1, 0, 50, false) });
        flow.update_cycle(&ack(1, 0, 50, false), &RateSample::default());
        flow.snapshot().phase == "probe_bw_cruise"
    });
    assert_eq!(rounds.count() + 1, 62);
}

proptest! {
    /// The wait between probes lies in [2, 3) seconds whatever the seed.
    #[test]
    fn waits_lie_between_two_and_three_seconds(seed in any::<u64>()) {
        let mut flow = Bbr2::new(Config::default(), &Start { seed, ..Start::default() });
        flow.start_down(Time::ZERO);
        flow.mode = Mode::ProbeBw;
        (flow.rate, flow.min_rtt, flow.cwnd) = ([1_000_000_000, 0], Some(Span::from_millis(100)), 1 << 30);
        prop_assert!(!flow.time_to_probe_at(2.0));
        prop_assert!(flow.time_to_probe_at(3.001));
    }
}

impl Bbr2 {
    fn time_to_probe_at(&self, seconds: f64) -> bool {
        self.time_to_probe(Time::from_secs_f64(seconds))
    }
}

/// Cruise, a round of refill, up until a quarter more is in flight, down until it has drained, cruise.
#[test]
fn a_cycle_without_loss() {
    let mut flow = in_phase(Phase::Cruise);
    let mut seen = vec![flow.snapshot().phase];
    for (ms, flight) in [(3100, 40), (3140, 40), (3150, 40), (3200, 50), (3210, 30)] {
        flow.on_ack(&ack(ms, 0, flight, true));
        seen.push(flow.snapshot().phase);
    }
    let want = ["probe_bw_cruise", "probe_bw_refill", "probe_bw_up", "probe_bw_up", "probe_bw_down", "probe_bw_cruise"];
    assert_eq!(seen, want);
}

/// 5/4 of the pipe are 42 segments, two more while probing: reached when 42 are out and two leave next.
#[test]
fn probing_ends_with_the_burst_that_fills_the_pipe() {
    for (flight, phase) in [(41, "probe_bw_up"), (42, "probe_bw_down")] {
        let mut flow = in_phase(Phase::Cruise);
        for (ms, flight) in [(3100, 40), (3140, 40), (3200, flight)] {
            flow.on_ack(&ack(ms, 0, flight, true));
        }
        assert_eq!(flow.snapshot().phase, phase, "{flight} segments out");
    }
}

#[test]
fn probe_rtt_keeps_half_the_pipe_and_returns_to_cruising() {
    let mut flow = in_phase(Phase::Cruise);
    (flow.recent_rtt_at, flow.min_rtt_at) = (Time::from_millis(100), Time::from_millis(100));
    let step = |flow: &mut Bbr2, ms, flight| {
        flow.on_ack(&Ack { rtt: Some(Span::from_millis(41)), ..ack(ms, 0, flight, true) });
        flow.snapshot().phase
    };
    flow.cycle.wait = Span::from_secs(60);
    flow.cycle.rounds = 0;
    assert_eq!(step(&mut flow, 5100, 34), "probe_bw_cruise");
    assert_eq!(step(&mut flow, 5101, 34), "probe_rtt");
    assert_eq!(flow.cwnd(), 17 * MSS);
    assert_eq!(step(&mut flow, 5140, 17), "probe_rtt");
    assert_eq!(step(&mut flow, 5340, 17), "probe_rtt");
    assert_eq!(step(&mut flow, 5341, 17), "probe_bw_cruise");
}

#[test]
fn a_timeout_leaves_one_segment_and_an_undo_gives_the_bounds_back() {
    let mut flow = in_phase(Phase::Cruise);
    flow.bounds.inflight_high = 90 * MSS;
    let event = Congestion { now: Time::ZERO, cause: Cause::Timeout, lost: 67 * MSS, in_flight: 67 * MSS, srtt: RTT };
    flow.on_congestion(&event);
    assert_eq!((flow.cwnd(), flow.bounds.inflight_low), (MSS, 67 * MSS));
    flow.bounds.inflight_high = 10 * MSS;
    flow.on_undo(Time::ZERO);
    assert_eq!((flow.cwnd(), flow.bounds.inflight_low, flow.bounds.inflight_high), (67 * MSS, u64::MAX, 90 * MSS));
}

/// As [`in_phase`], by version 3's rules.
fn third_in_phase(phase: Phase) -> Bbr2 {
    let mut flow = in_phase(phase);
    flow.rules = Rules::V3;
    flow
}

/// `tcp_bbr.c` (v3): 277/100 and 1/256, 2, 91/100, 2 + 1/4.
#[test]
fn version_3_has_its_gains() {
    let fresh = Bbr2::with_rules(Rules::V3, Config::default(), &Start::default());
    assert_eq!((fresh.pacing_gain(), fresh.cwnd_gain()), (710, 512));
    let gains = |phase| (third_in_phase(phase).pacing_gain(), third_in_phase(phase).cwnd_gain());
    assert_eq!([Phase::Down, Phase::Cruise, Phase::Refill, Phase::Up].map(gains), [(232, 512), (256, 512), (256, 512), (320, 576)]);
    let second = |phase| (in_phase(phase).pacing_gain(), in_phase(phase).cwnd_gain());
    assert_eq!([Phase::Down, Phase::Up].map(second), [(192, 512), (320, 512)]);
}

/// UP begins at its first sample's rate, 10 Mbit/s. A quarter more in flight does not end it, three rounds without growth do.
#[test]
fn version_3_probes_until_three_rounds_are_flat() {
    let mut flow = third_in_phase(Phase::Cruise);
    let mut seen = Vec::new();
    for ms in [3100, 3140, 3180, 3220, 3260] {
        flow.on_ack(&ack(ms, 0, 60, true));
        seen.push(flow.snapshot().phase);
    }
    assert_eq!(seen, ["probe_bw_refill", "probe_bw_up", "probe_bw_up", "probe_bw_up", "probe_bw_down"]);
}

/// With the upper bound as the limit of the window the plateau is looked for anew at every acknowledgement: UP goes on.
#[test]
fn version_3_goes_on_probing_while_its_bound_is_the_limit() {
    let mut flow = third_in_phase(Phase::Cruise);
    flow.bounds.inflight_high = 60 * MSS;
    let mut seen = Vec::new();
    for ms in [3100, 3140, 3180, 3220, 3260, 3300, 3340] {
        flow.cwnd = flow.bounds.inflight_high;
        flow.on_ack(&ack(ms, 0, 50, true));
        seen.push(flow.snapshot().phase);
    }
    assert_eq!(seen[1..], ["probe_bw_up"; 6]);
    assert!(flow.bounds.inflight_high > 60 * MSS, "and the bound rises");
}

/// Growth between two rounds' ends counts in version 3, which looks at every sample.
#[test]
fn version_3_sees_growth_at_once() {
    let mut pipe = FullPipe::default();
    pipe.on_sample(1_000_000, true);
    for _ in 0..2 {
        pipe.on_sample(1_000_000, true);
    }
    pipe.on_sample(1_250_000, false);
    for _ in 0..2 {
        pipe.on_sample(1_250_000, true);
    }
    assert!(!pipe.is_flat() && !pipe.reached());
    pipe.on_sample(1_250_000, true);
    assert!(pipe.is_flat() && pipe.reached());
    pipe.begin(1_250_000);
    assert!(!pipe.is_flat() && pipe.reached(), "the plateau is forgotten, the verdict of STARTUP stays");
}

/// Six losses in a round of recovery end version 3's STARTUP, eight version 2's; version 3's bound keeps what the round delivered.
#[test]
fn version_3_leaves_startup_after_six_losses() {
    let after = |rules, losses| {
        let mut flow = Bbr2::with_rules(rules, Config::default(), &Start { mss: MSS as u32, ..Start::default() });
        (flow.rate, flow.min_rtt, flow.recent_rtt, flow.cwnd) = ([1_000_000, 1_000_000], Some(RTT), Some(RTT), 100 * MSS);
        flow.full_pipe.begin(100_000_000);
        for n in 0..losses {
            flow.on_ack(&Ack { in_recovery: true, prior_delivered: 0, ..ack(n, 4, 100, false) });
        }
        flow.on_ack(&Ack { in_recovery: true, ..ack(losses, 4, 100, true) });
        (flow.full_pipe.reached(), flow.bounds.inflight_high)
    };
    assert_eq!(after(Rules::V3, 4), (false, u64::MAX));
    assert!(after(Rules::V3, 5).0 && !after(Rules::V2, 5).0 && after(Rules::V2, 7).0);
    assert!(after(Rules::V3, 7).1 >= 50_000, "what a round delivered");
}
