//! Congestion controls that imitate somebody else's simulator, module or program, its peculiarities and faults included: they are
//! there to compare with that program's results, and each file says what differs from the text that the program implements.
//! A control that is meant to be used is in `lowtide-cc`; nothing there knows of this crate.
//!
//! - [`ns3`]: the models of ns-3.37 (`src/internet/model`).
//! - [`ns2`]: modules of ns-2.35's Linux agent.
//! - [`published`]: the code that papers published.
//! - [`Replica`]: what an imitated host tells a control beside the events of [`Controller`](lowtide_cc::Controller).

mod contract;
mod no_params;
pub mod ns2;
pub mod ns3;
pub mod published;
mod registry;
#[cfg(test)]
mod testing;

pub use contract::{Beside, Replica};
pub use registry::{ALGORITHMS, Algorithm, Built, Known, Unfit, by_name};
