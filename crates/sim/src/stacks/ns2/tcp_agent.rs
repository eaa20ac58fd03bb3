//! What ns-2's `TcpAgent` (`tcp.cc`) keeps and does, whichever agent inherits it: what was sent, the timer, `output`, and what the congestion
//! control is told. Knows no agent.

use std::collections::VecDeque;

use lowtide_cc::{Ack, Cause, Congestion, Snapshot};
use lowtide_net::queue::restart_if_empty;
use lowtide_replicas::{Beside, Replica};
use lowtide_units::{Rate, Span, Time};

use super::rtt::Rtt;
use crate::packet::{Kind, Packet, TCP_HEADER};
use crate::sender_stats::{Note, SenderStats};

/// How an agent is set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AgentConfig {
    /// `Agent/TCP/Linux`; otherwise `Agent/TCP/Reno`.
    pub linux: bool,
    /// Payload bytes of a segment (`packetSize_`).
    pub size: u32,
    /// `timestamps_`.
    pub timestamps: bool,
    /// `minrto_`.
    pub minrto: Span,
    /// No handshake: the first segment is the SYN, headers alone (`syn_`).
    pub one_way: bool,
}

/// A segment that is out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// When it left last (`tss`), and what had been delivered by then.
    at: Time,
    delivered: u64,
    again: bool,
    order: u32,
    len: u32,
}

/// What every agent has.
#[derive(Debug)]
pub struct TcpAgent {
    pub(super) config: AgentConfig,
    flow: u32,
    pub(super) cc: Box<dyn Replica>,
    /// `highest_ack_` + 1, `t_seqno_`, `maxseq_` + 1, `recover_` + 1.
    pub(super) una: u32,
    pub(super) t_seqno: u32,
    pub(super) nxt: u32,
    pub(super) recover: u32,
    sent: VecDeque<Sent>,
    pub(super) rtt: Rtt,
    /// `rtx_timer_`.
    pub(super) rtx_timer: Option<Time>,
    /// Bytes written, and those that the peer permits.
    written: u64,
    closed: bool,
    edge: u64,
    delivered: u64,
    /// `ts_peer_`.
    ts_peer: Time,
    transmissions: u32,
    pending: bool,
    out: VecDeque<Packet>,
    pub(super) stats: SenderStats,
    latest_rtt: Option<Span>,
    min_rtt: Option<Span>,
    notes: Option<Vec<Note>>,
}

impl TcpAgent {
    /// One with nothing to send yet; the peer permits `window` bytes.
    pub fn new(flow: u32, config: AgentConfig, cc: Box<dyn Replica>, window: u64) -> TcpAgent {
        TcpAgent {
            config,
            flow,
            cc,
            una: 0,
            t_seqno: 0,
            nxt: 0,
            recover: 0,
            sent: VecDeque::new(),
            rtt: Rtt::new(config.linux, config.timestamps, config.minrto),
            rtx_timer: None,
            // A SYN that is a segment stands before what the application writes.
            written: if config.one_way { u64::from(config.size) } else { 0 },
            closed: false,
            edge: window,
            delivered: 0,
            ts_peer: Time::ZERO,
            transmissions: 0,
            pending: false,
            out: VecDeque::new(),
            stats: SenderStats::default(),
            latest_rtt: None,
            min_rtt: None,
            notes: None,
        }
    }

    /// Whether it takes notice of an acknowledgement: of one of what was sent. Then also of the window and the timestamp in it.
    pub(super) fn heeds(&mut self, ack: &Packet) -> bool {
        if ack.seq < self.una || ack.seq > self.nxt {
            return false;
        }
        self.edge = self.edge.max(self.offset(ack.seq) + u64::from(ack.window));
        self.ts_peer = ack.sent;
        true
    }

    /// `newack`, `ack_processing`: what `ack` acknowledges is out no more. Tells the control, if the window may grow on it.
    pub(super) fn newack(&mut self, ack: &Packet, in_flight: u32, grows: bool, now: Time) {
        let (mut newest, mut repaired, mut bytes, mut advanced) = (None::<Sent>, false, 0, 0);
        while self.una < ack.seq
            && let Some(sent) = self.sent.pop_front()
        {
            self.una += 1;
            (repaired, bytes, advanced) = (repaired | sent.again, bytes + u64::from(sent.len), advanced + u64::from(self.config.size));
            newest = newest.filter(|newest| newest.order > sent.order).or(Some(sent));
            if let Some(notes) = &mut self.notes {
                notes.push(Note::Delivered { order: sent.order });
            }
        }
        self.t_seqno = self.t_seqno.max(self.una);
        self.delivered += bytes;
        // `FLAG_UNSURE_TSTAMP`: what waited behind a repaired hole tells how long the repair took.
        let rtt = newest.filter(|_| !repaired).map(|newest| now.since(newest.at));
        self.latest_rtt = rtt.or(self.latest_rtt);
        self.min_rtt = self.min_rtt.into_iter().chain(rtt).min();
        self.rtt.on_ack(ack.seq, ack.echo, advanced > 0, now);
        if advanced == 0 || !grows {
            return;
        }
        self.stats.acks += 1;
        let beside = Beside { echo_age: self.config.timestamps.then(|| now.since(ack.echo)) };
        let told = Ack {
            now,
            acked: bytes,
            advanced,
            in_flight: self.offset(in_flight),
            rtt,
            srtt: self.rtt.srtt(),
            owd: Some(ack.owd),
            delivered: self.delivered,
            prior_delivered: newest.map_or(0, |newest| newest.delivered),
            cwnd_limited: true,
            ..Ack::default()
        };
        self.cc.on_ack_beside(&told, &beside);
    }

