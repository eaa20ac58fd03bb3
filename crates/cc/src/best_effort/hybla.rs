//! TCP Hybla: the growth of a flow with an RTT of 25 ms, whatever the RTT (Linux `tcp_hybla.c`). Decreases as Reno.

use lowtide_units::Span;
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
    /// RTT₀ (Linux: 25).
    pub rtt0_ms: f64,
    /// Start with ρ segments where the handshake's RTT is known (Linux `hybla_init`).
    pub initial_rho: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config { base: Base::default(), rtt0_ms: 25.0, initial_rho: true }
    }
}

/// The largest exponent of slow start (Linux: `min(rho, 16)`).
const MAX_EXPONENT: f64 = 16.0;

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("hybla")?;
    require(config.rtt0_ms > 0.0, "hybla", "rtt0_ms must be above 0")?;
    Ok(Box::new(new(config, start)))
}

fn new(config: Config, start: &Start) -> Rival<Hybla> {
    let mut flow = Rival::new(config.base, Hybla::new(config, start.handshake_rtt), start);
    if config.initial_rho && start.initial_window.is_none() && start.handshake_rtt.is_some() {
        flow.window.cwnd = flow.law.rho();
    }
    flow
}

/// The state of Hybla.
#[derive(Clone, Copy, Debug)]
pub struct Hybla {
    config: Config,
    /// The smallest smoothed RTT, the handshake's counted.
    least: Option<Span>,
    /// What ρ goes by.
    rtt: Option<Span>,
}

impl Hybla {
    fn new(config: Config, handshake: Option<Span>) -> Hybla {
        Hybla { config, least: handshake, rtt: handshake.filter(|_| config.initial_rho) }
    }

    fn rho(&self) -> f64 {
        self.rtt.map_or(1.0, |rtt| (rtt.millis_f64() / self.config.rtt0_ms).max(1.0))
    }
}

impl Law for Hybla {
    fn measure(&mut self, _window: &mut Window, ack: &Ack) {
        if ack.srtt > Span::ZERO && self.least.is_none_or(|least| ack.srtt <= least) {
            (self.least, self.rtt) = (Some(ack.srtt), Some(ack.srtt));
        }
    }

    fn adjust(&mut self, window: &mut Window, ack: &Ack) {
        if !window.may_grow(ack) {
            return;
        }
        let rho = self.rho();
        if window.in_slow_start() {
            window.slow_start(libm::pow(2.0, rho.min(MAX_EXPONENT)) - 1.0);
        } else {
            window.cwnd += rho * rho / window.cwnd;
        }
    }

    fn reduce(&mut self, window: &mut Window, event: &Congestion) {
        window.halve(event);
    }

    fn delays(&self) -> (Option<Span>, Option<Span>) {
        (self.rtt, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reno_base::testing::{ack, avoiding, starting};

    #[test]
    fn growth_is_that_of_the_reference_rtt() {
        let config = Config::default();
        for (rtt, slow, avoid) in [(100.0, 15.0, 16.0), (20.0, 1.0, 1.0)] {
            let law = Hybla::new(config, None);
            let mut starts = starting(config.base, law, 10.0);
            starts.on_ack(&ack(0.0, 1.0, rtt));
            assert!((starts.window.cwnd - 10.0 - slow).abs() < 1e-3, "{}", starts.window.cwnd);
            let mut avoids = avoiding(config.base, law, 1e5);
            (0..100_000).for_each(|_| avoids.on_ack(&ack(0.0, 1.0, rtt)));
            assert!((avoids.window.cwnd - 1e5 - avoid).abs() < 1e-2, "{}", avoids.window.cwnd);
        }
    }

    #[test]
    fn slow_start_stops_at_the_threshold_and_its_exponent_at_sixteen() {
        let mut flow = starting(Base::default(), Hybla::new(Config::default(), None), 10.0);
        flow.on_ack(&ack(0.0, 1.0, 10_000.0));
        assert_eq!(flow.window.cwnd, 10.0 + 65_535.0);
        flow.window.ssthresh = flow.window.cwnd + 3.0;
        flow.on_ack(&ack(0.0, 1.0, 10_000.0));
        assert_eq!(flow.window.cwnd, flow.window.ssthresh);
    }

    #[test]
    fn linux_starts_with_rho_segments() {
        let start = Start { handshake_rtt: Some(Span::from_millis(100)), ..Start::default() };
        assert_eq!(new(Config::default(), &start).window.cwnd, 4.0);
        assert_eq!(new(Config::default(), &Start { initial_window: Some(2896), ..start }).window.cwnd, 2.0);
    }
}
