//! The outgoing side: the egress program on every interface of every network namespace the group uses, by tcx or clsact.
//! Knows no cgroup program and no map.

#![expect(unsafe_code, reason = "libbpf-rs has no safe wrapper for a tcx link")]

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::thread;

use anyhow::{Context, Result, anyhow};
use libbpf_rs::{TC_EGRESS, TcHook, TcHookBuilder};
use nix::sched::{CloneFlags, setns};

use crate::links::{self, LinkNews};
use crate::owner::Owner;
use crate::probe::has_tcx;
use crate::stale_clsact::{self, Note};

/// Our place among the clsact filters of an interface: before all others, which may end the chain. Of filters of one priority the
/// kernel runs the latest first. Where the first place has a filter of another kind, the next is taken.
const PRIORITIES: std::ops::RangeInclusive<u32> = 1..=4;
/// The upper byte of our filters' handles; below it is the process that they belong to.
const HANDLE: u32 = 0x6c << 24;

/// The egress program's attachments, by namespace (inode) and interface index.
#[derive(Debug, Default)]
pub(crate) struct Interfaces {
    attached: BTreeMap<(u64, u32), Attachment>,
    /// Of the namespaces that the group uses now; a socket in a namespace keeps it alive, so others are closed.
    news: BTreeMap<u64, LinkNews>,
    /// Dropped last: that nothing was left behind is true only then.
    note: Option<Note>,
}

#[derive(Debug)]
enum Attachment {
    /// Closing the descriptor detaches.
    Tcx { link: OwnedFd },
    /// The kernel keeps a filter until it is removed, in its own namespace.
    Clsact { program: OwnedFd, index: u32, priority: u32, namespace: File },
}

impl Interfaces {
    /// Attaches `program` to each interface that is up and has not got it, in our own namespace and in those of `processes`. What is down
    /// sends nothing, and to attach and to detach waits for two grace periods of RCU, 8 to 16 ms each.
    pub(crate) fn cover(&mut self, program: BorrowedFd<'_>, processes: &[u32]) -> Result<()> {
        // A tcx link dies with us; a filter does not.
        let dead = if has_tcx() { Vec::new() } else { stale_clsact::dead_owners() };
        if !has_tcx() {
            self.note.get_or_insert_with(Note::leave);
        }
        let mut seen = vec![self.cover_namespace(program, "/proc/self/ns/net", &dead)?];
        for pid in processes {
            let path = format!("/proc/{pid}/ns/net");
            match fs::metadata(&path) {
                Ok(m) if !seen.contains(&m.ino()) => {
                    let covered = self.cover_namespace(program, &path, &dead);
                    // A process may end at any moment.
                    if covered.is_ok() || fs::metadata(&path).is_ok() {
                        seen.push(covered?);
                    }
                }
                // Covered already, or the process has ended.
                _ => {}
            }
        }
        self.news.retain(|inode, _| seen.contains(inode));
        stale_clsact::forget(&dead);
        Ok(())
    }

    /// Readable when an interface of a namespace that is covered has changed, such as come up.
    pub(crate) fn news(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.news.values().map(AsFd::as_fd)
    }

    /// Whether one was; [`Interfaces::cover`] is due.
    pub(crate) fn has_news(&self) -> bool {
        self.news.values().map(LinkNews::read).filter(|told| *told).count() > 0
    }

    fn cover_namespace(&mut self, program: BorrowedFd<'_>, path: &str, dead: &[Owner]) -> Result<u64> {
        let namespace = File::open(path).with_context(|| format!("{path}: the network namespace cannot be opened"))?;
        let inode = namespace.metadata()?.ino();
        let (attached, news) = (&mut self.attached, &mut self.news);
        inside(&namespace, || -> Result<()> {
            // Before the interfaces are listed: what comes up meanwhile is told again.
            if let Entry::Vacant(new) = news.entry(inode) {
                new.insert(LinkNews::subscribe()?);
            }
            // A namespace's number and an interface's index are given again: what is attached is known by the attachment alone.
            attached.retain(|(ns, index), attachment| *ns != inode || attachment.is_at(*index));
            for index in links::up()? {
                for (owner, priority) in dead.iter().flat_map(|owner| PRIORITIES.map(move |priority| (owner.pid, priority))) {
                    // Most left nothing here.
                    let _none = filter(program, index, priority, owner).detach();
                }
                if let Entry::Vacant(entry) = attached.entry((inode, index)) {
                    match attach(program, index, &namespace) {
                        Ok(attachment) => {
                            entry.insert(attachment);
                        }
                        // An interface may go at any moment.
                        Err(_) if !links::up()?.contains(&index) => {}
                        Err(e) => return Err(e),
                    }
                }
            }
            Ok(())
        })
        .with_context(|| format!("{path}: the namespace cannot be entered; CAP_SYS_ADMIN is needed"))??;
        Ok(inode)
    }

