//! The sender's scoreboard: every outstanding segment in a ring, in-flight segments linked in the order they were sent, and
//! the runs that were SACKed. Knows nothing of windows, timers or which segments ought to be lost.

mod ghosts;

use super::rate::Stamp;
use crate::endpoint::Note;
use ghosts::Ghosts;

/// Where an outstanding segment is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Sent and neither delivered nor given up.
    #[default]
    InFlight,
    /// Delivered out of order.
    Sacked,
    /// Declared lost, not sent again yet.
    Lost,
}

/// One outstanding segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment {
    /// The connection's state when it last left.
    pub stamp: Stamp,
    /// Payload bytes.
    pub len: u32,
    /// Where it is.
    pub state: State,
    /// Sent more than once.
    pub retransmitted: bool,
    /// Sent again since the last timeout.
    pub repaired: bool,
    /// Counted in the pipe once more than it is in flight ([`Scoreboard::keep_ghosts`]).
    ghost: bool,
    /// The how-manieth transmission it was: what times of equal nanoseconds cannot tell.
    pub order: u32,
    earlier: u32,
    later: u32,
}

const NONE: u32 = u32::MAX;

/// All outstanding segments `una..nxt`.
#[derive(Debug)]
pub struct Scoreboard {
    ring: Vec<Segment>,
    una: u32,
    nxt: u32,
    transmissions: u32,
    /// Ends of the list of in-flight segments by time of transmission.
    oldest: u32,
    newest: u32,
    in_flight: u64,
    in_flight_segments: u32,
    sacked: u32,
    lost: u32,
    /// ns-3's counts, if they are kept.
    ghosts: Option<Ghosts>,
    /// SACKed runs `[from, to)` in ascending order, disjoint and not touching.
    runs: Vec<(u32, u32)>,
    /// No segment below this is `Lost`.
    lost_from: u32,
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
            in_flight_segments: 0,
            sacked: 0,
            lost: 0,
            ghosts: None,
            runs: Vec::new(),
            lost_from: 0,
            notes: None,
        }
    }
}

impl Scoreboard {
    /// What happened since the last call; the first call begins it.
    pub fn take_notes(&mut self) -> Vec<Note> {
        self.notes.replace(Vec::new()).unwrap_or_default()
    }

    #[inline]
    fn note(&mut self, seq: u32, note: fn(u32, u32, u32) -> Note) {
        if self.notes.is_some() {
            self.write_down(seq, note);
        }
    }

    #[cold]
    fn write_down(&mut self, seq: u32, note: fn(u32, u32, u32) -> Note) {
        let Segment { order, len, .. } = *self.segment(seq);
        self.notes.iter_mut().for_each(|notes| notes.push(note(order, seq, len)));
    }

    /// The first segment not yet acknowledged cumulatively.
    pub fn una(&self) -> u32 {
        self.una
    }

    /// The next new segment.
    pub fn nxt(&self) -> u32 {
        self.nxt
    }

    /// Segments in flight.
    pub fn in_flight_segments(&self) -> u32 {
        self.in_flight_segments
    }

    /// Segments SACKed above the left edge.
    pub fn sacked(&self) -> u32 {
        self.sacked
    }

    /// One past the highest SACKed segment.
    pub fn sacked_to(&self) -> u32 {
        self.runs.last().map_or(self.una, |run| run.1)
    }

    /// An outstanding segment.
    pub fn segment(&self, seq: u32) -> &Segment {
        &self.ring[self.slot(seq)]
    }

    /// The highest segment sent that is not SACKed.
    pub fn highest_missing(&self) -> Option<u32> {
        (self.una..self.nxt).rev().find(|&seq| self.segment(seq).state != State::Sacked)
    }

    /// Bytes declared lost and not delivered since, sent again or not.
    pub fn missing(&self) -> u64 {
        let given_up = |s: &&Segment| s.state == State::Lost || (s.state == State::InFlight && s.retransmitted);
        (self.una..self.nxt).map(|seq| self.segment(seq)).filter(given_up).map(|s| u64::from(s.len)).sum()
    }

