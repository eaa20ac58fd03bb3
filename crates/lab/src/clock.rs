//! The laboratory's clock, CLOCK_MONOTONIC, and waiting by it. The only place of the crate that reads a clock.

use std::os::fd::AsFd;

use lowtide_units::{Span, Time};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

/// Now. The clock cannot fail on Linux.
pub fn now() -> Time {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Time::ZERO, |t| Time::from_nanos(t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64))
}

/// Sleeps until `until` or until `source` has something to read.
pub fn wait_readable(source: &impl AsFd, until: Time) {
    wait_any(&mut [PollFd::new(source.as_fd(), PollFlags::POLLIN)], until.since(now()));
}

/// Sleeps for `span` or until one of `sources` is ready.
pub fn wait_any(sources: &mut [PollFd<'_>], span: Span) {
    // An interrupted wait is a short one: every caller looks at the clock again. The thread's own mask stays: a signal that the
    // process takes in one place must not find a way in here.
    let _ = ppoll(sources, Some(TimeSpec::new((span.nanos() / 1_000_000_000) as i64, (span.nanos() % 1_000_000_000) as i64)), None);
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::{SigSet, Signal, raise};
    use nix::sys::signalfd::{SfdFlags, SignalFd};

    use super::*;

    #[test]
    fn a_wait_lets_no_blocked_signal_in() {
        // SIGWINCH: what is not blocked of it is dropped without a trace.
        let set = SigSet::from(Signal::SIGWINCH);
        set.thread_block().expect("a thread may block it");
        let pending = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK).expect("a descriptor");
        raise(Signal::SIGWINCH).expect("sent to this thread");
        wait_any(&mut [], Span::from_millis(1));
        assert!(pending.read_signal().expect("readable").is_some(), "the signal was delivered during the wait");
    }
}
