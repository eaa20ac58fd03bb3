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
    /// Segments that the kernel had sent before.
    pub before: u32,
    /// Segments that this is; zero with `before` zero: they are not counted.
    pub segs: u32,
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

/// `struct rx_report`: what an incoming segment says.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// The RTT sample in ns, or [`UNKNOWN`].
    pub rtt: u64,
    /// When the segment was permitted, or [`UNKNOWN`].
    pub sent: u64,
    /// The way of the data in ns, its zero the difference of the clocks; [`UNKNOWN`]: no sample, or no timestamps.
    pub there: u64,
    /// ns: an RTT, or how long the peer had nothing to send; 0: none.
    pub paused: u64,
    /// New bytes.
    pub got: u32,
    /// Old, or nothing that the peer may have sent: it changed nothing.
    pub ignored: bool,
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
    fn lowtide_path_new(algorithm: u32, target: u64, burst: u32, report: u32, enhanced: u8, way_back: u8) -> *mut RawPath;
    fn lowtide_path_free(path: *mut RawPath);
    fn lowtide_path_show(path: *const RawPath, shown: *mut Shown);
    fn lowtide_path_srtt(path: *const RawPath) -> u64;
    fn lowtide_path_flows(path: *const RawPath) -> u32;
    fn lowtide_path_receive(path: *mut RawPath, rx: *mut RawRx, report: *const Report, now: u64) -> i32;
    fn lowtide_rx_new(now: u64, mss: u32, most: u32, ws: u8, timestamps: u8) -> *mut RawRx;
    fn lowtide_rx_free(rx: *mut RawRx);
    fn lowtide_rx_send(rx: *mut RawRx, out: *const Out) -> u16;
    fn lowtide_rx_not_lowered(rx: *mut RawRx, out: *const Out);
    fn lowtide_rx_receive(rx: *mut RawRx, input: *const In, report: *mut Report);
    fn lowtide_rx_edge(rx: *const RawRx) -> u32;
    fn lowtide_rx_flow_window(rx: *const RawRx) -> u32;
    fn lowtide_rx_tear(rx: *mut RawRx, now: u64);
    fn lowtide_rx_set_srtt(rx: *mut RawRx, srtt: u64);
    fn lowtide_rx_set_flow_window(rx: *mut RawRx, bytes: u32);
}

/// The flows of one group to one remote address (bpf/path.h).
pub struct Path(NonNull<RawPath>);

// SAFETY (here and below, for every call): the pointer was made by the matching `_new`, is owned by this value alone and
// lives until its drop; arguments are plain values, or references that outlive the call and are laid out as in C.
unsafe impl Send for Path {}

impl Path {
    /// A path whose flows share a window of that profile.
    pub fn new(profile: &Profile) -> Path {
        let &Profile { number, burst, report_ns, .. } = profile;
        // SAFETY: see `Send`.
        Path(owned(unsafe { lowtide_path_new(number, 0, burst, report_ns, u8::from(profile.enhanced), u8::from(profile.way_back)) }))
    }

    /// A segment of `flow` arrived, which said `report`; sets the flow's window. False if it is kept for the next report, or was ignored.
    pub fn receive(&mut self, flow: &mut Flow, report: &Report, now: u64) -> bool {
        // SAFETY: see `Send`.
        unsafe { lowtide_path_receive(self.0.as_ptr(), flow.0.as_ptr(), report, now) != 0 }
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
    /// A flow just established, with segments of `mss` bytes, whose peer may send whatever a TCP segment can hold.
    pub fn new(now: u64, mss: u32, scale: u8, timestamps: bool) -> Flow {
        Flow::bounded(now, mss, 65_535, scale, timestamps)
    }

    /// A flow just established, whose peer was told to send at most `most` bytes a segment.
    pub fn bounded(now: u64, mss: u32, most: u32, scale: u8, timestamps: bool) -> Flow {
        // SAFETY: see `Send`.
        Flow(owned(unsafe { lowtide_rx_new(now, mss, most, scale, u8::from(timestamps)) }))
    }

    /// An outgoing segment: the window field to send.
    pub fn send(&mut self, out: &Out) -> u16 {
        // SAFETY: see `Send`.
        unsafe { lowtide_rx_send(self.0.as_ptr(), out) }
    }

    /// What was [sent](Self::send) last left with the kernel's own field, for its header could not be written.
    pub fn not_lowered(&mut self, out: &Out) {
        // SAFETY: see `Send`.
        unsafe { lowtide_rx_not_lowered(self.0.as_ptr(), out) }
    }

    /// An incoming segment with payload.
    pub fn receive(&mut self, input: &In) -> Report {
        let mut report = Report::default();
        // SAFETY: see `Send`.
        unsafe { lowtide_rx_receive(self.0.as_ptr(), input, &mut report) };
        report
    }

    /// The right edge on the wire.
    pub fn edge(&self) -> u32 {
        // SAFETY: see `Send`.
        unsafe { lowtide_rx_edge(self.0.as_ptr()) }
    }

    /// Bytes it may have in flight.
    pub fn window(&self) -> u32 {
        // SAFETY: see `Send`.
        unsafe { lowtide_rx_flow_window(self.0.as_ptr()) }
    }

    /// Writes half of the next record, at `now` ns: what a reader on another processor may meet.
    pub fn tear(&mut self, now: u64) {
        // SAFETY: see `Send`.
        unsafe { lowtide_rx_tear(self.0.as_ptr(), now) }
    }

    /// Sets the smoothed RTT in ns, for hosts without a path.
    pub fn set_srtt(&mut self, srtt: u64) {
        // SAFETY: see `Send`.
        unsafe { lowtide_rx_set_srtt(self.0.as_ptr(), srtt) }
    }

    /// Sets them, for hosts without a path.
    pub fn set_window(&mut self, bytes: u32) {
        // SAFETY: see `Send`.
        unsafe { lowtide_rx_set_flow_window(self.0.as_ptr(), bytes) }
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
        write!(f, "Flow {{ edge: {}, window: {} }}", self.edge(), self.window())
    }
}
