//! The sending end of a connection: what leaves and when, what is lost, and what its congestion control is told. Knows
//! packets, not links; the loss-detection rules and the recovery arithmetic are in their own files.

use lowtide_cc::{Ack, Cause, Congestion, Controller, Recovery, Restart, Snapshot};
use lowtide_net::Ecn;
use lowtide_units::{Rate, Span, Time};

use super::pace::{Pacer, host_rate};
use super::prr::Prr;
use super::rack::Rack;
use super::rate::DeliveryClock;
use super::rto::{RtoEstimator, RtoProfile};
use super::sack::{Scoreboard, Segment};
use super::usage::WindowUse;
use crate::packet::{Kind, Packet, TCP_HEADER};

/// How losses are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detection {
    /// RACK (RFC 8985).
    #[default]
    Rack,
    /// Three segments SACKed above (RFC 6675); lost retransmissions wait for the timer.
    Rfc6675,
    /// Three duplicate ACKs, then one hole a round trip (RFC 6582); the receiver need not SACK.
    NewReno,
}

/// How a sender behaves besides its congestion control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderConfig {
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// How losses are noticed.
    pub detection: Detection,
    /// Fast recovery by PRR; without it the window falls to the threshold at once.
    pub prr: bool,
    /// The retransmission timer.
    pub rto: RtoProfile,
    /// Its floor, the profile's own if absent.
    pub rto_floor: Option<Span>,
    /// Tail loss probes (RFC 8985 §7).
    pub tlp: bool,
    /// The clock that RTT samples are read from ticks this often; zero: exact.
    pub granularity: Span,
    /// Pace even if the algorithm names no rate.
    pub pacing: bool,
    /// Send ECN-capable and react to marks.
    pub ecn: bool,
    /// Segments that leave together while the window is below one.
    pub group: u32,
}

impl SenderConfig {
    /// Linux's defaults without pacing.
    pub fn linux(mss: u32) -> SenderConfig {
        SenderConfig {
            mss,
            detection: Detection::Rack,
            prr: true,
            rto: RtoProfile::Linux,
            rto_floor: None,
            tlp: true,
            granularity: Span::ZERO,
            pacing: false,
            ecn: false,
            group: 2,
        }
    }
}

/// Counters of one sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Segments sent again.
    pub retransmits: u64,
    /// Segments declared lost.
    pub losses: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Times the congestion control was told of congestion.
    pub episodes: u64,
}

/// The longest a Linux receiver holds an ACK back: what a probe with one segment out waits in addition (RFC 8985 §7.2).
const WORST_ACK_DELAY: Span = Span::from_millis(200);
/// Duplicate ACKs that mean loss (RFC 5681).
const DUP_THRESHOLD: u32 = 3;

#[derive(Clone, Copy, Debug)]
enum Mode {
    Open,
    /// Fast recovery, or after an ECN echo: sends by PRR until everything sent before it is acknowledged.
    Reducing {
        prr: Prr,
        loss: bool,
    },
    /// After a timeout: slow start from the algorithm's window.
    Timeout,
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
    cc: Box<dyn Controller>,
    board: Scoreboard,
    clock: DeliveryClock,
    rack: Rack,
    rto: RtoEstimator,
    pacer: Pacer,
    used: WindowUse,
    mode: Mode,
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
    edge: u64,
    timer: Option<(Time, Due)>,
    reorder: Option<Time>,
    wait: Option<Time>,
    probe: bool,
    /// A probe repeated the highest segment; its acknowledgement without a DSACK means a loss was repaired.
    probed: Option<u32>,
    idle_since: Option<Time>,
    peer_clock: Time,
    latest_rtt: Option<Span>,
    owd: Option<i64>,
    stats: SenderStats,
}

/// What one acknowledgement delivered.
#[derive(Default)]
struct Delivery {
    bytes: u64,
    newest: Option<Segment>,
}

impl Delivery {
    fn add(&mut self, segment: &Segment) {
        self.bytes += u64::from(segment.len);
        if self.newest.is_none_or(|newest| segment.order > newest.order) {
            self.newest = Some(*segment);
        }
    }
}

