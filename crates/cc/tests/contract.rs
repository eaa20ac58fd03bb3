//! What every algorithm of the registry owes every host: a hundred thousand random but plausible events each.

use lowtide_cc::registry::{ALGORITHMS, Algorithm};
use lowtide_cc::{Ack, Cause, Congestion, Params, RateSample, Recovery, Restart, Span, Start, Time};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    Ack { after_us: u64, segments: u64, rtt_us: u64, limited: bool, recovery: bool, ce: bool, sample: bool },
    Congestion(Cause),
    FurtherTimeout,
    Restart { idle_ms: u64 },
    Undo,
    Mss(u32),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        40 => (1u64..200_000, 1u64..64, 100u64..1_000_000, any::<bool>(), prop::bool::weighted(0.1), prop::bool::weighted(0.05), prop::bool::weighted(0.9))
            .prop_map(|(after_us, segments, rtt_us, limited, recovery, ce, sample)| Event::Ack { after_us, segments, rtt_us, limited, recovery, ce, sample }),
        2 => prop_oneof![Just(Cause::Loss), Just(Cause::Ecn), Just(Cause::Timeout)].prop_map(Event::Congestion),
        1 => Just(Event::FurtherTimeout),
        1 => (1u64..100_000).prop_map(|idle_ms| Event::Restart { idle_ms }),
        1 => Just(Event::Undo),
        1 => (536u32..9000).prop_map(Event::Mss),
    ]
}

/// Replays `events` and returns the window after each.
fn replay(algorithm: &Algorithm, events: &[Event]) -> Vec<u64> {
    let start = Start::default();
    let mut cc = algorithm.build(&Params::default(), &start).expect("presets are valid");
    let (mut now, mut delivered, mut mss) = (Time::from_millis(1), 0u64, u64::from(start.mss));
    let mut windows = Vec::with_capacity(events.len());
    for event in events {
        let before = cc.cwnd();
        match *event {
            Event::Ack { after_us, segments, rtt_us, limited, recovery, ce, sample } => {
                now += Span::from_micros(after_us);
                let acked = (segments * mss).min(before.max(mss));
                let prior = delivered.saturating_sub(before);
                delivered += acked;
                let rtt = Span::from_micros(rtt_us);
                cc.on_ack(&Ack {
                    now,
                    acked,
                    ce: if ce { acked } else { 0 },
                    in_flight: before.max(acked),
                    rtt: sample.then_some(rtt),
                    srtt: rtt,
                    owd: sample.then_some(rtt.nanos() as i64 / 2 - 5_000_000_000),
                    delivered,
                    prior_delivered: prior,
                    rate: sample.then_some(RateSample {
                        delivered: delivered - prior,
                        interval: rtt,
                        tx_in_flight: before,
                        ..RateSample::default()
                    }),
                    cwnd_limited: limited,
                    in_recovery: recovery,
                    ..Ack::default()
                });
                if recovery && cc.recovery() == Recovery::Host {
                    assert!(cc.cwnd() <= before.max(2 * mss), "{}: grew in recovery, {before} to {}", algorithm.name, cc.cwnd());
                }
            }
            Event::Congestion(cause) => {
                cc.on_congestion(&Congestion { now, cause, lost: mss, in_flight: before, srtt: Span::from_millis(50) });
                if cause == Cause::Timeout {
                    assert!(cc.cwnd() <= before.max(mss), "{}: a timeout raised {before} to {}", algorithm.name, cc.cwnd());
                }
            }
            Event::FurtherTimeout => {
                cc.on_further_timeout(&Congestion {
                    now,
                    cause: Cause::Timeout,
                    lost: mss,
                    in_flight: before,
                    srtt: Span::from_millis(50),
                });
                assert!(cc.cwnd() <= before.max(mss), "{}: a further timeout raised {before} to {}", algorithm.name, cc.cwnd());
            }
            Event::Restart { idle_ms } => {
                now += Span::from_millis(idle_ms);
                cc.on_restart(&Restart { now, idle: Span::from_millis(idle_ms), rto: Span::from_millis(300) });
            }
            Event::Undo => cc.on_undo(now),
            Event::Mss(new) => {
                mss = u64::from(new);
                cc.on_mss(new);
            }
        }
        let cwnd = cc.cwnd();
        assert!(cwnd > 0 && cwnd < 1 << 50, "{}: window {cwnd} after {event:?}", algorithm.name);
        let _ = cc.snapshot();
        windows.push(cwnd);
    }
    windows
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn windows_stay_sane_and_runs_repeat(events in prop::collection::vec(event(), 500)) {
        for algorithm in ALGORITHMS {
            prop_assert_eq!(replay(algorithm, &events), replay(algorithm, &events), "{} does not repeat", algorithm.name);
        }
    }
}

