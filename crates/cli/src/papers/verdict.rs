//! Judges claims: each line of a rule over the runs of one column, by the statistic that its experiment names and seed by seed. Reads
//! measured values, runs nothing.

pub mod deciding;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, anyhow, bail};

use super::claim::{Claim, Population, Rule};
use super::experiment::Experiment;
pub use super::judged::{Judged, Seen, State};
use super::measure::Values;
use super::outcome::{Outcome, key};
use super::points::{Extent, Profile};
use super::rule::compile::{self, Compiled, Metric, Names, Scope, VARIANT};
use super::rule::eval::{self, Data, Place};
use super::rule::{Value, stats};

/// All experiments of one paper with what was measured, and the names that its rules may use.
pub struct Judge<'a> {
    outcomes: Vec<&'a Outcome<'a>>,
    names: Vec<Names>,
    read: RefCell<Reads>,
}

/// Points that were looked at: of an experiment, by id, the places in its list of measured points.
pub type Reads = BTreeMap<String, BTreeSet<usize>>;

/// Which number of a point's runs.
#[derive(Clone, Copy, Debug)]
enum View {
    All(Population),
    Seed(usize),
}

/// The points of one column, seen one way.
struct Seeing<'a> {
    judge: &'a Judge<'a>,
    profile: Profile,
    view: View,
}

impl<'a> Judge<'a> {
    /// Of the experiments of `paper`.
    pub fn new(paper: &str, all: &'a [Outcome<'a>]) -> Judge<'a> {
        let outcomes: Vec<&Outcome> = all.iter().filter(|o| o.experiment.paper() == paper).collect();
        let names = outcomes.iter().map(|o| o.experiment.names()).collect();
        Judge { outcomes, names, read: RefCell::default() }
    }

    /// Judges a claim of `outcome` in a column.
    ///
    /// # Errors
    /// A rule about a point that is not there.
    pub fn judge(&self, outcome: &Outcome, claim: &Claim, profile: Profile) -> Result<Judged> {
        self.ask(outcome, claim, &claim.rule, claim.strict.as_ref(), profile)
    }

    /// Judges what is asked beside a bound that is wrong.
    ///
    /// # Errors
    /// As [`Judge::judge`].
    pub fn restated(&self, outcome: &Outcome, claim: &Claim, profile: Profile) -> Option<Result<Judged>> {
        claim.restated.as_ref().map(|r| self.ask(outcome, claim, &r.rule, None, profile))
    }

    fn ask(&self, outcome: &Outcome, claim: &Claim, rule: &Rule, strict: Option<&Rule>, profile: Profile) -> Result<Judged> {
        let undecided = |why: String| Judged { state: State::Undecided(why), lines: Vec::new(), seeds: 0, contradict: 0 };
        if let Some(why) = claim.undecided.of(profile) {
            return Ok(undecided(why.clone()));
        }
        let own = self.position(outcome.experiment)?;
        let compile = |rule: &Rule| rule.0.iter().map(|l| compile::line(l, Scope { all: &self.names, own })).collect::<Result<Vec<_>>>();
        let lines = compile(rule)?;
        for other in lines.iter().flat_map(Compiled::experiments).chain([own]) {
            if let Some(why) = self.lacks(other, claim, profile) {
                return Ok(undecided(why));
            }
        }
        let population = outcome.experiment.population;
        let seeds = outcome.measured.iter().filter(|m| m.point.profile == Some(profile)).map(|m| m.runs.len()).max().unwrap_or(0);
        let see = |view| Seeing { judge: self, profile, view };
        let decide = |lines: &[Compiled], view| lines.iter().map(|l| eval::decide(l, &see(view), own)).collect::<Result<Vec<_>>>();
        let whole = decide(&lines, View::All(population))?;
        let strict = strict.map_or_else(|| Ok(lines.clone()), compile)?;
        let mut contradict = 0;
        for seed in 0..if seeds > 1 { seeds } else { 0 } {
            contradict += usize::from(!decide(&strict, View::Seed(seed))?.iter().all(|d| d.holds));
        }
        let met = whole.iter().all(|d| d.holds) && (population == Population::Mean || contradict <= 1);
        let seen = lines.iter().zip(whole).map(|(line, decided)| {
            let at_seed = |seed| eval::at(line, &see(View::Seed(seed)), own, &decided.worst.place);
            let values = (0..seeds).map(|s| Ok(at_seed(s)?.sides.get(decided.worst.measured).copied().unwrap_or(f64::NAN)));
            let values = values.collect::<Result<Vec<f64>>>()?;
            let spread = (seeds > 1).then(|| (stats::smallest(&values), stats::largest(&values)));
            Ok(Seen { text: line.text.clone(), decided, spread })
        });
        let lines = seen.collect::<Result<Vec<_>>>()?;
        Ok(Judged { state: if met { State::Met } else { State::NotMet }, lines, seeds, contradict })
    }

    /// The value of an expression in a column, as an explanation shows it; none where its points are not there.
    pub fn show(&self, experiment: &Experiment, expr: &super::rule::Expr, profile: Profile) -> Option<f64> {
        let own = self.position(experiment).ok()?;
        let known = compile::expression(expr, Scope { all: &self.names, own }).ok()?;
        let seeing = Seeing { judge: self, profile, view: View::All(experiment.population) };
        eval::number(&known, &seeing, &Place::new()).ok()
    }

    fn position(&self, experiment: &Experiment) -> Result<usize> {
        self.outcomes.iter().position(|o| o.experiment.id == experiment.id).ok_or_else(|| anyhow!("{}: not of this paper", experiment.id))
    }

    /// Why an experiment does not serve the claim in a column.
    fn lacks(&self, n: usize, claim: &Claim, profile: Profile) -> Option<String> {
        let outcome = self.outcomes[n];
        let column = outcome.experiment.column(profile);
        match (column, outcome.extent) {
            (None, _) => Some(format!("{} has no such column", outcome.experiment.figure())),
            (Some(column), _) if column.none.is_some() => column.none.clone(),
            (_, None) => Some(format!("{} has not run", outcome.experiment.figure())),
            (_, Some(Extent::Full)) => None,
            (Some(column), _) => (!claim.quick || column.full_only).then(|| "needs the full run".to_owned()),
        }
    }
}

