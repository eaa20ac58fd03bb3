//! TCP-NICE on the Vegas of ns-2's Linux agent (Linux 2.6.22 `tcp_vegas.c`): whole segments, never below two, Reno for a round of
//! two samples. The form in which Carofiglio 2010 most likely ran NICE, whose own code is not public; `tcp_nice` is the algorithm.
//! Knows nothing of retransmissions.

use lowtide_units::Span;
use serde::Deserialize;

use lowtide_cc::params::{ParamError, Params, require};
use lowtide_cc::reno_base::RoundRtt;

use super::window::{Agent, MIN_SSTHRESH, Module, Window};
use crate::contract::{Beside, Replica};
use lowtide_cc::{Ack, Start};

/// Parameters; the defaults are Carofiglio 2010's, Vegas' those of the NICE paper.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// δ: an RTT above min + δ·(max − min) is high (0.2).
    pub threshold: f64,
    /// φ: the part of the window whose RTTs must be high (0.5).
    pub fraction: f64,
    /// Vegas: grow below so many segments in the queue (1).
    pub alpha: f64,
    /// Vegas: shrink above so many (3).
    pub beta: f64,
    /// Vegas: leave slow start above so many (1).
    pub gamma: f64,
}

impl Default for Config {
    fn default() -> Config {
        Config { threshold: 0.2, fraction: 0.5, alpha: 1.0, beta: 3.0, gamma: 1.0 }
    }
}

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Replica>, ParamError> {
    let config: Config = params.read("tcp_nice-ns2")?;
    require(config.threshold > 0.0 && config.threshold < 1.0, "tcp_nice-ns2", "threshold must lie between 0 and 1")?;
    require(config.fraction > 0.0 && config.fraction <= 1.0, "tcp_nice-ns2", "fraction must be above 0 and at most 1")?;
    require(config.alpha <= config.beta, "tcp_nice-ns2", "alpha must not exceed beta")?;
    Ok(Box::new(Agent::new(TcpNiceNs2::new(config), start)))
}

/// The state of one flow.
#[derive(Debug)]
pub struct TcpNiceNs2 {
    config: Config,
    rtt: RoundRtt,
    max: Span,
    /// High RTTs in the running round.
    high: u32,
}

impl TcpNiceNs2 {
    /// A flow without samples.
    pub fn new(config: Config) -> TcpNiceNs2 {
        TcpNiceNs2 { config, rtt: RoundRtt::default(), max: Span::ZERO, high: 0 }
    }

    fn clear(&mut self) {
        self.rtt.clear();
        self.high = 0;
    }

    /// The end of a round: NICE first, then Vegas, or Reno where the round had two samples only.
    fn judge(&mut self, window: &mut Window) {
        if f64::from(self.high) > self.config.fraction * window.cwnd {
            window.cwnd = libm::floor(window.cwnd / 2.0);
            // No slow start back to a threshold of before: as where Vegas ends it.
            window.ssthresh = MIN_SSTHRESH;
        } else if let Some((base, rtt)) = self.rtt.enough() {
            // In halves, rounded up (`V_PARAM_SHIFT`).
            let queued = window.cwnd - libm::floor(2.0 * window.cwnd * base / rtt) / 2.0;
            self.vegas(window, queued, base / rtt);
        } else {
            window.grow_as_reno();
        }
        window.cwnd = window.cwnd.max(MIN_SSTHRESH);
    }

    fn vegas(&self, window: &mut Window, queued: f64, actual: f64) {
        if window.in_slow_start() {
            if queued > self.config.gamma {
                window.ssthresh = MIN_SSTHRESH;
                window.cwnd = window.cwnd.min(libm::floor(window.cwnd * actual) + 1.0);
            }
            grow(window);
        } else if queued > self.config.beta {
            window.cwnd -= 1.0;
        } else if queued < self.config.alpha && window.may_grow() {
            window.cwnd += 1.0;
        }
    }
}

/// One segment more, whatever the threshold (`tcp_slow_start` of that age).
fn grow(window: &mut Window) {
    if window.may_grow() {
        window.slow_start();
    }
}

impl Module for TcpNiceNs2 {
    fn measure(&mut self, _window: &mut Window, ack: &Ack, _beside: &Beside) {
        let Some(rtt) = ack.rtt else { return };
        self.rtt.measure(ack);
        self.max = self.max.max(rtt);
        let base = self.rtt.base.unwrap_or(rtt);
        if rtt > base + (self.max - base).mul_f64(self.config.threshold) {
            self.high += 1;
        }
    }

    fn avoid(&mut self, window: &mut Window, ack: &Ack) {
        if self.rtt.ends(ack) {
            self.judge(window);
            self.clear();
        } else if window.in_slow_start() {
            grow(window);
        }
    }

    fn reduce(&mut self, window: &mut Window) {
        window.halve();
    }

    fn lost(&mut self) {
        self.clear();
    }

    fn recovered(&mut self, ack: &Ack) {
        self.clear();
        self.rtt.restart(ack.delivered);
    }

    fn rested(&mut self) {
        self.clear();
    }

    fn delays(&self) -> (Option<Span>, Option<Span>) {
        self.rtt.delays()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_cc::Controller as _;

    use crate::testing::{ack, avoiding};

    /// The window after a round of `samples` at `rtt_ms`; RTTs of 50 and 170 ms have been seen: the threshold is 74 ms.
    fn after_a_round(window: f64, samples: usize, rtt_ms: f64) -> f64 {
        let mut flow = avoiding(TcpNiceNs2::new(Config::default()), window);
        flow.on_ack(&Ack { delivered: 1, ..ack(0.0, 1.0, 50.0) });
        flow.module.max = Span::from_millis(170);
        flow.window.cwnd = window;
        for _ in 1..samples {
            flow.on_ack(&Ack { delivered: 2, ..ack(1.0, 1.0, rtt_ms) });
        }
        flow.on_ack(&Ack { delivered: 3, prior_delivered: 2, ..ack(2.0, 1.0, rtt_ms) });
        flow.window.cwnd
    }

    #[test]
    fn more_than_half_a_window_of_high_delays_halves_it() {
        assert_eq!(after_a_round(20.0, 11, 74.1), 10.0);
        assert_eq!(after_a_round(20.0, 10, 74.1), 19.0, "exactly half is Vegas' affair: 6.5 segments queued");
        assert_eq!(after_a_round(20.0, 20, 74.0), 19.0);
    }

    #[test]
    fn it_never_leaves_two_segments_and_comes_back_from_them() {
        assert_eq!(after_a_round(3.0, 3, 120.0), 2.0);
        assert_eq!(after_a_round(2.0, 2, 120.0), 2.0);
        assert_eq!(after_a_round(40.0, 40, 50.0), 41.0);
        assert_eq!(after_a_round(40.0, 40, 52.6), 40.0);
        // 0.4 and 0.6 segments in the queue are half a one and a whole one.
        assert_eq!([50.5, 50.75].map(|rtt| after_a_round(40.0, 40, rtt)), [41.0, 40.0]);
    }
}
