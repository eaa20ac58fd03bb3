//! Modules of ns-2.35's Linux agent (`tcp/tcp-linux.cc`, `tcp/linux/src`: the congestion controls of Linux 2.6.22).

pub mod clock;
pub mod ledbat;
pub mod ledbat_draft;
pub mod tcp_agent;
pub mod tcp_lp;
pub mod tcp_nice;
pub mod window;
