//! PIE as Linux had it from 3.14 until it was aligned with RFC 8033 in 2019 (`sch_pie.c`, draft-pan-aqm-pie-00), in its integers.
//! Knows no packets: bytes and times only.
//!
//! The integers matter on slow links. The drain rate is a whole number of bytes per 256 ticks of 64 ns, a step of
//! 488 kbit/s: on links slower than a step it is zero, the delay counts as zero and nothing is ever dropped early; up to
//! some Mbit/s the delay is seen in coarse steps. Jiffies are not modelled: the timer fires at its time.

use lowtide_units::{Rate, Span, Time};
use rand::Rng;
use serde::{Deserialize, Serialize};

use super::{AqmController, Backlog, Departure, Pie, Verdict, span};
use crate::configuration::Configuration;
use crate::error::{ConfigError, require};
use crate::queue::{Packet, Queue};
use crate::random::{Random, Seed};

/// MAX_PROB.
const MAX: u32 = u32::MAX;
/// MAX_PROB / PSCHED_TICKS_PER_SEC, which C truncates.
const PER_TICK: u32 = MAX / 15_625_000;
/// α and β as `tc` passes them, in sixteenths (pie_params_init).
const ALPHA: u32 = 2;
const BETA: u32 = 20;
/// QUEUE_THRESHOLD, in bytes: 10,000 wherever the target is 20 ms and MAX_PROB has 32 bits; 16,384 came with RFC 8033's 15 ms.
const THRESHOLD: u64 = 10_000;
/// PIE_SCALE: fraction bits of the rate.
const SCALE: u32 = 8;
/// burst_time of a fresh or restarted queue: 100 ms.
const BURST: u64 = ticks(Span::from_millis(100));
/// From this delay on a step adds 2 %: 250 ms.
const HIGH_DELAY: u64 = ticks(Span::from_millis(250));
/// No early drop while less than two frames wait.
const SPARE_BYTES: u64 = 2 * 1514;
/// pie_init arms the timer HZ/2 after the queue was made.
const FIRST_UPDATE: Span = Span::from_millis(500);

/// PSCHED_NS2TICKS.
const fn ticks(span: Span) -> u64 {
    span.nanos() >> 6
}

/// The old PIE as a scenario writes it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The delay to hold.
    pub target_ms: f64,
    /// Between two updates of the drop probability.
    pub update_ms: f64,
    /// Mark ECT packets instead of dropping them while the probability is low.
    pub ecn: bool,
    /// Packets at most.
    pub packets: usize,
    /// Packets that a device below the discipline holds in addition.
    pub device_queue_packets: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config { target_ms: 20.0, update_ms: 30.0, ecn: false, packets: 1000, device_queue_packets: 0 }
    }
}

impl Configuration for Config {
    fn build<P: Packet + Send + 'static>(&self, name: &'static str, _rate: Rate, seed: Seed) -> Result<Box<dyn Queue<P>>, ConfigError> {
        Ok(Box::new(Pie::new(LinuxOld::new(self, name)?, self.packets, seed)))
    }

    fn device_queue_packets(&self) -> usize {
        self.device_queue_packets
    }
}

/// The state of the queue's PIE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinuxOld {
    target: u64,
    update: Span,
    ecn: bool,
    /// Of 2^32 − 1.
    pub probability: u32,
    /// Ticks of measured time that drops still wait for.
    burst: u64,
    /// In ticks.
    delay: u64,
    /// The measurement under way: since which tick, and the bytes that have left.
    running: Option<(u64, u64)>,
    /// Bytes per tick, of 2^8.
    rate: u32,
    next: Option<Time>,
}

impl LinuxOld {
    /// A controller that has not started.
    ///
    /// # Errors
    /// A time or a limit that is not above zero.
    pub fn new(config: &Config, queue: &'static str) -> Result<LinuxOld, ConfigError> {
        require(config.packets > 0, queue, "`packets` must be above 0")?;
        Ok(LinuxOld {
            target: ticks(span(Some(config.target_ms), Span::ZERO, queue)?),
            update: span(Some(config.update_ms), Span::ZERO, queue)?,
            ecn: config.ecn,
            probability: 0,
            burst: BURST,
            delay: 0,
            running: None,
            rate: 0,
            next: None,
        })
    }

