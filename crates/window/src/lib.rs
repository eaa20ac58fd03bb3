//! The kernel part's arithmetic, compiled natively: crates/kernel/bpf/{cc,receiver,path}.h behind safe names. What the tests
//! and the simulator run here is, line for line, what the kernel runs. Needs no libbpf.

#![expect(unsafe_code, reason = "calls into C")]

use std::fmt;
use std::ptr::NonNull;

mod phase;

pub use phase::Phase;

/// No sample, no time: what the C code calls unknown.
pub const UNKNOWN: u64 = u64::MAX;

/// `struct cc_ack`: one acknowledgement, or at a receiver one segment with payload.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Ack {
    /// ns.
    pub now: u64,
    /// Bytes.
    pub acked: u64,
    /// Bytes before this acknowledgement.
    pub in_flight: u64,
    /// ns, or [`UNKNOWN`].
    pub rtt: u64,
    /// ns.
    pub srtt: u64,
    /// How long a segment takes at the bottleneck, ns; zero: unknown.
    pub segment: u64,
    /// The clock of rounds now.
    pub delivered: u64,
    /// The clock of rounds when what is acknowledged was sent.
    pub prior_delivered: u64,
    /// The window was the limit.
    pub limited: bool,
    /// The host is in recovery.
    pub in_recovery: bool,
    /// At a receiver: the old permission has been used up.
    pub drained: bool,
}

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
    /// A loss, the first of its episode.
    pub lost: bool,
    /// A retransmission.
    pub retransmitted: bool,
    /// It used its permission.
    pub limited: bool,
    /// The flow's old permission has been used up.
    pub drained: bool,
}

#[repr(C)]
struct RawCc {
    _private: [u8; 0],
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
    fn lowtide_cc_new(now: u64, mss: u64, window: u64, enhanced: u8, receiver: u8) -> *mut RawCc;
    fn lowtide_cc_free(cc: *mut RawCc);
    fn lowtide_cc_set_target(cc: *mut RawCc, target: u64);
    fn lowtide_cc_set_burst(cc: *mut RawCc, segments: u64);
    fn lowtide_cc_on_ack(cc: *mut RawCc, ack: *const Ack);
    fn lowtide_cc_on_loss(cc: *mut RawCc, now: u64, srtt: u64);
    fn lowtide_cc_on_timeout(cc: *mut RawCc, in_flight: u64);
    fn lowtide_cc_on_restart(cc: *mut RawCc, now: u64);
    fn lowtide_cc_window(cc: *const RawCc) -> u64;
    fn lowtide_cc_phase(cc: *const RawCc) -> u32;
    fn lowtide_cc_queueing(cc: *const RawCc) -> u64;
    fn lowtide_cc_base(cc: *const RawCc) -> u64;
    fn lowtide_cc_next_slowdown(cc: *const RawCc) -> u64;
    fn lowtide_path_new() -> *mut RawPath;
    fn lowtide_path_free(path: *mut RawPath);
    fn lowtide_path_cc(path: *const RawPath) -> *const RawCc;
    fn lowtide_path_srtt(path: *const RawPath) -> u64;
    fn lowtide_path_flows(path: *const RawPath) -> u32;
    fn lowtide_path_receive(path: *mut RawPath, rx: *mut RawRx, seen: *const Seen, now: u64, enhanced: u8);
    fn lowtide_rx_new(now: u64, mss: u32, ws: u8, timestamps: u8) -> *mut RawRx;
    fn lowtide_rx_free(rx: *mut RawRx);
    fn lowtide_rx_send(rx: *mut RawRx, out: *const Out) -> u16;
    fn lowtide_rx_receive(rx: *mut RawRx, input: *const In, seen: *mut Seen);
    fn lowtide_rx_edge(rx: *const RawRx) -> u32;
    fn lowtide_rx_share(rx: *const RawRx) -> u32;
    fn lowtide_rx_set_share(rx: *mut RawRx, share: u32);
}

fn owned<T>(made: *mut T) -> NonNull<T> {
    NonNull::new(made).unwrap_or_else(|| std::alloc::handle_alloc_error(std::alloc::Layout::new::<u64>()))
}

fn known(ns: u64) -> Option<u64> {
    (ns != UNKNOWN).then_some(ns)
}

/// The controller of bpf/cc.h.
pub struct Controller(NonNull<RawCc>);

// SAFETY (here and below, for every call): the pointer was made by the matching `_new`, is owned by this value alone and
// lives until its drop; arguments are plain values, or references that outlive the call and are laid out as in C.
unsafe impl Send for Controller {}

