//! Loss recovery as Linux 6.18 has it (`tcp_input.c`): the state machine of `tcp_fastretrans_alert`, what a timeout does, and what
//! shows afterwards that a reduction was for nothing.

use lowtide_cc::{Cause, Congestion};
use lowtide_units::{Span, Time};

use super::ack::News;
use super::timers::Due;
use super::{Sender, State};
use crate::tcp::prr::Prr;
use crate::tcp::undo::{Undo, answers_original};

impl Sender {
    /// An acknowledgement about which something is unusual (`tcp_fastretrans_alert`); whether the reordering timer runs for it.
    pub(super) fn judge(&mut self, news: &mut News, now: Time) -> bool {
        if news.ece {
            self.undo.forbid();
        }
        if self.state == State::Open {
            self.first_retransmission = None;
        } else if self.board.una() >= self.recover {
            self.leave(news.echo, now);
        }
        match self.state {
            State::Recovery => self.go_on(news, now),
            State::Loss => self.go_on_after_timeout(news, now),
            State::Open | State::Disorder | State::Cwr => self.watch(news, now),
        }
    }

    /// What was sent before the episode has been acknowledged.
    fn leave(&mut self, echo: Time, now: Time) {
        match self.state {
            // Until something above is acknowledged the receiver may not have seen CWR.
            State::Cwr if self.board.una() > self.recover => self.state = State::Open,
            State::Recovery => self.end_recovery(echo, now),
            _ => {}
        }
    }

    /// Linux `tcp_try_undo_recovery`.
    fn end_recovery(&mut self, echo: Time, now: Time) {
        if self.may_undo(echo) {
            self.give_back(false, now);
        } else {
            self.rack.on_recovered();
        }
        (self.state, self.episode_lost, self.kept_in_flight) = (State::Open, 0, 0);
    }

    /// In fast recovery.
    fn go_on(&mut self, news: &mut News, now: Time) -> bool {
        if news.advanced > 0 && self.undo.is_open() && answers_original(news.echo, self.first_retransmission) {
            // The hole was filled by the original (`tcp_try_undo_partial`).
            self.rack.on_reordering(news.una, self.board.sacked_to());
            if self.board.resent() > 0 {
                // Until the repairs have arrived nothing more is given up or sent again.
                self.only_new = true;
                return false;
            }
            if !self.has_retransmitted() {
                self.first_retransmission = None;
            }
            self.give_back(true, now);
            self.keep_open();
        }
        if self.undo_by_duplicates(now) {
            self.try_to_open(news, now);
        }
        let waits = self.detect(news, now);
        if self.state != State::Recovery && self.board.lost() > 0 {
            self.enter_recovery(news.ece, news.in_flight, now);
        }
        waits
    }

    /// Open, in disorder, or in CWR.
    fn watch(&mut self, news: &mut News, now: Time) -> bool {
        if matches!(self.state, State::Open | State::Disorder) {
            self.undo_by_duplicates(now);
        }
        let waits = self.detect(news, now);
        if self.board.lost() > 0 {
            self.enter_recovery(news.ece, news.in_flight, now);
        } else {
            self.try_to_open(news, now);
        }
        waits
    }

    /// After a timeout (`tcp_process_loss`).
    fn go_on_after_timeout(&mut self, news: &mut News, now: Time) -> bool {
        self.process_loss(news, now);
        let waits = self.detect(news, now);
        if self.state != State::Open && !news.retransmission_lost {
            return waits;
        }
        self.watch(news, now) || waits
    }

