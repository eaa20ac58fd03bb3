//! When a link may deliver what: opportunities recorded from a cellular network, or drawn from a published model of one. Knows no
//! queue and no packet.
//!
//! **Recorded** traces are mahimahi's (Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", USENIX ATC 2015;
//! `src/frontend/link_queue.cc`): each line of the file is the millisecond of one opportunity for 1500 bytes, lines do not fall, and
//! at the last line's time the trace starts over. What an opportunity leaves unused is lost.
//!
//! **Drawn** ones follow the model behind Sprout (Winstein, Sivaraman and Balakrishnan, "Stochastic Forecasts Achieve High Throughput
//! and Low Delay over Cellular Networks", NSDI 2013, §3.1; `src/sprout/process.cc`): a Poisson process of opportunities whose rate λ
//! wanders in Brownian motion, σ = 200 packets per second in a second's root, steps of 20 ms; a rate of zero is an outage, which
//! ends at the rate of once in a second. Sprout's λ ends at 1000 packets/s; here it is reflected at twice its beginning, so that
//! its mean over long times is where it begins.

use lowtide_units::{Rate, Span, Time};
use serde::{Deserialize, Serialize};

use crate::random::{Random, Seed, exponential, unit};

/// Bytes of an opportunity: mahimahi's and Sprout's MTU.
pub const OPPORTUNITY_BYTES: u64 = 1500;
/// Sprout's tick.
const TICK: Span = Span::from_millis(20);
/// A recorded trace is no longer than this, a month: far from where its sums overflow.
const LONGEST_MS: u64 = 31 * 86_400_000;

/// The parameters of a cellular link; the defaults are Sprout's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CellularConfig {
    /// σ: how far λ has wandered after a second, in packets of 1500 bytes per second.
    pub wander_pps: f64,
    /// The rate at which an outage ends, per second.
    pub recovery_per_s: f64,
}

impl Default for CellularConfig {
    fn default() -> CellularConfig {
        CellularConfig { wander_pps: 200.0, recovery_per_s: 1.0 }
    }
}

impl CellularConfig {
    /// The key that is wrong, and the rule.
    ///
    /// # Errors
    /// A wander below zero or out of reason, an outage that never ends.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let wander = (0.0..=1e6).contains(&self.wander_pps);
        let recovery = (1e-3..=1e3).contains(&self.recovery_per_s);
        match (wander, recovery) {
            (false, _) => Err(("wander_pps", "must be between 0 and 1000000 packets per second")),
            (_, false) => Err(("recovery_per_s", "must be between 0.001 and 1000")),
            _ => Ok(()),
        }
    }
}

/// A recorded trace that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct RecordingError {
    /// Counted from one; zero if the whole text is meant.
    pub line: usize,
    /// What is wrong, and what is allowed.
    pub reason: &'static str,
}

/// A recorded trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Milliseconds that have opportunities, rising, and how many.
    slots: Vec<(u64, u64)>,
    /// When it starts over.
    period_ms: u64,
    /// Opportunities in a period.
    total: u64,
}

impl Recording {
    /// Reads mahimahi's format.
    ///
    /// # Errors
    /// As `mm-link` refuses it: a line that is no whole number, times that fall, no line at all, a trace that lasts no time.
    pub fn parse(text: &str) -> Result<Recording, RecordingError> {
        let wrong = |line, reason| Err(RecordingError { line, reason });
        let mut slots: Vec<(u64, u64)> = Vec::new();
        for (n, line) in text.lines().enumerate() {
            let Ok(ms) = line.trim().parse::<u64>() else {
                return wrong(n + 1, "must be a whole number, the millisecond of an opportunity to deliver 1500 bytes");
            };
            if ms > LONGEST_MS {
                return wrong(n + 1, "must be at most 2678400000 ms (31 days)");
            }
            match slots.last_mut() {
                Some((last, _)) if *last > ms => return wrong(n + 1, "must not be below the line before: times do not fall"),
                Some((last, count)) if *last == ms => *count += 1,
                _ => slots.push((ms, 1)),
            }
        }
        let Some(&(period_ms, _)) = slots.last() else { return wrong(0, "it has no line; each is the millisecond of an opportunity") };
        if period_ms == 0 {
            return wrong(0, "it lasts no time; the last line must be above 0");
        }
        let total = slots.iter().map(|slot| slot.1).sum();
        Ok(Recording { slots, period_ms, total })
    }

    /// Opportunities before `ms`, counted from the beginning.
    fn before(&self, ms: u64) -> u64 {
        // An opportunity at the period's end comes before those of the next one's beginning.
        let within = |until: u64| self.slots.iter().take_while(|slot| slot.0 < until).map(|slot| slot.1).sum::<u64>();
        let whole = ms.saturating_sub(1) / self.period_ms;
        whole * self.total + within(ms - whole * self.period_ms)
    }
}

