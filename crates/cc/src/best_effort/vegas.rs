//! TCP Vegas: keeps two to four segments queued at the bottleneck, judged once a round by the smallest RTT of the round.
//! Follows Linux `tcp_vegas.c`; the divisor is the paper's RTT by default.

use lowtide_units::{Span, Time};
use serde::Deserialize;

use crate::controller::{Controller, Start};
use crate::events::{Ack, Congestion, Restart};
use crate::params::{ParamError, Params, require};
use crate::reno_base::{Base, Law, MIN_SSTHRESH, Rival, RoundRtt, Window};

/// Parameters; the defaults are the paper's.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The base's variant.
    pub base: Base,
    /// Below this many queued segments the window grows (Linux: 2).
    pub alpha: f64,
    /// Above this many it shrinks (Linux: 4).
    pub beta: f64,
    /// Above this many slow start ends (Linux: 1 segment).
    pub gamma: f64,
    /// By what the excess RTT is divided.
    pub divisor: Divisor,
}

/// By what the excess RTT is divided to count queued segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Divisor {
    /// The RTT (Brakmo 1995).
    Rtt,
    /// The base RTT (Linux).
    Base,
}

impl Default for Config {
    fn default() -> Config {
        Config { base: Base::default(), alpha: 2.0, beta: 4.0, gamma: 1.0, divisor: Divisor::Rtt }
    }
}

/// `vegas-linux`: Linux's divisor.
pub const LINUX: &str = "divisor = 'base'";
/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("vegas")?;
    require(config.alpha > 0.0 && config.alpha <= config.beta, "vegas", "alpha must be above 0 and at most beta")?;
    require(config.gamma >= 0.0, "vegas", "gamma must be at least 0")?;
    Ok(Box::new(Rival::new(config.base, Vegas::new(config), start)))
}

/// The state of Vegas.
#[derive(Debug)]
pub struct Vegas {
    config: Config,
    rtt: RoundRtt,
}

impl Vegas {
    /// A flow without samples.
    pub fn new(config: Config) -> Vegas {
        Vegas { config, rtt: RoundRtt::default() }
    }

    fn lower_threshold(&self, window: &mut Window) {
        window.ssthresh = window.ssthresh.min(window.cwnd).max(MIN_SSTHRESH);
    }

    fn judge(&self, window: &mut Window, ack: &Ack, base: f64, rtt: f64) {
        let divisor = if self.config.divisor == Divisor::Rtt { rtt } else { base };
        let (segments, target, queued) = (window.cwnd, window.cwnd * base / rtt, window.cwnd * (rtt - base) / divisor);
        if window.in_slow_start() {
            if queued > self.config.gamma {
                window.cwnd = segments.min(target + 1.0).max(MIN_SSTHRESH);
                self.lower_threshold(window);
            } else {
                window.slow_start_on(ack);
            }
        } else if queued > self.config.beta {
            window.cwnd = (segments - 1.0).max(MIN_SSTHRESH);
            self.lower_threshold(window);
        } else if queued < self.config.alpha && window.may_grow(ack) {
            window.cwnd = segments + 1.0;
        }
        // Linux `tcp_current_ssthresh`: three quarters of what was in use are not to be doubted.
        window.ssthresh = window.ssthresh.max(0.75 * window.cwnd);
    }
}

impl Law for Vegas {
    fn measure(&mut self, _window: &mut Window, ack: &Ack) {
        self.rtt.measure(ack);
    }

    fn adjust(&mut self, window: &mut Window, ack: &Ack) {
        if self.rtt.ends(ack) {
            match self.rtt.enough() {
                Some((base, rtt)) => self.judge(window, ack, base, rtt),
                None => window.grow_as_reno(ack),
            }
            self.rtt.clear();
        } else if window.in_slow_start() {
            window.slow_start_on(ack);
        }
    }

    fn reduce(&mut self, window: &mut Window, event: &Congestion) {
        window.halve(event);
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

    fn delays(&self) -> (Option<Span>, Option<Span>) {
        self.rtt.delays()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reno_base::testing::{Fluid, ack, avoiding, starting};

    /// The window after a round of four samples at `rtt_ms`, base 100 ms.
    fn after_a_round(config: Config, window: f64, rtt_ms: f64) -> f64 {
        let mut flow = avoiding(config.base, Vegas::new(config), window);
        flow.on_ack(&Ack { delivered: 1, ..ack(0.0, 1.0, 100.0) });
        flow.window.cwnd = window;
        for _ in 0..3 {
            flow.on_ack(&Ack { delivered: 2, ..ack(1.0, 1.0, rtt_ms) });
        }
        flow.on_ack(&Ack { delivered: 3, prior_delivered: 2, ..ack(2.0, 1.0, rtt_ms) });
        flow.window.cwnd
    }

    #[test]
    fn two_to_four_segments_are_held() {
        let linux = Config { divisor: Divisor::Base, ..Config::default() };
        assert_eq!(after_a_round(Config::default(), 20.0, 125.0), 20.0);
        assert_eq!(after_a_round(linux, 20.0, 125.0), 19.0);
        assert_eq!(after_a_round(Config::default(), 20.0, 130.0), 19.0);
        assert_eq!(after_a_round(Config::default(), 20.0, 111.2), 20.0);
        assert_eq!(after_a_round(Config::default(), 20.0, 111.0), 21.0);
    }

    #[test]
    fn slow_start_ends_at_one_queued_segment() {
        let run = |rtt_ms| {
            let mut flow = starting(Base::default(), Vegas::new(Config::default()), 20.0);
            for delivered in 1..=4 {
                flow.on_ack(&Ack { cwnd_limited: false, delivered, ..ack(0.0, 1.0, if delivered == 1 { 100.0 } else { rtt_ms }) });
            }
            flow.on_ack(&Ack { delivered: 5, prior_delivered: 4, ..ack(0.0, 1.0, rtt_ms) });
            flow
        };
        assert!(run(105.0).window.in_slow_start());
        let ended = run(125.0);
        assert!(!ended.window.in_slow_start());
        assert_eq!(ended.window.cwnd, 17.0);
    }

    #[test]
    fn without_three_samples_a_round_it_is_reno() {
        let mut flow = avoiding(Base::default(), Vegas::new(Config::default()), 10.0);
        for i in 1..=10 {
            flow.on_ack(&Ack { rtt: None, delivered: i, prior_delivered: i, ..ack(0.0, 1.0, 100.0) });
        }
        assert_eq!(flow.window.cwnd, 11.0);
    }

    #[test]
    fn alone_it_queues_two_to_four_and_two_flows_as_much_each() {
        let mut link = Fluid::new(40.0, 0.8);
        let mut flow = starting(Base::default(), Vegas::new(Config::default()), 10.0);
        let queues: Vec<f64> = (0..400).map(|_| link.round(&mut flow, 0.0)).collect();
        assert!(queues[200..].iter().all(|q| (2.0..=4.0).contains(q)), "{:?}", &queues[390..]);
        let mut link = Fluid::new(40.0, 0.8);
        let mut other = Fluid::new(40.0, 0.8);
        let mut flows = [10.0, 14.0].map(|w| avoiding(Base::default(), Vegas::new(Config::default()), w));
        for _ in 0..600 {
            let windows = [flows[0].window.cwnd, flows[1].window.cwnd];
            link.round(&mut flows[0], windows[1]);
            other.round(&mut flows[1], windows[0]);
        }
        let queued = flows[0].window.cwnd + flows[1].window.cwnd - link.bdp();
        assert!((4.0..=8.0).contains(&queued), "{queued}");
    }
}
