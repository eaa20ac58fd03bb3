//! The receiving end of `TcpSocketBase` (`tcp-socket-base.cc`): `ForwardUp`, `DoForwardUp`, `ReceivedData`, `DelAckTimeout` and
//! `SendEmptyPacket`; and what of `TcpDctcp` (`tcp-dctcp.cc`) runs at this end.

use lowtide_net::Ecn;
use lowtide_units::{Span, Time};

use super::rx_buffer::RxBuffer;
use super::ts_value;
use crate::packet::{Kind, Packet, ack_size, window_of};

/// How a receiver acknowledges: attributes of `TcpSocket` and `TcpSocketBase`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceiverConfig {
    /// `SegmentSize`.
    pub segment: u32,
    /// `DelAckCount`.
    pub del_ack_max_count: u32,
    /// `DelAckTimeout`.
    pub del_ack_timeout: Span,
    /// `RcvBufSize`.
    pub rcv_buf: u64,
    /// `m_rcvWindShift`.
    pub scale: u8,
    /// `UseEcn`.
    pub ecn: bool,
    /// The congestion control is `TcpDctcp` at this end, too.
    pub dctcp: bool,
}

impl ReceiverConfig {
    /// `AdvertisedWindowSize` of an empty buffer.
    pub fn window(&self) -> u32 {
        window_of(self.rcv_buf, self.scale)
    }
}

/// `EcnState_t`, as far as a receiver goes through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EcnState {
    Disabled,
    Idle,
    CeReceived,
    SendingEce,
}

/// `TcpDctcp` at the receiving end.
#[derive(Clone, Copy, Debug, Default)]
struct DctcpState {
    /// `m_priorRcvNxt`.
    prior_rcv_next: Option<u32>,
    /// `m_ceState`.
    ce: bool,
    /// `m_delayedAckReserved`.
    delayed_ack_reserved: bool,
}

/// The receiving end of one connection.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    flow: u32,
    rx: RxBuffer,
    /// `m_delAckCount`, `m_delAckEvent`.
    del_ack_count: u32,
    del_ack_event: Option<Time>,
    /// `m_highTxAck`.
    high_tx_ack: u32,
    /// `m_rcvTimestampValue`, `m_timestampToEcho`.
    timestamp_value: i64,
    timestamp_to_echo: Time,
    ecn: EcnState,
    /// `m_ecnCESeq`, one above the segment.
    ce_seq: u32,
    dctcp: DctcpState,
    owd: i64,
}

impl Receiver {
    /// The end of a connection whose handshake is done.
    pub fn new(flow: u32, config: ReceiverConfig) -> Receiver {
        Receiver {
            config,
            flow,
            rx: RxBuffer::default(),
            // `ProcessSynRcvd`: the first segment is acknowledged at once.
            del_ack_count: config.del_ack_max_count,
            del_ack_event: None,
            high_tx_ack: 0,
            timestamp_value: 0,
            timestamp_to_echo: Time::ZERO,
            ecn: if config.ecn { EcnState::Idle } else { EcnState::Disabled },
            ce_seq: 0,
            dctcp: DctcpState::default(),
            owd: 0,
        }
    }

    /// In-order payload bytes handed to the application.
    pub fn delivered(&self) -> u64 {
        self.rx.delivered()
    }

    /// The next segment expected.
    pub fn next_expected(&self) -> u32 {
        self.rx.next()
    }

    /// When [`on_timer`](Self::on_timer) is due.
    pub fn deadline(&self) -> Option<Time> {
        self.del_ack_event
    }

    /// `ForwardUp`: a data segment arrives; whether an acknowledgement is due, which is then written to `room`. Where a change of marks
    /// sends one and the segment another, the second, which says all that the first does but its mark.
    pub fn on_data(&mut self, packet: &Packet, now: Time, room: &mut Packet) -> bool {
        self.owd = now.nanos() as i64 - packet.sent.nanos() as i64;
        let of_change = if packet.is_marked() && self.ce_seq < packet.seq + 1 {
            self.ce_seq = packet.seq + 1;
            self.ecn = EcnState::CeReceived;
            self.ce_state(true, now, room)
        } else if packet.ecn != Ecn::NotEct && self.ecn != EcnState::Disabled {
            self.ce_state(false, now, room)
        } else {
            false
        };
        // `DoForwardUp`.
        if packet.cwr && self.ecn != EcnState::CeReceived {
            self.ecn = EcnState::Idle;
        }
        self.process_option_timestamp(packet);
        self.received_data(packet, now, room) || of_change
    }