/// A source of opportunities, in the order of time.
#[derive(Clone, Debug)]
pub enum Opportunities {
    /// A trace that starts over for ever.
    Recorded {
        /// The trace.
        recording: Recording,
        /// The period and the slot that come next.
        next: (u64, usize),
    },
    /// Drawn as they are asked for.
    Drawn(Box<Drawn>),
}

/// A cellular link's state.
#[derive(Clone, Debug)]
pub struct Drawn {
    config: CellularConfig,
    mean: Rate,
    seed: Seed,
    random: Random,
    /// λ and its upper end, packets per second.
    rate: f64,
    most: f64,
    /// The running tick began then.
    tick: Time,
    /// The last opportunity.
    at: Time,
}

impl Drawn {
    fn new(config: CellularConfig, mean: Rate, seed: Seed) -> Drawn {
        let rate = mean.bps() as f64 / (8.0 * OPPORTUNITY_BYTES as f64);
        Drawn { config, mean, seed, random: seed.generator(), rate, most: 2.0 * rate, tick: Time::ZERO, at: Time::ZERO }
    }

    /// The next opportunity. A Poisson process forgets: at a tick's end what is left of the wait is drawn anew at the new λ.
    fn next(&mut self) -> Time {
        loop {
            let end = self.tick + TICK;
            if self.rate > 0.0 {
                let wait = Span::from_secs_f64(exponential(&mut self.random) / self.rate).max(Span::from_nanos(1));
                if self.at + wait < end {
                    self.at += wait;
                    return self.at;
                }
            }
            (self.tick, self.at) = (end, end);
            self.wander();
        }
    }

    fn wander(&mut self) {
        let tick_s = TICK.secs_f64();
        let step = self.config.wander_pps * tick_s.sqrt() * normal(&mut self.random);
        if self.rate <= 0.0 {
            let stays = libm::exp(-tick_s * self.config.recovery_per_s);
            if unit(&mut self.random) >= stays {
                self.rate = step.abs().min(self.most);
            }
            return;
        }
        let moved = self.rate + step;
        let reflected = if moved > self.most { 2.0 * self.most - moved } else { moved };
        self.rate = reflected.clamp(0.0, self.most);
    }
}

/// With the normal distribution (Box and Muller).
fn normal(random: &mut Random) -> f64 {
    let radius = (2.0 * exponential(random)).sqrt();
    radius * libm::cos(std::f64::consts::TAU * unit(random))
}

impl Opportunities {
    /// Those of a recorded trace, from time zero.
    pub fn recorded(recording: Recording) -> Opportunities {
        Opportunities::Recorded { recording, next: (0, 0) }
    }

    /// Those of a cellular link whose λ begins at `mean`.
    pub fn drawn(config: CellularConfig, mean: Rate, seed: Seed) -> Opportunities {
        Opportunities::Drawn(Box::new(Drawn::new(config, mean, seed)))
    }

    /// The first time after `now` at which something may leave, and how many bytes. Each call begins where the last one ended:
    /// `now` does not fall.
    pub fn after(&mut self, now: Time) -> (Time, u64) {
        match self {
            Opportunities::Recorded { recording, next: (period, slot) } => loop {
                let (ms, count) = recording.slots[*slot];
                let at = Time::from_millis(*period * recording.period_ms + ms);
                (*period, *slot) = if *slot + 1 == recording.slots.len() { (*period + 1, 0) } else { (*period, *slot + 1) };
                if at > now {
                    return (at, count * OPPORTUNITY_BYTES);
                }
            },
            Opportunities::Drawn(drawn) => loop {
                let at = drawn.next();
                if at > now {
                    return (at, OPPORTUNITY_BYTES);
                }
            },
        }
    }

    /// What all opportunities from `from` to `to` carry.
    pub fn mean_between(&self, from: Time, to: Time) -> Rate {
        let count = match self {
            Opportunities::Recorded { recording, .. } => {
                let ms = |at: Time| at.nanos().div_ceil(1_000_000);
                recording.before(ms(to)) - recording.before(ms(from))
            }
            Opportunities::Drawn(drawn) => {
                let mut again = Drawn::new(drawn.config, drawn.mean, drawn.seed);
                std::iter::repeat_with(|| again.next()).take_while(|&at| at < to).filter(|&at| at >= from).count() as u64
            }
        };
        Rate::from_bytes_over(count * OPPORTUNITY_BYTES, to.since(from))
    }
}

#[cfg(test)]
mod tests;
