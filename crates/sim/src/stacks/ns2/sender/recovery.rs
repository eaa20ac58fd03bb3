//! Losses and timers of a sender: when something is lost, when an episode begins and ends, when to probe or to start over.

use lowtide_cc::{Cause, Congestion};
use lowtide_units::{Span, Time};

use super::{Detection, Due, Mode, Reduction, Sender, Way};
use crate::stacks::ns2::halving::Halving;
use crate::stacks::ns2::prr::Prr;
use crate::stacks::ns2::undo::Undo;

/// The longest a Linux receiver holds an ACK back: what a probe with one segment out waits in addition (RFC 8985 §7.2).
const WORST_ACK_DELAY: Span = Span::from_millis(200);
/// Duplicate ACKs that mean loss (RFC 5681).
pub(super) const DUP_THRESHOLD: u32 = 3;

/// What ns-3's socket makes of an acknowledgement outside recovery (`TcpSocketBase::DupAck`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disorder {
    /// It SACKs nothing, or comes during a recovery.
    No,
    /// CA_DISORDER: nothing grows, and the timer runs on.
    Waiting,
    /// A recovery begins.
    Over,
}

impl Sender {
    /// Declares segments lost; returns their bytes.
    pub(super) fn detect(&mut self, now: Time, advanced: bool) -> u64 {
        let lost = match self.config.detection {
            Detection::Rack => {
                let recovering = !matches!(self.mode, Mode::Open);
                let window = self.rack.reordering_window(recovering, self.board.sacked(), self.min_rtt, self.rto.srtt());
                let (lost, again) = self.rack.detect(&mut self.board, now, window);
                self.reorder = again;
                lost
            }
            Detection::Rfc6675 => {
                let below = self.board.lost_below();
                let from = self.judged.max(self.board.una());
                self.judged = self.judged.max(below);
                (from..below).map(|seq| self.judge(seq)).sum()
            }
            Detection::Timer => 0,
            Detection::NewReno | Detection::Reno => {
                let una = self.board.una();
                // RFC 6582 §3.2 step 2, ns-2 `dupack_action`: something above the recovery point must have arrived; until then
                // duplicates may answer what a timeout sent again for nothing.
                let fresh = una > self.recover || self.stats.episodes == 0;
                let third = matches!(self.mode, Mode::Open) && self.duplicates == DUP_THRESHOLD && fresh;
                let partial = self.config.detection == Detection::NewReno && self.in_recovery() && advanced && una < self.recover;
                if third || partial { self.board.mark_lost(una) } else { 0 }
            }
        };
        self.clock.on_lost(lost);
        self.episode_lost += lost;
        self.stats.losses += lost.div_ceil(u64::from(self.config.mss));
        lost
    }

    /// `seq` must have arrived by now: lost, but for a retransmission, for which the timer waits.
    fn judge(&mut self, seq: u32) -> u64 {
        if !self.board.segment(seq).retransmitted {
            return self.board.mark_lost(seq);
        }
        self.board.found_lost(seq);
        0
    }

    /// Ends an episode whose data has all arrived. Returns what was lost behind it meanwhile: sent after the reduction, so
    /// the next episode's cause (Linux `tcp_time_to_recover`: `lost_out`).
    pub(super) fn leave_episode(&mut self, advanced: bool) -> u64 {
        let at_once = self.config.detection == Detection::Reno && self.in_recovery();
        // A mark's lasts until something above is acknowledged: up to there the marks are of before the reduction, and must not
        // reduce again (Linux `tcp_fastretrans_alert`, ns-3 `TcpSocketBase::ReceivedAck`: `CA_CWR`).
        let marked = matches!(self.mode, Mode::Reducing { loss: false, .. });
        let over = self.board.una() > self.recover || (self.board.una() == self.recover && !marked);
        if !advanced || matches!(self.mode, Mode::Open) || !(over || at_once) {
            return 0;
        }
        if let Mode::Reducing { way, .. } = self.mode {
            self.rack.on_recovered();
            if matches!(way, Way::Halving(_)) {
                let outstanding = self.offset(self.board.nxt()) - self.offset(self.board.una());
                self.ceiling = Halving::moderated(outstanding, u64::from(self.config.mss));
            }
        }
        self.mode = Mode::Open;
        self.credit = 0;
        self.duplicates = 0;
        self.episode_lost = 0;
        self.board.missing()
    }

