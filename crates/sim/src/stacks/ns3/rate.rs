//! `TcpRateLinux` (`tcp-rate-ops.cc`): rate samples, one segment at a time and with its faults. Knows segments, no window.
//!
//! What it does otherwise than Linux, from which it was written:
//! - `SkbDelivered` takes the acknowledgement interval from `m_priorTime` before it sets that to this segment's: from where the sample
//!   *before* began, the first time from time zero.
//! - The sample outlives the acknowledgement: one that brings nothing sent later keeps the intervals of the one before over what has been
//!   delivered since, and an invalid one leaves the last rate standing (`m_deliveryRate`).
//! - `GenerateSample` makes a sample shorter than the smallest RTT invalid by setting `m_priorTime` to zero, from where the next
//!   one is then measured. That RTT is the smallest smoothed one.
//! - The bytes lost are the change of `m_lostOut`, either way: repairs that arrive count again (`TcpSocketBase::ReceivedAck`).

use lowtide_replicas::ns3::socket::RateSample;
use lowtide_units::{Span, Time};

/// `TcpTxItem::RateInformation`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateInformation {
    first_sent: Time,
    /// None once the segment has counted (`Time::Max`).
    delivered_time: Option<Time>,
    delivered: u64,
    app_limited: bool,
}

/// `TcpRateConnection` and `TcpRateSample` of one socket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    /// `m_rate`: `m_delivered`, `m_deliveredTime`, `m_firstSentTime`, `m_appLimited`, `m_rateDelivered`, `m_rateInterval`.
    delivered: u64,
    delivered_time: Time,
    first_sent_time: Time,
    app_limited: u64,
    rate_delivered: u64,
    rate_interval: Span,
    /// `m_rateSample`: `m_priorTime`, `m_sendElapsed`, `m_ackElapsed`, and what is told.
    prior_time: Time,
    send_elapsed: Span,
    ack_elapsed: Span,
    sample: RateSample,
}

impl Rate {
    /// `m_rate.m_delivered`.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// `CalculateAppLimited`: the application writes, with `in_flight` bytes out of a window of `cwnd` and `unsent` bytes to send.
    pub fn calculate_app_limited(&mut self, cwnd: u32, in_flight: u32, segment: u32, unsent: u64, lost_are_sent: bool) {
        if unsent < u64::from(segment) && in_flight < cwnd && lost_are_sent {
            self.app_limited = (self.delivered + u64::from(in_flight)).max(1);
        }
    }

    /// `SkbSent`: what the segment that leaves is to remember; `start`: nothing else is out.
    pub fn skb_sent(&mut self, now: Time, start: bool) -> RateInformation {
        if start {
            (self.first_sent_time, self.delivered_time) = (now, now);
        }
        RateInformation {
            first_sent: self.first_sent_time,
            delivered_time: Some(self.delivered_time),
            delivered: self.delivered,
            app_limited: self.app_limited != 0,
        }
    }

    /// `SkbDelivered`, of a segment of `len` bytes that left last at `last_sent`.
    pub fn skb_delivered(&mut self, info: &mut RateInformation, last_sent: Time, len: u32, now: Time) {
        let Some(delivered_time) = info.delivered_time.take() else { return };
        self.delivered += u64::from(len);
        self.delivered_time = now;
        if self.sample.prior_delivered == 0 || info.delivered > self.sample.prior_delivered {
            self.ack_elapsed = now.since(self.prior_time);
            (self.sample.prior_delivered, self.prior_time) = (info.delivered, delivered_time);
            self.sample.app_limited = info.app_limited;
            self.send_elapsed = last_sent.since(info.first_sent);
            self.first_sent_time = last_sent;
        }
    }

