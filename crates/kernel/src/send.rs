//! A running sender: a congestion control of a group's own, registered with the kernel and given to its connections; dropping it
//! gives them back. Knows no interface and nothing of the receiver.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process;

use anyhow::{Context, Result, bail};
use libbpf_rs::{Link, MapCore, MapFlags, Object};

use crate::cgroup::Group;
use crate::config::Config;
use crate::object;
use crate::open_sockets::{Joined, Namespaces};
use crate::send_load::{self, Registered};
use crate::send_open;
use crate::send_stats::{SendSnapshot, SendTotals};
use crate::send_wire;
use crate::stats::Lacking;
use crate::wire;

/// The sender at work on one cgroup. Dropping it gives its connections back and takes everything away.
#[derive(Debug)]
pub struct Sender {
    choosers: Vec<Link>,
    _control: Link,
    object: Object,
    lacking: Vec<Lacking>,
    name: String,
    sends_by: &'static str,
    group: Group,
    namespaces: Namespaces,
    /// What its processes have open, where some were made in another group.
    joined: Option<Joined>,
    polls: u64,
}

/// Idle paths are looked for about once a minute.
const POLLS_PER_SWEEP: u64 = 60;

impl Sender {
    /// Registers a control named after this process, and attaches what gives it to the connections of `cgroup`, those included that
    /// are open. Connections of runs that died get the machine's default.
    ///
    /// # Errors
    /// The kernel refuses a program or the control, or its attachment.
    pub fn attach(cgroup: &Path, config: &Config) -> Result<Sender> {
        let name = format!("lowtide_{}", process::id());
        let group = Group::open(cgroup)?;
        let cgroup_id = fs::metadata(group.path())?.ino();
        let Registered { object, control, sends_by, lacking } = send_load::register_for(config.choice, &name, cgroup_id)?;
        let attached = ["choose", "refuse"].map(|program| {
            attach_program(&object, program, group.path())
                .with_context(|| format!("{}: the kernel does not attach `{program}` to this cgroup", cgroup.display()))
        });
        let choosers = attached.into_iter().collect::<Result<Vec<Link>>>()?;
        let mut namespaces = Namespaces::default();
        namespaces.follow(&group.processes()?);
        let mut sender = Sender { choosers, _control: control, object, lacking, name, sends_by, group, namespaces, joined: None, polls: 0 };
        send_open::unregister_dead();
        sender.attempt("reclaim", |sender| send_open::reclaim(&sender.namespaces, &sender.object));
        sender.attempt("take_over", |sender| sender.namespaces.run(&sender.object, "take_over").map(drop));
        Ok(sender)
    }

    /// Does what takes an iterator, unless the kernel refused it. If it is refused now, that is noted.
    fn attempt(&mut self, program: &'static str, work: impl FnOnce(&Sender) -> Result<()>) {
        if !self.lacks(program)
            && let Err(e) = work(self)
        {
            self.lacking.push(Lacking { program, why: format!("{e:#}") });
        }
    }

    fn lacks(&self, program: &str) -> bool {
        self.lacking.iter().any(|l| l.program == program)
    }

    /// Programs that the kernel refused and that it goes on without.
    pub fn lacking(&self) -> &[Lacking] {
        &self.lacking
    }

    /// Gives the control to the connections that the group's processes had open when they joined it, and from now on, when
    /// [`Sender::poll`] is called, to those that they accept from a socket of before.
    ///
    /// # Errors
    /// The kernel refuses an iterator.
    pub fn take_over(&mut self) -> Result<()> {
        if let Some(lacking) = self.lacking.iter().find(|l| l.program == "take_over") {
            bail!("{}", lacking.why);
        }
        self.joined = Some(Joined::default());
        self.look_around().inspect_err(|_| self.joined = None)
    }

    fn look_around(&mut self) -> Result<()> {
        let processes = self.group.processes()?;
        self.namespaces.follow(&processes);
        let Some(joined) = &mut self.joined else { return Ok(()) };
        joined.tell(&self.object, &processes)?;
        // Always: the programs of another group's cgroup do not keep these sockets from asking for a control of their own.
        self.namespaces.run(&self.object, "take_over").map(drop)
    }

    /// The control's name, as `ss -ti` and getsockopt show it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The profile that it sends by: the one that was chosen, or what stands in for it where the kernel refuses that.
    pub fn sends_by(&self) -> &'static str {
        self.sends_by
    }

    /// Tells the control, which sockets keep when we are killed, that we have not been, and looks where the group's processes are. Call
    /// it about once a second.
    ///
    /// # Errors
    /// The kernel refuses to write its map, or the group is gone.
    pub fn poll(&mut self) -> Result<()> {
        object::keep_alive(&self.object)?;
        self.polls += 1;
        if self.polls.is_multiple_of(POLLS_PER_SWEEP) {
            object::forget_idle(&self.object, "send_paths", send_wire::path_last_ack)?;
        }
        self.look_around()
    }

    /// Every connection that is open now.
    ///
    /// # Errors
    /// The kernel refuses its iterator.
    pub fn flows(&self) -> Result<Vec<SendSnapshot>> {
        if self.lacks("report") {
            return Ok(Vec::new());
        }
        Ok(send_wire::snapshots(&send_open::read_storage(&self.object, "report", "send_origins")?, wire::monotonic_now()))
    }

    /// The group's counters.
    ///
    /// # Errors
    /// The kernel refuses to read its maps.
    pub fn totals(&self) -> Result<SendTotals> {
        let open = self.flows()?;
        let per_cpu = object::map(&self.object, "send_totals")?.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)?;
        Ok(send_wire::totals(&per_cpu.unwrap_or_default(), &open))
    }
}

impl Drop for Sender {
    /// First no connection gets the control any more, then those that have it get back what they had.
    fn drop(&mut self) {
        self.choosers.clear();
        if self.lacks("give_back") || (!self.lacks("report") && self.flows().is_ok_and(|open| open.is_empty())) {
            return;
        }
        // What cannot be reached goes on as Reno (ALIVE_NS in send.bpf.c).
        let _unreached = self.namespaces.run(&self.object, "give_back");
    }
}

fn attach_program(object: &Object, name: &str, cgroup: &Path) -> Result<Link> {
    let dir = File::open(cgroup)?;
    Ok(object::program(object, name)?.attach_cgroup(dir.as_raw_fd())?)
}

#[cfg(test)]
mod tests {
    use crate::send_wire::NAME_BYTES;

    #[test]
    fn the_largest_process_number_fits_the_kernels_name() {
        assert!(format!("lowtide_{}", 4_194_304).len() < NAME_BYTES); // PID_MAX_LIMIT, proc(5)
    }
}
