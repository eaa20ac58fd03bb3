//! The sender's scoreboard: every outstanding segment in a ring, with Linux's marks (`TCPCB_SACKED_ACKED`, `TCPCB_LOST`,
//! `TCPCB_SACKED_RETRANS`, `TCPCB_EVER_RETRANS`), and the list of those in flight by time of transmission
//! (`tsorted_sent_queue`). Decides nothing: what is lost is the business of RACK, RFC 6675 and the timer.

mod sack;
#[cfg(test)]
mod tests;

use super::rate::Stamp;
use crate::sender_stats::Note;

/// One outstanding segment: a cache line, of which a fast flow has tens of thousands.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub struct Segment {
    /// The connection's state when it last left.
    pub stamp: Stamp,
    /// The how-manieth transmission of the connection its last one was: tells apart what left in the same nanosecond.
    pub order: u32,
    /// The receiver has it (SACK).
    pub sacked: bool,
    /// Declared lost, and not known to have arrived since.
    pub lost: bool,
    /// A retransmission of it is on its way.
    pub resent: bool,
    /// It was sent more than once.
    pub retransmitted: bool,
    earlier: u32,
    later: u32,
}

impl Segment {
    /// Payload bytes.
    pub fn len(&self) -> u32 {
        u32::from(self.stamp.len)
    }

    /// Copies of it in flight: the original unless it is lost or has arrived, and a retransmission.
    fn copies(&self) -> u64 {
        u64::from(!self.sacked && !self.lost) + u64::from(self.resent)
    }

    /// The original is in flight, and nothing else is known of it.
    fn is_in_flight_once(&self) -> bool {
        !(self.sacked | self.lost | self.resent)
    }

    /// Whether it has to be sent again.
    pub fn awaits_repair(&self) -> bool {
        self.lost && !self.resent
    }
}

const _: () = assert!(size_of::<Segment>() == 64, "a segment fits a cache line");

const NONE: u32 = u32::MAX;

/// All outstanding segments, `una..nxt`. Numbers count segments.
#[derive(Debug)]
pub struct Scoreboard {
    ring: Vec<Segment>,
    una: u32,
    nxt: u32,
    transmissions: u32,
    /// Ends of the list of segments by time of transmission; those SACKed or awaiting repair are not in it.
    oldest: u32,
    newest: u32,
    in_flight: u64,
    sacked: u32,
    lost: u32,
    resent: u32,
    awaiting_repair: u32,
    /// SACKed runs `[from, to)`, ascending, disjoint and not touching.
    runs: Vec<(u32, u32)>,
    /// No segment below awaits repair.
    repair_from: u32,
    /// What happened since somebody looked, if anybody does.
    notes: Option<Vec<Note>>,
}

impl Default for Scoreboard {
    fn default() -> Scoreboard {
        Scoreboard {
            ring: vec![Segment::default(); 64],
            una: 0,
            nxt: 0,
            transmissions: 0,
            oldest: NONE,
            newest: NONE,
            in_flight: 0,
            sacked: 0,
            lost: 0,
            resent: 0,
            awaiting_repair: 0,
            runs: Vec::new(),
            repair_from: 0,
            notes: None,
        }
    }
}

impl Scoreboard {
    /// The first segment not yet acknowledged cumulatively (SND.UNA).
    pub fn una(&self) -> u32 {
        self.una
    }

    /// The next new segment (SND.NXT).
    pub fn nxt(&self) -> u32 {
        self.nxt
    }

    /// Segments outstanding (`packets_out`).
    pub fn outstanding(&self) -> u32 {
        self.nxt - self.una
    }

    /// Bytes in flight (`tcp_packets_in_flight`): sent, not SACKed, not lost; and retransmissions.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Segments SACKed above the left edge (`sacked_out`).
    pub fn sacked(&self) -> u32 {
        self.sacked
    }

    /// Retransmissions in flight, in segments (`retrans_out`).
    pub fn resent(&self) -> u32 {
        self.resent
    }

    /// Segments to be sent again.
    pub fn awaiting_repair(&self) -> u32 {
        self.awaiting_repair
    }

    /// Whether something outstanding is SACKed or lost (`tcp_left_out`).
    pub fn has_left(&self) -> bool {
        self.sacked > 0 || self.lost > 0
    }

