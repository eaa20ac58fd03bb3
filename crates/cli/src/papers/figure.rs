//! An experiment's plots and tables of numbers from what was measured. Knows no page.

use std::collections::BTreeSet;

use super::experiment::{Axes, Extent, Point};
use super::outcome::{Measured, Outcome};
use super::tracks::Tracks;
use crate::report::heat::HeatMap;
use crate::report::{Curve, Form, Plot, Stroke, setting};

/// What was run, in words: the fixed parameters, the seeds.
pub fn setting_of(outcome: &Outcome) -> String {
    let experiment = outcome.experiment;
    let text = toml::to_string(&experiment.scenario).unwrap_or_default();
    let swept = experiment.sweep.iter().flat_map(|s| std::iter::once(s.key.as_str()).chain(s.along.keys().map(String::as_str)));
    let varied: Vec<&str> = swept.chain(experiment.variants.iter().flat_map(|v| v.set.keys()).map(String::as_str)).collect();
    let duration = experiment.scenario.get("duration_s").map(toml::Value::to_string).unwrap_or_default();
    format!("Simulated for {duration} s; {}; {}.", setting(&text, &varied), seeds(outcome))
}

fn seeds(outcome: &Outcome) -> String {
    match (outcome.extent, outcome.experiment.repeat) {
        (Some(Extent::Full), repeat) if repeat > 1 => format!("means over the seeds 1 to {repeat}"),
        _ => "seed 1".to_owned(),
    }
}

/// The plot of one panel.
pub fn plot_of(outcome: &Outcome, axes: &Axes) -> Plot {
    let experiment = outcome.experiment;
    let mut curves = Vec::new();
    for m in outcome.measured.iter().filter(|m| axes.shows(&m.point)) {
        match &m.tracks {
            Some(tracks) if axes.over_time() => over_time(&mut curves, axes, m, tracks),
            _ => over_sweep(&mut curves, outcome, axes, m),
        }
    }
    for c in outcome.lab.iter().filter(|c| axes.shows(&c.point) && axes.y.contains(&c.metric)) {
        let (x, name) = place(&c.point, axes, &c.metric);
        x.into_iter().for_each(|x| add(&mut curves, format!("{name}, laboratory"), Stroke::Rings, [(x, axes.drawn(c.lab))]));
    }
    let title = axes.title.as_ref().unwrap_or(&experiment.title);
    let title = match axes.over_time() {
        true => format!("{}: {title}. {}", experiment.place, setting_of(outcome).replace(&seeds(outcome), "seed 1")),
        false => format!("{}: {title}. {}", experiment.place, setting_of(outcome)),
    };
    Plot { title, x_label: axes.x_label.clone(), y_label: axes.y_label.clone(), curves, form: axes.form() }
}

/// The heat map of a panel over two sweeps; none if it is none.
pub fn map_of(outcome: &Outcome, axes: &Axes) -> Option<HeatMap> {
    let (x, rows, metric) = (axes.x.as_deref()?, axes.rows.as_deref()?, axes.y.first()?);
    let cell = |m: &Measured| Some((m.point.number(x)?, m.point.number(rows)?, axes.drawn(m.values.named(metric)?)));
    let cells = outcome.measured.iter().filter(|m| axes.shows(&m.point)).filter_map(cell).collect();
    let shade = axes.range.map_or_else(String::new, |(pale, dark)| format!(" Colour: {metric}, pale {pale}, dark {dark}."));
    let title = format!("{}{shade}", plot_of(outcome, axes).title);
    Some(HeatMap { title, x_label: axes.x_label.clone(), y_label: axes.y_label.clone(), cells, range: axes.range })
}

impl Axes {
    fn form(&self) -> Form {
        match (self.stacked, self.over_time() && !self.after_drops()) {
            (true, _) => Form::Stacked,
            (false, true) => Form::Lines,
            (false, false) => Form::Marked,
        }
    }

    /// A value as this panel shows it.
    fn drawn(&self, value: f64) -> f64 {
        value / self.unit + self.offset
    }
}

