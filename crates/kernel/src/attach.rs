//! A running receiver: programs attached to one cgroup and to the interfaces; dropping it takes everything away.

use std::os::fd::BorrowedFd;
use std::path::Path;

use anyhow::{Result, bail};

use crate::cgroup::Group;
use crate::config::Config;
use crate::interfaces::Interfaces;
use crate::load::Programs;
use crate::object::descriptor;
use crate::open_before::OpenBefore;
use crate::probe::has_tcx;
use crate::stats::{FlowSnapshot, Lacking, Totals, Verified};

/// Idle paths are looked for about once a minute.
const POLLS_PER_SWEEP: u64 = 60;

/// The receiver at work on one cgroup. Dropping it detaches everything; so does the kernel if the process dies.
#[derive(Debug)]
pub struct Receiver {
    // Dropped in this order: first nothing is lowered any more, then nothing is measured.
    interfaces: Interfaces,
    /// Of processes that joined with connections open.
    open: Option<OpenBefore>,
    programs: Programs,
    group: Group,
    polls: u64,
}

impl Receiver {
    /// Loads the programs and attaches them to `cgroup` and to the interfaces of this network namespace and of those the
    /// group's processes are in.
    ///
    /// # Errors
    /// The kernel refuses a program (its verifier's last lines are in the message), or an attachment.
    pub fn attach(cgroup: &Path, config: &Config) -> Result<Receiver> {
        let group = Group::open(cgroup)?;
        let mut receiver =
            Receiver { interfaces: Interfaces::default(), open: None, programs: Programs::load(group.path(), config)?, group, polls: 0 };
        receiver.poll_interfaces()?;
        Ok(receiver)
    }

    /// Attaches to interfaces that have come up since, and to network namespaces that the group has entered. Call it about once a second,
    /// and when there are news.
    ///
    /// # Errors
    /// The interfaces cannot be listed.
    pub fn poll_interfaces(&mut self) -> Result<()> {
        self.programs.keep_alive()?;
        self.polls += 1;
        if self.polls.is_multiple_of(POLLS_PER_SWEEP) {
            self.programs.forget_idle_paths()?;
        }
        let (program, processes) = (self.programs.egress(has_tcx())?, self.group.processes()?);
        self.interfaces.cover(descriptor(&program), &processes)?;
        self.open.as_mut().map_or(Ok(()), |open| self.programs.adopt(open, &processes))
    }

    /// Adopts the connections that the group's processes had open when they joined it, and from now on, when
    /// [`Receiver::poll_interfaces`] is called, what they accept from a socket of before. Only with [`Config::joins`].
    ///
    /// # Errors
    /// The kernel refuses an iterator.
    pub fn take_over(&mut self) -> Result<()> {
        if let Some(lacking) = self.lacking().first() {
            bail!("{}", lacking.why);
        }
        self.open = Some(OpenBefore::default());
        self.poll_interfaces().inspect_err(|_| self.open = None)
    }

    /// Readable when an interface has changed, until [`Receiver::has_news`] is called.
    pub fn news(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.interfaces.news()
    }

    /// Whether an interface has changed since this was called last.
    pub fn has_news(&self) -> bool {
        self.interfaces.has_news()
    }

    /// Interfaces the outgoing side is attached to now.
    pub fn interfaces(&self) -> usize {
        self.interfaces.count()
    }

    /// What loading the programs took the kernel's verifier.
    pub fn verified(&self) -> Vec<Verified> {
        self.programs.verified()
    }

    /// Programs that the kernel refused and that it goes on without.
    pub fn lacking(&self) -> &[Lacking] {
        self.programs.lacking()
    }

    /// Every flow that is open now.
    ///
    /// # Errors
    /// The kernel refuses to read its map.
    pub fn flows(&self) -> Result<Vec<FlowSnapshot>> {
        self.programs.flows()
    }

    /// The group's counters.
    ///
    /// # Errors
    /// The kernel refuses to read its map.
    pub fn totals(&self) -> Result<Totals> {
        self.programs.totals()
    }
}
