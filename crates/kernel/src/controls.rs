//! Congestion controls for the whole machine: registered under their own names, pinned so that they outlive who loaded them, for
//! sysctl, `ip route … congctl` and TCP_CONGESTION. Knows no group.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use libbpf_rs::{Link, Object};
use lowtide_window::Profile;

use crate::interfaces::inside;
use crate::open_sockets::sockets;
use crate::probe::has_control_links;
use crate::send_load;
use crate::send_wire::{self, Settings};
use crate::wire;

/// Where registrations are pinned.
const PINS: &str = "/sys/fs/bpf/lowtide";

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// A control that can be loaded.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its name in the kernel.
    pub name: &'static str,
    /// What it is.
    pub says: &'static str,
    profile: &'static str,
    alone: bool,
}

/// Every one.
pub static KNOWN: [Known; 7] = [
    Known {
        name: "lowtide",
        says: "what `lowtide run` uses: LEDBAT++ with the target min(60 ms, base RTT), one window for all connections to an address",
        profile: "ledbat_pp-enhanced",
        alone: false,
    },
    Known {
        name: "lt_ledbat_pp",
        says: "LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus-01), each connection for itself",
        profile: "ledbat_pp",
        alone: true,
    },
    Known {
        name: "lt_enhanced",
        says: "LEDBAT++ with the target min(60 ms, base RTT) (Bagnulo 2023 sec. 7), each connection for itself",
        profile: "ledbat_pp-enhanced",
        alone: true,
    },
    Known { name: "lt_ledbat", says: "LEDBAT (RFC 6817), target 100 ms", profile: "ledbat", alone: true },
    Known { name: "lt_tcp_lp", says: "TCP-LP (RFC 6297 sec. 4.1), which Linux's `lp` is not", profile: "tcp_lp", alone: true },
    Known { name: "lt_lowtide", says: "our own, which paces (docs/algorithms/lowtide.md)", profile: "lowtide", alone: true },
    Known { name: "lt_nice", says: "TCP-NICE (Venkataramani 2002), to one segment", profile: "tcp_nice", alone: true },
];

/// A control that is registered; dropped, it is taken back.
#[derive(Debug)]
pub struct Held {
    _link: Link,
    _object: Object,
}