impl Data for Seeing<'_> {
    fn values(&self, experiment: usize, sweep: &str) -> Vec<Value> {
        let outcome = self.judge.outcomes[experiment];
        outcome.extent.map_or_else(Vec::new, |extent| outcome.experiment.values_of(sweep, Some(self.profile), extent))
    }

    fn value(&self, metric: &Metric, place: &Place) -> Result<f64> {
        let outcome = self.judge.outcomes[metric.experiment];
        let sweeps = &self.judge.names[metric.experiment].sweeps;
        if metric.printed {
            return printed(outcome.experiment, metric, place);
        }
        let places = sweeps.iter().filter_map(|(sweep, _)| place.iter().find(|p| p.0 == *sweep)).map(|p| p.1.clone());
        let places = places.collect::<Vec<_>>();
        let found = outcome.index.get(&key(Some(self.profile), metric.companion.as_deref(), places.into_iter()));
        let Some(measured) = found.map(|n| {
            self.judge.read.borrow_mut().entry(outcome.experiment.id.clone()).or_default().insert(*n);
            &outcome.measured[*n]
        }) else {
            let at: Vec<String> = place.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            bail!("{} has no point {} {} in this run", outcome.experiment.figure(), self.profile.title(), at.join(", "));
        };
        let of = |run: &Values| run.named(&metric.name).unwrap_or(f64::NAN);
        Ok(match self.view {
            View::Seed(n) => measured.runs.get(n % measured.runs.len().max(1)).map_or(f64::NAN, of),
            View::All(Population::Mean) => stats::mean(&measured.runs.iter().map(of).collect::<Vec<_>>()),
            View::All(Population::Median) => {
                let values: Vec<f64> = measured.runs.iter().map(of).collect();
                if values.iter().any(|v| v.is_nan()) { f64::NAN } else { stats::median(&values) }
            }
        })
    }
}

fn printed(experiment: &Experiment, metric: &Metric, place: &Place) -> Result<f64> {
    let variant = match place.iter().find(|p| p.0 == VARIANT) {
        Some((_, Value::Word(word))) => word.as_str(),
        _ => "",
    };
    let by_variant = experiment.reported.get(&metric.name);
    let values = by_variant.and_then(|v| v.get(variant).or_else(|| v.get("")));
    let Some(sweep) = experiment.sweep.first() else { bail!("{}: printed values need a sweep", experiment.id) };
    let at = place.iter().find(|p| p.0 == sweep.name).map(|p| &p.1);
    let nth = sweep.values.iter().position(|v| at.is_some_and(|at| at.is(&super::points::value_of(v))));
    let value = values.zip(nth).and_then(|(values, n)| values.get(n).copied());
    value.ok_or_else(|| anyhow!("{}: nothing is printed of `{}` there", experiment.id, metric.name))
}
