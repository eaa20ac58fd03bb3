//! Which verdicts are left to be tested, and what their reruns would take. Makes no run.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use lowtide_scenario::Summary;

use super::rerun::{How, Open, Reruns, Stage};
use super::{CHANGES, Change};
use crate::papers::costs::EVENTS_PER_SECOND;
use crate::papers::experiment::{self, Experiment};
use crate::papers::outcome::{self, Outcome};
use crate::papers::points::Extent;
use crate::papers::verdict::deciding::Part;
use crate::papers::verdict::{Judge, Reads};
use crate::papers::{Folders, jobs};

/// Runs and the events in them.
#[derive(Clone, Copy, Default)]
struct Cost {
    runs: u64,
    events: f64,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.runs += other.runs;
        self.events += other.events;
    }
}

/// A line a figure of `wanted`: the verdicts that are left (with `left`: of which nothing is kept), and the least and the most that
/// their reruns take.
///
/// # Errors
/// A result that cannot be read.
pub fn of(folders: &Folders, all: &[Experiment], wanted: &[String], how: How) -> Result<String> {
    let is_wanted = |e: &Experiment| experiment::is_wanted(e, wanted);
    let needed = |e: &Experiment| is_wanted(e) || all.iter().any(|w| is_wanted(w) && w.beside.contains(&e.id));
    let read = |e| {
        let is_there = needed(e) && jobs::of(&folders.out, e, how.extent, Change::None)?.iter().all(jobs::Job::is_done);
        outcome::measured(&folders.out, e, is_there.then_some(how.extent), Change::None)
    };
    eprintln!("reading what the figures measured");
    let here = all.iter().map(read).collect::<Result<Vec<_>>>()?;
    let reruns = Reruns { folders, here: &here, how };
    let (mut text, mut least, mut most) = (String::new(), Cost::default(), Cost::default());
    for outcome in here.iter().filter(|o| is_wanted(o.experiment)) {
        let id = &outcome.experiment.id;
        let Some(extent) = outcome.extent else {
            let quick = if how.extent == Extent::Quick { "--quick " } else { "" };
            let _ = writeln!(text, "{id:<28} has no results: `lowtide papers run {quick}{id}` makes them");
            continue;
        };
        let open = reruns.open(outcome)?;
        if open.is_empty() {
            let _ = writeln!(text, "{id:<28} nothing left");
            continue;
        }
        let (few, whole) = (cost(folders, &here, outcome, &open, Stage::Few)?, cost(folders, &here, outcome, &open, Stage::Whole)?);
        let decided = Reruns { how: How { left: false, extent, ..how }, ..reruns }.open(outcome)?.len();
        let _ = writeln!(text, "{id:<28} {} of {decided} verdicts left, {}", open.len(), words(few, whole));
        least += few;
        most += whole;
    }
    let _ = writeln!(text, "{:<28} {}", "all of these", words(least, most));
    Ok(text)
}

fn words(least: Cost, most: Cost) -> String {
    let minutes = |cost: Cost| cost.events / EVENTS_PER_SECOND / 60.0;
    format!("{} to {} runs, {:.1} to {:.1} min of a core", least.runs, most.runs, minutes(least), minutes(most))
}

/// What one stage of the reruns of these verdicts takes, of all changes. Runs that several verdicts read are made once.
fn cost(folders: &Folders, here: &[Outcome], outcome: &Outcome, open: &[Open], stage: Stage) -> Result<Cost> {
    let judge = Judge::new(outcome.experiment.paper(), here);
    let mut reads = Reads::new();
    for verdict in open {
        let part = if stage == Stage::Few { verdict.part.clone() } else { Part::Whole };
        for (id, points) in judge.reads(outcome, verdict.asked, &part)? {
            reads.entry(id).or_default().extend(points);
        }
    }
    let mut cost = Cost::default();
    for other in here {
        for n in reads.get(&other.experiment.id).into_iter().flatten() {
            let point = &other.measured[*n].point;
            let events = events_of(&jobs::dir_of(&folders.out, other.experiment, point, point.seeds_after + 1))?;
            for change in CHANGES {
                let runs = stage.of_point(change.of_point(point.clone())).repeat;
                cost += Cost { runs: u64::from(runs), events: events * f64::from(runs) };
            }
        }
    }
    Ok(cost)
}

fn events_of(dir: &Path) -> Result<f64> {
    Ok(Summary::read(dir)?.events as f64)
}