impl Known {
    /// The control of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn by_name(name: &str) -> Result<&'static Known> {
        let known = || KNOWN.iter().map(|k| k.name).collect::<Vec<_>>().join(", ");
        KNOWN.iter().find(|k| k.name == name).with_context(|| format!("there is no control `{name}`; there are: {}", known()))
    }

    /// Whether the kernel knows it now.
    pub fn is_loaded(&self) -> bool {
        fs::read_to_string(AVAILABLE).is_ok_and(|all| all.split_whitespace().any(|name| name == self.name))
    }

    /// Whether new connections of this network namespace get it.
    pub fn is_default(&self) -> bool {
        fs::read_to_string(DEFAULT).is_ok_and(|name| name.trim() == self.name)
    }

    /// Registers it. False if it was there already.
    ///
    /// # Errors
    /// The kernel refuses it, or there is no place to pin it.
    pub fn load(&self) -> Result<bool> {
        if self.is_loaded() {
            return Ok(false);
        }
        // Before Linux 6.4 a registration stays without a pin.
        if has_control_links() {
            has_bpffs()?;
            fs::create_dir_all(PINS).with_context(|| format!("{PINS}: cannot be made"))?;
            let _stale = fs::remove_file(self.pin());
        }
        let (mut object, _unpaced) = send_load::load_control(&self.settings())?;
        let mut link = send_load::register(&mut object).with_context(|| format!("the kernel does not register `{}`", self.name))?;
        if has_control_links() {
            link.pin(self.pin()).with_context(|| format!("{}: cannot be pinned", self.pin().display()))?;
        }
        link.disconnect(); // it stays when we end
        Ok(true)
    }

    /// Registers it for as long as what is returned lives, and for connections that outlive it; nothing if it was there already.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn hold(&self) -> Result<Option<Held>> {
        if self.is_loaded() {
            return Ok(None);
        }
        let (mut object, _unpaced) = send_load::load_control(&self.settings())?;
        let link = send_load::register(&mut object).with_context(|| format!("the kernel does not register `{}`", self.name))?;
        Ok(Some(Held { _link: link, _object: object }))
    }

    /// Takes it back. False if it was not there.
    ///
    /// # Errors
    /// Sockets use it, it is the default here, or somebody else loaded it.
    pub fn unload(&self) -> Result<bool> {
        if !self.is_loaded() {
            return Ok(false);
        }
        if self.is_default() {
            bail!("`{}` is the default here: choose another first, as in: sysctl -w net.ipv4.tcp_congestion_control=cubic", self.name);
        }
        let users = self.users()?;
        if !users.is_empty() {
            let shown = users.iter().take(10).map(|(local, remote)| format!("\n  {local} → {remote}")).collect::<String>();
            bail!("`{}` is in use by {} socket(s); end them first:{shown}", self.name, users.len());
        }
        if has_control_links() {
            fs::remove_file(self.pin()).with_context(|| {
                format!(
                    "{}: cannot be removed: `{}` was not loaded by `lowtide cc load`, or in another mount namespace",
                    self.pin().display(),
                    self.name
                )
            })?;
        } else {
            send_load::unregister(|control| send_wire::has_name(control, self.name));
        }
        Ok(true)
    }

    /// Sockets that have it, in every network namespace that a process we can see is in: both ends' addresses.
    ///
    /// # Errors
    /// The kernel refuses the iterator.
    pub fn users(&self) -> Result<Vec<(SocketAddr, SocketAddr)>> {
        let object = send_load::load(&self.settings(), |program| program == "users")?;
        let mut bytes = Vec::new();
        let mut seen = Vec::new();
        let processes = fs::read_dir("/proc")?.flatten().map(|e| e.path().join("ns/net"));
        for path in [PathBuf::from("/proc/self/ns/net")].into_iter().chain(processes) {
            // A process may end at any moment.
            let (Ok(meta), Ok(namespace)) = (fs::metadata(&path), File::open(&path)) else { continue };
            if seen.contains(&meta.ino()) {
                continue;
            }
            seen.push(meta.ino());
            bytes.extend(inside(&namespace, || sockets(&object, "users"))??);
        }
        Ok(send_wire::snapshots(&bytes, wire::monotonic_now()).into_iter().map(|s| (s.local, s.remote)).collect())
    }

    fn pin(&self) -> PathBuf {
        Path::new(PINS).join(self.name)
    }

    fn settings(&self) -> Settings<'static> {
        Settings { name: self.name, target_ns: 0, profile: self.profile(), cgroup: 0, owned: false, alone: self.alone, paces: true }
    }

    fn profile(&self) -> &'static Profile {
        lowtide_window::by_name(self.profile).unwrap_or_else(|e| unreachable!("a test names every profile: {e}"))
    }
}

/// A pin needs a BPF file system.
fn has_bpffs() -> Result<()> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let is_it = |line: &str| line.split(' ').nth(1) == Some("/sys/fs/bpf") && line.split(' ').nth(2) == Some("bpf");
    if mounts.lines().any(is_it) {
        return Ok(());
    }
    bail!("/sys/fs/bpf: no BPF file system is mounted, which keeps a control when this command has ended: mount -t bpf bpf /sys/fs/bpf")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_the_kernel_and_name_profiles_that_there_are() {
        for known in KNOWN {
            assert!(known.name.len() < send_wire::NAME_BYTES && known.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
            assert_eq!(known.profile().name, known.profile);
        }
        assert!(Known::by_name("cubic").expect_err("not ours").to_string().contains("lt_ledbat_pp"));
    }
}
