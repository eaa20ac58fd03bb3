//! The flows of a group that send to one address, of bpf/sender.h. Knows no control by name.

#![expect(unsafe_code, reason = "calls into C")]

use std::fmt;
use std::ptr::NonNull;

use crate::control::{Cause, Shown};
use crate::{UNKNOWN, owned};

/// `struct tx_ack`: an acknowledgement as the sending programs tell it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// ns.
    pub now: u64,
    /// The raw sample in ns, or [`UNKNOWN`].
    pub rtt: u64,
    /// The one-way delay in ns; zero: none.
    pub owd: u64,
    /// Of the sample, the way there in ns, its zero the difference of the clocks; [`UNKNOWN`]: not known, or not asked for.
    pub there: u64,
    /// Bytes acknowledged.
    pub acked: u64,
    /// Bytes before this acknowledgement.
    pub in_flight: u64,
    /// The window was the limit.
    pub limited: bool,
    /// The flow is in recovery.
    pub in_recovery: bool,
    /// Bytes that the flow has yet to get acknowledged, those that it has not sent too.
    pub unacked: u32,
}

impl Default for Sent {
    fn default() -> Sent {
        Sent { now: 0, rtt: UNKNOWN, owd: 0, there: UNKNOWN, acked: 0, in_flight: 0, limited: false, in_recovery: false, unacked: 1 }
    }
}

/// `struct tx_paced`: an acknowledgement as the sending programs tell it to a control that paces.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Paced {
    /// ns.
    pub now: u64,
    /// The raw sample in ns, or [`UNKNOWN`].
    pub rtt: u64,
    /// Of the sample, the way there, as in [`Sent`].
    pub there: u64,
    /// Bytes delivered.
    pub acked: u64,
    /// Bytes declared lost.
    pub lost: u64,
    /// Bytes reported as CE-marked.
    pub ce: u64,
    /// Bytes before this acknowledgement.
    pub in_flight: u64,
    /// Bytes that the flow delivered since what is acknowledged was sent.
    pub since: u64,
    /// Bytes of a sample of the delivery rate.
    pub rate_delivered: u64,
    /// Over which they were delivered, ns; zero: there is no sample.
    pub rate_interval: u64,
    /// Bytes that the flow has yet to get acknowledged, those that it has not sent too.
    pub unacked: u32,
    /// 1: the window was used up (`tcp_is_cwnd_limited`), else 0.
    pub limited: u32,
}

impl Default for Paced {
    fn default() -> Paced {
        let (rtt, there, unacked, limited) = (UNKNOWN, UNKNOWN, 1, 1);
        Paced {
            now: 0,
            rtt,
            there,
            acked: 0,
            lost: 0,
            ce: 0,
            in_flight: 0,
            since: 0,
            rate_delivered: 0,
            rate_interval: 0,
            unacked,
            limited,
        }
    }
}

#[repr(C)]
struct RawPath {
    _private: [u8; 0],
}
#[repr(C)]
struct RawTx {
    _private: [u8; 0],
}

#[repr(C)]
struct RawClock {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn lowtide_tx_path_new(algorithm: u32, target: u64, enhanced: u8) -> *mut RawPath;
    fn lowtide_tx_path_free(path: *mut RawPath);
    fn lowtide_tx_path_show(path: *const RawPath, shown: *mut Shown);
    fn lowtide_tx_path_srtt(path: *const RawPath) -> u64;
    fn lowtide_tx_new(path: *mut RawPath, now: u64, mss: u32) -> *mut RawTx;
    fn lowtide_tx_free(tx: *mut RawTx);
    fn lowtide_tx_window(tx: *const RawTx) -> u32;
    fn lowtide_tx_on_ack(path: *mut RawPath, tx: *mut RawTx, ack: *const Sent);
    fn lowtide_tx_restart(path: *mut RawPath, tx: *mut RawTx, now: u64);
    fn lowtide_tx_clock_new() -> *mut RawClock;
    fn lowtide_tx_clock_free(clock: *mut RawClock);
    fn lowtide_tx_owd(clock: *mut RawClock, tsval: u32, tsecr: u32, rtt_us: u32) -> u64;
    fn lowtide_tx_on_paced(path: *mut RawPath, tx: *mut RawTx, ack: *const Paced) -> u64;
    fn lowtide_tx_is_full(largest: *mut u32, size: u32) -> u8;
    fn lowtide_tx_on_undo(path: *mut RawPath, tx: *mut RawTx, now: u64);
    fn lowtide_tx_on_congestion(path: *mut RawPath, tx: *mut RawTx, now: u64, cause: u32, in_flight: u64);
}

/// The flows of one group to one remote address.
pub struct TxPath(NonNull<RawPath>);

/// The clock in a peer's timestamps.
pub struct Clock(NonNull<RawClock>);

