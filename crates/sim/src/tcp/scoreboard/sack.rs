//! What the receiver reports in SACK blocks.

use super::{Scoreboard, Segment};
use crate::sender_stats::Note;

impl Scoreboard {
    /// The receiver holds `from..to`; `visit` sees each segment of which that is news, as it was, and the highest SACKed then.
    pub fn sack(&mut self, from: u32, to: u32, mut visit: impl FnMut(u32, &Segment, u32)) {
        let (from, to) = (from.max(self.una), to.min(self.nxt));
        if from >= to {
            return;
        }
        // Runs that overlap or touch [from, to) become one with it; the gaps between them are the news.
        let first = self.runs.partition_point(|run| run.1 < from);
        let mut highest = self.sacked_to();
        let (mut merged, mut at, mut last) = ((from, to), from, first);
        while let Some(&(run_from, run_to)) = self.runs.get(last).filter(|run| run.0 <= to) {
            self.deliver(at, run_from, &mut highest, &mut visit);
            at = at.max(run_to);
            merged = (merged.0.min(run_from), merged.1.max(run_to));
            last += 1;
        }
        self.deliver(at, to, &mut highest, &mut visit);
        if last - first == 1 {
            self.runs[first] = merged;
        } else {
            self.runs.splice(first..last, [merged]);
        }
    }

    /// Linux `tcp_sacktag_one`. The retransmission of what was not lost is believed to be still on its way.
    fn deliver(&mut self, from: u32, to: u32, highest: &mut u32, visit: &mut impl FnMut(u32, &Segment, u32)) {
        for seq in from..to {
            let slot = self.slot(seq);
            if self.is_listed(seq) {
                self.unlink(seq);
            }
            let before = self.ring[slot];
            visit(seq, &before, *highest);
            self.note(Note::Delivered { order: before.order });
            let segment = &mut self.ring[slot];
            segment.sacked = true;
            if segment.lost {
                (segment.lost, segment.resent) = (false, false);
                self.lost -= 1;
                self.resent -= u32::from(before.resent);
                self.awaiting_repair -= u32::from(before.awaits_repair());
            }
            self.in_flight -= u64::from(segment.len()) * (before.copies() - segment.copies());
            self.sacked += 1;
            *highest = (*highest).max(seq + 1);
        }
    }

    /// A duplicate of `seq` is reported: its repair has arrived, too (`tcp_sacktag_one`).
    pub fn settle_repair(&mut self, seq: u32) {
        let slot = self.slot(seq);
        let segment = &mut self.ring[slot];
        if segment.resent && !segment.lost {
            segment.resent = false;
            self.in_flight -= u64::from(segment.len());
            self.resent -= 1;
        }
    }

    /// Forgets the runs below the left edge.
    pub(super) fn trim_runs(&mut self) {
        let passed = self.runs.iter().take_while(|run| run.1 <= self.una).count();
        self.runs.drain(..passed);
        if let Some(first) = self.runs.first_mut() {
            first.0 = first.0.max(self.una);
        }
    }
}
