//! Files as they are offered and as they arrive: names that stay below a folder, parts that are continued, nothing overwritten.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, Flock, FlockArg, RenameFlags, renameat2};
use sha2::{Digest, Sha256};

use super::messages::{Entry, Have};

/// What an unfinished file is called beside its place: `.NAME` and this.
const PART: &str = ".lowtide-part";

/// What is offered.
#[derive(Default)]
pub struct Offered {
    /// Files, and where each is; standard input is nowhere.
    pub files: Vec<(Entry, Option<PathBuf>)>,
    /// Links, devices, sockets and the like, which are not sent.
    pub left_out: Vec<PathBuf>,
}

/// What is to be offered of `path`; standard input (-) as `name`.
///
/// # Errors
/// It is not there, cannot be read, or is neither a file nor a folder.
pub fn offer(path: &Path, name: &str) -> Result<Offered> {
    let mut offered = Offered::default();
    if path == Path::new("-") {
        offered.files.push((Entry { path: name.to_owned(), bytes: None }, None));
        return Ok(offered);
    }
    let whole = path.canonicalize().with_context(|| path.display().to_string())?;
    // A link is stored under its own name.
    let name = path.file_name().or(whole.file_name()).with_context(|| format!("{}: has no name to be stored under", path.display()))?;
    walk(&whole, Path::new(name), &mut offered)?;
    ensure!(!offered.files.is_empty(), "{}: no files in it", path.display());
    Ok(offered)
}

fn walk(at: &Path, name: &Path, offered: &mut Offered) -> Result<()> {
    let about = || at.display().to_string();
    let kind = at.symlink_metadata().with_context(about)?;
    if kind.is_dir() {
        let mut inside = std::fs::read_dir(at).and_then(Iterator::collect::<Result<Vec<_>, _>>).with_context(about)?;
        inside.sort_by_key(std::fs::DirEntry::file_name);
        return inside.iter().try_for_each(|entry| walk(&entry.path(), &name.join(entry.file_name()), offered));
    }
    // Links lead elsewhere, and devices have no end.
    if kind.is_file() {
        let path = name.to_str().with_context(|| format!("{}: its name is not UTF-8", at.display()))?.to_owned();
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
    // A link among the folders that are there already may lead outside.
    let there = whole.ancestors().skip(1).find(|folder| folder.symlink_metadata().is_ok()).unwrap_or(root);
    let (there, root) = (there.canonicalize()?, root.canonicalize()?);
    ensure!(there.starts_with(root), "{path:?}: refused, a link in it leads outside the folder");
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
    let name = place.file_name().unwrap_or_default();
    let part = place.with_file_name(format!(".{}{PART}", name.to_string_lossy()));
    ensure!(part.symlink_metadata().map_or(true, |part| part.is_file()), "{}: is no file", part.display());
    Ok((place, part))
}

/// What is there of `entry` below `root`. Nothing is created: the transfer may never begin.
///
/// # Errors
/// Its place is outside the folder, or taken; or somebody else is receiving it ([`Busy`]).
pub fn have(root: &Path, entry: &Entry, overwrite: bool) -> Result<Have> {
    let (place, part) = places(root, entry, overwrite)?;
    let mut hash = Sha256::new();
    let mut bytes = 0;
    match File::open(&part) {
        Ok(file) => {
            let mut file = lock(file, &part, &place)?;
            let there = file.metadata()?.len();
            if entry.bytes.is_some_and(|bytes| there <= bytes) {
                bytes = copy_hash(&mut *file, u64::MAX, &mut hash)?;
            }
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(e).with_context(|| part.display().to_string()),
    }
    Ok(Have { bytes, sha256: hex(&hash) })
}

/// Takes `file`, which was opened as `part`, for its own. Whoever had it before may have completed it: then it is in its place, and
/// `part` is gone or another one.
fn lock(file: File, part: &Path, place: &Path) -> Result<Flock<File>> {
    let busy = || Busy(place.display().to_string());
    let file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| busy())?;
    let opened = file.metadata()?.ino();
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
            part.file.set_len(0)?;
        }
        part.bytes = copy_hash(&mut *part.file, u64::MAX, &mut part.hash)?;
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
        self.file.set_len(0)?;
        self.file.rewind()?;
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
        if self.have() != *whole {
            std::fs::remove_file(&self.part)?;
            bail!("{place}: arrived with another sha256 than it left with; thrown away");
        }
        self.file.sync_all()?;
        if self.overwrite {
            return std::fs::rename(&self.part, &self.place).with_context(|| place.to_string());
        }
        match renameat2(AT_FDCWD, &self.part, AT_FDCWD, &self.place, RenameFlags::RENAME_NOREPLACE) {
            // A file system without that flag has links, which replace nothing either.
            Err(Errno::EINVAL | Errno::ENOSYS) => {
                std::fs::hard_link(&self.part, &self.place).with_context(|| place.to_string())?;
                Ok(std::fs::remove_file(&self.part)?)
            }
            renamed => renamed.with_context(|| place.to_string()),
        }
    }
}

