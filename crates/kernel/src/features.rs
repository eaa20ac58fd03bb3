//! What this machine has of what the receiver needs, and how to get what is missing. Changes nothing.

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::cgroup;
use crate::probe;

/// One thing the receiver needs or can use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Feature {
    /// What it is.
    pub name: &'static str,
    /// Whether it is here.
    pub found: bool,
    /// Without it nothing works; otherwise something is done another way.
    pub required: bool,
    /// What was found, or why it counts as missing.
    pub detail: String,
    /// How to get it, or what is done without it.
    pub remedy: &'static str,
}

/// Everything [`Features::detect`] looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Features {
    /// In the order they are looked at.
    pub list: Vec<Feature>,
}

const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

impl Features {
    /// Looks at the running machine.
    pub fn detect() -> Features {
        Features { list: vec![btf(), cgroup_v2(), bpf_capability(), perfmon(), net_admin(), tcx(), timestamps(), jit()] }
    }

    /// Whether nothing required is missing.
    pub fn ready(&self) -> bool {
        self.missing().next().is_none()
    }

    /// What is required and missing.
    pub fn missing(&self) -> impl Iterator<Item = &Feature> {
        self.list.iter().filter(|f| f.required && !f.found)
    }
}

fn btf() -> Feature {
    let path = "/sys/kernel/btf/vmlinux";
    Feature {
        name: "BTF",
        found: Path::new(path).exists(),
        required: true,
        detail: path.to_owned(),
        remedy: "run a kernel built with CONFIG_DEBUG_INFO_BTF=y (every current distribution's is)",
    }
}

fn cgroup_v2() -> Feature {
    let root = cgroup::v2_root();
    Feature {
        name: "cgroup v2",
        found: root.is_ok(),
        required: true,
        detail: root.map_or_else(|e| e.to_string(), |p| p.display().to_string()),
        remedy: "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified",
    }
}

/// Capabilities in a user namespace of one's own (unshare -r, rootless containers) do not reach BPF or the machine's cgroups.
fn in_first_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.is_empty() || map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn effective_capabilities() -> u64 {
    if !in_first_user_namespace() {
        return 0;
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find_map(|l| l.strip_prefix("CapEff:")).and_then(|v| u64::from_str_radix(v.trim(), 16).ok()).unwrap_or(0)
}

fn has(capability: u32) -> bool {
    effective_capabilities() >> capability & 1 == 1
}

fn may(found: bool, what: &str) -> String {
    match (found, in_first_user_namespace()) {
        (true, _) => format!("may {what}"),
        (false, true) => format!("may not {what}"),
        (false, false) => format!("may not {what}: root only in a user namespace"),
    }
}

/// For who is not root. The group of a login session is root's; systemd gives a user one on demand.
const CAPABILITIES: &str = "run with sudo, or: setcap cap_bpf,cap_net_admin,cap_perfmon+ep on the binary, and a group of one's own: \
                            systemd-run --user --scope -p Delegate=yes lowtide run …";

fn bpf_capability() -> Feature {
    let found = has(CAP_BPF) || has(CAP_SYS_ADMIN);
    Feature { name: "CAP_BPF", found, required: true, detail: may(found, "load BPF programs"), remedy: CAPABILITIES }
}

/// The receiver looks at the kernel's own TCP socket (`bpf_skc_to_tcp_sock`).
fn perfmon() -> Feature {
    let found = has(CAP_PERFMON) || has(CAP_SYS_ADMIN);
    Feature { name: "CAP_PERFMON", found, required: true, detail: may(found, "read kernel structures in BPF"), remedy: CAPABILITIES }
}

fn net_admin() -> Feature {
    let found = has(CAP_NET_ADMIN);
    Feature { name: "CAP_NET_ADMIN", found, required: true, detail: may(found, "attach to interfaces"), remedy: CAPABILITIES }
}

fn tcx() -> Feature {
    let (major, minor) = probe::version();
    Feature {
        name: "tcx",
        found: probe::has_tcx(),
        required: false,
        detail: format!("Linux {major}.{minor}; tcx came with 6.6"),
        remedy: "not needed: the clsact queue discipline is used instead",
    }
}

fn timestamps() -> Feature {
    let value = fs::read_to_string("/proc/sys/net/ipv4/tcp_timestamps").unwrap_or_default();
    let value = value.trim().to_owned();
    Feature {
        name: "TCP timestamps",
        found: value == "1" || value == "2",
        required: false,
        detail: format!("net.ipv4.tcp_timestamps = {}", if value.is_empty() { "unknown" } else { &value }),
        remedy: "sysctl -w net.ipv4.tcp_timestamps=1; without it delays are measured by the window's edge, less exactly",
    }
}

fn jit() -> Feature {
    let value = fs::read_to_string("/proc/sys/net/core/bpf_jit_enable").unwrap_or_default();
    Feature {
        name: "BPF JIT",
        found: value.trim() != "0",
        required: false,
        detail: format!(
            "net.core.bpf_jit_enable = {}",
            if value.is_empty() { "not shown in this network namespace" } else { value.trim() }
        ),
        remedy: "sysctl -w net.core.bpf_jit_enable=1; without it each packet costs several times more",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feature(name: &'static str, found: bool, required: bool) -> Feature {
        Feature { name, found, required, detail: "d".to_owned(), remedy: "r" }
    }

    #[test]
    fn only_what_is_required_keeps_a_machine_from_being_ready() {
        let machine = |list: Vec<Feature>| Features { list };
        assert!(machine(vec![feature("a", true, true), feature("b", false, false)]).ready());
        let lacking =
            machine(vec![feature("a", true, true), feature("b", false, false), feature("c", false, true), feature("d", false, true)]);
        assert!(!lacking.ready());
        assert_eq!(lacking.missing().map(|f| f.name).collect::<Vec<_>>(), ["c", "d"]);
    }

    /// What this machine has can be looked at another way: its BTF is read, and the capabilities are those of /proc/self/status.
    #[test]
    fn what_is_found_is_there_and_each_feature_says_what_to_do() {
        let features = Features::detect();
        assert!(features.list.iter().all(|f| !f.detail.is_empty() && !f.remedy.is_empty()));
        let names: std::collections::BTreeSet<_> = features.list.iter().map(|f| f.name).collect();
        assert_eq!(names.len(), features.list.len(), "two features have one name");
        let btf = features.list.iter().find(|f| f.name == "BTF").expect("looked at");
        assert_eq!(btf.found, fs::metadata("/sys/kernel/btf/vmlinux").is_ok_and(|file| file.len() > 0));
    }
}
