//! What the runs of a suite say: each number of each cell by control, over the seeds. Knows no scenario; prints nothing.

use lowtide_units::statistics;
use serde::{Deserialize, Serialize};

use super::super::bound::Bound;
use super::suite::Form;

/// All numbers of a suite.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Results {
    /// The version of this form.
    pub schema: u32,
    /// Seeds of each cell, from 1 on.
    pub seeds: u64,
    /// Only a part of the cells was run.
    pub quick: bool,
    /// Its rows.
    pub rows: Vec<RowResult>,
}

/// One number of a row: all of its cells with all controls.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RowResult {
    /// The row's name.
    pub row: String,
    /// What it is.
    pub says: String,
    /// The number's name.
    pub value: String,
    /// What it is.
    pub number: String,
    /// Cells, in order.
    pub cells: Vec<CellResult>,
}

/// One cell.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct CellResult {
    /// What distinguishes it.
    pub says: String,
    /// By control.
    pub controls: Vec<ControlResult>,
}

/// One control in one cell.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ControlResult {
    /// Its name.
    pub control: String,
    /// Which bound is its own.
    pub form: Form,
    /// Whether the bound is held against it.
    pub judged: bool,
    /// The bound.
    pub at_least: Option<f64>,
    /// The bound.
    pub at_most: Option<f64>,
    /// By seed; null where a run has no such number.
    pub each: Vec<Option<f64>>,
}

impl ControlResult {
    /// The values, NaN where there is none.
    fn values(&self) -> Vec<f64> {
        self.each.iter().map(|value| value.unwrap_or(f64::NAN)).collect()
    }

    /// Their mean; NaN if any is missing.
    pub fn mean(&self) -> f64 {
        statistics::mean(&self.values())
    }

    /// The least and the most.
    pub fn range(&self) -> (f64, f64) {
        self.values().iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), &v| (least.min(v), most.max(v)))
    }

    /// The bound.
    pub fn bound(&self) -> Bound {
        Bound { at_least: self.at_least, at_most: self.at_most }
    }

    /// How many seeds miss the bound; none if nothing is asked or nobody holds it against it.
    pub fn missed(&self) -> Option<usize> {
        if !self.judged {
            return None;
        }
        let met: Option<Vec<bool>> = self.values().iter().map(|&value| self.bound().met(value)).collect();
        met.map(|met| met.iter().filter(|met| !**met).count())
    }
}

impl RowResult {
    /// Of control `n`: the cell with the worst mean, and that.
    pub fn worst(&self, n: usize) -> Option<(&str, f64)> {
        let means = self.cells.iter().map(|cell| (cell.says.as_str(), cell.controls[n].mean(), cell.controls[n].bound()));
        let worst = means.reduce(|a, b| if a.2.worse(a.1, b.1) == a.1 || b.1.is_nan() { a } else { b })?;
        Some((worst.0, worst.1))
    }

    /// Of control `n`: cells that meet the bound with every seed, and cells; none if nothing is asked of it.
    pub fn met(&self, n: usize) -> Option<(usize, usize)> {
        let missed: Option<Vec<usize>> = self.cells.iter().map(|cell| cell.controls[n].missed()).collect();
        missed.map(|missed| (missed.iter().filter(|seeds| **seeds == 0).count(), missed.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(each: &[f64], judged: bool) -> ControlResult {
        let each = each.iter().map(|&value| Some(value).filter(|v| !v.is_nan())).collect();
        ControlResult { control: "c".into(), form: Form::Sender, judged, at_least: None, at_most: Some(0.03), each }
    }

    fn row(cells: &[&[f64]]) -> RowResult {
        let cells = cells.iter().enumerate().map(|(n, each)| CellResult { says: n.to_string(), controls: vec![control(each, true)] });
        RowResult { row: "r".into(), says: "r".into(), value: "v".into(), number: "v".into(), cells: cells.collect() }
    }

    #[test]
    fn a_bound_is_met_where_every_seed_meets_it_and_a_missing_value_meets_none() {
        assert_eq!(control(&[0.01, 0.02], true).missed(), Some(0));
        assert_eq!(control(&[0.01, 0.04], true).missed(), Some(1));
        assert_eq!(control(&[0.01, f64::NAN], true).missed(), Some(1));
        assert_eq!(control(&[0.5], false).missed(), None);
    }

    #[test]
    fn the_worst_cell_has_the_worst_mean() {
        let row = row(&[&[0.01, 0.01], &[0.02, 0.06], &[0.0, 0.05]]);
        assert_eq!(row.worst(0).map(|worst| worst.0), Some("1"));
        assert_eq!(row.met(0), Some((1, 3)));
    }
}
