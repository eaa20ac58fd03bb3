//! A group with the receiver at work on it, and the wait for its end: signals, `status` and new interfaces meanwhile.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Child;
use std::thread;

use anyhow::Context;
use lowtide_kernel::cgroup::{self, Group};
use lowtide_kernel::{Config, FlowSnapshot, Receiver, SendSnapshot, SendTotals, Sender, Totals};
use lowtide_units::Span;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::child;
use super::meter::Meter;
use super::signals::{self, Arrived, Signals};
use super::what::{Origins, What};
use crate::status_socket::{self, Sending, Server};

/// How often namespaces that are new are looked for, and rates measured. Milliseconds.
const TICK_MS: u16 = 1000;

/// Nothing that `doctor` looks for is missing.
const REFUSES: &str = "this machine has what it takes, and still refuses (more: lowtide doctor)";

/// Where [`Managed::end`] is not called, fields are dropped in this order: the programs let go before the group is removed.
pub struct Managed {
    receiver: Receiver,
    /// Or why uploads are not held back.
    sender: Result<Sender, String>,
    server: Server,
    group: Group,
    origins: Option<Origins>,
}

impl Managed {
    /// Makes or opens the group and attaches; processes that run already are moved last.
    pub fn start(what: &What, config: &Config) -> anyhow::Result<Managed> {
        cgroup::remove_leftovers();
        status_socket::remove_leftovers(&status_socket::folder());
        let group = match what {
            What::Cgroup(path, _) => Group::open(path)?,
            _ => Group::create(&config.name).context(REFUSES)?,
        };
        // Side by side: each waits for the kernel's verifier.
        let (receiver, mut sender) = thread::scope(|scope| {
            let sender = scope.spawn(|| Sender::attach(group.path(), config).map_err(|e| format!("{e:#}")));
            let receiver = Receiver::attach(group.path(), config).context(REFUSES);
            (receiver, sender.join().unwrap_or_else(|_| Err("the thread that attached it has failed".to_owned())))
        });
        let receiver = receiver?;
        if let Err(why) = &sender {
            super::say(format_args!("uploads are NOT held back: {why}"));
        }
        let server = Server::open(&status_socket::folder())?;
        let origins = match what {
            What::Process(pid) => Some(Origins::move_tree(*pid, |pid| group.join(pid)).with_context(|| format!("--pid {pid}"))?),
            _ => None,
        };
        if let (Some(_), Ok(sender)) = (&origins, &mut sender) {
            sender.take_over().context("uploads that are open already are not held back")?;
        }
        Ok(Managed { receiver, sender, server, group, origins })
    }

    /// The file through which a process enters the group.
    pub fn door(&self) -> anyhow::Result<File> {
        let path = self.path().join("cgroup.procs");
        OpenOptions::new().write(true).open(&path).with_context(|| format!("cannot open {}", path.display()))
    }

    pub fn path(&self) -> &Path {
        self.group.path()
    }

    pub fn flows(&self) -> anyhow::Result<Vec<FlowSnapshot>> {
        self.receiver.flows()
    }

    pub fn totals(&self) -> anyhow::Result<Totals> {
        self.receiver.totals()
    }

    pub fn uploads(&self) -> anyhow::Result<Vec<SendSnapshot>> {
        self.sender.as_ref().map_or_else(|_| Ok(Vec::new()), Sender::flows)
    }

    pub fn sent(&self) -> anyhow::Result<SendTotals> {
        self.sender.as_ref().map_or_else(|_| Ok(SendTotals::default()), Sender::totals)
    }

    /// The same for people, without a rate.
    pub fn sending(&self, totals: &SendTotals) -> Sending {
        Sending {
            control: self.sender.as_ref().ok().map(|s| s.name().to_owned()),
            not_held_back: self.sender.as_ref().err().cloned(),
            bytes: totals.bytes,
            rate_bps: 0,
            yielded_s: totals.yielded.secs_f64(),
            added_delay_ms: totals.mean_queueing_delay.map(Span::millis_f64),
            connections: totals.flows,
            retransmissions: totals.retransmissions,
            losses: totals.losses,
            slowdowns: totals.slowdowns,
            undone: totals.undone,
            controls_refused: totals.refused,
            connections_left_alone: totals.unmanaged,
            connections_open_before: totals.joined,
        }
    }

