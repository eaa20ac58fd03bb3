//! The congestion controls of ns-3.37 (`src/internet/model/tcp-*.cc`).

pub mod bbr;
pub mod tcp_lp;
