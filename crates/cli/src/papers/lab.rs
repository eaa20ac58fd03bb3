//! Experiments that also run with real kernels: the same scenario, shorter, in the laboratory and once more in the simulator, and
//! how far the two are apart. What was measured is kept beside the results, and recorded beside the experiments. Knows no paper.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use lowtide_scenario::Summary;
use lowtide_units::statistics;
use serde::{Deserialize, Serialize};

use super::experiment::Experiment;
use super::fragile::Change;
use super::points::{Extent, Point};
use super::{Folders, jobs, measure};
use crate::lab;
use crate::lab::pool::{self, Run};

/// Shares may differ by a tenth of the simulator's, or by this part of the line where that is more.
const SHARE: (f64, f64) = (0.10, 0.02);
/// Completion times: by 15 %, or by a round of jitter.
const COMPLETION: (f64, f64) = (0.15, 0.02);

/// One value of one point in both.
pub struct Compared {
    pub point: Point,
    pub value: Value,
    /// Within the tolerance.
    pub close: bool,
}

/// A value as it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// The point's label.
    point: String,
    /// `share.lbe`, `fct.short`.
    pub metric: String,
    /// Mean over the runs.
    pub sim: f64,
    pub lab: f64,
    /// Twice the standard error of the difference of the means; none of a single run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
    /// The host was late in one of the laboratory's runs: its number says little.
    pub stalled: bool,
}

/// What the laboratory measured of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The kernel's release.
    kernel: String,
    /// The day, as 2026-01-31.
    day: String,
    values: Vec<Value>,
}

/// An experiment in both.
#[derive(Default)]
pub struct Laboratory {
    /// On which kernel, on which day; empty where it was not run.
    pub made: String,
    pub values: Vec<Compared>,
}

/// All measurements, by experiment.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kept(BTreeMap<String, Measurement>);

const FILE: &str = "lab.json";

impl Kept {
    /// What is recorded beside the experiments, and over it what is kept beside the results.
    ///
    /// # Errors
    /// A file that is something else.
    pub fn read(folders: &Folders) -> Result<Kept> {
        let mut kept = Kept::read_from(&folders.experiments)?;
        kept.0.extend(Kept::read_from(&folders.out)?.0);
        Ok(kept)
    }

    fn read_from(folder: &Path) -> Result<Kept> {
        let file = folder.join(FILE);
        match fs::read(&file) {
            Ok(text) => {
                serde_json::from_slice(&text).with_context(|| format!("{}: no measurements of the laboratory; remove it", file.display()))
            }
            Err(_) => Ok(Kept::default()),
        }
    }

    /// Adds an experiment's measurement to what is kept in `folder`.
    fn add(folder: &Path, experiment: &Experiment, measurement: &Measurement) -> Result<()> {
        let mut kept = Kept::read_from(folder)?;
        kept.0.insert(experiment.id.clone(), measurement.clone());
        let file = folder.join(FILE);
        fs::write(&file, serde_json::to_string_pretty(&kept)? + "\n").with_context(|| format!("{}: cannot be written", file.display()))
    }

    /// What is kept of an experiment, at points that it still has.
    pub fn of(&self, experiment: &Experiment) -> Laboratory {
        let Some(measurement) = self.0.get(&experiment.id) else { return Laboratory::default() };
        let points = experiment.points(Extent::Lab);
        let compared = |value: &Value| {
            let point = points.iter().find(|p| p.label() == value.point)?.clone();
            let (part, least) = if value.metric.starts_with("fct") { COMPLETION } else { SHARE };
            let close = (value.sim - value.lab).abs() <= (part * value.sim.abs()).max(least);
            Some(Compared { point, value: value.clone(), close })
        };
        let values: Vec<Compared> = measurement.values.iter().filter_map(compared).collect();
        let made = format!("Linux {}, {}", measurement.kernel, measurement.day);
        Laboratory { made: if values.is_empty() { String::new() } else { made }, values }
    }
}

impl Compared {
    /// Apart, and by more than the runs among themselves.
    pub fn is_apart(&self) -> bool {
        !self.close && self.value.noise.is_none_or(|noise| (self.value.sim - self.value.lab).abs() > noise)
    }
}