    /// `GenerateSample`.
    pub fn generate_sample(&mut self, acked_sacked: u32, lost: u32, prior_in_flight: u32, min_rtt: Option<Span>) -> RateSample {
        if self.app_limited != 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let sample = &mut self.sample;
        (sample.total_delivered, sample.acked_sacked) = (self.delivered, acked_sacked);
        (sample.lost, sample.prior_in_flight) = (lost, prior_in_flight);
        if self.prior_time == Time::ZERO {
            sample.delivered = None;
            return *sample;
        }
        let interval = self.send_elapsed.max(self.ack_elapsed);
        let delivered = self.delivered - sample.prior_delivered;
        sample.delivered = Some(delivered);
        if min_rtt.is_none_or(|min| interval < min) {
            self.prior_time = Time::ZERO;
            return *sample;
        }
        let scaled = |bytes: u64, by: Span| u128::from(bytes) * u128::from(by.nanos());
        if !sample.app_limited || scaled(delivered, self.rate_interval) >= scaled(self.rate_delivered, interval) {
            (self.rate_delivered, self.rate_interval) = (delivered, interval);
            sample.bps = (delivered as f64 * 8.0 / interval.secs_f64()) as u64;
        }
        *sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(40);

    /// Sends `n` segments of 1000 bytes at `ms` and delivers them at `ms + after`, one acknowledgement each.
    fn round(rate: &mut Rate, ms: u64, after: u64, n: usize) -> Vec<RateSample> {
        let sent = Time::from_millis(ms);
        let infos: Vec<RateInformation> = (0..n).map(|i| rate.skb_sent(sent, i == 0)).collect();
        let now = Time::from_millis(ms + after);
        let deliver = |mut info: RateInformation| {
            rate.skb_delivered(&mut info, sent, 1000, now);
            rate.generate_sample(1000, 0, 0, Some(RTT))
        };
        infos.into_iter().map(deliver).collect()
    }

    /// One segment each 40 ms is 200 kbit/s, but the interval is that of two; the first ones are measured from time zero.
    #[test]
    fn a_lone_segments_rate_counts_half() {
        let mut rate = Rate::default();
        let rates: Vec<u64> = (1..=5).map(|n| round(&mut rate, 1000 + 40 * n, 40, 1)[0].bps).collect();
        assert_eq!(rates, [1000 * 8000 / 1080, 100_000, 100_000, 100_000, 100_000]);
    }

    /// Three segments sent together: what the second and the third add comes over the first one's interval.
    #[test]
    fn a_sample_outlives_its_acknowledgement() {
        let mut rate = Rate::default();
        round(&mut rate, 1000, 40, 1);
        let samples = round(&mut rate, 1040, 40, 3);
        let seen: Vec<_> = samples.iter().map(|s| (s.bps, s.prior_delivered, s.delivered)).collect();
        assert_eq!(seen, [(100_000, 1000, Some(1000)), (200_000, 1000, Some(2000)), (300_000, 1000, Some(3000))]);
    }

    /// Shorter than the smallest RTT: the rate stands, the next acknowledgement has no time, and the next sample is measured from time zero.
    #[test]
    fn too_short_a_sample_spoils_the_next() {
        let mut rate = Rate::default();
        round(&mut rate, 1000, 40, 1);
        assert_eq!(round(&mut rate, 1040, 15, 1)[0].bps, 8_000_000 / 55);
        let samples = round(&mut rate, 1055, 15, 2);
        assert_eq!((samples[0].bps, samples[0].delivered), (8_000_000 / 55, Some(1000)));
        assert_eq!((samples[1].bps, samples[1].delivered), (8_000_000 / 55, None));
        assert_eq!(round(&mut rate, 1070, 15, 1)[0].bps, 8_000_000 / 1085);
    }

    /// The same segment, SACKed and then acknowledged, counts once.
    #[test]
    fn a_segment_counts_once() {
        let mut rate = Rate::default();
        let mut info = rate.skb_sent(Time::from_millis(1), true);
        for _ in 0..2 {
            rate.skb_delivered(&mut info, Time::from_millis(1), 1000, Time::from_millis(41));
        }
        assert_eq!(rate.delivered(), 1000);
    }
}