    /// `ProcessOptionTimestamp`.
    fn process_option_timestamp(&mut self, packet: &Packet) {
        let value = ts_value(packet.sent);
        if self.timestamp_value > value {
            return;
        }
        self.timestamp_value = value;
        if packet.seq == self.rx.next() && packet.seq <= self.high_tx_ack {
            self.timestamp_to_echo = packet.sent;
        }
    }

    fn received_data(&mut self, packet: &Packet, now: Time, room: &mut Packet) -> bool {
        let expected = self.rx.next();
        if !self.rx.add(packet.seq, packet.payload(), self.config.segment) {
            return self.send_ack(now, room);
        }
        if self.rx.has_gap() || self.rx.next() - expected > 1 {
            self.dctcp.delayed_ack_reserved = false;
            return self.send_ack(now, room);
        }
        self.del_ack_count += 1;
        // The FIN that a last segment carries is acknowledged at once (`PeerClose`).
        if self.del_ack_count >= self.config.del_ack_max_count || packet.fin {
            self.dctcp.delayed_ack_reserved = false;
            return self.send_ack(now, room);
        }
        self.dctcp.delayed_ack_reserved = true;
        self.del_ack_event.get_or_insert(now + self.config.del_ack_timeout);
        false
    }

    /// `DelAckTimeout`; whether an acknowledgement is due, which is then written to `room`.
    pub fn on_timer(&mut self, now: Time, room: &mut Packet) -> bool {
        if self.del_ack_event.is_none_or(|due| due > now) {
            return false;
        }
        self.dctcp.delayed_ack_reserved = true;
        self.send_ack(now, room)
    }

    /// An acknowledgement, with ECE while marks are to be echoed. True, for it leaves in any case.
    fn send_ack(&mut self, now: Time, room: &mut Packet) -> bool {
        let ece = matches!(self.ecn, EcnState::CeReceived | EcnState::SendingEce);
        if ece {
            self.ecn = EcnState::SendingEce;
        }
        self.send_empty_packet(self.rx.next(), ece, now, room);
        true
    }

    /// `SendEmptyPacket`.
    fn send_empty_packet(&mut self, next: u32, ece: bool, now: Time, ack: &mut Packet) {
        (self.del_ack_event, self.del_ack_count) = (None, 0);
        self.high_tx_ack = self.high_tx_ack.max(next);
        *ack = Packet::new(self.flow, Kind::Ack, 0, now);
        ack.seq = next;
        ack.ece = ece;
        ack.owd = self.owd;
        ack.echo = self.timestamp_to_echo;
        ack.window = self.config.window();
        ack.size = ack_size(self.rx.sack_list(&mut ack.sack));
        if self.config.dctcp {
            // `AddSocketTags`: DCTCP's empty packets are ECN-capable, too.
            ack.ecn = Ecn::Ect0;
        }
    }

