//! What has arrived and in which order: the next segment expected, the runs held above it and which of them to report first.

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

/// The receiver's data. Numbers count segments.
#[derive(Debug, Default)]
pub struct Reassembly {
    next: u32,
    /// Held out of order: runs `[from, to)`, ascending, disjoint and not touching.
    runs: Vec<(u32, u32)>,
    /// The segment shorter than the others that is held: a transfer's last one, and its bytes.
    short: Option<(u32, u32)>,
    /// Segments whose runs were reported most recently, newest first.
    recent: [u32; 3],
    delivered: u64,
}

impl Reassembly {
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
        let place = self.recent.iter().position(|&r| self.same_run(r, seq)).unwrap_or(2);
        self.recent.copy_within(0..place, 1);
        self.recent[0] = seq;
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

    fn run_of(&self, seq: u32) -> Option<(u32, u32)> {
        let at = self.runs.partition_point(|run| run.1 <= seq);
        self.runs.get(at).copied().filter(|run| run.0 <= seq)
    }

    fn same_run(&self, a: u32, b: u32) -> bool {
        self.run_of(a).is_some_and(|run| run.0 <= b && b < run.1)
    }

    /// Fills the SACK blocks: the duplicate first (RFC 2883), then the runs reported most recently (RFC 2018 §4). How many.
    pub fn blocks(&self, duplicate: Option<u32>, blocks: &mut [(u32, u32); 3]) -> u32 {
        let mut n = 0;
        if let Some(seq) = duplicate {
            blocks[0] = (seq, seq + 1);
            n = 1;
        }
        if self.runs.is_empty() {
            return n as u32;
        }
        let first = n;
        for run in self.recent.iter().filter_map(|&seq| self.run_of(seq)) {
            if n < blocks.len() && !blocks[first..n].contains(&run) {
                blocks[n] = run;
                n += 1;
            }
        }
        n as u32
    }
}
