//! TCP Hybla: the growth of a flow with an RTT of 25 ms, whatever the RTT (Linux `tcp_hybla.c`). Decreases as Reno.

use lowtide_units::Span;
use serde::Deserialize;

use crate::controller::{Controller, Start};
use crate::events::{Ack, Congestion};
use crate::params::{ParamError, Params, require};
use crate::reno_base::{Base, Law, Rival, Window, ns3_base};

/// Parameters; the defaults are Linux's.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The base's variant.
    pub base: Base,
    /// RTT₀ (Linux 25, ns-3 50).
    pub rtt0_ms: f64,
    /// In avoidance, grow per acknowledged segment (ns-3) rather than per acknowledgement (Linux).
    pub per_segment: bool,
    /// Start with ρ segments where the handshake's RTT is known (Linux `hybla_init`).
    pub initial_rho: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config { base: Base::default(), rtt0_ms: 25.0, per_segment: false, initial_rho: true }
    }
}

/// `hybla-ns3`: ns-3.37 `TcpHybla` (rivals.md H.0.1).
pub const NS3: &str = concat!(ns3_base!(), "rtt0_ms = 50\nper_segment = true\ninitial_rho = false");

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
    /// What ρ goes by. In ns-3 only an RTT of data that is the smallest, which none is where data takes longer than a SYN: ρ stays 1.
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
            let n = if self.config.per_segment { window.segments(ack.acked) } else { 1.0 };
            window.cwnd += n * rho * rho / window.cwnd;
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

    const NS3_CONFIG: Config = Config {
        base: Base {
            per_ack: false,
            abc: false,
            reduce_from: crate::reno_base::ReduceFrom::Flight,
            idle: crate::reno_base::Idle::Keep,
            keep_credit: false,
        },
        rtt0_ms: 50.0,
        per_segment: true,
        initial_rho: false,
    };

    #[test]
    fn growth_is_that_of_the_reference_rtt() {
        for (config, rtt, slow, avoid) in
            [(Config::default(), 100.0, 15.0, 16.0), (Config::default(), 20.0, 1.0, 1.0), (NS3_CONFIG, 140.0, 5.964, 7.84)]
        {
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
    fn in_ns3_an_rtt_above_the_handshakes_counts_for_nothing() {
        let handshake = Some(Span::from_millis(100));
        for (config, grown) in [(Config::default(), 15.0), (NS3_CONFIG, 1.0)] {
            let mut flow = starting(config.base, Hybla::new(config, handshake), 10.0);
            flow.on_ack(&ack(0.0, 1.0, 101.0));
            assert!((flow.window.cwnd - 10.0 - grown).abs() < 1e-9, "{}", flow.window.cwnd);
        }
    }

    #[test]
    fn linux_starts_with_rho_segments() {
        let start = Start { handshake_rtt: Some(Span::from_millis(100)), ..Start::default() };
        assert_eq!(new(Config::default(), &start).window.cwnd, 4.0);
        assert_eq!(new(NS3_CONFIG, &start).window.cwnd, 10.0);
        assert_eq!(new(Config::default(), &Start { initial_window: Some(2896), ..start }).window.cwnd, 2.0);
    }
}
