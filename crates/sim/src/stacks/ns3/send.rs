//! What leaves a socket of ns-3: `SendPendingData`, `SendDataPacket`, `DoRetransmit`, `ReTxTimeout`, the windows and the pacing of
//! `tcp-socket-base.cc`.

use lowtide_net::Ecn;
use lowtide_replicas::ns3::socket::{Event, State};
use lowtide_units::{Rate, Span};

use super::socket::{EcnState, Socket};
use crate::packet::{Kind, Packet, TCP_HEADER};

/// `PacingSsRatio` and `PacingCaRatio`, in percent.
const PACING_SS_RATIO: f64 = 200.0;
const PACING_CA_RATIO: f64 = 120.0;
/// The longest time between two probes of a closed window (`PersistTimeout`).
const MAX_PERSIST: Span = Span::from_secs(60);

impl Socket {
    /// `BytesInFlight`, which also notes the number in `m_bytesInFlight`.
    pub(super) fn bytes_in_flight(&mut self) -> u32 {
        self.tcb.bytes_in_flight = self.tx.bytes_in_flight();
        self.tcb.bytes_in_flight
    }

    /// `AvailableWindow`; the peer's window bounds what is in flight, repairs included (`Window`).
    pub(super) fn available_window(&mut self) -> u64 {
        let window = self.r_wnd.min(u64::from(self.tcb.cwnd));
        window.saturating_sub(u64::from(self.bytes_in_flight()))
    }

    /// `SendPendingData`.
    pub(super) fn send_pending_data(&mut self) {
        if self.tx.is_empty() || self.closed {
            return;
        }
        let segment = u64::from(self.tcb.segment);
        loop {
            let available = self.available_window();
            if available == 0 || (self.is_pacing_enabled() && self.pacing_timer.is_some()) {
                return;
            }
            if self.tcb.state == State::Open && self.fin_wait {
                return;
            }
            let rule3 = self.tcb.state == State::Recovery;
            let Some((next, room)) = self.tx.next_seg(self.r_wnd, rule3) else { return };
            let data = self.tx.size_from(next);
            // Silly window syndrome.
            if available < segment && data > available {
                return;
            }
            // Segments are not split: see the port's first lines.
            let len = segment.min(data);
            if u64::from(room) < len {
                return;
            }
            self.tcb.next = self.offset(next);
            if self.tcb.bytes_in_flight == 0 {
                self.ops.cwnd_event(&mut self.tcb, Event::TxStart);
            }
            let sent = self.send_data_packet(next, len as u32);
            self.tcb.next += u64::from(sent);
            if self.is_pacing_enabled() && self.pacing_timer.is_none() {
                self.start_pacing_timer(sent);
                return;
            }
        }
    }

    /// `SendDataPacket`: segment `seq`, of `len` bytes if it is new. Returns its length.
    pub(super) fn send_data_packet(&mut self, seq: u32, len: u32) -> u32 {
        let now = self.tcb.now;
        let start = self.bytes_in_flight() == 0;
        let again = self.tx.copy_from_sequence(seq, len, now);
        let info = self.rate.skb_sent(now, start);
        let item = self.tx.item_mut(seq);
        item.rate = info;
        let len = item.len;
        if self.is_pacing_enabled() && self.pacing_timer.is_none() {
            self.start_pacing_timer(len);
        }
        let mut packet = Packet::new(self.flow, Kind::Data, len + TCP_HEADER, now);
        packet.seq = seq;
        packet.echo = self.timestamp_to_echo;
        packet.retransmission = again;
        if self.ecn == EcnState::EceReceived && self.ecn_echo_seq > self.ecn_cwr_seq && !again {
            self.ecn = EcnState::CwrSent;
            self.ecn_cwr_seq = seq;
            packet.cwr = true;
        }
        self.tcb.ece_received = self.ecn == EcnState::EceReceived;
        if self.ecn != EcnState::Disabled {
            // `AddSocketTags`: retransmissions, too.
            packet.ecn = Ecn::Ect0;
        }
        if self.close_on_empty && self.tx.is_last(seq) {
            packet.fin = true;
            self.fin_wait = true;
        }
        self.retx_event.get_or_insert(now + self.rtt.rto());
        self.rtt.on_sent(seq, again);
        if matches!(self.tcb.state, State::Recovery | State::Cwr) {
            self.recovery.update_bytes_sent(len);
        }
        self.stats.retransmits += u64::from(again);
        self.tcb.high_tx = self.offset(self.tx.high_tx());
        self.out.push_back(packet);
        len
    }

