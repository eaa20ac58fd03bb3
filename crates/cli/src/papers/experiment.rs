//! An experiment of a paper as `papers/<paper>/<figure>.toml` writes it: scenario, sweep, repetitions, and what the paper
//! reports as claims that can be checked. Knows no simulator and no result.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// One figure or table of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// `<paper>/<figure>`, from the file's path.
    #[serde(skip)]
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Where it stands in the paper.
    pub place: String,
    /// Choices where the paper leaves something open, each with its reason.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Runs per point, with seeds 1, 2, ….
    pub repeat: u32,
    /// The scenario every point starts from.
    pub scenario: toml::Table,
    /// Alternatives drawn as curves of their own.
    #[serde(default)]
    pub variants: Vec<Variant>,
    /// Swept parameters: every combination is a point.
    #[serde(default)]
    pub sweep: Vec<Sweep>,
    /// Values of their own, by name: expressions over one run and its series (`tracks.rs` says what they see).
    #[serde(default)]
    pub derive: BTreeMap<String, String>,
    /// Between two points of the series that `derive` and plots over time read.
    #[serde(default = "tenth")]
    pub series_ms: f64,
    /// The axes, as the paper draws them: `[plot]`, or one `[[plot]]` a panel.
    #[serde(deserialize_with = "one_or_several")]
    pub plot: Vec<Axes>,
    /// Values that the paper prints: by metric, then by variant (empty without variants), along the sweep's values. They are shown
    /// beside ours and named in rules (`p.reported["fct.short"]`), and are part of no result.
    #[serde(default)]
    pub reported: BTreeMap<String, BTreeMap<String, Vec<f64>>>,
    /// Other experiments whose points its rules name (`beside["bagnulo2023/fig16"]`).
    #[serde(default)]
    pub beside: Vec<String>,
    /// The points that also run with real kernels.
    #[serde(default)]
    pub lab: Option<Lab>,
    /// What the paper reports.
    pub claims: Vec<Claim>,
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
    pub set: toml::Table,
    /// Not in the paper: drawn beside it, and in rules not among `points` but `beside["its name"]`.
    #[serde(default)]
    pub companion: bool,
    /// Runs a point, where they are not the experiment's.
    #[serde(default)]
    pub repeat: Option<u32>,
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
    /// Other scenario keys that change along with it: one value for each of `values`.
    #[serde(default)]
    pub along: BTreeMap<String, Vec<toml::Value>>,
}

/// The axes of the figure or of one of its panels.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axes {
    /// The panel's caption; the experiment's title if absent.
    pub title: Option<String>,
    /// The sweep on the x axis, `time` for series of the first run, or `after drop` for its tracks over the packets after a
    /// drop (`after.rs`); none for a table.
    pub x: Option<String>,
    /// The metric on the y axis, as claims write it (`share.lbe`), or over time a track (`cwnd.lbe`).
    pub y: Vec<String>,
    /// What one on the x axis is.
    #[serde(default = "one")]
    pub x_unit: f64,
    /// What one on the y axis is: 1448 draws a window of bytes in segments.
    #[serde(default = "one")]
    pub unit: f64,
    /// Added to y: a base RTT where the track is a queueing delay.
    #[serde(default)]
    pub offset: f64,
    /// The variant or swept value of the points to draw, or a list of them; all if absent.
    #[serde(default)]
    pub only: BTreeMap<String, toml::Value>,
    /// The sweep on the y axis of a heat map, whose colour is then `y`.
    pub rows: Option<String>,
    /// What a heat map's palest and darkest cells stand for; the least and the most of its own cells if absent.
    pub range: Option<(f64, f64)>,
    /// The metrics are parts of one whole: bars, each upon the one before.
    #[serde(default)]
    pub stacked: bool,
    /// Labels with units.
    pub x_label: String,
    /// Label with units.
    pub y_label: String,
}

/// Something the paper reports, as an expression over the points.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// `c1`, ….
    pub id: String,
    /// Where in the paper it stands.
    pub place: String,
    /// What the paper says, in our words with its numbers.
    pub says: String,
    /// A Rhai expression over `points` that is true where the claim is met.
    pub rule: String,
    /// Why the rule has the tolerance it has.
    pub tolerance: String,
    /// Whether a quick run has the points that the rule needs.
    #[serde(default = "yes")]
    pub quick: bool,
    /// The claim of the paper (`fig10#c3`) that is asked here of the other of two: what the authors describe and what they published.
    /// It is shown beside that one and not counted among the paper's.
    #[serde(default)]
    pub again: Option<String>,
    /// For a claim that is not met: the cause, found by looking at traces.
    #[serde(default)]
    pub explained: Option<String>,
}

