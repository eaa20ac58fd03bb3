//! Drop-tail: first in, first out, the arriving packet is refused when there is no room. Never marks.

use lowtide_units::{Rate, Span, Time};
use serde::{Deserialize, Serialize};

use crate::configuration::Configuration;
use crate::error::ConfigError;
use crate::queue::{Drop, Fifo, Packet, Queue};
use crate::random::Seed;

const NAME: &str = "drop_tail";
/// A buffer given as a time holds at least one full packet, however slow the link.
const MTU: u64 = 1500;

/// The size of the buffer: exactly one of `packets`, `bytes` and `ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// In packets.
    pub packets: Option<u64>,
    /// In bytes: a small packet may still fit where a large one does not.
    pub bytes: Option<u64>,
    /// In milliseconds at the rate the link is built with, at least one MTU. A link that changes its rate keeps its bytes.
    pub ms: Option<f64>,
    /// Packets that a device below the discipline holds in addition.
    pub device_queue_packets: usize,
}

impl Configuration for Config {
    fn build<P: Packet + Send + 'static>(&self, _name: &'static str, rate: Rate, _seed: Seed) -> Result<Box<dyn Queue<P>>, ConfigError> {
        DropTail::new(self, rate).map(|queue| -> Box<dyn Queue<P>> { Box::new(queue) })
    }

    fn device_queue_packets(&self) -> usize {
        self.device_queue_packets
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    Packets(u64),
    Bytes(u64),
}

impl Config {
    fn limit(&self, rate: Rate) -> Result<Limit, ConfigError> {
        let wrong = |reason| Err(ConfigError { queue: NAME, reason });
        match (self.packets, self.bytes, self.ms) {
            (Some(packets), None, None) if packets > 0 => Ok(Limit::Packets(packets)),
            (None, Some(bytes), None) if bytes > 0 => Ok(Limit::Bytes(bytes)),
            (None, None, Some(ms)) if ms > 0.0 && ms.is_finite() => Ok(Limit::Bytes(rate.bytes_in(Span::from_millis_f64(ms)).max(MTU))),
            (None, None, None) => wrong("say how large it is with one of `packets`, `bytes` and `ms`"),
            (Some(0), None, None) | (None, Some(0), None) | (None, None, Some(_)) => wrong("its size must be above 0"),
            _ => wrong("`packets`, `bytes` and `ms` exclude each other; give one"),
        }
    }
}

/// The discipline.
#[derive(Debug)]
pub struct DropTail<P> {
    fifo: Fifo<P>,
    limit: Limit,
}

impl<P: Packet> DropTail<P> {
    /// An empty buffer; `rate` matters only for a size in milliseconds.
    ///
    /// # Errors
    /// No size, more than one, or one of zero.
    pub fn new(config: &Config, rate: Rate) -> Result<DropTail<P>, ConfigError> {
        Ok(DropTail { fifo: Fifo::default(), limit: config.limit(rate)? })
    }

    fn has_room_for(&self, packet: &P) -> bool {
        match self.limit {
            Limit::Packets(limit) => (self.fifo.packets() as u64) < limit,
            Limit::Bytes(limit) => self.fifo.bytes() + u64::from(packet.bytes()) <= limit,
        }
    }
}

impl<P: Packet + Send> Queue<P> for DropTail<P> {
    fn enqueue(&mut self, packet: P, _now: Time, dropped: &mut Vec<(P, Drop)>) {
        if self.has_room_for(&packet) {
            self.fifo.push(packet);
        } else {
            dropped.push((packet, Drop::Overflow));
        }
    }

    fn dequeue(&mut self, _now: Time, _dropped: &mut Vec<(P, Drop)>) -> Option<P> {
        self.fifo.pop()
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    fn packets(&self) -> usize {
        self.fifo.packets()
    }

    fn marks(&self) -> u64 {
        0
    }
}
