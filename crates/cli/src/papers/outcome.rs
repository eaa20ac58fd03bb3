//! What became of an experiment: what its runs measured, and each claim judged in each column. Reads results, runs nothing.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result};
use lowtide_scenario::{Series, Summary};

use super::claim::Claim;
use super::experiment::Experiment;
use super::fragile::{Change, Fragility};
use super::jobs;
use super::judged::{Judged, Seen, State};
use super::lab::Laboratory;
use super::measure::{self, Values};
use super::metrics::kept::Kept;
use super::metrics::made;
use super::metrics::tracks::Tracks;
use super::points::{Extent, Point, Profile, value_of};
use super::rule::Value;
use super::rule::compile::VARIANT;

/// A point with what was measured there.
pub struct Measured {
    pub point: Point,
    /// One for each seed.
    pub runs: Vec<Values>,
    /// Of the first run, where a plot over time draws it.
    pub tracks: Option<Tracks>,
}

impl Measured {
    /// The mean over the runs, and the least and the most of them; none where a run lacks it (an unfinished transfer).
    pub fn spread(&self, name: &str) -> Option<(f64, f64, f64)> {
        let each = self.runs.iter().map(|run| run.named(name)).collect::<Option<Vec<f64>>>()?;
        let least = each.iter().copied().fold(f64::INFINITY, f64::min);
        let most = each.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (!each.is_empty()).then(|| (each.iter().sum::<f64>() / each.len() as f64, least, most))
    }

    /// The mean over the runs.
    pub fn mean(&self, name: &str) -> Option<f64> {
        self.spread(name).map(|s| s.0)
    }
}

/// A claim and what became of it in each column.
pub struct Verdict<'a> {
    pub claim: &'a Claim,
    /// The columns in their order: ours only where there is one.
    pub columns: Vec<(Profile, Judged)>,
    /// What is asked beside a bound that is wrong.
    pub restated: Vec<(Profile, Judged)>,
    /// The numbers that explanations show, by column: as written, and the value where its points are there.
    pub shown: Vec<(Profile, String, Option<f64>)>,
    /// What reruns with other seeds and small changes said, by column.
    pub fragile: Vec<(Profile, Fragility)>,
}

/// An experiment with everything that is known of it.
pub struct Outcome<'a> {
    pub experiment: &'a Experiment,
    /// Which of its points were run; none if it was not.
    pub extent: Option<Extent>,
    pub measured: Vec<Measured>,
    /// Where each point lies in `measured`.
    pub index: HashMap<String, usize>,
    pub verdicts: Vec<Verdict<'a>>,
    /// Runs of another build of lowtide.
    pub stale: usize,
    /// The simulator and the laboratory, where both ran.
    pub lab: Laboratory,
}

/// What the runs of `extent` below `out` measured, not judged yet.
///
/// # Errors
/// A result that cannot be read.
pub fn measured<'a>(out: &Path, experiment: &'a Experiment, extent: Option<Extent>, change: Change) -> Result<Outcome<'a>> {
    let points = extent.map_or_else(Vec::new, |extent| experiment.points(extent).into_iter().map(|p| change.of_point(p)).collect());
    measured_at(out, experiment, extent, points)
}

/// What the runs of some points measured, not judged yet.
///
/// # Errors
/// As [`measured`].
pub fn measured_at<'a>(out: &Path, experiment: &'a Experiment, extent: Option<Extent>, points: Vec<Point>) -> Result<Outcome<'a>> {
    let measured = read_back(out, experiment, points)?;
    let index = index(experiment, &measured);
    Ok(Outcome { experiment, extent, measured, index, verdicts: Vec::new(), stale: 0, lab: Laboratory::default() })
}

/// Which of an experiment's runs are all done: the full ones, or else the quick ones.
///
/// # Errors
/// As [`measured`].
pub fn extent_of(out: &Path, experiment: &Experiment) -> Result<Option<Extent>> {
    for extent in [Extent::Full, Extent::Quick] {
        if jobs::of(out, experiment, extent, Change::None)?.iter().all(jobs::Job::is_done) {
            return Ok(Some(extent));
        }
    }
    Ok(None)
}

fn read_back(out: &Path, experiment: &Experiment, points: Vec<Point>) -> Result<Vec<Measured>> {
    let read = |point: Point| {
        let one = |seed| {
            let dir = jobs::dir_of(out, experiment, &point, seed);
            let mut values = measure::of_run(&Summary::read(&dir)?);
            if experiment.takes_tracks() {
                let kept = Kept::read(&dir).with_context(|| format!("{}: no values taken from its series", dir.display()))?;
                kept.add_to(&experiment.metrics, &mut values);
            }
            made::make(&experiment.metrics, &mut values).with_context(|| experiment.id.clone())?;
            Ok(values)
        };
        let runs = point.seeds().map(one).collect::<Result<Vec<_>>>()?;
        let first = jobs::dir_of(out, experiment, &point, point.seeds_after + 1);
        let series = if experiment.draws_series() { Series::read(&first)? } else { None };
        let tracks = series.map(|series| jobs::tracks_of(experiment, &series, &first)).transpose()?;
        Ok(Measured { runs, point, tracks })
    };
    points.into_iter().map(read).collect()
}

