//! FQ-PIE: deficit round robin over hashed flow queues (RFC 8290's), each with a PIE of its own, as Linux has it and as
//! FreeBSD has it. Knows neither how the deficits run nor how a probability is found.

use lowtide_units::{Rate, Time};
use serde::{Deserialize, Serialize};

use crate::configuration::Configuration;
use crate::error::{ConfigError, require};
use crate::flow_queues::{FlowQueues, Shape};
use crate::pie::rfc8033::{Parameters, Rfc8033};
use crate::pie::{self, AqmController, Backlog, Departure, Verdict};
use crate::queue::{Drop, Packet, Queue, mark};
use crate::random::{Random, Seed};

/// FQ-PIE as a scenario writes it (`fq_pie`, `fq_pie-freebsd`). What is left out is the profile's. PIE's own keys stand here again:
/// serde does not refuse unknown ones of a struct that is flattened into another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The delay to hold in each queue.
    pub target_ms: Option<f64>,
    /// Between two updates of a drop probability.
    pub update_ms: Option<f64>,
    /// How long a burst into an idle queue is let through.
    pub max_burst_ms: Option<f64>,
    /// Space drops out evenly.
    pub derandomize: Option<bool>,
    /// Mark ECT packets instead of dropping them while the probability is low.
    pub ecn: Option<bool>,
    /// Packets at most, all queues together.
    pub packets: usize,
    /// Flow queues.
    pub queues: usize,
    /// Bytes a turn.
    pub quantum: u32,
    /// A queue of its own for every flow.
    pub perfect_hash: bool,
    /// Packets that a device below the discipline holds in addition.
    pub device_queue_packets: usize,
}

impl Default for Config {
    fn default() -> Config {
        let shape = Shape::default();
        Config {
            target_ms: None,
            update_ms: None,
            max_burst_ms: None,
            derandomize: None,
            ecn: None,
            packets: shape.limit_packets,
            queues: shape.queues,
            quantum: shape.quantum,
            perfect_hash: shape.perfect_hash,
            device_queue_packets: 0,
        }
    }
}

/// FreeBSD's FQ-PIE as a scenario writes it: the keys of `fq_pie`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FreeBsdConfig(pub Config);

impl Configuration for Config {
    fn build<P: Packet + Send + 'static>(&self, name: &'static str, _rate: Rate, seed: Seed) -> Result<Box<dyn Queue<P>>, ConfigError> {
        FqPie::new(self, name, Profile::Linux, seed).map(|queue| -> Box<dyn Queue<P>> { Box::new(queue) })
    }

    fn device_queue_packets(&self) -> usize {
        self.device_queue_packets
    }

    fn flow_queues(&self) -> usize {
        self.queues
    }
}

impl Configuration for FreeBsdConfig {
    fn build<P: Packet + Send + 'static>(&self, name: &'static str, _rate: Rate, seed: Seed) -> Result<Box<dyn Queue<P>>, ConfigError> {
        FqPie::new(&self.0, name, Profile::FreeBsd, seed).map(|queue| -> Box<dyn Queue<P>> { Box::new(queue) })
    }

    fn device_queue_packets(&self) -> usize {
        self.0.device_queue_packets
    }

    fn flow_queues(&self) -> usize {
        self.0.queues
    }
}

/// Whose FQ-PIE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// `sch_fq_pie.c`: a full discipline refuses the arriving packet; an idle queue's PIE runs on.
    Linux,
    /// `dn_sched_fq_pie.c`: a full discipline drops at the head of the queue with most packets; PIE stops when its queue
    /// leaves the schedule and starts afresh, with its whole burst allowance, when it comes back.
    FreeBsd,
}

impl Profile {
    fn parameters(self) -> Parameters {
        match self {
            Profile::Linux => Parameters::RFC8033,
            Profile::FreeBsd => Parameters::freebsd_fq(),
        }
    }
}

/// The discipline.
#[derive(Debug)]
pub struct FqPie<P> {
    profile: Profile,
    flows: FlowQueues<P, Rfc8033>,
    marks: u64,
    random: Random,
}

impl<P: Packet> FqPie<P> {
    /// An empty discipline called `name` in errors; `seed` perturbs the hash and decides the drops.
    ///
    /// # Errors
    /// A size or a time that is not above zero.
    pub fn new(c: &Config, name: &'static str, profile: Profile, seed: Seed) -> Result<FqPie<P>, ConfigError> {
        let sizes = c.packets > 0 && c.queues > 0 && c.quantum > 0;
        require(sizes, name, "`packets`, `queues` and `quantum` must be above 0")?;
        let one = pie::Config {
            target_ms: c.target_ms,
            update_ms: c.update_ms,
            max_burst_ms: c.max_burst_ms,
            derandomize: c.derandomize,
            ecn: c.ecn,
            packets: c.packets,
            device_queue_packets: c.device_queue_packets,
        };
        let controller = Rfc8033::new(one.over(profile.parameters(), name)?);
        let shape = Shape { queues: c.queues, quantum: c.quantum, limit_packets: c.packets, perfect_hash: c.perfect_hash };
        Ok(FqPie { profile, flows: FlowQueues::new(shape, controller, seed), marks: 0, random: seed.of("drop").generator() })
    }

    /// Why `packet` may not enter `queue`; it may come back marked.
    fn refusal(&mut self, queue: u32, packet: &mut P, now: Time) -> Option<Drop> {
        let full = self.profile == Profile::Linux && self.flows.full();
        let (fifo, controller) = &mut self.flows.queues[queue as usize];
        controller.advance(now, fifo.bytes());
        let waiting = Backlog { bytes: fifo.bytes(), packets: fifo.packets() };
        let refusal = if full {
            Some(Drop::Overflow)
        } else {
            match controller.arrival(waiting, now, &mut self.random) {
                Verdict::Accept => None,
                Verdict::Congested { may_mark } if may_mark && mark(packet) => {
                    self.marks += 1;
                    None
                }
                Verdict::Congested { .. } => Some(Drop::Early),
            }
        };
        if refusal.is_some() {
            controller.dropped();
        }
        refusal
    }