    /// The in-flight segment sent longest ago.
    pub fn oldest_in_flight(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// The lowest segment that is lost and not sent again.
    pub fn next_lost(&mut self) -> Option<u32> {
        if self.lost == 0 {
            return None;
        }
        let mut seq = self.lost_from.max(self.una);
        while self.segment(seq).state != State::Lost {
            seq += 1;
        }
        self.lost_from = seq;
        Some(seq)
    }

    /// The segment below which at least three are SACKed: what RFC 6675's IsLost() declares lost if it is not SACKed.
    pub fn lost_below(&self) -> u32 {
        let mut above = 3;
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
        self.ring[slot] = Segment { stamp, len, ..Segment::default() };
        self.link(seq);
        seq
    }

    /// Segment `seq` leaves again.
    pub fn send_again(&mut self, seq: u32, stamp: Stamp) {
        debug_assert_ne!(self.segment(seq).state, State::Sacked, "a delivered segment is not sent again");
        let state = self.segment(seq).state;
        self.recount(seq, false);
        self.set_ghost(seq, state == State::InFlight);
        self.leave(seq, state);
        let slot = self.slot(seq);
        let segment = &mut self.ring[slot];
        segment.stamp = stamp;
        segment.state = State::InFlight;
        (segment.retransmitted, segment.repaired) = (true, true);
        self.recount(seq, true);
        self.link(seq);
    }

    /// Gives `seq` up if it is in flight; returns its bytes.
    pub fn mark_lost(&mut self, seq: u32) -> u64 {
        if self.segment(seq).state != State::InFlight {
            return 0;
        }
        self.unlink(seq);
        self.note(seq, |order, _, _| Note::Lost { order });
        self.recount(seq, false);
        let slot = self.slot(seq);
        self.ring[slot].state = State::Lost;
        self.recount(seq, true);
        self.lost += 1;
        self.lost_from = self.lost_from.min(seq);
        u64::from(self.ring[slot].len)
    }

    /// Transmissions so far.
    pub fn transmissions(&self) -> u32 {
        self.transmissions
    }

    /// What was given up and not sent again is in flight after all, in its old place among the transmissions.
    pub fn take_back_losses(&mut self) {
        let mut in_flight = Vec::new();
        for seq in self.una..self.nxt {
            let slot = self.slot(seq);
            if self.ring[slot].state == State::Lost {
                self.ring[slot].state = State::InFlight;
                self.lost -= 1;
                self.in_flight += u64::from(self.ring[slot].len);
                self.in_flight_segments += 1;
            }
            if self.ring[slot].state == State::InFlight {
                in_flight.push(seq);
            }
        }
        in_flight.sort_unstable_by_key(|&seq| self.segment(seq).order);
        let at = |i: Option<usize>| i.and_then(|i| in_flight.get(i)).copied().unwrap_or(NONE);
        for (i, &seq) in in_flight.iter().enumerate() {
            let slot = self.slot(seq);
            (self.ring[slot].earlier, self.ring[slot].later) = (at(i.checked_sub(1)), at(Some(i + 1)));
        }
        (self.oldest, self.newest) = (at(Some(0)), at(in_flight.len().checked_sub(1)));
    }

    /// Gives up everything in flight (retransmission timeout); returns the bytes.
    pub fn mark_all_lost(&mut self) -> u64 {
        let mut bytes = 0;
        while self.oldest != NONE {
            bytes += self.mark_lost(self.oldest);
        }
        for seq in self.una..self.nxt {
            self.set_ghost(seq, false);
            let slot = self.slot(seq);
            self.ring[slot].repaired = false;
        }
        bytes
    }

    /// The left edge moves to `to`; `visit` sees each segment that had not been SACKed.
    pub fn acknowledge(&mut self, to: u32, mut visit: impl FnMut(u32, &Segment)) {
        let to = to.min(self.nxt);
        while self.una < to {
            let seq = self.una;
            self.settle(seq, false);
            match self.segment(seq).state {
                State::Sacked => self.sacked -= 1,
                state => {
                    self.leave(seq, state);
                    self.note(seq, |order, _, _| Note::Delivered { order });
                    visit(seq, &self.ring[self.slot(seq)]);
                }
            }
            self.una += 1;
        }
        let passed = self.runs.iter().take_while(|run| run.1 <= self.una).count();
        self.runs.drain(..passed);
        if let Some(first) = self.runs.first_mut() {
            first.0 = first.0.max(self.una);
        }
    }

    /// The receiver holds `from..to`; `visit` sees each segment for which that is news.
    pub fn sack(&mut self, from: u32, to: u32, mut visit: impl FnMut(u32, &Segment)) {
        let (from, to) = (from.max(self.una), to.min(self.nxt));
        if from >= to {
            return;
        }
        // Runs that overlap or touch [from, to) are merged into one; the gaps between them are the news.
        let first = self.runs.partition_point(|run| run.1 < from);
        let mut merged = (from, to);
        let mut at = from;
        let mut last = first;
        while let Some(&(run_from, run_to)) = self.runs.get(last).filter(|run| run.0 <= to) {
            self.deliver(at, run_from, &mut visit);
            at = at.max(run_to);
            merged = (merged.0.min(run_from), merged.1.max(run_to));
            last += 1;
        }
        self.deliver(at, to, &mut visit);
        if last - first == 1 {
            self.runs[first] = merged;
        } else {
            self.runs.splice(first..last, [merged]);
        }
    }

    fn deliver(&mut self, from: u32, to: u32, visit: &mut impl FnMut(u32, &Segment)) {
        for seq in from..to {
            let state = self.segment(seq).state;
            self.settle(seq, self.segment(seq).repaired);
            self.leave(seq, state);
            self.note(seq, |order, _, _| Note::Delivered { order });
            let slot = self.slot(seq);
            self.ring[slot].state = State::Sacked;
            self.sacked += 1;
            visit(seq, &self.ring[slot]);
        }
    }

    fn leave(&mut self, seq: u32, state: State) {
        match state {
            State::InFlight => self.unlink(seq),
            State::Lost => self.lost -= 1,
            State::Sacked => {}
        }
    }

    fn slot(&self, seq: u32) -> usize {
        seq as usize & (self.ring.len() - 1)
    }

    fn link(&mut self, seq: u32) {
        let (slot, newest) = (self.slot(seq), self.newest);
        self.transmissions += 1;
        self.ring[slot].order = self.transmissions;
        self.ring[slot].earlier = newest;
        self.ring[slot].later = NONE;
        if newest == NONE {
            self.oldest = seq;
        } else {
            let before = self.slot(newest);
            self.ring[before].later = seq;
        }
        self.newest = seq;
        self.in_flight += u64::from(self.ring[slot].len);
        self.in_flight_segments += 1;
        self.note(seq, |order, seq, len| Note::Sent { order, seq, len });
    }

    fn unlink(&mut self, seq: u32) {
        let Segment { earlier, later, len, .. } = *self.segment(seq);
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
        self.in_flight -= u64::from(len);
        self.in_flight_segments -= 1;
    }

    fn grow(&mut self) {
        let mut wider = vec![Segment::default(); self.ring.len() * 2];
        for seq in self.una..self.nxt - 1 {
            wider[seq as usize & (self.ring.len() * 2 - 1)] = self.ring[self.slot(seq)];
        }
        self.ring = wider;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn board(segments: u32) -> Scoreboard {
        let mut board = Scoreboard::default();
        for _ in 0..segments {
            board.send_new(Stamp::default(), 1000);
        }
        board
    }

    #[test]
    fn three_sacked_above_a_hole_make_it_lost() {
        // Spec K, test 2: 20 out, 1 missing, the next three SACKed: pipe 20 → 16, then 17 with the retransmission.
        let mut b = board(20);
        b.sack(1, 3, |_, _| {});
        assert_eq!(b.lost_below(), 0);
        b.sack(3, 4, |_, _| {});
        assert_eq!(b.lost_below(), 1);
        assert_eq!(b.mark_lost(0), 1000);
        assert_eq!((b.in_flight_segments(), b.next_lost()), (16, Some(0)));
        b.send_again(0, Stamp::default());
        assert_eq!((b.in_flight_segments(), b.next_lost()), (17, None));
    }

    #[test]
    fn a_block_tells_only_its_news() {
        let mut b = board(100);
        let mut news = Vec::new();
        for (from, to) in [(10, 12), (20, 22), (5, 30)] {
            b.sack(from, to, |seq, _| news.push(seq));
        }
        assert_eq!(news.len(), 25);
        assert_eq!((b.sacked(), b.sacked_to()), (25, 30));
        b.acknowledge(50, |seq, _| news.push(seq));
        assert_eq!((news.len(), b.sacked(), b.una()), (50, 0, 50));
    }

    proptest! {
        /// Whatever happens, the counters equal a recount and every segment is reported delivered exactly once.
        #[test]
        fn counters_match_a_recount(steps in prop::collection::vec((0u8..6, 0u32..200, 1u32..20), 1..300), ghosts in any::<bool>()) {
            let mut b = Scoreboard::default();
            if ghosts {
                b.keep_ghosts();
            }
            let mut delivered = Vec::new();
            for (what, at, n) in steps {
                match what {
                    0 => for _ in 0..n { b.send_new(Stamp::default(), 1000); },
                    1 => b.sack(b.una() + at, b.una() + at + n, |seq, _| delivered.push(seq)),
                    2 => b.acknowledge(b.una() + n, |seq, _| delivered.push(seq)),
                    5 if !ghosts => b.take_back_losses(),
                    3 if b.una() < b.nxt() => { b.mark_lost(b.una() + at % (b.nxt() - b.una())); }
                    _ => if let Some(seq) = b.next_lost() { b.send_again(seq, Stamp::default()) },
                }
                let count = |state| (b.una()..b.nxt()).filter(|&s| b.segment(s).state == state).count() as u32;
                prop_assert_eq!(count(State::InFlight), b.in_flight_segments());
                prop_assert_eq!(b.in_flight, u64::from(b.in_flight_segments()) * 1000);
                let listed: Vec<u32> = std::iter::successors(b.oldest_in_flight(), |&s| Some(b.segment(s).later).filter(|&l| l != NONE)).collect();
                prop_assert_eq!(listed.len() as u32, b.in_flight_segments());
                prop_assert!(listed.windows(2).all(|w| b.segment(w[0]).order < b.segment(w[1]).order));
                prop_assert_eq!((count(State::Sacked), count(State::Lost)), (b.sacked, b.lost));
                prop_assert!(b.runs.windows(2).all(|w| w[0].1 < w[1].0));
            }
            let told = delivered.len();
            delivered.sort_unstable();
            delivered.dedup();
            prop_assert_eq!(told, delivered.len());
        }
    }
}
