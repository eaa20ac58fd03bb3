//! A suite that sets controls side by side, as `bench/SUITE/` writes it: `controls.toml` names the controls and how often everything
//! is run, every other file is a table of rows, and what lies in `held-out/` is shown apart. Knows no result.

use std::path::Path;

use anyhow::{Context, Result, bail};
use lowtide_scenario::Scenario;
use lowtide_scenario::scenario::Kind;
use serde::{Deserialize, Serialize};

use super::super::bound::Bound;
use super::super::tables::{all_set, check_wishes, files_in, is_wanted, read};
use super::values;

/// The file that makes a folder such a suite.
pub const CONTROLS: &str = "controls.toml";
/// Tables in this folder are held out: nothing is tuned with them.
const HELD_OUT: &str = "held-out";
/// The group whose control is exchanged, and left out where one looks what the others lose by it.
pub const OURS: &str = "ours";
/// With `--quick`, one of so many cells. The numbers of values of most axes have no divisor in common with it, so that in a long row each
/// value has its turn; of a short row one cell is left.
const QUICK: usize = 5;

/// What is set side by side, and on which lines.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// The page's title.
    pub title: String,
    /// What one must know to read it.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Runs of each cell, with the seeds 1, 2, ….
    pub seeds: u64,
    /// The same with `--quick`.
    pub quick_seeds: u64,
    /// The controls.
    pub controls: Vec<Control>,
    /// The tables, held-out ones last.
    #[serde(skip)]
    pub tables: Vec<Table>,
}

/// A control.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// Its name.
    pub name: String,
    /// Which bounds are its own.
    #[serde(default)]
    pub form: Form,
    /// Whether they are held against it; the others are there to compare.
    #[serde(default)]
    pub judged: bool,
    /// It may be missing: it is then left out.
    #[serde(default)]
    optional: bool,
    /// The control whose place it would take: the page says on which lines it is the worse one.
    #[serde(default)]
    pub instead_of: Option<String>,
    /// What a flow of ours is with it: `{ cc = "cubic" }`.
    set: toml::Table,
}

/// Which end holds the traffic back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// The one that sends.
    #[default]
    Sender,
    /// The one that receives, by its window.
    Receiver,
}

/// One file: rows that share a scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// What the rows have in common.
    pub title: String,
    /// How it is measured, where that is not plain.
    #[serde(default)]
    pub notes: Vec<String>,
    scenario: toml::Table,
    #[serde(default)]
    measures: Vec<Measure>,
    /// The rows.
    pub rows: Vec<Row>,
    /// It lies in the folder of those that nothing is tuned with.
    #[serde(skip)]
    pub held_out: bool,
}

/// One line of the requirement: a number of cells that have the same bounds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// What `--only` calls it.
    pub name: String,
    /// What it is.
    pub says: String,
    #[serde(default)]
    set: toml::Table,
    /// What is combined, each with each.
    #[serde(default)]
    axes: Vec<Axis>,
    /// What is measured, the table's if absent.
    #[serde(default)]
    pub measures: Vec<Measure>,
    /// For bounds that are missed: the cause.
    #[serde(default)]
    pub explained: Option<String>,
    /// The combinations.
    #[serde(skip)]
    pub cells: Vec<Cell>,
}

/// Values of one key, or cases that differ in several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Axis {
    Key { key: String, says: String, values: Vec<toml::Value> },
    Cases { cases: Vec<Case> },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    says: String,
    set: toml::Table,
}

/// One scenario with each of the controls.
#[derive(Clone, Debug)]
pub struct Cell {
    /// What distinguishes it in its row.
    pub says: String,
    /// By control, in the suite's order.
    pub scenarios: Vec<Scenario>,
    /// The same without ours.
    pub without: Scenario,
    /// By control, where ours is a receiver's: the same with nothing but the server's own control.
    pub servers: Vec<Option<Scenario>>,
}

