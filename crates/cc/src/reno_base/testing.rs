//! Events for hand-computed steps: window-limited, a thousand bytes a segment. For tests only.

use crate::events::RateSample;

use super::*;

/// Bytes in a segment of these tests.
pub const MSS: u32 = 1000;

/// A flow of `law` with `cwnd` segments, in congestion avoidance.
pub fn avoiding<L: Law>(base: Base, law: L, cwnd: f64) -> Rival<L> {
    let mut flow = starting(base, law, cwnd);
    flow.window.ssthresh = cwnd.min(2.0);
    flow
}

/// A flow of `law` with `cwnd` segments, in slow start.
pub fn starting<L: Law>(base: Base, law: L, cwnd: f64) -> Rival<L> {
    let mut flow = Rival::new(base, law, &Start { mss: MSS, ..Start::default() });
    flow.window.cwnd = cwnd;
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

/// An episode that starts with `flight` segments out.
pub fn episode(at_ms: f64, cause: Cause, flight: f64) -> Congestion {
    Congestion {
        now: Time::from_secs_f64(at_ms / 1e3),
        cause,
        lost: u64::from(MSS),
        in_flight: (flight * f64::from(MSS)) as u64,
        srtt: Span::from_millis(100),
    }
}

/// A link that serves one flow in whole rounds: a window is sent, its acknowledgements come back one by one.
#[derive(Debug)]
pub struct Fluid {
    /// Time of the next round, ms.
    pub now_ms: f64,
    delivered: u64,
    base_ms: f64,
    per_ms: f64,
}

impl Fluid {
    /// `per_ms` segments a millisecond and a base RTT of `base_ms`.
    pub fn new(base_ms: f64, per_ms: f64) -> Fluid {
        Fluid { now_ms: 1.0, delivered: 0, base_ms, per_ms }
    }

    /// Segments that fit without a queue.
    pub fn bdp(&self) -> f64 {
        self.base_ms * self.per_ms
    }

    /// One round of `flow`; returns the queue it made, in segments, counting `others` of other flows.
    pub fn round(&mut self, flow: &mut dyn Controller, others: f64) -> f64 {
        let window = (flow.cwnd() / u64::from(MSS)).max(1);
        let rtt = self.base_ms.max((window as f64 + others) / self.per_ms);
        let (start, prior) = (self.now_ms, self.delivered);
        for i in 0..window {
            self.delivered += u64::from(MSS);
            flow.on_ack(&Ack {
                in_flight: window * u64::from(MSS),
                delivered: self.delivered,
                prior_delivered: prior,
                ..ack(start + rtt * (i + 1) as f64 / window as f64, 1.0, rtt)
            });
        }
        self.now_ms = start + rtt;
        (window as f64 + others - self.bdp()).max(0.0)
    }
}
