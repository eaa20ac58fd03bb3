//! The sending end of a connection: what leaves and when, what is lost, and what its congestion control is told. Knows
//! packets, not links. `ack.rs` takes acknowledgements in, `recovery.rs` is Linux's state machine, `rfc.rs` the RFCs', `timers.rs`
//! what happens when nothing comes.

mod ack;
mod config;
mod control;
mod recovery;
mod rfc;
#[cfg(test)]
mod testing;
mod timers;
mod way_back;

pub use config::{LossRecovery, SenderConfig};

use lowtide_cc::{Controller, Restart, Snapshot};
use lowtide_net::Ecn;
use lowtide_units::{Rate, Span, Time};

use super::pace::{Pacer, host_rate};
use super::prr::Prr;
use super::rack::Rack;
use super::rate::DeliveryClock;
use super::rto::RtoEstimator;
use super::scoreboard::Scoreboard;
use super::undo::Undo;
use super::usage::WindowUse;
use crate::packet::{Kind, Packet, TCP_HEADER};
use crate::sender_stats::{Note, SenderStats};
use control::Control;
use rfc::Duplicates;
use timers::{Due, Probe, TailProbe};
use way_back::OthersQueue;

/// The state of loss recovery (Linux `tcp_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing unusual.
    Open,
    /// Something is SACKed or was sent again, and nothing is lost.
    Disorder,
    /// The window is reduced because of an ECN echo.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// After a retransmission timeout.
    Loss,
}

/// The state of one sender.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    flow: u32,
    cc: Control,
    board: Scoreboard,
    clock: DeliveryClock,
    rack: Rack,
    rto: RtoEstimator,
    pacer: Pacer,
    used: WindowUse,
    /// Something left since sending last stopped.
    sent_some: bool,
    state: State,
    /// The state ends when everything below is acknowledged (`high_seq`).
    recover: u32,
    prr: Prr,
    /// Bytes in flight that a timeout did not give up: the window is above the algorithm's by as much (`tcp_enter_loss`).
    kept_in_flight: u64,
    undo: Undo,
    /// When the first retransmission of this episode left (`retrans_stamp`).
    first_retransmission: Option<Time>,
    /// Timeouts in a row without an acknowledgement of new data (`icsk_retransmits`).
    timeouts_in_a_row: u32,
    /// F-RTO (RFC 5682) watches whether the last timeout was spurious.
    frto: bool,
    /// Until the next acknowledgement only new data leaves (`REXMIT_NEW`, `REXMIT_NONE`).
    only_new: bool,
    tail: TailProbe,
    duplicates: Duplicates,
    episode_lost: u64,
    min_rtt: Span,
    round_end: u32,
    /// Payload bytes that the application has written; bytes the peer permits (the right window edge).
    written: u64,
    closed: bool,
    edge: u64,
    /// The next segment of new data answers an ECN echo (RFC 3168 §6.1.2).
    owes_cwr: bool,
    timer: Option<(Time, Due)>,
    /// When the pacer lets the next segment go.
    wait: Option<Time>,
    probe: Option<Probe>,
    last_sent: Option<Time>,
    peer_clock: Time,
    latest_rtt: Option<Span>,
    /// Where a queue on the way back is no part of the delays that the control is told.
    way_back: Option<Box<OthersQueue>>,
    stats: SenderStats,
}

impl Sender {
    /// A sender whose handshake took `handshake`; nothing to send yet.
    pub fn new(flow: u32, config: SenderConfig, cc: Box<dyn Controller>, handshake: Option<Span>, window: u64) -> Sender {
        let mut rto = RtoEstimator::new(config.rto, config.rto_floor);
        if let Some(rtt) = handshake {
            rto.sample(rtt, true);
        }
        let cc = Control::new(cc);
        Sender {
            config,
            flow,
            board: Scoreboard::default(),
            clock: DeliveryClock::default(),
            rack: Rack::default(),
            rto,
            pacer: Pacer::new(config.group).with_tso(config.tso),
            used: WindowUse::default(),
            sent_some: false,
            state: State::Open,
            recover: 0,
            prr: Prr::start(0),
            kept_in_flight: 0,
            undo: Undo::default(),
            first_retransmission: None,
            timeouts_in_a_row: 0,
            frto: false,
            only_new: false,
            tail: TailProbe::default(),
            duplicates: Duplicates::default(),
            episode_lost: 0,
            min_rtt: Span::MAX,
            round_end: 0,
            written: 0,
            closed: false,
            edge: window,
            owes_cwr: false,
            timer: None,
            wait: None,
            probe: None,
            last_sent: None,
            peer_clock: Time::ZERO,
            latest_rtt: None,
            way_back: cc.yields_to_others_only().then(Box::default),
            cc,
            stats: SenderStats::default(),
        }
    }

