//! The packet simulator: a deterministic event queue, TCP endpoints, topologies and traffic. The same scenario and seed give
//! the same result on every machine; no clock is read and nothing is drawn without the seed.

pub mod endpoint;
pub mod engine;
mod event;
pub mod flow;
pub mod holder;
pub mod link;
pub mod metrics;
pub mod packet;
mod paths;
pub mod run;
pub mod stacks;
pub mod tcp;
pub mod topology;
pub mod trace;
pub mod traffic;
pub mod utp;
pub mod world;

pub use run::{Outcome, RunError, check, run, run_sampled, run_watched};

#[cfg(test)]
mod tests;
