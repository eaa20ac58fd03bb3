//! What a sender does when nothing comes: the one timer that is retransmission timeout, tail loss probe (RFC 8985 §7), reordering
//! timeout and window probe by turns (Linux `icsk_pending`).

use lowtide_units::{Span, Time};

use super::{LossRecovery, Sender, State};
use crate::packet::{Kind, Packet, TCP_HEADER};

/// What a probe waits beyond two round trips (Linux `TCP_TIMEOUT_MIN_US`).
pub(super) const TIMEOUT_MIN: Span = Span::from_millis(2);
/// The longest time between two window probes (Linux `TCP_RTO_MAX`).
const PERSIST_MAX: Span = Span::from_secs(120);
/// The shortest (Linux `TCP_RTO_MIN`).
const PERSIST_MIN: Span = Span::from_millis(200);

/// What the timer does when it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Looks for losses again.
    Reordering,
    /// Probes the tail.
    Probe,
    /// Starts over.
    Retransmit,
    /// Asks whether the peer's window has opened.
    Persist,
}

/// What leaves out of turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// A segment to draw an acknowledgement.
    Tail,
    /// A question for the peer's window.
    Window,
}

/// The tail loss probe that is out (`tlp_high_seq`, `tlp_retrans`), and how often the window was asked for in vain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TailProbe {
    /// SND.NXT when the probe left.
    pub end: Option<u32>,
    /// It repeated a segment.
    pub repeats: bool,
    /// New data has left since the timer was set: a probe is due once sending stops.
    pub wanted: bool,
    pub persist_backoff: u32,
}

impl Sender {
    /// The pacer or the timer may be due. Afterwards [`poll`](Self::poll).
    pub fn on_timer(&mut self, now: Time) {
        if self.wait.is_some_and(|at| at <= now) {
            self.wait = None;
        }
        let Some((_, due)) = self.timer.filter(|&(at, _)| at <= now) else { return };
        self.only_new = false;
        match due {
            Due::Reordering => self.on_reordering_timeout(now),
            Due::Probe => match self.tail.end {
                // One is out.
                Some(_) => self.restart_retransmission_timer(now),
                None => self.probe = Some(Probe::Tail),
            },
            Due::Retransmit => self.time_out(now),
            Due::Persist => {
                self.probe = Some(Probe::Window);
                self.tail.persist_backoff = (self.tail.persist_backoff + 1).min(16);
                self.timer = Some((now + self.persist_time(), Due::Persist));
            }
        }
    }

    fn time_out(&mut self, now: Time) {
        self.timer = None;
        if self.board.outstanding() == 0 {
            return;
        }
        self.stats.timeouts += 1;
        match self.config.recovery {
            LossRecovery::Linux => self.enter_loss(now),
            LossRecovery::Sack | LossRecovery::NewReno => self.time_out_by_rfc(now),
        }
        self.timeouts_in_a_row += 1;
        self.rto.back_off();
        self.timer = Some((now + self.rto.rto(), Due::Retransmit));
    }

    /// A probe leaves (Linux `tcp_send_loss_probe`, `tcp_write_wakeup`), unless there is nothing to send.
    pub(super) fn send_probe(&mut self, probe: Probe, now: Time, room: &mut Packet) -> bool {
        let len = self.next_len();
        let new = len > 0 && (self.permitted(len) || (probe == Probe::Window && self.edge > self.offset(self.board.nxt())));
        let leaves = if new {
            // Sequence numbers count segments here: one that the peer's window has room for in part leaves whole.
            self.tail.repeats = false;
            self.send(None, len, now, room);
            true
        } else if probe == Probe::Window {
            // Below the left edge, without data: a receiver answers it (`tcp_xmit_probe_skb`).
            *room = Packet::new(self.flow, Kind::Data, TCP_HEADER, now);
            (room.seq, room.echo) = (self.board.una(), self.peer_clock);
            return true;
        } else {
            self.repeat_last(now, room)
        };
        if probe == Probe::Tail {
            self.tail.wanted = false;
            self.tail.end = leaves.then(|| self.board.nxt());
            self.timer = None;
            self.restart_retransmission_timer(now);
        }
        leaves
    }

