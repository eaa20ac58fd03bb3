//! What a connection sends and when: repairs at once, the rest as the windows allow, acknowledgements last (libutp `utp_writev`, `flush_packets`).

use lowtide_units::{Rate, Span, Time};

use super::{Connection, State, Transmit};
use crate::delay::stamp;
use crate::header::{HEADER_BYTES, Header, Kind, Packet};

impl Connection {
    /// The next packet to leave now, until there is none.
    pub fn poll(&mut self, now: Time) -> Option<Transmit> {
        if matches!(self.state, State::Failed(_)) {
            return None;
        }
        if let Some(seq) = self.next_to_send(now) {
            return self.numbered(seq, now);
        }
        if self.ack_due {
            return Some(self.unnumbered(self.incoming.last(), now));
        }
        if std::mem::take(&mut self.ask_due) {
            return Some(self.question(now));
        }
        // An old acknowledgement, so that it cannot be taken for a duplicate one.
        std::mem::take(&mut self.keep_alive_due).then(|| self.unnumbered(self.incoming.last().wrapping_sub(1), now))
    }

    fn next_to_send(&mut self, now: Time) -> Option<u16> {
        self.paced = false;
        if let Some(seq) = self.out.next_queued() {
            return Some(seq);
        }
        if let Some(seq) = self.out.next_marked() {
            return (!self.refuses_packet(now)).then_some(seq);
        }
        self.cut(now)
    }

    /// Whether the windows or the pace refuse another full packet; that the windows did, and when, is remembered.
    fn refuses_packet(&mut self, now: Time) -> bool {
        let refuses = self.out.is_full() || self.out.in_flight() + u64::from(self.packet()) > self.most_in_flight();
        if refuses {
            self.limited = true;
            self.limited_at = Some(now);
        }
        self.paced = !refuses && self.pacer.waits(now).is_some();
        refuses || self.paced
    }

    /// Makes the next packet of what was written, or the FIN behind it.
    fn cut(&mut self, now: Time) -> Option<u16> {
        if self.state != State::Connected || self.fin_sent {
            return None;
        }
        let unsent = self.written - self.cut;
        let probe = self.probe(unsent);
        let full = probe.unwrap_or(self.packet());
        let len = unsent.min(u64::from(full)) as u16;
        // Nagle: a short packet waits while others are outstanding, unless nothing can come to fill it.
        let waits = len < full && !self.out.is_empty() && !self.closing;
        if (len == 0 && !self.closing) || waits || self.refuses_packet(now) {
            return None;
        }
        if self.out.is_empty() {
            self.timer.start(now);
        }
        self.fin_sent = len == 0;
        let seq = self.out.push(if len == 0 { Kind::Fin } else { Kind::Data }, len, self.cut);
        self.cut += u64::from(len);
        if let Some(mtu) = self.mtu.as_mut().filter(|_| probe.is_some()) {
            mtu.send(seq);
            self.out.set_probe(seq);
        }
        Some(seq)
    }

    /// Payload of the probe of the path's MTU that is due, if there is as much to send and the windows take it.
    fn probe(&self, unsent: u64) -> Option<u16> {
        let payload = self.mtu.as_ref()?.due()? - HEADER_BYTES as u16;
        let fits = self.out.in_flight() + u64::from(payload) <= self.most_in_flight();
        (unsent >= u64::from(payload) && fits).then_some(payload)
    }

    fn most_in_flight(&self) -> u64 {
        // A window smaller than a packet spaces packets out; that of libutp's control reopens with a timeout instead.
        let least = if self.cc.hears_every_loss() { 0 } else { u64::from(self.packet()) };
        self.cc.cwnd().max(least).min(self.config.send_buffer).min(self.peer_window)
    }

    /// What the control wants to be paced at.
    fn pace(&self) -> Option<Rate> {
        let (cwnd, srtt) = (self.cc.cwnd(), self.timer.srtt());
        let small = !self.cc.hears_every_loss() && cwnd < u64::from(self.packet()) && srtt > Span::ZERO;
        self.cc.pacing_rate().or(small.then(|| Rate::from_bytes_over(cwnd, srtt)))
    }

    /// An old packet, which the peer acknowledges if it is there. It has a byte of payload: librqbit-utp takes none without, as did some
    /// TCPs (RFC 9293, sec. 3.8.4).
    fn question(&mut self, now: Time) -> Transmit {
        let header = Header { kind: Kind::Data, seq: self.out.next().wrapping_sub(1), ..self.header(now) };
        self.asked_stamp = header.timestamp;
        Transmit { packet: Packet { header, payload: 1, ..Packet::default() }, offset: 0, again: true, probe: false, question: true }
    }

    fn numbered(&mut self, seq: u16, now: Time) -> Option<Transmit> {
        let sent = self.out.transmit(seq, now)?;
        let again = sent.transmissions > 1;
        self.pacer.sent(u64::from(sent.len), self.pace(), now);
        self.stats.retransmits += u64::from(again);
        let id = if sent.kind == Kind::Syn { self.ids.0 } else { self.ids.1 };
        let header = Header { kind: sent.kind, connection_id: id, seq, ..self.header(now) };
        let packet = Packet { header, payload: sent.len, ..Packet::default() };
        Some(Transmit { packet, offset: sent.offset, again, probe: sent.probe && !again, question: false })
    }

    pub(super) fn unnumbered(&mut self, ack: u16, now: Time) -> Transmit {
        let header = Header { kind: Kind::State, seq: self.out.next(), ack, ..self.header(now) };
        let sack = self.incoming.sack().filter(|_| ack == self.incoming.last());
        Transmit { packet: Packet { header, sack, ..Packet::default() }, offset: 0, again: false, probe: false, question: false }
    }

    /// What all packets that leave now have in common; whatever leaves acknowledges.
    fn header(&mut self, now: Time) -> Header {
        self.last_sent = now;
        self.ack_due = false;
        self.told_window = self.window();
        Header {
            connection_id: self.ids.1,
            timestamp: stamp(now),
            timestamp_difference: self.delays.echo(),
            window: self.told_window,
            ack: self.incoming.last(),
            ..Header::default()
        }
    }
}
