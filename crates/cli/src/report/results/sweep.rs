//! A sweep on a page: what varied, a heat map over two numbers or curves over one, and a table of all runs. Reads results only.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use lowtide_scenario::{Bottleneck, ResultDir, Summary};

use super::Sheet;
use crate::report::heat::{HeatMap, short};
use crate::report::setting::{parameters, setting};
use crate::report::{Curve, Form, Plot};

/// A number that each run has.
struct Metric {
    name: String,
    value: Box<dyn Fn(&Summary) -> f64>,
}

impl Metric {
    fn new(name: String, value: impl Fn(&Summary) -> f64 + 'static) -> Metric {
        Metric { name, value: Box::new(value) }
    }
}

/// What sweeps are drawn by; a group's share is added by its name.
fn metrics(results: &[ResultDir]) -> Vec<Metric> {
    fn first(s: &Summary, value: fn(&Bottleneck) -> f64) -> f64 {
        s.bottlenecks.first().map_or(f64::NAN, value)
    }
    let mut metrics = vec![
        Metric::new("Utilisation".into(), |s| first(s, |b| b.utilisation)),
        Metric::new("Queueing delay, 95th percentile (ms)".into(), |s| first(s, |b| b.queue_delay_ms.p95)),
        Metric::new("Jain index".into(), |s| s.jain),
    ];
    let groups: BTreeSet<String> = results.iter().flat_map(|r| r.summary.flows.iter().map(|f| f.group.clone())).collect();
    metrics.extend(groups.into_iter().map(|group| {
        let name = format!("Share of {group}");
        Metric::new(name, move |s| s.flows.iter().filter(|f| f.group == group).map(|f| f.share).sum())
    }));
    metrics
}

/// A run of a sweep and the values of its scenario, by their full keys.
struct Run<'a> {
    result: &'a ResultDir,
    values: BTreeMap<String, String>,
}

impl Run<'_> {
    fn number(&self, key: &str) -> Option<f64> {
        self.values.get(key)?.parse().ok()
    }
}

/// A place on a map, or on a line where the second number is 0.
type Place = (f64, f64);

/// The runs of a sweep and the keys in which they differ.
struct Runs<'a> {
    runs: Vec<Run<'a>>,
    varied: Vec<String>,
}

