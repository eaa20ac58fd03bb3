//! How far apart packets leave the line, and whether it has become slower: then all of them are further apart, and a little each round. What
//! others send comes between some of ours and not between the rest, or (behind a fair queue) adds a packet's time to each. Knows no window.

/// A round of fewer times says nothing.
const COUNT_LEAST: u64 = 5;

/// See the module. Times of a segment in µs.
#[derive(Clone, Copy, Debug)]
pub struct Spacing {
    /// The two smallest of the running round: the smallest may be an accident of acknowledgements that were sent together.
    least: [u64; 2],
    count: u64,
    /// The second smallest of the rounds before, the newest first; huge where there were too few.
    before: [u64; 3],
}

impl Default for Spacing {
    fn default() -> Spacing {
        Spacing { least: [u64::MAX; 2], count: 0, before: [u64::MAX; 3] }
    }
}

impl Spacing {
    /// A segment took `time`, between acknowledgements.
    pub fn take(&mut self, time: u64) {
        self.count += 1;
        if time < self.least[0] {
            self.least = [time, self.least[0]];
        } else {
            self.least[1] = self.least[1].min(time);
        }
    }

    /// A new round begins.
    pub fn end_round(&mut self) {
        let ended = if self.count < COUNT_LEAST { u64::MAX } else { self.least[1] };
        *self = Spacing { before: [ended, self.before[0], self.before[1]], ..Spacing::default() };
    }

    /// Whether segments were further apart in the running round than in the two before.
    pub fn grows_now(&self) -> bool {
        self.count >= COUNT_LEAST && has_grown(self.least[1], self.before[0].min(self.before[1]))
    }

    /// The same of the round that ended last.
    pub fn has_grown(&self) -> bool {
        has_grown(self.before[0], self.before[1].min(self.before[2]))
    }
}

/// By at least 5 and at most 30 %: the next flow of a fair queue adds a packet's time to one, two or three, a third or more.
fn has_grown(least: u64, before: u64) -> bool {
    least < u64::MAX && before < u64::MAX && least * 20 >= before * 21 && least * 10 <= before * 13
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three rounds of ten segments, each with these times in turn.
    fn rounds(times: [&[u64]; 3]) -> Spacing {
        let mut spacing = Spacing::default();
        for times in times {
            (0..10).for_each(|n| spacing.take(times[n % times.len()]));
            spacing.end_round();
        }
        spacing
    }

    #[test]
    fn a_line_that_slows_down_puts_all_segments_further_apart() {
        assert!(rounds([&[600], &[600], &[700]]).has_grown());
        assert!(rounds([&[600], &[650], &[700]]).has_grown());
        assert!(!rounds([&[600], &[600], &[600]]).has_grown());
    }

    #[test]
    fn somebodys_packets_come_between_some_of_them_or_add_a_packets_time() {
        assert!(!rounds([&[600], &[600], &[600, 1_200, 1_800]]).has_grown(), "a FIFO");
        assert!(!rounds([&[600], &[600], &[1_200]]).has_grown(), "a fair queue");
        assert!(!rounds([&[1_800], &[1_800], &[2_400]]).has_grown(), "the same with a third flow");
    }

    #[test]
    fn few_segments_say_nothing() {
        let mut spacing = rounds([&[600], &[600], &[600]]);
        (0..4).for_each(|_| spacing.take(700));
        assert!(!spacing.grows_now());
        spacing.take(700);
        assert!(spacing.grows_now());
    }
}
