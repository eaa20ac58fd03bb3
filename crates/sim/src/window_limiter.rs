//! The receive-window limiter of a connection: an rLEDBAT receiver (RFC 9840) of `cc`, a replica's, or the kernel's own C code. Knows
//! segments and window fields, no packet of the simulation.

use lowtide_cc::{Controller, ParamError, Params, Start, rledbat};
use lowtide_replicas::published::rledbat::{PUBLISHED, Published};
use lowtide_units::Time;
use lowtide_window as kernel;

/// The suffix that asks for the kernel's code: `ledbat_pp:kernel`.
const KERNEL: &str = ":kernel";
/// The kernel's clock does not begin at zero, which its code takes for "never".
const BOOTED_NS: u64 = 1_000_000_000;
/// What the kernel lets a SYN permit (bpf/receive.bpf.c, BPF_SOCK_OPS_RWND_INIT).
const INITIAL_SEGMENTS: u32 = 2;

/// One connection's.
#[derive(Debug)]
pub enum WindowLimiter {
    /// The receiver of `cc`.
    Ours(Box<rledbat::Receiver<Box<dyn Controller>>>),
    /// The one that Bagnulo 2023 published.
    Published(Box<Published>),
    /// The kernel's: a group of this connection alone.
    Kernel {
        /// The connection.
        flow: kernel::Flow,
        /// Its path.
        path: kernel::Path,
        /// Segment size, and the shift of the window field.
        mss: u32,
        /// The shift of the window field.
        scale: u8,
    },
}

impl WindowLimiter {
    /// The receiver of a profile; `NAME:kernel` is the kernel's form of it.
    ///
    /// # Errors
    /// An unknown profile or parameter.
    pub fn build(name: &str, params: &Params, start: &Start, scale: u8) -> Result<WindowLimiter, ParamError> {
        if name == PUBLISHED {
            return Ok(WindowLimiter::Published(Box::new(Published::build(params, scale)?)));
        }
        let error = |reason: &str| ParamError { algorithm: name.to_owned(), reason: reason.to_owned() };
        let Some(profile) = name.strip_suffix(KERNEL) else {
            if rledbat::PROFILES.iter().all(|profile| profile.name != name) {
                let known = rledbat::PROFILES.map(|profile| profile.name).join(", ");
                return Err(error(&format!("no such receiver; known are {known}, {PUBLISHED}")));
            }
            return Ok(WindowLimiter::Ours(Box::new(rledbat::build(name, params, start, scale)?)));
        };
        let profile = kernel::by_name(profile).map_err(|e| error(&e.to_string()))?;
        if !profile.receives() {
            return Err(error("only a sender has this control"));
        }
        if *params != Params::default() {
            return Err(error("the kernel's constants are compiled in; it takes no parameters"));
        }
        let flow = kernel::Flow::new(ns(start.now), start.mss, scale, true);
        Ok(WindowLimiter::Kernel { flow, path: kernel::Path::new(profile), mss: start.mss, scale })
    }

    /// The window that is aimed at.
    pub fn window(&self) -> u64 {
        match self {
            WindowLimiter::Ours(receiver) => receiver.window(),
            WindowLimiter::Published(receiver) => receiver.window(),
            WindowLimiter::Kernel { path, .. } => path.window() as u64,
        }
    }

    /// A segment arrives where `expected` is the next byte in order.
    pub fn on_segment(&mut self, segment: &rledbat::Segment, expected: u32) {
        let (flow, path) = match self {
            WindowLimiter::Ours(receiver) => return receiver.on_segment(segment),
            WindowLimiter::Published(receiver) => return receiver.on_segment(segment),
            WindowLimiter::Kernel { flow, path, .. } => (flow, path),
        };
        let (tsval, tsecr) = segment.timestamps.unwrap_or_default();
        let now = ns(segment.now);
        let input =
            kernel::In { now, seq: segment.seq, len: segment.len, wire: segment.wire, tsval, tsecr, rcv_nxt: expected, ce: segment.ce };
        let report = flow.receive(&input);
        path.receive(flow, &report, now);
    }

    /// The field of the SYN-ACK.
    pub fn on_syn(&mut self, out: &rledbat::Outgoing) -> u16 {
        match self {
            WindowLimiter::Ours(receiver) => receiver.on_outgoing(out),
            WindowLimiter::Published(receiver) => receiver.on_outgoing(out),
            WindowLimiter::Kernel { mss, scale, .. } => {
                let initial = (INITIAL_SEGMENTS * *mss).div_ceil(1 << *scale);
                let out = rledbat::Outgoing { field: out.field.min(initial as u16), ..*out };
                self.on_outgoing(&out)
            }
        }
    }

    /// An acknowledgement leaves: its window field.
    pub fn on_outgoing(&mut self, out: &rledbat::Outgoing) -> u16 {
        match self {
            WindowLimiter::Ours(receiver) => receiver.on_outgoing(out),
            WindowLimiter::Published(receiver) => receiver.on_outgoing(out),
            WindowLimiter::Kernel { flow, .. } => {
                let tsval = out.tsval.unwrap_or_default();
                flow.send(&kernel::Out { now: ns(out.now), ack: out.ack, tsval, field: out.field, ..kernel::Out::default() })
            }
        }
    }
}

fn ns(at: Time) -> u64 {
    at.nanos() + BOOTED_NS
}