    /// `DoRetransmit`: the first segment that is lost and not sent again; for want of one what `NextSeg` names next, or the head.
    pub(super) fn do_retransmit(&mut self) {
        let next = self.tx.next_seg(self.r_wnd, false);
        let (seq, room) = next.filter(|next| next.1 > 0).unwrap_or((self.tx.head(), self.tcb.segment));
        let len = u64::from(room).min(self.tx.size_from(seq)) as u32;
        self.tcb.next = self.offset(seq);
        if len > 0 {
            self.send_data_packet(seq, len);
        }
    }

    /// `ReTxTimeout`.
    pub(super) fn retx_timeout(&mut self) {
        if self.tx.is_empty() || self.closed {
            return;
        }
        if self.data_retries == 0 {
            self.closed = true;
            return;
        }
        self.data_retries -= 1;
        let in_flight_before = self.bytes_in_flight();
        self.dup_ack_count = 0;
        self.tx.set_sent_list_lost();
        (self.recover, self.recover_active) = (self.tx.high_tx(), true);
        self.rtt.back_off();
        if self.tcb.state != State::Loss || !self.tx.is_head_retransmitted() {
            // Always: `SetSentListLost` has just taken that mark from the head.
            self.tcb.ssthresh = self.ops.get_ss_thresh(&self.tcb, in_flight_before);
        }
        self.ops.cwnd_event(&mut self.tcb, Event::Loss);
        self.ops.congestion_state_set(&mut self.tcb, State::Loss);
        self.tcb.state = State::Loss;
        self.tcb.cwnd = self.tcb.segment;
        self.pacing_timer = None;
        (self.stats.timeouts, self.stats.episodes) = (self.stats.timeouts + 1, self.stats.episodes + 1);
        self.bytes_in_flight();
        self.send_pending_data();
    }

    /// `PersistTimeout`, with a whole segment in place of a byte.
    pub(super) fn persist_timeout(&mut self) {
        self.persist_timeout = (self.persist_timeout * 2).min(MAX_PERSIST);
        if self.tx.unsent() > 0 && !self.closed {
            let len = u64::from(self.tcb.segment).min(self.tx.unsent()) as u32;
            self.send_data_packet(self.tx.high_tx(), len);
        }
        self.persist_event = Some(self.tcb.now + self.persist_timeout);
    }

    /// `IsPacingEnabled`: not for the initial window, whose last segment starts the timer (`SendPendingData` asks again).
    pub(super) fn is_pacing_enabled(&self) -> bool {
        self.tcb.pacing && self.tx.high_tx() >= self.tcb.initial_cwnd
    }

    fn start_pacing_timer(&mut self, len: u32) {
        let rate = Rate::from_bps(self.tcb.pacing_bps as u64);
        if rate.bps() > 0 {
            self.pacing_timer = Some(self.tcb.now + rate.nearest_time_for(u64::from(len)));
        }
    }

    /// `UpdatePacingRate`.
    pub(super) fn update_pacing_rate(&mut self) {
        if self.ops.has_cong_control() || !self.tcb.pacing || self.tcb.last_rtt == Span::ZERO {
            return;
        }
        let early = self.tcb.cwnd < self.tcb.ssthresh / 2;
        let factor = if early { PACING_SS_RATIO } else { PACING_CA_RATIO } / 100.0;
        let window = self.tcb.cwnd.max(self.tcb.bytes_in_flight);
        self.tcb.pacing_bps = f64::from(window) * 8.0 * factor / self.tcb.last_rtt.secs_f64();
    }

    /// Where segment `seq` begins.
    pub(super) fn offset(&self, seq: u32) -> u64 {
        u64::from(seq) * u64::from(self.tcb.segment)
    }
}