/// A file that leaves, and its sum so far.
pub struct Source {
    file: Box<dyn Read + Send>,
    hash: Sha256,
    /// Bytes read.
    pub bytes: u64,
    /// Of them, those that the receiver had.
    pub resumed_at: u64,
}

impl Source {
    /// Opens a file, or standard input, and goes to where the receiver has it, if that is its beginning indeed.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(path: Option<&Path>, have: &Have) -> Result<Source> {
        let Some(path) = path else {
            return Ok(Source { file: Box::new(std::io::stdin()), hash: Sha256::new(), bytes: 0, resumed_at: 0 });
        };
        let about = || path.display().to_string();
        let mut file = File::open(path).with_context(about)?;
        let mut hash = Sha256::new();
        let mut bytes = copy_hash(&mut file, have.bytes, &mut hash).with_context(about)?;
        if bytes != have.bytes || hex(&hash) != have.sha256 {
            file.seek(SeekFrom::Start(0)).with_context(about)?;
            (hash, bytes) = (Sha256::new(), 0);
        }
        Ok(Source { file: Box::new(file), hash, bytes, resumed_at: bytes })
    }

    /// Reads on, as much as there is room for; nothing at the end.
    ///
    /// # Errors
    /// The disk.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let mut read = 0;
        while read < into.len() {
            match self.file.read(&mut into[read..])? {
                0 => break,
                n => read += n,
            }
        }
        self.hash.update(&into[..read]);
        self.bytes += read as u64;
        Ok(read)
    }

    /// All of it.
    pub fn whole(&self) -> Have {
        Have { bytes: self.bytes, sha256: hex(&self.hash) }
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
mod tests {
    use super::*;

    fn entry(path: &str, bytes: u64) -> Entry {
        Entry { path: path.to_owned(), bytes: Some(bytes) }
    }

    #[test]
    fn a_path_stays_inside_the_folder() {
        let root = tempfile::tempdir().expect("a folder");
        let outside = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink(outside.path(), root.path().join("link")).expect("a link");
        for wrong in ["", "/etc/passwd", "../x", "a/../../x", "a/..", ".", "a/./../..", "link/x", "link/y/z", "a\0b", "a/"] {
            assert!(place(root.path(), wrong).is_err(), "{wrong:?}");
        }
        for right in ["x", "a/b/c", "...", "..x", "a b", "a\\b", "a\nb", "..\\x"] {
            assert!(place(root.path(), right).is_ok_and(|place| place.starts_with(root.path())), "{right:?}");
        }
    }

    #[test]
    fn nothing_is_overwritten_unasked() {
        let root = tempfile::tempdir().expect("a folder");
        let place = root.path().join("f");
        std::fs::write(&place, "mine").expect("written");
        assert!(Part::open(root.path(), &entry("f", 3), false).is_err_and(|e| e.to_string().contains("--overwrite")));
        std::fs::remove_file(&place).expect("removed");
        // Taken while it arrived.
        let mut part = Part::open(root.path(), &entry("f", 3), false).expect("opened");
        part.write(b"new").expect("written");
        std::fs::write(&place, "mine").expect("written");
        let whole = part.have();
        assert!(part.finish(&whole).is_err());
        assert_eq!(std::fs::read(&place).expect("read"), b"mine");
        let part = Part::open(root.path(), &entry("f", 3), true).expect("opened");
        assert_eq!(part.have(), whole, "what had arrived is kept");
        part.finish(&whole).expect("replaced");
        assert_eq!(std::fs::read(&place).expect("read"), b"new");
    }

    #[test]
    fn a_part_is_continued_if_it_is_the_beginning() {
        let root = tempfile::tempdir().expect("a folder");
        let source = root.path().join("source");
        std::fs::write(&source, b"0123456789").expect("written");
        let copy = |end: usize, wanted: &[u8]| {
            let mut part = Part::open(root.path(), &entry("f", 10), false).expect("opened");
            let mut source = Source::open(Some(&source), &part.have()).expect("opened");
            part.begin(source.bytes).expect("there");
            let mut bytes = [0; 4];
            while source.bytes < end as u64 {
                let n = source.read(&mut bytes).expect("read");
                part.write(&bytes[..n]).expect("written");
            }
            assert_eq!(std::fs::read(&part.part).expect("read"), wanted);
            (part, source)
        };
        drop(copy(4, b"0123"));
        assert!(Part::open(root.path(), &entry("f", 10), false).is_ok());
        let (part, other) = copy(10, b"0123456789");
        assert_eq!(other.resumed_at, 4);
        part.finish(&other.whole()).expect("equal");
        // The part is of another file.
        std::fs::remove_file(root.path().join("f")).expect("removed");
        std::fs::write(root.path().join(".f.lowtide-part"), b"012X").expect("written");
        assert_eq!(copy(10, b"0123456789").1.resumed_at, 0);
    }

    /// A transfer that never begins leaves nothing behind.
    #[test]
    fn asking_what_is_there_creates_nothing() {
        let root = tempfile::tempdir().expect("a folder");
        let empty = have(root.path(), &entry("deep/er/f", 3), false).expect("nothing is in the way");
        assert_eq!((empty.bytes, &empty.sha256[..8]), (0, "e3b0c442"));
        assert_eq!(std::fs::read_dir(root.path()).expect("there").count(), 0);
        std::fs::write(root.path().join(".f.lowtide-part"), b"012").expect("written");
        let opened = Part::open(root.path(), &entry("f", 10), false).expect("opened").have();
        assert_eq!((have(root.path(), &entry("f", 10), false).expect("there"), opened.bytes), (opened.clone(), 3));
        assert_eq!(have(root.path(), &entry("f", 2), false).expect("there").bytes, 0, "longer than what is offered");
    }

    /// One opens the part, and before it has the lock another completes the file: it must not be begun anew.
    #[test]
    fn a_file_that_was_completed_meanwhile_is_left_alone() {
        let root = tempfile::tempdir().expect("a folder");
        let mut part = Part::open(root.path(), &entry("f", 3), false).expect("opened");
        let late = File::open(&part.part).expect("there");
        part.write(b"new").expect("written");
        let (whole, place, path) = (part.have(), part.place.clone(), part.part.clone());
        part.finish(&whole).expect("complete");
        assert!(lock(late, &path, &place).is_err_and(|e| e.is::<Busy>()));
        assert_eq!(std::fs::read(place).expect("there"), b"new");
    }

    #[test]
    fn two_do_not_receive_the_same_file() {
        let root = tempfile::tempdir().expect("a folder");
        let _first = Part::open(root.path(), &entry("f", 3), false).expect("opened");
        assert!(Part::open(root.path(), &entry("f", 3), false).is_err_and(|e| e.to_string().contains("already")));
    }
}
