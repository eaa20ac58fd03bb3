//! What `run` manages: a command to come, a process, or a cgroup that is there. Knows no BPF.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use lowtide_kernel::cgroup;

use super::Args;

/// What was asked for, checked as far as it can be before anything is changed.
#[derive(Debug)]
pub enum What {
    Command(Vec<OsString>),
    Process(u32),
    /// A cgroup and how it was named.
    Cgroup(PathBuf, String),
}

impl What {
    pub fn of(args: &Args) -> anyhow::Result<What> {
        if let Some(pid) = args.pid {
            if !Path::new(&format!("/proc/{pid}")).exists() {
                bail!("--pid {pid}: there is no such process");
            }
            cgroup::may_manage(pid).with_context(|| format!("--pid {pid}"))?;
            if let Some(run) = cgroup::run_of(pid) {
                bail!(
                    "--pid {pid}: another run manages it already (process {run}), and nothing may be held back twice; end that run first"
                );
            }
            return Ok(What::Process(pid));
        }
        if let Some(path) = &args.cgroup {
            cgroup::Group::open(path).with_context(|| format!("--cgroup {}", path.display()))?;
            return Ok(What::Cgroup(path.clone(), path.display().to_string()));
        }
        let Some(unit) = &args.unit else { return Ok(What::Command(args.command.clone())) };
        if unit.is_empty() || unit.contains('/') {
            bail!("--unit {unit:?}: is no name of a unit; give one as in `systemctl status NAME.service`, or a path with --cgroup");
        }
        let root = cgroup::v2_root()?;
        // As systemctl has it, a name without a kind is a service's.
        match find(&root, unit).or_else(|| find(&root, &format!("{unit}.service"))) {
            Some(path) => {
                cgroup::Group::open(&path).with_context(|| format!("--unit {unit}"))?;
                Ok(What::Cgroup(path, unit.clone()))
            }
            None => bail!("--unit {unit}: no cgroup of this name below {}: is it running? (systemctl status {unit})", root.display()),
        }
    }

    /// For `status`, where nobody gave a name.
    pub fn short_name(&self) -> String {
        match self {
            What::Command(words) => {
                let program = words.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
                program.to_string_lossy().into_owned()
            }
            What::Process(pid) => process_name(*pid).unwrap_or_else(|| format!("pid {pid}")),
            What::Cgroup(_, named) => Path::new(named).file_name().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Command(words) => {
                write!(f, "{}", words.iter().map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" "))
            }
            What::Process(pid) => write!(f, "process {pid} ({})", process_name(*pid).unwrap_or_default()),
            What::Cgroup(_, named) => write!(f, "cgroup {named}"),
        }
    }
}

fn process_name(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|s| s.trim().to_owned())
}

/// The folder `name` somewhere below `folder`: a unit may lie in any slice.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|t| t.is_dir()) {
                continue;
            }
            if entry.file_name() == name {
                return Some(entry.path());
            }
            folders.push(entry.path());
        }
    }
    None
}

/// Where processes were before they were moved, to be put back.
#[derive(Debug, Default)]
pub struct Origins {
    root: PathBuf,
    of: HashMap<u32, PathBuf>,
}

impl Origins {
    /// Moves `pid` and its descendants by `join`, but those that another run manages.
    pub fn move_tree(pid: u32, join: impl Fn(u32) -> anyhow::Result<()>) -> anyhow::Result<Origins> {
        let mut origins = Origins { root: cgroup::of_process(pid)?, of: HashMap::new() };
        let mut waiting = vec![pid];
        let mut seen = HashSet::new();
        while let Some(next) = waiting.pop() {
            // One that is in a group already was born after the move into ours, or is another run's.
            if !seen.insert(next) || (next != pid && cgroup::run_of(next).is_some()) {
                continue;
            }
            let moved = cgroup::of_process(next).and_then(|from| join(next).map(|()| from));
            match moved {
                Ok(from) => drop(origins.of.insert(next, from)),
                Err(e) if next == pid => return Err(e),
                Err(_) => continue, // a descendant that has just ended
            }
            // Listed after the move: a child born before it is found here, one born after it is in the group already.
            waiting.extend(children(next));
        }
        Ok(origins)
    }

    /// Puts `pids` back: each where it was, one born meanwhile where the first was.
    pub fn restore(&self, pids: &[u32]) -> anyhow::Result<()> {
        for pid in pids {
            let folder = self.of.get(pid).unwrap_or(&self.root);
            match fs::write(folder.join("cgroup.procs"), pid.to_string()) {
                Err(_) if !Path::new(&format!("/proc/{pid}")).exists() => {}
                other => other.with_context(|| format!("cannot put process {pid} back into {}", folder.display()))?,
            }
        }
        Ok(())
    }
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|list| list.split_whitespace().filter_map(|n| n.parse().ok()).collect::<Vec<u32>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{self, Command};

    #[test]
    fn a_unit_is_found_in_whichever_slice_it_lies() {
        let root = tempfile::tempdir().expect("a folder");
        let unit = root.path().join("system.slice/backup.slice/restic.service");
        fs::create_dir_all(&unit).expect("made");
        assert_eq!(find(root.path(), "restic.service"), Some(unit));
        assert_eq!(find(root.path(), "borg.service"), None);
    }

    #[test]
    fn a_processs_children_are_found() {
        let mut child = Command::new("sleep").arg("10").spawn().expect("sleep starts");
        assert!(children(process::id()).contains(&child.id()));
        child.kill().expect("it lives");
        child.wait().expect("it ends");
    }

    #[test]
    fn a_command_is_called_by_its_file_name() {
        let what = What::Command(["/usr/bin/curl", "-O", "x"].map(OsString::from).to_vec());
        assert_eq!((what.short_name().as_str(), what.to_string().as_str()), ("curl", "/usr/bin/curl -O x"));
    }
}
