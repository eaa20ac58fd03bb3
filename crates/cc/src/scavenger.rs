//! Less than best effort: controls that yield to the others.

pub mod ledbat;
pub mod ledbat_dynamic;
pub mod ledbat_pp;
pub mod libutp;
pub mod lowtide;
pub mod tcp_lp;
pub mod tcp_lp_linux;
pub mod tcp_lp_range;
pub mod tcp_nice;
