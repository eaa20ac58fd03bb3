//! What became of an experiment: the means of its runs, and each claim judged. Reads results, runs nothing.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use lowtide_scenario::{Series, Summary};

use super::claims::Judge;
use super::experiment::{Claim, Experiment, Extent, Point};
use super::lab::{self, Compared};
use super::measure::{self, Values};
use super::tracks::{Derived, Tracks};
use super::{Folders, jobs};

/// A point with what was measured there.
pub struct Measured {
    pub point: Point,
    pub values: Values,
    /// Of the first run, where a plot over time draws it.
    pub tracks: Option<Tracks>,
}

/// A claim and what became of it.
pub struct Verdict<'a> {
    pub claim: &'a Claim,
    /// Met or not; none where this run lacks a point that it needs.
    pub met: Option<bool>,
}

/// An experiment with everything that is known of it.
pub struct Outcome<'a> {
    pub experiment: &'a Experiment,
    /// Which of its points were run; none if it was not.
    pub extent: Option<Extent>,
    pub measured: Vec<Measured>,
    pub verdicts: Vec<Verdict<'a>>,
    /// Runs of another build of lowtide.
    pub stale: usize,
    /// The simulator and the laboratory, where both ran.
    pub lab: Vec<Compared>,
}

/// Reads and judges all that there is: of each experiment the full run, or else the quick one.
///
/// # Errors
/// A claim that cannot be decided, or a result that cannot be read.
pub fn all<'a>(folders: &Folders, experiments: &'a [Experiment]) -> Result<Vec<Outcome<'a>>> {
    let read = |e: &'a Experiment| {
        let extent = extent_of(&folders.out, e)?;
        let measured = extent.map_or(Ok(Vec::new()), |extent| read_back(&folders.out, e, extent))?;
        let of_this_build = |extent| Ok::<_, anyhow::Error>(jobs::of(&folders.out, e, extent)?.iter().filter(|j| !j.is_current()).count());
        let stale = extent.map_or(Ok(0), of_this_build)?;
        Ok(Outcome { experiment: e, extent, measured, verdicts: Vec::new(), stale, lab: lab::compare(folders, e)? })
    };
    let mut outcomes = experiments.iter().map(read).collect::<Result<Vec<_>>>()?;
    let verdicts = outcomes.iter().map(|o| judge(o, &outcomes)).collect::<Result<Vec<_>>>()?;
    outcomes.iter_mut().zip(verdicts).for_each(|(outcome, verdicts)| outcome.verdicts = verdicts);
    Ok(outcomes)
}

fn extent_of(out: &Path, experiment: &Experiment) -> Result<Option<Extent>> {
    for extent in [Extent::Full, Extent::Quick] {
        if jobs::of(out, experiment, extent)?.iter().all(jobs::Job::is_done) {
            return Ok(Some(extent));
        }
    }
    Ok(None)
}

/// The means over the runs of each point.
pub fn read_back(out: &Path, experiment: &Experiment, extent: Extent) -> Result<Vec<Measured>> {
    let read = |point: Point| {
        let one = |seed| {
            let dir = jobs::dir_of(out, experiment, &point, seed);
            let mut values = measure::of_run(&Summary::read(&dir)?);
            if !experiment.derive.is_empty() {
                let derived = Derived::read(&dir).with_context(|| format!("{}: no derived values", dir.display()))?;
                values.whole.extend(derived.values(experiment));
            }
            Ok(values)
        };
        let runs = (1..=point.repeat).map(one).collect::<Result<Vec<_>>>()?;
        let first = jobs::dir_of(out, experiment, &point, 1);
        let series = if experiment.draws_series() { Series::read(&first)? } else { None };
        let tracks = series.map(|series| jobs::tracks_of(experiment, &series, &first)).transpose()?;
        Ok(Measured { values: Values::mean(&runs), point, tracks })
    };
    experiment.points(extent).into_iter().map(read).collect()
}

fn maps<'m>(outcome: &'m Outcome, companion: Option<&'m str>) -> impl Iterator<Item = rhai::Map> + use<'m> {
    let mine = outcome.measured.iter().filter(move |m| m.point.companion.as_deref() == companion);
    mine.map(|m| m.values.to_map(outcome.experiment, &m.point))
}

/// Judges a claim where its own points and those it looks at beside them are there: all for a full run, `quick` ones for a quick one.
fn judge<'a>(outcome: &Outcome<'a>, all: &[Outcome<'a>]) -> Result<Vec<Verdict<'a>>> {
    let experiment = outcome.experiment;
    let companions = experiment.variants.iter().filter(|v| v.companion);
    let mut beside: BTreeMap<String, Vec<rhai::Map>> =
        companions.map(|v| (v.name.clone(), maps(outcome, Some(&v.name)).collect())).collect();
    let others: Vec<&Outcome> = all.iter().filter(|o| experiment.beside.contains(&o.experiment.id)).collect();
    beside.extend(others.iter().map(|o| (o.experiment.id.clone(), maps(o, None).collect())));
    let full = outcome.extent == Some(Extent::Full) && others.iter().all(|o| o.extent == Some(Extent::Full));
    let quick = outcome.extent.is_some() && others.iter().all(|o| o.extent.is_some());
    let judge = Judge::new(maps(outcome, None).collect(), beside);
    let verdict = |claim: &'a Claim| {
        if !(full || (quick && claim.quick)) {
            return Ok(Verdict { claim, met: None });
        }
        let met = judge.holds(&claim.rule).with_context(|| format!("{}#{}", experiment.id, claim.id))?;
        Ok(Verdict { claim, met: Some(met) })
    };
    experiment.claims.iter().map(verdict).collect()
}

impl Verdict<'_> {
    /// In a word or two.
    pub fn word(&self) -> &'static str {
        match (self.met, self.claim.again.is_some()) {
            (Some(true), false) => "met",
            (Some(false), false) if self.claim.explained.is_some() => "not met, explained",
            (Some(false), false) => "NOT MET",
            (Some(true), true) => "stands",
            (Some(false), true) if self.claim.explained.is_some() => "falls, explained",
            (Some(false), true) => "FALLS",
            (None, _) => "needs the full run",
        }
    }
}

impl Outcome<'_> {
    /// Claims of the paper met, those decided, and all those not met that nobody has explained.
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |test: fn(&Verdict) -> bool| self.verdicts.iter().filter(|v| test(v)).count();
        (
            count(|v| v.met == Some(true) && v.claim.again.is_none()),
            count(|v| v.met.is_some() && v.claim.again.is_none()),
            count(|v| v.met == Some(false) && v.claim.explained.is_none()),
        )
    }

    /// Of the claims that are asked again: those that stand, and those decided.
    pub fn again(&self) -> (usize, usize) {
        let count = |test: fn(&Verdict) -> bool| self.verdicts.iter().filter(|v| v.claim.again.is_some() && test(v)).count();
        (count(|v| v.met == Some(true)), count(|v| v.met.is_some()))
    }

    /// Its claims for programs.
    pub fn json(&self) -> impl Iterator<Item = serde_json::Value> {
        self.verdicts.iter().map(|v| {
            serde_json::json!({
                "experiment": self.experiment.id, "claim": v.claim.id, "says": v.claim.says, "place": v.claim.place,
                "rule": v.claim.rule, "met": v.met, "again": v.claim.again, "explained": v.claim.explained,
            })
        })
    }
}