    fn process_loss(&mut self, news: &News, now: Time) {
        let recovered = self.board.una() >= self.recover;
        let spurious = self.frto && news.original_delivered;
        if (news.advanced > 0 && self.may_undo(news.echo)) || spurious {
            self.give_back(true, now);
            self.timeouts_in_a_row = 0;
            (self.state, self.episode_lost, self.kept_in_flight) = (State::Open, 0, 0);
            return;
        }
        if self.frto {
            if self.board.nxt() > self.recover {
                // Step 3.a of RFC 5682 §3.1: new data arrives while old data is missing, the loss was real.
                self.frto &= !(news.sacked_some || news.is_duplicate);
            } else if news.advanced > 0 && !recovered {
                self.recover = self.board.nxt();
                // Step 2.b: new data first.
                self.frto = self.next_len() > 0 && self.permitted(self.next_len());
                self.only_new = self.frto;
                return;
            }
        }
        if recovered {
            self.end_recovery(news.echo, now);
        }
    }

    /// Linux `tcp_identify_packet_loss`; whether the reordering timer runs.
    fn detect(&mut self, news: &mut News, now: Time) -> bool {
        let window = self.reordering_window();
        let resent = self.board.resent();
        let (lost, again) = self.rack.detect_on_ack(&mut self.board, now, window);
        self.note_lost(lost);
        news.retransmission_lost |= self.board.resent() < resent;
        if let Some(at) = again {
            self.timer = Some((at + super::timers::TIMEOUT_MIN, Due::Reordering));
        }
        again.is_some()
    }

    fn reordering_window(&self) -> Span {
        let recovering = matches!(self.state, State::Recovery | State::Loss);
        self.rack.reordering_window(recovering, self.board.sacked(), self.min_rtt, self.rto.srtt())
    }

    /// Counts bytes that were declared lost.
    pub(super) fn note_lost(&mut self, lost: u64) {
        self.clock.on_lost(lost);
        self.episode_lost += lost;
        self.stats.losses += lost.div_ceil(u64::from(self.config.mss));
    }

    /// The reordering timer (`tcp_rack_reo_timeout`).
    pub(super) fn on_reordering_timeout(&mut self, now: Time) {
        let before = self.in_flight();
        let window = self.reordering_window();
        let (lost, _) = self.rack.detect(&mut self.board, now, window);
        self.note_lost(lost);
        if lost > 0 && self.state != State::Recovery {
            self.enter_recovery(false, before, now);
            if !self.cc.has_own_recovery() {
                let mss = u64::from(self.config.mss);
                self.prr.on_ack(mss, self.in_flight(), self.cc.cwnd(), mss, false);
            }
        }
        self.restart_retransmission_timer(now);
    }

    /// Nothing is lost: the state follows from what is SACKed and marked (`tcp_try_to_open`).
    fn try_to_open(&mut self, news: &News, now: Time) {
        if !self.has_retransmitted() {
            self.first_retransmission = None;
        }
        if news.ece && matches!(self.state, State::Open | State::Disorder) {
            self.undo = Undo::default();
            self.start_reduction(Cause::Ecn, news.in_flight, now);
            self.state = State::Cwr;
        }
        if self.state != State::Cwr {
            self.keep_open();
        }
    }

    /// Linux `tcp_try_keep_open`.
    pub(super) fn keep_open(&mut self) {
        let state = if self.board.has_left() || self.has_retransmitted() { State::Disorder } else { State::Open };
        if self.state != state {
            (self.state, self.recover) = (state, self.board.nxt());
        }
    }

    /// A retransmission is on its way, or the head was sent again (`tcp_any_retrans_done`).
    fn has_retransmitted(&self) -> bool {
        self.board.resent() > 0 || (self.board.outstanding() > 0 && self.board.segment(self.board.una()).retransmitted)
    }

    /// Linux `tcp_enter_recovery`. One reduction a window: in CWR the window falls already.
    fn enter_recovery(&mut self, ece: bool, in_flight: u64, now: Time) {
        let reducing = self.is_reducing();
        let probes = u32::from(self.tail.end.is_some() && self.tail.repeats);
        self.undo = Undo::begin(self.board.una(), self.board.resent() + probes, !reducing && !ece);
        if !reducing {
            self.start_reduction(Cause::Loss, in_flight, now);
        }
        self.state = State::Recovery;
    }

