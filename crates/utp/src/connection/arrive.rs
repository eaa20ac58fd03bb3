//! What a packet that arrives does to a connection: its acknowledgement first, then its payload.

use lowtide_cc::{Ack, Cause, Congestion, RateSample};
use lowtide_units::{Span, Time};

use super::{Arrival, Connection, Failure, State};
use crate::header::{Kind, Packet};
use crate::incoming::{Incoming, REACH};
use crate::outgoing::{Sent, Tally};
use crate::seq::{ahead, before};

/// ACK_NR_ALLOWED_WINDOW: an acknowledgement may be this much older than what is outstanding.
const ALLOWED: u16 = 3;
/// A window of zero is taken for one packet after this long.
const ZERO_WINDOW: Span = Span::from_secs(15);

impl Connection {
    /// A packet for this connection arrived; a SYN only if it is the one that opened it.
    pub fn on_packet(&mut self, packet: &Packet, now: Time) -> Arrival {
        let header = &packet.header;
        if self.state == State::Closed {
            // The acknowledgement of the peer's FIN was lost, or it would not come again.
            self.ack_due |= header.kind == Kind::Fin;
            return Arrival::default();
        }
        if self.is_over() || !self.could_have_come(packet) {
            return Arrival::default();
        }
        (self.heard, self.asked, self.unreachable) = (now, 0, None);
        self.close_reason = packet.close_reason.or(self.close_reason);
        let arrival = match header.kind {
            Kind::Reset => self.on_reset(),
            // libutp ignores a repeated SYN: one answer lost ends the attempt. It is answered again here (BEP 29).
            Kind::Syn => {
                self.ack_due = self.state == State::SynReceived;
                Arrival::default()
            }
            _ => self.on_valid(packet, now),
        };
        self.wake(now);
        arrival
    }

    /// Against blind injection: a packet acknowledges what was sent not long ago (`utp_process_incoming`). libutp takes any reset.
    fn could_have_come(&self, packet: &Packet) -> bool {
        let header = &packet.header;
        match header.kind {
            Kind::Syn => true,
            // It repeats the number of the packet that it answers, which of a STATE is the next one.
            Kind::Reset => header.ack == self.out.next() || self.could_have_acked(header.ack),
            // Nothing else answers a SYN. libutp takes its acknowledgement of data too: then no SYN leaves again, and no timeout counts.
            Kind::Data | Kind::Fin if self.state == State::SynSent => false,
            _ => self.could_have_acked(header.ack),
        }
    }

    /// Whether `ack` acknowledges a packet that was sent, and one not long gone.
    fn could_have_acked(&self, ack: u16) -> bool {
        let last = self.out.next().wrapping_sub(1);
        let oldest = last.wrapping_sub(self.out.len() + ALLOWED);
        !before(last, ack) && !before(ack, oldest)
    }

    fn on_reset(&mut self) -> Arrival {
        self.state = match self.state {
            State::SynSent => State::Failed(Failure::Refused),
            // While closing too: what is still to come or to be acknowledged never will be, and that is no orderly end.
            _ => State::Failed(Failure::Reset),
        };
        Arrival::default()
    }

    fn on_valid(&mut self, packet: &Packet, now: Time) -> Arrival {
        let header = &packet.header;
        if self.state == State::SynSent {
            // The peer's first data reuses the number of its answer (libutp; BEP 29 has it otherwise).
            self.incoming = Incoming::new(header.seq.wrapping_sub(1));
        }
        let distance = self.incoming.distance(header.seq);
        if distance >= REACH {
            // An old packet: its acknowledgement was lost.
            self.ack_due |= distance >= REACH.wrapping_neg() && header.kind != Kind::State;
            return Arrival::default();
        }
        self.on_acknowledgement(packet, now);
        match header.kind {
            Kind::Data | Kind::Fin => self.on_numbered(packet, now),
            _ => Arrival::default(),
        }
    }

    fn on_acknowledgement(&mut self, packet: &Packet, now: Time) {
        let header = &packet.header;
        let in_flight = self.out.in_flight();
        let covered = self.cover(packet, now);
        let owd = self.delays.on_packet(now, header.timestamp, header.timestamp_difference);
        if owd.is_some() || covered.bytes > 0 {
            self.tell_ack(&covered, owd, in_flight, now);
        }
        self.peer_window = u64::from(header.window);
        if self.peer_window == 0 {
            self.zero_window_until = now + ZERO_WINDOW;
        }
        match (self.state, header.kind) {
            (State::SynSent, Kind::State) => {
                self.state = State::Connected;
                // If there is no data to send, this tells the peer that it may send (below).
                self.ack_due = true;
            }
            // libutp waits for data. Who sends a STATE knows our number too, so it is no forged address either.
            (State::SynReceived, Kind::Data | Kind::State) if header.ack == self.out.next().wrapping_sub(1) => {
                self.state = State::Connected
            }
            _ => {}
        }
        if before(self.repairs.from, header.ack.wrapping_add(1)) {
            self.repairs.from = header.ack.wrapping_add(1);
        }
        // Left behind by more than half the circle of numbers, it would seem to lie ahead.
        if before(self.recover, self.out.first()) {
            self.recover = self.out.first();
        }
        self.close_if_done(now);
        self.continue_after_timeout();
        if let Some(sack) = packet.sack {
            let lost = self.repairs.on_sack(&mut self.out, header.ack, sack);
            self.judge_probe(now);
            self.lost += lost;
            if lost > 0 {
                self.tell_loss(lost, in_flight, now);
            }
        }
    }

    pub(super) fn close_if_done(&mut self, now: Time) {
        if self.fin_sent && self.out.is_empty() && (self.deaf || self.incoming.is_finished()) && !self.is_over() {
            self.state = State::Closed;
            self.closed = now;
        }
    }

