//! An experiment's plots and tables of numbers from what was measured. Knows no page.

use std::collections::BTreeSet;

use super::axes::Axes;
use super::metrics::tracks::Tracks;
use super::outcome::{Measured, Outcome};
use super::points::{Extent, Point, Profile};
use crate::report::dots::{Dots, Series};
use crate::report::heat::HeatMap;
use crate::report::plot::COLOURS;
use crate::report::{Curve, Form, Plot, Stroke, setting};

/// What was run, in words: the fixed parameters, the seeds.
pub fn setting_of(outcome: &Outcome) -> String {
    let experiment = outcome.experiment;
    let text = toml::to_string(&experiment.scenario).unwrap_or_default();
    let swept = experiment.sweep.iter().flat_map(|s| std::iter::once(s.key.as_str()).chain(s.along.keys().map(String::as_str)));
    let sets = experiment.variants.iter().flat_map(|v| [Some(&v.set), v.described.as_ref(), v.run.as_ref(), v.ours.as_ref()]).flatten();
    let columns = Profile::ALL.into_iter().filter_map(|p| experiment.column(p)).map(|c| &c.set);
    let varied: Vec<&str> = swept.chain(sets.chain(columns).flat_map(toml::Table::keys).map(String::as_str)).collect();
    let duration = experiment.scenario.get("duration_s").map(toml::Value::to_string).unwrap_or_default();
    format!("Simulated for {duration} s; {}; {}.", setting(&text, &varied), seeds(outcome))
}

fn seeds(outcome: &Outcome) -> String {
    match (outcome.extent, outcome.experiment.repeat) {
        (Some(Extent::Full), repeat) if repeat > 1 => {
            format!("means over the seeds 1 to {repeat}, the bands from the least to the most of them")
        }
        _ => "seed 1".to_owned(),
    }
}

/// Names with a colour of their own on a page, in the order in which they came: one name has one colour in all of a paper's plots.
#[derive(Default)]
pub struct Palette(Vec<String>);

impl Palette {
    /// The colour of `name`; another where a plot has given that to another name.
    fn colour(&mut self, name: &str, taken: &[(String, usize)]) -> usize {
        if let Some((_, colour)) = taken.iter().find(|t| t.0 == name) {
            return *colour;
        }
        let nth = self.0.iter().position(|n| n == name).unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        });
        let free = |colour: &usize| taken.iter().all(|t| t.1 != *colour);
        (0..COLOURS.len()).map(|more| (nth + more) % COLOURS.len()).find(free).unwrap_or(nth % COLOURS.len())
    }
}

/// A legend longer than this is not read.
const MOST_CURVES: usize = 8;

/// The plots of one panel: one, or one a column where it would have too many curves.
pub fn plots_of(outcome: &Outcome, axes: &Axes, palette: &mut Palette) -> Vec<Plot> {
    let whole = plot_of(outcome, axes, palette);
    let drawn = |p: &Profile| outcome.measured.iter().any(|m| m.point.profile == Some(*p) && axes.shows(&m.point));
    let columns: Vec<Profile> = Profile::ALL.into_iter().filter(drawn).collect();
    if whole.curves.len() <= MOST_CURVES || columns.len() < 2 {
        return vec![whole];
    }
    let title = axes.title.as_ref().unwrap_or(&outcome.experiment.title);
    let of_column = |p: Profile| Axes { columns: Some(vec![p]), title: Some(format!("{title}, {}", p.title())), ..axes.clone() };
    columns.into_iter().map(|p| plot_of(outcome, &of_column(p), palette)).collect()
}

fn plot_of(outcome: &Outcome, axes: &Axes, palette: &mut Palette) -> Plot {
    let experiment = outcome.experiment;
    let mut curves = Curves { all: Vec::new(), palette, taken: Vec::new() };
    for m in outcome.measured.iter().filter(|m| axes.shows(&m.point)) {
        match &m.tracks {
            Some(tracks) if axes.over_time() => curves.over_time(axes, m, tracks),
            _ => curves.over_sweep(outcome, axes, m),
        }
    }
    for c in outcome.lab.values.iter().filter(|c| axes.shows(&c.point) && axes.y.contains(&c.value.metric)) {
        let at = place(&c.point, axes, &c.value.metric);
        at.x.into_iter()
            .for_each(|x| curves.add(format!("{}, laboratory", at.name), &at.base, Stroke::Squares, [(x, axes.drawn(c.value.lab))], None));
    }
    let floor = axes.floor.iter().flat_map(|metric| {
        let shown = outcome.measured.iter().filter(|m| axes.shows(&m.point));
        shown.filter_map(move |m| Some((place(&m.point, axes, metric).x?, axes.drawn(m.mean(metric)?))))
    });
    let mut floor: Vec<(f64, f64)> = floor.collect();
    floor.sort_by(|a, b| a.0.total_cmp(&b.0));
    floor.dedup_by(|a, b| a.0 == b.0);
    let title = axes.title.as_ref().unwrap_or(&experiment.title);
    let title = match axes.over_time() {
        true => format!("{}: {title}. {}", experiment.place, setting_of(outcome).replace(&seeds(outcome), "seed 1")),
        false => format!("{}: {title}. {}", experiment.place, setting_of(outcome)),
    };
    Plot { title, x_label: axes.x_label.clone(), y_label: axes.y_label.clone(), curves: curves.all, form: axes.form(), floor }
}

