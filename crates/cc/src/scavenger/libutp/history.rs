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
    base: Option<[i64; SLOTS]>,
    slot: usize,
    slot_start: Time,
    /// Delays above the base of their time; zero where nothing was measured yet, as in the source.
    current: [i64; CURRENT],
    next: usize,
}

impl DelayHistory {
    /// The base delay in µs, none before the first sample.
    pub fn base(&self) -> Option<i64> {
        self.base.and_then(|slots| slots.into_iter().min())
    }

    /// A sample in µs.
    pub fn add(&mut self, now: Time, delay_us: i64) {
        match &mut self.base {
            None => {
                self.base = Some([delay_us; SLOTS]);
                self.slot_start = now;
            }
            Some(slots) => slots[self.slot] = slots[self.slot].min(delay_us),
        }
        let base = self.base().unwrap_or(delay_us);
        self.current[self.next] = delay_us - base;
        self.next = (self.next + 1) % CURRENT;
        if now.since(self.slot_start) > SLOT
            && let Some(slots) = &mut self.base
        {
            self.slot_start = now;
            self.slot = (self.slot + 1) % SLOTS;
            slots[self.slot] = delay_us;
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
            && let Some(slots) = &mut self.base
        {
            slots.iter_mut().for_each(|slot| *slot += excess);
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
