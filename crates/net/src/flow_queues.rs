//! The queues of a fair-queueing discipline: a FIFO with an AQM controller of its own for each hashed flow, served by deficit round robin,
//! and what they hold together. Knows no controller.

use lowtide_units::Time;

use crate::drr::{Classifier, Drr, List};
use crate::queue::{Packet, TimedFifo};
use crate::random::Seed;

/// How many queues, and how they are served (RFC 8290 §4.1.3, §5; FQ-PIE takes it over).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Flow queues: 1024.
    pub queues: usize,
    /// Bytes a turn: an MTU with its link header, 1514.
    pub quantum: u32,
    /// Packets in all queues together: 10240.
    pub limit_packets: usize,
    /// A queue of its own for every flow.
    pub perfect_hash: bool,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { queues: 1024, quantum: 1514, limit_packets: 10_240, perfect_hash: false }
    }
}

/// Flow queues under controllers `L`.
#[derive(Debug)]
pub(crate) struct FlowQueues<P, L> {
    /// Packets leave it through [`left`](FlowQueues::left).
    pub queues: Vec<(TimedFifo<P>, L)>,
    pub schedule: Drr,
    classifier: Classifier,
    limit_packets: usize,
    bytes: u64,
    packets: usize,
}

impl<P: Packet, L: Copy> FlowQueues<P, L> {
    /// Empty queues, each with `controller` as it begins; `seed` perturbs the hash.
    pub fn new(shape: Shape, controller: L, seed: Seed) -> FlowQueues<P, L> {
        FlowQueues {
            queues: (0..shape.queues).map(|_| (TimedFifo::default(), controller)).collect(),
            schedule: Drr::new(shape.queues, shape.quantum),
            classifier: Classifier::new(shape.queues, shape.perfect_hash, seed),
            limit_packets: shape.limit_packets,
            bytes: 0,
            packets: 0,
        }
    }
}

impl<P: Packet, L> FlowQueues<P, L> {
    /// The queue of `packet`'s flow.
    pub fn of(&mut self, packet: &P) -> u32 {
        self.classifier.queue(packet.flow())
    }

    /// True if the queue becomes active with this packet.
    pub fn push(&mut self, queue: u32, packet: P, now: Time) -> bool {
        self.bytes += u64::from(packet.bytes());
        self.packets += 1;
        self.queues[queue as usize].0.push_at(packet, now);
        self.schedule.activate(queue)
    }

    /// The queue whose turn it is, and the list it is served from.
    pub fn turn(&mut self) -> Option<(u32, List)> {
        self.schedule.turn()
    }

    /// A packet has left its queue.
    pub fn left(&mut self, packet: &P) {
        self.bytes -= u64::from(packet.bytes());
        self.packets -= 1;
    }

    /// No packet more fits.
    pub fn full(&self) -> bool {
        self.packets >= self.limit_packets
    }

    /// One packet too many is there.
    pub fn overfull(&self) -> bool {
        self.packets > self.limit_packets
    }

    /// Bytes in all queues.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Packets in all queues.
    pub fn packets(&self) -> usize {
        self.packets
    }
}