fn yes() -> bool {
    true
}

fn one() -> f64 {
    1.0
}

fn tenth() -> f64 {
    100.0
}

fn one_or_several<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Axes>, D::Error> {
    let axes = |value: toml::Value| Axes::deserialize(value).map_err(D::Error::custom);
    match toml::Value::deserialize(from)? {
        toml::Value::Array(panels) => panels.into_iter().map(axes).collect(),
        one => Ok(vec![axes(one)?]),
    }
}

impl Axes {
    /// Whether a curve is one run's course: over time, or over the packets after a drop.
    pub fn over_time(&self) -> bool {
        self.x.as_deref() == Some("time") || self.after_drops()
    }

    /// Whether x counts the packets after a drop.
    pub fn after_drops(&self) -> bool {
        self.x.as_deref() == Some("after drop")
    }

    /// Whether `point` is drawn.
    pub fn shows(&self, point: &Point) -> bool {
        let fits = |had: &toml::Value, wish: &toml::Value| wish == had || wish.as_array().is_some_and(|any| any.contains(had));
        self.only.iter().all(|(name, wish)| point.at.iter().any(|(k, v)| k == name && fits(v, wish)))
    }
}

/// One combination of variant and swept values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// Variant and swept values by name.
    pub at: Vec<(String, toml::Value)>,
    /// What to set in the scenario.
    pub set: Vec<(String, toml::Value)>,
    /// The companion it belongs to, if it is none of the paper's.
    pub companion: Option<String>,
    /// Runs, with seeds 1, 2, ….
    pub repeat: u32,
}

/// Which points are run, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All, as often as the paper.
    Full,
    /// Few, once.
    Quick,
    /// Those of the laboratory.
    Lab,
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
        if experiment.claims.is_empty() || experiment.repeat == 0 {
            bail!("{}: an experiment needs at least one claim and one run", path.display());
        }
        if !experiment.claims.iter().any(|claim| claim.quick) {
            bail!("{}: a quick run must decide some claim: none has `quick = true`", path.display());
        }
        if let Some(sweep) = experiment.sweep.iter().find(|s| !s.is_consistent()) {
            bail!(
                "{}: sweep `{}`: `quick` must be some of `values`, and `along` must have as many as `values`",
                path.display(),
                sweep.name
            );
        }
        let lab_ok =
            |lab: &Lab| experiment.sweep.iter().all(|s| lab.points.get(&s.name).is_some_and(|p| p.iter().all(|v| s.values.contains(v))));
        if !experiment.lab.as_ref().is_none_or(lab_ok) {
            bail!("{}: `lab.points` must name some of the values of every sweep", path.display());
        }
        Ok(experiment)
    }

    /// The paper that it is of.
    pub fn paper(&self) -> &str {
        self.id.split('/').next().unwrap_or(&self.id)
    }

    /// Whether `figure#claim` is a claim of the paper in this experiment.
    pub fn asks(&self, id: &str) -> bool {
        let figure = self.id.split_once('/').map_or(self.id.as_str(), |(_, figure)| figure);
        self.claims.iter().any(|claim| claim.again.is_none() && id.split_once('#') == Some((figure, claim.id.as_str())))
    }

    /// Whether the series of its runs are drawn.
    pub fn draws_series(&self) -> bool {
        self.plot.iter().any(Axes::over_time)
    }

    /// Whether its runs' packet events are looked at.
    pub fn watches_packets(&self) -> bool {
        let named = |expression: &String| ["_after.", ".drops."].iter().any(|name| expression.contains(name));
        self.plot.iter().any(Axes::after_drops) || self.derive.values().any(named)
    }

    /// The points of a run of that extent. Companions do not run in the laboratory.
    pub fn points(&self, extent: Extent) -> Vec<Point> {
        let repeat = match (extent, &self.lab) {
            (Extent::Full, _) => self.repeat,
            (Extent::Lab, Some(lab)) => lab.repeat,
            _ => 1,
        };
        let mut variants: Vec<Point> = Vec::new();
        if self.variants.iter().all(|v| v.companion) {
            variants.push(Point { repeat, ..Point::default() });
        }
        let wanted = self.variants.iter().filter(|v| !v.companion || extent != Extent::Lab);
        variants.extend(wanted.map(|v| variant_point(v, if extent == Extent::Full { v.repeat.unwrap_or(repeat) } else { repeat })));
        self.sweep.iter().fold(variants, |points, sweep| {
            let values = match (extent, &self.lab) {
                (Extent::Full, _) => sweep.values.as_slice(),
                (Extent::Quick, _) => sweep.quick.as_slice(),
                (Extent::Lab, lab) => lab.as_ref().and_then(|l| l.points.get(&sweep.name)).map_or(&[][..], Vec::as_slice),
            };
            points.iter().flat_map(|point| values.iter().map(|value| point.with(sweep, value))).collect()
        })
    }

    /// What the paper prints for `metric` at `point`.
    pub fn reported_at(&self, metric: &str, point: &Point) -> Option<f64> {
        let variant = point.at.iter().find(|(name, _)| name == "variant").and_then(|(_, v)| v.as_str()).unwrap_or("");
        let values = self.reported.get(metric)?.get(variant)?;
        let sweep = self.sweep.first()?;
        let (_, at) = point.at.iter().find(|(name, _)| *name == sweep.name)?;
        values.get(sweep.values.iter().position(|v| v == at)?).copied()
    }
}

