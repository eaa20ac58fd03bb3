//! CUBIC as RFC 9438 writes it, in real arithmetic, with HyStart++ (RFC 9406) in the initial slow start. Linux's is `cubic`.

use lowtide_units::{Span, Time};
use serde::Deserialize;

use crate::best_effort::hystart::{HystartPp, Pace};
use crate::controller::{Controller, Start};
use crate::events::{Ack, Cause, Congestion, Restart};
use crate::params::{ParamError, Params, require};
use crate::reno_base::{Base, Idle, Law, MIN_SSTHRESH, ReduceFrom, Rival, Window};

/// Parameters; the defaults are the RFCs'.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The base's variant.
    pub base: Base,
    /// C (§5.1: 0.4).
    pub c: f64,
    /// β (§4.6: 0.7).
    pub beta: f64,
    /// Give up bandwidth to newer flows (§4.7).
    pub fast_convergence: bool,
    /// HyStart++ (§4.10 recommends it).
    pub hystart_pp: bool,
    /// Segments of growth per acknowledgement in slow start: RFC 9406 §4.2's L, 8 unpaced; 0: no limit (paced).
    pub slow_start_limit: f64,
}

impl Default for Config {
    fn default() -> Config {
        let base = Base { idle: Idle::Restart, ..Base::default() };
        Config { base, c: 0.4, beta: 0.7, fast_convergence: true, hystart_pp: true, slow_start_limit: 8.0 }
    }
}

/// The window never grows by more than half a round (§4.4).
const MAX_TARGET: f64 = 1.5;
/// RFC 9406 CSS_GROWTH_DIVISOR.
const CSS_DIVISOR: f64 = 4.0;

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    const NAME: &str = "cubic-rfc9438";
    let config: Config = params.read(NAME)?;
    require(config.c > 0.0, NAME, "c must be above 0")?;
    require(config.beta > 0.0 && config.beta < 1.0, NAME, "beta must lie between 0 and 1")?;
    require(config.slow_start_limit >= 0.0, NAME, "slow_start_limit must be at least 0 (0: no limit)")?;
    Ok(Box::new(Rival::new(config.base, CubicRfc::new(config), start)))
}

/// The state of RFC 9438 §4.1.2.
#[derive(Debug)]
pub struct CubicRfc {
    config: Config,
    hystart: HystartPp,
    w_max: f64,
    cwnd_prior: f64,
    epoch: Option<Epoch>,
    /// The next epoch follows a timeout or HyStart++: K = 0, W_max = cwnd (§4.8, §4.10).
    flat: bool,
    /// The window was the limit when it was last looked at: a reduction may start from it rather than from the flight (§4.6).
    validated: bool,
    last_ack: Time,
    before_episode: (f64, f64),
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    k: f64,
    w_est: f64,
}

impl CubicRfc {
    /// A flow without history.
    pub fn new(config: Config) -> CubicRfc {
        CubicRfc {
            config,
            hystart: HystartPp::default(),
            w_max: 0.0,
            cwnd_prior: 0.0,
            epoch: None,
            flat: true,
            validated: true,
            last_ack: Time::ZERO,
            before_episode: (0.0, 0.0),
        }
    }

    /// W_cubic(t) = C(t - K)³ + W_max (§4.2 Figure 1).
    fn w_cubic(&self, epoch: &Epoch, t: f64) -> f64 {
        let offset = t - epoch.k;
        self.config.c * offset * offset * offset + self.w_max
    }

    /// Reno's additive increase that loses as little per round as β does (§4.3).
    fn alpha(&self) -> f64 {
        3.0 * (1.0 - self.config.beta) / (1.0 + self.config.beta)
    }

    fn new_epoch(&mut self, now: Time, cwnd: f64) -> Epoch {
        if self.flat || self.w_max < cwnd {
            self.w_max = cwnd;
            self.flat = false;
        }
        Epoch { start: now, k: libm::cbrt((self.w_max - cwnd) / self.config.c), w_est: cwnd }
    }