/// One number of a row.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Its name (`super::values`).
    pub value: String,
    /// What it is.
    pub says: String,
    /// The least it must reach, of the sender's form.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// The most it may reach.
    #[serde(default)]
    pub at_most: Option<f64>,
    /// The receiver's form has bounds of its own.
    #[serde(default)]
    pub receiver: Option<Bound>,
}

impl Measure {
    /// The bound of `form`.
    pub fn bound(&self, form: Form) -> Bound {
        let own = Bound { at_least: self.at_least, at_most: self.at_most };
        self.receiver.filter(|_| form == Form::Receiver).unwrap_or(own)
    }
}

/// Whether `folder` is such a suite.
pub fn is_one(folder: &Path) -> bool {
    folder.join(CONTROLS).exists()
}

/// The suite in `folder` with the rows whose name begins with one of `only`, all if empty; `quick`: a fifth of their cells.
///
/// # Errors
/// A file that is no table, a scenario that cannot be run, or a wish that names no row.
pub fn load(folder: &Path, only: &[String], quick: bool) -> Result<Suite> {
    let mut suite: Suite = read(&folder.join(CONTROLS))?;
    let mut files = files_in(folder)?;
    files.retain(|file| file.file_name().is_some_and(|name| name != CONTROLS));
    let tuned_with = files.len();
    if folder.join(HELD_OUT).is_dir() {
        files.extend(files_in(&folder.join(HELD_OUT))?);
    }
    let mut tables = Vec::new();
    for (n, file) in files.into_iter().enumerate() {
        tables.push((Table { held_out: n >= tuned_with, ..read::<Table>(&file)? }, file));
    }
    check_wishes(only, tables.iter().flat_map(|(t, _)| &t.rows).map(|r| r.name.as_str()))?;
    if let Some((table, file)) = tables.first() {
        suite.controls.retain(|control| !control.optional || table.scenario_of(control).is_ok_and(|s| lowtide_sim::check(&s).is_ok()));
        if suite.controls.is_empty() {
            bail!("{}: none of the controls is there", file.display());
        }
        let missing = |name: &&String| suite.controls.iter().all(|control| control.name != **name);
        if let Some(name) = suite.controls.iter().filter_map(|control| control.instead_of.as_ref()).find(missing) {
            bail!("{}: `instead_of` names no control: `{name}`", folder.join(CONTROLS).display());
        }
    }
    for (mut table, file) in tables {
        table.rows.retain(|row| is_wanted(&row.name, only));
        for n in 0..table.rows.len() {
            table.rows[n].cells =
                table.cells(n, &suite.controls, quick).with_context(|| format!("{}: row `{}`", file.display(), table.rows[n].name))?;
            if table.rows[n].measures.is_empty() {
                table.rows[n].measures = table.measures.clone();
            }
            if let Some(unknown) = table.rows[n].measures.iter().find(|measure| !values::is_one(&measure.value)) {
                bail!("{}: row `{}`: there is no number `{}`", file.display(), table.rows[n].name, unknown.value);
            }
        }
        if !table.rows.is_empty() {
            suite.tables.push(table);
        }
    }
    Ok(suite)
}

impl Table {
    /// The table's scenario with `control` for every flow of ours.
    fn scenario_of(&self, control: &Control) -> Result<Scenario> {
        let mut text = self.scenario.clone();
        let flows = text.get_mut("flows").and_then(toml::Value::as_array_mut).context("its scenario has no flows")?;
        for flow in flows.iter_mut().filter_map(toml::Value::as_table_mut) {
            let group = flow.get("group").or_else(|| flow.get("name")).and_then(toml::Value::as_str);
            if group == Some(OURS) {
                flow.extend(control.set.clone());
            }
        }
        Ok(Scenario::parse(&toml::to_string(&text)?)?)
    }

