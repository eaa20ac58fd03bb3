//! The sending end of a connection: what leaves and when, what is lost, and what its congestion control is told. Knows
//! packets, not links; the loss-detection rules and the recovery arithmetic are in their own files.

mod ack;
mod config;
mod recovery;

pub use config::{Detection, Reduction, SenderConfig};

use lowtide_cc::{Recovery, Restart, Snapshot};
use lowtide_net::Ecn;
use lowtide_replicas::Replica;
use lowtide_units::{Rate, Span, Time};

use super::halving::Halving;
use super::pace::{Pacer, host_rate};
use super::prr::Prr;
use super::rack::Rack;
use super::rate::DeliveryClock;
use super::rto::RtoEstimator;
use super::sack::Scoreboard;
use super::undo::Undo;
use super::usage::WindowUse;
use crate::endpoint::{Note, SenderStats};
use crate::packet::{Kind, Packet, TCP_HEADER};

#[derive(Clone, Copy, Debug)]
enum Mode {
    Open,
    /// Fast recovery, or after an ECN echo, until everything sent before it is acknowledged.
    Reducing {
        way: Way,
        loss: bool,
    },
    /// After a timeout: slow start from the algorithm's window.
    Timeout,
}

/// The way down to the window that the algorithm wants after an episode.
#[derive(Clone, Copy, Debug)]
enum Way {
    Prr(Prr),
    Halving(Halving),
    AtOnce,
}

/// What the retransmission timer does when it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Probe,
    Retransmit,
}

/// The state of one sender.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    flow: u32,
    cc: Box<dyn Replica>,
    board: Scoreboard,
    clock: DeliveryClock,
    rack: Rack,
    rto: RtoEstimator,
    pacer: Pacer,
    used: WindowUse,
    mode: Mode,
    /// After an episode that ended with less in flight than the algorithm wants: slow start up to that ([`Halving::moderated`]).
    ceiling: u64,
    /// The episode ends when this segment has been acknowledged.
    recover: u32,
    episode_lost: u64,
    /// RFC 6675: everything below is already judged.
    judged: u32,
    /// Without SACK: duplicate ACKs in a row and the bytes they say have left the network.
    duplicates: u32,
    credit: u64,
    min_rtt: Span,
    round_end: u32,
    /// Payload bytes that the application has written; bytes the peer permits.
    written: u64,
    closed: bool,
    edge: u64,
    timer: Option<(Time, Due)>,
    /// An impatient sender's timer has been restarted in this recovery.
    restarted: bool,
    reorder: Option<Time>,
    wait: Option<Time>,
    probe: bool,
    /// What is lost first leaves at once, whatever the window says (RFC 6675 §5 (4.3), ns-3's `DoRetransmit`).
    fast: bool,
    /// A probe repeated the highest segment; its acknowledgement without a DSACK means a loss was repaired.
    probed: Option<u32>,
    /// Whether the last reduction was for nothing.
    undo: Option<Undo>,
    idle_since: Option<Time>,
    peer_clock: Time,
    latest_rtt: Option<Span>,
    owd: Option<i64>,
    echo_age: Option<Span>,
    stats: SenderStats,
}

