//! The window control of the kernel's programs, compiled natively: crates/kernel/bpf/{control,receiver,path,sender}.h behind safe names. What the
//! tests and the simulator run here is, line for line, what the kernel runs. Needs no libbpf.

mod control;
mod phase;
mod receiver;
mod registry;
mod sender;
mod way_back;

pub use control::{Ack, Cause, Congestion, Control, Restart, Shown, Start};
pub use phase::Phase;
pub use receiver::{Flow, In, Out, Path, Report};
pub use registry::{CONTROLS, PROFILES, Profile, SENDERS, UnknownProfile, by_name};
pub use sender::{Clock, Paced, Sent, Tx, TxPath, is_full};
pub use way_back::{WayBack, since};

/// No sample, no time: what the C code calls unknown.
pub const UNKNOWN: u64 = u64::MAX;

fn known(ns: u64) -> Option<u64> {
    (ns != UNKNOWN).then_some(ns)
}

fn owned<T>(made: *mut T) -> std::ptr::NonNull<T> {
    std::ptr::NonNull::new(made).unwrap_or_else(|| std::alloc::handle_alloc_error(std::alloc::Layout::new::<u64>()))
}
