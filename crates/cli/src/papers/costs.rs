//! What the full run of each figure costs: papers/costs.toml, written with the verdicts, so that a choice of figures can be made
//! before anything has run. Runs nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::experiment::Experiment;
use super::fragile::Change;
use super::jobs;
use super::points::Extent;

/// The file's name in the folder of experiments.
const FILE: &str = "costs.toml";

/// Simulated events a second of one core, which turn events into seconds: docs/papers.md has a run that was timed.
pub const EVENTS_PER_SECOND: f64 = 20e6;

/// Simulated events of each experiment's full run, in millions.
#[derive(Debug, Default, PartialEq, Deserialize)]
pub struct Costs {
    #[serde(default)]
    million_events: BTreeMap<String, f64>,
}

/// Which figures run, and which are left out.
#[derive(Default)]
pub struct Choice<'a> {
    /// By name.
    pub fit: Vec<&'a Experiment>,
    /// The cheapest first.
    pub left: Vec<&'a Experiment>,
    /// What those that run take of one core, with what their claims read of others.
    pub seconds: f64,
}

impl Costs {
    /// What is recorded in `folder`; nothing if there is none.
    ///
    /// # Errors
    /// A file that holds something else.
    pub fn read(folder: &Path) -> Result<Costs> {
        let file = folder.join(FILE);
        match fs::read_to_string(&file) {
            Ok(text) => {
                toml::from_str(&text).with_context(|| format!("{}: no costs; `lowtide papers run --record` writes it", file.display()))
            }
            Err(_) => Ok(Costs::default()),
        }
    }

    /// Seconds of one core; none where nobody has recorded it.
    pub fn seconds(&self, experiment: &Experiment) -> Option<f64> {
        self.million_events.get(&experiment.id).map(|events| events * 1e6 / EVENTS_PER_SECOND)
    }

    /// Takes what the results in `out` say of a full run of `experiment`.
    ///
    /// # Errors
    /// A result that is not there.
    pub fn take(&mut self, out: &Path, experiment: &Experiment) -> Result<()> {
        let events = jobs::events(&jobs::of(out, experiment, Extent::Full, Change::None)?)?;
        self.million_events.insert(experiment.id.clone(), (events / 1e5).round() / 10.0);
        Ok(())
    }

    /// Writes it to `folder`.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let mut text =
            "# Written by `lowtide papers run --record`: what each figure's full run costs, for `papers list` and `papers run --within`.\n\
             [million_events]\n"
                .to_owned();
        for (id, events) in &self.million_events {
            let _ = writeln!(text, "\"{id}\" = {events:.1}");
        }
        let file = folder.join(FILE);
        fs::write(&file, text).with_context(|| format!("{}: cannot be written", file.display()))
    }

    /// As many of `wanted` as take no more than `seconds` of one core, the cheapest first, each with the figures of `all` that its claims
    /// read. What has no cost recorded is left out.
    pub fn within<'a>(&self, all: &'a [Experiment], wanted: &[&'a Experiment], seconds: f64) -> Choice<'a> {
        let mut by_cost = wanted.to_vec();
        by_cost.sort_by(|a, b| self.or_endless(a).total_cmp(&self.or_endless(b)));
        let mut choice = Choice::default();
        let mut runs: Vec<&str> = Vec::new();
        for figure in by_cost {
            let is_new = |e: &&Experiment| (e.id == figure.id || figure.beside.contains(&e.id)) && !runs.contains(&e.id.as_str());
            let new: Vec<&Experiment> = all.iter().filter(is_new).collect();
            let cost: f64 = new.iter().map(|e| self.or_endless(e)).sum();
            if choice.seconds + cost <= seconds {
                choice.seconds += cost;
                runs.extend(new.iter().map(|e| e.id.as_str()));
                choice.fit.push(figure);
            } else {
                choice.left.push(figure);
            }
        }
        choice.fit.sort_by(|a, b| a.id.cmp(&b.id));
        choice
    }

    fn or_endless(&self, experiment: &Experiment) -> f64 {
        self.seconds(experiment).unwrap_or(f64::INFINITY)
    }
}

#[cfg(test)]
mod tests {
    use super::super::experiment::load_all;
    use super::*;

    /// Every figure has a cost, so that `--within` leaves none out for want of it, and no cost is of a figure that is gone.
    #[test]
    fn each_figure_has_a_cost_and_only_those() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers");
        let experiments = load_all(&root, &[]).unwrap_or_else(|e| panic!("{e:#}"));
        let costs = Costs::read(&root).unwrap_or_else(|e| panic!("{e:#}"));
        assert_eq!(costs.million_events.keys().collect::<Vec<_>>(), experiments.iter().map(|e| &e.id).collect::<Vec<_>>());
    }

    /// The cheapest fit, a figure counts what its claims read of others, and that once.
    #[test]
    fn what_fits_counts_the_figures_that_claims_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers");
        let experiments = load_all(&root, &[]).unwrap_or_else(|e| panic!("{e:#}"));
        let of = |id: &str| experiments.iter().find(|e| e.id == id).unwrap_or_else(|| panic!("no {id}"));
        let (base, reader) = (of("bagnulo2023/fig14"), of("bagnulo2023/fig15"));
        assert!(reader.beside.contains(&base.id));
        let costs = Costs { million_events: [(base.id.clone(), 400.0), (reader.id.clone(), 200.0)].into() };
        let ids = |seconds, wanted: &[&Experiment]| {
            let choice = costs.within(&experiments, wanted, seconds);
            [choice.fit, choice.left].map(|side| side.iter().map(|e| e.id.clone()).collect::<Vec<_>>())
        };
        let (base_id, reader_id) = (base.id.clone(), reader.id.clone());
        assert_eq!(ids(29.0, &[reader]), [vec![], vec![reader_id.clone()]], "10 s of its own, 20 s of what it reads");
        assert_eq!(ids(30.0, &[reader, base]), [vec![base_id, reader_id], vec![]], "what both need is run once");
        assert_eq!(ids(1e9, &[of("bagnulo2023/fig16")]), [vec![], vec!["bagnulo2023/fig16".to_owned()]], "no cost is known");
    }
}
