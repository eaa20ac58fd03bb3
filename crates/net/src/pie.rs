//! PIE over one FIFO: arrivals are dropped with a probability that a timer steers towards a delay. Its three generations
//! ([`rfc8033`], [`freebsd`] and [`linux_old`]) are controllers apart from the FIFO, so that FQ-PIE can run one per queue.

use lowtide_units::{Rate, Span, Time};
use serde::{Deserialize, Serialize};

use crate::configuration::Configuration;
use crate::error::{ConfigError, require};
use crate::queue::{Drop, Packet, Queue, TimedFifo, mark};
use crate::random::{Random, Seed};

mod departures;
pub mod freebsd;
pub mod linux_old;
pub mod rfc8033;
#[cfg(test)]
mod tests;

/// What waits when a packet arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backlog {
    pub bytes: u64,
    pub packets: usize,
}

/// What a controller says of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may enter.
    Accept,
    /// Its sender shall slow down: mark it if that is allowed and it can be, else drop it.
    Congested { may_mark: bool },
}

/// A packet that leaves a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure {
    pub now: Time,
    pub bytes: u32,
    pub sojourn: Span,
    /// Bytes that still wait.
    pub left: u64,
}

/// A generation of PIE: what steers the drop probability of one queue.
pub(crate) trait AqmController: std::fmt::Debug + Send {
    /// Catches up with the timer to `now`; `bytes` waited all that time.
    fn advance(&mut self, now: Time, bytes: u64);
    /// A packet arrives.
    fn arrival(&mut self, waiting: Backlog, now: Time, random: &mut Random) -> Verdict;
    /// A packet leaves.
    fn departure(&mut self, departure: Departure);
    /// A packet was dropped, early or for want of room.
    fn dropped(&mut self) {}
}

/// PIE as a scenario writes it (`pie`, `pie-freebsd`). What is left out is the profile's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The delay to hold.
    pub target_ms: Option<f64>,
    /// Between two updates of the drop probability.
    pub update_ms: Option<f64>,
    /// How long a burst into an idle queue is let through.
    pub max_burst_ms: Option<f64>,
    /// Space drops out evenly.
    pub derandomize: Option<bool>,
    /// Mark ECT packets instead of dropping them while the probability is low.
    pub ecn: Option<bool>,
    /// Packets at most.
    pub packets: usize,
    /// Packets that a device below the discipline holds in addition.
    pub device_queue_packets: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            target_ms: None,
            update_ms: None,
            max_burst_ms: None,
            derandomize: None,
            ecn: None,
            packets: 1000,
            device_queue_packets: 0,
        }
    }
}

impl Configuration for Config {
    fn build<P: Packet + Send + 'static>(&self, name: &'static str, _rate: Rate, seed: Seed) -> Result<Box<dyn Queue<P>>, ConfigError> {
        let parameters = self.over(rfc8033::Parameters::RFC8033, name)?;
        Ok(Box::new(Pie::new(rfc8033::Rfc8033::new(parameters), self.packets, seed)))
    }

    fn device_queue_packets(&self) -> usize {
        self.device_queue_packets
    }
}

impl Config {
    /// `profile` with what the scenario sets, for a queue named `queue`.
    ///
    /// # Errors
    /// A time that is not above zero.
    pub fn over(&self, profile: rfc8033::Parameters, queue: &'static str) -> Result<rfc8033::Parameters, ConfigError> {
        require(self.packets > 0, queue, "`packets` must be above 0")?;
        Ok(rfc8033::Parameters {
            target: span(self.target_ms, profile.target, queue)?,
            update: span(self.update_ms, profile.update, queue)?,
            max_burst: span(self.max_burst_ms, profile.max_burst, queue)?,
            derandomize: self.derandomize.unwrap_or(profile.derandomize),
            ecn: self.ecn.unwrap_or(profile.ecn),
            ..profile
        })
    }
}

/// A time that a scenario may set: at least a microsecond, so that a timer advances.
pub(crate) fn span(ms: Option<f64>, default: Span, queue: &'static str) -> Result<Span, ConfigError> {
    let Some(ms) = ms else { return Ok(default) };
    require(ms >= 0.001 && ms.is_finite(), queue, "`target_ms`, `update_ms` and `max_burst_ms` must be at least 0.001")?;
    Ok(Span::from_millis_f64(ms))
}

/// PIE over one FIFO.
#[derive(Debug)]
pub(crate) struct Pie<P, L> {
    fifo: TimedFifo<P>,
    controller: L,
    limit_packets: usize,
    marks: u64,
    random: Random,
}

impl<P: Packet, L: AqmController> Pie<P, L> {
    /// An empty queue that holds at most `limit_packets`; `seed` decides the drops.
    pub fn new(controller: L, limit_packets: usize, seed: Seed) -> Pie<P, L> {
        Pie { fifo: TimedFifo::default(), controller, limit_packets, marks: 0, random: seed.of("drop").generator() }
    }

    fn refusal(&mut self, packet: &mut P, now: Time) -> Option<Drop> {
        if self.fifo.packets() >= self.limit_packets {
            return Some(Drop::Overflow);
        }
        let waiting = Backlog { bytes: self.fifo.bytes(), packets: self.fifo.packets() };
        let marked = match self.controller.arrival(waiting, now, &mut self.random) {
            Verdict::Accept => return None,
            Verdict::Congested { may_mark } => may_mark && mark(packet),
        };
        self.marks += u64::from(marked);
        (!marked).then_some(Drop::Early)
    }
}

impl<P: Packet + Send, L: AqmController> Queue<P> for Pie<P, L> {
    fn enqueue(&mut self, mut packet: P, now: Time, dropped: &mut Vec<(P, Drop)>) {
        self.controller.advance(now, self.fifo.bytes());
        match self.refusal(&mut packet, now) {
            None => self.fifo.push_at(packet, now),
            Some(why) => {
                self.controller.dropped();
                dropped.push((packet, why));
            }
        }
    }

    fn dequeue(&mut self, now: Time, _dropped: &mut Vec<(P, Drop)>) -> Option<P> {
        self.controller.advance(now, self.fifo.bytes());
        let head = self.fifo.pop()?;
        self.controller.departure(Departure { now, bytes: head.packet.bytes(), sojourn: head.sojourn(now), left: self.fifo.bytes() });
        Some(head.packet)
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    fn packets(&self) -> usize {
        self.fifo.packets()
    }

    fn marks(&self) -> u64 {
        self.marks
    }
}
