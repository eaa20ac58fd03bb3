//! What a verdict hangs on: the points that a claim reads, the place where it fails by the most, and how much the runs of a point
//! scatter there. Reads measured values, runs nothing.

use anyhow::Result;

use super::{Judge, Reads, Seeing, State, View};
use crate::papers::claim::{Claim, Population};
use crate::papers::outcome::Outcome;
use crate::papers::points::Profile;
use crate::papers::rule::compile::{self, Compiled, Scope};
use crate::papers::rule::eval::{self, Place, Seen};

/// A claim in a column.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub claim: &'a Claim,
    pub profile: Profile,
}

/// How much of a claim is looked at.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// All of it.
    Whole,
    /// One line at the place where it fails by the most: while it fails there, the claim is not met.
    Failing { line: usize, place: Place },
}

/// A line at a place, over all runs of the points and in each of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scatter {
    /// By how much it holds; negative where it does not.
    pub margin: f64,
    /// The largest margin of a run less the smallest one.
    pub width: f64,
    /// Whether each of the runs says what all of them say.
    pub agree: bool,
}

impl Judge<'_> {
    /// The part on which the verdict of a claim hangs: of one that is not met the worst place of a line that fails.
    ///
    /// # Errors
    /// A rule about a point that is not there.
    pub fn part(&self, outcome: &Outcome, asked: Asked) -> Result<Part> {
        let judged = self.judge(outcome, asked.claim, asked.profile)?;
        let failing = judged.lines.iter().position(|seen| !seen.decided.holds).filter(|_| judged.state == State::NotMet);
        Ok(failing.map_or(Part::Whole, |line| Part::Failing { line, place: judged.lines[line].decided.worst.place.clone() }))
    }

    /// The verdict that this part gives: none where a failing line fails no longer, which leaves the rest to be asked.
    ///
    /// # Errors
    /// As [`Judge::part`].
    pub fn says(&self, outcome: &Outcome, asked: Asked, part: &Part) -> Result<Option<String>> {
        let Part::Failing { line, place } = part else {
            return Ok(Some(self.judge(outcome, asked.claim, asked.profile)?.word().to_owned()));
        };
        let (lines, own) = self.compiled(outcome, asked.claim)?;
        let seen = eval::at(&lines[*line], &self.seeing(asked, View::All(outcome.experiment.population)), own, place)?;
        Ok((!seen.holds).then(|| "not met".to_owned()))
    }

    /// The points that this part reads.
    ///
    /// # Errors
    /// As [`Judge::part`].
    pub fn reads(&self, outcome: &Outcome, asked: Asked, part: &Part) -> Result<Reads> {
        self.read.take();
        self.says(outcome, asked, part)?;
        Ok(self.read.take())
    }

    /// How its margins scatter over the first `runs` of each point, line by line and place by place.
    ///
    /// # Errors
    /// As [`Judge::part`].
    pub fn scatter(&self, outcome: &Outcome, asked: Asked, part: &Part, runs: usize) -> Result<Vec<Scatter>> {
        let (lines, own) = self.compiled(outcome, asked.claim)?;
        let seen_by = |view| -> Result<Vec<Seen>> {
            let data = self.seeing(asked, view);
            match part {
                Part::Whole => Ok(lines.iter().map(|l| eval::everywhere(l, &data, own)).collect::<Result<Vec<_>>>()?.concat()),
                Part::Failing { line, place } => Ok(vec![eval::at(&lines[*line], &data, own, place)?]),
            }
        };
        let each = (0..runs).map(|run| seen_by(View::Seed(run))).collect::<Result<Vec<_>>>()?;
        let one = |(n, all): (usize, Seen)| {
            let margins = || each.iter().map(|run| run[n].margin);
            let (least, most) = (margins().fold(f64::INFINITY, f64::min), margins().fold(f64::NEG_INFINITY, f64::max));
            let agree = each.iter().all(|run| run[n].holds == all.holds) && margins().all(f64::is_finite);
            Scatter { margin: all.margin, width: most - least, agree }
        };
        Ok(seen_by(View::All(outcome.experiment.population))?.into_iter().enumerate().map(one).collect())
    }

    /// Its lines, and the strict ones where each run is asked them.
    fn compiled(&self, outcome: &Outcome, claim: &Claim) -> Result<(Vec<Compiled>, usize)> {
        let own = self.position(outcome.experiment)?;
        let strict = claim.strict.iter().filter(|_| outcome.experiment.population == Population::Median).flat_map(|rule| &rule.0);
        let lines = claim.rule.0.iter().chain(strict).map(|l| compile::line(l, Scope { all: &self.names, own }));
        Ok((lines.collect::<Result<_>>()?, own))
    }

    fn seeing(&self, asked: Asked, view: View) -> Seeing<'_> {
        Seeing { judge: self, profile: asked.profile, view }
    }
}

/// Whether fewer runs of a rerun say for sure what all of them would: each of them, and all together, as `here`, and at every place by
/// more than the runs scatter there without the change.
pub fn is_sure(here: &[Scatter], rerun: &[Scatter]) -> bool {
    let same = |(here, rerun): (&Scatter, &Scatter)| {
        rerun.agree && (here.margin >= 0.0) == (rerun.margin >= 0.0) && rerun.margin.abs() > here.width.max(rerun.width)
    };
    here.len() == rerun.len() && here.iter().zip(rerun).all(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_runs_suffice_where_the_margin_is_larger_than_the_scatter() {
        let here = [Scatter { margin: 0.05, width: 0.02, agree: true }, Scatter { margin: 0.3, width: 0.1, agree: false }];
        let rerun = |margin: f64, agree: bool| [Scatter { margin, width: 0.01, agree }, Scatter { margin: 0.2, width: 0.0, agree: true }];
        assert!(is_sure(&here, &rerun(0.03, true)));
        assert!(!is_sure(&here, &rerun(0.02, true)), "no more than the scatter");
        assert!(!is_sure(&here, &rerun(0.03, false)), "one of them says otherwise");
        assert!(!is_sure(&here, &rerun(-0.03, true)), "it says otherwise: all runs are asked");
        assert!(!is_sure(&here, &rerun(f64::NAN, true)) && !is_sure(&here, &here[..1]));
    }
}
