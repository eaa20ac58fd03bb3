//! Reno in three dialects: `reno` as Linux has it, `newreno` as RFC 5681/6582 write it, and NewReno of the years before byte
//! counting. Recovery itself (RFC 6582's partial acknowledgements, PRR) is the host's; this file knows only the window.

use serde::Deserialize;

use crate::controller::{Controller, Start};
use crate::events::{Ack, Congestion};
use crate::params::{ParamError, Params, require};
use crate::reno_base::{Base, Law, Rival, Window};

/// Parameters; the defaults are Linux's.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The base's variant.
    pub base: Base,
    /// At most this many segments of growth per acknowledgement in slow start; 0: no limit (Linux). RFC 5681 (2): 1, RFC 3465: 2.
    pub slow_start_limit: f64,
}

/// `newreno`: RFC 5681 §3.1 with byte counting in avoidance.
pub const RFC5681: &str = "slow_start_limit = 1\nbase = { reduce_from = 'flight', idle = 'restart' }";
/// `newreno-period`: Reno as simulated and deployed before byte counting (RFC 2581).
pub const PERIOD: &str = "base = { per_ack = true, reduce_from = 'flight', idle = 'restart' }";
/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("reno")?;
    require(config.slow_start_limit >= 0.0, "reno", "slow_start_limit must be at least 0 (0: no limit)")?;
    Ok(Box::new(Rival::new(config.base, Reno { limit: config.slow_start_limit }, start)))
}

/// Additive increase by one segment a window, decrease by half.
#[derive(Clone, Copy, Debug)]
pub struct Reno {
    limit: f64,
}

impl Law for Reno {
    fn adjust(&mut self, window: &mut Window, ack: &Ack) {
        if self.limit == 0.0 || !window.in_slow_start() {
            window.grow_as_reno(ack);
        } else if window.may_grow(ack) {
            // RFC 5681 §3.1: cwnd += min(N, L·SMSS); what the limit cuts off is not made up for.
            let n = window.credit_of(ack).min(self.limit);
            window.slow_start(n);
        }
    }

    fn reduce(&mut self, window: &mut Window, event: &Congestion) {
        window.halve(event);
    }
}

#[cfg(test)]
mod tests;
