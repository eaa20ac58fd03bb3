//! Events of a flow that uses its whole window, a thousand bytes a segment. For tests only.

use lowtide_cc::{Ack, Span, Start, Time};

use crate::ns2::window::{Agent, Module};

/// Bytes in a segment of these tests.
pub const MSS: u32 = 1000;

/// A flow of `module` with `cwnd` segments, in congestion avoidance.
pub fn avoiding<M: Module>(module: M, cwnd: f64) -> Agent<M> {
    let mut flow = Agent::new(module, &Start { mss: MSS, ..Start::default() });
    flow.window.cwnd = cwnd;
    flow.window.ssthresh = cwnd.min(2.0);
    flow
}

/// An acknowledgement of `segments`.
pub fn ack(at_ms: f64, segments: f64, rtt_ms: f64) -> Ack {
    let rtt = Span::from_millis_f64(rtt_ms);
    let acked = (segments * f64::from(MSS)) as u64;
    let now = Time::from_secs_f64(at_ms / 1e3);
    Ack { now, acked, advanced: acked, in_flight: u64::MAX, rtt: Some(rtt), srtt: rtt, cwnd_limited: true, ..Ack::default() }
}
