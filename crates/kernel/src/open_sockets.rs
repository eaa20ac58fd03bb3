//! TCP sockets that are open already: in which network namespaces the group's processes have theirs, a BPF iterator over them, and which
//! sockets are those processes'. Knows no cgroup and no control.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;

use anyhow::{Context, Result};
use libbpf_rs::{Iter, MapCore, MapFlags, Object};

use crate::interfaces::inside;
use crate::object::{map, program};

/// The network namespaces that the group's processes have used, by inode.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    known: BTreeMap<u64, File>,
}

impl Namespaces {
    /// Ours and those of `processes`; others that were known before are let go of, for to hold one keeps it alive.
    pub(crate) fn follow(&mut self, processes: &[u32]) {
        let paths = processes.iter().map(|pid| format!("/proc/{pid}/ns/net")).chain(["/proc/self/ns/net".to_owned()]);
        // A process may end at any moment.
        let now: BTreeMap<u64, String> = paths.filter_map(|path| Some((fs::metadata(&path).ok()?.ino(), path))).collect();
        self.known.retain(|inode, _| now.contains_key(inode));
        for (inode, path) in now {
            if let (false, Ok(file)) = (self.known.contains_key(&inode), File::open(path)) {
                self.known.insert(inode, file);
            }
        }
    }

    /// What the iterator `program` writes about the TCP sockets of each.
    pub(crate) fn run(&self, object: &Object, program: &str) -> Result<Vec<u8>> {
        self.each(|| sockets(object, program))
    }

    /// What `work` returns in each.
    pub(crate) fn each(&self, work: impl Fn() -> Result<Vec<u8>> + Sync) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        for namespace in self.known.values() {
            all.extend(inside(namespace, &work)??);
        }
        Ok(all)
    }
}

/// What the iterator `name` writes about the TCP sockets of the network namespace that we are in.
pub(crate) fn sockets(object: &Object, name: &str) -> Result<Vec<u8>> {
    let link = program(object, name)?.attach().with_context(|| format!("the iterator `{name}` cannot be started"))?;
    let mut bytes = Vec::new();
    Iter::new(&link)?.read_to_end(&mut bytes).with_context(|| format!("the iterator `{name}` failed"))?;
    Ok(bytes)
}

/// The sockets that the group's processes have open, as the map `joined` of an object knows them: by inode.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    known: BTreeSet<u64>,
}

impl Joined {
    /// Tells the map which they are now.
    pub(crate) fn tell(&mut self, object: &Object, processes: &[u32]) -> Result<()> {
        let (now, joined) = (sockets_of(processes), map(object, "joined")?);
        for gone in self.known.difference(&now) {
            joined.delete(&gone.to_ne_bytes())?;
        }
        for inode in now.difference(&self.known) {
            joined.update(&inode.to_ne_bytes(), &[1], MapFlags::ANY).context("too many sockets are open")?;
        }
        self.known = now;
        Ok(())
    }
}

/// The inodes of the sockets that `processes` have open.
fn sockets_of(processes: &[u32]) -> BTreeSet<u64> {
    let open = processes.iter().flat_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten());
    open.filter_map(|fd| fs::read_link(fd.path()).ok()?.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_processs_sockets_are_known_by_their_inodes() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is up");
        let inode = fs::metadata(format!("/proc/self/fd/{}", listener.as_raw_fd())).expect("it is open").ino();
        assert!(sockets_of(&[std::process::id()]).contains(&inode));
        assert!(sockets_of(&[4_194_305]).is_empty(), "one more than the largest pid (proc(5))");
    }
}
