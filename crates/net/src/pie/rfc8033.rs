//! PIE's control law as RFC 8033 writes it, with the few parameters in which profiles differ. Knows no packets: bytes and times only.

use lowtide_units::{Span, Time};

use super::departures::Departures;
use super::{AqmController, Backlog, Departure, Verdict};
use crate::random::{Random, unit};

/// Gains in Hz (RFC 8033 §4.2: α = 1/8, β = 1 1/4).
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
/// Divisors of a step while the probability is below a bound (§5.5 of the text, App. A).
const SCALES: [(f64, f64); 6] = [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (0.1, 2.0)];
/// From this probability on, a step adds at most [`MAX_STEP`] (§5.5, optional; on in every implementation read).
const CAP_FROM: f64 = 0.1;
const MAX_STEP: f64 = 0.02;
/// Below this probability a short queue is left alone (§4.1).
const SPARE_BELOW: f64 = 0.2;
/// ECT packets are marked only below this probability (§5.1 MARK_ECNTH).
const MARK_BELOW: f64 = 0.1;
/// De-randomisation (§5.4): no drop while the accumulated probability is below the first, always a drop from the second on.
const NO_DROP_BELOW: f64 = 0.85;
const DROP_FROM: f64 = 8.5;

/// What the profiles differ in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// QDELAY_REF.
    pub target: Span,
    /// T_UPDATE.
    pub update: Span,
    /// MAX_BURST.
    pub max_burst: Span,
    /// Space drops out evenly (§5.4).
    pub derandomize: bool,
    /// Mark ECT packets instead of dropping them while the probability is low (§5.1).
    pub ecn: bool,
    /// What an update leaves of the probability of an idle queue (§4.2).
    pub decay: f64,
    /// No early drop while no more than this waits.
    pub spare_bytes: u64,
    /// Where the delay comes from.
    pub delay: DelayFrom,
    /// Idle until so many packets wait; `None`: at work from the first packet on.
    pub activate_at: Option<usize>,
}

/// Where the current delay comes from (§5.2, §5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayFrom {
    /// How long the packet that left last had waited.
    Timestamps,
    /// The backlog and the measured rate of departures.
    Departures,
}

impl Parameters {
    /// RFC 8033 with its optional de-randomisation, delay by timestamps, and two frames as its 2 · MEAN_PKTSIZE.
    pub const RFC8033: Parameters = Parameters {
        target: Span::from_millis(15),
        update: Span::from_millis(15),
        max_burst: Span::from_millis(150),
        derandomize: true,
        ecn: true,
        decay: 0.98,
        spare_bytes: 2 * 1514,
        delay: DelayFrom::Timestamps,
        activate_at: None,
    };
}

/// The state of one queue's PIE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rfc8033 {
    parameters: Parameters,
    /// The drop probability.
    pub probability: f64,
    /// Accumulated since the last drop (§5.4).
    accumulated: f64,
    /// In seconds: now, and at the last update.
    delay: f64,
    delay_old: f64,
    burst: Span,
    /// The next update; none while switched off.
    next: Option<Time>,
    departures: Departures,
}

impl Rfc8033 {
    /// A controller that has not started.
    pub fn new(parameters: Parameters) -> Rfc8033 {
        Rfc8033 {
            parameters,
            probability: 0.0,
            accumulated: 0.0,
            delay: 0.0,
            delay_old: 0.0,
            burst: Span::ZERO,
            next: None,
            departures: Departures::default(),
        }
    }

    /// Starts afresh, whatever went before.
    pub fn activate(&mut self, now: Time) {
        *self = Rfc8033 {
            burst: self.parameters.max_burst,
            next: Some(now + self.parameters.update),
            delay: self.delay,
            ..Rfc8033::new(self.parameters)
        };
        self.departures.restart(now);
    }

    /// Stops: drops nothing and updates nothing until it is activated.
    pub fn deactivate(&mut self) {
        self.next = None;
    }

