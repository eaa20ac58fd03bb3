//! YeAH-TCP: Scalable while the queue is short, Reno with precautionary decongestion when it is not (Linux `tcp_yeah.c`).

use lowtide_units::{Span, Time};
use serde::Deserialize;

use crate::controller::{Controller, Start};
use crate::events::{Ack, Congestion, Restart};
use crate::params::{ParamError, Params, require};
use crate::reno_base::{Base, Law, MIN_SSTHRESH, Rival, RoundRtt, Window};

/// Parameters; the defaults are Linux's.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The base's variant.
    pub base: Base,
    /// Queued segments above which it turns to Reno and drains (TCP_YEAH_ALPHA 80).
    pub max_queue: f64,
    /// Excess of the RTT over the base, as a part of it, above which it turns to Reno (1/TCP_YEAH_PHY = 1/8).
    pub max_excess: f64,
}

impl Default for Config {
    fn default() -> Config {
        Config { base: Base::default(), max_queue: 80.0, max_excess: 1.0 / 8.0 }
    }
}

/// Segments per +1 in fast mode (TCP_SCALABLE_AI_CNT).
const SCALABLE_AI: f64 = 100.0;
/// Largest part of the window that one decongestion takes (TCP_YEAH_EPSILON 1).
const MAX_DRAIN: f64 = 1.0 / 2.0;
/// Smallest part that a loss takes (TCP_YEAH_DELTA 3).
const MIN_CUT: f64 = 1.0 / 8.0;
/// Rounds as Reno after which a loss halves (TCP_YEAH_RHO).
const RENO_ROUNDS: u32 = 16;
/// Fast rounds after which Reno flows are forgotten (TCP_YEAH_ZETA).
const FAST_ROUNDS: u32 = 50;

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("yeah")?;
    require(config.max_queue > 0.0, "yeah", "max_queue must be above 0")?;
    require(config.max_excess >= 0.0, "yeah", "max_excess must be at least 0")?;
    Ok(Box::new(Rival::new(config.base, Yeah::new(config), start)))
}

/// The state of YeAH.
#[derive(Debug)]
pub struct Yeah {
    config: Config,
    rtt: RoundRtt,
    /// Queued segments in the last round.
    queue: f64,
    /// An estimate of what a competing Reno flow has.
    reno_count: f64,
    reno_rounds: u32,
    fast_rounds: u32,
}

impl Yeah {
    /// A flow without samples.
    pub fn new(config: Config) -> Yeah {
        Yeah { config, rtt: RoundRtt::default(), queue: 0.0, reno_count: MIN_SSTHRESH, reno_rounds: 0, fast_rounds: 0 }
    }

    fn judge(&mut self, window: &mut Window, base: f64, rtt: f64) {
        let queue = window.cwnd * (rtt - base) / rtt;
        if queue > self.config.max_queue || rtt - base > base * self.config.max_excess {
            if queue > self.config.max_queue && window.cwnd > self.reno_count {
                let drain = queue.min(window.cwnd * MAX_DRAIN);
                window.cwnd = (window.cwnd - drain).max(self.reno_count);
                window.ssthresh = window.cwnd;
            }
            let fresh = self.reno_count <= MIN_SSTHRESH;
            self.reno_count = if fresh { (window.cwnd / 2.0).max(MIN_SSTHRESH) } else { self.reno_count + 1.0 };
            self.reno_rounds = self.reno_rounds.saturating_add(1);
        } else {
            self.fast_rounds += 1;
            if self.fast_rounds > FAST_ROUNDS {
                (self.reno_count, self.fast_rounds) = (MIN_SSTHRESH, 0);
            }
            self.reno_rounds = 0;
        }
        self.queue = queue;
    }
}

impl Law for Yeah {
    fn measure(&mut self, _window: &mut Window, ack: &Ack) {
        self.rtt.measure(ack);
    }

    fn adjust(&mut self, window: &mut Window, ack: &Ack) {
        if self.reno_rounds > 0 {
            window.grow_as_reno(ack);
        } else {
            let rest = window.left_in_segments(ack);
            if rest > 0.0 {
                window.count(SCALABLE_AI.min(window.cwnd), rest);
            }
        }
        if self.rtt.ends(ack) {
            if let Some((base, rtt)) = self.rtt.enough() {
                self.judge(window, base, rtt);
            }
            self.rtt.clear();
        }
    }