impl Controller {
    /// A controller at its initial `window`. A `receiver` pays reductions with received bytes, so its slowdowns begin with a drain.
    pub fn new(now: u64, mss: u32, window: u64, enhanced: bool, receiver: bool) -> Controller {
        // SAFETY: see `Send`.
        Controller(owned(unsafe { lowtide_cc_new(now, u64::from(mss), window, u8::from(enhanced), u8::from(receiver)) }))
    }

    /// T in ns; 60 ms if not set.
    pub fn set_target(&mut self, target_ns: u64) {
        // SAFETY: see `Send`.
        unsafe { lowtide_cc_set_target(self.0.as_ptr(), target_ns) }
    }

    /// Lets one acknowledgement release so many segments, whose own time is kept free below the target.
    pub fn set_burst(&mut self, segments: u32) {
        // SAFETY: see `Send`.
        unsafe { lowtide_cc_set_burst(self.0.as_ptr(), u64::from(segments)) }
    }

    /// One acknowledgement.
    pub fn on_ack(&mut self, ack: &Ack) {
        // SAFETY: see `Send`.
        unsafe { lowtide_cc_on_ack(self.0.as_ptr(), ack) }
    }

    /// A loss or CE mark, at most once per window.
    pub fn on_loss(&mut self, now: u64, srtt: u64) {
        // SAFETY: see `Send`.
        unsafe { lowtide_cc_on_loss(self.0.as_ptr(), now, srtt) }
    }

    /// A retransmission timeout.
    pub fn on_timeout(&mut self, in_flight: u64) {
        // SAFETY: see `Send`.
        unsafe { lowtide_cc_on_timeout(self.0.as_ptr(), in_flight) }
    }

    /// The end of a pause longer than the retransmission timeout.
    pub fn on_restart(&mut self, now: u64) {
        // SAFETY: see `Send`.
        unsafe { lowtide_cc_on_restart(self.0.as_ptr(), now) }
    }

    /// The window in bytes.
    pub fn window(&self) -> f64 {
        // SAFETY: see `Send`.
        unsafe { lowtide_cc_window(self.0.as_ptr()) as f64 / 65536.0 }
    }

    /// The state it is in.
    pub fn phase(&self) -> Phase {
        // SAFETY: see `Send`.
        Phase::from_number(unsafe { lowtide_cc_phase(self.0.as_ptr()) } as u8)
    }

    /// The queueing delay in ns.
    pub fn queueing(&self) -> Option<u64> {
        // SAFETY: see `Send`.
        known(unsafe { lowtide_cc_queueing(self.0.as_ptr()) })
    }

    /// When the next slowdown falls due, ns.
    pub fn next_slowdown(&self) -> Option<u64> {
        // SAFETY: see `Send`.
        known(unsafe { lowtide_cc_next_slowdown(self.0.as_ptr()) })
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        // SAFETY: see `Send`.
        unsafe { lowtide_cc_free(self.0.as_ptr()) }
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Controller {{ window: {}, phase: {:?} }}", self.window(), self.phase())
    }
}

/// The flows of one group to one remote address (bpf/path.h).
pub struct Path(NonNull<RawPath>);

// SAFETY: as for `Controller`.
unsafe impl Send for Path {}

impl Default for Path {
    fn default() -> Path {
        // SAFETY: see `Send`.
        Path(owned(unsafe { lowtide_path_new() }))
    }
}

impl Path {
    /// A segment of `flow` arrived; sets the flow's share.
    pub fn receive(&mut self, flow: &mut Flow, seen: &Seen, now: u64, enhanced: bool) {
        // SAFETY: see `Send`.
        unsafe { lowtide_path_receive(self.0.as_ptr(), flow.0.as_ptr(), seen, now, u8::from(enhanced)) }
    }

    /// The window of all flows together, bytes.
    pub fn window(&self) -> f64 {
        // SAFETY: see `Send`; the controller is part of the path.
        unsafe { lowtide_cc_window(lowtide_path_cc(self.0.as_ptr())) as f64 / 65536.0 }
    }

    /// The state of the path's controller.
    pub fn phase(&self) -> Phase {
        // SAFETY: as above.
        Phase::from_number(unsafe { lowtide_cc_phase(lowtide_path_cc(self.0.as_ptr())) } as u8)
    }

    /// The queueing delay in ns.
    pub fn queueing(&self) -> Option<u64> {
        // SAFETY: as above.
        known(unsafe { lowtide_cc_queueing(lowtide_path_cc(self.0.as_ptr())) })
    }

    /// The base RTT in ns.
    pub fn base(&self) -> Option<u64> {
        // SAFETY: as above.
        known(unsafe { lowtide_cc_base(lowtide_path_cc(self.0.as_ptr())) })
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

// SAFETY: as for `Controller`.
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
