//! Files as they are offered and as they arrive: names that stay below a folder, parts that are continued, nothing overwritten.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, Flock, FlockArg, RenameFlags, renameat2};
use sha2::{Digest, Sha256};

use super::messages::{Entry, Have, MOST_FILES};

/// What an unfinished file is called beside its place: `.NAME` and this.
const PART: &str = ".lowtide-part";
/// Bytes of a name at most (NAME_MAX).
const LONGEST_NAME: usize = 255;

/// What is offered.
#[derive(Default)]
pub struct Offered {
    /// Files, and where each is; standard input is nowhere.
    pub files: Vec<(Entry, Option<PathBuf>)>,
    /// Links, devices, sockets, unfinished files and the like, which are not sent.
    pub left_out: Vec<PathBuf>,
}

/// What is to be offered of `path`; standard input (-) as `name`.
///
/// # Errors
/// It is not there, cannot be read, is unfinished itself, or is neither a file nor a folder.
pub fn offer(path: &Path, name: &str) -> Result<Offered> {
    let mut offered = Offered::default();
    if path == Path::new("-") {
        offered.files.push((Entry { path: name.to_owned(), bytes: None }, None));
        return Ok(offered);
    }
    let whole = path.canonicalize().with_context(|| path.display().to_string())?;
    // A link is stored under its own name.
    let name = path.file_name().or(whole.file_name()).with_context(|| format!("{}: has no name to be stored under", path.display()))?;
    ensure!(
        !whole.is_file() || !is_part(name),
        "{}: is the unfinished part of a transfer; rename it to send it nevertheless",
        path.display()
    );
    walk(&whole, Path::new(name), &mut offered)?;
    let files = offered.files.len();
    ensure!(
        whole.is_dir() || files > 0,
        "{0}: is neither a file nor a folder; what can be read of it is sent by: lowtide utp send - HOST:PORT < {0}",
        path.display()
    );
    ensure!(files > 0, "{}: no files in it", path.display());
    ensure!(
        files <= MOST_FILES,
        "{0}: {files} files in it, at most {MOST_FILES} go at once; send its folders one by one, or an archive: tar c {0} | lowtide utp send -",
        path.display()
    );
    Ok(offered)
}

/// Looks at an offer before any file is looked up.
///
/// # Errors
/// It has too many files, or one twice.
pub fn check(offered: &[Entry]) -> Result<()> {
    ensure!(offered.len() <= MOST_FILES, "{} files are offered, at most {MOST_FILES} are taken at once", offered.len());
    let mut seen = HashSet::with_capacity(offered.len());
    match offered.iter().find(|entry| !seen.insert(&entry.path)) {
        Some(entry) => bail!("{:?}: offered twice", entry.path),
        None => Ok(()),
    }
}

fn walk(at: &Path, name: &Path, offered: &mut Offered) -> Result<()> {
    let about = || at.display().to_string();
    let kind = at.symlink_metadata().with_context(about)?;
    if kind.is_dir() {
        let mut inside = std::fs::read_dir(at).and_then(Iterator::collect::<Result<Vec<_>, _>>).with_context(about)?;
        inside.sort_by_key(std::fs::DirEntry::file_name);
        return inside.iter().try_for_each(|entry| walk(&entry.path(), &name.join(entry.file_name()), offered));
    }
    // Links lead elsewhere, devices have no end, and an unfinished file would be taken for the receiver's own.
    if kind.is_file() && !name.file_name().is_some_and(is_part) {
        let path = name.to_str().with_context(|| format!("{}: its name is not UTF-8; rename it or move it away", at.display()))?.to_owned();
        offered.files.push((Entry { path, bytes: Some(kind.len()) }, Some(at.to_owned())));
    } else {
        offered.left_out.push(at.to_owned());
    }
    Ok(())
}

/// Where an offered path lies below `root`: never outside it.
///
/// # Errors
/// It would, or it names no file.
pub fn place(root: &Path, path: &str) -> Result<PathBuf> {
    let parts: Vec<Component<'_>> = Path::new(path).components().collect();
    let plain = !path.is_empty() && path.len() < 4096 && parts.iter().all(|part| matches!(part, Component::Normal(_)));
    ensure!(plain && !path.contains('\0') && !path.ends_with('/'), "{path:?}: refused, a path must stay inside the folder");
    let whole = root.join(path);
    ensure!(!whole.file_name().is_some_and(is_part), "{path:?}: refused, unfinished files are called so");
    // A link among the folders that are there already may lead outside.
    let there = whole.ancestors().skip(1).find(|folder| folder.symlink_metadata().is_ok()).unwrap_or(root);
    let real = |path: &Path| path.canonicalize().with_context(|| path.display().to_string());
    ensure!(real(there)?.starts_with(real(root)?), "{path:?}: refused, a link in it leads outside the folder");
    Ok(whole)
}