    /// The probe of the path's MTU was lost if it is to be repaired, and was too large if nothing before it was lost.
    fn judge_probe(&mut self, now: Time) {
        let Some(mtu) = &mut self.mtu else { return };
        let Some(seq) = mtu.probe().filter(|&seq| self.out.get(seq).is_some_and(|sent| sent.queued && sent.transmissions > 0)) else {
            return;
        };
        if seq == self.out.first() {
            mtu.lost(seq, now);
            self.cc.on_mss(u32::from(self.packet()));
        } else {
            mtu.cancel();
        }
    }

    /// Takes what `packet` acknowledges, cumulatively and by its mask, off the outgoing packets.
    fn cover(&mut self, packet: &Packet, now: Time) -> Tally {
        let mut tally = Tally::default();
        let ack = packet.header.ack;
        let acked = ahead(self.out.first().wrapping_sub(1), ack);
        let cumulative = if acked > self.out.len() { 0 } else { acked };
        for n in 0..cumulative {
            self.acknowledged(self.out.first().wrapping_add(n), now, &mut tally);
        }
        if let Some(sack) = packet.sack {
            // The oldest packet is never told by a mask: bits at or below it are noise.
            let oldest = self.out.first().wrapping_add(cumulative);
            for k in (0..sack.len()).filter(|&k| sack.has(k)) {
                let seq = ack.wrapping_add(2).wrapping_add(k);
                if before(oldest, seq) {
                    self.acknowledged(seq, now, &mut tally);
                }
            }
        }
        self.out.advance();
        tally
    }

    fn acknowledged(&mut self, seq: u16, now: Time, tally: &mut Tally) {
        let Some(Sent { transmissions, at, .. }) = self.out.ack(seq, now, tally) else { return };
        // Karn: only packets that left once.
        if transmissions == 1 {
            self.latest_rtt = Some(now.since(at));
            self.timer.sample(now.since(at));
        }
        self.timer.restart(now);
        if let Some(mtu) = self.mtu.as_mut().filter(|mtu| mtu.probe() == Some(seq)) {
            mtu.arrived(seq, now);
            self.cc.on_mss(u32::from(self.packet()));
        }
    }

    fn tell_ack(&mut self, covered: &Tally, owd: Option<i64>, in_flight: u64, now: Time) {
        self.cc.on_ack(&Ack {
            now,
            acked: covered.bytes,
            lost: std::mem::take(&mut self.lost),
            ce: 0,
            in_flight,
            rtt: covered.min_rtt,
            srtt: self.timer.srtt(),
            owd,
            delivered: self.out.delivered(),
            prior_delivered: covered.prior_delivered,
            rate: self.rate(covered, in_flight),
            cwnd_limited: std::mem::take(&mut self.limited),
            limited_at: self.limited_at,
            in_recovery: false,
            ..Ack::default()
        });
    }

    /// A delivery-rate sample (draft-cheng-iccrg-delivery-rate-estimation, sec. 3.3); none over less than the RTT, whose packets
    /// came together.
    fn rate(&self, covered: &Tally, in_flight: u64) -> Option<RateSample> {
        let (delivered, interval) = (self.out.delivered().saturating_sub(covered.prior_delivered), covered.interval);
        let sound = covered.bytes > 0 && interval > Span::ZERO && covered.min_rtt.is_some_and(|rtt| interval >= rtt);
        let app_limited = self.unsent() == 0;
        sound.then_some(RateSample { delivered, interval, app_limited, tx_in_flight: in_flight, lost: 0, ack_delayed: false })
    }

    /// libutp's order: the acknowledgement grows the window, then a loss halves it.
    fn tell_loss(&mut self, lost: u64, in_flight: u64, now: Time) {
        if !self.cc.hears_every_loss() && before(self.out.first(), self.recover) {
            return;
        }
        self.recover = self.out.next();
        self.stats.episodes += 1;
        self.cc.on_congestion(&Congestion { now, cause: Cause::Loss, lost, in_flight, srtt: self.timer.srtt() });
    }

    /// The oldest packet leaves again as long as each acknowledgement shows the next one missing too.
    fn continue_after_timeout(&mut self) {
        if !self.fast_timeout {
            return;
        }
        if self.out.first() != self.repairs.from {
            self.fast_timeout = false;
        } else if self.out.get(self.repairs.from).is_some_and(|sent| sent.transmissions > 0) {
            self.out.queue(self.repairs.from);
            self.repairs.from = self.repairs.from.wrapping_add(1);
        }
    }

    fn on_numbered(&mut self, packet: &Packet, now: Time) -> Arrival {
        let seq = packet.header.seq;
        if !matches!(self.state, State::Connected) || !self.has_room(packet) {
            return Arrival::default();
        }
        if packet.header.kind == Kind::Fin {
            self.incoming.set_end(seq);
        }
        let had_ended = self.incoming.is_finished();
        let (payload, released) = self.incoming.store(seq, packet.payload);
        // A duplicate of what is held is not acknowledged (libutp).
        self.ack_due |= payload != super::Placement::Refused;
        self.close_if_done(now);
        Arrival { payload, released, end: self.incoming.is_finished() && !had_ended }
    }

    /// A peer that does not heed the window gets a second buffer's worth, since what was in flight when it closed, and the probes of
    /// a closed window, must be taken. libutp takes everything.
    fn has_room(&self, packet: &Packet) -> bool {
        let kept = u64::from(self.unread) + self.incoming.held_bytes() + u64::from(packet.payload);
        packet.payload == 0 || kept <= 2 * u64::from(self.config.receive_buffer)
    }
}