    /// Interfaces covered.
    pub(crate) fn count(&self) -> usize {
        self.attached.iter().filter(|((_, index), attachment)| attachment.is_at(*index)).count()
    }
}

impl Attachment {
    /// Whether the interface with that index still is the one attached to.
    fn is_at(&self, interface: u32) -> bool {
        match self {
            Attachment::Tcx { link } => tcx_interface(link.as_fd()).is_ok_and(|at| at == interface),
            Attachment::Clsact { program, index, priority, namespace } => {
                let (program, index, priority) = (program.as_fd(), *index, *priority);
                inside(namespace, || filter(program, index, priority, std::process::id()).query().is_ok()).unwrap_or(false)
            }
        }
    }
}

/// Does `work` in `namespace`. Another than our own is entered by a thread of its own, for ours must not change; to stay where one
/// is takes no CAP_SYS_ADMIN.
pub(crate) fn inside<T: Send>(namespace: &File, work: impl FnOnce() -> T + Send) -> Result<T> {
    if namespace.metadata()?.ino() == fs::metadata("/proc/self/ns/net")?.ino() {
        return Ok(work());
    }
    thread::scope(|scope| {
        let there = || setns(namespace, CloneFlags::CLONE_NEWNET).map(|()| work());
        scope.spawn(there).join().map_err(|_| anyhow!("the thread that entered it has failed"))?.map_err(Into::into)
    })
}

fn attach(program: BorrowedFd<'_>, index: u32, namespace: &File) -> Result<Attachment> {
    if has_tcx() {
        return tcx(program, index)
            .map(|link| Attachment::Tcx { link })
            .with_context(|| format!("interface {index}: tcx does not take the program"));
    }
    let priority = clsact(program, index).with_context(|| format!("interface {index}: clsact does not take the program"))?;
    Ok(Attachment::Clsact { program: program.try_clone_to_owned()?, index, priority, namespace: namespace.try_clone()? })
}

/// Before all programs that are there: one that ends the chain or redirects packets would keep them from ours.
fn tcx(program: BorrowedFd<'_>, index: u32) -> io::Result<OwnedFd> {
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        flags: libbpf_sys::BPF_F_BEFORE,
        ..Default::default()
    };
    // SAFETY: the options outlive the call and tell their size; the descriptor and the index are plain numbers to the kernel.
    let fd = unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), index as i32, libbpf_sys::BPF_TCX_EGRESS, &raw const options) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: a descriptor that was just made for us and that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The index of the interface that a tcx link is at; 0 once that is gone.
fn tcx_interface(link: BorrowedFd<'_>) -> io::Result<u32> {
    let mut info = libbpf_sys::bpf_link_info::default();
    let mut length = size_of_val(&info) as u32;
    // SAFETY: `info` and `length` outlive the call and describe each other.
    let result = unsafe { libbpf_sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &raw mut info, &raw mut length) };
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    // SAFETY: the kernel wrote this link's own kind of the union, and numbers are valid whatever their bits.
    Ok(unsafe { info.__bindgen_anon_1.tcx.ifindex })
}

/// A run's filter on an interface: the handle has its process id (at most 22 bits, proc(5)), so that two runs do not meet.
fn filter(program: BorrowedFd<'_>, index: u32, priority: u32, owner: u32) -> TcHook {
    TcHookBuilder::new(program).ifindex(index as i32).replace(true).handle(HANDLE | owner).priority(priority).hook(TC_EGRESS)
}

/// The priority it got.
fn clsact(program: BorrowedFd<'_>, index: u32) -> Result<u32> {
    let at = |priority| filter(program, index, priority, std::process::id());
    // The queue discipline may be there already, ours or another's; it is never removed.
    let _exists = at(*PRIORITIES.start()).create();
    let mut refusal = None;
    for priority in PRIORITIES {
        match at(priority).attach() {
            Ok(_) => return Ok(priority),
            Err(e) => refusal = Some(e),
        }
    }
    Err(refusal.map_or_else(|| anyhow!("no priority is left"), Into::into))
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if let Attachment::Clsact { program, index, priority, namespace } = self {
            let (program, index, priority) = (program.as_fd(), *index, *priority);
            // The interface or its namespace may be gone, and its filters with it; what cannot be reached falls silent by itself
            // (ALIVE_NS).
            let _gone = inside(namespace, || filter(program, index, priority, std::process::id()).detach().is_ok());
        }
    }
}
