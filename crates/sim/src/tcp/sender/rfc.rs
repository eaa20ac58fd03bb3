//! Loss recovery as the RFCs have it: RFC 6675 with SACK, RFC 6582 (NewReno) without, RFC 5681 for the timeout.

use lowtide_cc::Cause;
use lowtide_units::Time;

use super::ack::News;
use super::{LossRecovery, Sender, State};
use crate::tcp::rack::DUP_THRESHOLD;

/// What duplicate acknowledgements tell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Duplicates {
    /// In a row.
    count: u32,
    /// Without SACK: bytes that they say have left the network.
    departed: u64,
    /// RFC 6675: everything below is judged already.
    judged: u32,
    /// The next retransmission leaves whatever the window says (RFC 6675 §5 step 4.3, RFC 6582 §3.2).
    pub force: bool,
    /// Segments that the receiver has reported as duplicates (DSACK).
    pub reported: u64,
}

impl Duplicates {
    pub fn departed(&self) -> u64 {
        self.departed
    }
}

impl Sender {
    /// Without SACK a duplicate acknowledgement stands for one segment delivered (RFC 5681 §3.2: inflation and deflation).
    pub(super) fn count_duplicates(&mut self, news: &mut News) {
        let mss = u64::from(self.config.mss);
        let seen = &mut self.duplicates;
        if news.advanced > 0 {
            // What the duplicates stood for is acknowledged now, but for the hole.
            let known = seen.departed.min(news.delivered.saturating_sub(mss));
            seen.departed = if self.state == State::Recovery { seen.departed - known } else { 0 };
            news.delivered -= known;
            seen.count = 0;
        } else if news.is_duplicate {
            seen.count += 1;
            // Outside recovery new data leaves for the first two only (RFC 3042).
            if self.state == State::Recovery || seen.count <= DUP_THRESHOLD {
                seen.departed += mss;
                news.delivered += mss;
            }
        }
    }

    /// Detects losses, and begins and ends episodes.
    pub(super) fn judge_by_rfc(&mut self, news: &mut News, now: Time) {
        let una = self.board.una();
        let lost = match self.config.recovery {
            LossRecovery::NewReno => self.next_hole(news),
            LossRecovery::Sack | LossRecovery::Linux => self.unsacked_below_three(),
        };
        self.note_lost(lost);
        let over = una > self.recover || (una == self.recover && self.state != State::Cwr);
        if news.advanced > 0 && self.state != State::Open && over {
            self.state = State::Open;
            (self.duplicates.count, self.duplicates.departed, self.episode_lost) = (0, 0, 0);
        }
        if matches!(self.state, State::Open | State::Cwr) && self.board.awaiting_repair() > 0 {
            if self.state == State::Open {
                self.begin_by_rfc(Cause::Loss, news.in_flight, now);
            }
            self.state = State::Recovery;
            self.duplicates.force = true;
        } else if self.state == State::Open && news.ece {
            self.begin_by_rfc(Cause::Ecn, news.in_flight, now);
            self.state = State::Cwr;
        }
        // A partial acknowledgement repairs its hole at once.
        let head_repaired = self.board.outstanding() == 0 || !self.board.segment(una).awaits_repair();
        self.duplicates.force |= self.state == State::Recovery && news.advanced > 0 && !head_repaired;
    }

    fn begin_by_rfc(&mut self, cause: Cause, in_flight: u64, now: Time) {
        self.recover = self.board.nxt();
        self.congestion(cause, in_flight, now);
        self.owes_cwr = self.config.ecn;
    }

    /// RFC 6675 IsLost(), of what was not judged before: a lost retransmission waits for the timer.
    fn unsacked_below_three(&mut self) -> u64 {
        let below = self.board.lost_below(DUP_THRESHOLD);
        let from = self.duplicates.judged.max(self.board.una());
        self.duplicates.judged = self.duplicates.judged.max(below);
        let mut lost = 0;
        for seq in from..below {
            if !self.board.segment(seq).lost {
                lost += self.board.mark_lost(seq);
            }
        }
        lost
    }

    /// RFC 6582 §3.2: the third duplicate, if something above the last recovery point has arrived (step 2), or a partial
    /// acknowledgement (step 3).
    fn next_hole(&mut self, news: &News) -> u64 {
        let una = self.board.una();
        let fresh = una > self.recover || self.stats.episodes == 0;
        let third = self.state == State::Open && self.duplicates.count == DUP_THRESHOLD && fresh;
        let partial = self.state == State::Recovery && news.advanced > 0 && una < self.recover;
        let missing = (third || partial) && !self.board.segment(una).lost;
        if missing { self.board.mark_lost(una) } else { 0 }
    }

    /// RFC 5681 §3.1: everything not SACKed is sent again, in slow start. The threshold falls again only after progress.
    pub(super) fn time_out_by_rfc(&mut self, now: Time) {
        let before = self.in_flight();
        for seq in self.board.una()..self.board.nxt() {
            let lost = self.board.mark_lost(seq);
            self.note_lost(lost);
        }
        if self.state != State::Loss || self.timeouts_in_a_row == 0 {
            self.congestion(Cause::Timeout, before, now);
        }
        (self.duplicates.count, self.duplicates.departed, self.duplicates.judged) = (0, 0, self.board.nxt());
        (self.state, self.recover) = (State::Loss, self.board.nxt());
    }
}