    /// `slowdown`, `enter_loss`: the control is told of congestion.
    pub(super) fn slowdown(&mut self, cause: Cause, now: Time) {
        self.stats.episodes += 1;
        self.stats.losses += 1;
        let in_flight = self.offset(self.nxt - self.una);
        let srtt = self.rtt.srtt();
        self.cc.on_congestion(&Congestion { now, cause, lost: u64::from(self.config.size), in_flight, srtt });
    }

    /// `output`: segment `seq` leaves.
    pub(super) fn output(&mut self, seq: u32, now: Time) {
        let outstanding = self.una < self.nxt;
        let again = seq < self.nxt;
        let len = self.len_of(seq);
        self.transmissions += 1;
        let sent = Sent { at: now, delivered: self.delivered, again, order: self.transmissions, len };
        if again {
            self.stats.retransmits += 1;
            self.sent[(seq - self.una) as usize] = sent;
        } else {
            self.sent.push_back(sent);
            self.nxt = seq + 1;
            self.rtt.on_new(seq, now);
        }
        if let Some(notes) = &mut self.notes {
            notes.push(Note::Sent { order: sent.order, seq, len });
        }
        let payload = if self.config.one_way && seq == 0 { 0 } else { len };
        let mut packet = Packet::new(self.flow, Kind::Data, payload + TCP_HEADER, now);
        packet.seq = seq;
        packet.echo = self.ts_peer;
        packet.retransmission = again;
        packet.fin = self.closed && self.offset(seq) + u64::from(len) >= self.written;
        self.out.push_back(packet);
        if self.rtx_timer.is_none() || !outstanding {
            self.set_rtx_timer(now);
        }
    }

    /// `set_rtx_timer`.
    pub(super) fn set_rtx_timer(&mut self, now: Time) {
        self.rtx_timer = Some(now + self.rtt.timeout());
    }

    /// `newtimer`: the timer starts over while something is out, or ends.
    pub(super) fn newtimer(&mut self, now: Time) {
        self.rtx_timer = None;
        if self.una < self.nxt {
            self.set_rtx_timer(now);
        }
    }

    /// `cwnd_` in whole segments.
    pub(super) fn cwnd(&self) -> u32 {
        (self.cc.cwnd() / u64::from(self.config.size)).min(u64::from(u32::MAX)) as u32
    }

    /// Whether there is a segment `seq` to send (`curseq_`) that the peer permits (`wnd_`).
    pub(super) fn may_send(&self, seq: u32) -> bool {
        let len = self.len_of(seq);
        len > 0 && self.offset(seq) + u64::from(len) <= self.edge
    }

    fn len_of(&self, seq: u32) -> u32 {
        self.written.saturating_sub(self.offset(seq)).min(u64::from(self.config.size)) as u32
    }

    fn offset(&self, seq: u32) -> u64 {
        u64::from(seq) * u64::from(self.config.size)
    }

    /// The application writes `bytes` more; `u64::MAX` for a bulk transfer without end.
    pub fn write(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
        self.pending = true;
    }

    /// Bytes written and not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.written.saturating_sub(self.offset(self.una))
    }

    /// The application will write no more.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// The application takes back what has not been sent.
    pub fn stop(&mut self) {
        self.written = self.offset(self.nxt).min(self.written);
    }

    /// Everything written has been acknowledged.
    pub fn is_done(&self) -> bool {
        self.una == self.nxt && self.len_of(self.nxt) == 0
    }

    /// Counters.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    /// The congestion control's state.
    pub fn snapshot(&self) -> Snapshot {
        self.cc.snapshot()
    }

    /// Bytes sent and not acknowledged.
    pub fn in_flight(&self) -> u64 {
        self.offset(self.nxt - self.una)
    }

    /// The smoothed RTT.
    pub fn srtt(&self) -> Span {
        self.rtt.srtt()
    }

    /// The smallest RTT seen.
    pub fn min_rtt(&self) -> Option<Span> {
        self.min_rtt
    }

    /// None: these agents do not pace.
    pub fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// What became of its transmissions since the last call; the first call begins it.
    pub fn take_notes(&mut self) -> Vec<Note> {
        self.notes.replace(Vec::new()).unwrap_or_default()
    }

    /// The RTT sample that the last acknowledgement gave.
    pub fn take_rtt(&mut self) -> Option<Span> {
        self.latest_rtt.take()
    }

    /// Whether the application has written since this was asked last.
    pub(super) fn take_pending(&mut self) -> bool {
        std::mem::take(&mut self.pending)
    }

    /// Writes the next packet that was put out to `room`, until there is none.
    pub(super) fn take_out(&mut self, room: &mut Packet) -> bool {
        let next = self.out.pop_front();
        restart_if_empty(&mut self.out);
        next.inspect(|packet| *room = *packet).is_some()
    }

    /// Whether `timeout` is due, which then is counted; the timer ends.
    pub(super) fn take_timeout(&mut self, now: Time) -> bool {
        let due = self.rtx_timer.take_if(|at| *at <= now).is_some() && self.una < self.nxt;
        self.stats.timeouts += u64::from(due);
        due
    }
}
