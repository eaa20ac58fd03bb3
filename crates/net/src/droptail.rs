//! Drop-tail: one FIFO that refuses the arriving packet when it is full, counted in bytes or in packets (aqm.md I.2).

use std::collections::VecDeque;

use lowtide_units::Time;

use crate::queue::{Drop, Packet, Queue};

/// What fills a drop-tail queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At most so many bytes.
    Bytes(u64),
    /// At most so many packets.
    Packets(usize),
}

/// A first-in-first-out queue with a limit.
#[derive(Debug)]
pub struct DropTail<P> {
    waiting: VecDeque<P>,
    bytes: u64,
    limit: Limit,
}

impl<P: Packet> DropTail<P> {
    /// An empty queue.
    pub fn new(limit: Limit) -> DropTail<P> {
        DropTail { waiting: VecDeque::new(), bytes: 0, limit }
    }

    fn accepts(&self, packet: &P) -> bool {
        match self.limit {
            Limit::Bytes(limit) => self.bytes + u64::from(packet.bytes()) <= limit,
            Limit::Packets(limit) => self.waiting.len() < limit,
        }
    }
}

impl<P: Packet + Send> Queue<P> for DropTail<P> {
    fn enqueue(&mut self, packet: P, _now: Time, dropped: &mut Vec<(P, Drop)>) {
        if !self.accepts(&packet) {
            dropped.push((packet, Drop::Overflow));
            return;
        }
        self.bytes += u64::from(packet.bytes());
        self.waiting.push_back(packet);
    }

    fn dequeue(&mut self, _now: Time, _dropped: &mut Vec<(P, Drop)>) -> Option<P> {
        let packet = self.waiting.pop_front()?;
        self.bytes -= u64::from(packet.bytes());
        Some(packet)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn packets(&self) -> usize {
        self.waiting.len()
    }
}
