//! Plots as inline SVG, lines or stacked bars, and their data as CSV. Knows nothing of pages or results.

use std::fmt::Write as _;

use super::escape::{escape, quoted};

/// Curves over one pair of axes.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    /// Its caption: what, with which parameters and seeds.
    pub title: String,
    /// The x axis, with its unit.
    pub x_label: String,
    /// The y axis, with its unit.
    pub y_label: String,
    /// What is drawn.
    pub curves: Vec<Curve>,
    /// How all of it is drawn.
    pub form: Form,
    /// What no curve can come below, shaded.
    pub floor: Vec<(f64, f64)>,
}

/// What a plot's curves look like together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Lines: for long series.
    #[default]
    Lines,
    /// Lines with a mark at every point: for sweeps.
    Marked,
    /// A bar at every x, made of the curves' parts one upon the other: for who gets what.
    Stacked,
}

/// Named points.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Its points, in the order of x.
    pub points: Vec<(f64, f64)>,
    /// How they are drawn.
    pub stroke: Stroke,
    /// Which of the page's colours it has; that of its place in the plot, if absent.
    pub colour: Option<usize>,
    /// Least and most at each x, shaded behind the line.
    pub band: Vec<(f64, f64, f64)>,
}

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stroke {
    /// A line through the points.
    #[default]
    Line,
    /// A dashed line: what stands beside the others for comparison.
    Dashed,
    /// A dotted line: a third kind beside those two.
    Dotted,
    /// Rings without a line: what a paper prints.
    Rings,
    /// Squares without a line: what was measured elsewhere.
    Squares,
}

impl Curve {
    /// A line through `points`.
    pub fn line(name: &str, points: Vec<(f64, f64)>) -> Curve {
        Curve { name: name.to_owned(), points, ..Curve::default() }
    }
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 388.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 60.0;
/// How much of its place a bar fills.
const BAR: f64 = 0.6;
/// The page's colours: distinguishable without red against green, and dark enough for paper.
pub const COLOURS: [&str; 8] = ["#0969da", "#bc4c00", "#1a7f37", "#8250df", "#bf8700", "#cf222e", "#57606a", "#0a7ea4"];
/// More points than this on one curve are thinned: no screen shows them.
const MOST_POINTS: usize = 1500;

impl Stroke {
    fn dashes(self) -> &'static str {
        match self {
            Stroke::Dashed => " stroke-dasharray=\"6 4\"",
            Stroke::Dotted => " stroke-dasharray=\"2 3\"",
            Stroke::Line | Stroke::Rings | Stroke::Squares => "",
        }
    }
}

/// One part of a stacked bar.
struct Bar {
    x: f64,
    from: f64,
    to: f64,
    colour: &'static str,
}

/// Round numbers along a side.
pub(super) struct Axis {
    low: f64,
    high: f64,
    step: f64,
}

impl Axis {
    /// Round ticks around `values`, about `wanted` of them.
    pub(super) fn around(values: impl Iterator<Item = f64>, from_zero: bool, wanted: f64) -> Axis {
        let (mut low, mut high) =
            values.filter(|v| v.is_finite()).fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if from_zero {
            low = low.min(0.0);
        }
        if high <= low {
            high = low + 1.0;
        }
        let raw = (high - low) / wanted;
        let magnitude = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * magnitude).find(|s| *s >= raw).unwrap_or(raw);
        Axis { low: (low / step).floor() * step, high: (high / step).ceil() * step, step }
    }

    pub(super) fn ticks(&self) -> impl Iterator<Item = f64> {
        let count = ((self.high - self.low) / self.step).round() as usize;
        (0..=count).map(move |i| self.low + i as f64 * self.step)
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    pub(super) fn label(&self, tick: f64) -> String {
        let digits = (-self.step.log10().floor()).clamp(0.0, 6.0) as usize;
        format!("{tick:.digits$}")
    }
}

