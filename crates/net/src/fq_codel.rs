//! FQ-CoDel (RFC 8290, Linux `sch_fq_codel.c`): deficit round robin over hashed flow queues, each with CoDel of its own.

use lowtide_units::{Rate, Time};
use serde::{Deserialize, Serialize};

use crate::codel::{CodelController, Parameters, Source};
use crate::configuration::Configuration;
use crate::error::{ConfigError, require};
use crate::flow_queues::FlowQueues;
pub use crate::flow_queues::Shape;
use crate::queue::{Drop, Packet, Queue};
use crate::random::Seed;

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
    /// CoDel spares the last packet of each flow queue (ns-3); otherwise only the last of all queues together (Linux).
    pub own_backlog: bool,
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
            own_backlog: false,
            device_queue_packets: 0,
        }
    }
}

impl Configuration for Config {
    fn build<P: Packet + Send + 'static>(&self, name: &'static str, _rate: Rate, seed: Seed) -> Result<Box<dyn Queue<P>>, ConfigError> {
        let parameters = Parameters::from_ms(name, self.target_ms, self.interval_ms, self.ecn, self.ce_threshold_ms)?;
        let sizes = self.packets > 0 && self.queues > 0 && self.quantum > 0;
        require(sizes, name, "`packets`, `queues` and `quantum` must be above 0")?;
        let shape = Shape { queues: self.queues, quantum: self.quantum, limit_packets: self.packets, perfect_hash: self.perfect_hash };
        Ok(Box::new(FqCoDel::new(shape, parameters, seed).with_own_backlog(self.own_backlog)))
    }

    fn device_queue_packets(&self) -> usize {
        self.device_queue_packets
    }

    fn flow_queues(&self) -> usize {
        self.queues
    }
}

/// Packets that one overflow drops at most (Linux and ns-3: `drop_batch_size` 64).
const DROP_BATCH: usize = 64;

/// The discipline.
#[derive(Debug)]
pub struct FqCoDel<P> {
    parameters: Parameters,
    flows: FlowQueues<P, CodelController>,
    own_backlog: bool,
    marks: u64,
}

impl<P: Packet> FqCoDel<P> {
    /// An empty discipline that spares the last packet of all queues together; `seed` perturbs the hash.
    pub fn new(shape: Shape, parameters: Parameters, seed: Seed) -> FqCoDel<P> {
        FqCoDel { parameters, flows: FlowQueues::new(shape, CodelController::default(), seed), own_backlog: false, marks: 0 }
    }

    /// Spares the last packet of each queue, as ns-3 does.
    #[must_use]
    pub fn with_own_backlog(self, own_backlog: bool) -> FqCoDel<P> {
        FqCoDel { own_backlog, ..self }
    }

    /// From the head of the queue that holds most bytes, half of them but at most [`DROP_BATCH`] packets; its CoDel counts them as
    /// drops of its own (Linux: `fq_codel_drop`; RFC 8290 §4.1 asks for one packet and permits the batch).
    fn drop_from_the_fattest(&mut self, dropped: &mut Vec<(P, Drop)>) {
        // Of equals the first, as Linux searches.
        let Some((fifo, controller)) = self.flows.queues.iter_mut().rev().max_by_key(|(fifo, _)| fifo.bytes()) else { return };
        let (goal, before) = (fifo.bytes() / 2, dropped.len());
        let mut freed = 0;
        for _ in 0..DROP_BATCH {
            let Some(head) = fifo.pop() else { break };
            freed += u64::from(head.packet.bytes());
            dropped.push((head.packet, Drop::Overflow));
            if freed >= goal {
                break;
            }
        }
        controller.overflowed((dropped.len() - before) as u32);
        dropped[before..].iter().for_each(|(lost, _)| self.flows.left(lost));
    }
}

impl<P: Packet + Send> Queue<P> for FqCoDel<P> {
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<(P, Drop)>) {
        let queue = self.flows.of(&packet);
        self.flows.push(queue, packet, now);
        if self.flows.overfull() {
            self.drop_from_the_fattest(dropped);
        }
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Vec<(P, Drop)>) -> Option<P> {
        while let Some((queue, list)) = self.flows.turn() {
            let before = dropped.len();
            let all = self.flows.bytes();
            let (fifo, controller) = &mut self.flows.queues[queue as usize];
            let marks = controller.marks;
            let elsewhere = if self.own_backlog { 0 } else { all - fifo.bytes() };
            let packet = controller.dequeue(&mut Source { fifo, elsewhere }, &self.parameters, now, dropped);
            self.marks += controller.marks - marks;
            dropped[before..].iter().for_each(|(lost, _)| self.flows.left(lost));
            if let Some(packet) = packet {
                self.flows.left(&packet);
                self.flows.schedule.served(queue, packet.bytes());
                return Some(packet);
            }
            self.flows.schedule.empty(queue, list);
        }
        None
    }

    fn bytes(&self) -> u64 {
        self.flows.bytes()
    }

    fn packets(&self) -> usize {
        self.flows.packets()
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
        FqCoDel::new(Shape { perfect_hash: true, ..Shape::default() }, Parameters::default(), Seed::new(1))
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
        let (mut queue, mut dropped) = (FqCoDel::new(shape, Parameters::default(), Seed::new(1)), Vec::new());
        for _ in 0..100 {
            queue.enqueue(pkt(1, 1514), Time::ZERO, &mut dropped);
        }
        order(&mut queue, 2);
        queue.enqueue(pkt(2, 200), Time::ZERO, &mut dropped);
        queue.enqueue(pkt(2, 200), Time::ZERO, &mut dropped);
        queue.enqueue(pkt(2, 200), Time::ZERO, &mut dropped);
        // The hundred and first finds 98 packets of the backlog: half of their bytes go.
        assert_eq!(dropped.iter().map(|(p, _)| p.flow).collect::<Vec<_>>(), vec![1; 49]);
        assert_eq!(order(&mut queue, 1)[0].0, 2);
    }

    #[test]
    fn an_overflow_drops_sixty_four_packets_at_most_and_codel_counts_them() {
        let shape = Shape { perfect_hash: true, limit_packets: 1000, ..Shape::default() };
        let (mut queue, mut dropped) = (FqCoDel::new(shape, Parameters::default(), Seed::new(1)), Vec::new());
        for _ in 0..1001 {
            queue.enqueue(pkt(1, 1514), Time::ZERO, &mut dropped);
        }
        assert_eq!((dropped.len(), queue.packets()), (64, 937));
    }

    /// Three flows with one packet waiting each, 12 ms a packet: 36 ms of delay. Linux lets each queue's CoDel drop its only packet,
    /// since three frames wait in all; ns-3 would not.
    #[test]
    fn the_last_packet_of_a_queue_is_dropped_while_others_wait() {
        let (mut queue, mut dropped, mut now) = (discipline(), Vec::new(), Time::ZERO);
        for flow in 1..=3 {
            queue.enqueue(pkt(flow, 1514), now, &mut dropped);
        }
        for _ in 0..100 {
            now += lowtide_units::Span::from_millis(12);
            let before = dropped.len();
            let sent = queue.dequeue(now, &mut dropped).expect("always one");
            let gone: Vec<u64> = dropped[before..].iter().map(|(lost, _)| lost.flow).chain([sent.flow]).collect();
            gone.into_iter().for_each(|flow| queue.enqueue(pkt(flow, 1514), now, &mut dropped));
        }
        assert!(dropped.len() > 5 && dropped.iter().all(|(_, why)| *why == Drop::Early), "{}", dropped.len());
    }
}
