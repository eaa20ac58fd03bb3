//! cgroup v2 groups: where the hierarchy is mounted, a child of our own, and the remains of runs that died. Knows no BPF.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use nix::unistd::geteuid;

use crate::owner::Owner;

/// Names of our groups begin with this, then the process id of the owner.
const PREFIX: &str = "lowtide-";

/// A cgroup v2 directory. One made by [`Group::create`] is removed when dropped; one that was opened stays.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    owned: bool,
}

/// The mount point of the v2 hierarchy, of hybrid layouts too (`/sys/fs/cgroup/unified`).
///
/// # Errors
/// No v2 hierarchy is mounted, or /proc/mounts cannot be read.
pub fn v2_root() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").context("/proc/mounts cannot be read: is /proc mounted?")?;
    find_v2(&mounts).ok_or_else(|| {
        anyhow!(
            "no cgroup v2 hierarchy is mounted; mount one: mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified"
        )
    })
}

/// The first cgroup2 mount point in the text of /proc/mounts.
fn find_v2(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, point, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(point.replace("\\040", " ")))
    })
}

/// The v2 group that process `pid` is in now.
///
/// # Errors
/// No such process, or no v2 hierarchy.
pub fn of_process(pid: u32) -> Result<PathBuf> {
    let file = format!("/proc/{pid}/cgroup");
    let text = fs::read_to_string(&file).with_context(|| format!("{file}: no such process, or it has ended"))?;
    let inside =
        text.lines().find_map(|l| l.strip_prefix("0::/")).ok_or_else(|| anyhow!("{file}: process {pid} is in no cgroup v2 group"))?;
    Ok(v2_root()?.join(inside))
}

/// The process id of the run whose group process `pid` is in, if that run lives.
pub fn run_of(pid: u32) -> Option<u32> {
    let group = of_process(pid).ok()?;
    group.ancestors().find_map(owner).filter(|run| run.is_alive()).map(|run| run.pid)
}

impl Group {
    /// Makes a group of our own below the group this process is in, named after `name` and this process.
    ///
    /// # Errors
    /// No v2 hierarchy, or no permission to make a group in it.
    pub fn create(name: &str) -> Result<Group> {
        let parent = of_process(process::id()).or_else(|_| v2_root())?;
        let parent = parent.ancestors().find(|p| !is_ours(p)).map_or(parent.clone(), Path::to_path_buf);
        let path = (0..100u32)
            .map(|n| {
                let again = if n == 0 { String::new() } else { format!("-{n}") };
                parent.join(format!("{PREFIX}{}-{}{again}", Owner::this(), clean(name)))
            })
            .find(|path| !path.exists())
            .ok_or_else(|| anyhow!("{}: a hundred groups of this process exist already; end some of them", parent.display()))?;
        fs::create_dir(&path)
            .with_context(|| format!(
                "{}: the cgroup cannot be made; run as root (sudo), or in a group that is yours: systemd-run --user --scope -p Delegate=yes lowtide run …",
                path.display()
            ))?;
        Ok(Group { path, owned: true })
    }

