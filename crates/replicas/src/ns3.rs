//! The congestion controls of ns-3.37 (`src/internet/model/tcp-*.cc`), one file each, with their names for things.

pub mod bbr;
pub mod bic;
pub mod cubic;
pub mod dctcp;
pub mod highspeed;
pub mod htcp;
pub mod hybla;
pub mod illinois;
pub mod ledbat;
pub mod reno;
pub mod scalable;
pub mod socket;
pub mod tcp_lp;
pub mod vegas;
pub mod veno;
pub mod westwood;
pub mod yeah;
