//! Packets sent and not yet acknowledged, by their numbers: which are in flight, which are owed again, in what order they left.
//! Knows no timers and no windows.

use std::collections::VecDeque;

use lowtide_units::{Span, Time};

use crate::header::Kind;
use crate::newest::NewestArrival;
use crate::seq::ahead;

/// OUTGOING_BUFFER_MAX_SIZE: packets at most.
pub(crate) const MOST: usize = 1024;
/// Places for packets that an idle connection may keep.
const FEW: usize = 8;
/// What stands for the RTT of a packet that seems to be acknowledged before it was sent.
const CLOCK_WENT_BACK: Span = Span::from_millis(50);

/// A packet that is numbered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub kind: Kind,
    /// Payload bytes, and where in the stream they begin.
    pub len: u16,
    pub offset: u64,
    /// How often it left.
    pub transmissions: u16,
    /// When it left last, and as which of all transmissions: a clock that never stands still.
    pub at: Time,
    pub order: u64,
    /// Bytes delivered on the connection when it left last, since when they were, and when the packet left that this was known by then
    /// (draft-cheng-iccrg-delivery-rate-estimation, sec. 3.2: P.delivered, P.delivered_time, P.first_sent_time).
    pub delivered: u64,
    pub delivered_at: Time,
    pub first_at: Time,
    /// Given up by a timeout, hence not in flight; leaves again when the window allows.
    pub marked: bool,
    /// Leaves again at once.
    pub queued: bool,
    /// Acknowledged out of order.
    pub acked: bool,
    /// Left as a probe of the path's MTU: its loss says nothing about congestion (RFC 8899, sec. 3).
    pub probe: bool,
}

/// What an acknowledgement newly covers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub bytes: u64,
    /// The shortest RTT among the packets covered, retransmitted ones too.
    pub min_rtt: Option<Span>,
    /// Bytes delivered when the newest of them was sent.
    pub prior_delivered: u64,
    /// The time in which what was delivered since then was: the longer of sending and acknowledging it.
    pub interval: Span,
    newest: u64,
}

/// The packets `first()..next()`.
#[derive(Debug)]
pub(crate) struct Outgoing {
    packets: VecDeque<Sent>,
    next: u16,
    in_flight: u64,
    transmissions: u64,
    delivered: u64,
    /// When `delivered` grew last, and when the packet left that made it grow.
    delivered_at: Time,
    first_at: Time,
    newest: NewestArrival,
    marked: usize,
    queued: usize,
}

impl Outgoing {
    pub(crate) fn new(next: u16) -> Outgoing {
        Outgoing {
            packets: VecDeque::new(),
            next,
            in_flight: 0,
            transmissions: 0,
            delivered: 0,
            delivered_at: Time::ZERO,
            first_at: Time::ZERO,
            newest: NewestArrival::default(),
            marked: 0,
            queued: 0,
        }
    }

    /// The oldest packet not acknowledged, `next()` if there is none.
    pub(crate) fn first(&self) -> u16 {
        self.next.wrapping_sub(self.len())
    }

    /// The number that the next packet will have.
    pub(crate) fn next(&self) -> u16 {
        self.next
    }

