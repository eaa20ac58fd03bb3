//! clsact filters that a killed run left on interfaces: who may have left some, and how the next run removes them. A tcx link
//! needs none of this, for the kernel closes it. Until removed, such a filter has fallen silent by itself (ALIVE_NS).

use std::fs;
use std::path::{Path, PathBuf};

use crate::owner::Owner;

/// One empty file a living owner of clsact filters, named after its process.
const DIRECTORY: &str = "/run/lowtide/clsact";

/// This process's own note; dropping it says that no filter was left.
#[derive(Debug)]
pub(crate) struct Note(PathBuf);

impl Note {
    /// Leaves the note. Without a writable /run filters still fall silent; they are only not removed.
    pub(crate) fn leave() -> Note {
        let note = Path::new(DIRECTORY).join(Owner::this().to_string());
        let _unwritable = fs::create_dir_all(DIRECTORY).and_then(|()| fs::write(&note, ""));
        Note(note)
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let _never_written = fs::remove_file(&self.0);
    }
}

/// The owners that left a note and are dead.
pub(crate) fn dead_owners() -> Vec<Owner> {
    let notes = fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
    notes.filter_map(|n| n.file_name().to_str()?.parse().ok()).filter(|owner: &Owner| !owner.is_alive()).collect()
}

/// Their filters are gone from every namespace we can see.
pub(crate) fn forget(owners: &[Owner]) {
    for owner in owners {
        let _gone = fs::remove_file(Path::new(DIRECTORY).join(owner.to_string()));
    }
}