impl Sender {
    /// A sender whose handshake took `handshake`; nothing to send yet.
    pub fn new(flow: u32, config: SenderConfig, cc: Box<dyn Controller>, handshake: Option<Span>, window: u64) -> Sender {
        let mut rto = RtoEstimator::new(config.rto, config.rto_floor);
        if let Some(rtt) = handshake {
            rto.sample(rtt, true);
        }
        Sender {
            config,
            flow,
            cc,
            board: Scoreboard::default(),
            clock: DeliveryClock::default(),
            rack: Rack::default(),
            rto,
            pacer: Pacer::new(config.group),
            used: WindowUse::default(),
            mode: Mode::Open,
            recover: 0,
            episode_lost: 0,
            judged: 0,
            duplicates: 0,
            credit: 0,
            min_rtt: Span::MAX,
            round_end: 0,
            written: 0,
            edge: window,
            timer: None,
            reorder: None,
            wait: None,
            probe: false,
            probed: None,
            idle_since: None,
            peer_clock: Time::ZERO,
            latest_rtt: None,
            owd: None,
            stats: SenderStats::default(),
        }
    }

    /// The application writes `bytes` more; `u64::MAX` for a bulk transfer without end.
    pub fn write(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
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
        self.board.in_flight().saturating_sub(self.credit)
    }