    /// Segments lost, sent again or not (`lost_out`).
    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// One past the highest SACKed segment; the left edge if there is none (`tcp_highest_sack_seq`).
    pub fn sacked_to(&self) -> u32 {
        self.runs.last().map_or(self.una, |run| run.1)
    }

    /// An outstanding segment.
    pub fn segment(&self, seq: u32) -> &Segment {
        &self.ring[self.slot(seq)]
    }

    /// What was noted when `seq` left last: of one acknowledged just now, too, whose place in the ring is free from the next one sent on.
    pub fn last_stamp(&self, seq: u32) -> &Stamp {
        &self.segment(seq).stamp
    }

    /// The segment in flight whose last transmission is the earliest.
    pub fn oldest_in_flight(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// The one in flight that was sent next after `seq`.
    pub fn sent_after(&self, seq: u32) -> Option<u32> {
        Some(self.segment(seq).later).filter(|&later| later != NONE)
    }

    /// The lowest segment to be sent again.
    #[inline]
    pub fn next_lost(&mut self) -> Option<u32> {
        if self.awaiting_repair == 0 {
            return None;
        }
        let mut seq = self.repair_from.max(self.una);
        while !self.segment(seq).awaits_repair() {
            seq += 1;
        }
        self.repair_from = seq;
        Some(seq)
    }

    /// The segment below which at least `threshold` are SACKed: RFC 6675 IsLost() holds of whatever is not SACKed there.
    pub fn lost_below(&self, threshold: u32) -> u32 {
        let mut above = threshold;
        for &(from, to) in self.runs.iter().rev() {
            if to - from >= above {
                return to - above;
            }
            above -= to - from;
        }
        self.una
    }

    /// A new segment of `len` bytes leaves; returns its number.
    pub fn send_new(&mut self, stamp: Stamp, len: u32) -> u32 {
        let seq = self.nxt;
        self.nxt += 1;
        if (self.nxt - self.una) as usize > self.ring.len() {
            self.grow();
        }
        let slot = self.slot(seq);
        self.ring[slot] = Segment { stamp: Stamp { len: len as u16, ..stamp }, ..Segment::default() };
        self.in_flight += u64::from(len);
        self.link(seq);
        seq
    }

    /// Segment `seq` leaves again as a repair.
    pub fn send_again(&mut self, seq: u32, stamp: Stamp) {
        let slot = self.slot(seq);
        let segment = &mut self.ring[slot];
        debug_assert!(segment.awaits_repair(), "only what is lost is repaired");
        segment.resent = true;
        self.in_flight += u64::from(segment.len());
        self.resent += 1;
        self.awaiting_repair -= 1;
        self.restamp(seq, stamp);
    }

    /// Segment `seq` leaves again as a probe: in flight as before, now since its last transmission (Linux `tcp_send_loss_probe`
    /// sets `TCPCB_EVER_RETRANS` only).
    pub fn send_probe(&mut self, seq: u32, stamp: Stamp) {
        if self.is_listed(seq) {
            self.unlink(seq);
        }
        self.restamp(seq, stamp);
    }

    fn restamp(&mut self, seq: u32, stamp: Stamp) {
        let slot = self.slot(seq);
        let segment = &mut self.ring[slot];
        segment.stamp = Stamp { len: segment.stamp.len, ..stamp };
        segment.retransmitted = true;
        self.link(seq);
    }

    /// `seq`, or its retransmission if it is lost already, is lost (Linux `tcp_mark_skb_lost`); returns the bytes.
    pub fn mark_lost(&mut self, seq: u32) -> u64 {
        let slot = self.slot(seq);
        let segment = self.ring[slot];
        if segment.sacked || segment.awaits_repair() {
            return 0;
        }
        let bytes = u64::from(segment.len());
        self.in_flight -= bytes;
        if segment.lost {
            self.ring[slot].resent = false;
            self.resent -= 1;
        } else {
            self.ring[slot].lost = true;
            self.lost += 1;
        }
        if self.ring[slot].awaits_repair() {
            self.unlink(seq);
            self.awaiting_repair += 1;
            self.repair_from = self.repair_from.min(seq);
            self.note(Note::Lost { order: segment.order });
        }
        bytes
    }

    /// What was given up is on its way after all (`tcp_undo_cwnd_reduction` with `unmark_loss`), in its place among the transmissions.
    pub fn take_back_losses(&mut self) {
        for seq in self.una..self.nxt {
            let slot = self.slot(seq);
            let segment = &mut self.ring[slot];
            if std::mem::take(&mut segment.lost) {
                self.in_flight += u64::from(segment.len());
            }
        }
        (self.lost, self.awaiting_repair) = (0, 0);
        let mut listed: Vec<u32> = (self.una..self.nxt).filter(|&seq| self.is_listed(seq)).collect();
        listed.sort_unstable_by_key(|&seq| self.segment(seq).order);
        (self.oldest, self.newest) = (NONE, NONE);
        for seq in listed {
            self.append(seq);
        }
    }

    /// The left edge moves to `to`; `visit` sees each segment, SACKed before or not.
    #[inline]
    pub fn acknowledge(&mut self, to: u32, mut visit: impl FnMut(u32, &Segment)) {
        let to = to.min(self.nxt);
        while self.una < to {
            let seq = self.una;
            let slot = self.slot(seq);
            let segment = &self.ring[slot];
            if segment.is_in_flight_once() {
                let (len, order) = (segment.len(), segment.order);
                self.unlink(seq);
                self.in_flight -= u64::from(len);
                self.note(Note::Delivered { order });
            } else {
                self.settle(seq);
            }
            visit(seq, &self.ring[slot]);
            self.una += 1;
        }
        if self.runs.first().is_some_and(|run| run.0 < self.una) {
            self.trim_runs();
        }
    }

    /// Segment `seq`, which is SACKed or lost or was sent again, is acknowledged.
    fn settle(&mut self, seq: u32) {
        let segment = *self.segment(seq);
        if self.is_listed(seq) {
            self.unlink(seq);
        }
        self.in_flight -= u64::from(segment.len()) * segment.copies();
        self.lost -= u32::from(segment.lost);
        self.resent -= u32::from(segment.resent);
        self.awaiting_repair -= u32::from(segment.awaits_repair());
        if segment.sacked {
            self.sacked -= 1;
        } else {
            self.note(Note::Delivered { order: segment.order });
        }
    }

    /// What became of its transmissions since the last call; the first call begins it.
    pub fn take_notes(&mut self) -> Vec<Note> {
        self.notes.replace(Vec::new()).unwrap_or_default()
    }

    #[inline]
    fn note(&mut self, note: Note) {
        if let Some(notes) = &mut self.notes {
            notes.push(note);
        }
    }

    fn is_listed(&self, seq: u32) -> bool {
        let segment = self.segment(seq);
        !segment.sacked && !segment.awaits_repair()
    }

    #[inline]
    fn slot(&self, seq: u32) -> usize {
        seq as usize & (self.ring.len() - 1)
    }

    fn link(&mut self, seq: u32) {
        self.transmissions += 1;
        let slot = self.slot(seq);
        self.ring[slot].order = self.transmissions;
        self.append(seq);
        self.note(Note::Sent { order: self.transmissions, seq, len: self.ring[slot].len() });
    }

    fn append(&mut self, seq: u32) {
        let (slot, newest) = (self.slot(seq), self.newest);
        (self.ring[slot].earlier, self.ring[slot].later) = (newest, NONE);
        if newest == NONE {
            self.oldest = seq;
        } else {
            let before = self.slot(newest);
            self.ring[before].later = seq;
        }
        self.newest = seq;
    }

    fn unlink(&mut self, seq: u32) {
        let Segment { earlier, later, .. } = *self.segment(seq);
        if earlier == NONE {
            self.oldest = later;
        } else {
            let slot = self.slot(earlier);
            self.ring[slot].later = later;
        }
        if later == NONE {
            self.newest = earlier;
        } else {
            let slot = self.slot(later);
            self.ring[slot].earlier = earlier;
        }
    }

    fn grow(&mut self) {
        let mut wider = vec![Segment::default(); self.ring.len() * 2];
        for seq in self.una..self.nxt - 1 {
            wider[seq as usize & (self.ring.len() * 2 - 1)] = self.ring[self.slot(seq)];
        }
        self.ring = wider;
    }
}
