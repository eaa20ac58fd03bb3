//! One-way delays of both directions (libutp `DelayHist`, `utp_process_incoming`): what is echoed to the peer, and what the congestion control is told of. The
//! clocks of the two ends have nothing in common; timestamps wrap. Knows no windows.

use lowtide_cc::scavenger::libutp::DelayHistory;
use lowtide_units::Time;

/// libutp takes this difference for none.
const NONE: u32 = 0x7fff_ffff;
/// The most that the other direction may move our base: 10 ms.
const MOST_SKEW_US: i64 = 10_000;

/// Further than 35 years only a peer that makes its numbers up gets: nanoseconds still have bits for it, and for the difference of two.
const FURTHEST_US: i64 = 1 << 50;

/// The delays of one connection.
#[derive(Debug, Default)]
pub(crate) struct Delays {
    ours: Unwrapped,
    theirs: Unwrapped,
    history: DelayHistory,
    /// The delay of the last packet received, to be echoed.
    echo: u32,
    /// How far the clocks have drifted apart, as far as the other direction shows it.
    skew_us: i64,
}

/// A counter of 32 bits, continued beyond its wrap.
#[derive(Debug, Default)]
struct Unwrapped(Option<i64>);

impl Unwrapped {
    fn next(&mut self, value: u32) -> i64 {
        let last = self.0.unwrap_or_else(|| i64::from(value));
        let next = (last + i64::from(value.wrapping_sub(last as u32) as i32)).clamp(-FURTHEST_US, FURTHEST_US);
        self.0 = Some(next);
        next
    }
}

/// The timestamp of a packet that leaves now; zero would mean that there is none.
pub(crate) fn stamp(now: Time) -> u32 {
    micros(now).max(1)
}

fn micros(at: Time) -> u32 {
    (at.nanos() / 1000) as u32
}

impl Delays {
    /// What our next packets say of the peer's last one.
    pub(crate) fn echo(&self) -> u32 {
        self.echo
    }

    /// A packet arrived with this timestamp and difference; our own packets' one-way delay in ns, if it says so.
    pub(crate) fn on_packet(&mut self, now: Time, timestamp: u32, difference: u32) -> Option<i64> {
        self.echo = if timestamp == 0 { 0 } else { micros(now).wrapping_sub(timestamp) };
        if self.echo != 0 {
            self.follow_theirs(now);
        }
        let known = difference != 0 && difference != NONE;
        known.then(|| (self.ours.next(difference) - self.skew_us) * 1000)
    }

    /// Their base delay can only fall because the clocks drift (or the path got shorter): ours then rises as much, which is
    /// the same as our samples falling.
    fn follow_theirs(&mut self, now: Time) {
        let before = self.history.base();
        self.history.add(now, self.theirs.next(self.echo));
        let fallen = before.zip(self.history.base()).map_or(0, |(before, after)| before - after);
        if (1..=MOST_SKEW_US).contains(&fallen) {
            self.skew_us += fallen;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_continue_beyond_the_wrap() {
        let mut delays = Delays::default();
        let at = |us: u64| Time::from_nanos(us * 1000);
        assert_eq!(delays.on_packet(at(5), 1, 0), None, "no sample yet");
        assert_eq!(delays.echo(), 4);
        assert_eq!(delays.on_packet(at(6), 2, u32::MAX - 9), Some(i64::from(u32::MAX - 9) * 1000));
        assert_eq!(delays.on_packet(at(7), 3, 20), Some((i64::from(u32::MAX) + 21) * 1000));
        assert_eq!(delays.on_packet(at(8), 4, NONE), None);
    }

    /// A peer that turns the counter by almost half a circle with each packet, either way: so far that nanoseconds have no more bits for it.
    #[test]
    fn delays_that_a_peer_made_up_overflow_nothing() {
        for step in [0x7fff_fffeu32, 0x8000_0002] {
            let mut delays = Delays::default();
            let mut difference = 0u32;
            for _ in 0..4_400_000 {
                difference = difference.wrapping_add(step);
                delays.on_packet(Time::from_millis(1), 0, difference);
            }
            let owd = delays.on_packet(Time::from_millis(1), 0, 5).expect("a sample");
            // The difference of any two has a number too.
            assert!(owd.unsigned_abs() <= 1 << 60, "{owd}");
        }
    }

    /// Our clock runs ahead of theirs: their packets seem ever faster, ours ever slower; what is told stays level.
    #[test]
    fn drift_seen_in_the_other_direction_is_taken_out() {
        let mut delays = Delays::default();
        let told: Vec<i64> = (0..50u64)
            .filter_map(|n| {
                let now = Time::from_millis(n * 100);
                let timestamp = micros(now).wrapping_sub(500_000).wrapping_add(n as u32 * 200);
                delays.on_packet(now, timestamp, 900_000 + n as u32 * 200)
            })
            .collect();
        assert!(told.iter().all(|&owd| owd == 900_000_000), "{told:?}");
    }
}