    fn drop_from_the_longest(&mut self, now: Time, dropped: &mut Vec<(P, Drop)>) {
        let longest = self.flows.queues.iter_mut().rev().max_by_key(|(fifo, _)| fifo.packets());
        let Some((fifo, controller)) = longest else { return };
        controller.advance(now, fifo.bytes());
        if let Some(head) = fifo.pop() {
            controller.dropped();
            self.flows.left(&head.packet);
            dropped.push((head.packet, Drop::Overflow));
        }
    }
}

impl<P: Packet + Send> Queue<P> for FqPie<P> {
    fn enqueue(&mut self, mut packet: P, now: Time, dropped: &mut Vec<(P, Drop)>) {
        let queue = self.flows.of(&packet);
        if let Some(why) = self.refusal(queue, &mut packet, now) {
            dropped.push((packet, why));
            return;
        }
        if self.flows.push(queue, packet, now) && self.profile == Profile::FreeBsd {
            self.flows.queues[queue as usize].1.activate(now);
        }
        if self.flows.overfull() {
            self.drop_from_the_longest(now, dropped);
        }
    }

    fn dequeue(&mut self, now: Time, _dropped: &mut Vec<(P, Drop)>) -> Option<P> {
        while let Some((queue, list)) = self.flows.turn() {
            let (fifo, controller) = &mut self.flows.queues[queue as usize];
            controller.advance(now, fifo.bytes());
            let Some(head) = fifo.pop() else {
                if self.flows.schedule.empty(queue, list) && self.profile == Profile::FreeBsd {
                    controller.deactivate();
                }
                continue;
            };
            let bytes = head.packet.bytes();
            controller.departure(Departure { now, bytes, sojourn: head.sojourn(now), left: fifo.bytes() });
            self.flows.schedule.served(queue, bytes);
            self.flows.left(&head.packet);
            return Some(head.packet);
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

    fn discipline(profile: Profile) -> FqPie<Pkt> {
        FqPie::new(&Config { perfect_hash: true, ..Config::default() }, "fq_pie", profile, Seed::new(1)).expect("defaults")
    }

    /// A flow that sends at twice the rate of 12 Mbit/s beside one with a packet every 20 ms.
    #[test]
    fn a_sparse_flow_never_pays_for_a_backlog() {
        for profile in [Profile::Linux, Profile::FreeBsd] {
            let (mut queue, mut dropped) = (discipline(profile), Vec::new());
            for ms in 0..10_000u64 {
                let now = Time::from_millis(ms);
                for _ in 0..2 {
                    queue.enqueue(pkt(1, 1500), now, &mut dropped);
                }
                if ms % 20 == 0 {
                    queue.enqueue(pkt(2, 1500), now, &mut dropped);
                }
                queue.dequeue(now, &mut dropped);
            }
            assert_eq!(queue.flows.queues[1].1.probability, 0.0, "{profile:?}");
            assert!(dropped.iter().all(|(p, why)| p.flow == 1 && *why == Drop::Early), "{profile:?}");
            assert!(dropped.len() > 1000, "{profile:?}: {}", dropped.len());
        }
    }

    /// FreeBSD's PIE stops when its queue leaves the old list: the next packet finds p = 0 and 150 ms of burst. Linux's runs on.
    #[test]
    fn freebsd_starts_afresh_where_linux_remembers() {
        for (profile, remembers) in [(Profile::Linux, true), (Profile::FreeBsd, false)] {
            let (mut queue, mut dropped) = (discipline(profile), Vec::new());
            let mut now = Time::ZERO;
            for _ in 0..3000 {
                for _ in 0..2 {
                    queue.enqueue(pkt(1, 1500), now, &mut dropped);
                }
                queue.dequeue(now, &mut dropped);
                now += lowtide_units::Span::from_millis(1);
            }
            while queue.dequeue(now, &mut dropped).is_some() {}
            let before = dropped.len();
            now += lowtide_units::Span::from_millis(60);
            for _ in 0..500 {
                queue.enqueue(pkt(1, 1500), now, &mut dropped);
            }
            assert_eq!(queue.flows.queues[0].1.probability > 0.1, remembers, "{profile:?}");
            for _ in 0..148 {
                now += lowtide_units::Span::from_millis(1);
                queue.dequeue(now, &mut dropped);
                queue.enqueue(pkt(1, 1500), now, &mut dropped);
            }
            assert_eq!(dropped.len() > before, remembers, "{profile:?}: {} drops", dropped.len() - before);
        }
    }

    #[test]
    fn a_full_discipline_drops_where_its_profile_says() {
        let config = Config { perfect_hash: true, packets: 50, ..Config::default() };
        for (profile, victim) in [(Profile::Linux, 2), (Profile::FreeBsd, 1)] {
            let (mut queue, mut dropped) = (FqPie::new(&config, "fq_pie", profile, Seed::new(1)).expect("sizes"), Vec::new());
            for _ in 0..50 {
                queue.enqueue(pkt(1, 100), Time::ZERO, &mut dropped);
            }
            queue.enqueue(pkt(2, 1500), Time::ZERO, &mut dropped);
            assert_eq!(dropped.iter().map(|(p, why)| (p.flow, *why)).collect::<Vec<_>>(), [(victim, Drop::Overflow)], "{profile:?}");
        }
    }
}
