//! DCTCP (RFC 8257): Reno that cuts in proportion to the share of marked bytes. The receiver's half is the host's: it must echo
//! every change of the CE state at once.

use lowtide_units::Time;
use serde::Deserialize;

use crate::controller::{Controller, Start};
use crate::events::{Ack, Cause, Congestion};
use crate::params::{ParamError, Params, require};
use crate::reno_base::{Base, Law, Rival, Window};
use crate::round::Round;

/// Parameters; the defaults are the RFC's.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The base's variant.
    pub base: Base,
    /// Weight of a new window in α (RFC 8257 §4.2: 1/16).
    pub gain: f64,
    /// α of a new connection (RFC 8257 §3.3: 1).
    pub initial_alpha: f64,
}

impl Default for Config {
    fn default() -> Config {
        Config { base: Base::default(), gain: 1.0 / 16.0, initial_alpha: 1.0 }
    }
}

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("dctcp")?;
    require(config.gain > 0.0 && config.gain <= 1.0, "dctcp", "gain must be above 0 and at most 1")?;
    require((0.0..=1.0).contains(&config.initial_alpha), "dctcp", "initial_alpha must lie within 0 and 1")?;
    Ok(Box::new(Rival::new(config.base, Dctcp::new(config), start)))
}

/// The state of DCTCP.
#[derive(Debug)]
pub struct Dctcp {
    config: Config,
    alpha: f64,
    round: Round,
    acked: u64,
    marked: u64,
}

impl Dctcp {
    /// A flow that has seen nothing.
    pub fn new(config: Config) -> Dctcp {
        Dctcp { config, alpha: config.initial_alpha, round: Round::default(), acked: 0, marked: 0 }
    }
}

impl Law for Dctcp {
    fn measure(&mut self, _window: &mut Window, ack: &Ack) {
        self.acked += ack.acked;
        self.marked += ack.ce.min(ack.acked);
        if self.round.ended_by(ack) && self.acked > 0 {
            let fraction = self.marked as f64 / self.acked as f64;
            self.alpha += self.config.gain * (fraction - self.alpha);
            (self.acked, self.marked) = (0, 0);
        }
    }

    fn adjust(&mut self, window: &mut Window, ack: &Ack) {
        window.grow_as_reno(ack);
    }

    fn reduce(&mut self, window: &mut Window, event: &Congestion) {
        if event.cause == Cause::Ecn {
            window.cut_to(window.cwnd - libm::floor(window.cwnd * self.alpha / 2.0));
        } else {
            window.halve(event);
        }
    }

    fn counts_marks(&self) -> bool {
        true
    }

    fn forget_after_timeout(&mut self, _now: Time) {
        (self.acked, self.marked) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reno_base::testing::{ack, avoiding, episode};

    fn flow(config: Config) -> Rival<Dctcp> {
        avoiding(config.base, Dctcp::new(config), 100.0)
    }

    /// `windows` rounds of four acknowledgements, the first `marked` of each carrying marks.
    fn windows(flow: &mut Rival<Dctcp>, windows: u32, marked: u64) {
        for _ in 0..windows {
            for i in 0..4 {
                let mut one = ack(0.0, 1.0, 1.0);
                one.ce = if i < marked { one.acked } else { 0 };
                // The last acknowledgement ends the round.
                (one.delivered, one.prior_delivered) = (10, if i == 3 { 10 } else { 0 });
                flow.on_ack(&one);
            }
        }
    }

    fn after_a_first_ack(config: Config) -> Rival<Dctcp> {
        let mut flow = flow(config);
        // The first acknowledgement of a connection ends a round of its own: put α back.
        flow.on_ack(&Ack { delivered: 10, ..ack(0.0, 1.0, 1.0) });
        flow.law.alpha = 1.0;
        flow
    }

    #[test]
    fn alpha_decays_without_marks() {
        let mut flow = after_a_first_ack(Config::default());
        let mut seen = 0;
        for (at, want) in [(10, 0.524), (20, 0.275), (50, 0.040)] {
            windows(&mut flow, at - seen, 0);
            seen = at;
            assert!((flow.law.alpha - want).abs() < 5e-4, "{} after {at}", flow.law.alpha);
        }
    }

    #[test]
    fn alpha_goes_to_the_marked_share() {
        let mut flow = after_a_first_ack(Config::default());
        windows(&mut flow, 20, 1);
        assert!((flow.law.alpha - 0.456).abs() < 5e-4, "{}", flow.law.alpha);
        windows(&mut flow, 200, 1);
        assert!((flow.law.alpha - 0.25).abs() < 1e-4);
    }

    #[test]
    fn a_mark_cuts_by_half_of_alpha_and_a_loss_by_half() {
        let mut marked = flow(Config::default());
        marked.on_congestion(&episode(0.0, Cause::Ecn, 100.0));
        assert_eq!(marked.window.cwnd, 50.0);
        marked.law.alpha = 0.04;
        marked.window.cwnd = 100.0;
        marked.on_congestion(&episode(0.0, Cause::Ecn, 100.0));
        assert_eq!(marked.window.cwnd, 98.0);
        marked.on_congestion(&episode(0.0, Cause::Loss, 100.0));
        assert_eq!(marked.window.cwnd, 49.0);
        marked.window.cwnd = 2.0;
        marked.on_congestion(&episode(0.0, Cause::Ecn, 2.0));
        assert_eq!(marked.window.cwnd, 2.0);
    }

    #[test]
    fn it_cuts_by_whole_segments() {
        let mut flow = flow(Config::default());
        flow.law.alpha = 0.05;
        flow.on_congestion(&episode(0.0, Cause::Ecn, 100.0));
        assert_eq!(flow.window.cwnd, 98.0);
    }

    #[test]
    fn a_reduction_forgets_what_was_counted() {
        let mut flow = flow(Config::default());
        flow.window.count(100.0, 60.0);
        flow.on_congestion(&episode(0.0, Cause::Ecn, 100.0));
        flow.window.count(50.0, 2.0);
        assert_eq!(flow.window.cwnd, 50.0);
    }
}
