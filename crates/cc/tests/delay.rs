//! Monotone in delay, for those whose sources say so: of two flows with the same past, the one that sees more queueing delay
//! never ends with the larger window. Delays stay within the range that the past has shown: a new minimum changes the gain of
//! LEDBAT++, a new maximum the threshold of TCP-LP and NICE.

use lowtide_cc::{Ack, Cause, Congestion, Controller, Params, Span, Start, Time, registry};
use proptest::prelude::*;

const MSS: u64 = 1448;
/// The path without queues and with the fullest one, ms.
const BASE_MS: f64 = 40.0;
const FULL_MS: f64 = 240.0;
/// A one-way delay is a part of the round trip on a clock of its own.
const CLOCK_NS: i64 = -7_000_000_000;

/// These judge each acknowledgement.
const BY_ACKNOWLEDGEMENT: [&str; 9] =
    ["ledbat", "ledbat-2009", "ledbat-2009-bounded", "ledbat-dynamic", "ledbat_pp", "ledbat_pp-enhanced", "libutp", "libutp-mod", "tcp_lp"];
/// These judge a round.
const BY_ROUND: [&str; 3] = ["vegas", "vegas-linux", "tcp_nice"];

/// A flow and what its host knows.
struct Flow {
    cc: Box<dyn Controller>,
    now: Time,
    delivered: u64,
    round_start: u64,
    /// TCP-LP reacts once an RTT, the last sample: without samples that is the same for both.
    samples: bool,
}

impl Flow {
    /// A flow that has seen the whole range of delays, lost something and then one round at each of `past`.
    fn after(name: &str, past: &[f64]) -> Flow {
        let algorithm = registry::by_name(name).expect("registered");
        let start = Start { initial_window: Some(20 * MSS), ..Start::default() };
        let cc = algorithm.build(&Params::default(), &start).expect("presets are valid");
        let mut flow = Flow { cc, now: Time::from_millis(1), delivered: 0, round_start: 0, samples: name != "tcp_lp" };
        for queued_ms in [0.0, 0.0, FULL_MS - BASE_MS] {
            flow.round(queued_ms);
        }
        let in_flight = flow.cc.cwnd();
        flow.cc.on_congestion(&Congestion { now: flow.now, cause: Cause::Loss, lost: MSS, in_flight, srtt: Span::from_millis(50) });
        for queued_ms in past {
            flow.round(*queued_ms);
        }
        flow
    }

    /// A window's acknowledgements, eight at most, all with this queueing delay.
    fn round(&mut self, queued_ms: f64) {
        self.round_start = self.delivered;
        for _ in 0..(self.cc.cwnd() / MSS).clamp(4, 8) {
            self.ack(queued_ms);
        }
    }

    fn ack(&mut self, queued_ms: f64) {
        let rtt = Span::from_millis_f64(BASE_MS + queued_ms);
        self.now += Span::from_millis(3);
        self.delivered += MSS;
        self.cc.on_ack(&Ack {
            now: self.now,
            acked: MSS,
            in_flight: self.cc.cwnd(),
            rtt: self.samples.then_some(rtt),
            srtt: Span::from_millis(50),
            owd: Some(CLOCK_NS + rtt.nanos() as i64),
            delivered: self.delivered,
            prior_delivered: self.round_start,
            cwnd_limited: true,
            ..Ack::default()
        });
    }
}

fn queued() -> impl Strategy<Value = f64> {
    0.0..(FULL_MS - BASE_MS)
}

proptest! {
    #[test]
    fn more_delay_in_an_acknowledgement_never_leaves_more_window(past in prop::collection::vec(queued(), 0..20), a in queued(), b in queued()) {
        for name in BY_ACKNOWLEDGEMENT {
            let window = |queued_ms: f64| {
                let mut flow = Flow::after(name, &past);
                flow.ack(queued_ms);
                flow.cc.cwnd()
            };
            let (less, more) = (window(a.min(b)), window(a.max(b)));
            prop_assert!(less >= more, "{name}: {less} after {} ms, {more} after {} ms", a.min(b), a.max(b));
        }
    }

    #[test]
    fn more_delay_in_a_round_never_leaves_more_window(past in prop::collection::vec(queued(), 0..20), a in queued(), b in queued()) {
        for name in BY_ROUND {
            let window = |queued_ms: f64| {
                let mut flow = Flow::after(name, &past);
                flow.round(queued_ms);
                flow.round_start = flow.delivered;
                flow.ack(queued_ms);
                flow.cc.cwnd()
            };
            let (less, more) = (window(a.min(b)), window(a.max(b)));
            prop_assert!(less >= more, "{name}: {less} after {} ms, {more} after {} ms", a.min(b), a.max(b));
        }
    }
}

/// The properties above are not about windows that never move.
#[test]
fn delay_moves_each_of_them() {
    for name in BY_ACKNOWLEDGEMENT.into_iter().chain(BY_ROUND) {
        let window = |queued_ms: f64| Flow::after(name, &[queued_ms; 40]).cc.cwnd();
        let (short, long) = (window(0.0), window(0.9 * (FULL_MS - BASE_MS)));
        assert!(short > long, "{name}: {short} without a queue, {long} with one");
    }
}
