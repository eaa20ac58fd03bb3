//! BIC: a binary search towards the window of the last loss, then away from it (Linux `tcp_bic.c`).

use lowtide_units::Time;
use serde::Deserialize;

use crate::controller::{Controller, Start};
use crate::events::{Ack, Congestion};
use crate::params::{ParamError, Params, require};
use crate::reno_base::{Base, Law, Rival, Window};

/// Parameters; the defaults are Linux's.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The base's variant.
    pub base: Base,
    /// Rounds of the last step towards the maximum (`smooth_part`: Linux 20).
    pub smooth_part: f64,
    /// A loss below the last maximum leaves this part of the window as the new one (Linux 0.9).
    pub convergence: f64,
}

impl Default for Config {
    fn default() -> Config {
        Config { base: Base::default(), smooth_part: 20.0, convergence: (1024.0 + BETA_1024) / 2048.0 }
    }
}

/// β = 819/1024 (Linux).
const BETA_1024: f64 = 819.0;
const BETA: f64 = BETA_1024 / 1024.0;
/// The search covers this part of the distance a round (BICTCP_B).
const B: f64 = 4.0;
/// Largest step a round, S_max (`max_increment`).
const MAX_INCREMENT: f64 = 16.0;
/// Up to here it is Reno (`low_window`).
const LOW_WINDOW: f64 = 14.0;
/// Segments per +1 at the most before the first loss.
const MAX_COUNT_BEFORE_LOSS: f64 = 20.0;

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("bic")?;
    require(config.smooth_part >= 1.0, "bic", "smooth_part must be at least 1")?;
    require(config.convergence > 0.0 && config.convergence <= 1.0, "bic", "convergence must be above 0 and at most 1")?;
    Ok(Box::new(Rival::new(config.base, Bic::new(config), start)))
}

/// The state of BIC.
#[derive(Debug)]
pub struct Bic {
    config: Config,
    /// The window of the last loss, zero before the first.
    last_max: f64,
    before_episode: f64,
}

impl Bic {
    /// A flow without history.
    pub fn new(config: Config) -> Bic {
        Bic { config, last_max: 0.0, before_episode: 0.0 }
    }

    /// Segments per +1 (`bictcp_update`).
    fn count(&self, cwnd: f64) -> f64 {
        if cwnd <= LOW_WINDOW {
            return cwnd;
        }
        let smooth = cwnd * self.config.smooth_part / B;
        let above = cwnd - self.last_max;
        let count = if above < 0.0 {
            let step = libm::floor(-above / B);
            if step <= 1.0 { smooth } else { cwnd / step.min(MAX_INCREMENT) }
        } else if above < B {
            smooth
        } else if above < MAX_INCREMENT * (B - 1.0) {
            cwnd * (B - 1.0) / above
        } else {
            cwnd / MAX_INCREMENT
        };
        let limit = if self.last_max == 0.0 { MAX_COUNT_BEFORE_LOSS } else { f64::INFINITY };
        libm::floor(count.min(limit)).max(1.0)
    }
}

impl Law for Bic {
    fn adjust(&mut self, window: &mut Window, ack: &Ack) {
        let rest = window.left_in_segments(ack);
        if rest > 0.0 {
            window.count(self.count(window.cwnd), rest);
        }
    }

    fn reduce(&mut self, window: &mut Window, event: &Congestion) {
        let cwnd = window.reference(event);
        self.before_episode = self.last_max;
        self.last_max = if cwnd < self.last_max { libm::floor(cwnd * self.config.convergence) } else { cwnd };
        window.cut_to(libm::floor(if cwnd <= LOW_WINDOW { cwnd / 2.0 } else { cwnd * BETA }));
    }

    fn forget_after_timeout(&mut self, _now: Time) {
        self.last_max = 0.0;
    }

    fn undo(&mut self) {
        self.last_max = self.before_episode;
    }

    fn rescale(&mut self, factor: f64) {
        self.last_max *= factor;
        self.before_episode *= factor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Cause;
    use crate::reno_base::testing::{avoiding, episode};

    /// Segments a round at `cwnd` after a loss at `last_max`.
    fn per_round(config: Config, cwnd: f64, last_max: f64) -> f64 {
        cwnd / Bic { last_max, ..Bic::new(config) }.count(cwnd)
    }

    #[test]
    fn the_search_and_its_mirror_image() {
        let linux = Config::default();
        for (cwnd, last_max, want) in [
            (160.0, 200.0, 10.0),
            (800.0, 1000.0, 16.0),
            (196.0, 200.0, 0.2),
            (200.0, 200.0, 0.2),
            (212.0, 200.0, 4.0),
            (320.0, 200.0, 16.0),
            (10.0, 200.0, 1.0),
        ] {
            let got = per_round(linux, cwnd, last_max);
            assert!((got - want).abs() < 0.05, "{cwnd} after {last_max}: {got}");
        }
        assert!((per_round(Config { smooth_part: 5.0, ..linux }, 196.0, 200.0) - 0.8).abs() < 0.01);
        assert_eq!(per_round(linux, 400.0, 0.0), 20.0);
        assert_eq!(per_round(linux, 100.0, 0.0), 100.0 / 6.0);
    }

    #[test]
    fn reductions_and_fast_convergence() {
        for (config, converged) in [(Config::default(), 143.0), (Config { convergence: 0.8, ..Config::default() }, 127.0)] {
            let mut flow = avoiding(Base::default(), Bic::new(config), 200.0);
            flow.on_congestion(&episode(0.0, Cause::Loss, 200.0));
            assert_eq!((flow.window.cwnd, flow.law.last_max), (159.0, 200.0));
            flow.on_congestion(&episode(0.0, Cause::Loss, 159.0));
            assert_eq!(flow.law.last_max, converged);
            flow.window.cwnd = 14.0;
            flow.on_congestion(&episode(0.0, Cause::Loss, 14.0));
            assert_eq!(flow.window.cwnd, 7.0);
        }
    }

    #[test]
    fn a_timeout_forgets_the_maximum() {
        let mut flow = avoiding(Base::default(), Bic::new(Config::default()), 200.0);
        flow.on_congestion(&episode(0.0, Cause::Timeout, 200.0));
        assert_eq!(flow.law.last_max, 0.0);
    }
}
