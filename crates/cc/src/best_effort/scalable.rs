//! Scalable TCP: +1 for a fixed number of segments, -1/8 on loss, so that recovery takes as long at any window
//! (Linux `tcp_scalable.c`).

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
    /// Segments acknowledged per +1 (Linux from 4.x: 100; older: 50).
    pub ai: f64,
}

impl Default for Config {
    fn default() -> Config {
        Config { base: Base::default(), ai: 100.0 }
    }
}

/// The part of the window a loss takes (Linux TCP_SCALABLE_MD_SCALE 3).
const DECREASE: f64 = 1.0 / 8.0;

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("scalable")?;
    require(config.ai >= 1.0, "scalable", "ai must be at least 1")?;
    Ok(Box::new(Rival::new(config.base, Scalable { ai: config.ai }, start)))
}

/// Multiplicative increase, multiplicative decrease.
#[derive(Clone, Copy, Debug)]
pub struct Scalable {
    ai: f64,
}

impl Law for Scalable {
    fn adjust(&mut self, window: &mut Window, ack: &Ack) {
        let rest = window.left_in_segments(ack);
        if rest > 0.0 {
            window.count(self.ai.min(window.cwnd), rest);
        }
    }

    fn reduce(&mut self, window: &mut Window, event: &Congestion) {
        let reference = window.reference(event);
        window.cut_to(reference - libm::floor(reference * DECREASE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Cause;
    use crate::reno_base::testing::{ack, avoiding, episode};

    /// Whole rounds until the window is back where a loss found it.
    fn recovery(ai: f64, window: f64) -> u32 {
        let mut flow = avoiding(Base::default(), Scalable { ai }, window);
        flow.on_congestion(&episode(0.0, Cause::Loss, window));
        let mut rounds = 0;
        while flow.window.cwnd < window {
            let flight = flow.window.cwnd as u64;
            (0..flight).for_each(|_| flow.on_ack(&ack(0.0, 1.0, 100.0)));
            rounds += 1;
        }
        rounds
    }

    #[test]
    fn a_loss_takes_an_eighth() {
        let mut flow = avoiding(Base::default(), Scalable { ai: 100.0 }, 1000.0);
        flow.on_congestion(&episode(0.0, Cause::Loss, 1000.0));
        assert_eq!(flow.window.cwnd, 875.0);
    }

    #[test]
    fn recovery_takes_as_long_at_any_window() {
        assert_eq!((recovery(100.0, 1000.0), recovery(100.0, 10_000.0)), (14, 14));
        // Below 100 the increase is Reno's: 12 segments in 13 rounds at the most.
        assert!((12..=14).contains(&recovery(100.0, 100.0)));
        assert_eq!((recovery(50.0, 1000.0), recovery(50.0, 10_000.0)), (7, 7));
    }
}