/// Runs what the laboratory still owes, `at_a_time`, and the simulator's counterparts; keeps what they measured, and records it beside
/// the experiments if asked to.
///
/// # Errors
/// No rights for a laboratory, or a run that failed.
pub fn run(folders: &Folders, experiments: &[&Experiment], threads: Option<usize>, at_a_time: usize, record: bool) -> Result<()> {
    lab::may_run()?; // before the simulator's part, which takes minutes
    let mut twins = Vec::new();
    let mut owed = Vec::new();
    for experiment in experiments {
        twins.extend(jobs::of(&folders.twins(), experiment, Extent::Lab, Change::None)?);
        owed.extend(jobs::of(&folders.lab(), experiment, Extent::Lab, Change::None)?.into_iter().filter(|job| !job.is_done()));
    }
    jobs::simulate(&twins, threads)?;
    let runs: Vec<Run<'_>> = owed
        .iter()
        .map(|job| Run {
            label: job.scenario.name.clone(),
            scenario: job.scenario.clone(),
            keep: Box::new(|outcome| job.write(&outcome.summary)),
        })
        .collect();
    pool::run_all(&runs, at_a_time, &lab::options()?)?;
    for experiment in experiments {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        let measurement = Measurement { kernel, day: today(), values: measured(folders, experiment) };
        Kept::add(&folders.out, experiment, &measurement)?;
        if record {
            Kept::add(&folders.experiments, experiment, &measurement)?;
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the day of a measurement is for people")]
fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    chrono::DateTime::from_timestamp(since as i64, 0).map_or_else(String::new, |day| day.format("%Y-%m-%d").to_string())
}

/// What both ran of an experiment.
fn measured(folders: &Folders, experiment: &Experiment) -> Vec<Value> {
    let mut values = Vec::new();
    for point in experiment.points(Extent::Lab) {
        let runs = |root: &std::path::Path| {
            (1..=point.repeat).map(|seed| Summary::read(&jobs::dir_of(root, experiment, &point, seed)).ok()).collect::<Option<Vec<_>>>()
        };
        let (Some(sim), Some(lab)) = (runs(&folders.twins()), runs(&folders.lab())) else { continue };
        let stalled = lab.iter().any(|run| run.lateness_ms.is_some_and(|l| l.stalled));
        for metric in experiment.plot.iter().filter(|axes| !axes.over_time()).flat_map(|axes| &axes.y) {
            if let (Some(sim), Some(lab)) = (Sample::of(&sim, metric), Sample::of(&lab, metric)) {
                values.push(sim.against(&lab, &point, metric, stalled));
            }
        }
    }
    values
}

/// One value over several runs.
struct Sample {
    mean: f64,
    /// The square of the mean's standard error; none of a single run.
    error: Option<f64>,
}

impl Sample {
    fn of(runs: &[Summary], metric: &str) -> Option<Sample> {
        let each: Vec<f64> = runs.iter().map(|run| measure::of_run(run).named(metric)).collect::<Option<_>>()?;
        let n = each.len() as f64;
        Some(Sample { mean: statistics::mean(&each), error: (each.len() > 1).then(|| statistics::deviation(&each).powi(2) / n) })
    }

    fn against(&self, lab: &Sample, point: &Point, metric: &str, stalled: bool) -> Value {
        let noise = self.error.zip(lab.error).map(|(a, b)| 2.0 * (a + b).sqrt());
        Value { point: point.label(), metric: metric.to_owned(), sim: self.mean, lab: lab.mean, noise, stalled }
    }
}

#[cfg(test)]
mod tests {
    use super::super::experiment::load_all;
    use super::*;

    #[test]
    fn a_recorded_measurement_is_shown_with_kernel_and_day_at_the_points_that_are_left() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers");
        let experiments = load_all(&root, &[]).unwrap_or_else(|e| panic!("{e:#}"));
        let figure = experiments.iter().find(|e| e.id == "bagnulo2023/fig14").expect("a figure with rows of the laboratory");
        let label = figure.points(Extent::Lab)[0].label();
        let value = |point: &str, lab: f64| Value {
            point: point.to_owned(),
            metric: "share.lbe".to_owned(),
            sim: 0.2,
            lab,
            noise: Some(0.01),
            stalled: false,
        };
        let values = vec![value(&label, 0.205), value(&label, 0.3), value("ours rtt=7", 0.2)];
        let (out, papers) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let folders = Folders { out: out.path().to_owned(), experiments: papers.path().to_owned() };
        let measurement = |day: &str| Measurement { kernel: "6.18.0".to_owned(), day: day.to_owned(), values: values.clone() };
        Kept::add(papers.path(), figure, &measurement("2026-01-30")).expect("written");
        Kept::add(out.path(), figure, &measurement("2026-01-31")).expect("written");
        let shown = Kept::read(&folders).expect("read").of(figure);
        assert_eq!(shown.made, "Linux 6.18.0, 2026-01-31", "the newer one");
        assert_eq!(shown.values.iter().map(|c| (c.close, c.is_apart())).collect::<Vec<_>>(), [(true, false), (false, true)]);
    }

    #[test]
    fn a_day_is_written_as_one() {
        let day = today();
        assert!(day.len() == 10 && day.as_str() > "2024-01-01" && day.as_bytes()[4] == b'-', "{day}");
    }
}
