//! Experiments that also run with real kernels: the same scenario, shorter, in the laboratory and once more in the simulator, and
//! how far the two are apart. Knows no paper.

use anyhow::{Context, Result};
use lowtide_lab::run;
use lowtide_scenario::Summary;

use super::experiment::{Experiment, Extent, Point};
use super::measure::{self, Values};
use super::{Folders, jobs};
use crate::lab;

/// Shares may differ by a tenth of the simulator's, or by this part of the line where that is more.
const SHARE: (f64, f64) = (0.10, 0.02);
/// Completion times: by 15 %, or by a round of jitter.
const COMPLETION: (f64, f64) = (0.15, 0.02);

/// One value of one point in both.
pub struct Compared {
    pub point: Point,
    /// `share.lbe`, `fct.short`.
    pub metric: String,
    pub sim: f64,
    pub lab: f64,
    /// The host was late in one of the laboratory's runs: its number says little.
    pub stalled: bool,
    /// Within the tolerance.
    pub close: bool,
}

/// Runs what the laboratory still owes, one after the other, and the simulator's counterparts.
///
/// # Errors
/// No rights for a laboratory, or a run that failed.
pub fn run(folders: &Folders, experiments: &[&Experiment], threads: Option<usize>) -> Result<()> {
    let mut twins = Vec::new();
    let mut owed = Vec::new();
    for experiment in experiments {
        twins.extend(jobs::of(&folders.twins(), experiment, Extent::Lab)?);
        owed.extend(jobs::of(&folders.lab(), experiment, Extent::Lab)?.into_iter().filter(|job| !job.is_done()));
    }
    jobs::simulate(&twins, threads)?;
    let options = lab::options()?;
    let left = |from: usize| owed[from..].iter().map(|job| job.scenario.duration_s).sum::<f64>();
    for (i, job) in owed.iter().enumerate() {
        eprintln!("lab {} of {}: {}, at least {:.0} s left", i + 1, owed.len(), job.scenario.name, left(i));
        let outcome = run::run(&job.scenario, &options).with_context(|| job.scenario.name.clone())?;
        lab::warn_if_stalled(&outcome.summary);
        job.write(&outcome.summary)?;
    }
    Ok(())
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
        let (sim, lab) = (mean(&sim), mean(&lab));
        for metric in experiment.plot.iter().filter(|axes| !axes.over_time()).flat_map(|axes| &axes.y) {
            if let (Some(sim), Some(lab)) = (sim.named(metric), lab.named(metric)) {
                let (part, least) = if metric.starts_with("fct") { COMPLETION } else { SHARE };
                let close = (sim - lab).abs() <= (part * sim.abs()).max(least);
                compared.push(Compared { point: point.clone(), metric: metric.clone(), sim, lab, stalled, close });
            }
        }
    }
    Ok(compared)
}

fn mean(runs: &[Summary]) -> Values {
    Values::mean(&runs.iter().map(measure::of_run).collect::<Vec<_>>())
}
