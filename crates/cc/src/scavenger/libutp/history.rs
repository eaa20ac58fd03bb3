//! libutp's memory of delays (`DelayHist`) and its estimate of how the two clocks drift apart. Knows nothing of windows; delays
//! are µs with an arbitrary zero, unwrapped by the host.

use lowtide_units::{Span, Time};

/// DELAY_BASE_HISTORY: minutes of base delay.
const SLOTS: usize = 13;
/// CUR_DELAY_SIZE: the current delay is the minimum of so many samples.
const CURRENT: usize = 3;
const SLOT: Span = Span::from_secs(60);
/// Drift is taken from averages over this long.
const DRIFT_WINDOW: Span = Span::from_secs(5);

/// Base and current delay. uTP keeps one of its own for the delays of the other direction.
#[derive(Clone, Debug, Default)]
pub struct DelayHistory {
    /// None before the first sample, which fills all slots.
    slots: Option<[i64; SLOTS]>,
    /// The least of the slots: asked for several times a packet, changed by a fall, with a new slot and by a lift.
    least: i64,
    slot: usize,
    slot_start: Time,
    /// Delays above the base of their time; zero where nothing was measured yet, as in the source.
    current: [i64; CURRENT],
    next: usize,
}

impl DelayHistory {
    /// The base delay in µs, none before the first sample.
    pub fn base(&self) -> Option<i64> {
        self.slots.map(|_| self.least)
    }

    /// A sample in µs.
    pub fn add(&mut self, now: Time, delay_us: i64) {
        match &mut self.slots {
            None => {
                self.slots = Some([delay_us; SLOTS]);
                (self.least, self.slot_start) = (delay_us, now);
            }
            Some(slots) => {
                slots[self.slot] = slots[self.slot].min(delay_us);
                self.least = self.least.min(delay_us);
            }
        }
        self.current[self.next] = delay_us - self.least;
        self.next = (self.next + 1) % CURRENT;
        if now.since(self.slot_start) > SLOT
            && let Some(slots) = &mut self.slots
        {
            self.slot_start = now;
            self.slot = (self.slot + 1) % SLOTS;
            slots[self.slot] = delay_us;
            self.least = slots.iter().copied().min().unwrap_or(delay_us);
        }
    }

    /// The queueing delay: the least of the last samples.
    pub(super) fn value(&self) -> i64 {
        self.current.into_iter().min().unwrap_or(0)
    }

    /// A queueing delay above the RTT means a base that is too low: lift it by the difference.
    pub(super) fn bound_by(&mut self, rtt_us: i64) {
        let excess = self.value() - rtt_us;
        if excess > 0
            && let Some(slots) = &mut self.slots
        {
            slots.iter_mut().for_each(|slot| *slot += excess);
            self.least += excess;
        }
    }
}

/// How the averages of successive five seconds differ, smoothed.
#[derive(Clone, Debug)]
pub(super) struct Drift {
    until: Time,
    origin: Option<i64>,
    sum: i64,
    count: i64,
    average: i64,
    drift: i64,
}

impl Drift {
    pub(super) fn new(now: Time) -> Drift {
        Drift { until: now + DRIFT_WINDOW, origin: None, sum: 0, count: 0, average: 0, drift: 0 }
    }

    pub(super) fn add(&mut self, now: Time, delay_us: i64) {
        let origin = *self.origin.get_or_insert(delay_us);
        self.sum += delay_us - origin;
        self.count += 1;
        if now <= self.until {
            return;
        }
        let average = self.sum / self.count;
        self.drift = (7 * self.drift + average - self.average) / 8;
        (self.average, self.sum, self.count) = (average, 0, 0);
        self.until += DRIFT_WINDOW;
    }

    /// µs per five seconds; negative while the peer's clock seems to slow the queue down.
    pub(super) fn per_five_seconds(&self) -> i64 {
        self.drift
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The base delay is kept, not looked for: it must be what a search finds, whatever falls, lifts and new slots came before.
        #[test]
        fn the_base_kept_is_the_least_of_the_slots(steps in prop::collection::vec((0u64..90_000, -500i64..500, -50i64..600), 1..200)) {
            let (mut history, mut now) = (DelayHistory::default(), Time::ZERO);
            for (gap_ms, delay_us, rtt_us) in steps {
                now += Span::from_millis(gap_ms);
                history.add(now, delay_us);
                prop_assert_eq!(history.base(), history.slots.and_then(|slots| slots.into_iter().min()));
                history.bound_by(rtt_us);
                prop_assert_eq!(history.base(), history.slots.and_then(|slots| slots.into_iter().min()));
            }
        }
    }
}
