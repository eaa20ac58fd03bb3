//! Connections that are open already: in every network namespace of the group they are given the control, given back, taken from
//! runs that died. By BPF iterators over TCP sockets. Knows no cgroup.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};
use libbpf_rs::{Iter, MapCore, Object};

use crate::interfaces::inside;
use crate::load::{map, program, set};
use crate::send_load;
use crate::send_wire;

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

    /// Runs the iterator `program` over the TCP sockets of each.
    pub(crate) fn run(&self, object: &Object, program: &str) -> Result<()> {
        self.known.values().try_for_each(|namespace| inside(namespace, || sockets(object, program))?)
    }

    /// Sockets of runs that died get the machine's default.
    pub(crate) fn reclaim(&self, object: &Object) -> Result<()> {
        unregister_dead();
        set(object, ".data.listing", &1u64.to_ne_bytes())?;
        self.run(object, "reclaim")?;
        let dead = map(object, "dead_runs")?;
        for name in dead.keys().collect::<Vec<_>>() {
            if send_wire::owner(&name).is_none_or(lives) {
                dead.delete(&name)?;
            }
        }
        if dead.keys().next().is_none() {
            return Ok(());
        }
        set(object, ".data.listing", &0u64.to_ne_bytes())?;
        self.known.values().try_for_each(|namespace| {
            inside(namespace, || {
                let default = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_else(|_| "reno".to_owned());
                set(object, ".data.fallback", &send_wire::name(default.trim()))?;
                sockets(object, "reclaim")
            })?
        })
    }
}

fn lives(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Before Linux 6.4 a control stays registered when its owner is killed.
fn unregister_dead() {
    if !send_load::has_links() {
        let owner = |control: &[u8]| control.windows(send_wire::NAME_BYTES).find_map(send_wire::owner);
        send_load::unregister(|control| owner(control).is_some_and(|pid| !lives(pid)));
    }
}

/// The inodes of the sockets that `processes` have open.
pub(crate) fn sockets_of(processes: &[u32]) -> Vec<u64> {
    let open = processes.iter().flat_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten());
    open.filter_map(|fd| fs::read_link(fd.path()).ok()?.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()).collect()
}

fn sockets(object: &Object, name: &str) -> Result<()> {
    let link = program(object, name)?.attach().with_context(|| format!("the iterator `{name}` cannot be started"))?;
    Iter::new(&link)?.read_to_end(&mut Vec::new()).with_context(|| format!("the iterator `{name}` failed"))?;
    Ok(())
}

/// What the iterator `name` writes about the sockets of the socket storage `storage`.
pub(crate) fn read_storage(object: &Object, name: &str, storage: &str) -> Result<Vec<u8>> {
    let link = program(object, name)?.attach_iter(map(object, storage)?.as_fd())?;
    let mut bytes = Vec::new();
    Iter::new(&link)?.read_to_end(&mut bytes).with_context(|| format!("the iterator `{name}` failed"))?;
    Ok(bytes)
}