/// 100 Gbit/s × 10 s of RTT is 125 GB of window: no overflow, no panic, no NaN turned zero.
#[test]
fn no_overflow_at_a_hundred_gigabit_and_ten_seconds() {
    for algorithm in ALGORITHMS {
        let start = Start { mss: 9000, ..Start::default() };
        let mut cc = algorithm.build(&Params::default(), &start).expect("presets are valid");
        let (mut now, mut delivered) = (Time::from_millis(1), 0u64);
        let rtt = Span::from_secs(10);
        for round in 1..=4000 {
            let window = cc.cwnd().min(125_000_000_000);
            let prior = delivered;
            delivered += window;
            now += rtt;
            cc.on_ack(&Ack {
                now,
                acked: window,
                in_flight: window,
                rtt: Some(rtt),
                srtt: rtt,
                owd: Some(rtt.nanos() as i64),
                delivered,
                prior_delivered: prior,
                rate: Some(RateSample { delivered: window, interval: rtt, tx_in_flight: window, ..RateSample::default() }),
                cwnd_limited: true,
                ..Ack::default()
            });
            assert!(cc.cwnd() > 0 && cc.cwnd() < 1 << 50, "{}: {}", algorithm.name, cc.cwnd());
            // Reductions of such windows too, of each cause, the first from what 1000 rounds have grown.
            let cause = match round {
                1000 | 2500 => Cause::Loss,
                1500 | 3000 => Cause::Ecn,
                2000 => Cause::Timeout,
                _ => continue,
            };
            let before = cc.cwnd();
            cc.on_congestion(&Congestion { now, cause, lost: window / 2, in_flight: window, srtt: rtt });
            assert!(cc.cwnd() > 0 && cc.cwnd() <= before.max(2 * 9000), "{}: {before} to {}", algorithm.name, cc.cwnd());
            assert!(cc.pacing_rate().is_none_or(|rate| rate.bps() < 1 << 60), "{}: {:?}", algorithm.name, cc.pacing_rate());
        }
    }
}

/// Linux `tcp_enter_loss`: within a window of data that was told of congestion already a timeout starts over from one segment, and leaves
/// the threshold. What begins anew later grows back to where the first reduction put it.
#[test]
fn a_further_timeout_starts_over_and_leaves_the_threshold() {
    for algorithm in ALGORITHMS {
        let start = Start::default();
        let mut cc = algorithm.build(&Params::default(), &start).expect("presets are valid");
        let (mut now, mut delivered, rtt) = (Time::from_millis(1), 0u64, Span::from_millis(50));
        for _ in 0..200 {
            now += rtt;
            let (prior, window) = (delivered, cc.cwnd().min(1 << 20));
            delivered += window;
            let rate = Some(RateSample { delivered: window, interval: rtt, tx_in_flight: window, ..RateSample::default() });
            let owd = Some(rtt.nanos() as i64 / 2);
            let (rtt, srtt) = (Some(rtt), rtt);
            cc.on_ack(&Ack {
                now,
                acked: window,
                in_flight: window,
                rtt,
                srtt,
                owd,
                delivered,
                prior_delivered: prior,
                rate,
                cwnd_limited: true,
                ..Ack::default()
            });
        }
        let event = |cause, in_flight| Congestion { now, cause, lost: 1448, in_flight, srtt: rtt };
        let flight = cc.cwnd();
        cc.on_congestion(&event(Cause::Loss, flight));
        let reduced = cc.snapshot();
        cc.on_further_timeout(&event(Cause::Timeout, flight));
        let after = cc.snapshot();
        assert_eq!(after.ssthresh, reduced.ssthresh, "{}", algorithm.name);
        let most = u64::from(start.mss);
        assert!(after.cwnd <= most, "{}: {flight}, {} after a loss, {} after the timeout", algorithm.name, reduced.cwnd, after.cwnd);
    }
}
