//! Base delay (the path without queues) and current delay (with them): two minimum filters over delay samples.
//! Knows nothing of RTT or one-way delay; a sample is a number of nanoseconds whose zero point may be arbitrary.

use std::collections::VecDeque;

use lowtide_units::{Span, Time};

/// Minimum delay over a history of buckets (RFC 6817 §3.4.2: ten one-minute minima). A fall counts at once, a rise only when
/// the old minima have aged out.
#[derive(Clone, Debug)]
pub struct BaseDelay {
    buckets: VecDeque<i64>,
    /// Of all buckets: asked for with every acknowledgement, changed once a minute or by a fall.
    least: i64,
    length: usize,
    bucket: Span,
    bucket_start: Time,
}

/// No sample in a bucket.
const EMPTY: i64 = i64::MAX;

impl BaseDelay {
    /// `length` buckets of `bucket` each, the running one included.
    pub fn new(length: usize, bucket: Span) -> BaseDelay {
        BaseDelay { buckets: VecDeque::with_capacity(length.max(1)), least: EMPTY, length: length.max(1), bucket, bucket_start: Time::ZERO }
    }

    /// Ten one-minute minima.
    pub fn ten_minutes() -> BaseDelay {
        BaseDelay::new(10, Span::from_secs(60))
    }

    /// Takes a sample.
    pub fn update(&mut self, now: Time, delay: i64) {
        if !self.buckets.is_empty() {
            self.roll(now);
        }
        self.least = self.least.min(delay);
        if self.buckets.is_empty() {
            self.bucket_start = now;
            self.buckets.push_back(delay);
            return;
        }
        if let Some(last) = self.buckets.back_mut() {
            *last = delay.min(*last);
        }
    }

    /// The minimum over the history, none before the first sample or once every bucket is empty.
    pub fn min(&self) -> Option<i64> {
        (self.least != EMPTY).then_some(self.least)
    }

    /// Elapsed-time roll-over: deterministic whatever the phase of the start. Idle buckets age the history too.
    fn roll(&mut self, now: Time) {
        let mut passed = 0;
        while now.since(self.bucket_start) >= self.bucket && passed < self.length {
            self.bucket_start += self.bucket;
            self.buckets.push_back(EMPTY);
            if self.buckets.len() > self.length {
                self.buckets.pop_front();
            }
            self.least = self.buckets.iter().copied().min().unwrap_or(EMPTY);
            passed += 1;
        }
        if now.since(self.bucket_start) >= self.bucket {
            self.bucket_start = now;
        }
    }
}

/// Minimum of the last few samples (RFC 6817 §3.4.2, CURRENT_FILTER = MIN), optionally forgetting old ones.
#[derive(Clone, Debug)]
pub struct CurrentDelay {
    samples: VecDeque<(Time, i64)>,
    /// Of all samples.
    least: i64,
    length: usize,
}

impl CurrentDelay {
    /// The minimum of the last `length` samples.
    pub fn new(length: usize) -> CurrentDelay {
        CurrentDelay { samples: VecDeque::with_capacity(length.max(1)), least: EMPTY, length: length.max(1) }
    }

    /// Holds `length` samples from now on, at least one.
    pub fn resize(&mut self, length: usize) {
        self.length = length.max(1);
    }

    /// Takes a sample.
    pub fn push(&mut self, now: Time, delay: i64) {
        while self.samples.len() >= self.length {
            self.drop_oldest();
        }
        self.samples.push_back((now, delay));
        self.least = self.least.min(delay);
    }

    fn drop_oldest(&mut self) {
        let dropped = self.samples.pop_front();
        if dropped.is_some_and(|(_, delay)| delay == self.least) {
            self.least = self.samples.iter().map(|(_, d)| *d).min().unwrap_or(EMPTY);
        }
    }

    /// Drops samples older than `age` (RFC 6817: never older than an RTT).
    pub fn forget(&mut self, now: Time, age: Span) {
        while self.samples.front().is_some_and(|(at, _)| now.since(*at) > age) {
            self.drop_oldest();
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.samples.clear();
        self.least = EMPTY;
    }

    /// The minimum of the samples held, none without any.
    pub fn min(&self) -> Option<i64> {
        (self.least != EMPTY).then_some(self.least)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn base_falls_at_once_and_rises_after_ten_minutes() {
        let mut base = BaseDelay::ten_minutes();
        base.update(Time::from_millis(0), 50);
        base.update(Time::from_millis(1), 40);
        assert_eq!(base.min(), Some(40));
        for minute in 1..10 {
            base.update(Time::from_millis(60_000 * minute), 70);
            assert_eq!(base.min(), Some(40), "minute {minute}");
        }
        base.update(Time::from_millis(600_000), 70);
        assert_eq!(base.min(), Some(70));
    }

    #[test]
    fn an_idle_history_starts_from_scratch() {
        let mut base = BaseDelay::ten_minutes();
        base.update(Time::ZERO, 40);
        base.update(Time::from_millis(3_600_000), 90);
        assert_eq!(base.min(), Some(90));
    }

    #[test]
    fn current_is_the_minimum_of_the_last_four() {
        let mut cur = CurrentDelay::new(4);
        for (i, d) in [61, 66, 68, 106, 107].into_iter().enumerate() {
            cur.push(Time::from_millis(i as u64), d);
        }
        assert_eq!(cur.min(), Some(66));
        cur.forget(Time::from_millis(10), Span::from_millis(6));
        assert_eq!(cur.min(), Some(107));
    }

    proptest! {
        /// The minima are kept, not looked for: they must be what a search finds.
        #[test]
        fn kept_minima_are_the_minima(steps in prop::collection::vec((0u64..200, -50i64..50, 0u8..8), 1..200)) {
            let (mut base, mut current) = (BaseDelay::new(3, Span::from_millis(300)), CurrentDelay::new(4));
            let mut now = Time::ZERO;
            for (gap, delay, what) in steps {
                now += Span::from_millis(gap);
                match what {
                    0 => current.clear(),
                    1 => current.forget(now, Span::from_millis(250)),
                    2 => current.resize(1 + gap as usize % 6),
                    _ => {
                        base.update(now, delay);
                        current.push(now, delay);
                    }
                }
                prop_assert_eq!(base.min(), base.buckets.iter().copied().min().filter(|&d| d != EMPTY));
                prop_assert_eq!(current.min(), current.samples.iter().map(|(_, d)| *d).min());
            }
        }
    }
}