/// Where a point lies in its experiment: by column or companion, and by its place in each sweep.
pub fn key(profile: Option<Profile>, companion: Option<&str>, places: impl Iterator<Item = Value>) -> String {
    let mut key = companion.map_or_else(|| profile.map_or("", Profile::key).to_owned(), |name| format!("beside {name}"));
    for place in places {
        key.push('|');
        key.push_str(&match place {
            Value::Number(n) => format!("{n:.9}"),
            Value::Word(word) => word,
        });
    }
    key
}

/// Where each of an experiment's points lies.
pub fn index(experiment: &Experiment, points: &[Measured]) -> HashMap<String, usize> {
    let names = experiment.names();
    let place = |(n, m): (usize, &Measured)| {
        let at = |sweep: &String| m.point.at.iter().find(|(name, _)| name == sweep && (m.point.companion.is_none() || name != VARIANT));
        let places = names.sweeps.iter().filter_map(|(sweep, _)| at(sweep)).map(|(_, value)| value_of(value));
        (key(m.point.profile, m.point.companion.as_deref(), places), n)
    };
    points.iter().enumerate().map(place).collect()
}

impl Verdict<'_> {
    /// What became of it in a column.
    pub fn of(&self, profile: Profile) -> Option<&Judged> {
        self.columns.iter().find(|c| c.0 == profile).map(|c| &c.1)
    }

    /// Whether a column of the paper has a verdict that no rerun was asked about.
    pub fn is_untested(&self, profile: Profile) -> bool {
        let decided = self.of(profile).is_some_and(|judged| !matches!(judged.state, State::Undecided(_)));
        profile != Profile::Ours && decided && self.fragility(profile).is_none()
    }

    /// What reruns said of it.
    pub fn fragility(&self, profile: Profile) -> Option<&Fragility> {
        self.fragile.iter().find(|f| f.0 == profile).map(|f| &f.1)
    }

    /// The verdict in a word or two, reruns included.
    pub fn word(&self, profile: Profile) -> String {
        let Some(judged) = self.of(profile) else { return "–".to_owned() };
        match self.fragility(profile) {
            Some(f) if f.is_fragile() => format!("fragile ({} here)", judged.word()),
            _ => judged.word().to_owned(),
        }
    }

    /// Whether it is not met in one of the paper's columns and nobody has said why.
    pub fn is_unexplained(&self) -> bool {
        let lacks =
            |(p, judged): &(Profile, Judged)| *p != Profile::Ours && judged.state == State::NotMet && self.claim.explained.of(*p).is_none();
        self.columns.iter().any(lacks)
    }
}

impl Outcome<'_> {
    /// In a column: how many claims are met, not met, undecided.
    pub fn counts(&self, profile: Profile) -> [usize; 3] {
        let count = |test: fn(&State) -> bool| self.verdicts.iter().filter_map(|v| v.of(profile)).filter(|j| test(&j.state)).count();
        [count(|s| *s == State::Met), count(|s| *s == State::NotMet), count(|s| matches!(s, State::Undecided(_)))]
    }

    /// Its claims for programs.
    pub fn json(&self) -> impl Iterator<Item = serde_json::Value> {
        self.verdicts.iter().map(|v| {
            let lines = |judged: &Judged| {
                let line = |seen: &Seen| {
                    let at: Vec<String> = seen.decided.worst.place.iter().map(|(k, v)| format!("{k}={v}")).collect();
                    serde_json::json!({
                        "rule": seen.text, "holds": seen.decided.holds, "points": seen.decided.asked, "failed": seen.decided.failed,
                        "at": at.join(" "), "values": seen.decided.worst.sides, "margin": seen.decided.worst.margin,
                        "seeds": seen.spread,
                    })
                };
                judged.lines.iter().map(line).collect::<Vec<_>>()
            };
            let column = |(p, judged): &(Profile, Judged)| {
                let why = if let State::Undecided(why) = &judged.state { Some(why.as_str()) } else { None };
                let value = serde_json::json!({ "verdict": v.word(*p), "why": why, "contradicting_seeds": judged.contradict, "lines": lines(judged) });
                (p.key().to_owned(), value)
            };
            serde_json::json!({
                "experiment": self.experiment.id, "claim": v.claim.id, "says": v.claim.says, "place": v.claim.place,
                "columns": v.columns.iter().map(column).collect::<serde_json::Map<_, _>>(),
                "restated": v.restated.iter().map(column).collect::<serde_json::Map<_, _>>(),
            })
        })
    }
}
