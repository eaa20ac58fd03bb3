//! A packet's path: queue disciplines, the link behind them and its impairments. Reads no clock: the simulator's event queue
//! and the laboratory's real time both run it.

pub mod config;
pub mod droptail;
pub mod impair;
pub mod link;
pub mod queue;

pub use config::{ConfigError, QueueConfig};
pub use impair::{Fate, ImpairConfig, Impairments};
pub use link::Transmitter;
pub use lowtide_units::{Rate, Span, Time};
pub use queue::{Drop, Ecn, Packet, Queue};

#[cfg(test)]
mod tests;