    /// The smoothed RTT.
    pub fn srtt(&self) -> Span {
        self.rto.srtt()
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

    /// An acknowledgement arrives. Afterwards [`poll`](Self::poll).
    pub fn on_ack(&mut self, ack: &Packet, now: Time) {
        let before = self.in_flight();
        let una = self.board.una();
        self.owd = Some(ack.owd);
        let (mut delivery, dsack) = self.take_delivered(ack, now);
        let advanced = self.board.una() > una;
        self.edge = self.edge.max(self.offset(ack.seq) + u64::from(ack.window));
        let duplicate = self.count_duplicates(&mut delivery, ack, advanced);
        if advanced {
            self.peer_clock = ack.sent;
            self.rto.progress();
        }
        if delivery.bytes > 0 {
            self.clock.on_delivered(now, delivery.bytes);
        }
        let rtt = self.sample_rtt(&delivery, now);
        let lost = self.detect(now, advanced);
        self.leave_episode(advanced);
        self.check_probe(dsack, before, now);
        self.enter_episode(lost, u64::from(ack.ce), before, now);
        if delivery.bytes > 0 && !(duplicate && matches!(self.mode, Mode::Open)) {
            self.tell(&delivery, lost, u64::from(ack.ce), before, rtt, now);
        }
        self.reduce(delivery.bytes, advanced && lost == 0);
        if advanced {
            self.arm(now);
        }
        if self.board.una() == self.board.nxt() {
            self.timer = None;
            self.idle_since = Some(now);
        }
    }

    fn take_delivered(&mut self, ack: &Packet, now: Time) -> (Delivery, bool) {
        let Sender { board, rack, min_rtt, .. } = self;
        let mut delivery = Delivery::default();
        let mut visit = |seq: u32, segment: &Segment| {
            delivery.add(segment);
            rack.on_delivered(seq, segment, now, *min_rtt);
        };
        board.acknowledge(ack.seq, &mut visit);
        let mut dsack = false;
        for (n, &(from, to)) in ack.sack.iter().enumerate().filter(|(_, block)| block.0 < block.1) {
            // RFC 2883 §4: a first block below the ACK or inside the second reports a duplicate.
            let inside_next = n == 0 && ack.sack[1].0 <= from && to <= ack.sack[1].1;
            if to <= ack.seq || inside_next {
                dsack = true;
            } else {
                board.sack(from, to, &mut visit);
            }
        }
        if dsack {
            rack.on_dsack();
        }
        (delivery, dsack)
    }

    /// Without SACK a duplicate ACK stands for one segment delivered (Linux `tcp_add_reno_sack`). Whether this is one.
    fn count_duplicates(&mut self, delivery: &mut Delivery, ack: &Packet, advanced: bool) -> bool {
        if self.config.detection != Detection::NewReno {
            return false;
        }
        let mss = u64::from(self.config.mss);
        if advanced {
            let known = self.credit.min(delivery.bytes.saturating_sub(mss));
            self.credit -= known;
            delivery.bytes -= known;
            self.duplicates = 0;
            return false;
        }
        if ack.seq != self.board.una() || self.in_flight() == 0 {
            return false;
        }
        self.duplicates += 1;
        self.credit += mss;
        delivery.bytes += mss;
        true
    }

    fn sample_rtt(&mut self, delivery: &Delivery, now: Time) -> Option<Span> {
        let Segment { stamp, .. } = delivery.newest.filter(|newest| !newest.retransmitted)?;
        let tick = self.config.granularity.nanos();
        let rtt = match tick {
            0 => now.since(stamp.sent),
            _ => Span::from_nanos((now.nanos() / tick - stamp.sent.nanos() / tick) * tick),
        };
        let round_ended = self.board.una() > self.round_end;
        if round_ended {
            self.round_end = self.board.nxt();
        }
        self.rto.sample(rtt, round_ended);
        self.min_rtt = self.min_rtt.min(rtt);
        self.latest_rtt = Some(rtt);
        Some(rtt)
    }

    fn in_recovery(&self) -> bool {
        matches!(self.mode, Mode::Reducing { .. })
    }

    /// Declares segments lost; returns their bytes.
    fn detect(&mut self, now: Time, advanced: bool) -> u64 {
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
                (from..below).map(|seq| if self.board.segment(seq).retransmitted { 0 } else { self.board.mark_lost(seq) }).sum()
            }
            Detection::NewReno => {
                let una = self.board.una();
                let third = matches!(self.mode, Mode::Open) && self.duplicates == DUP_THRESHOLD && una >= self.recover;
                let partial = self.in_recovery() && advanced && una < self.recover;
                if third || partial { self.board.mark_lost(una) } else { 0 }
            }
        };
        self.clock.on_lost(lost);
        self.episode_lost += lost;
        self.stats.losses += lost.div_ceil(u64::from(self.config.mss));
        lost
    }

    fn leave_episode(&mut self, advanced: bool) {
        if !advanced || matches!(self.mode, Mode::Open) || self.board.una() < self.recover {
            return;
        }
        if self.in_recovery() {
            self.rack.on_recovered();
        }
        self.mode = Mode::Open;
        self.credit = 0;
        self.duplicates = 0;
        self.episode_lost = 0;
    }

    fn enter_episode(&mut self, lost: u64, ce: u64, before: u64, now: Time) {
        match self.mode {
            Mode::Open if lost > 0 => {
                self.episode_lost = lost;
                self.start_episode(Cause::Loss, before, now);
            }
            Mode::Open if ce > 0 => self.start_episode(Cause::Ecn, before, now),
            // One reduction a window: a loss after a mark only changes the name of the episode.
            Mode::Reducing { prr, loss: false } if lost > 0 => self.mode = Mode::Reducing { prr, loss: true },
            _ => {}
        }
    }

    fn start_episode(&mut self, cause: Cause, before: u64, now: Time) {
        self.recover = self.board.nxt();
        self.probed = None;
        self.mode = Mode::Reducing { prr: Prr::start(before), loss: cause == Cause::Loss };
        self.congestion(cause, before, now);
    }

    fn congestion(&mut self, cause: Cause, in_flight: u64, now: Time) {
        self.stats.episodes += 1;
        self.cc.on_congestion(&Congestion { now, cause, lost: self.episode_lost, in_flight, srtt: self.rto.srtt() });
    }

    /// A loss that a probe repaired is congestion all the same (RFC 8985 §7.4).
    fn check_probe(&mut self, dsack: bool, before: u64, now: Time) {
        let Some(end) = self.probed.filter(|&end| self.board.una() >= end) else { return };
        self.probed = None;
        if !dsack && matches!(self.mode, Mode::Open) && self.board.una() >= end {
            self.episode_lost = u64::from(self.config.mss);
            self.start_episode(Cause::Loss, before, now);
        }
    }

    fn tell(&mut self, delivery: &Delivery, lost: u64, ce: u64, before: u64, rtt: Option<Span>, now: Time) {
        let stamp = delivery.newest.map(|newest| newest.stamp);
        let min_rtt = if self.min_rtt == Span::MAX { Span::ZERO } else { self.min_rtt };
        let rate = stamp.and_then(|stamp| self.clock.sample(now, &stamp, min_rtt, false));
        self.cc.on_ack(&Ack {
            now,
            acked: delivery.bytes,
            lost,
            ce,
            in_flight: before,
            rtt,
            srtt: self.rto.srtt(),
            owd: self.owd.take(),
            delivered: self.clock.delivered(),
            prior_delivered: stamp.map_or(0, |stamp| stamp.delivered),
            rate,
            cwnd_limited: self.used.limited(),
            in_recovery: self.in_recovery(),
        });
    }

    fn reduce(&mut self, delivered: u64, advanced: bool) {
        let (pipe, ssthresh) = (self.in_flight(), self.cc.cwnd());
        if let Mode::Reducing { prr, .. } = &mut self.mode
            && delivered > 0
        {
            prr.on_ack(delivered, pipe, ssthresh, u64::from(self.config.mss), advanced);
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
        if self.board.una() == self.board.nxt() {
            // Nothing is out: the peer's window is too small, so ask it (persist).
            self.probe = true;
        } else {
            self.stats.timeouts += 1;
            let before = self.in_flight();
            let lost = self.board.mark_all_lost();
            self.stats.losses += lost.div_ceil(u64::from(self.config.mss));
            self.clock.on_lost(lost);
            self.episode_lost += lost;
            if !matches!(self.mode, Mode::Timeout) {
                self.mode = Mode::Timeout;
                self.congestion(Cause::Timeout, before, now);
            }
            self.recover = self.board.nxt();
            (self.credit, self.duplicates, self.probed, self.reorder) = (0, 0, None, None);
        }
        self.rto.back_off();
        self.timer = Some((now + self.rto.rto(), Due::Retransmit));
    }

    /// (Re)starts the retransmission timer, or a probe's where one is allowed.
    fn arm(&mut self, now: Time) {
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
        let full = pipe + u64::from(len) > window;
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
        if self.pacer.next() > now {
            self.wait = Some(self.pacer.next());
            self.used.note(self.board.una(), self.board.nxt(), self.board.in_flight_segments(), pipe + 2 * u64::from(len) > window);
            return None;
        }
        Some(self.send(again, len, now))
    }

    fn window(&self) -> u64 {
        match self.mode {
            Mode::Reducing { prr, .. } if self.config.prr && self.cc.recovery() == Recovery::Host => prr.cwnd(),
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
        let last = self.board.nxt().checked_sub(1).filter(|&seq| seq >= self.board.una())?;
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
                self.board.send_again(seq, stamp);
                seq
            }
            None => self.board.send_new(stamp, len),
        };
        if let Mode::Reducing { prr, .. } = &mut self.mode {
            prr.on_sent(u64::from(len));
        }
        self.pacer.on_sent(now, len + TCP_HEADER, self.pacing_rate());
        let restart = match self.timer {
            None => true,
            Some((_, Due::Probe)) => again.is_none(),
            Some((_, Due::Retransmit)) => again == Some(self.board.una()),
        };
        if restart {
            self.arm(now);
        }
        let mut packet = Packet::new(self.flow, Kind::Data, len + TCP_HEADER, now);
        packet.seq = seq;
        packet.echo = self.peer_clock;
        packet.retransmission = again.is_some();
        // RFC 3168 §6.1.5: retransmissions are not ECN-capable.
        if self.config.ecn && again.is_none() {
            packet.ecn = Ecn::Ect0;
        }
        packet
    }

    fn pacing_rate(&self) -> Option<Rate> {
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