impl Plot {
    /// The plot as an SVG element that scales with the page.
    pub fn svg(&self) -> String {
        let bars = if self.form == Form::Stacked { self.bars() } else { Vec::new() };
        let half = self.spacing() / 2.0;
        let ends = bars.iter().flat_map(|b| [b.x - half, b.x + half]);
        let x = Axis::around(self.points().map(|p| p.0).chain(ends), false, 8.0);
        let bands = self.curves.iter().flat_map(|c| c.band.iter().flat_map(|b| [b.1, b.2]));
        let y = Axis::around(self.points().map(|p| p.1).chain(bars.iter().map(|b| b.to)).chain(bands), true, 6.0);
        let mut svg = format!("<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">", escape(&self.title));
        self.draw_axes(&mut svg, &x, &y);
        let floor: Vec<(f64, f64, f64)> = self.floor.iter().map(|p| (p.0, y.low, p.1)).collect();
        draw_band(&mut svg, &floor, "#57606a", &x, &y);
        for (i, curve) in self.curves.iter().enumerate() {
            draw_band(&mut svg, &curve.band, curve.colour_at(i), &x, &y);
        }
        for bar in &bars {
            draw_bar(&mut svg, bar, 2.0 * half * BAR, &x, &y);
        }
        for (i, curve) in self.curves.iter().enumerate().filter(|_| bars.is_empty()) {
            self.draw_curve(&mut svg, curve, curve.colour_at(i), &x, &y);
        }
        svg.push_str("</svg>");
        svg
    }

    /// What each curve is, as an HTML list: it wraps where an SVG would be cut off or shrink.
    pub fn legend(&self) -> String {
        let mut list = String::from("<ul class=\"legend\">");
        for (i, curve) in self.curves.iter().enumerate() {
            let colour = curve.colour_at(i);
            let sample = match curve.stroke {
                Stroke::Rings | Stroke::Squares => hollow(curve.stroke, 14.0, 6.0, 4.0, colour),
                stroke => format!("<path d=\"M0 6H28\" stroke=\"{colour}\" stroke-width=\"3\"{}/>", stroke.dashes()),
            };
            let _ = write!(
                list,
                "<li><svg class=\"key\" viewBox=\"0 0 28 12\" aria-hidden=\"true\">{sample}</svg>{}</li>",
                escape(&curve.name)
            );
        }
        if !self.floor.is_empty() {
            list.push_str("<li><svg class=\"key\" viewBox=\"0 0 28 12\" aria-hidden=\"true\"><rect width=\"28\" height=\"12\" fill=\"#57606a\" fill-opacity=\".15\"/></svg>cannot be</li>");
        }
        list.push_str("</ul>");
        list
    }

    /// The data: one line a point.
    pub fn csv(&self) -> String {
        let mut csv = format!("curve,{},{}\n", quoted(&self.x_label), quoted(&self.y_label));
        for curve in &self.curves {
            for (x, y) in &curve.points {
                let _ = writeln!(csv, "{},{x},{y}", quoted(&curve.name));
            }
        }
        csv
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.curves.iter().flat_map(|c| c.points.iter().copied())
    }

    /// Each curve's part of the bar at each x, upon those of the curves before it.
    fn bars(&self) -> Vec<Bar> {
        let mut tops: Vec<(f64, f64)> = Vec::new();
        let mut bars = Vec::new();
        for (i, curve) in self.curves.iter().enumerate() {
            for &(x, part) in curve.points.iter().filter(|p| p.0.is_finite() && p.1.is_finite()) {
                let at = tops.iter().position(|t| t.0 == x).unwrap_or(tops.len());
                if at == tops.len() {
                    tops.push((x, 0.0));
                }
                let from = tops[at].1;
                tops[at].1 += part;
                bars.push(Bar { x, from, to: tops[at].1, colour: curve.colour_at(i) });
            }
        }
        bars
    }

    /// The least distance between two points' x; 1 if there is none.
    fn spacing(&self) -> f64 {
        let mut xs: Vec<f64> = self.points().map(|p| p.0).filter(|x| x.is_finite()).collect();
        xs.sort_by(f64::total_cmp);
        let least = xs.windows(2).map(|w| w[1] - w[0]).filter(|d| *d > 0.0).fold(f64::INFINITY, f64::min);
        if least.is_finite() { least } else { 1.0 }
    }

    fn draw_axes(&self, svg: &mut String, x: &Axis, y: &Axis) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for tick in y.ticks() {
            let at = place(y.at(tick), bottom, TOP);
            let _ = write!(
                svg,
                "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"currentColor\" stroke-opacity=\".15\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                at + 6.0,
                y.label(tick)
            );
        }
        for tick in x.ticks() {
            let at = place(x.at(tick), LEFT, right);
            let _ = write!(
                svg,
                "<path d=\"M{at:.1} {bottom}v5\" stroke=\"currentColor\"/><text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 22.0,
                x.label(tick)
            );
        }
        let _ = write!(
            svg,
            "<path d=\"M{LEFT} {bottom}H{right}\" stroke=\"currentColor\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text x=\"4\" y=\"24\">{}</text>",
            (LEFT + right) / 2.0,
            bottom + 48.0,
            escape(&self.x_label),
            escape(&self.y_label)
        );
    }

    fn draw_curve(&self, svg: &mut String, curve: &Curve, colour: &str, x: &Axis, y: &Axis) {
        let spots: Vec<(f64, f64)> =
            thinned(&curve.points).map(|(a, b)| (place(x.at(a), LEFT, WIDTH - RIGHT), place(y.at(b), HEIGHT - BOTTOM, TOP))).collect();
        if matches!(curve.stroke, Stroke::Rings | Stroke::Squares) {
            svg.extend(spots.into_iter().map(|(a, b)| hollow(curve.stroke, a, b, 5.0, colour)));
            return;
        }
        let line: Vec<String> = spots.iter().map(|(a, b)| format!("{a:.1},{b:.1}")).collect();
        let (line, dashes) = (line.join(" "), curve.stroke.dashes());
        let _ = write!(svg, "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"{dashes} points=\"{line}\"/>");
        if self.form == Form::Marked {
            for (a, b) in spots {
                let _ = write!(svg, "<circle cx=\"{a:.1}\" cy=\"{b:.1}\" r=\"3\" fill=\"{colour}\"/>");
            }
        }
    }
}

