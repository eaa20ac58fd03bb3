//! The rLEDBAT receiver (RFC 9840) and a sender in the kernel: BPF programs on one cgroup that hold TCP downloads back through the
//! receive window and uploads by a congestion control, their loader, and what they report. Knows nothing of command lines or of the programs it manages.

pub mod attach;
pub mod cgroup;
pub mod chain;
pub mod check;
pub mod choice;
mod config;
pub mod controls;
pub mod features;
mod interfaces;
mod links;
mod load;
mod object;
mod open_before;
mod open_sockets;
pub mod other_program;
mod owner;
mod probe;
mod send;
mod send_load;
mod send_open;
mod send_stats;
mod send_wire;
mod stale_clsact;
pub mod stats;
mod wire;

pub use lowtide_window as native;
pub use lowtide_window::Phase;

pub use attach::Receiver;
pub use choice::{Choice, Delay};
pub use config::Config;
pub use send::Sender;
pub use send_stats::{SendSnapshot, SendTotals};
pub use stats::{FlowSnapshot, Lacking, LeftAlone, Mode, Totals, Verified};