    pub(crate) fn len(&self) -> u16 {
        self.packets.len() as u16
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        // One place is kept for the FIN.
        self.packets.len() >= MOST - 1
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Where in the stream the oldest packet begins.
    pub(crate) fn oldest_offset(&self) -> Option<u64> {
        self.packets.front().map(|sent| sent.offset)
    }

    /// Payload bytes acknowledged so far.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Packet `seq`, if it is still owed.
    pub(crate) fn get(&self, seq: u16) -> Option<&Sent> {
        self.packets.get(usize::from(ahead(self.first(), seq))).filter(|sent| !sent.acked)
    }

    fn get_mut(&mut self, seq: u16) -> Option<&mut Sent> {
        let at = usize::from(ahead(self.first(), seq));
        self.packets.get_mut(at).filter(|sent| !sent.acked)
    }

    /// A new packet, to leave at once.
    pub(crate) fn push(&mut self, kind: Kind, len: u16, offset: u64) -> u16 {
        let seq = self.next;
        self.next = seq.wrapping_add(1);
        self.queued += 1;
        self.packets.push_back(Sent {
            kind,
            len,
            offset,
            transmissions: 0,
            at: Time::ZERO,
            order: 0,
            delivered: 0,
            delivered_at: Time::ZERO,
            first_at: Time::ZERO,
            marked: false,
            queued: true,
            acked: false,
            probe: false,
        });
        seq
    }

    /// Packet `seq` probes the path's MTU.
    pub(crate) fn set_probe(&mut self, seq: u16) {
        if let Some(sent) = self.get_mut(seq) {
            sent.probe = true;
        }
    }

    /// Packet `seq` is to leave again at once.
    pub(crate) fn queue(&mut self, seq: u16) {
        if let Some(sent) = self.get_mut(seq)
            && !std::mem::replace(&mut sent.queued, true)
        {
            self.queued += 1;
        }
    }

    /// The oldest packet that is to leave at once.
    pub(crate) fn next_queued(&self) -> Option<u16> {
        (self.queued > 0).then(|| self.find(|sent| sent.queued))?
    }

    /// The oldest packet that leaves again when the window allows.
    pub(crate) fn next_marked(&self) -> Option<u16> {
        (self.marked > 0).then(|| self.find(|sent| sent.marked))?
    }

    fn find(&self, which: impl Fn(&Sent) -> bool) -> Option<u16> {
        let at = self.packets.iter().position(|sent| !sent.acked && which(sent))?;
        Some(self.first().wrapping_add(at as u16))
    }

    /// Packet `seq` leaves now.
    pub(crate) fn transmit(&mut self, seq: u16, now: Time) -> Option<Sent> {
        self.transmissions += 1;
        if self.in_flight == 0 {
            // What left before a pause says nothing about the rate.
            (self.delivered_at, self.first_at) = (now, now);
        }
        let (order, delivered, delivered_at, first_at) = (self.transmissions, self.delivered, self.delivered_at, self.first_at);
        let place = self.get_mut(seq)?;
        let before = *place;
        let transmissions = before.transmissions.saturating_add(1);
        let sent = Sent { transmissions, at: now, order, marked: false, queued: false, delivered, delivered_at, first_at, ..before };
        *place = sent;
        let joins = before.transmissions == 0 || before.marked;
        self.in_flight += if joins { u64::from(sent.len) } else { 0 };
        self.marked -= usize::from(before.marked);
        self.queued -= usize::from(before.queued);
        Some(sent)
    }

    /// Packet `seq` has arrived; how it left last, unless that was known or it never left.
    pub(crate) fn ack(&mut self, seq: u16, now: Time, tally: &mut Tally) -> Option<Sent> {
        let place = self.get_mut(seq).filter(|sent| sent.transmissions > 0)?;
        let sent = *place;
        place.acked = true;
        self.in_flight -= if sent.marked { 0 } else { u64::from(sent.len) };
        self.marked -= usize::from(sent.marked);
        self.queued -= usize::from(sent.queued);
        self.delivered += u64::from(sent.len);
        (self.delivered_at, self.first_at) = (now, self.first_at.max(sent.at));
        self.newest.arrived(sent.order);
        tally.add(&sent, now);
        Some(sent)
    }

    /// Forgets what lies in front of the oldest packet not acknowledged.
    pub(crate) fn advance(&mut self) {
        while self.packets.front().is_some_and(|sent| sent.acked) {
            self.packets.pop_front();
        }
        // An idle connection keeps no memory of a busy past.
        if self.packets.is_empty() && self.packets.capacity() > FEW {
            self.packets = VecDeque::new();
        }
    }

    /// Something that left after `sent` did has arrived.
    pub(crate) fn overtaken(&self, sent: &Sent) -> bool {
        self.newest.overtook(sent.order)
    }

    /// A timeout: nothing is in flight any more, all of it is owed again.
    pub(crate) fn give_up(&mut self) {
        for sent in self.packets.iter_mut().filter(|sent| !sent.acked && sent.transmissions > 0 && !sent.marked) {
            sent.marked = true;
            self.marked += 1;
            self.in_flight -= u64::from(sent.len);
        }
    }
}

impl Tally {
    fn add(&mut self, sent: &Sent, now: Time) {
        let rtt = if sent.at < now { now.since(sent.at) } else { CLOCK_WENT_BACK };
        self.bytes += u64::from(sent.len);
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
        if sent.order >= self.newest {
            self.newest = sent.order;
            self.prior_delivered = sent.delivered;
            self.interval = now.since(sent.delivered_at).max(sent.at.since(sent.first_at));
        }
    }
}
