//! `lowtide bench` for suites that set controls side by side in the simulator. Says in which order things are done; rows and
//! bounds are in `bench/`.

mod results;
mod show;
mod suite;
mod values;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use lowtide_scenario::Scenario;

use self::results::{CellResult, ControlResult, Results, RowResult};
pub use self::suite::is_one;
use self::suite::{Cell, Control, Measure, Row, Suite};
use crate::sim::pool;
use crate::stdout;

/// What is asked of the command.
pub struct Request<'a> {
    /// The suite's folder.
    pub folder: &'a Path,
    /// Rows whose names begin so.
    pub only: &'a [String],
    /// A fifth of the cells with few seeds.
    pub quick: bool,
    /// Seeds, the suite's own number if absent.
    pub seeds: Option<u64>,
    /// Runs at a time, as many as processors if absent.
    pub jobs: Option<usize>,
    /// Show what was measured last.
    pub kept: bool,
    /// Numbers instead of a table.
    pub json: bool,
    /// A page instead of text.
    pub markdown: bool,
    /// Where results are kept.
    pub out: &'a Path,
}

/// Runs a suite and shows it.
///
/// # Errors
/// A suite that cannot be read or run, or a folder that cannot be written.
pub fn main(request: &Request) -> Result<ExitCode> {
    let suite = suite::load(request.folder, request.only, request.quick)?;
    let file = request.out.join("results.json");
    let results: Results = if request.kept {
        let text = fs::read_to_string(&file).with_context(|| format!("{}: run the suite first, without --kept", file.display()))?;
        serde_json::from_str(&text).with_context(|| file.display().to_string())?
    } else {
        let seeds = request.seeds.unwrap_or(if request.quick { suite.quick_seeds } else { suite.seeds });
        let results = Results { quick: request.quick, ..run(&suite, seeds, request.jobs)? };
        fs::create_dir_all(request.out).with_context(|| request.out.display().to_string())?;
        fs::write(&file, serde_json::to_string_pretty(&results)?).with_context(|| file.display().to_string())?;
        results
    };
    if request.json {
        stdout::line(serde_json::to_string_pretty(&results)?)?;
    } else if request.markdown {
        stdout::print(show::markdown(&suite, &results))?;
    } else {
        stdout::print(show::text(&suite, &results))?;
    }
    let verdicts: Vec<usize> =
        results.rows.iter().flat_map(|row| &row.cells).flat_map(|cell| &cell.controls).filter_map(ControlResult::missed).collect();
    eprintln!("lowtide: {} of {} bounds met by every seed", verdicts.iter().filter(|missed| **missed == 0).count(), verdicts.len());
    Ok(ExitCode::SUCCESS)
}

/// By control, then by measure.
type Values = Vec<Vec<f64>>;

/// Runs every cell with every control and seed.
fn run(suite: &Suite, seeds: u64, jobs: Option<usize>) -> Result<Results> {
    let cells: Vec<(&Row, &Cell)> =
        suite.tables.iter().flat_map(|table| &table.rows).flat_map(|row| row.cells.iter().map(move |cell| (row, cell))).collect();
    let owed: Vec<(usize, u64)> = (0..cells.len()).flat_map(|cell| (1..=seeds).map(move |seed| (cell, seed))).collect();
    let values = pool::each(owed.len(), jobs, |n, _| {
        let (cell, seed) = owed[n];
        (measure(cells[cell].0, cells[cell].1, seed), false)
    });
    let values = values.into_iter().collect::<Result<Vec<_>>>()?;
    let mut by_cell = values.chunks(seeds as usize);
    let rows = suite.tables.iter().flat_map(|table| &table.rows);
    let rows = rows.flat_map(|row| {
        let of_row: Vec<&[Values]> = by_cell.by_ref().take(row.cells.len()).collect();
        row.measures.iter().enumerate().map(|(n, number)| row_result(suite, row, number, n, &of_row)).collect::<Vec<_>>()
    });
    Ok(Results { schema: 1, seeds, quick: false, rows: rows.collect() })
}

/// One cell with one seed: all controls, and once without ours where a number asks for it.
fn measure(row: &Row, cell: &Cell, seed: u64) -> Result<Values> {
    let context = || format!("row `{}`, {}", row.name, cell.says);
    let summary = |scenario: &Scenario| lowtide_sim::run(scenario, seed, false).map(|outcome| outcome.summary).with_context(context);
    let asked = row.measures.iter().any(|number| values::needs_without(&number.value));
    let without = asked.then(|| summary(&cell.without)).transpose()?;
    let of_server = row.measures.iter().any(|number| values::needs_server(&number.value));
    let of = |(scenario, server): (&Scenario, &Option<Scenario>)| {
        let with = summary(scenario)?;
        let server = server.as_ref().filter(|_| of_server).map(summary).transpose()?;
        let named = |number: &Measure| values::named(&number.value, scenario, &with, without.as_ref(), server.as_ref());
        Ok(row.measures.iter().map(named).collect())
    };
    cell.scenarios.iter().zip(&cell.servers).map(of).collect()
}

fn row_result(suite: &Suite, row: &Row, number: &Measure, n: usize, cells: &[&[Values]]) -> RowResult {
    let control = |(c, control): (usize, &Control), seeds: &[Values]| {
        let bound = number.bound(control.form);
        ControlResult {
            control: control.name.clone(),
            form: control.form,
            judged: control.judged,
            at_least: bound.at_least,
            at_most: bound.at_most,
            each: seeds.iter().map(|seed| Some(seed[c][n]).filter(|value| value.is_finite())).collect(),
        }
    };
    let cell = |(cell, seeds): (&Cell, &&[Values])| CellResult {
        says: cell.says.clone(),
        controls: suite.controls.iter().enumerate().map(|named| control(named, seeds)).collect(),
    };
    RowResult {
        row: row.name.clone(),
        says: row.says.clone(),
        value: number.value.clone(),
        number: number.says.clone(),
        cells: row.cells.iter().zip(cells).map(cell).collect(),
    }
}
