//! The packet simulator: a deterministic event queue, TCP endpoints, topologies and traffic. The same scenario and seed give
//! the same result on every machine; no clock is read and nothing is drawn without the seed.

mod endpoint;
mod engine;
mod event;
mod flow;
mod link;
mod metrics;
mod packet;
mod paths;
mod received;
pub mod run;
mod sender_stats;
mod service;
mod slab;
pub mod stacks;
mod stage;
mod tcp;
pub mod topology;
pub mod trace;
mod traffic;
mod utp;
mod window_limiter;
mod world;

pub use run::{Outcome, RunError, check, run, run_sampled, run_watched};

#[cfg(test)]
mod pair;
#[cfg(test)]
mod tests;
