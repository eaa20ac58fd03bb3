//! How unevenly the line delivers to a flow that has all of it: a radio's rate changes from millisecond to millisecond, and the queue of one who
//! sends evenly comes and goes by so much. Knows no window and no line rate.

/// A round's range is taken to be at most this.
const RANGE_MOST: u64 = 50_000;
/// The least step of `usual`: below what hosts add.
const STEP_LEAST: u64 = 60;

/// See the module. Times in µs, rates in bytes a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unevenness {
    /// What the running round is compared with; zero: it is not.
    rate: u64,
    /// The least and the most by which deliveries have been behind it, in bytes · µs/s.
    least: i64,
    most: i64,
    /// The lower quartile of the rounds' ranges.
    usual: u64,
    /// No round counts before.
    quiet_until: u64,
}

impl Unevenness {
    /// `bytes` have arrived in the first `elapsed` of the running round; both within the bounds of `arithmetic`.
    pub fn note(&mut self, elapsed: u64, bytes: u64) {
        if self.rate > 0 {
            let behind = (elapsed * self.rate) as i64 - (bytes * 1_000_000) as i64;
            (self.least, self.most) = (self.least.min(behind), self.most.max(behind));
        }
    }

    /// Ends a round, and begins one that is compared with `rate`. By how much deliveries were now behind, now ahead; none if the round was not
    /// compared.
    pub fn end_round(&mut self, rate: u64) -> Option<u64> {
        let ended = std::mem::replace(self, Unevenness { rate, least: 0, most: 0, ..*self });
        (ended.rate > 0).then(|| ((ended.most - ended.least) as u64 / ended.rate).min(RANGE_MOST))
    }

    /// A quarter of the rounds are below `usual` in the long run: each above raises it by a step, each below lowers it by three.
    pub fn learn(&mut self, now: u64, range: u64) {
        if now < self.quiet_until {
            return;
        }
        let step = (self.usual / 16).max(STEP_LEAST);
        self.usual = if range > self.usual { self.usual + step } else { self.usual.saturating_sub(3 * step) };
    }

    /// What was learned may be somebody else's doing.
    pub fn forget(&mut self, quiet_until: u64) {
        (self.usual, self.quiet_until) = (0, quiet_until);
    }

    /// The usual range.
    pub fn usual(&self) -> u64 {
        self.usual
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 MB/s: a byte a microsecond.
    const RATE: u64 = 1_000_000;

    /// Rounds of ten deliveries, which come after `late(n)` µs more than they should.
    fn rounds(count: u64, late: impl Fn(u64) -> u64) -> Unevenness {
        let mut uneven = Unevenness::default();
        for round in 0..count {
            if let Some(range) = uneven.end_round(RATE) {
                uneven.learn(round, range);
            }
            (1..=10).for_each(|n| uneven.note(n * 1_448 + late(round * 10 + n), n * 1_448));
        }
        uneven
    }

    #[test]
    fn a_line_of_one_rate_is_even() {
        assert_eq!(rounds(200, |_| 0).usual(), 0);
    }

    #[test]
    fn a_rate_that_changes_within_rounds_is_learned_and_forgotten() {
        let mut uneven = rounds(400, |n| n * 7_919 % 6_000);
        assert!((3_000..6_000).contains(&uneven.usual()), "{}", uneven.usual());
        uneven.forget(1_000);
        uneven.learn(999, 5_000);
        assert_eq!(uneven.usual(), 0);
        uneven.learn(1_000, 5_000);
        assert_eq!(uneven.usual(), STEP_LEAST);
    }

    /// Somebody's page now and then is in the way of a third of the rounds.
    #[test]
    fn what_comes_now_and_then_is_not_learned() {
        assert!(rounds(400, |n| if n / 10 % 3 == 0 { n % 10 * 1_000 } else { 0 }).usual() < 500);
    }
}
