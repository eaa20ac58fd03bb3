//! The signals that `run` receives while CMD runs: read from a descriptor, and passed on where CMD has not had them itself.

use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

const TO_PASS_ON: [Signal; 6] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGUSR1, Signal::SIGUSR2];

/// A signal sent by the kernel, as Ctrl-C on a terminal is: CMD, in the same process group, has had it too (sigaction(2)).
const SI_KERNEL: i32 = 0x80;

/// Blocks what it reads for as long as it lives; [`Signals::before`] is what CMD must start with.
pub struct Signals {
    fd: SignalFd,
    before: SigSet,
}

/// What arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// A child changed state.
    Child,
    /// A request to end or to do something; `from_terminal` if the whole process group has had it.
    Request { signal: Signal, from_terminal: bool },
}

impl Signals {
    /// To be called before any thread is started, since the mask is inherited.
    pub fn block() -> nix::Result<Signals> {
        let mut set: SigSet = TO_PASS_ON.into_iter().collect();
        set.add(Signal::SIGCHLD);
        let before = SigSet::thread_get_mask()?;
        set.thread_block()?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Signals { fd, before })
    }

    /// The mask before the blocking.
    pub fn before(&self) -> SigSet {
        self.before
    }

    /// The next signal that is waiting; none if there is none.
    pub fn next(&self) -> nix::Result<Option<Arrived>> {
        let Some(info) = self.fd.read_signal()? else { return Ok(None) };
        let signal = Signal::try_from(info.ssi_signo as i32)?;
        if signal == Signal::SIGCHLD {
            return Ok(Some(Arrived::Child));
        }
        Ok(Some(Arrived::Request { signal, from_terminal: info.ssi_code == SI_KERNEL }))
    }

    /// The first request to end that is waiting. Before CMD starts nobody else has had it, wherever it came from.
    pub fn end_requested(&self) -> nix::Result<Option<Signal>> {
        while let Some(arrived) = self.next()? {
            match arrived {
                Arrived::Request { signal: Signal::SIGUSR1 | Signal::SIGUSR2, .. } | Arrived::Child => {}
                Arrived::Request { signal, .. } => return Ok(Some(signal)),
            }
        }
        Ok(None)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // Ending with the mask as it was found; that it cannot be restored changes nothing at exit.
        let _ = self.before.thread_set_mask();
    }
}

/// Sends `signal` to CMD. That CMD has ended meanwhile is no failure.
pub fn pass_on(signal: Signal, pid: Pid) -> nix::Result<()> {
    match kill(pid, signal) {
        Err(Errno::ESRCH) => Ok(()),
        other => other,
    }
}
