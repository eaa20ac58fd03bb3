//! The one list of queue disciplines: from what a scenario writes to a discipline. Knows no discipline's insides.

use lowtide_units::Rate;
use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::droptail;
use crate::queue::{Packet, Queue};

/// A queue as a scenario writes it: `queue = { kind = "drop_tail", ms = 50 }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum QueueConfig {
    /// First in, first out.
    DropTail(droptail::Config),
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
pub static DISCIPLINES: &[Discipline] = &[Discipline {
    name: "drop_tail",
    summary: "first in, first out, refuses what does not fit: packets = n, bytes = n or ms = n",
    source: "-",
}];

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
    /// An empty queue for a link of `rate`. What it draws at random follows from `seed`.
    ///
    /// # Errors
    /// A value the discipline cannot take.
    pub fn build<P: Packet + Send + 'static>(&self, rate: Rate, _seed: u64) -> Result<Box<dyn Queue<P>>, ConfigError> {
        let (queue, device): (Box<dyn Queue<P>>, usize) = match self {
            QueueConfig::DropTail(config) => (Box::new(droptail::DropTail::new(config, rate)?), config.device_queue_packets),
        };
        Ok(if device == 0 { queue } else { Box::new(Device::new(queue, device)) })
    }
}