    /// `TcpDctcp::CeState0to1` and `CeState1to0`: what is held back is acknowledged by the mark that it came with, up to where the receiver
    /// stood at the call before, which is one segment short.
    fn ce_state(&mut self, ce: bool, now: Time, room: &mut Packet) -> bool {
        if !self.config.dctcp {
            return false;
        }
        let prior = self.dctcp.prior_rcv_next.replace(self.rx.next());
        let changed = std::mem::replace(&mut self.dctcp.ce, ce) != ce;
        let held = prior.filter(|_| changed && self.dctcp.delayed_ack_reserved);
        if let Some(prior) = held {
            self.send_empty_packet(prior, !ce, now, room);
        }
        self.ecn = match self.ecn {
            _ if ce => EcnState::CeReceived,
            EcnState::CeReceived | EcnState::SendingEce => EcnState::Idle,
            other => other,
        };
        held.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::TCP_HEADER;
    use crate::pair::Receiving as _;

    fn config() -> ReceiverConfig {
        ReceiverConfig {
            segment: 1448,
            del_ack_max_count: 2,
            del_ack_timeout: Span::from_millis(200),
            rcv_buf: 1 << 30,
            scale: 14,
            ecn: true,
            dctcp: false,
        }
    }

    fn segment(seq: u32) -> Packet {
        Packet { seq, ..Packet::new(0, Kind::Data, 1448 + TCP_HEADER, Time::ZERO) }
    }

    #[test]
    fn the_first_segment_then_every_second_or_the_timer() {
        let mut r = Receiver::new(0, config());
        assert_eq!(r.answer_to(&segment(0), Time::from_millis(1)).map(|a| a.seq), Some(1));
        assert!(r.answer_to(&segment(1), Time::from_millis(2)).is_none());
        assert_eq!(r.answer_to(&segment(2), Time::from_millis(3)).map(|a| a.seq), Some(3));
        r.answer_to(&segment(3), Time::from_millis(4));
        assert_eq!(r.deadline(), Some(Time::from_millis(204)));
        assert!(r.late_answer(Time::from_millis(203)).is_none());
        assert_eq!(r.late_answer(Time::from_millis(204)).map(|a| a.seq), Some(4));
        assert_eq!(r.delivered(), 4 * 1448);
    }

    /// RFC 7323 §4.3's cases (A), (B) and (C), of segments that left at 1, 2, … ms.
    #[test]
    fn the_echo_is_that_of_the_first_segment_not_yet_acknowledged() {
        let mut r = Receiver::new(0, config());
        let at = |seq, ms| Packet { sent: Time::from_millis(ms), ..segment(seq) };
        let echo = |r: &mut Receiver, seq, ms| r.answer_to(&at(seq, ms), Time::from_millis(9)).map(|a| ts_value(a.echo));
        assert_eq!(echo(&mut r, 0, 1), Some(1));
        assert_eq!(echo(&mut r, 1, 2), None);
        assert_eq!(echo(&mut r, 2, 3), Some(2), "a delayed acknowledgement answers the earlier");
        assert_eq!(echo(&mut r, 4, 5), Some(2), "above a hole: the last in order");
        assert_eq!(echo(&mut r, 3, 8), Some(8), "what fills the hole");
    }

    /// RFC 3168's latch: ECE from the mark on until CWR comes.
    #[test]
    fn a_mark_is_echoed_until_it_is_answered() {
        let mut r = Receiver::new(0, ReceiverConfig { del_ack_max_count: 1, ..config() });
        let mut on = |seq, ecn, cwr| r.answer_to(&Packet { ecn, cwr, ..segment(seq) }, Time::ZERO).map(|a| a.ece);
        let seen = [on(0, Ecn::Ect0, false), on(1, Ecn::Ce, false), on(2, Ecn::Ect0, false), on(3, Ecn::Ect0, true)];
        assert_eq!(seen, [Some(false), Some(true), Some(true), Some(false)]);
    }

    /// DCTCP: a change of marks acknowledges what is held back, one segment short and with the mark of before.
    #[test]
    fn a_change_of_marks_is_told_one_segment_short() {
        let mut r = Receiver::new(0, ReceiverConfig { dctcp: true, ..config() });
        let mut on = |seq, ce| {
            let ecn = if ce { Ecn::Ce } else { Ecn::Ect0 };
            r.answer_to(&Packet { ecn, ..segment(seq) }, Time::ZERO).map(|a| (a.seq, a.ece))
        };
        let seen = [on(0, false), on(1, false), on(2, true), on(3, false), on(4, true), on(5, true)];
        assert_eq!(seen, [Some((1, false)), None, Some((1, false)), Some((2, true)), Some((3, false)), Some((6, true))]);
    }

    #[test]
    fn the_window_field_is_rounded_down_to_its_unit() {
        assert_eq!(ReceiverConfig { rcv_buf: 100_000, ..config() }.window(), 6 * 16384);
    }
}
