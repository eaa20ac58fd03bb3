//! CUBIC as Linux has it (`tcp_cubic.c`): integer counts, Reno-friendly region, fast convergence, HyStart. RFC 9438's own text is `cubic_rfc9438`.

use lowtide_units::{Span, Time};
use serde::Deserialize;

use crate::best_effort::hystart::Hystart;
use crate::controller::{Controller, Start};
use crate::events::{Ack, Congestion, Restart};
use crate::params::{ParamError, Params};
use crate::reno_base::{Base, Law, Rival, Window};

/// Parameters; the defaults are Linux's.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The base's variant.
    pub base: Base,
    /// HyStart on.
    pub hystart: bool,
    /// The host paces (changes HyStart's acknowledgement-train limit).
    pub paced: bool,
    /// Give up bandwidth to newer flows (RFC 9438 §4.7).
    pub fast_convergence: bool,
    /// The Reno-friendly region (RFC 9438 §4.3).
    pub reno_friendly: bool,
    /// RTT samples this soon after a reduction are ignored (Linux 1000 ms).
    pub ignore_after_reduction_ms: f64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            base: Base::default(),
            hystart: true,
            paced: false,
            fast_convergence: true,
            reno_friendly: true,
            ignore_after_reduction_ms: 1000.0,
        }
    }
}

/// β = 717/1024, C = 410/1024 (Linux `tcp_cubic.c`).
const BETA: f64 = 717.0 / 1024.0;
const C: f64 = 410.0 / 1024.0;
/// Reno-friendly growth: +1 for every 15/8 of a window (Linux `beta_scale` = 8(1+β)/(3(1-β)), rounded down).
const FRIENDLY: f64 = 15.0 / 8.0;
/// HyStart starts at this window (Linux `hystart_low_window`).
const LOW_WINDOW: f64 = 16.0;
/// The count is computed at most this often while the window stands still (Linux HZ/32).
const RECOMPUTE: Span = Span::from_micros(31_250);
/// Segments per +1 at the least: 1.5 times a round.
const MIN_COUNT: f64 = 2.0;
/// Segments per +1 at the most before the first loss.
const MAX_COUNT_BEFORE_LOSS: f64 = 20.0;
/// In a window's multiples: segments per +1 when the target is not above the window.
const STANDSTILL: f64 = 100.0;

/// The registry's constructor.
///
/// # Errors
/// Unknown parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("cubic")?;
    Ok(Box::new(Rival::new(config.base, Cubic::new(config), start)))
}

/// The state of CUBIC.
#[derive(Debug)]
pub struct Cubic {
    config: Config,
    hystart: Hystart,
    delay_min: Option<Span>,
    /// The window before the last reduction, zero before the first.
    last_max: f64,
    epoch: Option<Epoch>,
    last_cwnd: f64,
    last_time: Time,
    count: f64,
    before_episode: f64,
}

/// What starts with the first growth after a reduction.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    k: f64,
    origin: f64,
    /// Segments acknowledged towards the next +1 of `friendly`.
    acked: f64,
    /// What Reno would have.
    friendly: f64,
}

impl Cubic {
    /// A flow without history.
    pub fn new(config: Config) -> Cubic {
        Cubic {
            config,
            hystart: Hystart::new(config.paced),
            delay_min: None,
            last_max: 0.0,
            epoch: None,
            last_cwnd: 0.0,
            last_time: Time::ZERO,
            count: 0.0,
            before_episode: 0.0,
        }
    }

    fn new_epoch(&self, now: Time, cwnd: f64) -> Epoch {
        let gap = (self.last_max - cwnd).max(0.0);
        Epoch { start: now, k: libm::cbrt(gap / C), origin: cwnd.max(self.last_max), acked: 0.0, friendly: cwnd }
    }

