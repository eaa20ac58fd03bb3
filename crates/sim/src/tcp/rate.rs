//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation, Linux `tcp_rate.c`): the connection's delivery clock, copied
//! into each segment when it is sent. Knows nothing of sequence numbers.

use lowtide_cc::RateSample;
use lowtide_units::{Span, Time};

/// What a segment remembers of the connection at its transmission.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamp {
    /// When it left.
    pub sent: Time,
    /// When the newest segment delivered by then had been sent.
    pub first_sent: Time,
    /// When the delivery clock last advanced.
    pub delivered_time: Time,
    /// The delivery clock.
    pub delivered: u64,
    /// Bytes declared lost by then.
    pub lost: u64,
    /// Bytes in flight, this segment included: fewer than 2^32, as what a window field can say.
    pub tx_in_flight: u32,
    /// Payload bytes of the segment, for the scoreboard to write.
    pub len: u16,
    /// The application had nothing more to send.
    pub app_limited: bool,
}

/// The delivery clock of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeliveryClock {
    delivered: u64,
    delivered_time: Time,
    first_sent: Time,
    lost: u64,
    /// The clock has to pass this mark before samples count as network-limited again; zero: not app-limited.
    app_limited: u64,
}

impl DeliveryClock {
    /// Bytes delivered so far.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Bytes declared lost so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Stamps a segment of `len` bytes leaving with `in_flight` bytes before it.
    pub fn stamp(&mut self, now: Time, in_flight: u64, len: u64) -> Stamp {
        if in_flight == 0 {
            self.first_sent = now;
            self.delivered_time = now;
        }
        Stamp {
            sent: now,
            first_sent: self.first_sent,
            delivered_time: self.delivered_time,
            delivered: self.delivered,
            lost: self.lost,
            tx_in_flight: u32::try_from(in_flight + len).unwrap_or(u32::MAX),
            len: 0,
            app_limited: self.app_limited > 0,
        }
    }

    /// `bytes` were declared lost.
    pub fn on_lost(&mut self, bytes: u64) {
        self.lost += bytes;
    }

    /// `bytes` were delivered now.
    pub fn on_delivered(&mut self, now: Time, bytes: u64) {
        self.delivered += bytes;
        self.delivered_time = now;
        if self.app_limited > 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
    }

    /// The application has nothing to send and the window has room.
    pub fn set_app_limited(&mut self, in_flight: u64) {
        self.app_limited = (self.delivered + in_flight).max(1);
    }

    /// The sample that the newest delivered segment gives, after [`on_delivered`](Self::on_delivered). None if its
    /// interval is shorter than `min_rtt`: then it measures a burst, not the path.
    pub fn sample(&mut self, now: Time, newest: &Stamp, min_rtt: Span, ack_delayed: bool) -> Option<RateSample> {
        let send_elapsed = newest.sent.since(newest.first_sent);
        let ack_elapsed = now.since(newest.delivered_time);
        self.first_sent = newest.sent;
        let interval = send_elapsed.max(ack_elapsed);
        if interval < min_rtt || interval == Span::ZERO {
            return None;
        }
        Some(RateSample {
            delivered: self.delivered - newest.delivered,
            interval,
            app_limited: newest.app_limited,
            tx_in_flight: u64::from(newest.tx_in_flight),
            lost: self.lost - newest.lost,
            ack_delayed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_units::Rate;

    /// Ten 1500-byte segments a 12 ms RTT, ACK-clocked; `ack_at(n)` is when segment n's ACK arrives.
    fn best_rate(ack_at: impl Fn(u64) -> u64) -> Rate {
        let mut clock = DeliveryClock::default();
        let mut stamps: Vec<Stamp> = (0..10).map(|n| clock.stamp(Time::from_nanos(n * 1_200_000), n * 1500, 1500)).collect();
        let mut best = Rate::from_bps(0);
        for n in 0..200 {
            let now = Time::from_nanos(ack_at(n));
            clock.on_delivered(now, 1500);
            if let Some(sample) = clock.sample(now, &stamps[n as usize], Span::from_millis(12), false) {
                best = best.max(sample.rate());
            }
            stamps.push(clock.stamp(now, 9 * 1500, 1500));
        }
        best
    }

    #[test]
    fn an_ack_clocked_window_gives_the_link_rate() {
        assert_eq!(best_rate(|n| 12_000_000 + n * 1_200_000), Rate::from_mbps_f64(10.0));
    }

    #[test]
    fn two_compressed_acks_do_not_raise_it() {
        // Every second ACK waits for the next one.
        let best = best_rate(|n| 12_000_000 + (n / 2 * 2 + 1) * 1_200_000);
        assert!(best <= Rate::from_mbps_f64(11.0), "{best}");
    }
}
