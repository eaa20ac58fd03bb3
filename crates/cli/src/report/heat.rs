//! Heat maps as inline SVG, and their data as CSV. Knows nothing of pages or results.

use std::fmt::Write as _;

use super::escape::{escape, quoted};

/// A value over two parameters.
#[derive(Clone, Debug, Default)]
pub struct HeatMap {
    /// Its caption: what, with which parameters and seeds.
    pub title: String,
    /// The parameter from left to right, with its unit.
    pub x_label: String,
    /// The parameter from bottom to top, with its unit.
    pub y_label: String,
    /// Its cells: x, y, value; a cell that was not run is absent.
    pub cells: Vec<(f64, f64, f64)>,
    /// What the palest and the darkest stand for; the least and the most of the cells if absent.
    pub range: Option<(f64, f64)>,
}

const WIDTH: f64 = 720.0;
const LEFT: f64 = 72.0;
const BOTTOM: f64 = 48.0;
const MOST_ROW: f64 = 44.0;
const MAP_HEIGHT: f64 = 360.0;
/// Above so many columns the numbers no longer fit into their cells.
const LABELLED: usize = 14;

impl HeatMap {
    /// The map as an SVG element that scales with the page. Darker is more; in every cell stands its value, where it fits.
    pub fn svg(&self) -> String {
        let (xs, ys) = (distinct(self.cells.iter().map(|c| c.0)), distinct(self.cells.iter().map(|c| c.1)));
        let values = || self.cells.iter().map(|c| c.2).filter(|v| v.is_finite());
        let own = || (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
        let (low, high) = self.range.unwrap_or_else(own);
        let row = (MAP_HEIGHT / ys.len().max(1) as f64).min(MOST_ROW);
        let column = (WIDTH - LEFT - 8.0) / xs.len().max(1) as f64;
        let bottom = row * ys.len() as f64 + 8.0;
        let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">", bottom + BOTTOM, escape(&self.title));
        for (x, y, value) in self.cells.iter().filter(|c| c.2.is_finite()) {
            let left = LEFT + column * index(&xs, *x) as f64;
            let top = bottom - row * (index(&ys, *y) + 1) as f64;
            let part = if high > low { (value - low) / (high - low) } else { 0.5 };
            let (fill, ink) = colour(part);
            let _ = write!(
                svg,
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{column:.2}\" height=\"{row:.2}\" fill=\"{fill}\"><title>{x}, {y}: {value}</title></rect>"
            );
            if xs.len() <= LABELLED && row > 14.0 {
                let (middle, base) = (left + column / 2.0, top + row / 2.0 + 4.0);
                let _ = write!(
                    svg,
                    "<text x=\"{middle:.1}\" y=\"{base:.1}\" text-anchor=\"middle\" style=\"fill:{ink}\">{}</text>",
                    short(*value)
                );
            }
        }
        self.axes(&mut svg, (&xs, column), (&ys, row), bottom);
        svg.push_str("</svg>");
        svg
    }

    /// The data: one line a cell.
    pub fn csv(&self) -> String {
        let mut csv = format!("{},{},{}\n", quoted(&self.x_label), quoted(&self.y_label), quoted(&self.title));
        for (x, y, value) in &self.cells {
            let _ = writeln!(csv, "{x},{y},{value}");
        }
        csv
    }

    fn axes(&self, svg: &mut String, (xs, column): (&[f64], f64), (ys, row): (&[f64], f64), bottom: f64) {
        let every = xs.len().div_ceil(LABELLED).max(1);
        for (i, x) in xs.iter().enumerate().filter(|(i, _)| i % every == 0) {
            let middle = LEFT + column * (i as f64 + 0.5);
            let _ = write!(svg, "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{x}</text>", bottom + 16.0);
        }
        let every = (ys.len() as f64 * 14.0 / (row * ys.len() as f64).max(1.0)).ceil().max(1.0) as usize;
        for (i, y) in ys.iter().enumerate().filter(|(i, _)| i % every == 0) {
            let base = bottom - row * (i as f64 + 0.5) + 4.0;
            let _ = write!(svg, "<text x=\"{:.1}\" y=\"{base:.1}\" text-anchor=\"end\">{y}</text>", LEFT - 6.0);
        }
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text><text transform=\"translate(14 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (LEFT + WIDTH) / 2.0,
            bottom + 38.0,
            escape(&self.x_label),
            bottom / 2.0,
            escape(&self.y_label)
        );
    }
}

fn distinct(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

fn index(values: &[f64], value: f64) -> usize {
    values.iter().position(|v| *v == value).unwrap_or(0)
}

/// One hue from pale to deep (it survives a black-and-white printer), and the ink that is legible on it.
fn colour(part: f64) -> (String, &'static str) {
    let mix = |from: f64, to: f64| (from + (to - from) * part.clamp(0.0, 1.0)).round() as u8;
    (format!("#{:02x}{:02x}{:02x}", mix(236.0, 8.0), mix(244.0, 48.0), mix(252.0, 107.0)), if part > 0.5 { "#fff" } else { "#1b1f24" })
}

/// Three significant digits.
pub fn short(value: f64) -> String {
    let digits = if value == 0.0 { 0.0 } else { 2.0 - value.abs().log10().floor() };
    format!("{value:.*}", digits.clamp(0.0, 4.0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_that_was_run_is_drawn_with_its_value() {
        let cells = vec![(10.0, 1.0, 0.25), (20.0, 1.0, 0.5), (10.0, 2.0, f64::NAN), (20.0, 2.0, 0.975)];
        let map = HeatMap { title: "a<b".to_owned(), cells, ..HeatMap::default() };
        let svg = map.svg();
        assert_eq!(svg.matches("<rect").count(), 3);
        assert!(svg.contains(">0.975<") && svg.contains("a&lt;b") && !svg.contains("NaN"), "{svg}");
        assert_eq!(map.csv().lines().count(), 5);
        assert!(HeatMap::default().svg().starts_with("<svg"), "an empty map is drawn too");
    }
}
