//! Connections that send by the control of a run that died: they get the machine's default. And what an iterator tells of those that
//! send by ours. Knows no cgroup.

use std::fs;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{Context, Result};
use libbpf_rs::{Iter, MapCore, Object};

use crate::object::{map, program, set};
use crate::open_sockets::{Namespaces, sockets};
use crate::probe::has_control_links;
use crate::send_load;
use crate::send_wire;

/// Sockets in `namespaces` of runs that died get the machine's default.
pub(crate) fn reclaim(namespaces: &Namespaces, object: &Object) -> Result<()> {
    set(object, ".data.listing", &1u64.to_ne_bytes())?;
    namespaces.run(object, "reclaim")?;
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
    namespaces
        .each(|| {
            let default = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_else(|_| "reno".to_owned());
            set(object, ".data.fallback", &send_wire::name(default.trim()))?;
            sockets(object, "reclaim")
        })
        .map(drop)
}

fn lives(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Before Linux 6.4 a control stays registered when its owner is killed.
pub(crate) fn unregister_dead() {
    if !has_control_links() {
        let owner = |control: &[u8]| control.windows(send_wire::NAME_BYTES).find_map(send_wire::owner);
        send_load::unregister(|control| owner(control).is_some_and(|pid| !lives(pid)));
    }
}

/// What the iterator `name` writes about the sockets of the socket storage `storage`.
pub(crate) fn read_storage(object: &Object, name: &str, storage: &str) -> Result<Vec<u8>> {
    let link = program(object, name)?.attach_iter(map(object, storage)?.as_fd())?;
    let mut bytes = Vec::new();
    Iter::new(&link)?.read_to_end(&mut bytes).with_context(|| format!("the iterator `{name}` failed"))?;
    Ok(bytes)
}
