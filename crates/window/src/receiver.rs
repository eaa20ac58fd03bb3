//! The receiver of bpf/receiver.h and the window of a path's flows of bpf/path.h. Knows no control by name.

#![expect(unsafe_code, reason = "calls into C")]

use std::fmt;
use std::ptr::NonNull;

use crate::control::Shown;
use crate::{Phase, Profile, known, owned};

/// `struct rx_out`: an outgoing segment.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Out {
    /// ns.
    pub now: u64,
    /// The acknowledgement number.
    pub ack: u32,
    /// The TSval, zero without timestamps.
    pub tsval: u32,
    /// The kernel's own window field.
    pub field: u16,
    /// It carries payload.
    pub data: bool,
}

/// `struct rx_in`: an incoming segment with payload.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct In {
    /// ns.
    pub now: u64,
    /// The path's smoothed RTT, ns.
    pub srtt: u64,
    /// The first byte.
    pub seq: u32,
    /// Bytes of payload.
    pub len: u32,
    /// The largest packet it was on the wire, bytes of payload.
    pub wire: u32,
    /// The TSval.
    pub tsval: u32,
    /// The TSecr.
    pub tsecr: u32,
    /// The next byte the kernel expects, before this segment.
    pub rcv_nxt: u32,
    /// CE-marked.
    pub ce: bool,
}

/// `struct rx_seen`: what an incoming segment told.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// The RTT sample in ns, or [`UNKNOWN`].
    pub rtt: u64,
    /// When the segment was permitted, or [`UNKNOWN`].
    pub sent: u64,
    /// New bytes.
    pub got: u32,
    /// Entirely below what had been received.
    pub old: bool,
    /// A loss that begins an episode.
    pub lost: bool,
    /// A CE mark that begins one.
    pub marked: bool,
    /// CE-marked.
    pub ce: bool,
    /// A retransmission.
    pub retransmitted: bool,
    /// It used its permission.
    pub limited: bool,
    /// The flow's old permission has been used up.
    pub drained: bool,
}

#[repr(C)]
struct RawPath {
    _private: [u8; 0],
}
#[repr(C)]
struct RawRx {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn lowtide_path_new(algorithm: u32, target: u64, burst: u32, enhanced: u8) -> *mut RawPath;
    fn lowtide_path_free(path: *mut RawPath);
    fn lowtide_path_show(path: *const RawPath, shown: *mut Shown);
    fn lowtide_path_srtt(path: *const RawPath) -> u64;
    fn lowtide_path_flows(path: *const RawPath) -> u32;
    fn lowtide_path_receive(path: *mut RawPath, rx: *mut RawRx, seen: *const Seen, now: u64);
    fn lowtide_rx_new(now: u64, mss: u32, ws: u8, timestamps: u8) -> *mut RawRx;
    fn lowtide_rx_free(rx: *mut RawRx);
    fn lowtide_rx_send(rx: *mut RawRx, out: *const Out) -> u16;
    fn lowtide_rx_receive(rx: *mut RawRx, input: *const In, seen: *mut Seen);
    fn lowtide_rx_edge(rx: *const RawRx) -> u32;
    fn lowtide_rx_share(rx: *const RawRx) -> u32;
    fn lowtide_rx_set_share(rx: *mut RawRx, share: u32);
}

/// The flows of one group to one remote address (bpf/path.h).
pub struct Path(NonNull<RawPath>);

// SAFETY (here and below, for every call): the pointer was made by the matching `_new`, is owned by this value alone and
// lives until its drop; arguments are plain values, or references that outlive the call and are laid out as in C.
unsafe impl Send for Path {}

impl Path {
    /// A path whose flows share a window of that profile.
    pub fn new(profile: &Profile) -> Path {
        // SAFETY: see `Send`.
        Path(owned(unsafe { lowtide_path_new(profile.number, 0, profile.burst, u8::from(profile.enhanced)) }))
    }

    /// A segment of `flow` arrived; sets the flow's share.
    pub fn receive(&mut self, flow: &mut Flow, seen: &Seen, now: u64) {
        // SAFETY: see `Send`.
        unsafe { lowtide_path_receive(self.0.as_ptr(), flow.0.as_ptr(), seen, now) }
    }

    /// What its control shows; all zero before the first segment.
    pub fn show(&self) -> Shown {
        let mut shown = Shown::default();
        // SAFETY: see `Send`.
        unsafe { lowtide_path_show(self.0.as_ptr(), &mut shown) };
        shown
    }

    /// The window of all flows together, bytes.
    pub fn window(&self) -> f64 {
        self.show().window()
    }

    /// The state of the path's control.
    pub fn phase(&self) -> Phase {
        self.show().phase()
    }

    /// The queueing delay in ns.
    pub fn queueing(&self) -> Option<u64> {
        known(self.show().queueing)
    }

    /// The base RTT in ns.
    pub fn base(&self) -> Option<u64> {
        known(self.show().base)
    }

    /// The smoothed RTT in ns, zero before the first sample.
    pub fn srtt(&self) -> u64 {
        // SAFETY: see `Send`.
        unsafe { lowtide_path_srtt(self.0.as_ptr()) }
    }

    /// Flows that share the window.
    pub fn flows(&self) -> u32 {
        // SAFETY: see `Send`.
        unsafe { lowtide_path_flows(self.0.as_ptr()) }
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        // SAFETY: see `Send`.
        unsafe { lowtide_path_free(self.0.as_ptr()) }
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Path {{ window: {}, phase: {:?}, flows: {} }}", self.window(), self.phase(), self.flows())
    }
}

/// One flow seen by its receiver (bpf/receiver.h).
pub struct Flow(NonNull<RawRx>);

// SAFETY: as for `Path`.
unsafe impl Send for Flow {}

impl Flow {
    /// A flow just established.
    pub fn new(now: u64, mss: u32, scale: u8, timestamps: bool) -> Flow {
        // SAFETY: see `Send`.
        Flow(owned(unsafe { lowtide_rx_new(now, mss, scale, u8::from(timestamps)) }))
    }

    /// An outgoing segment: the window field to send.
    pub fn send(&mut self, out: &Out) -> u16 {
        // SAFETY: see `Send`.
        unsafe { lowtide_rx_send(self.0.as_ptr(), out) }
    }

    /// An incoming segment with payload.
    pub fn receive(&mut self, input: &In) -> Seen {
        let mut seen = Seen::default();
        // SAFETY: see `Send`.
        unsafe { lowtide_rx_receive(self.0.as_ptr(), input, &mut seen) };
        seen
    }

    /// The right edge on the wire.
    pub fn edge(&self) -> u32 {
        // SAFETY: see `Send`.
        unsafe { lowtide_rx_edge(self.0.as_ptr()) }
    }

    /// Bytes it may have in flight.
    pub fn share(&self) -> u32 {
        // SAFETY: see `Send`.
        unsafe { lowtide_rx_share(self.0.as_ptr()) }
    }

    /// Sets its share, for hosts without a path.
    pub fn set_share(&mut self, share: u32) {
        // SAFETY: see `Send`.
        unsafe { lowtide_rx_set_share(self.0.as_ptr(), share) }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        // SAFETY: see `Send`.
        unsafe { lowtide_rx_free(self.0.as_ptr()) }
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flow {{ edge: {}, share: {} }}", self.edge(), self.share())
    }
}