    /// Segments to acknowledge per +1 (`bictcp_update`).
    fn update(&mut self, now: Time, cwnd: f64, n: f64) {
        let mut epoch = match self.epoch {
            Some(epoch) if self.last_cwnd == cwnd && now.since(self.last_time) <= RECOMPUTE => {
                self.epoch = Some(Epoch { acked: epoch.acked + n, ..epoch });
                return;
            }
            Some(epoch) => Epoch { acked: epoch.acked + n, ..epoch },
            None => Epoch { acked: n, ..self.new_epoch(now, cwnd) },
        };
        (self.last_cwnd, self.last_time) = (cwnd, now);
        let t = (now.since(epoch.start) + self.delay_min.unwrap_or(Span::ZERO)).secs_f64();
        let offset = t - epoch.k;
        // Linux counts |delta| in whole segments and adds it to the origin, or subtracts it.
        let target = epoch.origin + libm::trunc(C * offset * offset * offset);
        self.count = if target > cwnd { libm::floor(cwnd / (target - cwnd)) } else { STANDSTILL * cwnd };
        if self.last_max == 0.0 {
            self.count = self.count.min(MAX_COUNT_BEFORE_LOSS);
        }
        if self.config.reno_friendly {
            epoch.follow_reno(cwnd);
            if epoch.friendly > cwnd {
                self.count = self.count.min(libm::floor(cwnd / (epoch.friendly - cwnd)));
            }
        }
        self.count = self.count.max(MIN_COUNT);
        self.epoch = Some(epoch);
    }

    fn samples_count(&self, now: Time) -> bool {
        let ignore = Span::from_millis_f64(self.config.ignore_after_reduction_ms);
        self.epoch.is_none_or(|epoch| now.since(epoch.start) >= ignore)
    }
}

impl Epoch {
    fn follow_reno(&mut self, cwnd: f64) {
        let per = cwnd * FRIENDLY;
        if self.acked > per {
            let steps = libm::floor(self.acked / per);
            self.acked -= steps * per;
            self.friendly += steps;
        }
    }
}

impl Law for Cubic {
    fn measure(&mut self, window: &mut Window, ack: &Ack) {
        let Some(rtt) = ack.rtt.filter(|_| self.samples_count(ack.now)) else { return };
        let base = self.delay_min.map_or(rtt, |min| min.min(rtt));
        self.delay_min = Some(base);
        if self.config.hystart && window.in_slow_start() {
            self.hystart.track(ack);
            let rate = window.bytes() as f64 / ack.srtt.secs_f64().max(1e-6);
            if window.cwnd >= LOW_WINDOW && self.hystart.leave(ack.now, rtt, base, rate) {
                window.ssthresh = window.cwnd;
            }
        }
    }

    fn adjust(&mut self, window: &mut Window, ack: &Ack) {
        let rest = window.slow_start_on(ack);
        if rest <= 0.0 {
            return;
        }
        self.update(ack.now, window.cwnd, rest);
        window.count(self.count, rest);
    }

    fn reduce(&mut self, window: &mut Window, event: &Congestion) {
        let cwnd = window.reference(event);
        self.before_episode = self.last_max;
        self.epoch = None;
        let converge = cwnd < self.last_max && self.config.fast_convergence;
        self.last_max = if converge { libm::floor(cwnd * (1.0 + BETA) / 2.0) } else { cwnd };
        window.cut_to(libm::floor(cwnd * BETA));
    }

    fn forget_after_timeout(&mut self, now: Time) {
        self.last_max = 0.0;
        self.delay_min = None;
        self.hystart.reset(now);
    }

    fn rested(&mut self, restart: &Restart) {
        // Linux CA_EVENT_TX_START: time without data does not count.
        if let Some(epoch) = &mut self.epoch {
            epoch.start = (epoch.start + restart.idle).min(restart.now);
        }
    }

    fn undo(&mut self) {
        self.last_max = self.before_episode;
        self.epoch = None;
    }

    fn rescale(&mut self, factor: f64) {
        self.last_max *= factor;
        self.before_episode *= factor;
        self.epoch = None;
    }

    fn delays(&self) -> (Option<Span>, Option<Span>) {
        (self.delay_min, None)
    }
}

#[cfg(test)]
mod tests;
