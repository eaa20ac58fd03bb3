//! Whether the line sends what waits in bunches, as Wi-Fi's aggregates do, and how high the delay's teeth then are. Knows no window and no rate.
//!
//! Behind a queue that others fill and drain the delay moves slowly: by a packet's time a round trip beside CUBIC, by a quarter of the time
//! beside BBR. On a line that waits for its channel and then sends all at once it jumps by the wait, and falls by nearly as much as passes between
//! the packets of a bunch. So the part of the time by which delays have fallen tells the two apart, whatever the rate, the RTT and the share.

/// Falls below this, besides two packets' times, are hosts' jitter.
const FALL_LEAST: u64 = 1_000;
/// Teeth are taken to be at most this high.
const TOOTH_MOST: u64 = 100_000;
/// The part of the time is measured over this, and two round trips.
const WINDOW: u64 = 100_000;
/// The part, of 256, from which on a line sends in bunches: a quarter is the most that BBR drains in one of its cycles (1.25, 0.75), CUBIC less.
const PART: u64 = 64;

/// Teeth are at least this frequent: a station's turns of some 4 ms come round at least that often, while others' bursts come once in their RTT.
const TURN_MOST: u64 = 50_000;

/// See the module. Times in µs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bunches {
    /// The turning points of the delay: the most since it last rose, the least since it last fell.
    high: u64,
    low: u64,
    falling: bool,
    /// By how much delays have fallen since `since`.
    fallen: u64,
    /// Teeth since then.
    teeth: u64,
    since: u64,
    /// The window is the first since the flow began or came back.
    first: bool,
    last: u64,
    /// The part of the time by which they fell, in 1/256, smoothed over two windows.
    part: u64,
    /// The highest tooth since it was last asked for.
    tooth: u64,
}

impl Bunches {
    /// A sample of the delay of a flow that sends steadily.
    pub fn take(&mut self, now: u64, rtt: u64, srtt: u64, serialisation: u64) {
        let window = WINDOW.max(2 * srtt);
        if now.saturating_sub(self.last) > window {
            *self = Bunches { high: rtt, low: rtt, since: now, first: true, part: self.part, ..Bunches::default() };
        }
        self.last = now;
        let least = FALL_LEAST + 2 * serialisation;
        if self.falling {
            if rtt < self.low {
                self.fallen += self.low - rtt;
                self.low = rtt;
            } else if rtt > self.low + least {
                self.tooth = self.tooth.max(self.high - self.low).min(TOOTH_MOST);
                (self.falling, self.high, self.teeth) = (false, rtt, self.teeth + 1);
            }
        } else if rtt > self.high {
            self.high = rtt;
        } else if rtt + least < self.high {
            self.fallen += self.high - rtt;
            (self.falling, self.low) = (true, rtt);
        }
        if now - self.since > window {
            let part = if self.often(now) { (self.fallen << 8) / (now - self.since) } else { 0 };
            self.part = if self.part == 0 { part } else { (self.part + part) / 2 };
            (self.fallen, self.teeth, self.since, self.first) = (0, 0, now, false);
        }
    }

    /// Forgets what was before: a train comes back.
    pub fn begin(&mut self, now: u64) {
        *self = Bunches { since: now, last: now, first: true, ..Bunches::default() };
    }

    /// Whether the line sends in bunches, by what has been seen since `begin` even if its window is not over.
    pub fn conclude(&mut self, now: u64) -> bool {
        if self.first {
            self.part = if self.often(now) { (self.fallen << 8) / (now - self.since).max(1) } else { 0 };
        }
        self.many()
    }

    fn often(&self, now: u64) -> bool {
        (self.teeth + u64::from(self.falling)) * TURN_MOST >= now - self.since
    }

    /// Whether the line sends in bunches.
    pub fn many(&self) -> bool {
        self.part >= PART
    }

    /// Whether it may turn out so when the first window is over: what looks like somebody's queue need not be one.
    pub fn undecided(&self, now: u64) -> bool {
        self.first && !self.many() && self.teeth > 1 && self.often(now)
    }

    /// The highest tooth since the last call.
    pub fn take_tooth(&mut self) -> u64 {
        std::mem::take(&mut self.tooth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a second of samples, one a millisecond, tells of a delay that is `delay(ms)` in µs.
    fn second(delay: impl Fn(u64) -> u64) -> Bunches {
        let mut bunches = Bunches::default();
        (0..1_000).for_each(|ms| bunches.take(1_000_000 + ms * 1_000, 20_000 + delay(ms), 20_000, 600));
        bunches
    }

    #[test]
    fn aggregates_of_twelve_milliseconds_are_bunches_and_as_high_as_they_last() {
        let mut wifi = second(|ms| (12 - ms % 12) * 1_000);
        assert!(wifi.many() && (10_000..=12_000).contains(&wifi.take_tooth()));
    }

    #[test]
    fn queues_that_others_fill_and_drain_are_none() {
        assert!(!second(|ms| ms * 30).many(), "CUBIC's");
        assert!(!second(|ms| if ms % 160 < 20 { ms % 160 * 250 } else { 5_000 - (ms % 160).min(40) * 125 + 2_500 }).many(), "BBR's");
        assert!(!second(|ms| (30 - (ms % 150).min(30)) * 1_000).many(), "bursts that come once in 150 ms");
    }

    #[test]
    fn hosts_jitter_is_none() {
        assert!(!second(|ms| ms * 7919 % 300).many());
    }
}
