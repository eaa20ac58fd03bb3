//! The receive-window limiter of a connection: an rLEDBAT receiver (RFC 9840) of `cc`, a replica's, or the kernel's own C code. Knows
//! segments and window fields, no packet of the simulation.

use lowtide_cc::{ParamError, Params, Start, rledbat};
use lowtide_replicas::published::rledbat::{PUBLISHED, Published};
use lowtide_units::Span;
use lowtide_window as kernel;

/// The suffix that asks for the kernel's code: `ledbat_pp:kernel`.
const KERNEL: &str = ":kernel";
/// The kernel's clock does not begin at zero, which its code takes for "never"; its reference is given the same.
const BOOTED: Span = Span::from_secs(1);
/// What the kernel lets a SYN permit (bpf/receive.bpf.c, BPF_SOCK_OPS_RWND_INIT).
const INITIAL_SEGMENTS: u32 = 2;

/// One connection's.
#[derive(Debug)]
pub enum WindowLimiter {
    /// The receiver of `cc`.
    Ours {
        /// The connection, alone in its group.
        receiver: Box<rledbat::Receiver>,
        /// The window field that its SYN may show at most.
        initial: u16,
    },
    /// The one that Bagnulo 2023 published.
    Published(Box<Published>),
    /// The kernel's: a group of this connection alone.
    Kernel {
        /// The connection.
        flow: kernel::Flow,
        /// Its path.
        path: kernel::Path,
        /// The window field that its SYN may show at most.
        initial: u16,
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
        let start = Start { now: start.now + BOOTED, ..*start };
        let initial = (INITIAL_SEGMENTS * start.mss).div_ceil(1 << scale).min(u32::from(u16::MAX)) as u16;
        let error = |reason: &str| ParamError { algorithm: name.to_owned(), reason: reason.to_owned() };
        let Some(profile) = name.strip_suffix(KERNEL) else {
            if rledbat::PROFILES.iter().all(|profile| profile.name != name) {
                let known = rledbat::PROFILES.map(|profile| profile.name).join(", ");
                return Err(error(&format!("no such receiver; known are {known}, {PUBLISHED}")));
            }
            let receiver = Box::new(rledbat::build(name, params, &start, scale)?);
            return Ok(WindowLimiter::Ours { receiver, initial });
        };
        let profile = kernel::by_name(profile).map_err(|e| error(&e.to_string()))?;
        if !profile.receives() {
            return Err(error("only a sender has this control"));
        }
        if *params != Params::default() {
            return Err(error("the kernel's constants are compiled in; it takes no parameters"));
        }
        let flow = kernel::Flow::new(start.now.nanos(), start.mss, scale, true);
        Ok(WindowLimiter::Kernel { flow, path: kernel::Path::new(profile), initial })
    }

    /// The window that is aimed at.
    pub fn window(&self) -> u64 {
        match self {
            WindowLimiter::Ours { receiver, .. } => receiver.window(),
            WindowLimiter::Published(receiver) => receiver.window(),
            WindowLimiter::Kernel { path, .. } => path.window() as u64,
        }
    }

    /// A segment arrives where `expected` is the next byte in order.
    pub fn on_segment(&mut self, segment: &rledbat::Segment, expected: u32) {
        let now = segment.now + BOOTED;
        match self {
            WindowLimiter::Ours { receiver, .. } => receiver.on_segment(&rledbat::Segment { now, ..*segment }, expected),
            WindowLimiter::Published(receiver) => receiver.on_segment(segment),
            WindowLimiter::Kernel { flow, path, .. } => {
                let (now, (tsval, tsecr)) = (now.nanos(), segment.timestamps.unwrap_or_default());
                let &rledbat::Segment { seq, len, wire, ce, .. } = segment;
                let report = flow.receive(&kernel::In { now, seq, len, wire, tsval, tsecr, rcv_nxt: expected, ce });
                path.receive(flow, &report, now);
            }
        }
    }

    /// The field of the SYN-ACK.
    pub fn on_syn(&mut self, out: &rledbat::Outgoing) -> u16 {
        let field = match self {
            WindowLimiter::Ours { initial, .. } | WindowLimiter::Kernel { initial, .. } => out.field.min(*initial),
            WindowLimiter::Published(_) => out.field,
        };
        self.on_outgoing(&rledbat::Outgoing { field, ..*out })
    }

    /// An acknowledgement leaves: its window field.
    pub fn on_outgoing(&mut self, out: &rledbat::Outgoing) -> u16 {
        let now = out.now + BOOTED;
        match self {
            WindowLimiter::Ours { receiver, .. } => receiver.on_outgoing(&rledbat::Outgoing { now, ..*out }),
            WindowLimiter::Published(receiver) => receiver.on_outgoing(out),
            WindowLimiter::Kernel { flow, .. } => {
                let (now, tsval) = (now.nanos(), out.tsval.unwrap_or_default());
                flow.send(&kernel::Out { now, ack: out.ack, tsval, field: out.field, ..kernel::Out::default() })
            }
        }
    }
}
