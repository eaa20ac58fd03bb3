//! What a paper says of single steps of an algorithm: rows that tests of this repository check, named one by one in
//! papers/<paper>/tests.toml. Runs none of them: `make test` does.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// The file's name without its ending, in a paper's folder.
pub const FILE: &str = "tests";

/// One row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// `fig02-c1`.
    pub id: String,
    /// What the paper says.
    pub says: String,
    /// Where it stands.
    pub place: String,
    /// The tests that check it, by crate: `cc::gain_table` is run by `cargo test -p lowtide-cc gain_table`.
    pub tests: Vec<String>,
}

#[derive(Default, Deserialize)]
struct Rows {
    rows: Vec<Row>,
}

/// The rows of each paper that has some.
///
/// # Errors
/// A file that holds something else.
pub fn load(root: &Path) -> Result<Vec<(String, Vec<Row>)>> {
    let mut all = Vec::new();
    for paper in fs::read_dir(root).with_context(|| format!("{}: no folder of experiments", root.display()))? {
        let folder = paper?.path();
        let file = folder.join(FILE).with_extension("toml");
        if let Ok(text) = fs::read_to_string(&file) {
            let rows: Rows = toml::from_str(&text).with_context(|| file.display().to_string())?;
            all.push((folder.file_name().unwrap_or_default().to_string_lossy().into_owned(), rows.rows));
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every Rust source below `dir`, one after the other.
    fn sources(dir: &Path, all: &mut String) {
        for entry in fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())).map(|e| e.expect("an entry").path()) {
            if entry.is_dir() {
                sources(&entry, all);
            } else if entry.extension().is_some_and(|e| e == "rs") {
                all.push_str(&fs::read_to_string(&entry).expect("a source"));
            }
        }
    }

    #[test]
    fn every_row_names_tests_that_are_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let all = load(&root.join("papers")).unwrap_or_else(|e| panic!("{e:#}"));
        let rows: Vec<&Row> = all.iter().flat_map(|(_, rows)| rows).collect();
        assert!(rows.len() >= 7, "{} rows", rows.len());
        for row in rows {
            assert!(!row.tests.is_empty(), "{}: no test", row.id);
            for test in &row.tests {
                let (member, name) = test.split_once("::").unwrap_or_else(|| panic!("{test}: CRATE::TEST"));
                let mut text = String::new();
                ["src", "tests"]
                    .iter()
                    .map(|f| root.join("crates").join(member).join(f))
                    .filter(|d| d.is_dir())
                    .for_each(|d| sources(&d, &mut text));
                let (before, _) = text.split_once(&format!("fn {name}(")).unwrap_or_else(|| panic!("{member} has no test {name}"));
                let near: String = before.lines().rev().take(5).collect();
                assert!(near.contains("#[test]"), "{name} is no test");
            }
        }
    }
}
