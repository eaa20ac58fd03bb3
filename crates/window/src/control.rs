//! One control of bpf/control.h, told of events one by one. Knows no segment and no path.

#![expect(unsafe_code, reason = "calls into C")]

use std::ffi::{CStr, c_char};
use std::fmt;
use std::ptr::NonNull;

use crate::{Phase, UNKNOWN, known, owned};

/// `struct control_start`: how a control begins.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Start {
    /// ns.
    pub now: u64,
    /// The first window, bytes; zero: what the control's source says.
    pub window: u64,
    /// The queueing delay that is aimed at, ns; zero: what the control's source says.
    pub target: u64,
    /// What the host cannot tell from noise, ns.
    pub least_target: u64,
    /// Of what it draws at random.
    pub seed: u64,
    /// Bytes.
    pub mss: u32,
    /// Segments that one acknowledgement releases, their time kept free below the target; zero: none is.
    pub burst: u32,
    /// The target is min(target, base RTT).
    pub enhanced: bool,
    /// Reductions are paid with received bytes: a slowdown begins with a drain.
    pub receiver: bool,
}

/// `struct control_ack`: one acknowledgement, or at a receiver one data segment.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// ns.
    pub now: u64,
    /// Bytes delivered.
    pub acked: u64,
    /// Bytes declared lost.
    pub lost: u64,
    /// Bytes of `acked` reported as CE-marked.
    pub ce: u64,
    /// Bytes before this acknowledgement.
    pub in_flight: u64,
    /// The raw sample in ns, or [`UNKNOWN`].
    pub rtt: u64,
    /// The one-way delay in ns, its zero point arbitrary; zero: none.
    pub owd: u64,
    /// ns; zero before the first sample.
    pub srtt: u64,
    /// ns of `srtt`: a queue on the way of the acknowledgements, where the host leaves that out of `rtt`; else zero.
    pub way_back: u64,
    /// ns that this acknowledgement waited in such a queue, whosever it is, where a sender's host can tell; else zero.
    pub waited: u64,
    /// How long a segment takes at the bottleneck, ns; zero: unknown.
    pub segment: u64,
    /// The clock of rounds now.
    pub delivered: u64,
    /// The clock of rounds when what is acknowledged was sent.
    pub prior_delivered: u64,
    /// Bytes of a sample of the delivery rate.
    pub rate_delivered: u64,
    /// Over which they were delivered, ns; zero: there is no sample.
    pub rate_interval: u64,
    /// The window was the limit.
    pub limited: bool,
    /// The host is in recovery.
    pub in_recovery: bool,
    /// At a receiver: what was permitted before a reduction has arrived.
    pub drained: bool,
}

impl Default for Ack {
    fn default() -> Ack {
        Ack {
            now: 0,
            acked: 0,
            lost: 0,
            ce: 0,
            in_flight: 0,
            rtt: UNKNOWN,
            owd: 0,
            srtt: 0,
            way_back: 0,
            waited: 0,
            segment: 0,
            delivered: 0,
            prior_delivered: 0,
            rate_delivered: 0,
            rate_interval: 0,
            limited: false,
            in_recovery: false,
            drained: false,
        }
    }
}

/// `enum control_cause`: what a congestion episode began with.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A loss that was found out by what arrived.
    Loss,
    /// A CE mark.
    Ecn,
    /// The retransmission timer.
    Timeout,
}

/// `struct control_congestion`: the start of a congestion episode.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    /// ns.
    pub now: u64,
    /// Bytes before anything was declared lost.
    pub in_flight: u64,
    /// Bytes declared lost.
    pub lost: u64,
    /// ns.
    pub srtt: u64,
    /// What it began with.
    pub cause: Cause,
}

/// `struct control_restart`: the first segment after a pause.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Restart {
    /// ns.
    pub now: u64,
    /// How long nothing was in flight, ns.
    pub idle: u64,
    /// The host's retransmission timeout, ns.
    pub rto: u64,
}

