//! A suite of measurements as `bench/<suite>/*.toml` writes it: scenarios, what is read off their results, what it must reach
//! and what the paper reports beside it. Knows no laboratory and no result.

use std::path::Path;

use anyhow::{Context, Result, bail};
use lowtide_scenario::Scenario;
use serde::{Deserialize, Serialize};

use super::bound::Bound;
use super::tables;

/// One file: rows of one table that share a scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// What the rows have in common.
    pub title: String,
    /// How it is measured, where that is not plain.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The scenario that every row starts from.
    scenario: toml::Table,
    /// What is measured in rows that do not say otherwise.
    #[serde(default)]
    measures: Vec<Measure>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// One line, or a line a measure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// What `--only` calls it.
    pub name: String,
    /// What it is.
    pub says: String,
    /// Scenario keys (`topology.rtt_ms`) and their values.
    #[serde(default)]
    set: toml::Table,
    /// What is measured, the table's if absent.
    #[serde(default)]
    pub measures: Vec<Measure>,
    /// What is run.
    #[serde(skip)]
    pub scenario: Option<Scenario>,
}

/// One number of a row.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Its name among the values of a result (`share.bulk`).
    pub value: String,
    /// What it is.
    pub says: String,
    /// Its unit, with decimals as written: `%`, `ms`, `s`, `B`; none for a ratio.
    #[serde(default)]
    pub unit: String,
    /// The row whose mean of the same value this one is divided by.
    #[serde(default)]
    pub of: Option<String>,
    /// The least it must reach.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// The most it may reach.
    #[serde(default)]
    pub at_most: Option<f64>,
    /// What the paper reports, as text: it is set beside, and enters nothing.
    #[serde(default)]
    pub paper: Option<String>,
    /// For a value out of reach: the cause, found by looking at traces.
    #[serde(default)]
    pub explained: Option<String>,
}

impl Measure {
    /// What it must be.
    pub fn bound(&self) -> Bound {
        Bound { at_least: self.at_least, at_most: self.at_most }
    }
}

impl Row {
    fn divisors(&self) -> impl Iterator<Item = &str> {
        self.measures.iter().filter_map(|measure| measure.of.as_deref())
    }
}

impl Table {
    fn load(path: &Path) -> Result<Table> {
        let mut table: Table = tables::read(path)?;
        let base = Scenario::parse(&toml::to_string(&table.scenario)?).with_context(|| path.display().to_string())?;
        for row in &mut table.rows {
            let named = || format!("{}: row `{}`", path.display(), row.name);
            let scenario = tables::all_set(&base, &row.set).with_context(named)?;
            row.scenario = Some(Scenario { name: row.name.clone(), ..scenario });
            if row.measures.is_empty() {
                row.measures.clone_from(&table.measures);
            }
            if row.measures.is_empty() {
                bail!("{}: row `{}`: it has no `measures`, and the table has none either", path.display(), row.name);
            }
        }
        for row in &table.rows {
            if let Some(other) = row.divisors().find(|other| table.rows.iter().all(|r| r.name != *other)) {
                bail!("{}: row `{}`: of = \"{other}\" names no row of this file", path.display(), row.name);
            }
        }
        Ok(table)
    }

    /// Takes out the rows that `only` does not ask for and that no row is divided by for which it does.
    fn retain(&mut self, only: &[String]) {
        let is_wanted = |row: &Row| tables::is_wanted(&row.name, only);
        let divisors = |rows: &[Row]| rows.iter().filter(|r| is_wanted(r)).flat_map(Row::divisors).map(str::to_owned).collect::<Vec<_>>();
        let needed = divisors(&self.rows);
        self.rows.retain(|row| is_wanted(row) || needed.contains(&row.name));
    }
}

/// The tables of the suite in `folder` with the rows whose name starts with one of `only`, all if empty.
///
/// # Errors
/// A folder or a file that is no suite, or a wish that names no row.
pub fn load(folder: &Path, only: &[String]) -> Result<Vec<Table>> {
    let mut tables = tables::files_in(folder)?.iter().map(|path| Table::load(path)).collect::<Result<Vec<_>>>()?;
    tables::check_wishes(only, tables.iter().flat_map(|t| &t.rows).map(|r| r.name.as_str()))?;
    tables.iter_mut().for_each(|table| table.retain(only));
    tables.retain(|table| !table.rows.is_empty());
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn suites() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench")
    }

    #[test]
    fn every_suite_can_be_read_and_its_rows_have_names_of_their_own() {
        for folder in ["link", "receive", "send", "utp"].map(|suite| suites().join(suite)) {
            let tables = load(&folder, &[]).expect("a suite");
            let mut names: Vec<&str> = tables.iter().flat_map(|t| &t.rows).map(|r| r.name.as_str()).collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!((names.len(), names.is_empty()), (all, false), "{}", folder.display());
        }
    }

    #[test]
    fn a_wish_takes_rows_by_the_start_of_their_name_and_must_name_one() {
        let some = load(&suites().join("receive"), &["alone-rtt".to_owned()]).expect("rows");
        assert!(some.len() == 1 && some[0].rows.len() > 1 && some[0].rows.iter().all(|r| r.name.starts_with("alone-rtt")));
        let error = load(&suites().join("receive"), &["nobody".to_owned()]).expect_err("no such row");
        assert!(error.to_string().contains("alone-rtt"), "{error}");
    }

    #[test]
    fn a_row_brings_the_row_that_it_is_divided_by_which_must_be_in_its_table() {
        let tables = load(&suites().join("send"), &["up-loss-ours".to_owned()]).expect("rows");
        assert_eq!(tables[0].rows.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), ["up-loss-ours", "up-loss-reno"]);
        let folder = tempfile::tempdir().expect("a folder");
        let text = fs::read_to_string(suites().join("send/07-loss.toml")).expect("a suite");
        fs::write(folder.path().join("1.toml"), text.replace("of = \"up-loss-reno\"", "of = \"up-loss-nobody\"")).expect("written");
        let error = load(folder.path(), &[]).expect_err("no such row");
        assert!(error.to_string().contains("up-loss-nobody"), "{error}");
    }
}
