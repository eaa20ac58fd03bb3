//! A suite of measurements as `bench/<suite>/*.toml` writes it: scenarios, what is read off their results, what it must reach
//! and what the paper reports beside it. Knows no laboratory and no result.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use lowtide_scenario::Scenario;
use serde::{Deserialize, Serialize};

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
    /// Whether `value` is what it must be; none where nothing is asked.
    pub fn met(&self, value: f64) -> Option<bool> {
        let asked = self.at_least.is_some() || self.at_most.is_some();
        asked.then(|| self.at_least.is_none_or(|least| value >= least) && self.at_most.is_none_or(|most| value <= most))
    }
}

impl Row {
    fn divisors(&self) -> impl Iterator<Item = &str> {
        self.measures.iter().filter_map(|measure| measure.of.as_deref())
    }
}

impl Table {
    fn load(path: &Path) -> Result<Table> {
        let text = fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))?;
        let mut table: Table = toml::from_str(&text).with_context(|| path.display().to_string())?;
        let base = Scenario::parse(&toml::to_string(&table.scenario)?).with_context(|| path.display().to_string())?;
        for row in &mut table.rows {
            let named = |key: &str| format!("{}: row `{}`: {key}", path.display(), row.name);
            let mut scenario = base.clone();
            for (key, value) in &row.set {
                scenario = scenario.with(key, value.clone()).with_context(|| named(key))?;
            }
            row.scenario = Some(Scenario { name: row.name.clone(), ..scenario });
            if row.measures.is_empty() {
                row.measures.clone_from(&table.measures);
            }
            if row.measures.is_empty() {
                bail!(named("it has no `measures`, and the table has none either"));
            }
        }
        for row in &table.rows {
            if let Some(other) = row.divisors().find(|other| table.rows.iter().all(|r| r.name != *other)) {
                bail!("{}: row `{}`: of = \"{other}\" names no row of this file", path.display(), row.name);
            }
        }
        Ok(table)
    }

    /// Takes out the rows whose name does not start with one of `wanted` (none if that is empty) and that no such row is divided by.
    fn retain(&mut self, wanted: &[String]) {
        let is_wanted = |row: &Row| wanted.is_empty() || wanted.iter().any(|w| row.name.starts_with(w.as_str()));
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
    let entries = fs::read_dir(folder).with_context(|| {
        format!("{}: no suite of measurements; those of lowtide's sources are in bench/, others are named with --suites", folder.display())
    })?;
    let mut files: Vec<PathBuf> =
        entries.filter_map(|e| e.ok().map(|e| e.path())).filter(|p| p.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    let mut tables = files.iter().map(|path| Table::load(path)).collect::<Result<Vec<_>>>()?;
    for wish in only {
        let names: Vec<&str> = tables.iter().flat_map(|t| &t.rows).map(|r| r.name.as_str()).collect();
        if !names.iter().any(|name| name.starts_with(wish.as_str())) {
            bail!("--only {wish}: no row begins so; there are {}", names.join(", "));
        }
    }
    tables.iter_mut().for_each(|table| table.retain(only));
    tables.retain(|table| !table.rows.is_empty());
    Ok(tables)
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_bound_is_met_on_its_own_side_and_no_bound_is_no_verdict() {
        let measure = |at_least, at_most| Measure {
            value: String::new(),
            says: String::new(),
            unit: String::new(),
            of: None,
            at_least,
            at_most,
            paper: None,
            explained: None,
        };
        assert_eq!([0.89, 0.9].map(|v| measure(Some(0.9), None).met(v)), [Some(false), Some(true)]);
        assert_eq!([0.05, 0.06].map(|v| measure(None, Some(0.05)).met(v)), [Some(true), Some(false)]);
        assert_eq!(measure(None, None).met(1.0), None);
        assert_eq!(measure(Some(0.5), None).met(f64::NAN), Some(false));
    }
}