    /// The last segment leaves once more; it counts as in flight as it did.
    fn repeat_last(&mut self, now: Time, room: &mut Packet) -> bool {
        let Some(last) = (self.board.una()..self.board.nxt()).next_back() else { return false };
        let segment = *self.board.segment(last);
        if segment.sacked || segment.awaits_repair() {
            return false;
        }
        let stamp = self.clock.stamp(now, self.in_flight(), u64::from(segment.len()));
        self.board.send_probe(last, stamp);
        self.stats.retransmits += 1;
        self.tail.repeats = true;
        self.fill(last, segment.len(), true, now, room);
        true
    }

    /// A segment left, as the only one out if `was_empty` (`tcp_event_new_data_sent`, `tcp_xmit_retransmit_queue`).
    #[inline]
    pub(super) fn on_sent(&mut self, again: Option<u32>, was_empty: bool, now: Time) {
        match again {
            Some(seq) if seq != self.board.una() || matches!(self.timer, Some((_, Due::Reordering))) => {}
            Some(_) => self.timer = Some((now + self.rto.rto(), Due::Retransmit)),
            None => {
                self.tail.wanted = true;
                if was_empty || matches!(self.timer, Some((_, Due::Probe)) | None) {
                    self.restart_retransmission_timer(now);
                }
            }
        }
    }

    /// Sending stops for now: a tail loss probe may be due (`tcp_write_xmit`).
    #[inline]
    pub(super) fn schedule_probe(&mut self, now: Time) {
        if std::mem::take(&mut self.tail.wanted) {
            self.set_probe(now, false);
        }
    }

    /// After an acknowledgement of new data: the probe's timer, or the retransmission timer (`tcp_set_xmit_timer`).
    pub(super) fn restart_timer(&mut self, now: Time) {
        if !self.set_probe(now, true) {
            self.restart_retransmission_timer(now);
        }
    }

    /// Linux `tcp_schedule_loss_probe`; whether one is allowed. `restarts`: the retransmission timer would start anew.
    fn set_probe(&mut self, now: Time, restarts: bool) -> bool {
        let calm = matches!(self.state, State::Open | State::Cwr);
        if self.config.recovery != LossRecovery::Linux || !calm || self.board.outstanding() == 0 {
            return false;
        }
        let srtt = self.rto.srtt();
        let wait = match self.board.outstanding() {
            _ if srtt == Span::ZERO => Span::from_secs(1),
            // Its acknowledgement may be delayed.
            1 => srtt * 2 + self.rto.floor(),
            _ => srtt * 2 + TIMEOUT_MIN,
        };
        let timeout = if restarts { now } else { self.head_sent() } + self.rto.rto();
        let at = now + wait;
        self.timer = Some((if timeout > now { at.min(timeout) } else { at }, Due::Probe));
        true
    }

    fn head_sent(&self) -> Time {
        self.board.segment(self.board.una()).stamp.sent
    }

    /// Linux `tcp_rearm_rto`. Where a probe or the reordering timer has run meanwhile, from the head's last transmission on.
    pub(super) fn restart_retransmission_timer(&mut self, now: Time) {
        if self.board.outstanding() == 0 {
            self.timer = None;
            return;
        }
        let at = match self.timer {
            Some((_, Due::Probe | Due::Reordering)) => (self.head_sent() + self.rto.rto()).max(now + Span::from_micros(1)),
            _ => now + self.rto.rto(),
        };
        self.timer = Some((at, Due::Retransmit));
    }

    /// The peer's window is closed and nothing is out: it has to be asked (RFC 9293 §3.8.6.1, `tcp_check_probe_timer`).
    pub(super) fn await_window(&mut self, now: Time) {
        if self.board.outstanding() == 0 && self.timer.is_none() {
            self.timer = Some((now + self.persist_time(), Due::Persist));
        }
    }

    pub(super) fn persist_time(&self) -> Span {
        (self.rto.rto().max(PERSIST_MIN) * (1 << self.tail.persist_backoff)).min(PERSIST_MAX)
    }
}
