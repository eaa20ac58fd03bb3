//! Congestion controls as sans-I/O objects: one contract ([`Controller`]), one file an algorithm, one [`registry`].
//!
//! The host (the simulator's TCP, uTP, QUIC, a test) owns time, segments, RTT estimation, loss detection, episodes, PRR,
//! rate sampling and pacing; an algorithm owns its window. No algorithm knows its host.

mod bbr;
pub mod bbr1;
pub mod bbr2;
pub mod bic;
pub mod controller;
pub mod cubic;
pub mod cubic_rfc9438;
pub mod dctcp;
pub mod delay;
pub mod events;
pub mod highspeed;
pub mod htcp;
pub mod hybla;
mod hystart;
pub mod illinois;
pub mod ledbat;
pub mod ledbat_dynamic;
pub mod ledbat_pp;
pub mod ledbat_pp_published;
pub mod libutp;
pub mod newreno;
pub mod params;
pub mod registry;
pub mod reno_base;
pub mod rledbat;
pub mod round;
pub mod scalable;
pub mod tcp_lp;
pub mod tcp_lp_linux;
pub mod tcp_lp_ns3;
pub mod tcp_nice;
pub mod vegas;
pub mod veno;
pub mod westwood;
pub mod yeah;

pub use controller::{Controller, Recovery, Start};
pub use events::{Ack, Cause, Congestion, RateSample, Restart, Snapshot};
pub use lowtide_units::{Rate, Span, Time};
pub use params::{ParamError, Params};