/// Somebody else is receiving the file.
#[derive(Debug, thiserror::Error)]
#[error("{0}: is being received already")]
pub struct Busy(String);

/// Where `entry` belongs below `root`, and what it is called until it is complete.
fn places(root: &Path, entry: &Entry, overwrite: bool) -> Result<(PathBuf, PathBuf)> {
    let place = place(root, &entry.path)?;
    let taken = place.symlink_metadata();
    ensure!(overwrite || taken.is_err(), "{}: is there already (--overwrite replaces it)", place.display());
    ensure!(taken.map_or(true, |taken| !taken.is_dir()), "{}: is a folder", place.display());
    let part = place.with_file_name(part_name(&place.file_name().unwrap_or_default().to_string_lossy()));
    ensure!(part.symlink_metadata().map_or(true, |part| part.is_file()), "{}: is no file", part.display());
    Ok((place, part))
}

/// Whether that is what an unfinished file is called, by [`part_name`].
fn is_part(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".") && name.as_encoded_bytes().ends_with(PART.as_bytes())
}

/// What a file is called until it is complete; one whose name leaves no room for that by a sum of it.
fn part_name(name: &str) -> String {
    if name.len() + PART.len() < LONGEST_NAME {
        return format!(".{name}{PART}");
    }
    format!(".{}{PART}", hex(&Sha256::new_with_prefix(name)))
}

/// What is there of `entry` below `root`. Nothing is created: the transfer may never begin.
///
/// # Errors
/// Its place is outside the folder, or taken; or somebody else is receiving it ([`Busy`]).
pub fn have(root: &Path, entry: &Entry, overwrite: bool) -> Result<Have> {
    let (place, part) = places(root, entry, overwrite)?;
    let about = || part.display().to_string();
    let mut hash = Sha256::new();
    let mut bytes = 0;
    match File::open(&part) {
        Ok(file) => {
            let mut file = lock(file, &part, &place)?;
            let there = file.metadata().with_context(about)?.len();
            if entry.bytes.is_some_and(|bytes| there <= bytes) {
                bytes = copy_hash(&mut *file, u64::MAX, &mut hash).with_context(about)?;
            }
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(e).with_context(about),
    }
    Ok(Have { bytes, sha256: hex(&hash) })
}

/// Takes `file`, which was opened as `part`, for its own. Whoever had it before may have completed it: then it is in its place, and
/// `part` is gone or another one.
fn lock(file: File, part: &Path, place: &Path) -> Result<Flock<File>> {
    let busy = || Busy(place.display().to_string());
    let file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| busy())?;
    let opened = file.metadata().with_context(|| part.display().to_string())?.ino();
    ensure!(part.symlink_metadata().is_ok_and(|now| now.ino() == opened), busy());
    Ok(file)
}

/// A file that is arriving.
pub struct Part {
    file: Flock<File>,
    hash: Sha256,
    part: PathBuf,
    place: PathBuf,
    overwrite: bool,
    bytes: u64,
}

