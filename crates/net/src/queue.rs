//! The contract between a queue discipline and the link that it feeds. Knows neither TCP nor a clock.

use lowtide_units::Time;

/// A packet as a queue sees it.
pub trait Packet {
    /// Its size as the queue counts it: the IP packet and whatever link header the host adds.
    fn bytes(&self) -> u32;
    /// The flow it belongs to: an id or a hash of the 5-tuple.
    fn flow(&self) -> u64;
    /// Its ECN codepoint.
    fn ecn(&self) -> Ecn;
    /// Sets CE; only called where [`Ecn::is_capable`].
    fn mark_ce(&mut self);
}

/// The ECN field (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECT(0).
    Ect0,
    /// ECT(1).
    Ect1,
    /// Congestion experienced.
    Ce,
}

impl Ecn {
    /// Whether a queue may mark instead of drop; a marked packet stays capable for later hops.
    pub fn is_capable(self) -> bool {
        self != Ecn::NotEct
    }
}

/// Why a packet left the path without arriving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// The queue was full.
    Overflow,
    /// The queue's active management chose it.
    Early,
    /// The link lost it.
    Loss,
}

/// A queue discipline. Holds the packets that *wait*; the one being serialised has left it.
///
/// Every packet that enters leaves exactly once: through `dequeue` or through `dropped`.
pub trait Queue<P: Packet>: Send {
    /// Takes `packet` in; what is dropped for it (itself or others) goes to `dropped`.
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<(P, Drop)>);

    /// The next packet to send, none if nothing waits; what the discipline drops on the way goes to `dropped`.
    fn dequeue(&mut self, now: Time, dropped: &mut Vec<(P, Drop)>) -> Option<P>;

    /// Bytes waiting.
    fn bytes(&self) -> u64;

    /// Packets waiting.
    fn packets(&self) -> usize;

    /// CE marks set so far.
    fn marks(&self) -> u64 {
        0
    }
}
