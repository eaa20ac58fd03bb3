//! What tcpdump would show at both ends: `server.pcap` and `client.pcap`, with times in nanoseconds. Knows the file's format and
//! who is where; the headers are made elsewhere.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use lowtide_units::Time;

use super::{Participants, Step, Watcher, headers};
use crate::flow::Flow;
use crate::link::QueueState;
use crate::packet::{Kind, Packet};

/// What the servers' end sees.
pub const SERVER: &str = "server.pcap";
/// What the clients' end sees.
pub const CLIENT: &str = "client.pcap";

/// The magic number of files with nanoseconds, and version 2.4 (draft-ietf-opsawg-pcap).
const MAGIC: u32 = 0xa1b2_3c4d;
const VERSION: [u16; 2] = [2, 4];
/// Packets begin with the IP header.
const LINKTYPE_RAW: u32 = 101;

/// Both files while they are written.
pub struct Captures {
    participants: Arc<Participants>,
    snaplen: u32,
    server: BufWriter<File>,
    client: BufWriter<File>,
    /// The clocks in each connection's SYN and SYN-ACK, which the first segments echo.
    heard: Vec<[Time; 2]>,
    headers: Vec<u8>,
    result: io::Result<()>,
}

impl Captures {
    /// Files without packets in `folder`; of each packet, `snaplen` bytes are kept.
    pub fn create(folder: &Path, snaplen: u32, participants: &Arc<Participants>) -> io::Result<Captures> {
        let open = |name: &str| -> io::Result<BufWriter<File>> {
            let mut file = BufWriter::new(File::create(folder.join(name))?);
            file.write_all(&MAGIC.to_le_bytes())?;
            file.write_all(&VERSION[0].to_le_bytes())?;
            file.write_all(&VERSION[1].to_le_bytes())?;
            for word in [0, 0, snaplen, LINKTYPE_RAW] {
                file.write_all(&word.to_le_bytes())?;
            }
            Ok(file)
        };
        Ok(Captures {
            participants: Arc::clone(participants),
            snaplen,
            server: open(SERVER)?,
            client: open(CLIENT)?,
            heard: vec![[Time::ZERO; 2]; participants.connections.len()],
            headers: Vec::with_capacity(128),
            result: Ok(()),
        })
    }

    fn record(&mut self, now: Time, packet: &Packet, at_server: bool) -> io::Result<()> {
        let id = packet.flow as usize;
        let heard = match packet.kind {
            Kind::Syn | Kind::Datagram | Kind::Utp(_) => Time::ZERO,
            Kind::SynAck | Kind::Ack => self.heard[id][0],
            Kind::Data => self.heard[id][1],
        };
        headers::encode(packet, &self.participants.connections[id], heard, &mut self.headers);
        let kept = packet.size.min(self.snaplen) as usize;
        self.headers.resize(kept, 0);
        let file = if at_server { &mut self.server } else { &mut self.client };
        let (seconds, nanos) = ((now.nanos() / 1_000_000_000) as u32, (now.nanos() % 1_000_000_000) as u32);
        for word in [seconds, nanos, kept as u32, packet.size] {
            file.write_all(&word.to_le_bytes())?;
        }
        file.write_all(&self.headers)
    }
}

impl Watcher for Captures {
    fn packet(&mut self, now: Time, step: Step, packet: &Packet, _at: Option<(u16, QueueState)>) {
        let sends = match step {
            Step::Send => true,
            Step::Deliver => false,
            _ => return,
        };
        if self.result.is_err() {
            return;
        }
        let by_server = headers::from_server(packet, &self.participants.connections[packet.flow as usize]);
        self.result = self.record(now, packet, by_server == sends);
        match packet.kind {
            Kind::Syn => self.heard[packet.flow as usize][0] = packet.sent,
            Kind::SynAck => self.heard[packet.flow as usize][1] = packet.sent,
            _ => {}
        }
    }

    fn sender(&mut self, _now: Time, _id: u32, _flow: &mut Flow) {}

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.result?;
        self.server.flush()?;
        self.client.flush()
    }
}