/// The heat map of a panel over two sweeps; none if it is none.
pub fn map_of(outcome: &Outcome, axes: &Axes) -> Option<HeatMap> {
    let (x, rows, metric) = (axes.x.as_deref()?, axes.rows.as_deref()?, axes.y.first()?);
    let cell = |m: &Measured| Some((m.point.number(x)?, m.point.number(rows)?, axes.drawn(m.mean(metric)?)));
    let cells = outcome.measured.iter().filter(|m| axes.shows(&m.point)).filter_map(cell).collect();
    let shade = axes.range.map_or_else(String::new, |(pale, dark)| format!(" Colour: {metric}, pale {pale}, dark {dark}."));
    let title = format!("{}{shade}", plot_of(outcome, axes, &mut Palette::default()).title);
    Some(HeatMap { title, x_label: axes.x_label.clone(), y_label: axes.y_label.clone(), cells, range: axes.range })
}

/// The rows of a panel over nothing, one a variant and place in the sweeps; none if no point of it was run.
pub fn dots_of(outcome: &Outcome, axes: &Axes, palette: &mut Palette) -> Option<Dots> {
    let title =
        format!("{}: {}. {}", outcome.experiment.place, axes.title.as_ref().unwrap_or(&outcome.experiment.title), setting_of(outcome));
    let mut dots = Dots { title, x_label: axes.y_label.clone(), ..Dots::default() };
    let mut taken = Vec::new();
    for m in outcome.measured.iter().filter(|m| axes.shows(&m.point)) {
        let row = row_of(&m.point, axes).unwrap_or_else(|| axes.label(&axes.y[0]));
        let row = dots.rows.iter().position(|r| *r == row).unwrap_or_else(|| {
            dots.rows.push(row);
            dots.rows.len() - 1
        });
        for metric in &axes.y {
            let Some((mean, least, most)) = m.spread(metric) else { continue };
            let base = axes.label(metric);
            let column = m.point.profile.map_or("for comparison", Profile::title);
            let name = if axes.y.len() == 1 { column.to_owned() } else { format!("{base}, {column}") };
            let point = (row, axes.drawn(mean), axes.drawn(least), axes.drawn(most));
            if let Some(series) = dots.series.iter_mut().find(|s| s.name == name) {
                series.points.push(point);
                continue;
            }
            let colour = palette.colour(&base, &taken);
            taken.push((base, colour));
            dots.series.push(Series { name, colour, stroke: stroke_of(&m.point), points: vec![point] });
        }
    }
    (!dots.series.is_empty()).then_some(dots)
}

/// `NewReno, hops 3`, without what `only` says of the whole panel; none where nothing is left.
fn row_of(point: &Point, axes: &Axes) -> Option<String> {
    let part = |(name, value): &(String, toml::Value)| value.as_str().map_or_else(|| format!("{name} {value}"), str::to_owned);
    let parts: Vec<String> = point.at.iter().filter(|(name, _)| !axes.only.contains_key(name)).map(part).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
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

/// Where a point's value is drawn.
struct Place {
    x: Option<f64>,
    /// Of its curve, and what of it is the same in every column.
    name: String,
    base: String,
}

fn place(point: &Point, axes: &Axes, metric: &str) -> Place {
    let mut rest = Vec::new();
    let mut x = None;
    for (name, value) in &point.at {
        if Some(name.as_str()) == axes.x.as_deref() {
            x = point.number(name).map(|x| x / axes.x_unit);
        } else {
            rest.push(value.as_str().map_or_else(|| format!("{name} {value}"), str::to_owned));
        }
    }
    if axes.y.len() != 1 || rest.is_empty() {
        rest.insert(0, axes.label(metric));
    }
    rest.retain(|part| !part.is_empty());
    let base = rest.join(", ");
    rest.extend(point.profile.filter(|_| axes.columns.as_ref().is_none_or(|c| c.len() != 1)).map(|p| p.title().to_owned()));
    Place { x, name: rest.join(", "), base }
}

impl Axes {
    /// What a metric or a flow is called in a legend: as the toml says, or its flow's name, or its own.
    fn label(&self, key: &str) -> String {
        let of = |name: &str| self.names.get(name).cloned();
        let flow = key.split_once('.').map_or(key, |(_, flow)| flow);
        let nth = flow.rsplit_once('.').and_then(|(first, n)| Some(format!("{} {n}", of(first)?)));
        of(key).or_else(|| of(flow)).or(nth).unwrap_or_else(|| flow.replace('_', " "))
    }
}

/// The curves of a plot under construction.
struct Curves<'p> {
    all: Vec<Curve>,
    palette: &'p mut Palette,
    taken: Vec<(String, usize)>,
}