impl Part {
    /// Opens the part of `entry` below `root`, to be continued where it was left.
    ///
    /// # Errors
    /// Its place is outside the folder, or taken; or somebody else is receiving it.
    pub fn open(root: &Path, entry: &Entry, overwrite: bool) -> Result<Part> {
        let (place, part) = places(root, entry, overwrite)?;
        let folder = place.parent().unwrap_or(root);
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let about = || part.display().to_string();
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&part).with_context(about)?;
        let file = lock(file, &part, &place)?;
        let mut part = Part { file, hash: Sha256::new(), part, place, overwrite, bytes: 0 };
        if entry.bytes.is_none_or(|bytes| part.file.metadata().is_ok_and(|there| there.len() > bytes)) {
            part.empty()?;
        }
        part.bytes = copy_hash(&mut *part.file, u64::MAX, &mut part.hash).with_context(|| part.part.display().to_string())?;
        Ok(part)
    }

    /// What is there of it.
    pub fn have(&self) -> Have {
        Have { bytes: self.bytes, sha256: hex(&self.hash) }
    }

    /// Goes on from `offset`: where it was left, or the beginning.
    ///
    /// # Errors
    /// From anywhere else; or the disk.
    pub fn begin(&mut self, offset: u64) -> Result<()> {
        if offset == self.bytes {
            return Ok(());
        }
        ensure!(offset == 0, "{}: continued from {offset}, and {} bytes are there", self.place.display(), self.bytes);
        self.empty()
    }

    fn empty(&mut self) -> Result<()> {
        self.file.set_len(0).and_then(|()| self.file.rewind()).with_context(|| self.part.display().to_string())?;
        (self.hash, self.bytes) = (Sha256::new(), 0);
        Ok(())
    }

    /// More of it.
    ///
    /// # Errors
    /// A full disk, for one.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).with_context(|| self.part.display().to_string())?;
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// It is complete: into its place, unless the sums differ or the place was taken meanwhile.
    ///
    /// # Errors
    /// Those.
    pub fn finish(self, whole: &Have) -> Result<()> {
        let place = self.place.display();
        let about = || self.part.display().to_string();
        if self.have() != *whole {
            std::fs::remove_file(&self.part).with_context(about)?;
            bail!("{place}: arrived with another sha256 than it left with; thrown away");
        }
        self.file.sync_all().with_context(about)?;
        if self.overwrite {
            return std::fs::rename(&self.part, &self.place).with_context(|| place.to_string());
        }
        match renameat2(AT_FDCWD, &self.part, AT_FDCWD, &self.place, RenameFlags::RENAME_NOREPLACE) {
            // A file system without that flag has links, which replace nothing either.
            Err(Errno::EINVAL | Errno::ENOSYS) => {
                std::fs::hard_link(&self.part, &self.place).with_context(|| place.to_string())?;
                std::fs::remove_file(&self.part).with_context(about)
            }
            renamed => renamed.with_context(|| place.to_string()),
        }
    }
}

/// A file that leaves, and its sum so far.
pub struct Source {
    file: Box<dyn Read + Send>,
    hash: Sha256,
    /// As it was offered, for what is said of it.
    name: String,
    /// As many bytes were offered; none: as many as come.
    offered: Option<u64>,
    /// Bytes read.
    pub bytes: u64,
    /// Of them, those that the receiver had.
    pub resumed_at: u64,
}

impl Source {
    /// Opens what was offered as `entry`, a file at `path` or standard input, and goes to where the receiver has it, if that is its
    /// beginning indeed: how many bytes of it were looked at so far is told to `compared`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(entry: &Entry, path: Option<&Path>, have: &Have, compared: &AtomicU64) -> Result<Source> {
        let name = entry.path.clone();
        let Some(path) = path else {
            return Ok(Source { file: Box::new(std::io::stdin()), hash: Sha256::new(), name, offered: None, bytes: 0, resumed_at: 0 });
        };
        let about = || path.display().to_string();
        let mut file = File::open(path).with_context(about)?;
        let mut hash = Sha256::new();
        let mut counted = Counted { file: &mut file, bytes: compared };
        let mut bytes = copy_hash(&mut counted, have.bytes, &mut hash).with_context(about)?;
        if bytes != have.bytes || hex(&hash) != have.sha256 {
            file.seek(SeekFrom::Start(0)).with_context(about)?;
            (hash, bytes) = (Sha256::new(), 0);
        }
        // Files of /proc have no size and contents.
        let offered = entry.bytes.filter(|bytes| *bytes > 0);
        Ok(Source { file: Box::new(file), hash, name, offered, bytes, resumed_at: bytes })
    }

    /// Reads on, as much as there is room for; nothing at the end. Of a file that grows meanwhile only what was offered is read, or a log
    /// would never end.
    ///
    /// # Errors
    /// The disk; or a file that has become shorter.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let most = self.offered.map_or(into.len(), |offered| into.len().min(offered.saturating_sub(self.bytes) as usize));
        let mut read = 0;
        while read < most {
            match self.file.read(&mut into[read..most]).with_context(|| self.name.clone())? {
                0 => break,
                n => read += n,
            }
        }
        self.hash.update(&into[..read]);
        self.bytes += read as u64;
        let short = self.offered.filter(|offered| read < most && self.bytes < *offered);
        if let Some(offered) = short {
            bail!("{}: had {offered} bytes when it was offered, and has {} now; send it again", self.name, self.bytes);
        }
        Ok(read)
    }

    /// All of it.
    pub fn whole(&self) -> Have {
        Have { bytes: self.bytes, sha256: hex(&self.hash) }
    }
}

/// A file, and how many bytes were read of it.
struct Counted<'a> {
    file: &'a mut File,
    bytes: &'a AtomicU64,
}

impl Read for Counted<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(into)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Reads up to `most` bytes into `hash`; how many there were.
fn copy_hash(from: &mut impl Read, most: u64, hash: &mut Sha256) -> std::io::Result<u64> {
    std::io::copy(&mut from.take(most), hash)
}

fn hex(hash: &Sha256) -> String {
    hash.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
