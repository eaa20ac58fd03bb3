//! What a run's tracks gave, kept beside its summary: the series themselves are large and are not kept. Computes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::tracks::Tracks;
use super::{Metric, Taken};
use crate::papers::measure::Values;

/// What tracks of one run gave, kept beside its summary by definition: a changed definition asks for another run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Kept {
    series_ms: f64,
    /// JSON has no NaN: null.
    values: BTreeMap<String, Option<f64>>,
}

const FILE: &str = "derived.json";

fn definition(taken: &Taken) -> String {
    toml::to_string(taken).unwrap_or_default()
}

impl Kept {
    /// Takes what `metrics` say from a run's tracks.
    ///
    /// # Errors
    /// A track that does not exist.
    pub fn new(metrics: &BTreeMap<String, Metric>, series_ms: f64, tracks: &Tracks) -> Result<Kept> {
        let mut values = BTreeMap::new();
        for (name, metric) in metrics {
            if let Metric::Taken(taken) = metric {
                let value = taken.of(tracks).with_context(|| format!("metric `{name}`"))?;
                values.insert(definition(taken), value.is_finite().then_some(value));
            }
        }
        Ok(Kept { series_ms, values })
    }

    /// Those of the run in `dir`, if there are any.
    pub fn read(dir: &Path) -> Option<Kept> {
        serde_json::from_slice(&fs::read(dir.join(FILE)).ok()?).ok()
    }

    /// Keeps them in `dir`.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn write(&self, dir: &Path) -> Result<()> {
        Ok(fs::write(dir.join(FILE), serde_json::to_vec(self)?)?)
    }

    /// Whether they are all that `metrics` ask for.
    pub fn serves(&self, metrics: &BTreeMap<String, Metric>, series_ms: f64) -> bool {
        let has = |metric: &Metric| matches!(metric, Metric::Made(..)) || self.value(metric).is_some();
        self.series_ms == series_ms && metrics.values().all(has)
    }

    fn value(&self, metric: &Metric) -> Option<f64> {
        let Metric::Taken(taken) = metric else { return None };
        self.values.get(&definition(taken)).map(|v| v.unwrap_or(f64::NAN))
    }

    /// Adds them to a run's values.
    pub fn add_to(&self, metrics: &BTreeMap<String, Metric>, values: &mut Values) {
        values.whole.extend(metrics.iter().filter_map(|(name, metric)| Some((name.clone(), self.value(metric)?))));
    }
}
