//! The queue on the way back, of bpf/way_back.h. Knows no segment and no control.

#![expect(unsafe_code, reason = "calls into C")]

use std::fmt;
use std::ptr::NonNull;

use crate::owned;

#[repr(C)]
struct Raw {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn lowtide_way_back_new() -> *mut Raw;
    fn lowtide_way_back_free(way_back: *mut Raw);
    fn lowtide_way_back_queue(way_back: *mut Raw, now: u64, rtt: u64, there: u64) -> u64;
    fn lowtide_way_back_of_others(way_back: *mut Raw, now: u64, floor: u8, srtt: u64, doubts: u8) -> u64;
    fn lowtide_way_back_since(now: u64, tsval: u32) -> u64;
}

/// What is known of the ways of one path.
pub struct WayBack(NonNull<Raw>);

// SAFETY (here and below): the pointer was made by `lowtide_way_back_new`, is owned by this value alone and lives until its drop.
unsafe impl Send for WayBack {}

impl Default for WayBack {
    fn default() -> WayBack {
        // SAFETY: see `Send`.
        WayBack(owned(unsafe { lowtide_way_back_new() }))
    }
}

impl WayBack {
    /// A round trip of `rtt` ns, whose way there took `there` (see [`since`]): ns of it that are a queue on the way back.
    pub fn queue(&mut self, now: u64, rtt: u64, there: u64) -> u64 {
        // SAFETY: see `Send`.
        unsafe { lowtide_way_back_queue(self.0.as_ptr(), now, rtt, there) }
    }

    /// Of the queue of the last sample what others made; `floor`: with the window that the path has its acknowledgements make none; `doubts`: each queue
    /// counts until a floor has shown that it stays.
    pub fn of_others(&mut self, now: u64, floor: bool, srtt: u64, doubts: bool) -> u64 {
        // SAFETY: see `Send`.
        unsafe { lowtide_way_back_of_others(self.0.as_ptr(), now, u8::from(floor), srtt, u8::from(doubts)) }
    }
}

/// How much later, in ns, the peer's TSval has arrived `now` than it was written; a signed number, whose zero is the difference of the clocks.
pub fn since(now: u64, tsval: u32) -> u64 {
    // SAFETY: plain values.
    unsafe { lowtide_way_back_since(now, tsval) }
}

impl Drop for WayBack {
    fn drop(&mut self) {
        // SAFETY: see `Send`.
        unsafe { lowtide_way_back_free(self.0.as_ptr()) }
    }
}

impl fmt::Debug for WayBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WayBack")
    }
}