    /// The application writes `bytes` more; `u64::MAX` for a bulk transfer without end.
    pub fn write(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
    }

    /// Bytes written and not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.written.saturating_sub(self.offset(self.board.una()))
    }

    /// The application will write no more: the last segment carries the FIN.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// The application takes back what has not been sent.
    pub fn stop(&mut self) {
        self.written = self.offset(self.board.nxt()).min(self.written);
    }

    /// Everything written has been acknowledged.
    pub fn is_done(&self) -> bool {
        self.board.outstanding() == 0 && self.next_len() == 0
    }

    /// Counters.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    /// The congestion control's state.
    pub fn snapshot(&self) -> Snapshot {
        self.cc.snapshot()
    }

    /// Bytes in flight.
    pub fn in_flight(&self) -> u64 {
        self.board.in_flight().saturating_sub(self.duplicates.departed())
    }

    /// The smoothed RTT.
    pub fn srtt(&self) -> Span {
        self.rto.srtt()
    }

    /// The smallest RTT seen.
    pub fn min_rtt(&self) -> Option<Span> {
        (self.min_rtt < Span::MAX).then_some(self.min_rtt)
    }

    /// What became of its transmissions since the last call; the first call begins it.
    pub fn take_notes(&mut self) -> Vec<Note> {
        self.board.take_notes()
    }

    /// The RTT sample that the last acknowledgement gave.
    pub fn take_rtt(&mut self) -> Option<Span> {
        self.latest_rtt.take()
    }

    /// When [`on_timer`](Self::on_timer) is due.
    pub fn deadline(&self) -> Option<Time> {
        match (self.timer, self.wait) {
            (Some((at, _)), Some(wait)) => Some(at.min(wait)),
            (timer, wait) => timer.map(|(at, _)| at).or(wait),
        }
    }

    /// The window is being reduced (`tcp_in_cwnd_reduction`).
    fn is_reducing(&self) -> bool {
        matches!(self.state, State::Cwr | State::Recovery)
    }

    /// What may be in flight in bytes.
    pub fn window(&self) -> u64 {
        match self.state {
            State::Cwr | State::Recovery if self.reduces_in_proportion() => self.prr.cwnd(),
            State::Loss => self.cc.cwnd() + self.kept_in_flight,
            _ => self.cc.cwnd(),
        }
    }

    /// Linux reduces in proportion to what arrives, unless the algorithm answers for its window; the RFCs reduce at once.
    fn reduces_in_proportion(&self) -> bool {
        self.config.recovery == LossRecovery::Linux && !self.cc.has_own_recovery()
    }

    /// Writes the next packet to leave now to `room`, until there is none.
    pub fn poll(&mut self, now: Time, room: &mut Packet) -> bool {
        self.wait = None;
        if let Some(probe) = self.probe.take() {
            return self.send_probe(probe, now, room);
        }
        let pipe = self.in_flight();
        let again = if self.only_new { None } else { self.board.next_lost() };
        let len = again.map_or_else(|| self.next_len(), |seq| self.board.segment(seq).len());
        let forced = again.is_some() && std::mem::take(&mut self.duplicates.force);
        if len == 0 {
            self.out_of_data(pipe, now);
            return false;
        }
        if again.is_none() && !self.permitted(len) {
            self.stopped(pipe, now);
            self.await_window(now);
            return false;
        }
        if let Err(wait) = self.may_leave(pipe, len, forced, now) {
            self.wait = wait;
            if self.only_new && self.frto && self.board.nxt() <= self.recover {
                return self.repair_after_all(now, room);
            }
            self.stopped(pipe, now);
            return false;
        }
        self.send(again, len, now, room);
        true
    }

    /// F-RTO could send nothing new: what is lost is repaired after all (`tcp_xmit_recovery`).
    #[cold]
    #[inline(never)]
    fn repair_after_all(&mut self, now: Time, room: &mut Packet) -> bool {
        (self.only_new, self.frto) = (false, false);
        self.poll(now, room)
    }

    /// Whether the window and the pacer let `len` bytes go; if not, when to ask again, should no acknowledgement come first.
    #[inline]
    fn may_leave(&mut self, pipe: u64, len: u32, forced: bool, now: Time) -> Result<(), Option<Time>> {
        let window = self.window();
        if pipe + u64::from(len) > window && !forced {
            if window >= u64::from(len) {
                return Err(None);
            }
            self.pacer.below_one_segment(now, window, u64::from(self.config.mss), self.rto.srtt(), pipe == 0)?;
        }
        if self.pacer.allows(now) { Ok(()) } else { Err(Some(self.pacer.next())) }
    }

    /// Sending stops with `pipe` bytes in flight although there is data (`tcp_write_xmit`, `tcp_cwnd_validate`).
    fn stopped(&mut self, pipe: u64, now: Time) {
        self.schedule_probe(now);
        let limited = pipe + u64::from(self.config.mss) > self.window();
        if std::mem::take(&mut self.sent_some) || limited {
            self.used.note(self.board.una(), self.board.nxt(), limited);
        }
    }

    fn out_of_data(&mut self, pipe: u64, now: Time) {
        self.schedule_probe(now);
        let limited = pipe + u64::from(self.config.mss) > self.window();
        if !limited && self.board.awaiting_repair() == 0 {
            self.clock.set_app_limited(pipe);
        }
        if std::mem::take(&mut self.sent_some) {
            self.used.note(self.board.una(), self.board.nxt(), limited);
        }
    }

    #[inline]
    fn send(&mut self, again: Option<u32>, len: u32, now: Time, room: &mut Packet) {
        if self.board.outstanding() == 0 {
            self.restart(now);
        }
        let stamp = self.clock.stamp(now, self.in_flight(), u64::from(len));
        let was_empty = self.board.outstanding() == 0;
        let seq = match again {
            Some(seq) => {
                self.stats.retransmits += 1;
                self.undo.on_retransmission();
                self.first_retransmission.get_or_insert(now);
                self.board.send_again(seq, stamp);
                seq
            }
            None => self.board.send_new(stamp, len),
        };
        if self.is_reducing() {
            self.prr.on_sent(u64::from(len));
        }
        self.sent_some = true;
        self.on_sent(again, was_empty, now);
        self.fill(seq, len, again.is_some(), now, room);
    }

    /// After a pause the algorithm may doubt its window (`tcp_slow_start_after_idle_check`, CA_EVENT_TX_START).
    #[cold]
    fn restart(&mut self, now: Time) {
        if let Some(last) = self.last_sent {
            self.cc.on_restart(&Restart { now, idle: now.since(last), rto: self.rto.rto() });
        }
    }

    /// Writes the packet of segment `seq`, which leaves now.
    #[inline]
    fn fill(&mut self, seq: u32, len: u32, again: bool, now: Time, room: &mut Packet) {
        let rate = self.pacing_rate();
        self.pacer.on_sent(now, len, rate);
        self.last_sent = Some(now);
        *room = Packet::new(self.flow, Kind::Data, len + TCP_HEADER, now);
        room.seq = seq;
        room.echo = self.peer_clock;
        room.retransmission = again;
        room.fin = self.closed && self.offset(seq) + u64::from(len) == self.written;
        // RFC 3168 §6.1.5: retransmissions are not ECN-capable.
        if self.config.ecn && !again {
            room.ecn = Ecn::Ect0;
            room.cwr = std::mem::take(&mut self.owes_cwr);
        }
    }

    /// The rate at which segments leave, if they are paced.
    pub fn pacing_rate(&self) -> Option<Rate> {
        let own = self.cc.pacing_rate();
        if own.is_some() || !self.config.pacing {
            return own;
        }
        host_rate(self.cc.cwnd().max(self.in_flight()), self.cc.snapshot().ssthresh, self.rto.srtt())
    }

    fn offset(&self, seq: u32) -> u64 {
        u64::from(seq) * u64::from(self.config.mss)
    }

    /// Payload bytes of the next new segment; zero if the application has written no more.
    fn next_len(&self) -> u32 {
        let left = self.written.saturating_sub(self.offset(self.board.nxt()));
        left.min(u64::from(self.config.mss)) as u32
    }

    /// Whether the peer's window permits `len` bytes more.
    fn permitted(&self, len: u32) -> bool {
        self.offset(self.board.nxt()) + u64::from(len) <= self.edge
    }
}
