//! A queue's delay from the rate at which it drains (RFC 8033 §5.2), as FreeBSD has it. Knows no controller.

use lowtide_units::{Span, Time};

/// Bytes that one measurement waits for: 2^14 (RFC 8033 §5.2 DQ_THRESHOLD; FreeBSD PIE_DQ_THRESHOLD).
const THRESHOLD: u64 = 16_384;

/// How long 16 KiB take to leave, averaged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Departures {
    /// The measurement under way: since when, and the bytes that have left.
    running: Option<(Time, u64)>,
    average: Option<Span>,
}

impl Departures {
    /// Forgets everything and starts to measure: FreeBSD does when PIE becomes active, however little waits.
    pub fn restart(&mut self, now: Time) {
        *self = Departures { running: Some((now, 0)), average: None };
    }

    /// `bytes` leave, `left` still wait.
    pub fn departure(&mut self, now: Time, bytes: u32, left: u64) {
        if let Some((since, count)) = &mut self.running {
            *count += u64::from(bytes);
            if *count >= THRESHOLD {
                let time = now.since(*since);
                match self.average {
                    // FreeBSD lets the first measurement run on, so the next packet ends it once more.
                    None => self.average = Some(time),
                    Some(average) => {
                        // Weight 2^14 / 2^16.
                        self.average = Some((average * 3 + time) / 4);
                        self.running = None;
                    }
                }
            }
        }
        if self.running.is_none() && left >= THRESHOLD {
            self.running = Some((now, 0));
        }
    }

    /// The delay of `bytes` that wait, in seconds: zero before the first measurement.
    pub fn delay(&self, bytes: u64) -> f64 {
        self.average.map_or(0.0, |average| average.secs_f64() * bytes as f64 / THRESHOLD as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_is_what_the_backlog_takes_at_the_measured_rate() {
        let mut departures = Departures::default();
        let mut now = Time::ZERO;
        departures.restart(now);
        for _ in 0..200 {
            now += Span::from_millis(12); // 1500 bytes at 1 Mbit/s
            departures.departure(now, 1500, 30_000);
        }
        // 11 packets end a measurement: 132 ms for 16,384 bytes that were 16,500.
        let exact = 0.132 * 30_000.0 / 16_384.0;
        assert!((departures.delay(30_000) / exact - 1.0).abs() < 0.01, "{}", departures.delay(30_000));
        let kept = departures.delay(30_000);
        departures.departure(now + Span::from_secs(9), 1500, 0);
        departures.departure(now + Span::from_secs(19), 1500, 0);
        assert!(departures.delay(30_000) <= kept * 1.01, "no measurement starts below the threshold");
    }
}
