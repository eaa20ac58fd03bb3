//! FQ-CoDel (RFC 8290): deficit round robin over hashed flow queues, each with CoDel of its own.

use lowtide_units::Time;
use serde::{Deserialize, Serialize};

use crate::codel::{Law, Parameters};
use crate::drr::{Classifier, Drr};
use crate::queue::{Drop, Fifo, Packet, Queue};

/// FQ-CoDel's own parameters (RFC 8290 §4.1.3, §5).
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

/// FQ-CoDel as a scenario writes it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Acceptable standing delay of each queue.
    pub target_ms: f64,
    /// About a worst-case RTT.
    pub interval_ms: f64,
    /// Packets at most, all queues together.
    pub packets: usize,
    /// Flow queues.
    pub queues: usize,
    /// Bytes a turn.
    pub quantum: u32,
    /// A queue of its own for every flow.
    pub perfect_hash: bool,
    /// Mark ECT packets instead of dropping them.
    pub ecn: bool,
    /// Mark every ECT packet that waited longer than this.
    pub ce_threshold_ms: Option<f64>,
    /// Packets that a device below the discipline holds in addition.
    pub device_queue_packets: usize,
}

impl Default for Config {
    fn default() -> Config {
        let shape = Shape::default();
        Config {
            target_ms: 5.0,
            interval_ms: 100.0,
            packets: shape.limit_packets,
            queues: shape.queues,
            quantum: shape.quantum,
            perfect_hash: false,
            ecn: true,
            ce_threshold_ms: None,
            device_queue_packets: 0,
        }
    }
}

/// The discipline.
#[derive(Debug)]
pub struct FqCoDel<P> {
    shape: Shape,
    parameters: Parameters,
    queues: Vec<(Fifo<P>, Law)>,
    classifier: Classifier,
    schedule: Drr,
    bytes: u64,
    packets: usize,
    marks: u64,
}

impl<P: Packet> FqCoDel<P> {
    /// An empty discipline; `seed` perturbs the hash.
    pub fn new(shape: Shape, parameters: Parameters, seed: u64) -> FqCoDel<P> {
        FqCoDel {
            queues: (0..shape.queues).map(|_| (Fifo::default(), Law::default())).collect(),
            classifier: Classifier::new(shape.queues, shape.perfect_hash, seed),
            schedule: Drr::new(shape.queues, shape.quantum),
            shape,
            parameters,
            bytes: 0,
            packets: 0,
            marks: 0,
        }
    }

    /// RFC 8290 §4.1.3: the head of the queue that holds most bytes.
    fn drop_from_the_fattest(&mut self, dropped: &mut Vec<(P, Drop)>) {
        let Some(fattest) = (0..self.queues.len()).max_by_key(|&i| self.queues[i].0.bytes()) else { return };
        if let Some(stamped) = self.queues[fattest].0.pop() {
            self.left(&stamped.packet);
            dropped.push((stamped.packet, Drop::Overflow));
        }
    }

    fn left(&mut self, packet: &P) {
        self.bytes -= u64::from(packet.bytes());
        self.packets -= 1;
    }
}

impl<P: Packet + Send> Queue<P> for FqCoDel<P> {
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<(P, Drop)>) {
        let queue = self.classifier.queue(packet.flow());
        self.bytes += u64::from(packet.bytes());
        self.packets += 1;
        self.queues[queue as usize].0.push(packet, now);
        self.schedule.activate(queue);
        if self.packets > self.shape.limit_packets {
            self.drop_from_the_fattest(dropped);
        }
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Vec<(P, Drop)>) -> Option<P> {
        while let Some((queue, list)) = self.schedule.turn() {
            let before = dropped.len();
            let (fifo, law) = &mut self.queues[queue as usize];
            let marks = law.marks;
            let packet = law.dequeue(fifo, &self.parameters, now, dropped);
            self.marks += law.marks - marks;
            for (lost, _) in &dropped[before..] {
                self.bytes -= u64::from(lost.bytes());
                self.packets -= 1;
            }
            if let Some(packet) = packet {
                self.left(&packet);
                self.schedule.served(queue, packet.bytes());
                return Some(packet);
            }
            self.schedule.empty(queue, list);
        }
        None
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn packets(&self) -> usize {
        self.packets
    }

    fn marks(&self) -> u64 {
        self.marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Pkt, pkt};

    fn discipline() -> FqCoDel<Pkt> {
        FqCoDel::new(Shape { perfect_hash: true, ..Shape::default() }, Parameters::default(), 1)
    }

    fn order(queue: &mut FqCoDel<Pkt>, count: usize) -> Vec<(u64, u32)> {
        (0..count).map_while(|_| queue.dequeue(Time::ZERO, &mut Vec::new())).map(|p| (p.flow, p.bytes)).collect()
    }

    #[test]
    fn two_backlogged_flows_alternate() {
        let mut queue = discipline();
        for flow in [1, 2] {
            for _ in 0..50 {
                queue.enqueue(pkt(flow, 1514), Time::ZERO, &mut Vec::new());
            }
        }
        let flows: Vec<u64> = order(&mut queue, 100).into_iter().map(|p| p.0).collect();
        assert!(flows.windows(2).all(|w| w[0] != w[1]), "{flows:?}");
    }

    /// Packets of 300 bytes against 1514: six in the first turn, then five or six; equal bytes.
    #[test]
    fn turns_are_fair_by_bytes() {
        let mut queue = discipline();
        for _ in 0..300 {
            queue.enqueue(pkt(1, 300), Time::ZERO, &mut Vec::new());
            queue.enqueue(pkt(2, 1514), Time::ZERO, &mut Vec::new());
        }
        let sent = order(&mut queue, 300);
        assert_eq!(sent.iter().take_while(|p| p.0 == 1).count(), 6);
        let bytes = |flow| sent.iter().filter(|p| p.0 == flow).map(|p| i64::from(p.1)).sum::<i64>();
        assert!((bytes(1) - bytes(2)).abs() <= 2 * 1514, "{} and {}", bytes(1), bytes(2));
    }

    #[test]
    fn a_sparse_flow_overtakes_the_backlog_and_overflow_hits_the_fattest() {
        let shape = Shape { perfect_hash: true, limit_packets: 100, ..Shape::default() };
        let (mut queue, mut dropped) = (FqCoDel::new(shape, Parameters::default(), 1), Vec::new());
        for _ in 0..100 {
            queue.enqueue(pkt(1, 1514), Time::ZERO, &mut dropped);
        }
        order(&mut queue, 2);
        queue.enqueue(pkt(2, 200), Time::ZERO, &mut dropped);
        queue.enqueue(pkt(2, 200), Time::ZERO, &mut dropped);
        queue.enqueue(pkt(2, 200), Time::ZERO, &mut dropped);
        assert_eq!(dropped.iter().map(|(p, _)| p.flow).collect::<Vec<_>>(), [1]);
        assert_eq!(order(&mut queue, 1)[0].0, 2);
    }
}