/// One of them.
pub struct Tx(NonNull<RawTx>);

// SAFETY (here and below, for every call): the pointer was made by the matching `_new`, is owned by this value alone and
// lives until its drop; arguments are plain values, or references that outlive the call and are laid out as in C.
unsafe impl Send for TxPath {}
// SAFETY: as for `TxPath`.
unsafe impl Send for Tx {}

impl TxPath {
    /// A path whose flows share a window of the control of that number; `target` in ns, zero: what the control's source says.
    pub fn new(algorithm: u32, target: u64, enhanced: bool) -> TxPath {
        // SAFETY: see `Send`.
        TxPath(owned(unsafe { lowtide_tx_path_new(algorithm, target, u8::from(enhanced)) }))
    }

    /// A flow joins, with segments of `mss` bytes.
    pub fn join(&mut self, now: u64, mss: u32) -> Tx {
        // SAFETY: see `Send`.
        Tx(owned(unsafe { lowtide_tx_new(self.0.as_ptr(), now, mss) }))
    }

    /// Something of `flow` was acknowledged; sets its window.
    pub fn on_ack(&mut self, flow: &mut Tx, ack: &Sent) {
        // SAFETY: see `Send`.
        unsafe { lowtide_tx_on_ack(self.0.as_ptr(), flow.0.as_ptr(), ack) }
    }

    /// The same for a control that paces; returns the flow's pace in bytes/s.
    pub fn on_paced(&mut self, flow: &mut Tx, ack: &Paced) -> u64 {
        // SAFETY: see `Send`.
        unsafe { lowtide_tx_on_paced(self.0.as_ptr(), flow.0.as_ptr(), ack) }
    }

    /// An episode of `flow` begins.
    pub fn on_congestion(&mut self, flow: &mut Tx, now: u64, cause: Cause, in_flight: u64) {
        // SAFETY: see `Send`.
        unsafe { lowtide_tx_on_congestion(self.0.as_ptr(), flow.0.as_ptr(), now, cause as u32, in_flight) }
    }

    /// `flow`, which had nothing in flight, sends again.
    pub fn restart(&mut self, flow: &mut Tx, now: u64) {
        // SAFETY: see `Send`.
        unsafe { lowtide_tx_restart(self.0.as_ptr(), flow.0.as_ptr(), now) }
    }

    /// The last episode of `flow` was spurious.
    pub fn on_undo(&mut self, flow: &mut Tx, now: u64) {
        // SAFETY: see `Send`.
        unsafe { lowtide_tx_on_undo(self.0.as_ptr(), flow.0.as_ptr(), now) }
    }

    /// What its control shows; all zero before the first flow.
    pub fn show(&self) -> Shown {
        let mut shown = Shown::default();
        // SAFETY: see `Send`.
        unsafe { lowtide_tx_path_show(self.0.as_ptr(), &mut shown) };
        shown
    }

    /// The smoothed RTT in ns, zero before the first sample.
    pub fn srtt(&self) -> u64 {
        // SAFETY: see `Send`.
        unsafe { lowtide_tx_path_srtt(self.0.as_ptr()) }
    }
}

impl Tx {
    /// Bytes it may have in flight.
    pub fn window(&self) -> u32 {
        // SAFETY: see `Send`.
        unsafe { lowtide_tx_window(self.0.as_ptr()) }
    }
}

/// Whether the delay of segments of `size` bytes is that of full ones, of which `largest` keeps the largest seen.
pub fn is_full(largest: &mut u32, size: u32) -> bool {
    // SAFETY: a reference, which outlives the call.
    unsafe { lowtide_tx_is_full(largest, size) != 0 }
}

impl Default for Clock {
    fn default() -> Clock {
        // SAFETY: see `Send`.
        Clock(owned(unsafe { lowtide_tx_clock_new() }))
    }
}

impl Clock {
    /// The one-way delay in ns of an acknowledgement with these timestamps whose RTT is `rtt_us`.
    pub fn one_way(&mut self, tsval: u32, tsecr: u32, rtt_us: u32) -> u64 {
        // SAFETY: see `Send`.
        unsafe { lowtide_tx_owd(self.0.as_ptr(), tsval, tsecr, rtt_us) }
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        // SAFETY: see `Send`.
        unsafe { lowtide_tx_clock_free(self.0.as_ptr()) }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

impl Drop for TxPath {
    fn drop(&mut self) {
        // SAFETY: see `Send`.
        unsafe { lowtide_tx_path_free(self.0.as_ptr()) }
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        // SAFETY: see `Send`.
        unsafe { lowtide_tx_free(self.0.as_ptr()) }
    }
}

impl fmt::Debug for TxPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TxPath {{ window: {}, phase: {:?} }}", self.show().window(), self.show().phase())
    }
}

impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tx {{ window: {} }}", self.window())
    }
}
