//! One connection as its stream and its port share it: the protocol, the bytes that belong to it, and who waits. Knows no sockets.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use lowtide_cc::Time;
use lowtide_utp::{Connection, Failure, Header, Packet, Placement, Report, State, Transmit};

use crate::buffers::{Receiving, Sending};
use crate::train::Train;

/// A connection, shared by its stream and its port.
#[derive(Debug)]
pub(crate) struct Member {
    pub peer: SocketAddr,
    /// The address of this host that the peer connected to, and knows the connection by. None: this end connected, and the kernel chooses.
    pub local: Option<IpAddr>,
    end: Mutex<End>,
}

/// What the lock guards.
#[derive(Debug)]
pub(crate) struct End {
    pub protocol: Connection,
    pub sending: Sending,
    pub receiving: Receiving,
    pub reader: Option<Waker>,
    pub writer: Option<Waker>,
    /// Everything up to the peer's FIN is here.
    pub peer_ended: bool,
    /// The stream was dropped.
    pub orphaned: bool,
    /// The port is to look at it.
    pub queued: bool,
    /// The port knows that its next packet waits for its time.
    pub paced: bool,
    /// It was accepted and is to be offered to the listener once it is established.
    pub unoffered: bool,
    /// A packet that did not fit the last train.
    carried: Option<Transmit>,
    /// The RESET that tells the peer that this end gave up.
    reset: Option<Packet>,
}

impl Member {
    /// A connection that this end began.
    pub(crate) fn connecting(peer: SocketAddr, protocol: Connection) -> Arc<Member> {
        Arc::new(Member { peer, local: None, end: Mutex::new(End::new(protocol, false)) })
    }

