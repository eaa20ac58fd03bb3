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
    table.rows.iter().map(|row| of(row, table, out)).collect()
}

/// A row's results: those that count, and those that the host stalled.
fn results(row: &Row, out: &Path) -> Result<(Vec<ResultDir>, Vec<ResultDir>)> {
    let dirs: Vec<PathBuf> = (1..).map(|run| dir(out, row, run)).take_while(|dir| ResultDir::is_one(dir)).collect();
    if dirs.is_empty() {
        bail!("row `{}` has no result in {}: run it first, without --kept", row.name, out.display());
    }
    let results = dirs.iter().map(|dir| ResultDir::read(dir)).collect::<std::io::Result<Vec<_>>>()?;
    Ok(results.into_iter().partition(|r| !r.summary.lateness_ms.is_some_and(|l| l.stalled)))
}

fn of<'a>(row: &'a Row, table: &Table, out: &Path) -> Result<Measured<'a>> {
    let (good, stalled) = results(row, out)?;
    // None where the host stalled all runs of the other row.
    let divisor = |measure: &Measure| -> Result<Option<f64>> {
        let Some(other) = table.rows.iter().find(|r| Some(&r.name) == measure.of.as_ref()) else { return Ok(Some(1.0)) };
        let each = values_of(other, measure, &results(other, out)?.0)?;
        Ok((!each.is_empty()).then(|| statistics::mean(&each)))
    };
    let numbers = row.measures.iter().map(|measure| number(row, measure, divisor(measure)?, &good));
    let warmup = row.scenario.as_ref().map_or(0.0, |s| s.warmup_s);
    Ok(Measured {
        row: &row.name,
        says: &row.says,
        runs: good.len(),
        stalled: stalled.len(),
        seconds: good.iter().chain(&stalled).next().map_or(0.0, |r| r.summary.duration_s - warmup),
        numbers: numbers.collect::<Result<_>>()?,
        lateness_ms: good.iter().filter_map(|r| r.summary.lateness_ms).max_by(|a, b| a.p99.total_cmp(&b.p99)),
    })
}

fn values_of(row: &Row, measure: &Measure, results: &[ResultDir]) -> Result<Vec<f64>> {
    let value = |result: &ResultDir| {
        let why = || format!("row `{}`: {} has no value `{}`", row.name, result.path.display(), measure.value);
        values::named(result, &measure.value).with_context(why)
    };
    results.iter().map(value).collect()
}

fn number<'a>(row: &Row, measure: &'a Measure, divisor: Option<f64>, results: &[ResultDir]) -> Result<Number<'a>> {
    let values = values_of(row, measure, results)?;
    let each: Vec<f64> = divisor.map_or_else(Vec::new, |divisor| values.iter().map(|value| value / divisor).collect());
    let mean = (!each.is_empty()).then(|| statistics::mean(&each));
    Ok(Number { measure, mean, met: mean.and_then(|mean| measure.bound().met(mean)), each })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use lowtide_scenario::{Bottleneck, Summary};

    use super::super::suite;
    use super::*;

    /// A run of `row` whose line was in use by that much.
    fn keep(out: &Path, row: &str, run: u32, utilisation: f64, stalled: bool) {
        let lateness_ms = Some(Lateness { stalled, ..Default::default() });
        let bottlenecks = vec![Bottleneck { utilisation, ..Default::default() }];
        let summary = Summary { bottlenecks, lateness_ms, ..Default::default() };
        ResultDir::write(&out.join(row).join(format!("run-{run}")), "duration_s = 1.0\n", &summary, None).expect("written");
    }

    #[test]
    fn a_value_of_another_row_is_divided_by_the_mean_of_its_runs_that_count() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = r#"
            title = "t"
            scenario.duration_s = 1.0
            scenario.topology = { kind = "dumbbell", rate_mbps = 1.0, rtt_ms = 20.0, queue = { kind = "drop_tail", ms = 500.0 } }
            scenario.flows = [{ name = "f", cc = "cubic" }]
            [[rows]]
            name = "a"
            says = "a"
            measures = [{ value = "utilisation", says = "of b's", of = "b", at_least = 0.8 }]
            [[rows]]
            name = "b"
            says = "b"
            measures = [{ value = "utilisation", says = "in use" }]
        "#;
        fs::write(folder.path().join("1.toml"), text).expect("written");
        let tables = suite::load(folder.path(), &[]).expect("a suite");
        for (row, run, utilisation, stalled) in [("a", 1, 0.3, false), ("b", 1, 0.2, false), ("b", 2, 0.6, false), ("b", 3, 9.0, true)] {
            keep(folder.path(), row, run, utilisation, stalled);
        }
        let rows = read(&tables[0], folder.path()).expect("numbers");
        let number = &rows[0].numbers[0];
        assert!(number.mean.is_some_and(|mean| (mean - 0.75).abs() < 1e-9) && number.met == Some(false));
        (1..=2).for_each(|run| keep(folder.path(), "b", run, 0.2, true));
        let rows = read(&tables[0], folder.path()).expect("numbers");
        assert_eq!((rows[0].numbers[0].mean, rows[0].numbers[0].met), (None, None), "the host stalled every run of b");
    }
}