/// `struct lowtide_shown` of native.c: what a control shows of itself.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The window in 2^-16 bytes.
    pub cwnd: u64,
    /// The same of the threshold, or [`UNKNOWN`].
    pub ssthresh: u64,
    /// Bytes/s; zero: pacing is the host's.
    pub pacing_rate: u64,
    /// The delay of the path without queues in ns, or [`UNKNOWN`].
    pub base: u64,
    /// ns, or [`UNKNOWN`].
    pub queueing: u64,
    /// The queueing delay above which it yields in ns, or [`UNKNOWN`].
    pub target: u64,
    /// How many it has begun.
    pub slowdowns: u64,
    /// At a receiver, bytes by which the edge may outrun what arrives; zero: the edge goes by the window alone.
    pub edge_step: u64,
    pub(crate) phase: u32,
}

impl Shown {
    /// The window in bytes.
    pub fn window(&self) -> f64 {
        self.cwnd as f64 / 65536.0
    }

    /// The threshold in bytes.
    pub fn threshold(&self) -> Option<f64> {
        known(self.ssthresh).map(|t| t as f64 / 65536.0)
    }

    /// The state it is in.
    pub fn phase(&self) -> Phase {
        Phase::from_number(self.phase as u8)
    }
}

#[repr(C)]
struct Raw {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn lowtide_control_name(algorithm: u32) -> *const c_char;
    fn lowtide_control_new(algorithm: u32, start: *const Start) -> *mut Raw;
    fn lowtide_control_free(control: *mut Raw);
    fn lowtide_control_on_ack(control: *mut Raw, ack: *const Ack);
    fn lowtide_control_on_congestion(control: *mut Raw, congestion: *const Congestion);
    fn lowtide_control_on_restart(control: *mut Raw, restart: *const Restart);
    fn lowtide_control_on_undo(control: *mut Raw, now: u64);
    fn lowtide_control_on_mss(control: *mut Raw, mss: u32);
    fn lowtide_control_show(control: *const Raw, shown: *mut Shown);
}

/// The name that control.h gives the control of that number.
pub(crate) fn name(number: u32) -> Option<&'static str> {
    // SAFETY: takes a plain value; the answer is null or a string constant.
    unsafe {
        let name = lowtide_control_name(number);
        if name.is_null() { None } else { CStr::from_ptr(name).to_str().ok() }
    }
}

/// A control of bpf/control.h.
pub struct Control(NonNull<Raw>);

// SAFETY (here and below, for every call): the pointer was made by the matching `_new`, is owned by this value alone and
// lives until its drop; arguments are plain values, or references that outlive the call and are laid out as in C.
unsafe impl Send for Control {}

impl Control {
    /// The control of that [number](crate::Profile::number).
    ///
    /// # Panics
    /// If control.h has none of that number.
    pub fn new(number: u32, start: &Start) -> Control {
        assert!(name(number).is_some(), "control.h has no control {number}");
        // SAFETY: see `Send`.
        Control(owned(unsafe { lowtide_control_new(number, start) }))
    }

    /// One acknowledgement.
    pub fn on_ack(&mut self, ack: &Ack) {
        // SAFETY: see `Send`.
        unsafe { lowtide_control_on_ack(self.0.as_ptr(), ack) }
    }

    /// The start of a congestion episode.
    pub fn on_congestion(&mut self, congestion: &Congestion) {
        // SAFETY: see `Send`.
        unsafe { lowtide_control_on_congestion(self.0.as_ptr(), congestion) }
    }

    /// The end of a pause.
    pub fn on_restart(&mut self, restart: &Restart) {
        // SAFETY: see `Send`.
        unsafe { lowtide_control_on_restart(self.0.as_ptr(), restart) }
    }

    /// The last congestion episode was spurious.
    pub fn on_undo(&mut self, now: u64) {
        // SAFETY: see `Send`.
        unsafe { lowtide_control_on_undo(self.0.as_ptr(), now) }
    }

    /// Segments have another size.
    pub fn on_mss(&mut self, mss: u32) {
        // SAFETY: see `Send`.
        unsafe { lowtide_control_on_mss(self.0.as_ptr(), mss) }
    }

    /// What it shows of itself.
    pub fn show(&self) -> Shown {
        let mut shown = Shown::default();
        // SAFETY: see `Send`.
        unsafe { lowtide_control_show(self.0.as_ptr(), &mut shown) };
        shown
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // SAFETY: see `Send`.
        unsafe { lowtide_control_free(self.0.as_ptr()) }
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Control({:?})", self.show())
    }
}
