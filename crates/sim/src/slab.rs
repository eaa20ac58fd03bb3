//! Packets under way, kept in one place until they arrive or are dropped. Queues and links pass handles of 32 bytes around, not the
//! packets: a packet is written once where it is sent and read once where it arrives. Knows no link.

use lowtide_net::Ecn;
use lowtide_units::Time;

use crate::packet::Packet;

/// What stages need to know of a packet under way.
#[derive(Clone, Copy, Debug)]
pub struct Handle {
    /// Where the packet is kept.
    slot: u32,
    /// The flow it belongs to.
    pub flow: u32,
    /// Bytes that queues and transmitters count: the IP packet and the link header.
    bytes: u32,
    /// Where the next stage of its path stands in [`Paths`](crate::paths::Paths).
    pub next_stage: u32,
    /// When it joined the queue it is in or was in last.
    pub queued: Time,
    /// Its ECN codepoint, which queues change.
    pub ecn: Ecn,
}

impl lowtide_net::Packet for Handle {
    fn bytes(&self) -> u32 {
        self.bytes
    }

    fn flow(&self) -> u64 {
        u64::from(self.flow)
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }
}

impl Handle {
    /// Whether it is the very same transmission as `other`.
    pub fn is_same(&self, other: &Handle) -> bool {
        self.slot == other.slot
    }
}

/// All packets under way.
#[derive(Debug, Default)]
pub struct Slab {
    packets: Vec<Packet>,
    free: Vec<u32>,
}

impl Slab {
    /// Keeps `packet`, which has `link_header` bytes of header besides and whose path begins at `next_stage`.
    #[inline]
    pub fn put(&mut self, packet: &Packet, link_header: u32, next_stage: u32, now: Time) -> Handle {
        let (flow, bytes, ecn) = (packet.flow, packet.size + link_header, packet.ecn);
        Handle { slot: self.keep(packet), flow, bytes, next_stage, queued: now, ecn }
    }

    #[inline]
    fn keep(&mut self, packet: &Packet) -> u32 {
        let Some(slot) = self.free.pop() else {
            self.packets.push(*packet);
            return (self.packets.len() - 1) as u32;
        };
        self.packets[slot as usize] = *packet;
        slot
    }

    /// The packet as it is now, with the mark that a queue may have set.
    #[inline]
    pub fn get(&mut self, handle: &Handle) -> &Packet {
        let packet = &mut self.packets[handle.slot as usize];
        packet.ecn = handle.ecn;
        packet
    }

    /// A second one like `handle`'s.
    pub fn duplicate(&mut self, handle: &Handle) -> Handle {
        let packet = *self.get(handle);
        Handle { slot: self.keep(&packet), ..*handle }
    }

    /// The packet has arrived or is lost: its place is free.
    #[inline]
    pub fn free(&mut self, handle: &Handle) {
        self.free.push(handle.slot);
    }

    /// Packets under way.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.packets.len() - self.free.len()
    }
}
