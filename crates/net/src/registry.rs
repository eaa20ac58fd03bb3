//! The one list of queue disciplines: what a scenario may write, what `--list` says of it, and what builds it. Knows no discipline's
//! insides: each brings its configuration with [`Configuration`]. To add one, write its file and its line here.

use lowtide_units::Rate;
use serde::{Deserialize, Serialize};

use crate::configuration::Configuration;
use crate::device::Device;
use crate::error::{ConfigError, require};
use crate::queue::{Ecn, Packet, Queue};
use crate::random::Seed;
use crate::{codel, droptail, fq_codel, fq_pie, pie};

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

macro_rules! disciplines {
    ($($(#[$attribute:meta])* $variant:ident($config:ty) = $name:literal, $summary:literal, $source:literal;)*) => {
        /// A queue as a scenario writes it: `queue = { kind = "drop_tail", ms = 50 }`.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind")]
        pub enum QueueConfig {
            $(
                #[doc = $summary]
                #[serde(rename = $name)]
                $(#[$attribute])*
                $variant($config),
            )*
        }

        /// Every discipline, in the order `--list` shows.
        pub static DISCIPLINES: &[Discipline] = &[$(Discipline { name: $name, summary: $summary, source: $source },)*];

        impl QueueConfig {
            /// The `kind` that scenarios write.
            pub fn name(&self) -> &'static str {
                match self {
                    $(QueueConfig::$variant(_) => $name,)*
                }
            }

            /// How many queues of flows it keeps.
            pub fn flow_queues(&self) -> usize {
                match self {
                    $(QueueConfig::$variant(config) => config.flow_queues(),)*
                }
            }

            fn device_queue_packets(&self) -> usize {
                match self {
                    $(QueueConfig::$variant(config) => config.device_queue_packets(),)*
                }
            }

            fn discipline<P: Packet + Send + 'static>(&self, rate: Rate, seed: Seed) -> Result<Box<dyn Queue<P>>, ConfigError> {
                match self {
                    $(QueueConfig::$variant(config) => config.build($name, rate, seed),)*
                }
            }
        }
    };
}

disciplines! {
    #[serde(alias = "droptail")]
    DropTail(droptail::Config) = "drop_tail",
        "first in, first out, refuses what does not fit: packets = n, bytes = n or ms = n", "-";
    CoDel(codel::Config) = "codel",
        "drops at the head after 100 ms above 5 ms: target_ms, interval_ms, packets, ecn, ce_threshold_ms", "RFC 8289, Linux codel_impl.h";
    FqCoDel(fq_codel::Config) = "fq_codel",
        "a queue with CoDel for each flow, byte-fair, sparse flows first: as codel, and queues, quantum, perfect_hash, own_backlog",
        "RFC 8290, Linux sch_fq_codel.c";
    Pie(pie::Config) = "pie",
        "drops arrivals with a probability that holds 15 ms: target_ms, update_ms, max_burst_ms, derandomize, packets, ecn", "RFC 8033";
    PieLinuxOld(pie::linux_old::Config) = "pie-linux-old",
        "PIE of Linux from 3.14 to 2019, by departure rate, 20 ms every 30 ms: target_ms, update_ms, packets, ecn",
        "draft-pan-aqm-pie-00, Linux 3.17 sch_pie.c";
    PieFreeBsd(pie::freebsd::Config) = "pie-freebsd",
        "PIE of FreeBSD's dummynet, by departure rate, asleep below a third of its limit: as pie", "RFC 8033, FreeBSD dn_aqm_pie.c";
    FqPie(fq_pie::Config) = "fq_pie",
        "a queue with PIE for each flow, byte-fair, sparse flows first: as pie, and queues, quantum, perfect_hash",
        "RFC 8033, RFC 8290 §4, Linux sch_fq_pie.c";
    FqPieFreeBsd(fq_pie::FreeBsdConfig) = "fq_pie-freebsd",
        "FQ-PIE of FreeBSD's dummynet, which forgets a flow's PIE when its queue runs empty: as fq_pie", "FreeBSD dn_sched_fq_pie.c";
}

/// The most flow queues of a discipline, Linux's bound too (`fq_codel_change`).
const MOST_FLOW_QUEUES: usize = 1 << 16;

impl QueueConfig {
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
        let discipline = self.discipline(rate, seed)?;
        let device = self.device_queue_packets();
        Ok(if device == 0 { discipline } else { Box::new(Device::new(discipline, device)) })
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
