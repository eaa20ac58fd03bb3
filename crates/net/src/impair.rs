//! What happens to a packet after it has been sent: delay jitter, random and burst loss, reordering, duplication.

use lowtide_units::{Span, Time};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

/// Impairments of a link; all off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImpairConfig {
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Probability per packet that a burst of losses begins (Gilbert): 0 for none.
    pub burst_start: f64,
    /// Probability per packet that a running burst ends.
    pub burst_end: f64,
    /// Extra delay, uniform from 0 to this, order kept.
    pub jitter_ms: f64,
    /// Probability that a packet is held back and overtaken.
    pub reorder: f64,
    /// How long a reordered packet is held back.
    pub reorder_ms: f64,
    /// Probability that a packet arrives twice.
    pub duplicate: f64,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is lost.
    Lost,
    /// It arrives.
    Arrives {
        /// When.
        at: Time,
        /// When its duplicate does, if it has one.
        duplicate_at: Option<Time>,
    },
}

/// The impairments of one direction of a link.
#[derive(Debug)]
pub struct Impairments {
    config: ImpairConfig,
    delay: Span,
    rng: SmallRng,
    in_burst: bool,
    last_arrival: Time,
}

impl Impairments {
    /// A link with the propagation delay `delay`.
    pub fn new(config: &ImpairConfig, delay: Span, seed: u64) -> Impairments {
        Impairments { config: *config, delay, rng: SmallRng::seed_from_u64(seed), in_burst: false, last_arrival: Time::ZERO }
    }

    /// The fate of a packet whose last bit left at `now`.
    pub fn pass(&mut self, now: Time) -> Fate {
        if self.config == ImpairConfig::default() {
            return Fate::Arrives { at: now + self.delay, duplicate_at: None };
        }
        if self.loses() {
            return Fate::Lost;
        }
        let at = self.arrival(now);
        let duplicate_at = self.chance(self.config.duplicate).then_some(at);
        Fate::Arrives { at, duplicate_at }
    }

    fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.rng.random::<f64>() < probability
    }

    fn loses(&mut self) -> bool {
        let turn = if self.in_burst { self.config.burst_end } else { self.config.burst_start };
        if self.chance(turn) {
            self.in_burst = !self.in_burst;
        }
        self.in_burst || self.chance(self.config.loss)
    }

    fn arrival(&mut self, now: Time) -> Time {
        let mut at = now + self.delay;
        if self.config.jitter_ms > 0.0 {
            at += Span::from_millis_f64(self.config.jitter_ms * self.rng.random::<f64>());
            at = at.max(self.last_arrival);
        }
        if self.chance(self.config.reorder) {
            return at + Span::from_millis_f64(self.config.reorder_ms);
        }
        self.last_arrival = at;
        at
    }
}