    fn reduce(&mut self, window: &mut Window, event: &Congestion) {
        let reference = window.reference(event);
        let half = (reference / 2.0).max(MIN_SSTHRESH);
        let cut = if self.reno_rounds < RENO_ROUNDS { self.queue.min(half).max(reference * MIN_CUT) } else { half };
        self.fast_rounds = 0;
        self.reno_count = (self.reno_count / 2.0).max(MIN_SSTHRESH);
        window.cut_to(reference - cut);
    }

    fn forget_after_timeout(&mut self, _now: Time) {
        self.rtt.clear();
    }

    fn recovered(&mut self, ack: &Ack) {
        self.rtt.restart(ack.delivered);
    }

    fn rested(&mut self, _restart: &Restart) {
        self.rtt.clear();
    }

    fn rescale(&mut self, factor: f64) {
        self.queue *= factor;
        self.reno_count *= factor;
    }

    fn delays(&self) -> (Option<Span>, Option<Span>) {
        self.rtt.delays()
    }

    fn phase(&self) -> &'static str {
        if self.reno_rounds > 0 { "slow" } else { "fast" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Cause;
    use crate::reno_base::testing::{ack, avoiding, episode};

    fn flow(window: f64) -> Rival<Yeah> {
        avoiding(Base::default(), Yeah::new(Config::default()), window)
    }

    #[test]
    fn more_than_eighty_queued_segments_are_drained() {
        let mut flow = flow(400.0);
        flow.law.judge(&mut flow.window, 75.0, 100.0);
        assert_eq!((flow.law.queue, flow.window.cwnd, flow.window.ssthresh), (100.0, 300.0, 300.0));
        assert_eq!((flow.law.reno_count, flow.law.phase()), (150.0, "slow"));
        let mut deep = self::flow(400.0);
        deep.law.judge(&mut deep.window, 25.0, 100.0);
        assert_eq!(deep.window.cwnd, 200.0);
    }

    #[test]
    fn it_never_drains_below_what_a_reno_flow_has() {
        let mut flow = flow(400.0);
        flow.law.reno_count = 380.0;
        flow.law.judge(&mut flow.window, 75.0, 100.0);
        assert_eq!((flow.window.cwnd, flow.law.reno_count), (380.0, 381.0));
    }

    #[test]
    fn a_loss_takes_the_queue_an_eighth_at_least_half_at_most() {
        for (queue, left) in [(10.0, 350.0), (80.0, 320.0), (300.0, 200.0)] {
            let mut flow = flow(400.0);
            flow.law.queue = queue;
            flow.on_congestion(&episode(0.0, Cause::Loss, 400.0));
            assert_eq!(flow.window.cwnd, left);
        }
        for (rounds, left) in [(15, 350.0), (16, 200.0)] {
            let mut flow = flow(400.0);
            (flow.law.queue, flow.law.reno_rounds) = (10.0, rounds);
            flow.on_congestion(&episode(0.0, Cause::Loss, 400.0));
            assert_eq!(flow.window.cwnd, left);
        }
    }

    #[test]
    fn modes_follow_the_excess_of_the_rtt() {
        let mut linux = flow(10.0);
        linux.law.judge(&mut linux.window, 100.0, 112.0);
        assert_eq!(linux.law.phase(), "fast");
        linux.law.judge(&mut linux.window, 100.0, 113.0);
        assert_eq!(linux.law.phase(), "slow");
    }

    #[test]
    fn fast_mode_grows_as_scalable_and_slow_mode_as_reno() {
        for (reno_rounds, want) in [(0, 404.0), (1, 401.0)] {
            let mut flow = flow(400.0);
            flow.law.reno_rounds = reno_rounds;
            flow.law.rtt.restart(u64::MAX);
            (0..401).for_each(|_| flow.on_ack(&ack(0.0, 1.0, 100.0)));
            assert_eq!(flow.window.cwnd, want);
        }
    }
}