    /// §4.2, each T_UPDATE.
    fn update(&mut self, bytes: u64) {
        let p = &self.parameters;
        self.delay = match p.delay {
            DelayFrom::Departures => self.departures.delay(bytes),
            DelayFrom::Timestamps if bytes == 0 => 0.0,
            DelayFrom::Timestamps => self.delay,
        };
        let step = ALPHA * (self.delay - p.target.secs_f64()) + BETA * (self.delay - self.delay_old);
        let scale = SCALES.iter().find(|(below, _)| self.probability < *below).map_or(1.0, |(_, divisor)| *divisor);
        let most = if self.probability >= CAP_FROM { MAX_STEP } else { f64::INFINITY };
        self.probability += (step / scale).min(most);
        if self.delay == 0.0 && self.delay_old == 0.0 {
            self.probability *= p.decay;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.delay_old = self.delay;
        self.burst -= p.update;
    }

    /// Whether further updates of an empty queue change nothing.
    fn rests(&self) -> bool {
        self.probability == 0.0 && self.delay == 0.0 && self.delay_old == 0.0 && self.burst == Span::ZERO
    }

    fn is_calm(&self) -> bool {
        let half = self.parameters.target.secs_f64() / 2.0;
        self.probability == 0.0 && self.delay < half && self.delay_old < half
    }

    /// §5.1 drop_early.
    fn drops(&mut self, bytes: u64, random: &mut Random) -> bool {
        let p = &self.parameters;
        let short = self.delay_old < p.target.secs_f64() / 2.0 && self.probability < SPARE_BELOW;
        if self.burst > Span::ZERO || short || bytes <= p.spare_bytes {
            return false;
        }
        if p.derandomize {
            self.accumulated = if self.probability == 0.0 { 0.0 } else { self.accumulated + self.probability };
            if self.accumulated < NO_DROP_BELOW {
                return false;
            }
            if self.accumulated >= DROP_FROM {
                return true;
            }
        }
        let drops = unit(random) < self.probability;
        if drops {
            self.accumulated = 0.0;
        }
        drops
    }
}

impl AqmController for Rfc8033 {
    fn advance(&mut self, now: Time, bytes: u64) {
        while let Some(at) = self.next.filter(|at| *at <= now) {
            self.update(bytes);
            let idle = if bytes == 0 && self.rests() { now.since(at).nanos() / self.parameters.update.nanos() } else { 0 };
            self.next = Some(at + self.parameters.update * (idle + 1));
        }
    }

    fn arrival(&mut self, waiting: Backlog, now: Time, random: &mut Random) -> Verdict {
        if self.next.is_none() {
            if waiting.packets >= self.parameters.activate_at.unwrap_or(0) {
                self.activate(now);
            }
            return Verdict::Accept;
        }
        if self.is_calm() {
            self.burst = self.parameters.max_burst;
        }
        if !self.drops(waiting.bytes, random) {
            return Verdict::Accept;
        }
        Verdict::Congested { may_mark: self.parameters.ecn && self.probability < MARK_BELOW }
    }

    fn departure(&mut self, departure: Departure) {
        if self.next.is_none() {
            return;
        }
        match self.parameters.delay {
            DelayFrom::Timestamps => self.delay = departure.sojourn.secs_f64(),
            DelayFrom::Departures => self.departures.departure(departure.now, departure.bytes, departure.left),
        }
    }

    fn dropped(&mut self) {
        self.accumulated = 0.0;
    }
}

#[cfg(test)]
impl Rfc8033 {
    /// A running controller with this probability and delays, and no burst allowance.
    pub fn at(parameters: Parameters, probability: f64, delay_s: f64, delay_old_s: f64) -> Rfc8033 {
        let mut controller = Rfc8033::new(parameters);
        controller.activate(Time::ZERO);
        Rfc8033 { probability, delay: delay_s, delay_old: delay_old_s, burst: Span::ZERO, ..controller }
    }

    /// An update at which the last packet that left had waited `delay_s`.
    pub fn step(&mut self, delay_s: f64) -> f64 {
        self.delay = delay_s;
        self.update(1_000_000);
        self.probability
    }
}
