//! What a queue discipline is: packets in, packets out, the time told with each call. Knows no discipline and no host.

use std::collections::VecDeque;

use lowtide_units::{Span, Time};

/// A packet as a queue sees it.
pub trait Packet {
    /// The size the queue counts: the IP packet and whatever link header the host adds to it.
    fn bytes(&self) -> u32;
    /// The flow it belongs to: an id, or a hash of the 5-tuple.
    fn flow(&self) -> u64;
    /// The ECN field.
    fn ecn(&self) -> Ecn;
    /// Sets the ECN field to CE. Called only on packets whose field is not [`Ecn::NotEct`].
    fn mark_ce(&mut self);
}

/// The ECN field of the IP header (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// 00: the transport does not understand marks.
    #[default]
    NotEct,
    /// 10: the usual ECN-capable codepoint.
    Ect0,
    /// 01: the codepoint L4S uses.
    Ect1,
    /// 11: congestion experienced, and still ECN-capable for later hops.
    Ce,
}

impl Ecn {
    /// Whether a queue may mark instead of dropping.
    pub fn capable(self) -> bool {
        self != Ecn::NotEct
    }
}

/// Why a packet left the path without arriving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// The queue was full.
    Overflow,
    /// The discipline wanted its sender to slow down.
    Early,
    /// The link lost it.
    Loss,
}

/// A queue discipline. It holds packets *waiting*; the one being serialised has left it.
///
/// Calls come in order of time. Between two calls nothing happens: what a discipline does on a timer it catches up with
/// at the next call, so that a host needs no event for it. Every packet given to `enqueue` comes out exactly once,
/// from `dequeue` or in `dropped`.
pub trait Queue<P: Packet>: Send {
    /// Takes a packet. What is refused or thrown out to make room, this packet or another, is added to `dropped`.
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<(P, Drop)>);

    /// Gives the next packet to send; none only if nothing waits any more. What is dropped on the way is added to `dropped`.
    fn dequeue(&mut self, now: Time, dropped: &mut Vec<(P, Drop)>) -> Option<P>;

    /// Bytes waiting.
    fn bytes(&self) -> u64;

    /// Packets waiting.
    fn packets(&self) -> usize;

    /// CE marks set so far.
    fn marks(&self) -> u64;
}

/// Marks `packet` if its transport understands marks.
pub(crate) fn mark<P: Packet>(packet: &mut P) -> bool {
    let capable = packet.ecn().capable();
    if capable {
        packet.mark_ce();
    }
    capable
}

/// A packet and when it was queued.
#[derive(Debug)]
pub(crate) struct Waiting<P> {
    pub packet: P,
    pub since: Time,
}

impl<P> Waiting<P> {
    pub fn sojourn(&self, now: Time) -> Span {
        now.since(self.since)
    }
}

impl<P: Packet> Packet for Waiting<P> {
    fn bytes(&self) -> u32 {
        self.packet.bytes()
    }

    fn flow(&self) -> u64 {
        self.packet.flow()
    }

    fn ecn(&self) -> Ecn {
        self.packet.ecn()
    }

    fn mark_ce(&mut self) {
        self.packet.mark_ce();
    }
}

/// Lets an empty ring begin at its start again: one that is mostly empty stays in a few cache lines instead of walking through all the
/// memory that its longest queue once took.
#[inline]
pub fn restart_if_empty<T>(ring: &mut VecDeque<T>) {
    if ring.is_empty() {
        ring.clear();
    }
}

/// First in, first out, with the bytes counted.
#[derive(Debug)]
pub(crate) struct Fifo<P> {
    waiting: VecDeque<P>,
    bytes: u64,
}

/// The same for a discipline that asks how long its packets have waited.
pub(crate) type TimedFifo<P> = Fifo<Waiting<P>>;

impl<P> Default for Fifo<P> {
    fn default() -> Fifo<P> {
        Fifo { waiting: VecDeque::new(), bytes: 0 }
    }
}

impl<P: Packet> Fifo<P> {
    pub fn push(&mut self, packet: P) {
        self.bytes += u64::from(packet.bytes());
        self.waiting.push_back(packet);
    }

    pub fn pop(&mut self) -> Option<P> {
        let packet = self.waiting.pop_front()?;
        restart_if_empty(&mut self.waiting);
        self.bytes -= u64::from(packet.bytes());
        Some(packet)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn packets(&self) -> usize {
        self.waiting.len()
    }
}

impl<P: Packet> TimedFifo<P> {
    /// `packet` comes at `since`.
    pub fn push_at(&mut self, packet: P, since: Time) {
        self.push(Waiting { packet, since });
    }
}