impl Sender {
    /// A sender whose handshake took `handshake`; nothing to send yet.
    pub fn new(flow: u32, config: SenderConfig, cc: Box<dyn Replica>, handshake: Option<Span>, window: u64) -> Sender {
        let mut rto = RtoEstimator::new(config.rto, config.rto_floor);
        if let Some(rtt) = handshake {
            rto.sample(rtt, true);
        }
        let mut board = Scoreboard::default();
        if config.ghosts {
            board.keep_ghosts();
        }
        Sender {
            config,
            flow,
            cc,
            board,
            clock: DeliveryClock::default(),
            rack: Rack::default(),
            rto,
            pacer: if config.ghosts { Pacer::of_ns3(config.group) } else { Pacer::new(config.group) },
            used: WindowUse::default(),
            mode: Mode::Open,
            ceiling: u64::MAX,
            recover: 0,
            episode_lost: 0,
            judged: 0,
            duplicates: 0,
            credit: 0,
            min_rtt: Span::MAX,
            round_end: 0,
            // A SYN that is a segment stands before what the application writes.
            written: if config.one_way { u64::from(config.mss) } else { 0 },
            closed: false,
            edge: window,
            timer: None,
            restarted: false,
            reorder: None,
            wait: None,
            probe: false,
            fast: false,
            probed: None,
            undo: None,
            idle_since: None,
            peer_clock: Time::ZERO,
            latest_rtt: None,
            owd: None,
            echo_age: None,
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
        self.board.una() == self.board.nxt() && self.next_len() == 0
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
        self.board.pipe().saturating_sub(self.credit)
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
        let retransmit = self.timer.map(|(at, _)| at);
        [retransmit, self.reorder, self.wait].into_iter().flatten().min()
    }

    fn in_recovery(&self) -> bool {
        matches!(self.mode, Mode::Reducing { .. })
    }

    /// The next packet to leave now, until there is none.
    pub fn poll(&mut self, now: Time) -> Option<Packet> {
        self.wait = None;
        let window = self.window();
        let pipe = self.in_flight();
        let again = self.board.next_lost();
        let len = again.map_or_else(|| self.next_len(), |seq| self.board.segment(seq).len);
        if std::mem::take(&mut self.probe) {
            return self.send_probe(now);
        }
        if len == 0 {
            self.out_of_data(pipe, window);
            return None;
        }
        if again.is_none() && !self.permitted(len) {
            self.used.note(self.board.una(), self.board.nxt(), self.board.in_flight_segments(), false);
            if pipe == 0 && self.timer.is_none() {
                self.arm(now);
            }
            return None;
        }
        let fast = std::mem::take(&mut self.fast) && again.is_some();
        let full = pipe + u64::from(len) > window && !fast;
        if full {
            let verdict = if window < u64::from(len) {
                self.pacer.below_one_segment(now, window, u64::from(self.config.mss), self.rto.srtt(), pipe == 0)
            } else {
                Err(None)
            };
            if let Err(due) = verdict {
                self.wait = due;
                self.used.note(self.board.una(), self.board.nxt(), self.board.in_flight_segments(), true);
                return None;
            }
        }
        // ns-3's `DoRetransmit` does not ask its pacing timer.
        if self.pacer.next() > now && !(fast && self.config.ghosts) {
            self.wait = Some(self.pacer.next());
            self.used.note(self.board.una(), self.board.nxt(), self.board.in_flight_segments(), pipe + 2 * u64::from(len) > window);
            return None;
        }
        Some(self.send(again, len, now))
    }

    fn window(&self) -> u64 {
        // ns-3's `Window`: the pipe with its repairs, not only what is new, stays within the peer's window.
        let peers = if self.config.ghosts { self.edge.saturating_sub(self.offset(self.board.una())) } else { u64::MAX };
        peers.min(self.own_window())
    }

    fn own_window(&self) -> u64 {
        match self.mode {
            Mode::Reducing { way: Way::Prr(prr), .. } if self.cc.recovery() == Recovery::Host => prr.cwnd(),
            Mode::Reducing { way: Way::Halving(halving), .. } => halving.cwnd(),
            Mode::Open => self.cc.cwnd().min(self.ceiling),
            _ => self.cc.cwnd(),
        }
    }

    fn out_of_data(&mut self, pipe: u64, window: u64) {
        let limited = pipe + u64::from(self.config.mss) > window;
        if !limited {
            self.clock.set_app_limited(pipe);
        }
        self.used.note(self.board.una(), self.board.nxt(), self.board.in_flight_segments(), limited);
    }

    fn send_probe(&mut self, now: Time) -> Option<Packet> {
        let len = self.next_len();
        if len > 0 && (self.permitted(len) || self.board.una() == self.board.nxt()) {
            return Some(self.send(None, len, now));
        }
        // The highest segment that the receiver is not known to hold: one it has would tell nothing.
        let last = self.board.highest_missing()?;
        self.probed = Some(self.board.nxt());
        let len = self.board.segment(last).len;
        Some(self.send(Some(last), len, now))
    }

    fn send(&mut self, again: Option<u32>, len: u32, now: Time) -> Packet {
        let pipe = self.in_flight();
        if let Some(since) = self.idle_since.take()
            && now > since
            && pipe == 0
        {
            self.cc.on_restart(&Restart { now, idle: now.since(since), rto: self.rto.rto() });
        }
        let stamp = self.clock.stamp(now, pipe, u64::from(len));
        let seq = match again {
            Some(seq) => {
                self.stats.retransmits += 1;
                if let Some(undo) = &mut self.undo {
                    undo.on_retransmission(seq, now);
                }
                self.board.send_again(seq, stamp);
                seq
            }
            None => self.board.send_new(stamp, len),
        };
        match &mut self.mode {
            Mode::Reducing { way: Way::Prr(prr), .. } => prr.on_sent(u64::from(len)),
            Mode::Reducing { way: Way::Halving(halving), .. } => halving.on_sent(pipe + u64::from(len)),
            _ => {}
        }
        self.pacer.on_sent(now, len, self.pacing_rate());
        let restart = match self.timer {
            None => true,
            Some((_, Due::Probe)) => again.is_none(),
            Some((_, Due::Retransmit)) => again == Some(self.board.una()) && !self.config.impatient,
        };
        if restart {
            self.arm(now);
        }
        let payload = if self.config.one_way && seq == 0 { 0 } else { len };
        let mut packet = Packet::new(self.flow, Kind::Data, payload + TCP_HEADER, now);
        packet.seq = seq;
        packet.echo = self.peer_clock;
        packet.retransmission = again.is_some();
        packet.fin = self.closed && self.offset(seq) + u64::from(len) == self.written;
        // RFC 3168 §6.1.5: retransmissions are not ECN-capable.
        if self.config.ecn && again.is_none() {
            packet.ecn = Ecn::Ect0;
        }
        packet
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

    fn permitted(&self, len: u32) -> bool {
        self.offset(self.board.nxt()) + u64::from(len) <= self.edge
    }
}
