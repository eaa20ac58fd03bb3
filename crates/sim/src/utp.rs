//! An end of a uTP connection as the simulator drives it: its packets as packets of the simulation. Knows no flow and no world.

use lowtide_cc::Controller;
use lowtide_units::Time;
use lowtide_utp::{Config, Connection, Kind as Type, Open, Packet as Numbered, Sack};

use crate::packet::{Kind, Packet, UDP_HEADER, Utp};
use crate::sender_stats::SenderStats;

/// One end of a connection.
#[derive(Debug)]
pub struct UtpEnd {
    /// The connection itself.
    pub connection: Connection,
    flow: u32,
    /// It accepted: what it sends goes back to the flow's sender.
    accepted: bool,
}

impl UtpEnd {
    /// The end that connects; `seed` chooses its first packet number.
    pub fn connect(flow: u32, config: Config, cc: Box<dyn Controller>, seed: u64, now: Time) -> UtpEnd {
        let open = Open { id: flow as u16, seq: seed as u16 };
        UtpEnd { connection: Connection::connect(config, cc, open, now), flow, accepted: false }
    }

    /// The end that `packet` makes accept, if it is a SYN.
    pub fn accept(flow: u32, config: Config, cc: Box<dyn Controller>, packet: &Packet, seed: u64, now: Time) -> Option<UtpEnd> {
        let syn = numbered(packet).filter(|syn| syn.header.kind == Type::Syn)?;
        let seq = (seed >> 16) as u16;
        Some(UtpEnd { connection: Connection::accept(config, cc, &syn, seq, now), flow, accepted: true })
    }

    /// A packet arrives.
    pub fn on_packet(&mut self, packet: &Packet, now: Time) {
        if let Some(packet) = numbered(packet) {
            // The application reads at once: what is in order needs no keeping, and nobody looks at what it says.
            self.connection.on_packet(&packet, now);
        }
    }

    /// Writes the next packet to leave now to `room`, until there is none.
    pub fn poll(&mut self, now: Time, room: &mut Packet) -> bool {
        let Some(transmit) = self.connection.poll(now) else { return false };
        // A mask that reports nothing (all that is held lies beyond it) says no more than none.
        let packet = Numbered { sack: transmit.packet.sack.filter(|sack| !sack.is_empty()), ..transmit.packet };
        let Numbered { header, sack, .. } = packet;
        let utp = Utp { header, mask: sack.map_or(0, Sack::mask), back: self.accepted };
        *room = Packet::new(self.flow, Kind::Utp(utp), packet.bytes() as u32 + UDP_HEADER, now);
        room.seq = u32::from(header.seq);
        room.retransmission = transmit.again;
        room.fin = header.kind == Type::Fin;
        true
    }

    /// Counters.
    pub fn stats(&self) -> SenderStats {
        let stats = self.connection.stats();
        SenderStats {
            retransmits: stats.retransmits,
            losses: stats.retransmits,
            timeouts: stats.timeouts,
            episodes: stats.episodes,
            acks: 0,
            undone: 0,
        }
    }
}

/// A packet of the simulation as uTP sees it: payload is what its size leaves beside the headers.
pub(crate) fn numbered(packet: &Packet) -> Option<Numbered> {
    let Kind::Utp(Utp { header, mask, .. }) = packet.kind else { return None };
    let head = Numbered { header, sack: (mask != 0).then(|| Sack::from_mask(mask)), ..Numbered::default() };
    let payload = packet.size - UDP_HEADER - head.head_bytes() as u32;
    Some(Numbered { payload: payload as u16, ..head })
}

#[cfg(test)]
mod tests;