impl<'a> Runs<'a> {
    fn of(results: &'a [ResultDir]) -> Runs<'a> {
        let runs: Vec<Run> = results.iter().map(|result| Run { result, values: parameters(&result.scenario) }).collect();
        let keys: BTreeSet<&String> =
            runs.iter().flat_map(|r| r.values.keys()).filter(|k| !matches!(k.as_str(), "seed" | "name")).collect();
        let varied = keys.into_iter().filter(|k| runs.iter().any(|r| r.values.get(*k) != runs[0].values.get(*k))).cloned().collect();
        Runs { runs, varied }
    }

    /// Those varied that are numbers in every run.
    fn numbers(&self) -> Vec<&str> {
        let is_number = |key: &&str| self.runs.iter().all(|r| r.number(key).is_some());
        self.varied.iter().map(String::as_str).filter(is_number).collect()
    }

    /// The number that took most values.
    fn abscissa(&self) -> Option<&str> {
        let distinct = |key: &str| self.runs.iter().filter_map(|r| r.values.get(key)).collect::<BTreeSet<_>>().len();
        self.numbers().into_iter().max_by_key(|key| distinct(key))
    }

    /// If exactly two keys varied, both numbers: the other one than `x`.
    fn ordinate(&self, x: &str) -> Option<&str> {
        match (self.varied.len(), self.numbers().as_slice()) {
            (2, [a, b]) => Some(if *a == x { b } else { a }),
            _ => None,
        }
    }

    fn cells(&self, x: &str, y: &str, metric: &Metric) -> Vec<(f64, f64, f64)> {
        let at = |run: &Run| Some(((run.number(x)?, run.number(y)?), (metric.value)(&run.result.summary)));
        means(self.runs.iter().filter_map(at)).into_iter().map(|((x, y), v)| (x, y, v)).collect()
    }

    /// A curve for each combination of what varied besides `x`.
    fn curves(&self, x: &str, metric: &Metric) -> Vec<Curve> {
        let mut curves: BTreeMap<String, Vec<(Place, f64)>> = BTreeMap::new();
        for run in &self.runs {
            let Some(at) = run.number(x) else { continue };
            let others = self.varied.iter().filter(|key| *key != x);
            let name: Vec<String> = others.map(|key| format!("{key} {}", run.values.get(key).map_or("–", String::as_str))).collect();
            curves.entry(name.join(", ")).or_default().push(((at, 0.0), (metric.value)(&run.result.summary)));
        }
        let curve = |(name, points): (String, Vec<_>)| {
            let points = means(points.into_iter()).into_iter().map(|((x, _), y)| (x, y)).collect();
            Curve::line(if name.is_empty() { &metric.name } else { &name }, points)
        };
        curves.into_iter().map(curve).collect()
    }

    fn table(&self, sheet: &mut Sheet, metrics: &[Metric]) {
        let varied = self.varied.iter().map(String::as_str);
        let head: Vec<&str> = varied.chain(["seed"]).chain(metrics.iter().map(|m| m.name.as_str())).collect();
        let row = |run: &Run| {
            let chosen = self.varied.iter().map(|key| run.values.get(key).cloned().unwrap_or_default());
            let measured = metrics.iter().map(|m| short((m.value)(&run.result.summary)));
            chosen.chain([run.result.summary.seed.to_string()]).chain(measured).collect()
        };
        let rows: Vec<Vec<String>> = self.runs.iter().map(row).collect();
        sheet.page.heading("runs", "Runs").table(&head, &rows);
    }
}

/// Fills the sheet; there are at least two results.
pub(super) fn draw(sheet: &mut Sheet, results: &[ResultDir]) -> Result<()> {
    let runs = Runs::of(results);
    let varied: Vec<&str> = runs.varied.iter().map(String::as_str).collect();
    let setting = setting(&results[0].scenario, &varied);
    let seeds: BTreeSet<u64> = results.iter().map(|r| r.summary.seed).collect();
    let seeds = seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    sheet.page.paragraph(&format!("Varied: {}. Seeds {seeds}; points are means over them. Fixed: {setting}.", varied.join(", ")));
    let metrics = metrics(results);
    if let Some(x) = runs.abscissa() {
        for metric in &metrics {
            let title = format!("{}. {}, seeds {seeds}; {setting}", metric.name, results[0].summary.scenario);
            if let Some(y) = runs.ordinate(x) {
                let cells = runs.cells(x, y, metric);
                let map = HeatMap { title, x_label: x.to_owned(), y_label: y.to_owned(), cells, range: None };
                let href = sheet.data(&map.csv())?;
                sheet.page.figure(&map.svg(), &map.title, Some(&href));
            } else {
                let curves = runs.curves(x, metric);
                sheet.plot(&Plot {
                    title,
                    x_label: x.to_owned(),
                    y_label: metric.name.clone(),
                    curves,
                    form: Form::Marked,
                    ..Plot::default()
                })?;
            }
        }
    }
    runs.table(sheet, &metrics);
    Ok(())
}

/// The mean of the values at each place, in the order of places.
fn means(points: impl Iterator<Item = (Place, f64)>) -> Vec<(Place, f64)> {
    let mut sums: Vec<(Place, f64, f64)> = Vec::new();
    for (at, value) in points.filter(|p| p.1.is_finite()) {
        match sums.iter_mut().find(|s| s.0 == at) {
            Some(sum) => (sum.1, sum.2) = (sum.1 + value, sum.2 + 1.0),
            None => sums.push((at, value, 1.0)),
        }
    }
    sums.sort_by(|a, b| a.0.0.total_cmp(&b.0.0).then(a.0.1.total_cmp(&b.0.1)));
    sums.into_iter().map(|(at, sum, n)| (at, sum / n)).collect()
}
