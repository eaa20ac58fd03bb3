//! The papers' report: a summary table on top, then each figure's plot, numbers and claims. Each plot's data lies beside it as CSV.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::experiment::{Experiment, Point};
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
        let plot = plot_of(experiment, measured);
        let csv = format!("data/{}.csv", experiment.id.replace('/', "-"));
        fs::write(out.join(&csv), plot.csv()).with_context(|| format!("{csv}: cannot be written"))?;
        if experiment.plot.x.is_some() {
            page.plot(&plot, Some(&csv));
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

fn plot_of(experiment: &Experiment, measured: &[Measured]) -> Plot {
    let mut curves: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for metric in &experiment.plot.y {
        for m in measured {
            let (x, rest) = split(&m.point, experiment.plot.x.as_deref());
            let name = if rest.is_empty() { metric.clone() } else { format!("{metric}, {rest}") };
            if let (Some(x), Some(y)) = (x, m.values.named(metric)) {
                curves.entry(name).or_default().push((x, y));
            }
        }
    }
    Plot {
        title: format!("{}: {} ({} runs a point)", experiment.place, experiment.title, experiment.repeat),
        x_label: experiment.plot.x_label.clone(),
        y_label: experiment.plot.y_label.clone(),
        curves: curves.into_iter().map(|(name, points)| Curve { name, points }).collect(),
        marks: true,
    }
}

fn numbers(page: &mut Page, experiment: &Experiment, measured: &[Measured]) {
    let metrics: Vec<&str> = experiment.plot.y.iter().map(String::as_str).collect();
    let head: Vec<&str> = std::iter::once("point").chain(metrics.iter().copied()).collect();
    let rows = measured.iter().map(|m| {
        let values = metrics.iter().map(|name| m.values.named(name).map_or_else(|| "–".to_owned(), |v| format!("{v:.3}")));
        std::iter::once(m.point.label()).chain(values).collect()
    });
    page.table(&head, &rows.collect::<Vec<Vec<String>>>());
}
