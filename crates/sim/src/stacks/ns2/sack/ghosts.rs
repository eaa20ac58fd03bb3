//! The pipe as ns-3 counts it (`TcpTxBuffer::BytesInFlight`), beside the one that is. Knows nothing of who asks for which.

use super::{Scoreboard, Segment, State};

/// What ns-3 counts beside what is, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ghosts {
    /// In the pipe, but not in flight.
    bytes: u64,
    /// Lost and not arrived since, sent again or not (`m_lostOut`).
    lost: u64,
}

impl Segment {
    /// ns-3's `m_lost`: a segment sent again stays lost, one sent again for want of anything else was not.
    pub(super) fn is_lost_in_ns3(&self) -> bool {
        self.state == State::Lost || (self.state == State::InFlight && self.repaired && !self.ghost)
    }
}

impl Scoreboard {
    /// Counts the pipe as ns-3's `TcpTxBuffer` does from now on: a retransmission stays in it until the left edge passes it or
    /// the timer expires, SACKed or not, and one of a segment that was not lost is there beside its original.
    pub fn keep_ghosts(&mut self) {
        self.ghosts = Some(Ghosts::default());
    }

    /// What the pipe counts, in flight or not.
    pub fn pipe(&self) -> u64 {
        self.in_flight + self.ghosts.map_or(0, |ghosts| ghosts.bytes)
    }

    /// `seq` is about to change, or has: `m_lostOut` is without it, or with it.
    #[inline]
    pub(super) fn recount(&mut self, seq: u32, with: bool) {
        if self.ghosts.is_some() {
            self.count_lost(seq, with);
        }
    }

    /// `seq` arrives: it is lost no more, and a ghost or not.
    #[inline]
    pub(super) fn settle(&mut self, seq: u32, ghost: bool) {
        if self.ghosts.is_some() {
            self.count_lost(seq, false);
            self.set_ghost(seq, ghost);
        }
    }

    fn count_lost(&mut self, seq: u32, with: bool) {
        let segment = self.segment(seq);
        let bytes = if segment.is_lost_in_ns3() { u64::from(segment.len) } else { 0 };
        let Some(ghosts) = &mut self.ghosts else { return };
        ghosts.lost = if with { ghosts.lost + bytes } else { ghosts.lost - bytes };
    }

    /// Counts `seq` once more than it is in flight, or no longer.
    pub(super) fn set_ghost(&mut self, seq: u32, ghost: bool) {
        let slot = self.slot(seq);
        let segment = &mut self.ring[slot];
        if let Some(ghosts) = &mut self.ghosts
            && segment.ghost != ghost
        {
            segment.ghost = ghost;
            let len = u64::from(segment.len);
            ghosts.bytes = if ghost { ghosts.bytes + len } else { ghosts.bytes - len };
        }
    }

    /// `seq` is lost, as was not known when it was sent again.
    pub fn found_lost(&mut self, seq: u32) {
        if self.segment(seq).state == State::InFlight {
            self.recount(seq, false);
            self.set_ghost(seq, false);
            self.recount(seq, true);
        }
    }

    /// Whether of the segments above the lowest one a lost one comes before a SACKed one (`TcpTxBuffer::IsLost`).
    pub fn lost_behind_the_first(&self) -> bool {
        let lost = |seq| match self.segment(seq).state {
            State::Sacked => Some(false),
            State::Lost => Some(true),
            State::InFlight => self.segment(seq).repaired.then_some(true),
        };
        (self.una + 1..self.sacked_to().saturating_sub(1)).find_map(lost) == Some(true)
    }
}
