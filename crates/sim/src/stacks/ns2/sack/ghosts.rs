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

    /// `m_lostOut`, if it is kept.
    pub fn lost_out(&self) -> u64 {
        self.ghosts.map_or(0, |ghosts| ghosts.lost)
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

    /// The lowest segment in flight that was sent once only.
    pub fn next_untouched(&mut self) -> Option<u32> {
        let from = self.untouched_from.max(self.una);
        let found = (from..self.nxt).find(|&seq| self.segment(seq).state == State::InFlight && !self.segment(seq).repaired);
        self.untouched_from = found.unwrap_or(self.nxt);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::ns2::rate::Stamp;

    /// Ten out, all but the first two SACKed, both lost and sent again; the second repair arrives, the first does not.
    fn half_repaired(ghosts: bool) -> Scoreboard {
        let mut board = Scoreboard::default();
        if ghosts {
            board.keep_ghosts();
        }
        for _ in 0..10 {
            board.send_new(Stamp::default(), 1000);
        }
        board.sack(2, 10, |_, _| {});
        for seq in [0, 1] {
            board.mark_lost(seq);
            board.send_again(seq, Stamp::default());
        }
        board.sack(1, 2, |_, _| {});
        board
    }

    #[test]
    fn a_repair_behind_a_hole_stays_in_ns3s_pipe_until_the_hole_is_closed() {
        assert_eq!(half_repaired(false).pipe(), 1000);
        let mut board = half_repaired(true);
        assert_eq!((board.pipe(), board.in_flight(), board.lost_out()), (2000, 1000, 1000));
        board.acknowledge(10, |_, _| {});
        assert_eq!((board.pipe(), board.lost_out()), (0, 0));
    }

    #[test]
    fn a_timeout_takes_it_out() {
        let mut board = half_repaired(true);
        board.mark_all_lost();
        assert_eq!((board.pipe(), board.lost_out()), (0, 1000));
        board.send_again(0, Stamp::default());
        assert_eq!(board.pipe(), 1000);
    }

    /// Segments 0 and 3 of ten are lost: 1 is SACKed before 3, or it is not.
    #[test]
    fn a_second_hole_counts_where_nothing_below_it_was_sacked() {
        for (sacked_from, seen) in [(1, false), (4, true)] {
            let mut board = Scoreboard::default();
            for _ in 0..10 {
                board.send_new(Stamp::default(), 1000);
            }
            board.sack(sacked_from, 3, |_, _| {});
            board.sack(4, 10, |_, _| {});
            board.mark_lost(0);
            assert!(!board.lost_behind_the_first());
            board.mark_lost(3);
            assert_eq!(board.lost_behind_the_first(), seen);
            board.send_again(3, Stamp::default());
            assert_eq!(board.lost_behind_the_first(), seen, "sent again, it is lost still");
        }
    }

    /// What was not lost is in the pipe twice when it is sent again, and once when it turns out to be lost or arrives.
    #[test]
    fn a_repair_of_what_was_not_lost_is_beside_its_original() {
        let mut board = Scoreboard::default();
        board.keep_ghosts();
        for _ in 0..3 {
            board.send_new(Stamp::default(), 1000);
        }
        assert_eq!(board.next_untouched(), Some(0));
        board.send_again(0, Stamp::default());
        assert_eq!((board.pipe(), board.next_untouched()), (4000, Some(1)));
        board.send_again(1, Stamp::default());
        assert_eq!(board.lost_out(), 0);
        board.found_lost(1);
        assert_eq!(board.lost_out(), 1000);
        board.sack(0, 1, |_, _| {});
        assert_eq!((board.pipe(), board.in_flight()), (3000, 2000));
    }
}