    /// A connection that `peer` began, to this host's address `local`.
    pub(crate) fn accepted(peer: SocketAddr, local: Option<IpAddr>, protocol: Connection) -> Arc<Member> {
        Arc::new(Member { peer, local, end: Mutex::new(End::new(protocol, true)) })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, End> {
        // A panic elsewhere leaves numbers and buffers as they were between two packets.
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl End {
    fn new(protocol: Connection, accepted: bool) -> End {
        End {
            protocol,
            sending: Sending::default(),
            receiving: Receiving::default(),
            reader: None,
            writer: None,
            peer_ended: false,
            orphaned: false,
            queued: false,
            paced: false,
            unoffered: accepted,
            carried: None,
            reset: None,
        }
    }

    /// A packet arrived for it.
    pub(crate) fn on_packet(&mut self, packet: &Packet, payload: &[u8], now: Time, wakers: &mut Vec<Waker>) {
        let state = self.protocol.state();
        let arrival = self.protocol.on_packet(packet, now);
        if !self.orphaned {
            match arrival.payload {
                Placement::InOrder => self.receiving.push(packet.header.seq, payload, arrival.released),
                Placement::Held => self.receiving.hold(packet.header.seq, payload),
                Placement::Refused => {}
            }
        }
        if arrival.payload == Placement::InOrder {
            self.protocol.set_unread(self.receiving.len() as u32);
        }
        self.peer_ended |= arrival.end;
        self.sending.forget_before(self.protocol.kept_from());
        let changed = self.protocol.state() != state;
        if arrival.payload == Placement::InOrder || changed {
            wakers.extend(self.reader.take());
        }
        if changed || self.has_room() {
            wakers.extend(self.writer.take());
        }
    }

    /// The network reports about a packet that `quoted` is the header of.
    pub(crate) fn on_report(&mut self, quoted: &Header, report: Report, now: Time, wakers: &mut Vec<Waker>) {
        let state = self.protocol.state();
        self.protocol.on_report(quoted, report, now);
        self.wake_if_changed(state, wakers);
    }

    /// Gives back buffers that are empty.
    pub(crate) fn rest(&mut self) {
        self.sending.rest();
        self.receiving.rest();
    }

    /// This end gives up, and its peer is to be told, if there is one that knows of it.
    pub(crate) fn reset(&mut self, now: Time) {
        let state = self.protocol.state();
        if !matches!(state, State::Closed | State::Failed(_)) {
            let reset = self.protocol.abort(now);
            self.carried = None;
            self.reset = Some(reset).filter(|_| state == State::Connected);
        }
    }

    /// Nobody reads or writes it any more. What was written is still delivered.
    pub(crate) fn orphan(&mut self, now: Time) {
        self.orphaned = true;
        self.receiving.clear();
        self.protocol.set_unread(0);
        if self.protocol.state() == State::SynSent {
            // Nobody has answered: there is nobody to tell.
            self.protocol.abort(now);
        }
        self.protocol.close();
    }

    /// Nobody drives it any more: what its peer is to be told.
    pub(crate) fn give_up(&mut self, now: Time, wakers: &mut Vec<Waker>) -> Option<Packet> {
        let state = self.protocol.state();
        self.reset(now);
        self.wake_if_changed(state, wakers);
        self.reset.take()
    }

    fn wake_if_changed(&mut self, state: State, wakers: &mut Vec<Waker>) {
        if self.protocol.state() != state {
            wakers.extend(self.reader.take());
            wakers.extend(self.writer.take());
        }
    }

    /// Time passes.
    pub(crate) fn on_timer(&mut self, now: Time, wakers: &mut Vec<Waker>) {
        let state = self.protocol.state();
        self.protocol.on_timer(now);
        self.wake_if_changed(state, wakers);
    }

    /// Whether a writer that waits for room, or for its FIN's acknowledgement, is worth waking.
    fn has_room(&self) -> bool {
        self.sending.len() <= self.protocol.send_buffer() as usize / 4 * 3 || self.protocol.is_flushed()
    }

    /// Adds to `train` what may leave now; whether something is left that did not fit.
    pub(crate) fn fill(&mut self, train: &mut Train, now: Time) -> bool {
        if let Some(reset) = self.reset.take() {
            train.push(reset.bytes(), |out| reset.encode_head(out));
            return false;
        }
        // Acknowledged while it waited: its bytes are gone.
        self.carried =
            self.carried.take().filter(|carried| carried.packet.payload == 0 || carried.question || self.sending.has(carried.offset));
        while let Some(transmit) = self.carried.take().or_else(|| self.protocol.poll(now)) {
            let bytes = transmit.packet.bytes();
            // A probe that was lost leaves again as it is, larger than what is known to arrive whole.
            let alone = transmit.probe || transmit.packet.payload > self.protocol.packet();
            if !train.takes(bytes, alone) {
                self.carried = Some(transmit);
                return true;
            }
            (train.probe, train.alone) = (transmit.probe, alone);
            let sending = &self.sending;
            train.push(bytes, |out| {
                transmit.packet.encode_head(out);
                let len = usize::from(transmit.packet.payload);
                if transmit.question {
                    out.resize(out.len() + len, 0);
                } else if len > 0 {
                    sending.copy(transmit.offset, len, out);
                }
            });
        }
        false
    }

    /// The error that reads and writes end with, if it came to a bad end.
    pub(crate) fn error(&self) -> Option<io::Error> {
        let State::Failed(failure) = self.protocol.state() else { return None };
        let kind = match failure {
            Failure::TimedOut => io::ErrorKind::TimedOut,
            Failure::Reset | Failure::Unreachable => io::ErrorKind::ConnectionReset,
            Failure::Refused => io::ErrorKind::ConnectionRefused,
            Failure::NoRoute => io::ErrorKind::HostUnreachable,
            Failure::Aborted => io::ErrorKind::ConnectionAborted,
        };
        Some(io::Error::new(kind, failure))
    }
}

#[cfg(test)]
mod tests {
    use lowtide_cc::Span;
    use lowtide_utp::{Kind, Open, PathMtu};

    use super::*;
    use crate::options::Options;

    /// A peer may acknowledge what it guesses to be under way, or by now has from an earlier sending.
    #[test]
    fn what_is_acknowledged_while_it_waits_for_a_train_does_not_leave() {
        // Its first window has room for many packets.
        let options = Options { control: "cubic".to_owned(), packet: Some(1000), ..Options::default() };
        let (mtu, mut now, peer) = (PathMtu::IPV4, Time::from_millis(1), SocketAddr::from(([127, 0, 0, 1], 1)));
        let control = || options.control(mtu, 1, now).expect("it is there");
        let open = Open { id: 1, seq: 1 };
        let mut end = End::new(Connection::connect(options.config(mtu), control(), open, now), false);
        let syn = end.protocol.poll(now).expect("a SYN").packet;
        let mut other = Connection::accept(options.config(mtu), control(), &syn, 7, now);
        let answer = other.poll(now).expect("its answer").packet;
        end.on_packet(&answer, &[], now, &mut Vec::new());
        end.sending.push(&[7; 50_000]);
        end.protocol.write(50_000);
        let acknowledge = |end: &mut End, ack, now| {
            let header = Header { kind: Kind::State, connection_id: 1, ack, window: 1 << 20, ..answer.header };
            end.on_packet(&Packet { header, ..Packet::default() }, &[], now, &mut Vec::new());
        };
        let mut train = Train::new(peer, 1);
        while !end.fill(&mut train, now) {
            now += Span::from_millis(10);
            if let Some(header) = train.header().filter(|header| header.kind == Kind::Data) {
                acknowledge(&mut end, header.seq, now);
            }
            train.restart(peer, None);
            assert!(now < Time::from_millis(10_000), "{:?}", end.protocol);
        }
        let waiting = end.carried.expect("it did not fit").packet.header.seq;
        acknowledge(&mut end, waiting, now);
        train.restart(peer, None);
        end.fill(&mut train, now);
        assert_eq!(train.header().map(|header| header.seq), Some(waiting.wrapping_add(1)));
    }
}
