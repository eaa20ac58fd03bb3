//! Events as the spec sheets' tables assume them: window-limited, a thousand bytes a segment. For tests only.

use lowtide_cc::reno_base::{Base, Law, Rival};
use lowtide_cc::{Ack, RateSample, Span, Start, Time};

/// Bytes in a segment of these tests.
pub const MSS: u32 = 1000;

/// A flow of `law` with `cwnd` segments, in congestion avoidance.
pub fn avoiding<L: Law>(base: Base, law: L, cwnd: f64) -> Rival<L> {
    let mut flow = Rival::new(base, law, &Start { mss: MSS, ..Start::default() });
    flow.window.cwnd = cwnd;
    flow.window.ssthresh = cwnd.min(2.0);
    flow
}

/// An acknowledgement of `segments`, window-limited.
pub fn ack(at_ms: f64, segments: f64, rtt_ms: f64) -> Ack {
    let rtt = Span::from_millis_f64(rtt_ms);
    Ack {
        now: Time::from_secs_f64(at_ms / 1e3),
        acked: (segments * f64::from(MSS)) as u64,
        rtt: Some(rtt),
        srtt: rtt,
        cwnd_limited: true,
        rate: Some(RateSample::default()),
        ..Ack::default()
    }
}
