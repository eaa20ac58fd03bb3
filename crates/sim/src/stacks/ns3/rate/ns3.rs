//! Delivery-rate samples as ns-3.37's `TcpRateLinux` takes them (`tcp-rate-ops.cc`), one segment at a time and with its faults. Knows
//! segments, no window.
//!
//! What it does otherwise than Linux, from which it was written:
//! - `SkbDelivered` takes the acknowledgement interval from `m_priorTime` before it sets that to this segment's: from where the sample
//!   *before* began, the first time from time zero.
//! - The sample outlives the acknowledgement: one that brings nothing sent later keeps the intervals of the one before over what has been
//!   delivered since, and an invalid one leaves the last rate standing (`m_deliveryRate`).
//! - `GenerateSample` makes a sample shorter than the smallest RTT invalid by setting `m_priorTime` to zero, from where the next
//!   one is then measured. That RTT is the smallest smoothed one.
//! - The bytes lost are the change of `m_lostOut`, either way: repairs that arrive count again (`TcpSocketBase::ReceivedAck`).

use lowtide_replicas::ns3::socket::SocketSample;
use lowtide_units::{Rate, Span, Time};

use super::Stamp;

/// `TcpRateConnection` and `TcpRateSample` of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    delivered: u64,
    delivered_time: Time,
    first_sent: Time,
    prior_delivered: u64,
    prior_time: Time,
    send_elapsed: Span,
    ack_elapsed: Span,
    app_limited: bool,
    /// Of the last sample that counted: `m_rateDelivered`, `m_rateInterval`.
    counted: (u64, Span),
    min_rtt: Span,
}

impl Sampler {
    /// Nothing sent yet; the handshake took `handshake`.
    pub fn new(handshake: Option<Span>) -> Sampler {
        Sampler {
            delivered: 0,
            delivered_time: Time::ZERO,
            first_sent: Time::ZERO,
            prior_delivered: 0,
            prior_time: Time::ZERO,
            send_elapsed: Span::ZERO,
            ack_elapsed: Span::ZERO,
            app_limited: false,
            counted: (0, Span::ZERO),
            min_rtt: handshake.unwrap_or(Span::MAX),
        }
    }

    /// `SkbSent`: what the segment that leaves with `stamp` is to remember; `idle`: nothing else is out.
    pub fn on_sent(&mut self, stamp: &mut Stamp, idle: bool) {
        if idle {
            (self.first_sent, self.delivered_time) = (stamp.sent, stamp.sent);
        }
        (stamp.first_sent, stamp.delivered_time, stamp.delivered) = (self.first_sent, self.delivered_time, self.delivered);
    }

    /// `SkbDelivered`, of a segment of `len` bytes.
    pub fn on_delivered(&mut self, stamp: &Stamp, len: u64, now: Time) {
        self.delivered += len;
        self.delivered_time = now;
        if self.prior_delivered == 0 || stamp.delivered > self.prior_delivered {
            self.ack_elapsed = now.since(self.prior_time);
            (self.prior_delivered, self.prior_time) = (stamp.delivered, stamp.delivered_time);
            self.app_limited = stamp.app_limited;
            self.send_elapsed = stamp.sent.since(stamp.first_sent);
            self.first_sent = stamp.sent;
        }
    }

    /// `GenerateSample`, after the smoothed RTT is known; `lost` and `in_flight` are the socket's.
    pub fn generate(&mut self, srtt: Span, lost: u64, in_flight: u64) -> SocketSample {
        if srtt > Span::ZERO {
            self.min_rtt = self.min_rtt.min(srtt);
        }
        let timed = self.prior_time > Time::ZERO;
        let delivered = self.delivered - self.prior_delivered;
        let interval = self.send_elapsed.max(self.ack_elapsed);
        if timed && interval < self.min_rtt {
            self.prior_time = Time::ZERO;
        } else if timed {
            let faster = Rate::from_bytes_over(delivered, interval) >= self.rate();
            if !self.app_limited || faster {
                self.counted = (delivered, interval);
            }
        }
        SocketSample {
            bps: self.rate().bps(),
            prior_delivered: self.prior_delivered,
            delivered: timed.then_some(delivered),
            app_limited: self.app_limited,
            in_flight,
            lost,
        }
    }

    fn rate(&self) -> Rate {
        Rate::from_bytes_over(self.counted.0, self.counted.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(40);

    /// Sends `n` segments of 1000 bytes at `ms` and delivers them at `ms + after`, one acknowledgement each.
    fn round(sampler: &mut Sampler, ms: u64, after: u64, n: usize) -> Vec<SocketSample> {
        let sent = Stamp { sent: Time::from_millis(ms), ..Stamp::default() };
        let mut stamps = vec![sent; n];
        stamps.iter_mut().enumerate().for_each(|(i, stamp)| sampler.on_sent(stamp, i == 0));
        let now = Time::from_millis(ms + after);
        let deliver = |stamp: &Stamp| {
            sampler.on_delivered(stamp, 1000, now);
            sampler.generate(RTT, 0, 0)
        };
        stamps.iter().map(deliver).collect()
    }

    /// One segment each 40 ms is 200 kbit/s, but the interval is that of two; the first ones are measured from time zero.
    #[test]
    fn a_lone_segments_rate_counts_half() {
        let mut sampler = Sampler::new(Some(RTT));
        let rates: Vec<u64> = (1..=5).map(|n| round(&mut sampler, 1000 + 40 * n, 40, 1)[0].bps).collect();
        assert_eq!(rates, [1000 * 8000 / 1080, 100_000, 100_000, 100_000, 100_000]);
    }

    /// Three segments sent together: what the second and the third add comes over the first one's interval.
    #[test]
    fn a_sample_outlives_its_acknowledgement() {
        let mut sampler = Sampler::new(Some(RTT));
        round(&mut sampler, 1000, 40, 1);
        let samples = round(&mut sampler, 1040, 40, 3);
        let seen: Vec<_> = samples.iter().map(|s| (s.bps, s.prior_delivered, s.delivered)).collect();
        assert_eq!(seen, [(100_000, 1000, Some(1000)), (200_000, 1000, Some(2000)), (300_000, 1000, Some(3000))]);
    }

    /// Shorter than the smallest RTT: the rate stands, the next acknowledgement has no time, and the next sample is measured from time zero.
    #[test]
    fn too_short_a_sample_spoils_the_next() {
        let mut sampler = Sampler::new(Some(RTT));
        round(&mut sampler, 1000, 40, 1);
        assert_eq!(round(&mut sampler, 1040, 15, 1)[0].bps, 8_000_000 / 55);
        let samples = round(&mut sampler, 1055, 15, 2);
        assert_eq!((samples[0].bps, samples[0].delivered), (8_000_000 / 55, Some(1000)));
        assert_eq!((samples[1].bps, samples[1].delivered), (8_000_000 / 55, None));
        assert_eq!(round(&mut sampler, 1070, 15, 1)[0].bps, 8_000_000 / 1085);
    }
}
