//! `TcpRxBuffer` (`tcp-rx-buffer.cc`): what has arrived, and the list of SACK blocks. The application reads at once. Knows segments, no
//! window.

use crate::received::{Received, Stored};

/// `TcpOptionSack` blocks that the list keeps, and that fit into a header beside timestamps.
const LISTED: usize = 4;
const SENT: usize = 3;

/// The buffer of one socket.
#[derive(Clone, Debug, Default)]
pub struct RxBuffer {
    /// `m_nextRxSeq`, and `m_data` above it.
    received: Received,
    /// `m_sackList`, newest first.
    sack_list: Vec<(u32, u32)>,
}

impl RxBuffer {
    /// `NextRxSequence`.
    pub fn next(&self) -> u32 {
        self.received.next()
    }

    /// Payload bytes in order.
    pub fn delivered(&self) -> u64 {
        self.received.delivered()
    }

    /// Whether something is missing below what has arrived (`Size` exceeds `Available`).
    pub fn has_gap(&self) -> bool {
        self.received.has_hole()
    }

    /// `Add`: whether segment `seq` of `bytes` was news; full ones have `segment`.
    pub fn add(&mut self, seq: u32, bytes: u32, segment: u32) -> bool {
        match self.received.store(seq, bytes, segment) {
            Stored::Duplicate => return false,
            Stored::OutOfOrder => self.update_sack_list(seq),
            // `ClearSackList`.
            Stored::InOrder => self.sack_list.retain(|block| block.1 > self.received.next()),
        }
        true
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

    fn add(rx: &mut RxBuffer, seq: u32) -> bool {
        rx.add(seq, 1000, 1000)
    }

    fn blocks(rx: &RxBuffer) -> Vec<(u32, u32)> {
        let mut blocks = [(0, 0); SENT];
        let n = rx.sack_list(&mut blocks);
        blocks[..n as usize].to_vec()
    }

    #[test]
    fn the_newest_block_comes_first_and_duplicates_report_nothing() {
        let mut rx = RxBuffer::default();
        assert!(add(&mut rx, 1) && add(&mut rx, 5) && add(&mut rx, 2));
        assert_eq!(blocks(&rx), [(1, 3), (5, 6)]);
        assert!(!add(&mut rx, 5) && add(&mut rx, 9));
        assert_eq!(blocks(&rx), [(9, 10), (1, 3), (5, 6)]);
        assert!(add(&mut rx, 0));
        assert_eq!((rx.next(), blocks(&rx)), (3, vec![(9, 10), (5, 6)]));
    }

    /// Four blocks are kept. The fifth pushes the oldest out; what then touches it is reported alone.
    #[test]
    fn a_block_that_was_forgotten_does_not_come_back() {
        let mut rx = RxBuffer::default();
        [1, 3, 5, 7, 9].into_iter().for_each(|seq| assert!(add(&mut rx, seq)));
        assert!(add(&mut rx, 2));
        assert_eq!(blocks(&rx)[0], (2, 4), "1 is forgotten, 3 is not");
    }

    proptest! {
        /// In whatever order segments come, in the end all are there and none is listed.
        #[test]
        fn all_arrive(order in Just((0u32..40).collect::<Vec<_>>()).prop_shuffle()) {
            let mut rx = RxBuffer::default();
            for seq in order {
                prop_assert!(add(&mut rx, seq));
                prop_assert!(!add(&mut rx, seq));
            }
            prop_assert_eq!((rx.next(), rx.has_gap(), blocks(&rx).len()), (40, false, 0));
        }
    }
}
