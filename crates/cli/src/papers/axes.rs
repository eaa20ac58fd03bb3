//! The axes of an experiment's panels, as its toml writes them. Draws nothing.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::point::{Point, Profile};
use super::rule::compile::VARIANT;

/// The axes of the figure or of one of its panels.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axes {
    /// The panel's caption; the experiment's title if absent.
    pub title: Option<String>,
    /// The sweep on the x axis, `time` for series of the first run, or `after drop` for its tracks over the packets after a
    /// drop; none for a table.
    pub x: Option<String>,
    /// The metric on the y axis (`share.lbe`), or over time a track (`cwnd.lbe`).
    pub y: Vec<String>,
    /// What one on the x axis is.
    #[serde(default = "one")]
    pub x_unit: f64,
    /// What one on the y axis is: 1448 draws a window of bytes in segments.
    #[serde(default = "one")]
    pub unit: f64,
    /// Added to y: a base RTT where the track is a queueing delay.
    #[serde(default)]
    pub offset: f64,
    /// The variant or swept value of the points to draw, or a list of them; all if absent.
    #[serde(default)]
    pub only: BTreeMap<String, toml::Value>,
    /// The columns to draw; all if absent.
    #[serde(default)]
    pub columns: Option<Vec<Profile>>,
    /// The companions to draw; none if absent.
    #[serde(default)]
    pub companions: Vec<String>,
    /// The sweep on the y axis of a heat map, whose colour is then `y`.
    pub rows: Option<String>,
    /// What a heat map's palest and darkest cells stand for; the least and the most of its own cells if absent.
    pub range: Option<(f64, f64)>,
    /// What metrics and flows are called in the legend.
    #[serde(default)]
    pub names: BTreeMap<String, String>,
    /// A metric below which no curve can come: what is under it is shaded.
    pub floor: Option<String>,
    /// The metrics are parts of one whole: bars, each upon the one before.
    #[serde(default)]
    pub stacked: bool,
    /// Labels with units.
    pub x_label: String,
    /// Label with units.
    pub y_label: String,
}

fn one() -> f64 {
    1.0
}

/// `[plot]`, or one `[[plot]]` a panel.
pub fn one_or_several<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Axes>, D::Error> {
    let axes = |value: toml::Value| Axes::deserialize(value).map_err(D::Error::custom);
    match toml::Value::deserialize(from)? {
        toml::Value::Array(panels) => panels.into_iter().map(axes).collect(),
        one => Ok(vec![axes(one)?]),
    }
}

impl Axes {
    /// Whether a curve is one run's course: over time, or over the packets after a drop.
    pub fn over_time(&self) -> bool {
        self.x.as_deref() == Some("time") || self.after_drops()
    }

    /// Whether x counts the packets after a drop.
    pub fn after_drops(&self) -> bool {
        self.x.as_deref() == Some("after drop")
    }

    /// Whether `point` is drawn.
    pub fn shows(&self, point: &Point) -> bool {
        let fits = |had: &toml::Value, wish: &toml::Value| wish == had || wish.as_array().is_some_and(|any| any.contains(had));
        let placed = |(name, wish): (&String, &toml::Value)| point.at.iter().any(|(k, v)| k == name && fits(v, wish));
        match (&point.companion, point.profile) {
            (Some(name), _) => self.companions.contains(name) && self.only.iter().filter(|(k, _)| *k != VARIANT).all(placed),
            (None, profile) => {
                self.columns.as_ref().is_none_or(|c| profile.is_some_and(|p| c.contains(&p))) && self.only.iter().all(placed)
            }
        }
    }
}
