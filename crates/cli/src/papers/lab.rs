//! Experiments that also run with real kernels: the same scenario, shorter, in the laboratory and once more in the simulator, and
//! how far the two are apart. Knows no paper.

use anyhow::Result;
use lowtide_scenario::Summary;
use lowtide_units::statistics;

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
    /// `share.lbe`, `fct.short`.
    pub metric: String,
    /// Mean over the runs.
    pub sim: f64,
    pub lab: f64,
    /// Twice the standard error of the difference of the means; none of a single run.
    pub noise: Option<f64>,
    /// The host was late in one of the laboratory's runs: its number says little.
    pub stalled: bool,
    /// Within the tolerance.
    pub close: bool,
}

impl Compared {
    /// Apart, and by more than the runs among themselves.
    pub fn is_apart(&self) -> bool {
        !self.close && self.noise.is_none_or(|noise| (self.sim - self.lab).abs() > noise)
    }
}

/// Runs what the laboratory still owes, `at_a_time`, and the simulator's counterparts.
///
/// # Errors
/// No rights for a laboratory, or a run that failed.
pub fn run(folders: &Folders, experiments: &[&Experiment], threads: Option<usize>, at_a_time: usize) -> Result<()> {
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
    pool::run_all(&runs, at_a_time, &lab::options()?)
}

/// What both ran.
///
/// # Errors
/// A result that cannot be read.
pub fn compare(folders: &Folders, experiment: &Experiment) -> Result<Vec<Compared>> {
    let mut compared = Vec::new();
    for point in experiment.points(Extent::Lab) {
        let runs = |root: &std::path::Path| {
            (1..=point.repeat).map(|seed| Summary::read(&jobs::dir_of(root, experiment, &point, seed)).ok()).collect::<Option<Vec<_>>>()
        };
        let (Some(sim), Some(lab)) = (runs(&folders.twins()), runs(&folders.lab())) else { continue };
        let stalled = lab.iter().any(|run| run.lateness_ms.is_some_and(|l| l.stalled));
        for metric in experiment.plot.iter().filter(|axes| !axes.over_time()).flat_map(|axes| &axes.y) {
            if let (Some(sim), Some(lab)) = (Sample::of(&sim, metric), Sample::of(&lab, metric)) {
                compared.push(sim.against(&lab, point.clone(), metric, stalled));
            }
        }
    }
    Ok(compared)
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

    fn against(&self, lab: &Sample, point: Point, metric: &str, stalled: bool) -> Compared {
        let (part, least) = if metric.starts_with("fct") { COMPLETION } else { SHARE };
        let close = (self.mean - lab.mean).abs() <= (part * self.mean.abs()).max(least);
        let noise = self.error.zip(lab.error).map(|(a, b)| 2.0 * (a + b).sqrt());
        Compared { point, metric: metric.to_owned(), sim: self.mean, lab: lab.mean, noise, stalled, close }
    }
}