    /// Counts acknowledgements that SACK something, if ns-3's rule is in force.
    pub(super) fn disorder(&mut self, sacked: bool, advanced: bool) -> Option<Disorder> {
        if !self.config.disorder {
            return None;
        }
        Some(match self.mode {
            Mode::Open if sacked => {
                self.duplicates += 1;
                let over = self.duplicates == DUP_THRESHOLD || self.board.lost_behind_the_first();
                if over { Disorder::Over } else { Disorder::Waiting }
            }
            _ => {
                self.duplicates = if advanced { 0 } else { self.duplicates };
                Disorder::No
            }
        })
    }

    /// The bytes of a loss that begins an episode in ns-3, where the first hole is lost by then at the latest (`MarkHeadAsLost`), or that
    /// changes the name of one.
    pub(super) fn lost_in(&mut self, disorder: Disorder, lost: u64) -> u64 {
        match self.mode {
            Mode::Open if disorder != Disorder::Over => 0,
            Mode::Open => lost.max(self.board.mark_lost(self.board.una())).max(u64::from(self.config.mss)),
            _ => lost,
        }
    }

    pub(super) fn enter_episode(&mut self, lost: u64, ce: u64, before: u64, now: Time) {
        match self.mode {
            Mode::Open if lost > 0 => {
                self.episode_lost = lost;
                self.start_episode(Cause::Loss, before, now);
            }
            Mode::Open if ce > 0 => self.start_episode(Cause::Ecn, before, now),
            // One reduction a window: a loss after a mark only changes the name of the episode.
            Mode::Reducing { way, loss: false } if lost > 0 => self.mode = Mode::Reducing { way, loss: true },
            _ => {}
        }
    }

    fn start_episode(&mut self, cause: Cause, before: u64, now: Time) {
        self.recover = self.board.nxt();
        self.probed = None;
        self.restarted = false;
        self.undo = (self.config.undo && cause == Cause::Loss).then(|| Undo::new(self.board.una()));
        self.ceiling = u64::MAX;
        self.congestion(cause, before, now);
        let way = match self.config.reduction {
            Reduction::Prr if cause == Cause::Ecn && self.config.counts_twice => {
                let left = self.in_flight();
                Way::Prr(Prr::after(left, before.saturating_sub(left)))
            }
            Reduction::Prr => Way::Prr(Prr::start(before)),
            Reduction::Halving => Way::Halving(Halving::start(before, self.cc.cwnd(), u64::from(self.config.mss))),
            Reduction::AtOnce => Way::AtOnce,
        };
        self.mode = Mode::Reducing { way, loss: cause == Cause::Loss };
        self.fast = self.repairs_at_once();
    }

    fn congestion(&mut self, cause: Cause, in_flight: u64, now: Time) {
        self.stats.episodes += 1;
        self.cc.on_congestion(&Congestion { now, cause, lost: self.episode_lost, in_flight, srtt: self.rto.srtt() });
    }

    /// The last reduction was for nothing: the window is given back, and what was given up is still on its way.
    pub(super) fn give_back(&mut self, now: Time) {
        self.undo = None;
        self.stats.undone += 1;
        self.board.take_back_losses();
        self.cc.on_undo(now);
        self.mode = Mode::Open;
        (self.episode_lost, self.reorder) = (0, None);
    }

    /// A loss that a probe repaired is congestion all the same (RFC 8985 §7.4).
    pub(super) fn check_probe(&mut self, dsack: bool, before: u64, now: Time) {
        let Some(end) = self.probed.filter(|&end| self.board.una() >= end) else { return };
        self.probed = None;
        if !dsack && matches!(self.mode, Mode::Open) && self.board.una() >= end {
            self.episode_lost = u64::from(self.config.mss);
            self.start_episode(Cause::Loss, before, now);
        }
    }

