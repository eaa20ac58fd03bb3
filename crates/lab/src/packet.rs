//! A packet as the stack wrote it: raw IP bytes, with what a queue discipline asks about them. Does not know where it goes.

use std::hash::{DefaultHasher, Hash, Hasher};

use lowtide_net::Ecn;
use lowtide_units::Time;

/// The largest packet a device of the laboratory carries.
pub const MTU: usize = 1500;
/// Of an MTU and its headers' offsets: IPv4 and IPv6 (RFC 791, RFC 8200).
const V6_HEADER: usize = 40;

/// Raw IP bytes.
#[derive(Clone, Debug, Default)]
pub struct Packet {
    bytes: Vec<u8>,
    /// Bytes of link header that the bottleneck counts on top.
    header: u32,
    /// When it came to the queue.
    since: Time,
}

/// Buffers for packets, used again and again: the link's thread must not wait for an allocator.
#[derive(Debug, Default)]
pub struct Pool {
    free: Vec<Vec<u8>>,
}

impl Pool {
    /// A packet that holds a copy of `bytes`, for a bottleneck that counts `header` bytes more, at its queue since `since`.
    pub fn packet(&mut self, bytes: &[u8], header: u32, since: Time) -> Packet {
        let mut buffer = self.free.pop().unwrap_or_else(|| Vec::with_capacity(MTU));
        buffer.clear();
        buffer.extend_from_slice(bytes);
        Packet { bytes: buffer, header, since }
    }

    /// Takes a packet's buffer back.
    pub fn give_back(&mut self, packet: Packet) {
        self.free.push(packet.bytes);
    }
}

/// A packet's ports, source first; zero for what is not TCP or UDP.
pub type Ports = (u16, u16);

impl Packet {
    /// The IP packet.
    pub fn ip(&self) -> &[u8] {
        &self.bytes
    }

    /// When it came to the queue.
    pub fn since(&self) -> Time {
        self.since
    }

    /// Where the transport header starts and which it is; none for what is not IP or has extension headers.
    fn transport(&self) -> Option<(usize, u8)> {
        let first = *self.bytes.first()?;
        match first >> 4 {
            4 => Some((usize::from(first & 15) * 4, *self.bytes.get(9)?)),
            6 => Some((V6_HEADER, *self.bytes.get(6)?)),
            _ => None,
        }
    }

    /// The ports.
    pub fn ports(&self) -> Ports {
        match self.transport() {
            Some((at, 6 | 17)) => match self.bytes.get(at..at + 4) {
                Some(p) => (u16::from_be_bytes([p[0], p[1]]), u16::from_be_bytes([p[2], p[3]])),
                None => (0, 0),
            },
            _ => (0, 0),
        }
    }
}

impl lowtide_net::Packet for Packet {
    fn bytes(&self) -> u32 {
        self.bytes.len() as u32 + self.header
    }

    /// The same for all packets of one direction of one connection: addresses, protocol and ports.
    fn flow(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let addresses = if self.bytes.first().is_some_and(|b| b >> 4 == 6) { 8..V6_HEADER } else { 12..20 };
        (self.bytes.get(addresses), self.transport().map(|t| t.1), self.ports()).hash(&mut hasher);
        hasher.finish()
    }

    /// RFC 3168 §5: the last two bits of the traffic class.
    fn ecn(&self) -> Ecn {
        let bits = match self.bytes.get(..2) {
            Some(b) if b[0] >> 4 == 6 => b[1] >> 4 & 3,
            Some(b) => b[1] & 3,
            None => 0,
        };
        [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(bits)]
    }

    /// IPv4's header checksum follows (RFC 1624 eqn. 3).
    fn mark_ce(&mut self) {
        let Some(header) = self.bytes.get_mut(..20) else { return };
        if header[0] >> 4 == 6 {
            header[1] |= 0x30;
            return;
        }
        let before = u16::from_be_bytes([header[0], header[1]]);
        header[1] |= 3;
        let after = u16::from_be_bytes([header[0], header[1]]);
        let sum = u32::from(!u16::from_be_bytes([header[10], header[11]])) + u32::from(!before) + u32::from(after);
        let folded = (sum & 0xffff) + (sum >> 16);
        let checksum = !((folded & 0xffff) as u16 + (folded >> 16) as u16);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use lowtide_net::Packet as _;

    use super::*;

    fn sum(header: &[u8]) -> u16 {
        let sum: u32 = header.chunks(2).map(|p| u32::from(u16::from_be_bytes([p[0], p[1]]))).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        (folded & 0xffff) as u16 + (folded >> 16) as u16
    }

    #[test]
    fn a_mark_keeps_the_header_checksum_right_for_every_tos_and_identification() {
        for tos in 0..=255u8 {
            for id in [0u16, 1, 0x1234, 0xfffe, 0xffff] {
                let mut header = vec![0x45, tos, 0, 60, (id >> 8) as u8, id as u8, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
                let checksum = !sum(&header);
                header[10..12].copy_from_slice(&checksum.to_be_bytes());
                let mut packet = Pool::default().packet(&header, 14, Time::ZERO);
                packet.mark_ce();
                assert_eq!((packet.ecn(), sum(&packet.bytes)), (Ecn::Ce, 0xffff), "tos {tos} id {id}");
            }
        }
    }

    #[test]
    fn runts_are_no_flow_and_do_not_panic() {
        for length in 0..60 {
            let mut packet = Pool::default().packet(&vec![0x45; length], 14, Time::ZERO);
            packet.mark_ce();
            let _ = (packet.flow(), packet.ports(), packet.ecn());
        }
    }
}
