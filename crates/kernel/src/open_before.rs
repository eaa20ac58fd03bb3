//! Downloads of connections that were open when their process joined the group (`--pid`): the cgroups that they were made in get the program
//! that sees their packets, then an iterator adopts them. Knows no packet.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use libbpf_rs::{Link, MapCore, MapFlags, Object};

use crate::cgroup;
use crate::object::{map, program, set};
use crate::open_sockets::{Joined, Namespaces};

/// The programs that only this has use for.
pub(crate) const PROGRAMS: [&str; 2] = ["receive_joined", "open_before"];
/// The iterator.
const FINDS: &str = "open_before";
/// What goes to a cgroup that they were made in. The second is the group's own: it looks for nothing but what is kept with a socket.
const SEES: [&str; 2] = ["receive_joined", "released"];
/// `MAX_DEPTH` of bpf/owners.h.
const DEPTH: usize = 32;

/// The programs at the cgroups of such connections.
#[derive(Debug, Default)]
pub(crate) struct OpenBefore {
    sockets: Joined,
    namespaces: Namespaces,
    covers: Vec<Cover>,
    /// Chains of cgroups that were covered, or could not be.
    tried: BTreeSet<Vec<u64>>,
}

/// A cgroup that has them: its id, then those of the cgroups above it.
#[derive(Debug)]
struct Cover {
    ids: Vec<u64>,
    _links: Vec<Link>,
}

impl OpenBefore {
    /// Adopts what `processes` have open and the group has not adopted yet.
    pub(crate) fn adopt(&mut self, object: &Object, processes: &[u32]) -> Result<()> {
        self.sockets.tell(object, processes)?;
        self.namespaces.follow(processes);
        set(object, ".data.listing", &1u64.to_ne_bytes())?;
        let mut told = chains(&self.namespaces.run(object, FINDS)?);
        told.retain(|ids| !self.tried.contains(ids));
        if told.is_empty() {
            return Ok(());
        }
        for ids in &told {
            self.cover(object, ids)?;
        }
        self.tried.extend(told);
        set(object, ".data.listing", &0u64.to_ne_bytes())?;
        self.namespaces.run(object, FINDS).map(drop)
    }

    /// Attaches to the first of these cgroups, each below the next, that is there and takes the programs. If none does, the iterator counts.
    fn cover(&mut self, object: &Object, ids: &[u64]) -> Result<()> {
        let covered = map(object, "covered")?;
        if self.has(ids) {
            return Ok(());
        }
        let Some((at, links)) = ids.iter().enumerate().find_map(|(at, id)| Some((at, attach(object, &find(*id)?).ok()?))) else {
            return Ok(());
        };
        let ids = ids[at..].to_vec();
        covered.update(&ids[0].to_ne_bytes(), &[1], MapFlags::ANY)?;
        for below in self.add(Cover { ids, _links: links }) {
            covered.delete(&below.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Whether packets of a socket that was made in the first of these cgroups are seen.
    fn has(&self, ids: &[u64]) -> bool {
        self.covers.iter().any(|cover| ids.contains(&cover.ids[0]))
    }

    /// Adds one. Those below it go, for they would show its packets twice; returns their ids.
    fn add(&mut self, new: Cover) -> Vec<u64> {
        let below: Vec<Cover> = self.covers.extract_if(.., |cover| cover.ids.contains(&new.ids[0])).collect();
        self.covers.push(new);
        below.iter().map(|cover| cover.ids[0]).collect()
    }
}

fn attach(object: &Object, cgroup: &Path) -> Result<Vec<Link>> {
    let dir = File::open(cgroup)?;
    SEES.iter().map(|name| Ok(program(object, name)?.attach_cgroup(dir.as_raw_fd())?)).collect()
}

/// The different chains of ids in what the iterator wrote, each `DEPTH` numbers, those at its end zero.
fn chains(bytes: &[u8]) -> BTreeSet<Vec<u64>> {
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
    bytes.chunks_exact(8 * DEPTH).map(|chain| chain.chunks_exact(8).map(number).take_while(|id| *id != 0).collect()).collect()
}

/// The directory of the cgroup with that id, which is its inode. None: it was removed, though sockets live that were made in it, or it is not
/// below what we can see.
fn find(id: u64) -> Option<PathBuf> {
    let mut folders = vec![cgroup::v2_root().ok()?];
    while let Some(folder) = folders.pop() {
        if fs::metadata(&folder).is_ok_and(|m| m.ino() == id) {
            return Some(folder);
        }
        let below = fs::read_dir(&folder).into_iter().flatten().flatten();
        folders.extend(below.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_ends_at_its_first_zero_and_each_is_told_once() {
        let chain = |ids: &[u64]| (0..DEPTH).flat_map(|at| ids.get(at).copied().unwrap_or(0).to_ne_bytes()).collect::<Vec<u8>>();
        let told = [chain(&[30, 20, 1]), chain(&[1]), chain(&[30, 20, 1])].concat();
        assert_eq!(chains(&told).into_iter().collect::<Vec<_>>(), [vec![1], vec![30, 20, 1]]);
        assert_eq!(chains(&[]).len(), 0);
    }

    #[test]
    fn no_cgroup_is_covered_below_another() {
        let cover = |ids: &[u64]| Cover { ids: ids.to_vec(), _links: Vec::new() };
        let mut open = OpenBefore::default();
        assert!(open.add(cover(&[30, 20, 1])).is_empty() && open.add(cover(&[50, 1])).is_empty());
        assert!(open.has(&[30, 20, 1]) && open.has(&[40, 30, 20, 1]) && !open.has(&[20, 1]));
        assert_eq!(open.add(cover(&[20, 1])), [30], "its packets come by at the one above it");
        assert!(open.has(&[30, 20, 1]) && open.has(&[50, 1]) && open.covers.len() == 2);
    }

    #[test]
    fn a_cgroup_is_found_by_its_id_and_one_that_is_not_there_is_not() {
        let Ok(root) = cgroup::v2_root() else { return lowtide_testing::skip("the search for a cgroup", "no cgroup v2 is mounted") };
        let id = fs::metadata(&root).expect("it is mounted").ino();
        assert_eq!((find(id), find(u64::MAX)), (Some(root), None));
    }
}
