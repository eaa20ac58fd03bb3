//! Each step of each packet as a row of `events.parquet`. Knows the columns' words, not the file's format.

use std::io;
use std::path::Path;
use std::sync::Arc;

use lowtide_net::Drop;
use lowtide_scenario::events::{EventWriter, PacketEvent};
use lowtide_units::Time;
use lowtide_utp::Kind as Type;

use super::{Participants, Step, Watcher};
use crate::flow::Flow;
use crate::link::QueueState;
use crate::packet::{Kind, Packet};

/// The file while it is written.
pub struct Events {
    writer: EventWriter,
    participants: Arc<Participants>,
    nowhere: Arc<str>,
    result: io::Result<()>,
}

impl Events {
    /// A file without events in `folder`.
    pub fn create(folder: &Path, participants: &Arc<Participants>) -> io::Result<Events> {
        Ok(Events { writer: EventWriter::create(folder)?, participants: Arc::clone(participants), nowhere: "".into(), result: Ok(()) })
    }
}

impl Watcher for Events {
    fn packet(&mut self, now: Time, step: Step, packet: &Packet, at: Option<(u16, QueueState)>) {
        if self.result.is_err() {
            return;
        }
        let link = at.map_or(&self.nowhere, |(stage, _)| &self.participants.links[usize::from(stage)]);
        self.result = self.writer.push(PacketEvent {
            time_ns: now.nanos(),
            event: word(step),
            link: Arc::clone(link),
            flow: Arc::clone(&self.participants.connections[packet.flow as usize].name),
            packet: kind(packet),
            connection: packet.flow,
            number: packet.seq,
            bytes: packet.size,
            queue_bytes: at.map_or(0, |(_, queue)| queue.bytes),
            queue_packets: at.map_or(0, |(_, queue)| queue.packets as u64),
        });
    }

    fn sender(&mut self, _now: Time, _id: u32, _flow: &mut Flow) {}

    fn finish(self: Box<Self>) -> io::Result<()> {
        let Events { writer, result, .. } = *self;
        result?;
        writer.finish()
    }
}

fn word(step: Step) -> &'static str {
    match step {
        Step::Send => "send",
        Step::Enqueue => "enqueue",
        Step::Mark => "mark",
        Step::Dequeue => "dequeue",
        Step::Drop(Drop::Overflow) => "drop-overflow",
        Step::Drop(Drop::Early) => "drop-early",
        Step::Drop(Drop::Loss) => "drop-loss",
        Step::Deliver => "deliver",
    }
}

fn kind(packet: &Packet) -> &'static str {
    match packet.kind {
        Kind::Syn => "syn",
        Kind::SynAck => "syn-ack",
        Kind::Data if packet.retransmission => "resent",
        Kind::Data => "data",
        Kind::Ack => "ack",
        Kind::Datagram => "datagram",
        Kind::Utp(utp) => match utp.header.kind {
            Type::Syn => "syn",
            Type::Data if packet.retransmission => "resent",
            Type::Data => "data",
            Type::State => "ack",
            Type::Fin => "fin",
            Type::Reset => "reset",
        },
    }
}
