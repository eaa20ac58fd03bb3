//! A receiver's data and the order in which its runs are reported: the newest first.

use crate::received::{Received, Stored};

/// The receiver's data.
#[derive(Debug, Default)]
pub struct Reassembly {
    /// What has arrived.
    pub received: Received,
    /// Segments whose runs were reported most recently, newest first.
    recent: [u32; 3],
}

impl Reassembly {
    /// Segment `seq` of `bytes` arrives; full ones have `mss`.
    pub fn store(&mut self, seq: u32, bytes: u32, mss: u32) -> Stored {
        let stored = self.received.store(seq, bytes, mss);
        if stored == Stored::OutOfOrder {
            let place = self.recent.iter().position(|&r| self.same_run(r, seq)).unwrap_or(2);
            self.recent.copy_within(0..place, 1);
            self.recent[0] = seq;
        }
        stored
    }

    fn same_run(&self, a: u32, b: u32) -> bool {
        self.received.run_of(a).is_some_and(|run| run.0 <= b && b < run.1)
    }

    /// Fills the SACK blocks: the duplicate first (RFC 2883), then the runs reported most recently (RFC 2018 §4). How many.
    pub fn blocks(&self, duplicate: Option<u32>, blocks: &mut [(u32, u32); 3]) -> u32 {
        let mut n = 0;
        if let Some(seq) = duplicate {
            blocks[0] = (seq, seq + 1);
            n = 1;
        }
        if !self.received.has_hole() {
            return n as u32;
        }
        let first = n;
        for run in self.recent.iter().filter_map(|&seq| self.received.run_of(seq)) {
            if n < blocks.len() && !blocks[first..n].contains(&run) {
                blocks[n] = run;
                n += 1;
            }
        }
        n as u32
    }
}