    /// Takes an existing group; it is left in place when dropped.
    ///
    /// # Errors
    /// Not a cgroup v2 directory.
    pub fn open(path: &Path) -> Result<Group> {
        let full =
            if path.is_absolute() && path.exists() { path.to_path_buf() } else { v2_root()?.join(path.strip_prefix("/").unwrap_or(path)) };
        if !full.join("cgroup.procs").exists() {
            bail!("{}: not a cgroup v2 directory (it has no cgroup.procs); name one below {}", full.display(), v2_root()?.display());
        }
        // Links resolved, nobody can put another group in its place: the names in the hierarchy itself are the kernel's.
        let full = fs::canonicalize(&full).with_context(|| format!("{}: cannot be resolved", full.display()))?;
        owned_by(&full, geteuid().as_raw())?;
        Ok(Group { path: full, owned: false })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves process `pid` (all its threads) into the group; its future children follow.
    ///
    /// # Errors
    /// No such process, or no permission.
    pub fn join(&self, pid: u32) -> Result<()> {
        let file = self.path.join("cgroup.procs");
        fs::write(&file, pid.to_string()).with_context(|| {
            format!("{}: process {pid} cannot be moved into the group; is it alive and no kernel thread, are you root?", file.display())
        })
    }

    /// The processes in the group and in the groups below it.
    ///
    /// # Errors
    /// The group is gone.
    pub fn processes(&self) -> Result<Vec<u32>> {
        let file = self.path.join("cgroup.procs");
        fs::metadata(&file).with_context(|| format!("{}: the group is gone", file.display()))?;
        let (mut processes, mut rest) = (Vec::new(), vec![self.path.clone()]);
        while let Some(group) = rest.pop() {
            // A group below may go at any moment.
            processes
                .extend(fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default().lines().filter_map(|l| l.parse::<u32>().ok()));
            let below = fs::read_dir(&group).into_iter().flatten().flatten();
            rest.extend(below.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
        }
        Ok(processes)
    }
}

/// Whether a process may be managed by who runs this one: it is theirs, or they are root.
///
/// # Errors
/// It is somebody else's, or has ended.
pub fn may_manage(pid: u32) -> Result<()> {
    let path = format!("/proc/{pid}");
    let owner = fs::metadata(&path).with_context(|| format!("{path}: no such process, or it has ended"))?.uid();
    let user = geteuid().as_raw();
    if user != 0 && user != owner {
        bail!("process {pid} belongs to user {owner}, and you are user {user}: only its owner or root may manage it");
    }
    Ok(())
}

/// Attaching takes capabilities, which whoever may execute the file has: they must not reach the groups of others. A group is
/// theirs to whom its `cgroup.procs` belongs, as systemd delegates it.
fn owned_by(group: &Path, user: u32) -> Result<()> {
    if user == 0 {
        return Ok(());
    }
    let root = fs::canonicalize(v2_root()?)?;
    let owner = fs::metadata(group.join("cgroup.procs")).with_context(|| format!("{}: not a cgroup", group.display()))?.uid();
    if !group.starts_with(&root) || owner != user {
        bail!(
            "{}: this group belongs to user {owner}, and you are user {user}: only its owner or root may manage it (a group of your own: \
             systemd-run --user --scope -p Delegate=yes lowtide run …)",
            group.display()
        );
    }
    Ok(())
}

impl Drop for Group {
    /// Processes that outlive the run move to the parent, for a group can only be removed empty.
    fn drop(&mut self) {
        if self.owned {
            empty(&self.path);
            for _ in 0..50 {
                if !matches!(fs::remove_dir(&self.path), Err(e) if e.kind() == io::ErrorKind::ResourceBusy) {
                    return;
                }
                thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

fn clean(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' || c == '_' { c } else { '-' }).take(40).collect()
}

fn owner(path: &Path) -> Option<Owner> {
    path.file_name()?.to_str()?.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

fn is_ours(path: &Path) -> bool {
    owner(path).is_some()
}

fn empty(path: &Path) {
    let Some(parent) = path.parent() else { return };
    for pid in fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default().lines() {
        // A process that ended meanwhile needs no move.
        let _gone = fs::write(parent.join("cgroup.procs"), pid);
    }
}

/// Removes the groups whose owner is dead, wherever the run was started that left them. From inside a container the owners of
/// groups outside cannot be seen, and would seem dead: there, only those beside our own.
pub fn remove_leftovers() {
    let own = || of_process(process::id()).ok();
    if let Some(from) = if in_first_pid_namespace() { v2_root().ok() } else { own() } {
        remove_below(&from, in_first_pid_namespace());
    }
}

/// The first namespace's inode is the kernel's constant (PROC_PID_INIT_INO).
fn in_first_pid_namespace() -> bool {
    fs::metadata("/proc/self/ns/pid").is_ok_and(|m| m.ino() == 0xEFFF_FFFC)
}

fn remove_below(from: &Path, deep: bool) {
    let mut folders = vec![from.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
            let path = entry.path();
            match owner(&path) {
                Some(owner) if !owner.is_alive() => {
                    empty(&path);
                    // Another run may be removing it at the same moment.
                    let _busy = fs::remove_dir(&path);
                }
                None if deep => folders.push(path),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_v2_mount_is_found_in_hybrid_and_unified_layouts() {
        let hybrid = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
        assert_eq!(find_v2(hybrid), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(find_v2("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0"), Some(PathBuf::from("/sys/fs/cgroup")));
        assert_eq!(find_v2("tmpfs /sys/fs/cgroup tmpfs rw 0 0"), None);
    }

    #[test]
    fn a_group_is_its_owners_and_roots_and_nobody_elses() {
        let Ok(root) = v2_root() else { return };
        let owner = fs::metadata(root.join("cgroup.procs")).expect("it is there").uid();
        assert!(owned_by(&root, 0).is_ok());
        let refused = owned_by(&root, owner + 1).expect_err("it is another's");
        assert!(refused.to_string().contains(&format!("belongs to user {owner}, and you are user {}", owner + 1)), "{refused}");
        // A folder of the user's own that looks like a group, and is none.
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("cgroup.procs"), "").expect("written");
        let own = fs::metadata(folder.path()).expect("it is there").uid();
        assert!(own == 0 || owned_by(folder.path(), own).is_err());
    }

    #[test]
    fn a_group_names_its_owner_and_nothing_else_does() {
        assert_eq!(owner(Path::new("/x/lowtide-417.88-curl-https")), "417.88".parse().ok());
        assert_eq!(owner(Path::new("/x/lowtide-bench")), None);
        assert_eq!(owner(Path::new("/x/user.slice")), None);
        assert_eq!(clean("a b/../c"), "a-b-..-c");
    }

    #[test]
    fn groups_of_the_dead_are_removed_at_any_depth_and_those_of_the_living_are_not() {
        let root = tempfile::tempdir().expect("a folder");
        // The second is of a process that had this one's number.
        let dead = ["user.slice/session-3.scope/lowtide-4194305.7-curl".to_owned(), format!("lowtide-{}.1-x", process::id())];
        let alive = format!("session-4.scope/lowtide-{}-x", Owner::this());
        for group in dead.iter().chain([&alive]) {
            fs::create_dir_all(root.path().join(group)).expect("made");
        }
        remove_below(root.path(), false);
        assert!(root.path().join(&dead[0]).exists(), "it lies deeper");
        remove_below(root.path(), true);
        assert!(dead.iter().all(|dead| !root.path().join(dead).exists()) && root.path().join(alive).exists());
    }
}