    fn cells(&self, row: usize, controls: &[Control], quick: bool) -> Result<Vec<Cell>> {
        let row = &self.rows[row];
        let mut combined = vec![(Vec::<String>::new(), row.set.clone())];
        for axis in &row.axes {
            let cases = axis.cases();
            let with = |(says, set): &(Vec<String>, toml::Table)| {
                let of = |case: &Case| {
                    let (mut says, mut set) = (says.clone(), set.clone());
                    says.push(case.says.clone());
                    set.extend(case.set.clone());
                    (says, set)
                };
                cases.iter().map(of).collect::<Vec<_>>()
            };
            combined = combined.iter().flat_map(with).collect();
        }
        let bases = controls.iter().map(|control| self.scenario_of(control)).collect::<Result<Vec<_>>>()?;
        let cell = |(says, set): (Vec<String>, toml::Table)| {
            let scenarios = bases.iter().map(|base| all_set(base, &set)).collect::<Result<Vec<_>>>()?;
            for scenario in &scenarios {
                lowtide_sim::check(scenario)?;
            }
            let first = scenarios.first().context("no control")?;
            let mut without = first.clone();
            without.flows.iter_mut().filter(|flow| flow.group == OURS).for_each(|flow| flow.count = 0);
            let servers = scenarios.iter().map(with_the_server_alone).collect();
            Ok(Cell { says: says.join(", "), scenarios, without, servers })
        };
        if combined.is_empty() {
            bail!("one of its `axes` has no values");
        }
        let first = if quick { QUICK.min(combined.len()) - 1 } else { 0 };
        combined.into_iter().skip(first).step_by(if quick { QUICK } else { 1 }).map(cell).collect()
    }
}

/// Nobody's window holds our flows back; none if nobody's did.
fn with_the_server_alone(scenario: &Scenario) -> Option<Scenario> {
    let mut alone = scenario.clone();
    for flow in alone.flows.iter_mut().filter(|flow| flow.group == OURS && flow.receiver.is_some()) {
        (flow.kind, flow.receiver) = (Kind::Tcp, None);
    }
    (alone != *scenario).then_some(alone)
}

impl Axis {
    fn cases(&self) -> Vec<Case> {
        match self {
            Axis::Cases { cases } => cases.clone(),
            Axis::Key { key, says, values } => {
                let of = |value: &toml::Value| Case {
                    says: says.replace("{}", &value.to_string()),
                    set: toml::Table::from_iter([(key.clone(), value.clone())]),
                };
                values.iter().map(of).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/scavenger")
    }

    #[test]
    fn the_suite_can_be_read_and_its_rows_have_names_and_numbers_of_their_own() {
        let suite = load(&folder(), &[], false).expect("a suite");
        assert!(suite.seeds >= 8 && suite.controls.iter().any(|control| control.judged));
        assert!(suite.tables.iter().any(|table| table.held_out));
        let mut names: Vec<&str> = suite.tables.iter().flat_map(|t| &t.rows).map(|r| r.name.as_str()).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        for row in suite.tables.iter().flat_map(|t| &t.rows) {
            assert!(!row.measures.is_empty() && !row.cells.is_empty(), "{}", row.name);
        }
    }

    /// Hosts jitter and starts are drawn wherever seeds are compared.
    #[test]
    fn every_scenario_asks_for_seeds() {
        for table in load(&folder(), &[], false).expect("a suite").tables {
            for scenario in table.rows.iter().flat_map(|row| &row.cells).flat_map(|cell| &cell.scenarios) {
                assert!(scenario.host_jitter_us > 0.0 && scenario.flows.iter().any(|flow| flow.start_jitter_s > 0.0), "{}", table.title);
            }
        }
    }

    #[test]
    fn quick_takes_a_fifth_and_a_wish_must_name_a_row() {
        let cells =
            |quick| load(&folder(), &[], quick).expect("a suite").tables.iter().flat_map(|t| &t.rows).map(|r| r.cells.len()).sum::<usize>();
        assert!(cells(true) * 2 < cells(false));
        assert!(load(&folder(), &["nobody".to_owned()], false).expect_err("no row").to_string().contains("no row begins so"));
    }
}
