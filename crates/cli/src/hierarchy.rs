//! The cgroup v2 hierarchy where no mount shows it, as under `ip netns exec`, which lays a new /sys over the old: mounted at a
//! place of our own for as long as a run needs it.

use std::fs;
use std::path::Path;

use lowtide_kernel::cgroup;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::Uid;

const PLACE: &str = "/run/lowtide/cgroup";

/// The mount; the last run to end takes it away.
#[must_use]
pub struct Hierarchy(());

/// Makes the hierarchy reachable. Where that fails `doctor`'s explanation follows anyway, so nothing is said here.
pub fn reach() -> Hierarchy {
    if cgroup::v2_root().is_err() && Uid::effective().is_root() && fs::create_dir_all(PLACE).is_ok() {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let _ = mount(Some("none"), PLACE, Some("cgroup2"), flags, None::<&str>);
    }
    Hierarchy(())
}

impl Drop for Hierarchy {
    fn drop(&mut self) {
        if cgroup::v2_root().is_ok_and(|root| root == Path::new(PLACE)) && !in_use() {
            let _ = umount2(PLACE, MntFlags::MNT_DETACH);
            let _ = fs::remove_dir(PLACE);
        }
    }
}

/// Whether another run has a group, which it could not remove without the mount.
fn in_use() -> bool {
    let entries = fs::read_dir(PLACE).into_iter().flatten().flatten();
    entries.into_iter().any(|e| e.file_name().to_string_lossy().starts_with("lowtide-"))
}