fn variant_point(variant: &Variant, repeat: u32) -> Point {
    Point {
        at: vec![("variant".to_owned(), toml::Value::String(variant.name.clone()))],
        set: variant.set.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        companion: variant.companion.then(|| variant.name.clone()),
        repeat,
    }
}

impl Sweep {
    fn is_consistent(&self) -> bool {
        self.quick.iter().all(|q| self.values.contains(q)) && self.along.values().all(|a| a.len() == self.values.len())
    }
}

impl Point {
    fn with(&self, sweep: &Sweep, value: &toml::Value) -> Point {
        let mut point = self.clone();
        point.at.push((sweep.name.clone(), value.clone()));
        point.set.push((sweep.key.clone(), value.clone()));
        let nth = sweep.values.iter().position(|v| v == value);
        let along = sweep.along.iter().filter_map(|(key, values)| Some((key.clone(), values.get(nth?)?.clone())));
        point.set.extend(along);
        point
    }

    /// The number at which it stands in a sweep.
    pub fn number(&self, sweep: &str) -> Option<f64> {
        let (_, value) = self.at.iter().find(|(name, _)| name == sweep)?;
        value.as_float().or_else(|| value.as_integer().map(|i| i as f64))
    }

    /// `rtt=20 variant=rl`, for messages and folder names.
    pub fn label(&self) -> String {
        let parts: Vec<String> = self.at.iter().map(|(k, v)| format!("{k}={}", v.to_string().trim_matches('"'))).collect();
        if parts.is_empty() { "the one point".to_owned() } else { parts.join(" ") }
    }
}

/// Every experiment below `root` in the order of their ids; each of `wanted` must name one or a paper.
///
/// # Errors
/// An unreadable folder or file, or a wish that names nothing.
pub fn load_all(root: &Path, wanted: &[String]) -> Result<Vec<Experiment>> {
    let mut files: Vec<PathBuf> = Vec::new();
    for paper in fs::read_dir(root).with_context(|| {
        format!("{}: no folder of experiments; --experiments DIR names it (papers/ of lowtide's sources)", root.display())
    })? {
        let folder = paper?.path();
        if folder.is_dir() {
            files.extend(
                fs::read_dir(folder)?.filter_map(|f| f.ok().map(|f| f.path())).filter(|f| f.extension().is_some_and(|e| e == "toml")),
            );
        }
    }
    files.sort();
    let all = files.iter().map(|path| Experiment::load(root, path)).collect::<Result<Vec<_>>>()?;
    for wish in wanted {
        if !all.iter().any(|e| matches(&e.id, wish)) {
            bail!("no experiment `{wish}`; {}", nearest(&all, wish));
        }
    }
    if let Some((by, id)) =
        all.iter().flat_map(|e| e.beside.iter().map(move |b| (&e.id, b))).find(|(_, b)| !all.iter().any(|e| e.id == **b))
    {
        bail!("{by}: `beside` names `{id}`, which is no experiment");
    }
    for (by, claim) in all.iter().flat_map(|e| e.claims.iter().map(move |c| (e, c))) {
        let papers = |id: &String| all.iter().any(|e| e.paper() == by.paper() && e.asks(id));
        if let Some(id) = claim.again.as_ref().filter(|id| !papers(id)) {
            bail!("{}#{}: `again` names `{id}`, which is no claim of that paper", by.id, claim.id);
        }
    }
    Ok(all)
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
    let figures: Vec<&str> = all.iter().filter(|e| e.paper() == paper).filter_map(|e| Some(e.id.split_once('/')?.1)).collect();
    if !figures.is_empty() {
        return format!("{paper}/ has {}", figures.join(", "));
    }
    let papers: BTreeSet<&str> = all.iter().map(Experiment::paper).collect();
    format!("the papers are {}; `lowtide papers list` names each figure", papers.into_iter().collect::<Vec<_>>().join(", "))
}
