//! `TcpRxBuffer` (`tcp-rx-buffer.cc`): what has arrived, and the list of SACK blocks. The application reads at once. Knows segments, no
//! window.

/// `TcpOptionSack` blocks that the list keeps, and that fit into a header beside timestamps.
const LISTED: usize = 4;
const SENT: usize = 3;

/// The buffer of one socket.
#[derive(Clone, Debug, Default)]
pub struct RxBuffer {
    /// `m_nextRxSeq`.
    next: u32,
    /// `m_data` above it: runs `[from, to)` in ascending order, disjoint and not touching.
    runs: Vec<(u32, u32)>,
    /// `m_sackList`, newest first.
    sack_list: Vec<(u32, u32)>,
}

impl RxBuffer {
    /// `NextRxSequence`.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Whether something is missing below what has arrived (`Size` exceeds `Available`).
    pub fn has_gap(&self) -> bool {
        !self.runs.is_empty()
    }

    /// `Add`: whether segment `seq` was news.
    pub fn add(&mut self, seq: u32) -> bool {
        let at = self.runs.partition_point(|run| run.1 < seq);
        let held = self.runs.get(at).is_some_and(|run| run.0 <= seq && seq < run.1);
        if seq < self.next || held {
            return false;
        }
        if seq > self.next {
            self.insert(at, seq);
            self.update_sack_list(seq);
            return true;
        }
        self.next = match self.runs.first() {
            Some(&(from, to)) if from == seq + 1 => {
                self.runs.remove(0);
                to
            }
            _ => seq + 1,
        };
        // `ClearSackList`.
        self.sack_list.retain(|block| block.1 > self.next);
        true
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

    /// `UpdateSackList`: the new block joins those of the list that it touches; a block that was forgotten does not come back.
    fn update_sack_list(&mut self, seq: u32) {
        let mut begin = (seq, seq + 1);
        let mut at = 0;
        while at < self.sack_list.len() {
            let current = self.sack_list[at];
            let merged = match current {
                (from, to) if begin.0 == to => (from, begin.1),
                (from, to) if begin.1 == from => (begin.0, to),
                _ => {
                    at += 1;
                    continue;
                }
            };
            begin = merged;
            self.sack_list.remove(at);
            at = 0;
        }
        self.sack_list.insert(0, begin);
        self.sack_list.truncate(LISTED);
    }

    /// `GetSackList`, as far as `AddOptionSack` has room for it; how many blocks that are.
    pub fn sack_list(&self, blocks: &mut [(u32, u32); SENT]) -> u32 {
        let listed = self.sack_list.iter().take(SENT);
        let mut n = 0;
        for (block, listed) in blocks.iter_mut().zip(listed) {
            (*block, n) = (*listed, n + 1);
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blocks(rx: &RxBuffer) -> Vec<(u32, u32)> {
        let mut blocks = [(0, 0); SENT];
        let n = rx.sack_list(&mut blocks);
        blocks[..n as usize].to_vec()
    }

    #[test]
    fn the_newest_block_comes_first_and_duplicates_report_nothing() {
        let mut rx = RxBuffer::default();
        assert!(rx.add(1) && rx.add(5) && rx.add(2));
        assert_eq!(blocks(&rx), [(1, 3), (5, 6)]);
        assert!(!rx.add(5) && rx.add(9));
        assert_eq!(blocks(&rx), [(9, 10), (1, 3), (5, 6)]);
        assert!(rx.add(0));
        assert_eq!((rx.next(), blocks(&rx)), (3, vec![(9, 10), (5, 6)]));
    }

    /// Four blocks are kept. The fifth pushes the oldest out; what then touches it is reported alone.
    #[test]
    fn a_block_that_was_forgotten_does_not_come_back() {
        let mut rx = RxBuffer::default();
        [1, 3, 5, 7, 9].into_iter().for_each(|seq| assert!(rx.add(seq)));
        assert!(rx.add(2));
        assert_eq!(blocks(&rx)[0], (2, 4), "1 is forgotten, 3 is not");
    }

    proptest! {
        /// In whatever order segments come, in the end all are there and none is listed.
        #[test]
        fn all_arrive(order in Just((0u32..40).collect::<Vec<_>>()).prop_shuffle()) {
            let mut rx = RxBuffer::default();
            for seq in order {
                prop_assert!(rx.add(seq));
                prop_assert!(!rx.add(seq));
            }
            prop_assert_eq!((rx.next(), rx.has_gap(), blocks(&rx).len()), (40, false, 0));
        }
    }
}
