//! An experiment of a paper as `papers/<paper>/<figure>.toml` writes it: scenario, columns, sweeps, repetitions, metrics, plots and
//! claims. docs/papers.md describes the keys. Knows no simulator and no result.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;

use super::axes::{self, Axes};
use super::claim::{Claim, Population};
use super::metrics::Metric;
use super::point::{Extent, Profile};
use super::rule::compile::{self, Names, Scope, VARIANT};

/// Without its ending, the name of the file that holds what a paper concludes.
pub const CONCLUSIONS: &str = "conclusions";
/// What lies beside a paper's experiments and is none.
const OTHERS: [&str; 2] = [super::units::FILE, CONCLUSIONS];

/// One figure or table of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// `<paper>/<figure>`, from the file's path.
    #[serde(skip)]
    pub id: String,
    /// Other experiments of the paper that its rules look at, by id.
    #[serde(skip)]
    pub beside: BTreeSet<String>,
    /// What it shows.
    pub title: String,
    /// Where it stands in the paper.
    pub place: String,
    /// Choices where the paper leaves something open, each with its reason.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Runs per point, with seeds 1, 2, ….
    pub repeat: u32,
    /// Which one number stands for these runs.
    #[serde(default)]
    pub population: Population,
    /// The column of what the paper, an RFC or a draft describes.
    pub described: Column,
    /// The column of what the authors ran.
    pub run: Column,
    /// What is described, with additions of this project.
    #[serde(default)]
    pub ours: Option<Column>,
    /// The scenario every point starts from.
    pub scenario: toml::Table,
    /// Alternatives drawn as curves of their own.
    #[serde(default)]
    pub variants: Vec<Variant>,
    /// Swept parameters: every combination is a point.
    #[serde(default)]
    pub sweep: Vec<Sweep>,
    /// Values of its own, by name.
    #[serde(default)]
    pub metrics: BTreeMap<String, Metric>,
    /// Between two points of the series that metrics and plots over time read.
    #[serde(default = "tenth")]
    pub series_ms: f64,
    /// The axes, as the paper draws them: `[plot]`, or one `[[plot]]` a panel.
    #[serde(deserialize_with = "axes::one_or_several")]
    pub plot: Vec<Axes>,
    /// Values that the paper prints: by metric, then by variant (empty without variants), along the first sweep's values. Rules name
    /// them (`paper(fct(short))`); they are part of no result.
    #[serde(default)]
    pub reported: BTreeMap<String, BTreeMap<String, Vec<f64>>>,
    /// The points that also run with real kernels.
    #[serde(default)]
    pub lab: Option<Lab>,
    /// What the paper reports.
    pub claims: Vec<Claim>,
}

/// One of the columns of verdicts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// What runs in it, for a reader.
    #[serde(default)]
    pub is: String,
    /// Scenario keys and their values.
    #[serde(default)]
    pub set: toml::Table,
    /// Why there is no such column.
    #[serde(default)]
    pub none: Option<String>,
    /// Not part of a quick run.
    #[serde(default)]
    pub full_only: bool,
}

/// What of an experiment also runs in the laboratory, shorter and more rarely: the simulator repeats it at that length.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lab {
    /// Values of each sweep.
    pub points: BTreeMap<String, Vec<toml::Value>>,
    /// Length of a run.
    pub duration_s: f64,
    /// Runs a point, with seeds 1, 2, ….
    pub repeat: u32,
    /// The companions that run there too.
    #[serde(default)]
    pub companions: Vec<String>,
    /// Why the two differ by more than they should, found by looking at traces.
    #[serde(default)]
    pub explained: Option<String>,
}

/// A named change of the scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name in plots and claims.
    pub name: String,
    /// Scenario keys (`flows.bulk.cc`) and their values.
    #[serde(default)]
    pub set: toml::Table,
    /// More of them, in one column only.
    #[serde(default)]
    pub described: Option<toml::Table>,
    #[serde(default)]
    pub run: Option<toml::Table>,
    /// What is described, if absent.
    #[serde(default)]
    pub ours: Option<toml::Table>,
    /// The one column that has it.
    #[serde(default)]
    pub only: Option<Profile>,
    /// Not in the paper: it stands beside the columns, and rules name it (`share(lbe, sender)`).
    #[serde(default)]
    pub companion: bool,
    /// The column that a companion changes: what is described, if absent.
    #[serde(default)]
    pub upon: Option<Profile>,
    /// Runs a point, where they are not the experiment's.
    #[serde(default)]
    pub repeat: Option<u32>,
    /// Whether a quick run has it.
    #[serde(default = "yes")]
    pub quick: bool,
}