impl Curve {
    /// Its colour as the n-th curve of a plot.
    fn colour_at(&self, n: usize) -> &'static str {
        COLOURS[self.colour.unwrap_or(n) % COLOURS.len()]
    }
}

/// A ring or a square around a place.
fn hollow(stroke: Stroke, x: f64, y: f64, radius: f64, colour: &str) -> String {
    let form = match stroke {
        Stroke::Squares => format!("rect x=\"{:.1}\" y=\"{:.1}\" width=\"{w}\" height=\"{w}\"", x - radius, y - radius, w = 2.0 * radius),
        _ => format!("circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\""),
    };
    format!("<{form} fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>")
}

fn draw_band(svg: &mut String, band: &[(f64, f64, f64)], colour: &str, x: &Axis, y: &Axis) {
    let finite = || band.iter().filter(|b| b.0.is_finite() && b.1.is_finite() && b.2.is_finite());
    let spot = |a: f64, b: f64| format!("{:.1},{:.1}", place(x.at(a), LEFT, WIDTH - RIGHT), place(y.at(b), HEIGHT - BOTTOM, TOP));
    let edge: Vec<String> = finite().map(|b| spot(b.0, b.2)).chain(finite().rev().map(|b| spot(b.0, b.1))).collect();
    if edge.len() > 2 {
        let _ = write!(svg, "<polygon fill=\"{colour}\" fill-opacity=\".15\" points=\"{}\"/>", edge.join(" "));
    }
}

fn draw_bar(svg: &mut String, bar: &Bar, width: f64, x: &Axis, y: &Axis) {
    let [left, right] = [-0.5, 0.5].map(|side| place(x.at(bar.x + side * width), LEFT, WIDTH - RIGHT));
    let [low, high] = [bar.from, bar.to].map(|v| place(y.at(v), HEIGHT - BOTTOM, TOP));
    let colour = bar.colour;
    let _ = write!(
        svg,
        "<rect x=\"{left:.1}\" y=\"{high:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
        right - left,
        (low - high).max(0.0)
    );
}

fn place(part: f64, from: f64, to: f64) -> f64 {
    from + part * (to - from)
}

/// Finite points, and of a long curve the largest of each stretch: a peak must not vanish.
fn thinned(points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
    let stretch = points.len().div_ceil(MOST_POINTS).max(1);
    points
        .chunks(stretch)
        .filter_map(|chunk| chunk.iter().copied().filter(|p| p.0.is_finite() && p.1.is_finite()).max_by(|a, b| a.1.total_cmp(&b.1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_data() {
        let axis = Axis::around([0.013, 0.947].into_iter(), true, 6.0);
        let ticks: Vec<String> = axis.ticks().map(|t| axis.label(t)).collect();
        assert_eq!(ticks, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        let flat = Axis::around([5.0, 5.0].into_iter(), false, 8.0);
        assert!(flat.low <= 5.0 && flat.high >= 5.0 && flat.ticks().count() > 1);
    }

    #[test]
    fn a_peak_survives_thinning_and_a_gap_does_not_break_the_line() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|i| (f64::from(i), 1.0)).collect();
        points[54_321].1 = 9.0;
        points[7].1 = f64::NAN;
        assert!(thinned(&points).any(|p| p.1 == 9.0));
        let plot = Plot { curves: vec![Curve::line("a,\"b\"", points)], ..Plot::default() };
        assert!(!plot.svg().contains("NaN"));
        assert!(plot.csv().lines().nth(1).expect("a point").starts_with("\"a,\"\"b\"\"\",0,1"));
    }

    #[test]
    fn parts_of_a_bar_stand_one_upon_the_other() {
        let curves = vec![Curve::line("a", vec![(1.0, 60.0), (2.0, 30.0)]), Curve::line("b", vec![(1.0, 40.0), (2.0, 70.0)])];
        let plot = Plot { curves, form: Form::Stacked, ..Plot::default() };
        let ends: Vec<(f64, f64, f64)> = plot.bars().iter().map(|b| (b.x, b.from, b.to)).collect();
        assert_eq!(ends, [(1.0, 0.0, 60.0), (2.0, 0.0, 30.0), (1.0, 60.0, 100.0), (2.0, 30.0, 100.0)]);
        assert_eq!(plot.svg().matches("<rect").count(), 4);
        assert!(!plot.svg().contains("<polyline"));
    }

    #[test]
    fn a_band_and_what_cannot_be_are_shaded_and_within_the_axes() {
        let curve = Curve { band: vec![(1.0, 0.5, 3.0), (2.0, 0.5, 1.0)], ..Curve::line("a", vec![(1.0, 1.0), (2.0, 0.7)]) };
        let plot = Plot { curves: vec![curve], floor: vec![(1.0, 0.4), (2.0, 0.3)], ..Plot::default() };
        assert_eq!(plot.svg().matches("<polygon").count(), 2);
        assert!(plot.svg().contains(">3<") || plot.svg().contains(">3.0<"), "the axis reaches the band's most: {}", plot.svg());
        assert!(plot.legend().contains("cannot be"));
    }
}