/// The point's place on the x axis, and the name of its curve.
fn place(point: &Point, axes: &Axes, metric: &str) -> (Option<f64>, String) {
    let mut rest = Vec::new();
    let mut at = None;
    for (name, value) in &point.at {
        if Some(name.as_str()) == axes.x.as_deref() {
            at = point.number(name).map(|x| x / axes.x_unit);
        } else {
            rest.push(value.as_str().map_or_else(|| format!("{name} {value}"), str::to_owned));
        }
    }
    let rest = rest.join(", ");
    let name = match (rest.is_empty(), axes.y.len()) {
        (true, _) => metric.to_owned(),
        (false, 1) => rest,
        (false, _) => format!("{metric}, {rest}"),
    };
    (at, name)
}

fn add(curves: &mut Vec<Curve>, name: String, stroke: Stroke, points: impl IntoIterator<Item = (f64, f64)>) {
    match curves.iter_mut().find(|c| c.name == name) {
        Some(curve) => curve.points.extend(points),
        None => curves.push(Curve { name, points: points.into_iter().collect(), stroke }),
    }
}

fn over_sweep(curves: &mut Vec<Curve>, outcome: &Outcome, axes: &Axes, m: &Measured) {
    let stroke = if m.point.companion.is_some() { Stroke::Dashed } else { Stroke::Line };
    for metric in &axes.y {
        let (Some(x), name) = place(&m.point, axes, metric) else { continue };
        if let Some(printed) = outcome.experiment.reported_at(metric, &m.point) {
            add(curves, format!("{name}, the paper's"), Stroke::Dashed, [(x, axes.drawn(printed))]);
        }
        if let Some(y) = m.values.named(metric) {
            add(curves, name, stroke, [(x, axes.drawn(y))]);
        }
    }
}

/// A curve for every flow or bottleneck that a track's name means: `cwnd.lbe` is also that of `lbe.1`, `lbe.2`, ….
fn over_time(curves: &mut Vec<Curve>, axes: &Axes, m: &Measured, tracks: &Tracks) {
    for y in &axes.y {
        let Some((quantity, wanted)) = y.split_once('.') else { continue };
        let Some(named) = tracks.get(quantity) else { continue };
        let mine = |flow: &str| flow.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        for (flow, track) in named.iter().filter(|(flow, _)| mine(flow)) {
            let (_, rest) = place(&m.point, axes, "");
            let alone = rest.is_empty() || axes.only.len() == m.point.at.len();
            let flow = if axes.y.len() > 1 { format!("{quantity}.{flow}") } else { flow.clone() };
            let name = if alone { flow } else { format!("{flow}, {rest}") };
            add(curves, name, Stroke::Line, track.points().iter().map(|p| (p.0, axes.drawn(p.1))));
        }
    }
}

/// Head and rows of the table of numbers: a row a point, with what the paper prints where it does.
pub fn numbers(outcome: &Outcome) -> (Vec<String>, Vec<Vec<String>>) {
    let experiment = outcome.experiment;
    let mut metrics: Vec<&str> = experiment.plot.iter().filter(|a| !a.over_time()).flat_map(|a| &a.y).map(String::as_str).collect();
    metrics.extend(experiment.derive.keys().map(String::as_str));
    let mut seen = BTreeSet::new();
    metrics.retain(|name| seen.insert(*name));
    let shown = |value: Option<f64>| value.filter(|v| v.is_finite()).map_or_else(|| "–".to_owned(), |v| format!("{v:.3}"));
    let mut head = vec!["point".to_owned()];
    for metric in &metrics {
        head.push((*metric).to_owned());
        if experiment.reported.contains_key(*metric) {
            head.push("the paper's".to_owned());
        }
    }
    let row = |m: &Measured| {
        let mut row = vec![m.point.label()];
        for metric in &metrics {
            row.push(shown(m.values.named(metric)));
            if experiment.reported.contains_key(*metric) {
                row.push(shown(experiment.reported_at(metric, &m.point)));
            }
        }
        row
    };
    (head, outcome.measured.iter().map(row).collect())
}
