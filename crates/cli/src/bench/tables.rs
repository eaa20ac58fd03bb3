//! Tables of rows in `bench/`, as every kind of suite reads them: files, rows by name, scenario keys set. Knows no measure.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use lowtide_scenario::Scenario;

/// The tables in `folder`, in order.
pub fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| {
        format!("{}: no suite of measurements; those of lowtide's sources are in bench/, others are named with --suites", folder.display())
    })?;
    let mut files: Vec<PathBuf> =
        entries.filter_map(|e| e.ok().map(|e| e.path())).filter(|p| p.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    Ok(files)
}

/// What the file at `path` holds.
pub fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    toml::from_str(&text).with_context(|| path.display().to_string())
}

/// Whether `--only` asks for the row `name`.
pub fn is_wanted(name: &str, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|wish| name.starts_with(wish.as_str()))
}

/// Refuses an `--only` that none of the rows `names` begins with.
pub fn check_wishes<'a>(only: &[String], names: impl Iterator<Item = &'a str>) -> Result<()> {
    let names: Vec<&str> = names.collect();
    match only.iter().find(|wish| !names.iter().any(|name| name.starts_with(wish.as_str()))) {
        Some(wish) => bail!("--only {wish}: no row begins so; there are {}", names.join(", ")),
        None => Ok(()),
    }
}

/// `base` with each key of `set` set.
pub fn all_set(base: &Scenario, set: &toml::Table) -> Result<Scenario> {
    let mut scenario = base.clone();
    for (key, value) in set {
        scenario = scenario.with(key, value.clone()).with_context(|| key.clone())?;
    }
    Ok(scenario)
}
