//! PIE as FreeBSD's dummynet has it with its default flags (`dn_aqm_pie.c`, `dn_sched_fq_pie.c`): RFC 8033's law with other constants, the delay
//! by the rate of departures, asleep until a third of its limit waits.

use lowtide_units::Rate;
use serde::{Deserialize, Serialize};

use super::Pie;
use super::rfc8033::{DelayFrom, Parameters, Rfc8033};
use crate::configuration::Configuration;
use crate::error::ConfigError;
use crate::queue::{Packet, Queue};
use crate::random::Seed;

/// FreeBSD's PIE as a scenario writes it: the keys of `pie`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Config(pub super::Config);

impl Configuration for Config {
    fn build<P: Packet + Send + 'static>(&self, name: &'static str, _rate: Rate, seed: Seed) -> Result<Box<dyn Queue<P>>, ConfigError> {
        let parameters = self.0.over(Parameters::freebsd(self.0.packets), name)?;
        Ok(Box::new(Pie::new(Rfc8033::new(parameters), self.0.packets, seed)))
    }

    fn device_queue_packets(&self) -> usize {
        self.0.device_queue_packets
    }
}

impl Parameters {
    /// FreeBSD's defaults for a queue of `limit` packets.
    pub fn freebsd(limit: usize) -> Parameters {
        Parameters {
            ecn: false,
            decay: 63.0 / 64.0,
            spare_bytes: 2 * 800,
            delay: DelayFrom::Departures,
            activate_at: Some(limit / 3),
            ..Parameters::RFC8033
        }
    }

    /// The PIE of FreeBSD's FQ-PIE: delay by timestamps; the scheduler switches it on and off.
    pub fn freebsd_fq() -> Parameters {
        Parameters { delay: DelayFrom::Timestamps, activate_at: Some(usize::MAX), ..Parameters::freebsd(0) }
    }
}