    /// Linux `tcp_init_cwnd_reduction`.
    fn start_reduction(&mut self, cause: Cause, in_flight: u64, now: Time) {
        self.recover = self.board.nxt();
        self.tail.end = None;
        self.prr = Prr::start(self.window());
        self.congestion(cause, in_flight, now);
        (self.episode_lost, self.kept_in_flight) = (0, 0);
        self.owes_cwr = self.config.ecn;
    }

    /// Tells the algorithm of an episode.
    pub(super) fn congestion(&mut self, cause: Cause, in_flight: u64, now: Time) {
        self.stats.episodes += 1;
        self.cc.on_congestion(&self.event(cause, in_flight, now));
    }

    fn event(&self, cause: Cause, in_flight: u64, now: Time) -> Congestion {
        Congestion { now, cause, lost: self.episode_lost, in_flight, srtt: self.rto.srtt() }
    }

    /// A timeout (`tcp_enter_loss`, `tcp_timeout_mark_lost`): the head and whatever should have been answered by now is lost. The threshold
    /// falls once for a window of data, the window to what is in flight and one segment.
    pub(super) fn enter_loss(&mut self, now: Time) {
        let (from, before) = (self.state, self.in_flight());
        let (una, nxt) = (self.board.una(), self.board.nxt());
        for seq in una..nxt {
            if seq == una || self.rack.is_overdue(self.board.segment(seq).stamp.sent, now) {
                let lost = self.board.mark_lost(seq);
                self.note_lost(lost);
            }
        }
        let fresh =
            matches!(from, State::Open | State::Disorder) || una >= self.recover || (from == State::Loss && self.timeouts_in_a_row == 0);
        if fresh {
            self.undo = Undo::begin(una, self.board.resent(), true);
            self.congestion(Cause::Timeout, before, now);
        } else if from != State::Loss || self.timeouts_in_a_row == 0 {
            self.cc.on_further_timeout(&self.event(Cause::Timeout, before, now));
        }
        self.kept_in_flight = self.in_flight();
        if matches!(from, State::Open | State::Disorder) {
            self.rack.expect_less_reordering(self.board.sacked());
        }
        self.frto = !matches!(from, State::Recovery | State::Loss) || self.timeouts_in_a_row > 0;
        self.state = State::Loss;
        self.recover = nxt;
        self.tail.end = None;
        self.owes_cwr = self.config.ecn;
    }

    /// Whether what was reduced was reduced for nothing (`tcp_may_undo`).
    fn may_undo(&self, echo: Time) -> bool {
        self.undo.is_open() && (self.undo.is_proven_by_duplicates() || answers_original(echo, self.first_retransmission))
    }

    /// Linux `tcp_try_undo_dsack`.
    fn undo_by_duplicates(&mut self, now: Time) -> bool {
        let proven = self.undo.is_proven_by_duplicates();
        if proven {
            self.rack.on_undone_by_dsack();
            self.give_back(false, now);
        }
        proven
    }

    /// The last reduction was for nothing (`tcp_undo_cwnd_reduction`). `losses`: nor was anything lost.
    fn give_back(&mut self, losses: bool, now: Time) {
        if losses {
            self.board.take_back_losses();
        }
        if self.undo.settle() {
            self.stats.undone += 1;
            self.cc.on_undo(now);
        }
        self.rack.judge_again();
    }

    /// The tail loss probe may be answered (`tcp_process_tlp_ack`, RFC 8985 §7.4.2): a loss that it repaired is congestion all the same.
    pub(super) fn check_probe(&mut self, news: &News, now: Time) {
        let una = self.board.una();
        let Some(end) = self.tail.end.filter(|&end| una >= end) else { return };
        if !self.tail.repeats || news.dsack_of_probe {
            self.tail.end = None;
        } else if una > end {
            self.episode_lost = u64::from(self.config.mss);
            self.start_reduction(Cause::Loss, news.in_flight, now);
            self.keep_open();
        } else if news.advanced == 0 && news.is_duplicate && !news.sacked_some {
            // A duplicate without DSACK: both arrived.
            self.tail.end = None;
        }
    }
}
