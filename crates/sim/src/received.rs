//! What has arrived of a flow's data: the next segment expected, the runs held above it, the bytes in order. Every stack's receiver keeps it;
//! when to acknowledge and what to report is theirs. Numbers count segments.

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It was the next one.
    InOrder,
    /// It is held above a hole.
    OutOfOrder,
    /// It had arrived before.
    Duplicate,
}

/// One flow's.
#[derive(Clone, Debug, Default)]
pub struct Received {
    next: u32,
    /// Held out of order: runs `[from, to)`, ascending, disjoint and not touching.
    runs: Vec<(u32, u32)>,
    /// The segment shorter than the others that is held: a transfer's last one, and its bytes.
    short: Option<(u32, u32)>,
    delivered: u64,
}

impl Received {
    /// The next segment expected.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Payload bytes in order so far.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Something is missing below what has arrived.
    pub fn has_hole(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Segments from the next one expected to the end of what is held above it.
    pub fn extent(&self) -> u32 {
        self.runs.last().map_or(0, |run| run.1 - self.next)
    }

    /// Segment `seq` of `bytes` arrives; full ones have `mss`.
    pub fn store(&mut self, seq: u32, bytes: u32, mss: u32) -> Stored {
        if seq == self.next {
            self.next += 1;
            self.delivered += u64::from(bytes);
            if let Some(&(from, to)) = self.runs.first().filter(|run| run.0 == self.next) {
                self.delivered += u64::from(to - from) * u64::from(mss);
                if let Some((_, bytes)) = self.short.take_if(|short| short.0 < to) {
                    self.delivered -= u64::from(mss - bytes);
                }
                self.next = to;
                self.runs.remove(0);
            }
            return Stored::InOrder;
        }
        let at = self.runs.partition_point(|run| run.1 < seq);
        let held = self.runs.get(at).is_some_and(|run| run.0 <= seq && seq < run.1);
        if seq < self.next || held {
            return Stored::Duplicate;
        }
        if bytes < mss {
            self.short = Some((seq, bytes));
        }
        self.insert(at, seq);
        Stored::OutOfOrder
    }

    fn insert(&mut self, at: usize, seq: u32) {
        match self.runs.get_mut(at) {
            Some(run) if run.1 == seq => {
                run.1 += 1;
                let end = run.1;
                if let Some(&(_, to)) = self.runs.get(at + 1).filter(|next| next.0 == end) {
                    self.runs[at].1 = to;
                    self.runs.remove(at + 1);
                }
            }
            Some(run) if run.0 == seq + 1 => run.0 = seq,
            _ => self.runs.insert(at, (seq, seq + 1)),
        }
    }

    /// The run held that `seq` is part of.
    pub fn run_of(&self, seq: u32) -> Option<(u32, u32)> {
        let at = self.runs.partition_point(|run| run.1 <= seq);
        self.runs.get(at).copied().filter(|run| run.0 <= seq)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// In whatever order segments come, and some of them twice: what is in order, held and missing is that of a list of all that came.
        #[test]
        fn it_is_what_a_list_of_all_that_came_says(last in 1u32..40, short in 1u32..100, order in prop::collection::vec(0u32..40, 1..200)) {
            let (mut received, mut came) = (Received::default(), vec![false; 42]);
            let bytes = |seq: u32| if seq == last { short } else { 100 };
            for seq in order.into_iter().filter(|seq| *seq <= last) {
                let next = came.iter().position(|has| !has).unwrap_or(0) as u32;
                let expected = match seq {
                    _ if came[seq as usize] => Stored::Duplicate,
                    _ if seq == next => Stored::InOrder,
                    _ => Stored::OutOfOrder,
                };
                prop_assert_eq!(received.store(seq, bytes(seq), 100), expected);
                came[seq as usize] = true;
                let next = came.iter().position(|has| !has).unwrap_or(0) as u32;
                prop_assert_eq!(received.next(), next);
                prop_assert_eq!(received.delivered(), (0..next).map(|seq| u64::from(bytes(seq))).sum::<u64>());
                prop_assert_eq!(received.has_hole(), came[next as usize..].contains(&true));
                let end = came.iter().rposition(|has| *has).map_or(0, |seq| seq as u32 + 1);
                prop_assert_eq!(received.extent(), end.saturating_sub(next));
                for seq in next..=last {
                    let run = received.run_of(seq);
                    prop_assert_eq!(run.is_some(), came[seq as usize]);
                    if let Some((from, to)) = run {
                        prop_assert!((from..to).contains(&seq) && (from..to).all(|seq| came[seq as usize]));
                        prop_assert!(!came[from as usize - 1] && !came[to as usize]);
                    }
                }
            }
        }
    }
}
