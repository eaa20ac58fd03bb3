//! The one list of queue disciplines: from what a scenario writes to a discipline. Knows no discipline's insides.

use lowtide_units::Rate;
use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::pie::linux_old::LinuxOld;
use crate::pie::rfc8033::{Parameters, Rfc8033};
use crate::queue::{Ecn, Packet, Queue};
use crate::random::Seed;
use crate::{codel, droptail, fq_codel, fq_pie, pie};

/// A queue as a scenario writes it: `queue = { kind = "drop_tail", ms = 50 }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum QueueConfig {
    /// First in, first out.
    #[serde(alias = "droptail")]
    DropTail(droptail::Config),
    /// CoDel over one queue.
    #[serde(rename = "codel")]
    CoDel(codel::Config),
    /// CoDel per flow.
    #[serde(rename = "fq_codel")]
    FqCoDel(fq_codel::Config),
    /// PIE over one queue.
    #[serde(rename = "pie")]
    Pie(pie::Config),
    /// PIE as Linux had it until 4.20.
    #[serde(rename = "pie-linux-old")]
    PieLinuxOld(pie::linux_old::Config),
    /// PIE as FreeBSD has it.
    #[serde(rename = "pie-freebsd")]
    PieFreeBsd(pie::Config),
    /// PIE per flow.
    #[serde(rename = "fq_pie")]
    FqPie(fq_pie::Config),
    /// PIE per flow as FreeBSD has it.
    #[serde(rename = "fq_pie-freebsd")]
    FqPieFreeBsd(fq_pie::Config),
}

/// A line for `--list`.
#[derive(Clone, Copy, Debug)]
pub struct Discipline {
    /// The `kind` that scenarios write.
    pub name: &'static str,
    /// What it is, with its options.
    pub summary: &'static str,
    /// The text it follows.
    pub source: &'static str,
}

/// Every discipline, in the order `--list` shows.
pub static DISCIPLINES: &[Discipline] = &[
    Discipline {
        name: "drop_tail",
        summary: "first in, first out, refuses what does not fit: packets = n, bytes = n or ms = n",
        source: "-",
    },
    Discipline {
        name: "codel",
        summary: "drops at the head after 100 ms above 5 ms: target_ms, interval_ms, packets, ecn, ce_threshold_ms",
        source: "RFC 8289",
    },
    Discipline {
        name: "fq_codel",
        summary: "a queue with CoDel for each flow, byte-fair, sparse flows first: as codel, and queues, quantum, perfect_hash, own_backlog",
        source: "RFC 8290",
    },
    Discipline {
        name: "pie",
        summary: "drops arrivals with a probability that holds 15 ms: target_ms, update_ms, max_burst_ms, derandomize, packets, ecn",
        source: "RFC 8033",
    },
    Discipline {
        name: "pie-linux-old",
        summary: "PIE of Linux from 3.14 to 2019, by departure rate, 20 ms every 30 ms: target_ms, update_ms, packets, ecn",
        source: "draft-pan-aqm-pie-00, Linux 3.17 sch_pie.c",
    },
    Discipline {
        name: "pie-freebsd",
        summary: "PIE of FreeBSD's dummynet, by departure rate, asleep below a third of its limit: as pie",
        source: "RFC 8033, FreeBSD dn_aqm_pie.c",
    },
    Discipline {
        name: "fq_pie",
        summary: "a queue with PIE for each flow, byte-fair, sparse flows first: as pie, and queues, quantum, perfect_hash",
        source: "RFC 8033, RFC 8290 §4, Linux sch_fq_pie.c",
    },
    Discipline {
        name: "fq_pie-freebsd",
        summary: "FQ-PIE of FreeBSD's dummynet, which forgets a flow's PIE when its queue runs empty: as fq_pie",
        source: "FreeBSD dn_sched_fq_pie.c",
    },
];

/// The most flow queues of a discipline, Linux's bound too (`fq_codel_change`).
const MOST_FLOW_QUEUES: usize = 1 << 16;

/// A queue that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("queue `{queue}`: {reason}")]
pub struct ConfigError {
    /// The discipline.
    pub queue: &'static str,
    /// What is wrong, and what is allowed.
    pub reason: &'static str,
}

