//! The receiving programs in the kernel: loading them, attaching them to a cgroup, reading their maps. Knows no interface.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use libbpf_rs::{Link, MapCore, MapFlags, Object, OpenObject, ProgramMut};

use crate::config::Config;
use crate::object::{Aligned, finish, forget_idle, keep_alive, map, open, program, set, verified, without_refused};
use crate::open_before::{self, OpenBefore};
use crate::probe::has_tcx;
use crate::stats::{FlowSnapshot, Lacking, Totals, Verified};
use crate::wire;

/// What clang made of bpf/receive.bpf.c, by the number of its control in bpf/control.h.
static OBJECTS: [(u32, &Aligned<[u8]>); 2] = [
    (1, &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/receive_1.bpf.o")))),
    (5, &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/receive_5.bpf.o")))),
];

/// The loaded programs and their attachment to the cgroup; both end with this value, or with the process.
#[derive(Debug)]
pub(crate) struct Programs {
    object: Object,
    lacking: Vec<Lacking>,
    _links: Vec<Link>,
}

impl Programs {
    pub(crate) fn load(cgroup: &Path, config: &Config) -> Result<Programs> {
        let (object, lacking) = without_refused(&open_before::PROGRAMS, |left_out| load(config, left_out, false))?;
        let dir = File::open(cgroup).with_context(|| format!("{}: the cgroup cannot be opened", cgroup.display()))?;
        let attach = |name: &str| -> Result<Link> {
            program(&object, name)?.attach_cgroup(dir.as_raw_fd()).with_context(|| {
                format!(
                    "{}: the kernel does not attach `{name}` to this cgroup; it must be a cgroup v2 directory, and you need CAP_NET_ADMIN",
                    cgroup.display()
                )
            })
        };
        let links = vec![attach("receive")?, attach("connection")?, attach("released")?];
        set(&object, "members", &dir.as_raw_fd().to_ne_bytes())?;
        set(&object, ".data.group_id", &dir.metadata()?.ino().to_ne_bytes())?;
        keep_alive(&object)?;
        Ok(Programs { object, lacking, _links: links })
    }

    /// The egress program for tcx or for clsact.
    pub(crate) fn egress(&self, tcx: bool) -> Result<ProgramMut<'_>> {
        program(&self.object, if tcx { "transmit_tcx" } else { "transmit_clsact" })
    }

    /// Tells the clsact program, which the kernel keeps when we die, that we have not.
    pub(crate) fn keep_alive(&self) -> Result<()> {
        keep_alive(&self.object)
    }

    /// Programs that the kernel refused and that it goes on without.
    pub(crate) fn lacking(&self) -> &[Lacking] {
        &self.lacking
    }

    /// Adopts what `processes` had open when they joined the group.
    pub(crate) fn adopt(&self, open: &mut OpenBefore, processes: &[u32]) -> Result<()> {
        open.adopt(&self.object, processes)
    }

    pub(crate) fn forget_idle_paths(&self) -> Result<()> {
        forget_idle(&self.object, "paths", wire::path_last_data)
    }

    pub(crate) fn flows(&self) -> Result<Vec<FlowSnapshot>> {
        let map = map(&self.object, "snapshots")?;
        let now = wire::monotonic_now();
        // A flow may close between its key and its value.
        Ok(map
            .keys()
            .filter_map(|key| Some((u64::from_ne_bytes(key.as_slice().try_into().ok()?), map.lookup(&key, MapFlags::ANY).ok()??)))
            .filter_map(|(cookie, value)| wire::flow(cookie, &value, now))
            .collect())
    }

    pub(crate) fn totals(&self) -> Result<Totals> {
        let per_cpu =
            map(&self.object, "totals")?.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).context("the counters cannot be read")?;
        Ok(wire::totals(&per_cpu.unwrap_or_default()))
    }

    /// What loading the programs took the kernel's verifier.
    pub(crate) fn verified(&self) -> Vec<Verified> {
        verified(&self.object)
    }
}

/// The object in the kernel, attached to nothing; without the programs that are `left_out`. For `check`, with every program, also those that
/// are not for this kernel.
pub(crate) fn load(config: &Config, left_out: &[&str], testing: bool) -> Result<Object> {
    let (_, profile) = config.choice.receiving();
    let object = OBJECTS.iter().find(|(number, _)| *number == profile.number);
    let (_, object) = object.ok_or_else(|| anyhow!("no BPF object receives by `{}`", profile.name))?;
    let mut open = open("lowtide", &object.0)?;
    configure(&mut open, config)?;
    for mut program in open.progs_mut() {
        let wanted = match program.name().to_str() {
            Some("transmit_tcx") => has_tcx(),
            Some("transmit_clsact") => testing || !has_tcx(),
            Some("transmit_test") => testing,
            Some(name) if open_before::PROGRAMS.contains(&name) => (testing || config.joins) && !left_out.contains(&name),
            _ => true,
        };
        program.set_autoload(wanted);
    }
    finish(open)
}

fn configure(open: &mut OpenObject, config: &Config) -> Result<()> {
    let value = wire::group_config(config);
    for mut map in open.maps_mut() {
        if map.name().to_string_lossy().ends_with(".rodata.config") {
            return map.set_initial_value(&value).context("the configuration cannot be written into the BPF object");
        }
    }
    bail!("the BPF object has no configuration")
}
