//! TCP Veno: Reno that tells congestive from random loss by Vegas's count of queued segments (Linux `tcp_veno.c`).

use lowtide_units::{Span, Time};
use serde::Deserialize;

use crate::controller::{Controller, Start};
use crate::events::{Ack, Congestion, Restart};
use crate::params::{ParamError, Params, require};
use crate::reno_base::{Base, Law, Rival, Window};

/// Parameters; the defaults are Linux's.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The base's variant.
    pub base: Base,
    /// From this many queued segments on a loss means congestion (Linux: 3).
    pub beta: f64,
}

impl Default for Config {
    fn default() -> Config {
        Config { base: Base::default(), beta: 3.0 }
    }
}

/// What a loss that does not mean congestion leaves (Linux: 4/5).
const RANDOM_LOSS: f64 = 0.8;
/// Fewer samples than this make it Reno (Linux: `cntrtt <= 2`).
const MIN_SAMPLES: u64 = 3;

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("veno")?;
    require(config.beta > 0.0, "veno", "beta must be above 0")?;
    Ok(Box::new(Rival::new(config.base, Veno::new(config), start)))
}

/// The state of Veno.
#[derive(Debug)]
pub struct Veno {
    config: Config,
    base: Option<Span>,
    last: Option<Span>,
    samples: u64,
    /// Queued segments by the last sample.
    queued: f64,
}

impl Veno {
    /// A flow without samples.
    pub fn new(config: Config) -> Veno {
        Veno { config, base: None, last: None, samples: 0, queued: 0.0 }
    }

    fn is_congestive(&self) -> bool {
        self.queued >= self.config.beta
    }
}

impl Law for Veno {
    fn measure(&mut self, window: &mut Window, ack: &Ack) {
        let Some(rtt) = ack.rtt.filter(|rtt| *rtt > Span::ZERO) else { return };
        let base = self.base.map_or(rtt, |base| base.min(rtt));
        (self.base, self.last) = (Some(base), Some(rtt));
        self.samples += 1;
        if self.samples >= MIN_SAMPLES {
            self.queued = window.cwnd * (rtt - base).secs_f64() / rtt.secs_f64();
        }
    }

    fn adjust(&mut self, window: &mut Window, ack: &Ack) {
        let reno = self.samples < MIN_SAMPLES;
        if reno || !self.is_congestive() {
            window.grow_as_reno(ack);
            return;
        }
        let rest = window.slow_start_on(ack);
        if rest > 0.0 {
            // Every other round.
            window.count(2.0 * window.cwnd, rest);
        }
    }

    fn reduce(&mut self, window: &mut Window, event: &Congestion) {
        if self.is_congestive() {
            window.halve(event);
        } else {
            let reference = window.reference(event);
            window.cut_to(libm::floor(reference * RANDOM_LOSS));
        }
    }

    fn forget_after_timeout(&mut self, _now: Time) {
        self.samples = 0;
    }

    fn recovered(&mut self, _ack: &Ack) {
        self.samples = 0;
    }

    fn rested(&mut self, _restart: &Restart) {
        self.samples = 0;
    }

    fn rescale(&mut self, factor: f64) {
        self.queued *= factor;
    }

    fn delays(&self) -> (Option<Span>, Option<Span>) {
        (self.base, self.last.zip(self.base).map(|(last, base)| last - base))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Cause;
    use crate::reno_base::testing::{ack, avoiding, episode};

    /// `rounds` of 30 acknowledgements at `rtt_ms`, base 100 ms; no growth on the two that set the base.
    fn flow(config: Config, rtt_ms: f64, rounds: u32) -> Rival<Veno> {
        let mut flow = avoiding(config.base, Veno::new(config), 30.0);
        for rtt in [100.0, 100.0, rtt_ms] {
            flow.on_ack(&Ack { cwnd_limited: false, ..ack(0.0, 1.0, rtt) });
        }
        (0..30 * rounds).for_each(|_| flow.on_ack(&ack(0.0, 1.0, rtt_ms)));
        flow
    }

    #[test]
    fn a_loss_without_a_queue_takes_a_fifth_one_with_a_queue_half() {
        for (rtt, queued, left) in [(105.0, 1.43, 24.0), (120.0, 5.0, 15.0)] {
            let mut flow = flow(Config::default(), rtt, 0);
            assert!((flow.law.queued - queued).abs() < 0.01);
            flow.on_congestion(&episode(0.0, Cause::Loss, 30.0));
            assert_eq!(flow.window.cwnd, left);
        }
    }

    #[test]
    fn it_grows_every_round_without_a_queue_and_every_other_with_one() {
        assert_eq!(flow(Config::default(), 105.0, 1).window.cwnd, 31.0);
        assert_eq!(flow(Config::default(), 120.0, 1).window.cwnd, 30.0);
        assert_eq!(flow(Config::default(), 120.0, 2).window.cwnd, 31.0);
    }

    #[test]
    fn with_a_queue_a_loss_halves() {
        let mut full = flow(Config::default(), 120.0, 0);
        full.on_congestion(&episode(0.0, Cause::Loss, 30.0));
        assert_eq!(full.window.cwnd, 15.0);
    }
}
