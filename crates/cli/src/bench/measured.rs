//! What the runs of a row say together. Knows results and rows; prints nothing.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use lowtide_scenario::ResultDir;
use lowtide_scenario::result::Lateness;
use lowtide_units::statistics;
use serde::Serialize;

use super::suite::{Measure, Row, Table};
use super::values;

/// Where a run's result lies.
pub fn dir(out: &Path, row: &Row, run: u32) -> PathBuf {
    out.join(&row.name).join(format!("run-{run}"))
}

/// A row with its numbers, as `--json` prints it.
#[derive(Debug, Serialize)]
pub struct Measured<'a> {
    /// The row's name.
    pub row: &'a str,
    /// What it is.
    pub says: &'a str,
    /// Runs whose numbers count.
    pub runs: usize,
    /// Runs that the host stalled, also when they were repeated: marked, not averaged in.
    pub stalled: usize,
    /// Seconds of each run that count.
    pub seconds: f64,
    /// Its numbers.
    pub numbers: Vec<Number<'a>>,
    /// How late the link was: the worst of the runs that count.
    pub lateness_ms: Option<Lateness>,
}

/// One number of a row.
#[derive(Debug, Serialize)]
pub struct Number<'a> {
    /// What was asked.
    #[serde(flatten)]
    pub measure: &'a Measure,
    /// Over the runs that count; none where there is none.
    pub mean: Option<f64>,
    /// Each run's.
    pub each: Vec<f64>,
    /// Whether the mean is what it must be.
    pub met: Option<bool>,
}

/// The rows of a table with what lies in `out`.
///
/// # Errors
/// A row without a result, or without the value that it names.
pub fn read<'a>(table: &'a Table, out: &Path) -> Result<Vec<Measured<'a>>> {
    table.rows.iter().map(|row| of(row, out)).collect()
}

fn of<'a>(row: &'a Row, out: &Path) -> Result<Measured<'a>> {
    let dirs: Vec<PathBuf> = (1..).map(|run| dir(out, row, run)).take_while(|dir| ResultDir::is_one(dir)).collect();
    if dirs.is_empty() {
        bail!("row `{}` has no result in {}: run it first, without --kept", row.name, out.display());
    }
    let results = dirs.iter().map(|dir| ResultDir::read(dir)).collect::<std::io::Result<Vec<_>>>()?;
    let (good, stalled): (Vec<&ResultDir>, Vec<&ResultDir>) =
        results.iter().partition(|r| !r.summary.lateness_ms.is_some_and(|l| l.stalled));
    let warmup = row.scenario.as_ref().map_or(0.0, |s| s.warmup_s);
    Ok(Measured {
        row: &row.name,
        says: &row.says,
        runs: good.len(),
        stalled: stalled.len(),
        seconds: results.first().map_or(0.0, |r| r.summary.duration_s - warmup),
        numbers: row.measures.iter().map(|measure| number(row, measure, &good)).collect::<Result<_>>()?,
        lateness_ms: good.iter().filter_map(|r| r.summary.lateness_ms).max_by(|a, b| a.p99.total_cmp(&b.p99)),
    })
}

fn number<'a>(row: &Row, measure: &'a Measure, results: &[&ResultDir]) -> Result<Number<'a>> {
    let value = |result: &&ResultDir| {
        let why = || format!("row `{}`: {} has no value `{}`", row.name, result.path.display(), measure.value);
        values::named(result, &measure.value).with_context(why)
    };
    let each = results.iter().map(value).collect::<Result<Vec<f64>>>()?;
    let mean = (!each.is_empty()).then(|| statistics::mean(&each));
    Ok(Number { measure, mean, met: mean.and_then(|mean| measure.met(mean)), each })
}
