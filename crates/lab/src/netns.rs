//! A network namespace of the laboratory's own. Knows netlink; does not know what runs inside.
//!
//! A namespace here has no name: it lives as long as this process holds its descriptor or a child runs inside it, so the
//! kernel removes it after every kind of end, `kill -9` included, and there is nothing to clean. To look inside:
//! `nsenter --net=/proc/PID/fd/FD`.
#![expect(unsafe_code, reason = "setns between fork and exec")]

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, anyhow};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};

use crate::netlink;

/// A network namespace, gone when it is dropped and its last process has ended.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// A new namespace: loopback up, and no memory of earlier connections' thresholds: the next one would begin with it.
    pub fn new() -> Result<Namespace> {
        let made = thread::scope(|scope| {
            scope
                .spawn(|| -> Result<Namespace> {
                    unshare(CloneFlags::CLONE_NEWNET).context("a network namespace needs root (CAP_SYS_ADMIN)")?;
                    let file = File::open("/proc/thread-self/ns/net").context("opening the new network namespace")?;
                    netlink::up("lo", None)?;
                    fs::write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1").context("setting tcp_no_metrics_save in the new namespace")?;
                    Ok(Namespace { file })
                })
                .join()
        });
        made.map_err(|_| anyhow!("the thread that makes a network namespace died"))?
    }

    /// Runs `work` inside. Sockets and devices that it opens stay inside; the calling thread never enters.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let done = thread::scope(|scope| {
            scope
                .spawn(|| {
                    setns(self.fd(), CloneFlags::CLONE_NEWNET).context("entering a network namespace")?;
                    work()
                })
                .join()
        });
        done.map_err(|_| anyhow!("a thread inside a network namespace died"))?
    }

    /// Has connections that begin inside, to `port` of `host` through device `name`, send by the congestion control `control`, unless their
    /// program asks for another. For programs that cannot be told which.
    pub fn control_by_port(&self, control: &str, port: u16, name: &str, host: Ipv4Addr) -> Result<()> {
        self.enter(|| netlink::control_by_port(control, port, name, host))
    }

    /// Makes `command` start inside, and get SIGTERM if the laboratory's thread that starts it dies. Whatever signals this process
    /// keeps for itself, the program has none blocked: it could not be ended otherwise.
    ///
    /// `setns` and not `ip netns exec`, which mounts a new /sys and so hides cgroups and bpffs.
    pub fn place<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let fd = self.file.as_raw_fd();
        // SAFETY: between fork and exec only sigprocmask, prctl and setns are called, all async-signal-safe; `fd` is open in the child
        // because it is a copy of this process, and close-on-exec only acts at the exec that follows.
        unsafe {
            command.pre_exec(move || {
                SigSet::empty().thread_set_mask()?;
                set_pdeathsig(Signal::SIGTERM)?;
                setns(BorrowedFd::borrow_raw(fd), CloneFlags::CLONE_NEWNET)?;
                Ok(())
            })
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
