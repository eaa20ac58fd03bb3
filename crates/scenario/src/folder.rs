//! A result's folder: `summary.json`, the series and the scenario it came from. It appears whole or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::result::Summary;
use crate::series::Series;

/// The scenario's text in a result's folder.
pub const SCENARIO: &str = "scenario.toml";

/// A result as it lies on disk.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultDir {
    /// Where it lies.
    pub path: PathBuf,
    /// The scenario it came from, as text.
    pub scenario: String,
    /// Its summary.
    pub summary: Summary,
    /// Its series, where they were kept.
    pub series: Option<Series>,
}

impl ResultDir {
    /// Writes a result to `dir`: everything into a folder beside it, which then takes the name. An older result there is
    /// replaced; a folder that holds something else is left alone.
    ///
    /// # Errors
    /// A folder that cannot be written, or that is no result.
    pub fn write(dir: &Path, scenario: &str, summary: &Summary, series: Option<&Series>) -> io::Result<()> {
        Part::begin(dir)?.finish(scenario, summary, series)
    }

    /// Whether `dir` holds a finished result: what a resumed sweep need not run again.
    pub fn is_one(dir: &Path) -> bool {
        dir.join("summary.json").is_file()
    }

    /// Reads a result.
    ///
    /// # Errors
    /// A folder that holds none, with the file that is missing or broken.
    pub fn read(dir: &Path) -> io::Result<ResultDir> {
        let path = dir.join(SCENARIO);
        let missing = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        Ok(ResultDir {
            path: dir.to_owned(),
            scenario: fs::read_to_string(&path).map_err(missing)?,
            summary: Summary::read(dir)?,
            series: Series::read(dir)?,
        })
    }

    /// The folders of results at or under `dir` (a sweep has one a run), in the order of their paths.
    ///
    /// # Errors
    /// A folder that cannot be listed.
    pub fn under(dir: &Path) -> io::Result<Vec<PathBuf>> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", dir.display()));
        if ResultDir::is_one(dir) {
            return Ok(vec![dir.to_owned()]);
        }
        let mut found = Vec::new();
        let mut entries: Vec<PathBuf> = fs::read_dir(dir).map_err(named)?.map(|e| e.map(|e| e.path())).collect::<io::Result<_>>()?;
        entries.sort();
        for entry in entries.into_iter().filter(|e| e.is_dir() && e.extension().is_none_or(|x| x != "part")) {
            found.extend(ResultDir::under(&entry)?);
        }
        Ok(found)
    }
}

/// A result that is being made, beside where it will lie; what runs write meanwhile goes here. Gone if it is not finished.
#[derive(Debug)]
pub struct Part {
    part: PathBuf,
    dir: PathBuf,
}

impl Part {
    /// An empty folder for what will be `dir`.
    ///
    /// # Errors
    /// A folder that cannot be written, or that holds something else than a result.
    pub fn begin(dir: &Path) -> io::Result<Part> {
        if dir.exists() && !ResultDir::is_one(dir) && fs::read_dir(dir)?.next().is_some() {
            let reason = format!("{} holds files that are no result of lowtide; name another folder", dir.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, reason));
        }
        if dir.file_name().is_none() {
            let reason = format!("{} has no name of its own, which a result takes when it is whole; name a folder", dir.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let part = sibling(dir, "part");
        if part.exists() {
            fs::remove_dir_all(&part)?;
        }
        fs::create_dir_all(&part)?;
        Ok(Part { part, dir: dir.to_owned() })
    }

    /// Where it is until it is finished.
    pub fn path(&self) -> &Path {
        &self.part
    }

    /// Adds the result itself and takes the name; an older result there is replaced.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn finish(self, scenario: &str, summary: &Summary, series: Option<&Series>) -> io::Result<()> {
        fs::write(self.part.join(SCENARIO), scenario)?;
        if let Some(series) = series {
            series.write(&self.part)?;
        }
        summary.write(&self.part)?;
        if self.dir.exists() {
            fs::remove_dir_all(&self.dir)?;
        }
        fs::rename(&self.part, &self.dir)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // After `finish` there is nothing left to remove.
        let _ = fs::remove_dir_all(&self.part);
    }
}

fn sibling(dir: &Path, extension: &str) -> PathBuf {
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(extension);
    dir.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::SCHEMA;

    fn summary() -> Summary {
        Summary { schema: SCHEMA, scenario: "x".to_owned(), ..Summary::default() }
    }

    #[test]
    fn a_result_survives_being_written_and_replaces_its_elder() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let dir = root.path().join("rtt_ms=2.5");
        ResultDir::write(&dir, "duration_s = 1.0", &summary(), Some(&Series::default())).expect("writable");
        ResultDir::write(&dir, "duration_s = 2.0", &summary(), None).expect("writable again");
        let result = ResultDir::read(&dir).expect("readable");
        assert_eq!((result.scenario.as_str(), &result.summary, &result.series), ("duration_s = 2.0", &summary(), &None));
        assert_eq!(ResultDir::under(root.path()).expect("listable"), [dir]);
        assert_eq!(fs::read_dir(root.path()).expect("listable").count(), 1, "nothing half-written is left");
    }

    #[test]
    fn a_folder_without_a_name_is_refused_before_the_run() {
        let e = Part::begin(Path::new(".")).map(drop).expect_err("the tests' own folder is not empty, and has no name here");
        let up = Part::begin(Path::new("/")).map(drop).expect_err("nor has this");
        assert!(e.to_string().contains("name") && up.to_string().contains("name"), "{e}, {up}");
    }

    #[test]
    fn what_is_no_result_is_never_deleted() {
        let root = tempfile::tempdir().expect("a temporary folder");
        fs::write(root.path().join("thesis.tex"), "x").expect("writable");
        let error = ResultDir::write(root.path(), "", &summary(), None).expect_err("somebody's files");
        assert!(error.to_string().contains("another folder"), "{error}");
        assert!(root.path().join("thesis.tex").exists());
    }
}
