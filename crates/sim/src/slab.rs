//! Packets under way, kept in one place until they arrive or are dropped. Queues and links pass handles around, not the packets: a packet
//! is written once where it is sent and read once where it arrives. Knows no link.

use lowtide_net::{Ecn, Packet as _};
use lowtide_units::Time;

use crate::packet::{Kind, Packet};

/// What stages need to know of a packet under way.
///
/// Its parts share one number because a struct of many small fields is copied through memory in wide pieces, and a processor that reads
/// a piece of which a narrower part was just written waits until that write, and all before it, have reached the cache. Two numbers
/// stay in registers.
#[derive(Clone, Copy, Debug)]
pub struct Handle {
    /// From the top: the place where the packet is kept, its flow and where its next stage stands in [`Paths`](crate::paths::Paths), 32
    /// bits each; the bytes that queues and transmitters count (the IP packet and the link header), 30; its ECN field, which queues
    /// change, 2.
    parts: u128,
    /// When it joined the queue that it is in or was in last; behind a link, when it arrives.
    pub at: Time,
}

const BYTES: u32 = 2;
const NEXT_STAGE: u32 = 32;
const FLOW: u32 = 64;
const SLOT: u32 = 96;

impl lowtide_net::Packet for Handle {
    #[inline]
    fn bytes(&self) -> u32 {
        self.parts as u32 >> BYTES
    }

    #[inline]
    fn flow(&self) -> u64 {
        u64::from(self.flow())
    }

    #[inline]
    fn ecn(&self) -> Ecn {
        match self.parts & 0b11 {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect0,
            0b10 => Ecn::Ect1,
            _ => Ecn::Ce,
        }
    }

    #[inline]
    fn mark_ce(&mut self) {
        self.parts |= Ecn::Ce as u128;
    }
}

impl Handle {
    #[inline]
    fn new(slot: u32, next_stage: u32, packet: &Packet, bytes: u32, at: Time) -> Handle {
        debug_assert!(bytes < 1 << 30, "a packet of {bytes} bytes");
        let place = u128::from(slot) << SLOT | u128::from(packet.flow) << FLOW | u128::from(next_stage) << NEXT_STAGE;
        Handle { parts: place | u128::from(bytes << BYTES) | packet.ecn as u128, at }
    }

    /// The flow it belongs to.
    #[inline]
    pub fn flow(&self) -> u32 {
        (self.parts >> FLOW) as u32
    }

    /// Where the next stage of its path stands in [`Paths`](crate::paths::Paths).
    #[inline]
    pub fn next_stage(&self) -> u32 {
        (self.parts >> NEXT_STAGE) as u32
    }

    /// The handle of a packet that has come to the next stage.
    #[inline]
    pub fn advanced(self) -> Handle {
        Handle { parts: self.parts + (1 << NEXT_STAGE), ..self }
    }

    /// The handle with another time.
    #[inline]
    pub fn timed(self, at: Time) -> Handle {
        Handle { at, ..self }
    }

    #[inline]
    fn slot(&self) -> u32 {
        (self.parts >> SLOT) as u32
    }

    /// Whether it is the very same transmission as `other`.
    pub fn is_same(&self, other: &Handle) -> bool {
        self.slot() == other.slot()
    }
}

/// All packets under way, and a place for the next one. An end writes its packet there, where it stays: copied from the end's stack it
/// would be read in wide pieces right after its fields were written, see [`Handle`].
#[derive(Debug)]
pub struct Slab {
    packets: Vec<Packet>,
    free: Vec<u32>,
    /// The place for the next one.
    vacant: u32,
}

impl Default for Slab {
    fn default() -> Slab {
        Slab { packets: vec![Packet::new(0, Kind::Data, 0, Time::ZERO)], free: Vec::new(), vacant: 0 }
    }
}

impl Slab {
    /// Where the next packet is written.
    #[inline]
    pub fn vacancy(&mut self) -> &mut Packet {
        &mut self.packets[self.vacant as usize]
    }

    /// A packet and, besides, where the next one is written.
    #[inline]
    pub fn get_and_vacancy(&mut self, handle: &Handle) -> (&Packet, &mut Packet) {
        self.get(handle);
        let [packet, vacancy] =
            self.packets.get_disjoint_mut([handle.slot() as usize, self.vacant as usize]).expect("no packet lies where the next one will");
        (packet, vacancy)
    }

    /// Keeps the packet that was written where the next one is: it has `link_header` bytes of header besides, and its path begins at
    /// `next_stage`.
    #[inline]
    pub fn keep(&mut self, link_header: u32, next_stage: u32, now: Time) -> Handle {
        let slot = self.vacant;
        self.vacant = self.free.pop().unwrap_or_else(|| {
            self.packets.push(self.packets[slot as usize]);
            (self.packets.len() - 1) as u32
        });
        let packet = &self.packets[slot as usize];
        Handle::new(slot, next_stage, packet, packet.size + link_header, now)
    }

    /// Keeps `packet`.
    #[inline]
    pub fn put(&mut self, packet: &Packet, link_header: u32, next_stage: u32, now: Time) -> Handle {
        *self.vacancy() = *packet;
        self.keep(link_header, next_stage, now)
    }

    /// The packet as it is now, with the mark that a queue may have set.
    #[inline]
    pub fn get(&mut self, handle: &Handle) -> &Packet {
        let packet = &mut self.packets[handle.slot() as usize];
        packet.ecn = handle.ecn();
        packet
    }

    /// A second one like `handle`'s.
    pub fn duplicate(&mut self, handle: &Handle) -> Handle {
        let packet = *self.get(handle);
        let place = self.put(&packet, 0, 0, handle.at).parts >> SLOT << SLOT;
        Handle { parts: handle.parts & ((1 << SLOT) - 1) | place, ..*handle }
    }

    /// The packet has arrived or is lost: its place is free.
    #[inline]
    pub fn free(&mut self, handle: &Handle) {
        self.free.push(handle.slot());
    }

    /// Packets under way.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.packets.len() - self.free.len() - 1
    }
}