impl QueueConfig {
    /// The `kind` that scenarios write.
    pub fn name(&self) -> &'static str {
        match self {
            QueueConfig::DropTail(_) => "drop_tail",
            QueueConfig::CoDel(_) => "codel",
            QueueConfig::FqCoDel(_) => "fq_codel",
            QueueConfig::Pie(_) => "pie",
            QueueConfig::PieLinuxOld(_) => "pie-linux-old",
            QueueConfig::PieFreeBsd(_) => "pie-freebsd",
            QueueConfig::FqPie(_) => "fq_pie",
            QueueConfig::FqPieFreeBsd(_) => "fq_pie-freebsd",
        }
    }

    /// How many queues of flows it keeps.
    pub fn flow_queues(&self) -> usize {
        match self {
            QueueConfig::FqCoDel(c) => c.queues,
            QueueConfig::FqPie(c) | QueueConfig::FqPieFreeBsd(c) => c.queues,
            _ => 1,
        }
    }

    /// Whether there can be such a queue on a link of `rate`.
    ///
    /// # Errors
    /// A value the discipline cannot take.
    pub fn check(&self, rate: Rate) -> Result<(), ConfigError> {
        self.build::<Nothing>(rate, Seed::new(0)).map(drop)
    }

    /// An empty queue for a link of `rate`. What it draws at random follows from `seed`.
    ///
    /// # Errors
    /// A value the discipline cannot take.
    pub fn build<P: Packet + Send + 'static>(&self, rate: Rate, seed: Seed) -> Result<Box<dyn Queue<P>>, ConfigError> {
        require(self.flow_queues() <= MOST_FLOW_QUEUES, self.name(), "`queues` must be at most 65536")?;
        let rfc8033 = |c: &pie::Config, profile, name| -> Result<Box<dyn Queue<P>>, ConfigError> {
            Ok(Box::new(pie::Pie::new(Rfc8033::new(c.over(profile, name)?), c.packets, seed)))
        };
        let (queue, device): (Box<dyn Queue<P>>, usize) = match self {
            QueueConfig::DropTail(config) => (Box::new(droptail::DropTail::new(config, rate)?), config.device_queue_packets),
            QueueConfig::CoDel(c) => {
                let law = codel::Parameters::from_ms("codel", c.target_ms, c.interval_ms, c.ecn, c.ce_threshold_ms)?;
                require(c.packets > 0, "codel", "`packets` must be above 0")?;
                (Box::new(codel::CoDel::new(law, c.packets)), c.device_queue_packets)
            }
            QueueConfig::FqCoDel(c) => {
                let law = codel::Parameters::from_ms("fq_codel", c.target_ms, c.interval_ms, c.ecn, c.ce_threshold_ms)?;
                require(c.packets > 0 && c.queues > 0 && c.quantum > 0, "fq_codel", "`packets`, `queues` and `quantum` must be above 0")?;
                let shape =
                    fq_codel::Shape { queues: c.queues, quantum: c.quantum, limit_packets: c.packets, perfect_hash: c.perfect_hash };
                (Box::new(fq_codel::FqCoDel::new(shape, law, seed).with_own_backlog(c.own_backlog)), c.device_queue_packets)
            }
            QueueConfig::Pie(c) => (rfc8033(c, Parameters::RFC8033, "pie")?, c.device_queue_packets),
            QueueConfig::PieFreeBsd(c) => (rfc8033(c, Parameters::freebsd(c.packets), "pie-freebsd")?, c.device_queue_packets),
            QueueConfig::PieLinuxOld(c) => {
                (Box::new(pie::Pie::new(LinuxOld::new(c, "pie-linux-old")?, c.packets, seed)), c.device_queue_packets)
            }
            QueueConfig::FqPie(c) => (Box::new(fq_pie::FqPie::new(c, fq_pie::Profile::Linux, seed)?), c.device_queue_packets),
            QueueConfig::FqPieFreeBsd(c) => (Box::new(fq_pie::FqPie::new(c, fq_pie::Profile::FreeBsd, seed)?), c.device_queue_packets),
        };
        Ok(if device == 0 { queue } else { Box::new(Device::new(queue, device)) })
    }
}

/// The packet of a queue that is only tried.
struct Nothing;

impl Packet for Nothing {
    fn bytes(&self) -> u32 {
        0
    }

    fn flow(&self) -> u64 {
        0
    }

    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    fn mark_ce(&mut self) {}
}

pub(crate) fn require(ok: bool, queue: &'static str, reason: &'static str) -> Result<(), ConfigError> {
    if ok { Ok(()) } else { Err(ConfigError { queue, reason }) }
}