    /// pie_timer.
    fn on_timer(&mut self, bytes: u64) {
        let delay = if self.rate > 0 { (bytes << SCALE) / u64::from(self.rate) } else { 0 };
        self.step(delay, bytes);
    }

    /// calculate_probability, for a `delay` in ticks.
    pub fn step(&mut self, delay: u64, bytes: u64) {
        let delay_old = self.delay;
        let old = self.probability;
        // In s32, as the kernel has it: a leap of the delay by 0.4 s wraps around at high probabilities.
        let shift = if old < MAX / 100 {
            7
        } else if old < MAX / 10 {
            5
        } else {
            4
        };
        let (alpha, beta) = ((ALPHA * PER_TICK) >> shift, (BETA * PER_TICK) >> shift);
        let from = |reference: u64| delay.wrapping_sub(reference);
        let sum = u64::from(alpha).wrapping_mul(from(self.target)).wrapping_add(u64::from(beta).wrapping_mul(from(delay_old)));
        let mut delta = sum as i32;
        if delta > (MAX / 50) as i32 && old >= MAX / 10 {
            delta = (MAX / 100 * 2) as i32;
        }
        if delay > HIGH_DELAY {
            delta = delta.wrapping_add((MAX / 50) as i32);
        }
        self.probability = if delta > 0 { old.saturating_add_signed(delta) } else { old.saturating_sub(delta.unsigned_abs()) };
        // A delay that computes to zero with a backlog means no estimate: the probability does not decay then.
        let known = delay != 0 || bytes == 0;
        if delay == 0 && delay_old == 0 && known {
            self.probability = (u64::from(self.probability) * 98 / 100) as u32;
        }
        self.delay = delay;
        if delay < self.target / 2 && delay_old < self.target / 2 && self.probability == 0 && self.rate > 0 {
            (self.running, self.rate, self.burst) = (None, 0, BURST);
        }
    }

    fn measure(&mut self, now: u64, bytes: u32, left: u64) {
        if left >= THRESHOLD && self.running.is_none() {
            self.running = Some((now, 0));
        }
        let Some((since, count)) = &mut self.running else { return };
        *count += u64::from(bytes);
        let took = now - *since;
        if *count < THRESHOLD || took == 0 {
            return;
        }
        let rate = ((*count << SCALE) / took) as u32;
        self.rate = if self.rate == 0 { rate } else { self.rate - (self.rate >> 3) + (rate >> 3) };
        self.running = (left >= THRESHOLD).then_some((now, 0));
        self.burst = self.burst.saturating_sub(took);
    }
}

impl AqmController for LinuxOld {
    fn advance(&mut self, now: Time, bytes: u64) {
        let mut next = self.next.unwrap_or(now + FIRST_UPDATE);
        while next <= now {
            self.on_timer(bytes);
            let rests = bytes == 0 && self.probability == 0 && self.delay == 0 && self.rate == 0;
            let idle = if rests { now.since(next).nanos() / self.update.nanos() } else { 0 };
            next += self.update * (idle + 1);
        }
        self.next = Some(next);
    }

    fn arrival(&mut self, waiting: Backlog, _now: Time, random: &mut Random) -> Verdict {
        let short = self.delay < self.target / 2 && self.probability < MAX / 5;
        if self.burst > 0 || short || waiting.bytes < SPARE_BYTES || random.random::<u32>() >= self.probability {
            return Verdict::Accept;
        }
        Verdict::Congested { may_mark: self.ecn && self.probability <= MAX / 10 }
    }

    fn departure(&mut self, departure: Departure) {
        self.measure(ticks(departure.now.since(Time::ZERO)), departure.bytes, departure.left);
    }
}
