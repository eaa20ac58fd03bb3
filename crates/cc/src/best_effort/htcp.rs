//! H-TCP: the increase grows with the time since the last loss, the decrease follows RTTmin/RTTmax (Linux `tcp_htcp.c`).

use lowtide_units::{Span, Time};
use serde::Deserialize;

use crate::controller::{Controller, Start};
use crate::events::{Ack, Congestion};
use crate::params::{ParamError, Params};
use crate::reno_base::{Base, Law, Rival, Window};

/// Parameters; the defaults are Linux's.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The base's variant.
    pub base: Base,
    /// Divide the increase by clamp(100 ms/RTTmin, 0.5, 10) (`use_rtt_scaling`).
    pub rtt_scaling: bool,
    /// β = 1/2 when the peak throughput changed by more than a fifth (`use_bandwidth_switch`).
    pub bandwidth_switch: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config { base: Base::default(), rtt_scaling: true, bandwidth_switch: true }
    }
}

/// β lies between these (Linux BETA_MIN, BETA_MAX = 102/128).
const BETA_MIN: f64 = 0.5;
const BETA_MAX: f64 = 102.0 / 128.0;
/// Below this RTT the decrease is a half.
const SMALL_RTT: Span = Span::from_millis(10);
/// RTTmax follows a sample up at most this far.
const RTT_STEP: Span = Span::from_millis(20);
/// What of RTTmax's excess a loss leaves.
const FADE: f64 = 0.95;

/// The registry's constructor.
///
/// # Errors
/// Unknown parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("htcp")?;
    Ok(Box::new(Rival::new(config.base, Htcp::new(config, start.now), start)))
}

/// f(Δ): 1 for a second, then 1 + 10(Δ-1) + ((Δ-1)/2)².
fn increase_function(since_loss: Span) -> f64 {
    let beyond = since_loss.secs_f64() - 1.0;
    if beyond <= 0.0 { 1.0 } else { 1.0 + 10.0 * beyond + beyond * beyond / 4.0 }
}

/// The state of H-TCP.
#[derive(Debug)]
pub struct Htcp {
    config: Config,
    alpha: f64,
    beta: f64,
    rtt_min: Option<Span>,
    rtt_max: Span,
    last_loss: Time,
    /// The first reduction with usable measurements only switches adaptive backoff on (`modeswitch`).
    adaptive: bool,
    throughput: Throughput,
    before_episode: (Time, Span, f64),
}

/// Peak throughput between losses, segments a second.
#[derive(Debug, Default)]
struct Throughput {
    segments: f64,
    since: Time,
    smoothed: f64,
    max: f64,
    previous_max: f64,
}

impl Htcp {
    /// A flow without samples.
    pub fn new(config: Config, now: Time) -> Htcp {
        Htcp {
            config,
            alpha: 1.0,
            beta: BETA_MIN,
            rtt_min: None,
            rtt_max: Span::ZERO,
            last_loss: now,
            adaptive: false,
            throughput: Throughput { since: now, ..Throughput::default() },
            before_episode: (now, Span::ZERO, 0.0),
        }
    }

    fn measure_rtt(&mut self, rtt: Span, in_recovery: bool) {
        let min = self.rtt_min.map_or(rtt, |min| min.min(rtt));
        self.rtt_min = Some(min);
        if !in_recovery {
            self.rtt_max = self.rtt_max.max(min);
            if rtt > self.rtt_max && rtt <= self.rtt_max + RTT_STEP {
                self.rtt_max = rtt;
            }
        }
    }

    fn measure_throughput(&mut self, cwnd: f64, n: f64, now: Time) {
        let (Some(rtt_min), elapsed) = (self.rtt_min, now.since(self.throughput.since)) else { return };
        let seen = &mut self.throughput;
        seen.segments += n;
        if seen.segments < cwnd - self.alpha.max(1.0) || elapsed < rtt_min || elapsed == Span::ZERO {
            return;
        }
        let rate = seen.segments / elapsed.secs_f64();
        if now.since(self.last_loss) <= rtt_min * 3 {
            (seen.smoothed, seen.max) = (rate, rate);
        } else {
            seen.smoothed = (3.0 * seen.smoothed + rate) / 4.0;
            seen.max = seen.max.max(seen.smoothed);
        }
        (seen.segments, seen.since) = (0.0, now);
    }

    fn update_alpha(&mut self, now: Time) {
        let mut factor = increase_function(now.since(self.last_loss));
        if let Some(rtt) = self.rtt_min.filter(|rtt| self.config.rtt_scaling && *rtt > Span::ZERO) {
            factor = (factor / (100.0 / rtt.millis_f64()).clamp(0.5, 10.0)).max(1.0);
        }
        self.alpha = 2.0 * factor * (1.0 - self.beta);
    }

    fn update_beta(&mut self) {
        let (max, before) = (self.throughput.max, self.throughput.previous_max);
        self.throughput.previous_max = max;
        if self.config.bandwidth_switch && !(0.8 * before..=1.2 * before).contains(&max) {
            (self.beta, self.adaptive) = (BETA_MIN, false);
            return;
        }
        match self.rtt_min {
            Some(min) if self.adaptive && min > SMALL_RTT && self.rtt_max > Span::ZERO => {
                self.beta = (min.secs_f64() / self.rtt_max.secs_f64()).clamp(BETA_MIN, BETA_MAX);
            }
            _ => (self.beta, self.adaptive) = (BETA_MIN, true),
        }
    }
}

impl Law for Htcp {
    fn measure(&mut self, window: &mut Window, ack: &Ack) {
        if let Some(rtt) = ack.rtt.filter(|rtt| *rtt > Span::ZERO) {
            self.measure_rtt(rtt, ack.in_recovery);
        }
        if ack.in_recovery {
            (self.throughput.segments, self.throughput.since) = (0.0, ack.now);
        } else {
            self.measure_throughput(window.cwnd, window.segments(ack.acked), ack.now);
        }
    }

    fn adjust(&mut self, window: &mut Window, ack: &Ack) {
        let rest = window.left_in_segments(ack);
        if rest > 0.0 {
            let before = window.cwnd;
            window.count(window.cwnd / self.alpha, rest);
            // Linux: α is renewed when the window has grown.
            if window.cwnd > before {
                self.update_alpha(ack.now);
            }
        }
    }

    fn reduce(&mut self, window: &mut Window, event: &Congestion) {
        self.before_episode = (self.last_loss, self.rtt_max, self.throughput.previous_max);
        self.update_beta();
        self.update_alpha(event.now);
        if let Some(min) = self.rtt_min {
            self.rtt_max = min + (self.rtt_max - min).mul_f64(FADE);
        }
        self.last_loss = event.now;
        let reference = window.reference(event);
        window.cut_to(libm::floor(reference * self.beta));
    }

    fn undo(&mut self) {
        (self.last_loss, self.rtt_max, self.throughput.previous_max) = self.before_episode;
    }

    fn rescale(&mut self, factor: f64) {
        let seen = &mut self.throughput;
        for value in [&mut seen.segments, &mut seen.smoothed, &mut seen.max, &mut seen.previous_max, &mut self.before_episode.2] {
            *value *= factor;
        }
    }

    fn delays(&self) -> (Option<Span>, Option<Span>) {
        (self.rtt_min, None)
    }
}

#[cfg(test)]
mod tests;
