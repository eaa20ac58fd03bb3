//! A packet's path: queue disciplines, link, impairments. Told the time by whoever runs them: the simulator's event
//! queue or the laboratory's real clock; knows neither, nor what a packet carries.
//!
//! A hop is a [`Queue`], a [`Transmitter`] that takes from it one packet at a time, and [`Impairments`] behind it:
//! the delay comes after the queue and never queues itself.

pub mod codel;
mod configuration;
mod device;
pub mod droptail;
mod drr;
mod error;
mod flow_queues;
pub mod fq_codel;
pub mod fq_pie;
pub mod impair;
pub mod link;
pub mod opportunities;
pub mod pie;
pub mod queue;
pub mod random;
pub mod registry;
pub mod trace;
pub mod wifi;

pub use error::ConfigError;
pub use impair::{Fate, ImpairConfig, Impairments};
pub use link::Transmitter;
pub use lowtide_units::{Rate, Span, Time};
pub use opportunities::{CellularConfig, Opportunities, Recording};
pub use queue::{Drop, Ecn, Packet, Queue};
pub use random::{Random, Seed};
pub use registry::{DISCIPLINES, Discipline, QueueConfig};
pub use trace::{RateTrace, TraceError};
pub use wifi::{Aggregate, Wifi, WifiConfig};

#[cfg(test)]
mod tests;
