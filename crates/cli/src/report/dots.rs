//! Values of named rows as inline SVG, a mark each, and their data as CSV. Knows nothing of pages or results.

use std::fmt::Write as _;

use super::escape::{escape, quoted};
use super::plot::{Axis, COLOURS, Stroke};

/// Named rows, one below the other, with a mark for each series.
#[derive(Clone, Debug, Default)]
pub struct Dots {
    /// Its caption: what, with which parameters and seeds.
    pub title: String,
    /// The x axis, with its unit.
    pub x_label: String,
    /// What stands in front of each row.
    pub rows: Vec<String>,
    /// What is marked.
    pub series: Vec<Series>,
}

/// One kind of mark.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Which of the page's colours it has.
    pub colour: usize,
    /// A disc for a line, a ring for a dashed one, a square for a dotted one.
    pub stroke: Stroke,
    /// Row; value; least and most of the runs.
    pub points: Vec<(usize, f64, f64, f64)>,
}

const WIDTH: f64 = 720.0;
/// Where the rows' names end.
const LEFT: f64 = 260.0;
const RIGHT: f64 = 24.0;
const ROW: f64 = 30.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 64.0;

impl Dots {
    /// The drawing as an SVG element that scales with the page.
    pub fn svg(&self) -> String {
        let values = self.series.iter().flat_map(|s| s.points.iter().flat_map(|p| [p.1, p.2, p.3]));
        let axis = Axis::around(values, true, 6.0);
        // A drawing of one row would be a line on a phone.
        let bottom = TOP + ROW * self.rows.len().max(2) as f64;
        let at = |value: f64| LEFT + axis.at(value) * (WIDTH - LEFT - RIGHT);
        let height = bottom + BOTTOM;
        let mut svg = format!("<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">", escape(&self.title));
        for (n, row) in self.rows.iter().enumerate() {
            let middle = TOP + ROW * (n as f64 + 0.5);
            let _ = write!(
                svg,
                "<path d=\"M{LEFT} {middle}H{}\" stroke=\"currentColor\" stroke-opacity=\".12\"/>\
                 <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                middle + 6.0,
                escape(row)
            );
        }
        for tick in axis.ticks() {
            let x = at(tick);
            let _ = write!(
                svg,
                "<path d=\"M{x:.1} {TOP}V{}\" stroke=\"currentColor\" stroke-opacity=\".15\"/>\
                 <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 5.0,
                bottom + 26.0,
                axis.label(tick)
            );
        }
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            bottom + 54.0,
            escape(&self.x_label)
        );
        for series in &self.series {
            for (row, value, least, most) in series.points.iter().filter(|p| p.1.is_finite()) {
                let y = TOP + ROW * (*row as f64 + 0.5);
                let colour = series.colour();
                let _ = write!(svg, "<path d=\"M{:.1} {y}H{:.1}\" stroke=\"{colour}\" stroke-width=\"2\"/>", at(*least), at(*most));
                svg += &mark(series.stroke, colour, at(*value), y);
            }
        }
        svg.push_str("</svg>");
        svg
    }

    /// What each mark is, as an HTML list.
    pub fn legend(&self) -> String {
        let item = |s: &Series| {
            let mark = mark(s.stroke, s.colour(), 14.0, 6.0);
            format!("<li><svg class=\"key\" viewBox=\"0 0 28 12\" aria-hidden=\"true\">{mark}</svg>{}</li>", escape(&s.name))
        };
        format!("<ul class=\"legend\">{}</ul>", self.series.iter().map(item).collect::<String>())
    }

    /// The data: one line a mark.
    pub fn csv(&self) -> String {
        let mut csv = format!("series,row,{},least,most\n", quoted(&self.x_label));
        for series in &self.series {
            for (row, value, least, most) in &series.points {
                let name = self.rows.get(*row).map_or("", String::as_str);
                let _ = writeln!(csv, "{},{},{value},{least},{most}", quoted(&series.name), quoted(name));
            }
        }
        csv
    }
}

impl Series {
    fn colour(&self) -> &'static str {
        COLOURS[self.colour % COLOURS.len()]
    }
}

/// A ring is wider than a disc, so that neither hides the other where they agree.
fn mark(stroke: Stroke, colour: &str, x: f64, y: f64) -> String {
    match stroke {
        Stroke::Line => format!("<circle cx=\"{x:.1}\" cy=\"{y}\" r=\"3.5\" fill=\"{colour}\"/>"),
        Stroke::Dashed | Stroke::Rings | Stroke::Squares => {
            format!("<circle cx=\"{x:.1}\" cy=\"{y}\" r=\"5.5\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>")
        }
        Stroke::Dotted => format!("<rect x=\"{:.1}\" y=\"{}\" width=\"8\" height=\"8\" fill=\"{colour}\"/>", x - 4.0, y - 4.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_mark_its_spread_and_its_line_of_data() {
        let series = |name: &str, stroke, points| Series { name: name.to_owned(), colour: 0, stroke, points };
        let dots = Dots {
            title: "a<b".to_owned(),
            x_label: "Mbit/s".to_owned(),
            rows: vec!["FIFO".to_owned(), "\"PIE\"".to_owned()],
            series: vec![
                series("as described", Stroke::Line, vec![(0, 1.0, 0.5, 1.5), (1, f64::NAN, 0.0, 0.0)]),
                series("as run", Stroke::Dashed, vec![(1, 2.0, 2.0, 2.0)]),
            ],
        };
        let svg = dots.svg();
        assert_eq!(svg.matches("<circle").count(), 2, "{svg}");
        assert!(svg.contains("a&lt;b") && svg.contains("&quot;PIE&quot;") && !svg.contains("NaN"), "{svg}");
        assert_eq!(dots.legend().matches("<li>").count(), 2);
        assert_eq!(dots.csv().lines().collect::<Vec<_>>()[3], "\"as run\",\"\"\"PIE\"\"\",2,2,2");
        assert!(Dots::default().svg().starts_with("<svg"), "none are drawn too");
    }
}
