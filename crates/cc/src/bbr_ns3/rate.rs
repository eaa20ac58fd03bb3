//! The delivery rate as ns-3.37's `TcpRateLinux` samples it. Knows acknowledgements, no mode.
//!
//! Its faults: `SkbDelivered` takes the acknowledgement interval from where the sample *before* began, so that of a flow with one
//! segment out it spans two round trips; and an acknowledgement of what left in one burst with the segment before keeps that one's
//! interval. What fails leaves the last rate standing (`GenerateSample`).

use std::collections::VecDeque;

use lowtide_units::{Rate, Span, Time};

use crate::events::Ack;

/// The sampler of one flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Sampler {
    /// When how much had been delivered.
    history: VecDeque<(u64, Time)>,
    prior_delivered: u64,
    prior_at: Option<Time>,
    interval: Span,
    bps: Option<u64>,
    /// Of the last sample.
    pub(super) app_limited: bool,
}

impl Sampler {
    /// The rate in bit/s after `ack`, none before the first sample.
    pub(super) fn on_ack(&mut self, ack: &Ack, min_rtt: Span) -> Option<u64> {
        if self.prior_delivered == 0 || ack.prior_delivered > self.prior_delivered {
            while self.history.get(1).is_some_and(|next| next.0 <= ack.prior_delivered) {
                self.history.pop_front();
            }
            let began = self.history.front().filter(|first| first.0 <= ack.prior_delivered).map(|first| first.1);
            let since_last = self.prior_at.map_or(Span::ZERO, |at| ack.now.since(at));
            self.interval = since_last.max(ack.rate.map_or(Span::ZERO, |sample| sample.interval));
            self.app_limited = ack.rate.is_some_and(|sample| sample.app_limited);
            (self.prior_delivered, self.prior_at) = (ack.prior_delivered, began.or(self.prior_at));
        }
        self.history.push_back((ack.delivered, ack.now));
        if self.interval >= min_rtt && self.interval > Span::ZERO {
            let delivered = ack.delivered.saturating_sub(self.prior_delivered);
            self.bps = Some(Rate::from_bytes_over(delivered, self.interval).bps());
        }
        self.bps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One segment of 1250 bytes a round trip of 100 ms is 100 kbit/s, but the interval is that of two.
    #[test]
    fn a_lone_segment_counts_half() {
        let mut sampler = Sampler::default();
        let seen: Vec<Option<u64>> = (1..=5)
            .map(|n| {
                let ack = Ack { now: Time::from_millis(100 * n), delivered: 1250 * n, prior_delivered: 1250 * (n - 1), ..Ack::default() };
                sampler.on_ack(&ack, Span::from_millis(100))
            })
            .collect();
        assert_eq!(seen, [None, None, Some(50_000), Some(50_000), Some(50_000)]);
    }
}
