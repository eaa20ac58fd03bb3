//! Best effort: what scavengers are measured against.

pub mod bbr;
pub mod bbr1;
pub mod bbr2;
pub mod bbr3;
pub mod bic;
pub mod copa;
pub mod cubic;
pub mod cubic_rfc9438;
pub mod dctcp;
pub mod highspeed;
pub mod htcp;
pub mod hybla;
mod hystart;
pub mod illinois;
pub mod newreno;
pub mod scalable;
pub mod vegas;
pub mod veno;
pub mod westwood;
pub mod yeah;