impl Curves<'_> {
    fn add(
        &mut self,
        name: String,
        base: &str,
        stroke: Stroke,
        points: impl IntoIterator<Item = (f64, f64)>,
        band: Option<(f64, f64, f64)>,
    ) {
        if let Some(curve) = self.all.iter_mut().find(|c| c.name == name) {
            curve.points.extend(points);
            curve.band.extend(band);
            return;
        }
        let colour = self.palette.colour(base, &self.taken);
        self.taken.push((base.to_owned(), colour));
        self.all.push(Curve { name, points: points.into_iter().collect(), stroke, colour: Some(colour), band: band.into_iter().collect() });
    }

    fn over_sweep(&mut self, outcome: &Outcome, axes: &Axes, m: &Measured) {
        for metric in &axes.y {
            let at = place(&m.point, axes, metric);
            let Some(x) = at.x else { continue };
            if let Some(printed) = outcome.experiment.reported_at(metric, &m.point) {
                self.add(format!("{}, the paper's", at.base), &at.base, Stroke::Rings, [(x, axes.drawn(printed))], None);
            }
            if let Some((mean, least, most)) = m.spread(metric) {
                let band = (least < most).then(|| (x, axes.drawn(least), axes.drawn(most)));
                self.add(at.name, &at.base, stroke_of(&m.point), [(x, axes.drawn(mean))], band);
            }
        }
    }

    /// A curve for every flow or bottleneck that a track's name means: `cwnd.lbe` is also that of `lbe.1`, `lbe.2`, ….
    fn over_time(&mut self, axes: &Axes, m: &Measured, tracks: &Tracks) {
        for y in &axes.y {
            let Some((quantity, wanted)) = y.split_once('.') else { continue };
            let Some(named) = tracks.get(quantity) else { continue };
            let mine = |flow: &str| flow.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            for (flow, track) in named.iter().filter(|(flow, _)| mine(flow)) {
                // What `only` names is the same for the whole plot; the column is not.
                let at = if axes.only.len() == m.point.at.len() { Vec::new() } else { m.point.at.clone() };
                let rest = place(&Point { at, ..m.point.clone() }, &Axes { y: vec![String::new()], ..axes.clone() }, "");
                let label = axes.label(&format!("{quantity}.{flow}"));
                let named = |rest: &str| if rest.is_empty() { label.clone() } else { format!("{label}, {rest}") };
                let points = track.points().iter().map(|p| (p.0, axes.drawn(p.1)));
                self.add(named(&rest.name), &named(&rest.base), stroke_of(&m.point), points, None);
            }
        }
    }
}

/// What is described is drawn through, what was run dashed, all else dotted.
fn stroke_of(point: &Point) -> Stroke {
    match point.profile {
        Some(Profile::Described) => Stroke::Line,
        Some(Profile::Run) => Stroke::Dashed,
        _ => Stroke::Dotted,
    }
}

/// Head and rows of the table of numbers: a row a point, with what the paper prints where it does.
pub fn numbers(outcome: &Outcome) -> (Vec<String>, Vec<Vec<String>>) {
    let experiment = outcome.experiment;
    let mut metrics: Vec<&str> = experiment.plot.iter().filter(|a| !a.over_time()).flat_map(|a| &a.y).map(String::as_str).collect();
    metrics.extend(experiment.metrics.keys().map(String::as_str));
    let mut seen = BTreeSet::new();
    metrics.retain(|name| seen.insert(*name));
    let number = |value: f64| if value.is_finite() { format!("{value:.3}") } else { "–".to_owned() };
    let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number);
    let measured = |m: &Measured, metric: &str| match m.spread(metric) {
        Some((mean, least, most)) if m.runs.len() > 1 && least < most => {
            format!("{} ({} to {})", number(mean), number(least), number(most))
        }
        spread => shown(spread.map(|s| s.0)),
    };
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
            row.push(measured(m, metric));
            if experiment.reported.contains_key(*metric) {
                row.push(shown(experiment.reported_at(metric, &m.point)));
            }
        }
        row
    };
    (head, outcome.measured.iter().map(row).collect())
}
