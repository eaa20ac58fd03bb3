//! The user-space link: one thread that carries packets between two TUN devices through two paths, in real time. Knows the
//! clock; what happens to a packet on its way is the path's affair.

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};
use lowtide_units::histogram::Histogram;
use lowtide_units::{Rate, Span, Time};
use nix::libc;
use nix::poll::{PollFd, PollFlags};

use crate::clock;
use crate::packet::Pool;
use crate::path::{Path, PathConfig, Seen};
use crate::tun::Tun;

/// Before a deadline the thread does not sleep but looks: the kernel's timers wake it later than that (facts: a user-space link).
const SPIN: Span = Span::from_micros(30);
/// Up to this rate the thread runs before all others; at 1 Gbit/s that starves the programs that make the traffic (facts).
const FIFO_UP_TO: Rate = Rate::from_bps(100_000_000);
/// The longest sleep: how soon a stop is noticed.
const NAP: Span = Span::from_millis(20);
/// Packets taken from one device at a time, so that neither direction waits for the other's burst.
const BATCH: usize = 32;

/// A running link.
#[derive(Debug)]
pub struct Link {
    thread: Option<JoinHandle<Result<Record>>>,
    stop: Arc<AtomicBool>,
}

/// What a link did, once it is stopped.
#[derive(Debug)]
pub struct Record {
    /// The way from the first device to the second.
    pub reverse: Seen,
    /// Down, from the servers: where a scenario's `forward` data goes.
    pub forward: Seen,
    /// By how much packets left later than they should have: what the host, not the link, added to the delay.
    pub lateness: Lateness,
}

/// The host's own share of the delay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lateness {
    /// Of the packets' lateness: the median.
    pub p50: Span,
    /// The 99th percentile.
    pub p99: Span,
    /// The worst.
    pub max: Span,
}

impl Link {
    /// A link between `first` and `second`, running until it is stopped or dropped. Measures during `measure`.
    pub fn start(first: Tun, second: Tun, reverse: PathConfig, forward: PathConfig, measure: Range<Time>) -> Result<Link> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let fifo = reverse.rate.max(forward.rate) <= FIFO_UP_TO;
        let mut worker = Worker {
            tuns: [first, second],
            paths: [Path::new(reverse, measure.clone())?, Path::new(forward, measure.clone())?],
            pool: Pool::default(),
            late: Histogram::default(),
            measure,
        };
        let thread = thread::Builder::new().name("link".into()).spawn(move || {
            if fifo {
                run_first(); // Where it may not, the lateness shows it.
            }
            worker.run(&stopped)?;
            let [reverse, forward] = worker.paths.map(Path::seen);
            let late = worker.late;
            let lateness = Lateness { p50: late.quantile(0.5), p99: late.quantile(0.99), max: late.max() };
            Ok(Record { reverse, forward, lateness })
        });
        Ok(Link { thread: Some(thread.context("starting the link's thread")?), stop })
    }

    /// Stops the link and says what it did.
    pub fn stop(mut self) -> Result<Record> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("the link is already stopped")?;
        thread.join().map_err(|_| anyhow!("the link's thread died"))?
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether a link's thread may be put before all ordinary ones; where it may not, it is as late as the machine is busy.
pub fn may_run_first() -> bool {
    thread::spawn(run_first).join().unwrap_or(false)
}

/// Puts the calling thread before all ordinary ones; false where that is not allowed.
#[expect(unsafe_code, reason = "nix has no sched_setscheduler")]
fn run_first() -> bool {
    // SAFETY: `parameters` is a valid sched_param for the length of the call; 0 means the calling thread.
    unsafe {
        let mut parameters: libc::sched_param = std::mem::zeroed();
        parameters.sched_priority = 1;
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameters) == 0
    }
}

struct Worker {
    tuns: [Tun; 2],
    paths: [Path; 2],
    pool: Pool,
    late: Histogram,
    measure: Range<Time>,
}

impl Worker {
    fn run(&mut self, stop: &AtomicBool) -> Result<()> {
        let mut buffer = [0; 2048];
        while !stop.load(Ordering::Relaxed) {
            let now = clock::now();
            let taken = self.take_in(now, &mut buffer)?;
            let given = self.give_out(now)?;
            if !taken && !given {
                self.sleep();
            }
        }
        Ok(())
    }

    /// Takes what the stacks send.
    fn take_in(&mut self, now: Time, buffer: &mut [u8]) -> Result<bool> {
        let mut any = false;
        for (tun, path) in self.tuns.iter().zip(&mut self.paths) {
            path.advance(now, &mut self.pool);
            for _ in 0..BATCH {
                let Some(length) = tun.read(buffer)? else { break };
                any = true;
                path.offer(now, &buffer[..length], &mut self.pool);
            }
        }
        Ok(any)
    }

    /// Hands the stacks what is due.
    fn give_out(&mut self, now: Time) -> Result<bool> {
        let mut any = false;
        for (path, to) in self.paths.iter_mut().zip([&self.tuns[1], &self.tuns[0]]) {
            while let Some((due, packet)) = path.take_due(now) {
                any = true;
                to.write(packet.ip())?;
                self.pool.give_back(packet);
                if self.measure.contains(&now) {
                    self.late.add(now.since(due));
                }
            }
        }
        Ok(any)
    }

    fn sleep(&self) {
        let next = self.paths.iter().map(Path::next).min().unwrap_or(Time::MAX);
        let span = next.since(clock::now()).min(NAP);
        if span > SPIN {
            let mut sources = [&self.tuns[0], &self.tuns[1]].map(|tun| PollFd::new(tun.as_fd(), PollFlags::POLLIN));
            clock::wait_any(&mut sources, span - SPIN);
        }
    }
}