    pub fn interfaces(&self) -> usize {
        self.receiver.interfaces()
    }

    /// Detaches and removes everything. Returns how many processes were still in the group.
    pub fn end(self) -> usize {
        let left = self.group.processes().unwrap_or_default();
        if let Some(Err(e)) = self.origins.as_ref().map(|o| o.restore(&left)) {
            super::say(format_args!("{e:#}"));
        }
        let Managed { receiver, sender, server, group, .. } = self;
        // Side by side: each waits for grace periods of RCU.
        thread::scope(|scope| {
            scope.spawn(|| drop(sender));
            drop(receiver);
        });
        drop((server, group)); // in this order
        left.len()
    }

    /// What is due: answers for `status`, interfaces that have appeared, rates.
    fn tend(&mut self, meter: &mut Meter) -> anyhow::Result<()> {
        self.server.answer(|| meter.group(Some(self)))?;
        let due = meter.tick_is_due();
        if self.receiver.has_news() || due {
            self.receiver.poll_interfaces()?;
        }
        if due {
            self.sender.as_mut().map_or(Ok(()), Sender::poll)?;
            meter.sample(self)?;
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        match &self.origins {
            // We may be a descendant of what we manage: alone, we have nothing to wait for.
            Some(_) => self.group.processes().map_or(true, |all| all.iter().all(|p| *p == std::process::id())),
            None => !self.path().exists(),
        }
    }
}

/// Waits until CMD ends, or without one, until the group does or a signal says so. Returns the exit code.
pub fn until_the_end(
    mut child: Option<&mut Child>,
    signals: &Signals,
    mut managed: Option<&mut Managed>,
    meter: &mut Meter,
) -> anyhow::Result<u8> {
    let mut complaint = None;
    loop {
        wait(signals, managed.as_deref())?;
        while let Some(arrived) = signals.next()? {
            if let Some(code) = act_on(arrived, child.as_deref_mut())? {
                return Ok(code);
            }
        }
        let Some(managed) = &mut managed else { continue };
        if let Err(e) = managed.tend(meter) {
            // CMD has not ended, so neither does the run; the same complaint every second would drown CMD's output.
            if complaint.replace(e.to_string()).is_none_or(|last| last != e.to_string()) {
                super::say(format_args!("{e:#}"));
            }
        }
        if child.is_none() && managed.has_ended() {
            return Ok(0);
        }
    }
}

/// Returns when something has happened, at the latest after a tick.
fn wait(signals: &Signals, managed: Option<&Managed>) -> nix::Result<()> {
    let mut watched = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
    if let Some(managed) = managed {
        watched.push(PollFd::new(managed.server.as_fd(), PollFlags::POLLIN));
        watched.extend(managed.receiver.news().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
    }
    match poll(&mut watched, PollTimeout::from(TICK_MS)) {
        Err(Errno::EINTR) | Ok(_) => Ok(()),
        Err(e) => Err(e),
    }
}

/// The exit code, if this was the end.
fn act_on(arrived: Arrived, child: Option<&mut Child>) -> anyhow::Result<Option<u8>> {
    match (arrived, child) {
        (Arrived::Child, Some(child)) => Ok(child.try_wait()?.map(child::code)),
        (Arrived::Request { signal, from_terminal: false }, Some(child)) => {
            signals::pass_on(signal, Pid::from_raw(child.id() as i32))?;
            Ok(None)
        }
        (Arrived::Request { signal: Signal::SIGUSR1 | Signal::SIGUSR2, .. }, None) => Ok(None),
        (Arrived::Request { .. }, None) => Ok(Some(0)),
        _ => Ok(None),
    }
}
