//! What a number of a suite must reach. Knows no suite.

use serde::{Deserialize, Serialize};

/// A bound, on either side or on both.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// The least.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// The most.
    #[serde(default)]
    pub at_most: Option<f64>,
}

impl Bound {
    /// Whether `value` is what it must be; none where nothing is asked.
    pub fn met(&self, value: f64) -> Option<bool> {
        let asked = self.at_least.is_some() || self.at_most.is_some();
        asked.then(|| self.at_least.is_none_or(|least| value >= least) && self.at_most.is_none_or(|most| value <= most))
    }

    /// The worse of two values: by the bound, or without one the larger.
    pub fn worse(&self, a: f64, b: f64) -> f64 {
        if self.at_least.is_some() { a.min(b) } else { a.max(b) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_met_on_its_own_side_and_no_bound_is_no_verdict() {
        let bound = |at_least, at_most| Bound { at_least, at_most };
        assert_eq!(bound(None, None).met(1.0), None);
        assert_eq!(bound(Some(0.9), None).met(0.9), Some(true));
        assert_eq!(bound(Some(0.9), Some(1.0)).met(1.1), Some(false));
        assert_eq!(bound(None, Some(0.05)).met(0.06), Some(false));
        assert_eq!(bound(None, Some(0.05)).met(f64::NAN), Some(false), "what is missing meets nothing");
    }
}