    /// A timer may be due. Afterwards [`poll`](Self::poll).
    pub fn on_timer(&mut self, now: Time) {
        if self.wait.is_some_and(|at| at <= now) {
            self.wait = None;
        }
        if self.reorder.is_some_and(|at| at <= now) {
            let before = self.in_flight();
            let lost = self.detect(now, false);
            self.enter_episode(lost, 0, before, now);
            self.reduce(u64::from(lost > 0), false);
        }
        match self.timer {
            Some((at, Due::Probe)) if at <= now => {
                self.probe = true;
                self.timer = Some((now + self.rto.rto(), Due::Retransmit));
            }
            Some((at, Due::Retransmit)) if at <= now => self.time_out(now),
            _ => {}
        }
    }

    fn time_out(&mut self, now: Time) {
        let stalled = self.config.stalls && (self.window() < u64::from(self.config.mss) || self.next_len() > 0);
        if self.board.una() == self.board.nxt() && !stalled {
            // Nothing is out: the peer's window is too small, so ask it (persist).
            self.probe = true;
        } else {
            self.stats.timeouts += 1;
            let before = self.in_flight();
            let lost = self.board.mark_all_lost();
            self.stats.losses += lost.div_ceil(u64::from(self.config.mss));
            self.clock.on_lost(lost);
            self.episode_lost += lost;
            // Without progress since the last one it is the same congestion, waited for longer (RFC 5681 §3.1); with some it
            // is new, and the window starts over (Linux `tcp_enter_loss`: `!icsk_retransmits`).
            // ns-2's agent reduces each time (`enter_loss`), and so does ns-3, whose head is never marked as sent again by then
            // (`ReTxTimeout` after `SetSentListLost`).
            let always = self.config.stalls || self.config.detection == Detection::Timer;
            if always || !matches!(self.mode, Mode::Timeout) || !self.rto.is_backed_off() {
                // What fast recovery had reduced already is not given back (Linux `tcp_enter_loss`: `new_recovery`).
                let fresh = self.config.undo && !matches!(self.mode, Mode::Reducing { .. });
                self.undo = fresh.then(|| Undo::after_timeout(self.board.una(), self.board.transmissions()));
                self.mode = Mode::Timeout;
                self.ceiling = u64::MAX;
                self.congestion(Cause::Timeout, before, now);
            }
            self.recover = self.board.nxt();
            (self.credit, self.duplicates, self.probed, self.reorder) = (0, 0, None, None);
            if self.config.stalls {
                self.pacer.expire();
            }
        }
        self.rto.back_off();
        self.timer = Some((now + self.rto.rto(), Due::Retransmit));
    }

    /// Whether a recovery that has not sent the first hole's segment again does so whatever the window says: at its start and at each
    /// partial acknowledgement. By proportional rate reduction it has room for it anyway.
    pub(super) fn repairs_at_once(&self) -> bool {
        let recovering = matches!(self.mode, Mode::Reducing { way: Way::AtOnce, loss: true });
        let by_sack = self.config.detection == Detection::Rfc6675 && self.board.una() < self.board.nxt();
        recovering && by_sack && !self.board.segment(self.board.una()).repaired
    }

    /// Whether an acknowledgement of new data restarts the retransmission timer.
    pub(super) fn restarts_timer(&mut self) -> bool {
        let repairing = matches!(self.mode, Mode::Reducing { loss: true, .. });
        !(self.config.impatient && repairing && std::mem::replace(&mut self.restarted, true))
    }

    /// (Re)starts the retransmission timer, or a probe's where one is allowed.
    pub(super) fn arm(&mut self, now: Time) {
        let rto = self.rto.rto();
        let may_probe = self.config.tlp
            && self.config.detection == Detection::Rack
            && matches!(self.mode, Mode::Open)
            && self.board.sacked() == 0
            && self.probed.is_none();
        let srtt = self.rto.srtt();
        let wait = srtt * 2 + if self.board.in_flight_segments() == 1 { WORST_ACK_DELAY } else { Span::ZERO };
        self.timer = Some(match may_probe && srtt > Span::ZERO {
            true => (now + wait.min(rto), Due::Probe),
            false => (now + rto, Due::Retransmit),
        });
    }
}
