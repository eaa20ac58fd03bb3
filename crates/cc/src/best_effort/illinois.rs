//! TCP-Illinois: loss decides when, the mean queueing delay how much: α falls and β rises with it (Linux `tcp_illinois.c`).

use lowtide_units::{Span, Time};
use serde::Deserialize;

use crate::controller::{Controller, Start};
use crate::events::{Ack, Congestion};
use crate::params::{ParamError, Params};
use crate::reno_base::{Base, Law, Rival, Window};
use crate::round::Round;

/// Parameters; the defaults are Linux's.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The base's variant.
    pub base: Base,
}

/// α and β, their ranges and base values (Linux ALPHA_*, BETA_*).
const ALPHA_MIN: f64 = 0.3;
const ALPHA_MAX: f64 = 10.0;
const ALPHA_BASE: f64 = 1.0;
const BETA_MIN: f64 = 1.0 / 8.0;
const BETA_MAX: f64 = 1.0 / 2.0;
/// Below this window it is Reno (`win_thresh`).
const WINDOW_THRESHOLD: f64 = 15.0;
/// Rounds of low delay before α returns to its maximum (`theta`).
const THETA: u32 = 5;

/// The registry's constructor.
///
/// # Errors
/// Unknown parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("illinois")?;
    Ok(Box::new(Rival::new(config.base, Illinois::new(), start)))
}

/// The state of Illinois.
#[derive(Debug)]
pub struct Illinois {
    alpha: f64,
    beta: f64,
    base: Option<Span>,
    max: Span,
    sum: Span,
    samples: u64,
    round: Round,
    was_above: bool,
    low_rounds: u32,
}

impl Default for Illinois {
    fn default() -> Illinois {
        Illinois::new()
    }
}

impl Illinois {
    /// A flow without samples.
    pub fn new() -> Illinois {
        Illinois {
            alpha: ALPHA_MAX,
            beta: BETA_MAX,
            base: None,
            max: Span::ZERO,
            sum: Span::ZERO,
            samples: 0,
            round: Round::default(),
            was_above: false,
            low_rounds: 0,
        }
    }

    /// Once a round: (α, β) of the mean and the largest queueing delay.
    fn judge(&mut self, cwnd: f64) {
        if cwnd < WINDOW_THRESHOLD {
            (self.alpha, self.beta) = (ALPHA_BASE, BETA_MAX);
        } else if let Some(base) = self.base.filter(|_| self.samples > 0) {
            let (mean, max) = ((self.sum / self.samples - base).millis_f64(), (self.max - base).millis_f64());
            self.alpha = self.alpha_of(mean, max);
            self.beta = beta_of(mean, max);
        }
        (self.sum, self.samples) = (Span::ZERO, 0);
    }

    fn alpha_of(&mut self, mean: f64, max: f64) -> f64 {
        let low = max / 100.0;
        if mean > low {
            self.was_above = true;
            let (mean, max) = (mean - low, max - low);
            return max * ALPHA_MAX / (max + mean * (ALPHA_MAX - ALPHA_MIN) / ALPHA_MIN);
        }
        if !self.was_above {
            return ALPHA_MAX;
        }
        self.low_rounds += 1;
        if self.low_rounds < THETA {
            return self.alpha;
        }
        (self.low_rounds, self.was_above) = (0, false);
        ALPHA_MAX
    }
}

fn beta_of(mean: f64, max: f64) -> f64 {
    let (low, high) = (max / 10.0, 8.0 * max / 10.0);
    if mean <= low {
        return BETA_MIN;
    }
    if mean >= high || high <= low {
        return BETA_MAX;
    }
    (BETA_MIN * high - BETA_MAX * low + (BETA_MAX - BETA_MIN) * mean) / (high - low)
}

impl Law for Illinois {
    fn measure(&mut self, _window: &mut Window, ack: &Ack) {
        let Some(rtt) = ack.rtt.filter(|rtt| *rtt > Span::ZERO) else { return };
        self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
        self.max = self.max.max(rtt);
        self.sum += rtt;
        self.samples += 1;
    }

    fn adjust(&mut self, window: &mut Window, ack: &Ack) {
        if self.round.ended_by(ack) {
            self.judge(window.cwnd);
        }
        let rest = window.left_in_segments(ack);
        if rest > 0.0 {
            window.count(window.cwnd / self.alpha, rest);
        }
    }

    fn reduce(&mut self, window: &mut Window, event: &Congestion) {
        let reference = window.reference(event);
        window.cut_to(reference - libm::floor(reference * self.beta));
    }

    fn forget_after_timeout(&mut self, _now: Time) {
        (self.alpha, self.beta) = (ALPHA_BASE, BETA_MAX);
        (self.low_rounds, self.was_above) = (0, false);
        (self.sum, self.samples) = (Span::ZERO, 0);
    }

    fn delays(&self) -> (Option<Span>, Option<Span>) {
        let mean = self.base.filter(|_| self.samples > 0).map(|base| self.sum / self.samples - base);
        (self.base, mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Cause;
    use crate::reno_base::testing::{ack, avoiding, episode};

    #[test]
    fn alpha_and_beta_by_the_mean_delay() {
        for (mean, alpha, beta) in [(10.0, 2.54, 0.125), (50.0, 0.59, 0.339), (80.0, 0.37, 0.5), (100.0, 0.3, 0.5), (1.0, 10.0, 0.125)] {
            let got = (Illinois::new().alpha_of(mean, 100.0), beta_of(mean, 100.0));
            assert!((got.0 - alpha).abs() < 0.006 && (got.1 - beta).abs() < 6e-4, "{mean}: {got:?}");
        }
    }

    #[test]
    fn alpha_returns_to_its_maximum_after_five_good_rounds() {
        let mut law = Illinois::new();
        law.alpha = law.alpha_of(50.0, 100.0);
        for round in 1..=5 {
            law.alpha = law.alpha_of(0.5, 100.0);
            assert_eq!(law.alpha == ALPHA_MAX, round == 5, "round {round}");
        }
    }

    #[test]
    fn small_windows_are_reno() {
        let mut flow = avoiding(Base::default(), Illinois::new(), 14.0);
        flow.on_ack(&ack(0.0, 1.0, 100.0));
        assert_eq!((flow.law.alpha, flow.law.beta), (ALPHA_BASE, BETA_MAX));
    }

    #[test]
    fn the_window_grows_by_alpha_a_round() {
        let mut flow = avoiding(Base::default(), Illinois::new(), 100.0);
        flow.law.round.restart(u64::MAX);
        flow.law.alpha = 0.5;
        (0..1000).for_each(|_| flow.on_ack(&ack(0.0, 1.0, 100.0)));
        assert_eq!(flow.window.cwnd, 104.0);
    }

    #[test]
    fn a_loss_takes_beta_and_a_timeout_forgets() {
        let mut flow = avoiding(Base::default(), Illinois::new(), 100.0);
        flow.law.beta = 0.125;
        flow.on_congestion(&episode(0.0, Cause::Loss, 100.0));
        assert_eq!(flow.window.cwnd, 88.0);
        flow.on_congestion(&episode(0.0, Cause::Timeout, 100.0));
        assert_eq!((flow.law.alpha, flow.law.beta), (ALPHA_BASE, BETA_MAX));
    }
}
