//! HighSpeed TCP (RFC 3649): Reno up to 38 segments; above, an increase and a decrease that follow the response function
//! p = 0.078/W^1.2. The RFC's formulas, not its rounded table.

use serde::Deserialize;

use crate::controller::{Controller, Start};
use crate::events::{Ack, Congestion};
use crate::params::{ParamError, Params};
use crate::reno_base::{Base, Law, Rival, Window};

/// Parameters.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The base's variant.
    pub base: Base,
    /// a(W) in whole segments, rounded up: what the RFC's table holds (appendix B; Linux).
    pub whole: bool,
}

/// Low_Window, High_Window, High_Decrease (RFC 3649 §5).
const LOW_WINDOW: f64 = 38.0;
const HIGH_WINDOW: f64 = 83_000.0;
const HIGH_DECREASE: f64 = 0.1;
/// The response function p(W) = 0.078/W^1.2 (RFC 3649 §5).
const RESPONSE: f64 = 0.078;
const EXPONENT: f64 = 0.8;

/// The registry's constructor.
///
/// # Errors
/// Unknown parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("highspeed")?;
    Ok(Box::new(Rival::new(config.base, HighSpeed { whole: config.whole }, start)))
}

/// b(W): the part of the window a loss takes.
fn decrease(window: f64) -> f64 {
    let w = window.clamp(LOW_WINDOW, HIGH_WINDOW);
    0.5 - (0.5 - HIGH_DECREASE) * libm::log(w / LOW_WINDOW) / libm::log(HIGH_WINDOW / LOW_WINDOW)
}

/// a(W) = W²·p(W)·2b/(2-b): segments a round.
fn increase(window: f64) -> f64 {
    if window <= LOW_WINDOW {
        return 1.0;
    }
    let (w, b) = (window.min(HIGH_WINDOW), decrease(window));
    (RESPONSE * libm::pow(w, EXPONENT) * 2.0 * b / (2.0 - b)).max(1.0)
}

/// Reno with a(W) and b(W).
#[derive(Clone, Copy, Debug, Default)]
pub struct HighSpeed {
    whole: bool,
}

impl Law for HighSpeed {
    fn adjust(&mut self, window: &mut Window, ack: &Ack) {
        let rest = window.left_in_segments(ack);
        if rest > 0.0 {
            let a = increase(window.cwnd);
            // The table's rows are where a(W) is whole, give or take its rounding.
            let a = if self.whole { libm::ceil(a - 0.02) } else { a };
            window.count(window.cwnd / a, rest);
        }
    }

    fn reduce(&mut self, window: &mut Window, event: &Congestion) {
        let reference = window.reference(event);
        window.cut_to(libm::floor(reference * (1.0 - decrease(window.cwnd))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Cause;
    use crate::reno_base::testing::{ack, avoiding, episode};

    #[test]
    fn the_table_of_rfc_3649() {
        for (w, a, b) in [(38.0, 1.0, 0.5), (118.0, 2.0, 0.44), (1058.0, 8.0, 0.33), (10_661.0, 30.0, 0.21), (83_000.0, 71.0, 0.10)] {
            assert!((decrease(w) - b).abs() <= 0.006, "b({w}) = {}", decrease(w));
            assert!((increase(w) - a).abs() <= 0.51, "a({w}) = {}", increase(w));
        }
        assert_eq!((increase(20.0), decrease(20.0)), (1.0, 0.5));
        assert_eq!(decrease(1e6), decrease(83_000.0));
    }

    /// Between 38 and 118 segments the table says two a round, where the formula goes from one to two.
    #[test]
    fn the_table_adds_whole_segments() {
        for (whole, grown) in [(true, 2.0), (false, 1.52)] {
            let mut flow = avoiding(Base::default(), HighSpeed { whole }, 77.0);
            (0..770).for_each(|_| flow.on_ack(&ack(0.0, 1.0, 100.0)));
            let rounds = 770.0 / ((77.0 + flow.window.cwnd) / 2.0);
            assert!(((flow.window.cwnd - 77.0) / rounds - grown).abs() < 0.15, "{}", flow.window.cwnd);
        }
    }

    #[test]
    fn a_round_adds_a_and_a_loss_takes_b() {
        let mut flow = avoiding(Base::default(), HighSpeed::default(), 1058.0);
        (0..1058).for_each(|_| flow.on_ack(&ack(0.0, 1.0, 100.0)));
        assert!((flow.window.cwnd - 1066.0).abs() <= 1.0, "{}", flow.window.cwnd);
        flow.window.cwnd = 1058.0;
        flow.on_congestion(&episode(0.0, Cause::Loss, 1058.0));
        assert!((flow.window.cwnd / 1058.0 - 0.67).abs() < 0.005, "{}", flow.window.cwnd);
    }
}