    fn avoid(&mut self, window: &mut Window, ack: &Ack, n: f64) {
        let mut epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.new_epoch(ack.now, window.cwnd),
        };
        let t = ack.now.since(epoch.start);
        let alpha = if epoch.w_est >= self.cwnd_prior { 1.0 } else { self.alpha() };
        epoch.w_est += alpha * n / window.cwnd;
        if self.w_cubic(&epoch, t.secs_f64()) < epoch.w_est {
            window.cwnd = window.cwnd.max(epoch.w_est);
        } else {
            let target = self.w_cubic(&epoch, (t + ack.srtt).secs_f64()).clamp(window.cwnd, MAX_TARGET * window.cwnd);
            window.cwnd += n * (target - window.cwnd) / window.cwnd;
        }
        self.epoch = Some(epoch);
    }

    fn slow_start(&mut self, window: &mut Window, ack: &Ack) -> f64 {
        let limit = self.config.slow_start_limit;
        let n = if limit > 0.0 { window.credit_of(ack).min(limit) } else { window.credit_of(ack) };
        // RFC 9406 §4.3: only while ssthresh was never set.
        if !self.config.hystart_pp || window.ssthresh.is_finite() {
            return window.slow_start(n);
        }
        match self.hystart.pace(ack) {
            Pace::Full => window.slow_start(n),
            Pace::Quarter => window.slow_start(n / CSS_DIVISOR),
            Pace::Leave => {
                window.ssthresh = window.cwnd;
                self.flat = true;
                n
            }
        }
    }
}

impl Law for CubicRfc {
    fn adjust(&mut self, window: &mut Window, ack: &Ack) {
        let since_last = if self.last_ack == Time::ZERO { Span::ZERO } else { ack.now.since(self.last_ack) };
        self.last_ack = ack.now;
        self.validated = window.may_grow(ack);
        if !self.validated {
            // §4.2: t must not count periods in which the window was not used.
            if let Some(epoch) = &mut self.epoch {
                epoch.start = (epoch.start + since_last).min(ack.now);
            }
            return;
        }
        let rest = if window.in_slow_start() { self.slow_start(window, ack) } else { window.credit_of(ack) };
        if rest > 0.0 && !window.in_slow_start() {
            self.avoid(window, ack, rest);
        }
    }

    fn reduce(&mut self, window: &mut Window, event: &Congestion) {
        self.before_episode = (self.w_max, self.cwnd_prior);
        let cwnd = window.cwnd;
        self.cwnd_prior = cwnd;
        self.w_max = if cwnd < self.w_max && self.config.fast_convergence { cwnd * (1.0 + self.config.beta) / 2.0 } else { cwnd };
        self.epoch = None;
        self.flat = event.cause == Cause::Timeout;
        let use_window = self.validated && window.base.reduce_from == ReduceFrom::Window;
        let target = self.config.beta * if use_window { cwnd } else { window.segments(event.in_flight).min(cwnd) };
        window.cut_to(target);
        if event.cause == Cause::Ecn && target < MIN_SSTHRESH {
            // §4.6: down to one segment on ECN.
            window.cwnd = target.max(1.0);
        }
    }

    fn rested(&mut self, restart: &Restart) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start = (epoch.start + restart.idle).min(restart.now);
        }
        self.last_ack = restart.now;
    }

    fn undo(&mut self) {
        // §4.9.1: the estimate of the saturation point too.
        (self.w_max, self.cwnd_prior) = self.before_episode;
        self.epoch = None;
    }

    fn rescale(&mut self, factor: f64) {
        self.w_max *= factor;
        self.cwnd_prior *= factor;
        self.before_episode.0 *= factor;
        self.before_episode.1 *= factor;
        // K belongs to a window in segments: start the curve anew from here.
        self.epoch = None;
    }
}

#[cfg(test)]
mod tests;