/// A swept scenario key.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Its name in plots and claims.
    pub name: String,
    /// The scenario's key.
    pub key: String,
    /// The values.
    pub values: Vec<toml::Value>,
    /// The values of a quick run, which still decides a claim; each one of `values`.
    pub quick: Vec<toml::Value>,
    /// What the scenario gets is this many times the value: targets as ratios, in % of a buffer.
    #[serde(default)]
    pub times: Option<f64>,
    /// Other scenario keys that change along with it: one value for each of `values`.
    #[serde(default)]
    pub along: BTreeMap<String, Vec<toml::Value>>,
}

fn yes() -> bool {
    true
}

fn tenth() -> f64 {
    100.0
}

impl Experiment {
    /// Reads one file; its id is its path below `root`.
    ///
    /// # Errors
    /// A file that is not an experiment, with the key and what is allowed.
    pub fn load(root: &Path, path: &Path) -> Result<Experiment> {
        let text = fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))?;
        let mut experiment: Experiment = toml::from_str(&text).with_context(|| path.display().to_string())?;
        experiment.id = path.strip_prefix(root).unwrap_or(path).with_extension("").display().to_string();
        experiment.check().map_err(|e| anyhow!("{}: {e}", path.display()))?;
        Ok(experiment)
    }

    fn check(&self) -> Result<()> {
        if self.claims.is_empty() || self.repeat == 0 {
            bail!("an experiment needs at least one claim and one run");
        }
        if !self.claims.iter().any(|claim| claim.quick) {
            bail!("a quick run must decide some claim: none has `quick = true`");
        }
        if let Some(sweep) = self.sweep.iter().find(|s| !s.is_consistent()) {
            bail!("sweep `{}`: `quick` must be some of `values`, and `along` must have as many as `values`", sweep.name);
        }
        let lab_ok = |lab: &Lab| self.sweep.iter().all(|s| lab.points.get(&s.name).is_some_and(|p| p.iter().all(|v| s.values.contains(v))));
        if !self.lab.as_ref().is_none_or(lab_ok) {
            bail!("`lab.points` must name some of the values of every sweep");
        }
        for profile in Profile::ALL {
            if self.column(profile).is_some_and(|c| c.is.is_empty() == c.none.is_none()) {
                bail!("`[{}]` says either what runs (`is`) or why nothing does (`none`)", profile.key());
            }
        }
        let mut ids = BTreeSet::new();
        match self.claims.iter().find(|claim| !ids.insert(&claim.id)) {
            Some(claim) => bail!("two claims are called `{}`", claim.id),
            None => Ok(()),
        }
    }

    /// One of its columns.
    pub fn column(&self, profile: Profile) -> Option<&Column> {
        match profile {
            Profile::Described => Some(&self.described),
            Profile::Run => Some(&self.run),
            Profile::Ours => self.ours.as_ref(),
        }
    }

    /// The paper that it is of.
    pub fn paper(&self) -> &str {
        self.id.split('/').next().unwrap_or(&self.id)
    }

    /// Its name within the paper.
    pub fn figure(&self) -> &str {
        self.id.split_once('/').map_or(self.id.as_str(), |(_, figure)| figure)
    }

    /// What rules may name of it.
    pub fn names(&self) -> Names {
        let flows = self.scenario.get("flows").and_then(toml::Value::as_array).into_iter().flatten();
        let text = |flow: &toml::Value, key: &str| flow.get(key).and_then(toml::Value::as_str).map(str::to_owned);
        let sweeps = self.variants.iter().any(|v| !v.companion).then(|| VARIANT.to_owned()).into_iter();
        let sweeps = sweeps.chain(self.sweep.iter().map(|s| s.name.clone()));
        let by_variant = |(metric, values): (&String, &BTreeMap<String, Vec<f64>>)| (metric.clone(), !values.contains_key(""));
        Names {
            figure: self.figure().to_owned(),
            sweeps: sweeps.map(|name| (name.clone(), self.values_of(&name, None, Extent::Full))).collect(),
            companions: self.variants.iter().filter(|v| v.companion).map(|v| v.name.clone()).collect(),
            flows: flows
                .flat_map(|flow| [text(flow, "name"), text(flow, "group")])
                .flatten()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
            metrics: self.metrics.keys().cloned().collect(),
            printed: self.reported.iter().map(by_variant).collect(),
        }
    }

    /// Whether the series of its runs are drawn.
    pub fn draws_series(&self) -> bool {
        self.plot.iter().any(Axes::over_time)
    }

    /// Whether a metric is taken from a track.
    pub fn takes_tracks(&self) -> bool {
        self.metrics.values().any(|m| matches!(m, Metric::Taken(_)))
    }

    /// Whether its runs' packet events are looked at.
    pub fn watches_packets(&self) -> bool {
        let of_packets = |name: &str| ["dropped_after.", "resent_after.", "drops."].iter().any(|q| name.starts_with(q));
        self.plot.iter().any(Axes::after_drops) || self.metrics.values().any(|m| m.reads().into_iter().any(of_packets))
    }
}

