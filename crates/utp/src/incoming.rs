//! Packets received: what is in order, what is held behind a hole, and the mask that says so. Knows lengths, not payload.

use std::collections::VecDeque;

use crate::header::Sack;
use crate::seq::ahead;

/// REORDER_BUFFER_MAX_SIZE: packets further ahead than this are ignored.
pub(crate) const REACH: u16 = 1024;

/// Places for packets that an idle connection may keep.
const FEW: usize = 32;

/// What became of a packet's payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Not wanted: a duplicate, too far ahead, or nothing in it.
    #[default]
    Refused,
    /// Next in order.
    InOrder,
    /// Held behind a hole.
    Held,
}

/// The receiving side's numbers.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// The last packet in order (ack_nr).
    last: u16,
    /// Lengths of packets held; the first place is packet `last + 2`, since `last + 1` is missing.
    held: VecDeque<Option<u16>>,
    /// The number of the FIN.
    end: Option<u16>,
    /// Everything up to the FIN has come.
    finished: bool,
    delivered: u64,
    held_bytes: u64,
}

impl Incoming {
    pub(crate) fn new(last: u16) -> Incoming {
        Incoming { last, held: VecDeque::new(), end: None, finished: false, delivered: 0, held_bytes: 0 }
    }

    pub(crate) fn last(&self) -> u16 {
        self.last
    }

    /// Payload bytes in order so far.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Payload bytes held behind a hole.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// How many packets `seq` lies beyond the next one expected, around the wrap.
    pub(crate) fn distance(&self, seq: u16) -> u16 {
        ahead(self.last.wrapping_add(1), seq)
    }

    pub(crate) fn set_end(&mut self, seq: u16) {
        self.end.get_or_insert(seq);
    }

    /// Files a packet of `len` bytes; with it, how many held ones are in order now.
    pub(crate) fn store(&mut self, seq: u16, len: u16) -> (Placement, u16) {
        let distance = self.distance(seq);
        let past_end = self.end.is_some_and(|end| ahead(self.last, seq) > ahead(self.last, end));
        if distance >= REACH || past_end || self.finished {
            return (Placement::Refused, 0);
        }
        if distance > 0 {
            return (self.hold(usize::from(distance - 1), len), 0);
        }
        self.deliver(len);
        let mut released = 0;
        while let Some(Some(len)) = self.held.pop_front() {
            self.held_bytes -= u64::from(len);
            self.deliver(len);
            released += 1;
        }
        // An idle connection keeps no memory of a busy past.
        if self.held.is_empty() && self.held.capacity() > FEW {
            self.held = VecDeque::new();
        }
        (Placement::InOrder, released)
    }

    fn deliver(&mut self, len: u16) {
        self.last = self.last.wrapping_add(1);
        self.delivered += u64::from(len);
        if self.end == Some(self.last) {
            self.finished = true;
            self.held.clear();
            self.held_bytes = 0;
        }
    }

    fn hold(&mut self, at: usize, len: u16) -> Placement {
        if self.held.len() <= at {
            self.held.resize(at + 1, None);
        }
        if self.held[at].is_some() {
            return Placement::Refused;
        }
        self.held[at] = Some(len);
        self.held_bytes += u64::from(len);
        Placement::Held
    }

    /// The mask to send: something is held, of which the first thirty packets are told.
    pub(crate) fn sack(&self) -> Option<Sack> {
        if self.held.is_empty() {
            return None;
        }
        let told = self.held.iter().take(usize::from(Sack::LIBUTP_PACKETS)).enumerate();
        Some(Sack::from_mask(told.fold(0, |mask, (k, held)| mask | u32::from(held.is_some()) << k)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Acknowledging 100, holding 102, 104, 105, 106 is `1d 00 00 00`.
    #[test]
    fn the_mask_of_what_is_held() {
        let mut incoming = Incoming::new(100);
        assert_eq!(incoming.sack(), None);
        for seq in [106, 102, 105, 104] {
            assert_eq!(incoming.store(seq, 10), (Placement::Held, 0));
        }
        assert_eq!(incoming.sack(), Some(Sack::from_mask(0x1d)));
        assert_eq!(incoming.store(104, 10), (Placement::Refused, 0), "a duplicate");
        assert_eq!(incoming.store(101, 10), (Placement::InOrder, 1));
        assert_eq!((incoming.last(), incoming.sack()), (102, Some(Sack::from_mask(0b111))));
        assert_eq!(incoming.store(103, 10), (Placement::InOrder, 3));
        assert_eq!((incoming.last(), incoming.delivered(), incoming.sack()), (106, 60, None));
    }

    #[test]
    fn thirty_packets_are_told_and_a_thousand_held() {
        let mut incoming = Incoming::new(65_530);
        let from = |n: u16| 65_530u16.wrapping_add(n);
        for n in [32, 33, 1024] {
            assert_eq!(incoming.store(from(n), 1), (Placement::Held, 0), "{n}");
        }
        assert_eq!(incoming.store(from(1025), 1), (Placement::Refused, 0));
        assert_eq!(incoming.store(65_530, 1), (Placement::Refused, 0), "an old one");
        assert_eq!(incoming.sack(), Some(Sack::from_mask(0)), "32 and 33 lie beyond thirty bits");
        for n in 1..=31 {
            incoming.store(from(n), 1);
        }
        assert_eq!(incoming.last(), from(33));
    }

    #[test]
    fn nothing_counts_behind_the_end() {
        let mut incoming = Incoming::new(9);
        incoming.set_end(12);
        assert_eq!(incoming.store(12, 0).0, Placement::Held);
        assert_eq!(incoming.store(13, 5).0, Placement::Refused);
        incoming.store(10, 5);
        assert!(!incoming.is_finished());
        assert_eq!(incoming.store(11, 5), (Placement::InOrder, 1));
        assert!(incoming.is_finished());
        assert_eq!((incoming.delivered(), incoming.last()), (10, 12));
    }
}
