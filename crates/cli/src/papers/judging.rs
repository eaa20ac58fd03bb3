//! Judges each claim of each experiment in each column, beside what reruns and the laboratory said. Reads results, runs nothing.

use anyhow::Result;

use super::claim::Claim;
use super::experiment::Experiment;
use super::fragile::{self, Change};
use super::lab;
use super::outcome::{self, Outcome, Verdict};
use super::points::Profile;
use super::verdict::Judge;
use super::{Folders, jobs};

/// Reads and judges all that there is: of each experiment the full run, or else the quick one.
///
/// # Errors
/// A claim that cannot be decided, or a result that cannot be read.
pub fn all<'a>(folders: &Folders, experiments: &'a [Experiment]) -> Result<Vec<Outcome<'a>>> {
    let laboratory = lab::Kept::read(folders)?;
    let read = |e: &'a Experiment| {
        let extent = outcome::extent_of(&folders.out, e)?;
        let of_this_build =
            |extent| Ok::<_, anyhow::Error>(jobs::of(&folders.out, e, extent, Change::None)?.iter().filter(|j| !j.is_current()).count());
        let stale = extent.map_or(Ok(0), of_this_build)?;
        let outcome = outcome::measured(&folders.out, e, extent, Change::None)?;
        Ok(Outcome { stale, lab: laboratory.of(e), ..outcome })
    };
    let mut outcomes = experiments.iter().map(read).collect::<Result<Vec<_>>>()?;
    let kept = fragile::read(folders)?;
    let verdicts = outcomes.iter().map(|o| judge(o, &outcomes, &kept)).collect::<Result<Vec<_>>>()?;
    outcomes.iter_mut().zip(verdicts).for_each(|(outcome, verdicts)| outcome.verdicts = verdicts);
    Ok(outcomes)
}

fn judge<'a>(outcome: &Outcome<'a>, all: &[Outcome<'a>], kept: &fragile::Kept) -> Result<Vec<Verdict<'a>>> {
    let experiment = outcome.experiment;
    let judge = Judge::new(experiment.paper(), all);
    let verdict = |claim: &'a Claim| {
        let named = |e: anyhow::Error| e.context(format!("{}#{}", experiment.id, claim.id));
        let profiles = || Profile::ALL.into_iter().filter(|p| experiment.column(*p).is_some());
        let columns = profiles().map(|p| Ok((p, judge.judge(outcome, claim, p)?))).collect::<Result<Vec<_>>>().map_err(named)?;
        let restated = profiles().filter_map(|p| Some(judge.restated(outcome, claim, p)?.map(|j| (p, j))));
        let restated = restated.collect::<Result<Vec<_>>>().map_err(named)?;
        let shown = profiles().flat_map(|p| claim.explained.of(p).into_iter().flat_map(move |e| e.shown.iter().map(move |s| (p, s))));
        let shown = shown.map(|(p, s)| (p, s.text.clone(), judge.show(experiment, &s.expr, p))).collect();
        let fragile =
            columns.iter().filter_map(|(p, judged)| Some((*p, kept.of(experiment, outcome.extent, claim, *p, judged)?))).collect();
        Ok(Verdict { claim, columns, restated, shown, fragile })
    };
    experiment.claims.iter().map(verdict).collect()
}