impl Sweep {
    fn is_consistent(&self) -> bool {
        self.quick.iter().all(|q| self.values.contains(q)) && self.along.values().all(|a| a.len() == self.values.len())
    }
}

/// Every experiment below `root` in the order of their ids; each of `wanted` must name one or a paper.
///
/// # Errors
/// An unreadable folder or file, a rule that names nothing, or a wish that names nothing.
pub fn load_all(root: &Path, wanted: &[String]) -> Result<Vec<Experiment>> {
    let mut files: Vec<PathBuf> = Vec::new();
    for paper in fs::read_dir(root).with_context(|| {
        format!("{}: no folder of experiments; --experiments DIR names it (papers/ of lowtide's sources)", root.display())
    })? {
        let folder = paper?.path();
        if folder.is_dir() {
            let found = fs::read_dir(folder)?.filter_map(|f| f.ok().map(|f| f.path()));
            files.extend(
                found.filter(|f| {
                    f.extension().is_some_and(|e| e == "toml") && !f.file_stem().is_some_and(|s| OTHERS.iter().any(|o| s == *o))
                }),
            );
        }
    }
    files.sort();
    let mut all = files.iter().map(|path| Experiment::load(root, path)).collect::<Result<Vec<_>>>()?;
    for wish in wanted {
        if !all.iter().any(|e| matches(&e.id, wish)) {
            bail!("no experiment `{wish}`; {}", nearest(&all, wish));
        }
    }
    let papers: BTreeSet<String> = all.iter().map(|e| e.paper().to_owned()).collect();
    for paper in papers {
        find_names(&mut all, &paper)?;
    }
    Ok(all)
}

/// Finds what the rules of a paper mean, and which experiments they look at.
fn find_names(all: &mut [Experiment], paper: &str) -> Result<()> {
    let mut mine: Vec<&mut Experiment> = all.iter_mut().filter(|e| e.paper() == paper).collect();
    let names: Vec<Names> = mine.iter().map(|e| e.names()).collect();
    for (own, experiment) in mine.iter_mut().enumerate() {
        let scope = Scope { all: &names, own };
        let mut seen = BTreeSet::new();
        for claim in &experiment.claims {
            let at = |e: anyhow::Error| anyhow!("{}#{}: {e}", experiment.id, claim.id);
            for line in claim.lines() {
                seen.extend(compile::line(line, scope).map_err(at)?.experiments());
            }
            for shown in claim.shown() {
                seen.extend(compile::expression(&shown.expr, scope).map_err(|e| at(anyhow!("`{}`: {e}", shown.text)))?.experiments());
            }
        }
        seen.remove(&own);
        experiment.beside = seen.into_iter().map(|n| format!("{paper}/{}", names[n].figure)).collect();
    }
    Ok(())
}

/// Whether `experiment` is among the `wanted` (all if none).
pub fn is_wanted(experiment: &Experiment, wanted: &[String]) -> bool {
    wanted.is_empty() || wanted.iter().any(|w| matches(&experiment.id, w))
}

/// As it is listed, or as a shell completes the file's or the folder's name.
fn matches(id: &str, wish: &str) -> bool {
    let wish = wish.trim_end_matches(".toml").trim_end_matches('/').trim_start_matches("papers/");
    id == wish || id.split('/').next() == Some(wish)
}

/// What may have been meant: a paper's figures where the paper is known, else the papers.
fn nearest(all: &[Experiment], wish: &str) -> String {
    let (paper, _) = wish.split_once('/').unwrap_or((wish, ""));
    let figures: Vec<&str> = all.iter().filter(|e| e.paper() == paper).map(Experiment::figure).collect();
    if !figures.is_empty() {
        return format!("{paper}/ has {}", figures.join(", "));
    }
    let papers: BTreeSet<&str> = all.iter().map(Experiment::paper).collect();
    format!("the papers are {}; `lowtide papers list` names each figure", papers.into_iter().collect::<Vec<_>>().join(", "))
}
