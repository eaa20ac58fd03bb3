//! A group with the receiver and the sender at work on it. Knows no rate and no signal.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::thread;

use anyhow::{Context, anyhow};
use lowtide_kernel::cgroup::{self, Group};
use lowtide_kernel::{Config, FlowSnapshot, Lacking, Receiver, SendSnapshot, SendTotals, Sender, Totals};
use lowtide_units::Span;

use super::what::{Origins, What};
use crate::status_socket::{self, Sending, Server};

/// Nothing that `doctor` looks for is missing.
const REFUSES: &str = "this machine has what it takes, and still refuses (more: lowtide doctor)";

/// Where [`Managed::end`] is not called, fields are dropped in this order: the programs let go before the group is removed.
pub struct Managed {
    /// Or why downloads are not held back.
    receiver: Result<Receiver, String>,
    /// Or why uploads are not held back. One of the two is there.
    sender: Result<Sender, String>,
    server: Server,
    group: Group,
    origins: Option<Origins>,
    /// Of the connections that were open when their process joined: why what they receive, or send, is not held back.
    not_taken_over: [Option<String>; 2],
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
        let (mut receiver, mut sender) = thread::scope(|scope| {
            let sender = scope.spawn(|| Sender::attach(group.path(), config).map_err(|e| format!("{e:#}")));
            let receiver = Receiver::attach(group.path(), config).map_err(|e| format!("{e:#}"));
            (receiver, sender.join().unwrap_or_else(|_| Err("the thread that attached it has failed".to_owned())))
        });
        match (&receiver, &sender) {
            (Err(why), Err(_)) => return Err(anyhow!("{why}").context(REFUSES)),
            (Err(why), _) => super::say(format_args!("downloads are NOT held back: {why}")),
            (_, Err(why)) => super::say(format_args!("uploads are NOT held back: {why}")),
            _ => {}
        }
        let server = Server::open(&status_socket::folder())?;
        let origins = match what {
            What::Process(pid) => Some(Origins::move_tree(*pid, |pid| group.join(pid)).with_context(|| format!("--pid {pid}"))?),
            _ => None,
        };
        let mut not_taken_over = [None, None];
        if origins.is_some() {
            let taken = [receiver.as_mut().map_or(Ok(()), Receiver::take_over), sender.as_mut().map_or(Ok(()), Sender::take_over)];
            not_taken_over = taken.map(|taken| taken.err().map(|e| format!("{e:#}")));
        } else if let (What::Cgroup(..), Ok(sender)) = (what, &sender) {
            not_taken_over[1] = sender.lacking().iter().find(|l| l.program == "take_over").map(|l| l.why.clone());
        }
        let managed = Managed { receiver, sender, server, group, origins, not_taken_over };
        managed.lacking().iter().for_each(super::say);
        Ok(managed)
    }

    /// What is not done, and why: the kernel refuses a program that the rest works without.
    pub fn lacking(&self) -> Vec<String> {
        let receiver = self.receiver.as_ref().map_or(&[][..], Receiver::lacking);
        let sender = self.sender.as_ref().map_or(&[][..], Sender::lacking);
        receiver.iter().chain(sender).map(Lacking::to_string).collect()
    }

    /// The profile that uploads are held back by, which may stand in for the one that was chosen; none where they are not.
    pub fn sends_by(&self) -> Option<&'static str> {
        self.sender.as_ref().ok().map(Sender::sends_by)
    }

    /// Why downloads are not held back.
    pub fn not_held_back(&self) -> Option<String> {
        self.receiver.as_ref().err().cloned()
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
        self.receiver.as_ref().map_or_else(|_| Ok(Vec::new()), Receiver::flows)
    }

    pub fn totals(&self) -> anyhow::Result<Totals> {
        self.receiver.as_ref().map_or_else(|_| Ok(Totals::default()), Receiver::totals)
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
            open_before_not_held_back: self.not_taken_over[1].clone(),
        }
    }

    /// Why what connections receive that were open when their process joined is not held back.
    pub fn open_before_not_held_back(&self) -> Option<String> {
        self.not_taken_over[0].clone()
    }

    pub fn interfaces(&self) -> usize {
        self.receiver.as_ref().map_or(0, Receiver::interfaces)
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

    /// Readable when something is to be answered or looked at.
    pub fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.server.as_fd()).chain(self.receiver.iter().flat_map(Receiver::news))
    }

    /// Answers those who ask for `status`.
    pub fn answer(&self, group: impl FnOnce() -> status_socket::Group) -> anyhow::Result<()> {
        self.server.answer(group)
    }

    /// Attaches to what has appeared: at once where word has come, else `when_due`, about once a second.
    pub fn look_around(&mut self, when_due: bool) -> anyhow::Result<()> {
        // Each for itself: that one has failed must not end the other's sign of life.
        let received = match &mut self.receiver {
            Ok(receiver) if receiver.has_news() || when_due => receiver.poll_interfaces(),
            _ => Ok(()),
        };
        let sent = match &mut self.sender {
            Ok(sender) if when_due => sender.poll(),
            _ => Ok(()),
        };
        received.and(sent)
    }

    /// Whether nothing is left to manage, where there is no CMD.
    pub fn has_ended(&self) -> bool {
        match &self.origins {
            // We may be a descendant of what we manage: alone, we have nothing to wait for.
            Some(_) => self.group.processes().map_or(true, |all| all.iter().all(|p| *p == std::process::id())),
            None => !self.path().exists(),
        }
    }
}
