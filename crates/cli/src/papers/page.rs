//! The papers' report: a summary table on top, then each figure's plot, numbers and claims. Each plot's data lies beside it as CSV.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use lowtide_scenario::Series;

use super::experiment::{Axes, Experiment, Point};
use super::tracks::tracks;
use super::{Measured, Verdict, ensure_dir};
use crate::report::{Curve, Page, Plot};

/// One experiment with what was measured and judged.
pub type Outcome<'a> = (&'a Experiment, Vec<Measured>, Vec<Verdict<'a>>);

/// Writes `report.html` and the CSV files below `out`; returns the report's path.
pub fn write(out: &Path, quick: bool, results: &[Outcome]) -> Result<PathBuf> {
    ensure_dir(&out.join("data"))?;
    let mut page = Page::new("lowtide: the papers, reproduced");
    let kind = if quick { "A quick run: few points, one seed each." } else { "A full run: the papers' repetitions, seeds 1, 2, …." };
    page.paragraph(kind).table(&["experiment", "place in the paper", "claims met"], &results.iter().map(summary_row).collect::<Vec<_>>());
    for (experiment, measured, verdicts) in results {
        page.heading(&experiment.id, &format!("{}: {}", experiment.id, experiment.title));
        for note in &experiment.notes {
            page.paragraph(note);
        }
        for (panel, axes) in experiment.plot.iter().enumerate() {
            let plot = plot_of(experiment, axes, measured);
            let letter = if experiment.plot.len() > 1 { format!("-{}", panel + 1) } else { String::new() };
            let csv = format!("data/{}{letter}.csv", experiment.id.replace('/', "-"));
            fs::write(out.join(&csv), plot.csv()).with_context(|| format!("{csv}: cannot be written"))?;
            if axes.x.is_some() {
                page.plot(&plot, Some(&csv));
            }
        }
        numbers(&mut page, experiment, measured);
        page.table(&["claim", "the paper says", "rule", "result"], &verdicts.iter().map(claim_row).collect::<Vec<_>>());
    }
    let path = out.join("report.html");
    page.write(&path).with_context(|| format!("{}: cannot be written", path.display()))?;
    Ok(path)
}

fn summary_row((experiment, _, verdicts): &Outcome) -> Vec<String> {
    let met = verdicts.iter().filter(|v| v.met == Some(true)).count();
    let decided = verdicts.iter().filter(|v| v.met.is_some()).count();
    vec![experiment.id.clone(), experiment.place.clone(), format!("{met} of {decided}")]
}

fn claim_row(verdict: &Verdict) -> Vec<String> {
    let result = match verdict.met {
        Some(true) => "met".to_owned(),
        Some(false) => format!("not met. {}", verdict.claim.explained.as_deref().unwrap_or("No explanation yet.")),
        None => "needs the full run".to_owned(),
    };
    let says = format!("{} ({})", verdict.claim.says, verdict.claim.place);
    vec![verdict.claim.id.clone(), says, format!("{} — {}", verdict.claim.rule, verdict.claim.tolerance), result]
}

/// The point's place on the x axis, and the rest of it as the curve's name.
fn split(point: &Point, x: Option<&str>) -> (Option<f64>, String) {
    let mut rest = Vec::new();
    let mut at = None;
    for (name, value) in &point.at {
        if Some(name.as_str()) == x {
            at = value.as_float().or_else(|| value.as_integer().map(|i| i as f64));
        } else {
            rest.push(value.as_str().map_or_else(|| format!("{name} {value}"), str::to_owned));
        }
    }
    (at, rest.join(", "))
}

fn plot_of(experiment: &Experiment, axes: &Axes, measured: &[Measured]) -> Plot {
    let shown = measured.iter().filter(|m| axes.shows(&m.point));
    let mut curves = Vec::new();
    for m in shown {
        match &m.series {
            Some(series) if axes.over_time() => over_time(&mut curves, axes, m, series),
            _ => over_sweep(&mut curves, axes, m),
        }
    }
    let title = axes.title.as_ref().unwrap_or(&experiment.title);
    let runs = if axes.over_time() { "seed 1".to_owned() } else { format!("{} runs a point", experiment.repeat) };
    Plot {
        title: format!("{}: {title} ({runs})", experiment.place),
        x_label: axes.x_label.clone(),
        y_label: axes.y_label.clone(),
        curves,
        marks: !axes.over_time(),
    }
}

fn add(curves: &mut Vec<Curve>, name: String, points: impl IntoIterator<Item = (f64, f64)>) {
    match curves.iter_mut().find(|c| c.name == name) {
        Some(curve) => curve.points.extend(points),
        None => curves.push(Curve { name, points: points.into_iter().collect() }),
    }
}

fn over_sweep(curves: &mut Vec<Curve>, axes: &Axes, m: &Measured) {
    let (x, rest) = split(&m.point, axes.x.as_deref());
    for metric in &axes.y {
        let name = if rest.is_empty() {
            metric.clone()
        } else if axes.y.len() == 1 {
            rest.clone()
        } else {
            format!("{metric}, {rest}")
        };
        if let (Some(x), Some(y)) = (x, m.values.named(metric)) {
            add(curves, name, [(x, y / axes.unit)]);
        }
    }
}

/// A curve for every flow or bottleneck that a track's name means: `cwnd.lbe` is also that of `lbe.1`, `lbe.2`, ….
fn over_time(curves: &mut Vec<Curve>, axes: &Axes, m: &Measured, series: &Series) {
    let tracks = tracks(series);
    let (_, rest) = split(&m.point, None);
    for (quantity, wanted) in axes.y.iter().filter_map(|y| y.split_once('.')) {
        let Some(named) = tracks.get(quantity) else { continue };
        for (flow, track) in named.iter().filter(|(flow, _)| flow.strip_prefix(wanted).is_some_and(|r| r.is_empty() || r.starts_with('.')))
        {
            let name = if rest.is_empty() || axes.only.len() == m.point.at.len() { flow.clone() } else { format!("{flow}, {rest}") };
            add(curves, name, track.points().iter().map(|p| (p.0, p.1 / axes.unit)));
        }
    }
}

fn numbers(page: &mut Page, experiment: &Experiment, measured: &[Measured]) {
    let mut metrics: Vec<&str> = experiment.plot.iter().filter(|a| !a.over_time()).flat_map(|a| &a.y).map(String::as_str).collect();
    metrics.extend(experiment.derive.keys().map(String::as_str));
    let mut seen = BTreeSet::new();
    metrics.retain(|name| seen.insert(*name));
    let head: Vec<&str> = std::iter::once("point").chain(metrics.iter().copied()).collect();
    let rows = measured.iter().map(|m| {
        let values = metrics.iter().map(|name| m.values.named(name).map_or_else(|| "–".to_owned(), |v| format!("{v:.3}")));
        std::iter::once(m.point.label()).chain(values).collect()
    });
    page.table(&head, &rows.collect::<Vec<Vec<String>>>());
}
