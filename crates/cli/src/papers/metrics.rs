//! The named metrics of an experiment, as its `[metrics]` writes them: `within = { of = "wait.voip", from = 10, to = 50, take = {
//! part_at_most = 60 } }` takes a number from a track of a run, `eta = "util * 1500 / 1448"` makes one of others. docs/papers.md lists
//! tracks and what can be taken. Knows neither paper nor simulator.

pub mod after;
pub mod kept;
pub mod made;
pub mod slowdowns;
pub mod track;
pub mod tracks;

use anyhow::{Result, anyhow, bail};
use serde::{Deserialize, Serialize};

use super::rule::{Expr, parse, stats};
use slowdowns::Slowdowns;
use track::Track;
use tracks::Tracks;

/// How a metric comes about.
#[derive(Clone, Debug)]
pub enum Metric {
    /// Arithmetic with other metrics of the same run.
    Made(Expr),
    /// From a track.
    Taken(Box<Taken>),
}

/// One number from a track.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taken {
    /// The track: `wait.voip`.
    pub of: String,
    /// Another whose values are added to it.
    #[serde(default)]
    pub plus: Option<String>,
    /// Seconds, or when something first happens; the run's start if absent.
    #[serde(default)]
    pub from: Option<Moment>,
    /// Seconds; the run's end if absent.
    #[serde(default)]
    pub to: Option<f64>,
    /// What of it.
    pub take: Take,
    /// What one is, in units of the track: 1448 counts bytes in segments.
    #[serde(default)]
    pub unit: Option<f64>,
}

/// A time of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Moment {
    /// Seconds after its start.
    At(f64),
    /// When a track first is at least so much.
    First(First),
}

/// When a track first is at least so much.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct First {
    first: String,
    at_least: f64,
}

/// What is taken from a track.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Take {
    Mean,
    Sum,
    /// The standard deviation from the track's own mean.
    Sd,
    /// The standard deviation in parts of the mean.
    Cv,
    Min,
    Max,
    /// The time of the first point.
    FirstTime,
    /// Where the most of it is.
    PeakAt,
    /// The smallest value that this part of the values does not exceed.
    Quantile(f64),
    /// The part of the values that do not exceed this.
    PartAtMost(f64),
    /// The root of the mean square distance from this.
    RmsFrom(f64),
    /// The value at a time.
    At(Moment),
    /// The value where another track has its most.
    AtPeakOf(String),
    /// The first time at which it is at least this.
    FirstAtLeast(f64),
    /// The first time at which it is at most this.
    FirstAtMost(f64),
    /// The last time at which it is above this.
    LastAbove(f64),
    /// The sum of its products with another track.
    Dot(String),
    /// How often it falls below `below` after it was above `from` within the last `within_s`.
    Dips {
        below: f64,
        from: f64,
        within_s: f64,
    },
    /// Stretches of zeros longer than `over_s`: how many, the middle length, the longest (0 if there is none).
    Pauses {
        over_s: f64,
        what: Pause,
    },
    /// The mean of the values after which it falls to less than `to_part` of itself, without the first `skip`.
    Peaks {
        to_part: f64,
        skip: usize,
    },
    /// What happens after slow-downs of a window.
    Slowdowns(Slowdowns),
}

/// What of pauses.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pause {
    Count,
    Median,
    Longest,
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Metric, D::Error> {
        use serde::de::Error as _;
        match toml::Value::deserialize(from)? {
            toml::Value::String(text) => parse::expression(&text).map(Metric::Made).map_err(D::Error::custom),
            other => Taken::deserialize(other).map(|t| Metric::Taken(Box::new(t))).map_err(D::Error::custom),
        }
    }
}

impl Metric {
    /// The tracks that it reads.
    pub fn reads(&self) -> Vec<&str> {
        let Metric::Taken(taken) = self else { return Vec::new() };
        let mut names = vec![taken.of.as_str()];
        names.extend(taken.plus.as_deref());
        if let Some(Moment::First(first)) = &taken.from {
            names.push(&first.first);
        }
        match &taken.take {
            Take::At(Moment::First(first)) => names.push(&first.first),
            Take::AtPeakOf(other) | Take::Dot(other) => names.push(other),
            Take::Slowdowns(slowdowns) => names.extend(slowdowns.queue()),
            _ => {}
        }
        names
    }
}

/// A track by its name; one without points where the run has no such flow.
fn find(tracks: &Tracks, name: &str) -> Result<Track> {
    let (quantity, flow) = name.split_once('.').ok_or_else(|| anyhow!("`{name}` is no track: `QUANTITY.FLOW`"))?;
    let Some(flows) = tracks.get(quantity) else {
        bail!("no track `{quantity}`; there are {}", tracks.keys().copied().collect::<Vec<_>>().join(", "));
    };
    Ok(flows.get(flow).cloned().unwrap_or_default())
}

impl Moment {
    fn time(&self, tracks: &Tracks) -> Result<f64> {
        Ok(match self {
            Moment::At(s) => *s,
            Moment::First(first) => first_at_least(&find(tracks, &first.first)?, first.at_least),
        })
    }
}

fn first_at_least(track: &Track, x: f64) -> f64 {
    track.points().iter().find(|p| p.1 >= x).map_or(f64::NAN, |p| p.0)
}

impl Taken {
    /// The number; not one where the run does not have it (a level never reached, a flow that is not there).
    ///
    /// # Errors
    /// A track that does not exist.
    pub fn of(&self, tracks: &Tracks) -> Result<f64> {
        let mut track = find(tracks, &self.of)?;
        if let Some(other) = &self.plus {
            track = track.plus(&find(tracks, other)?);
        }
        let from = self.from.as_ref().map_or(Ok(f64::NEG_INFINITY), |moment| moment.time(tracks))?;
        let within = track.between(from, self.to.unwrap_or(f64::INFINITY));
        Ok(self.take.of(&within, tracks)? / self.unit.unwrap_or(1.0))
    }
}

impl Take {
    fn of(&self, track: &Track, tracks: &Tracks) -> Result<f64> {
        let values = || track.values().collect::<Vec<f64>>();
        Ok(match self {
            Take::Dips { below, from, within_s } => dips(track, *below, *from, *within_s),
            Take::Pauses { over_s, what } => pause(track, *over_s, *what),
            Take::Slowdowns(what) => what.of(track, what.queue().map(|name| find(tracks, name)).transpose()?.as_ref()),
            Take::Sum => track.values().sum(),
            _ if track.points().is_empty() => f64::NAN,
            Take::Mean => track.mean(),
            Take::Sd => stats::sd(&values()),
            Take::Cv => stats::sd(&values()) / track.mean(),
            Take::Min => stats::smallest(&values()),
            Take::Max => stats::largest(&values()),
            Take::FirstTime => track.points()[0].0,
            Take::PeakAt => track.peak_at(),
            Take::Quantile(q) => track.quantile(*q),
            Take::PartAtMost(x) => track.at_most(*x),
            Take::RmsFrom(x) => track.rms_from(*x),
            Take::At(moment) => track.at(moment.time(tracks)?),
            Take::AtPeakOf(other) => track.at(find(tracks, other)?.peak_at()),
            Take::FirstAtLeast(x) => first_at_least(track, *x),
            Take::FirstAtMost(x) => track.points().iter().find(|p| p.1 <= *x).map_or(f64::NAN, |p| p.0),
            Take::LastAbove(x) => track.points().iter().rev().find(|p| p.1 > *x).map_or(f64::NAN, |p| p.0),
            Take::Dot(other) => track.dot(&find(tracks, other)?),
            Take::Peaks { to_part, skip } => stats::mean(&track.peaks(*to_part).values().skip(*skip).collect::<Vec<_>>()),
        })
    }
}

fn dips(track: &Track, below: f64, from: f64, within_s: f64) -> f64 {
    let was_high = |low: &&f64| track.between(**low - within_s, **low).values().any(|v| v > from);
    track.falls_below(below).iter().filter(was_high).count() as f64
}

fn pause(track: &Track, over_s: f64, what: Pause) -> f64 {
    let lengths: Vec<f64> = track.pauses(over_s).values().collect();
    match what {
        Pause::Count => lengths.len() as f64,
        Pause::Median => stats::median(&lengths),
        Pause::Longest => lengths.iter().copied().fold(0.0, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use lowtide_scenario::result::jain;
    use lowtide_scenario::{FlowPoint, Series};

    use super::kept::Kept;
    use super::made::make;
    use super::*;
    use crate::papers::measure::Values;

    fn series() -> Series {
        let flow = |i: u32, name: &'static str| FlowPoint {
            cwnd_bytes: f64::from(i * i),
            wait_ms: if i == 2 { f64::NAN } else { 1.0 },
            goodput_bps: match (name, i) {
                ("a", 1..) => 3e6,
                ("b", 2..) => 4e6,
                _ => 0.0,
            },
            ..FlowPoint::at(f64::from(i), name)
        };
        Series { flows: (0..5).flat_map(|i| [flow(i, "a"), flow(i, "b")]).collect(), queues: Vec::new() }
    }

    fn metrics(text: &str) -> BTreeMap<String, Metric> {
        toml::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn value(text: &str) -> Result<f64> {
        let metrics = metrics(&format!("x = {text}"));
        let mut values = Values::default();
        values.whole.insert("util".to_owned(), 0.5);
        Kept::new(&metrics, 100.0, &tracks::tracks(&series()))?.add_to(&metrics, &mut values);
        make(&metrics, &mut values)?;
        Ok(values.whole["x"])
    }

    #[test]
    fn a_number_is_taken_from_a_track_as_written() {
        for (text, expected) in [
            ("{ of = \"cwnd.a\", from = 1, to = 3, take = \"mean\" }", 14.0 / 3.0),
            ("{ of = \"cwnd.a\", take = \"max\", unit = 2 }", 8.0),
            ("{ of = \"cwnd.a\", take = { first_at_least = 4 } }", 2.0),
            ("{ of = \"cwnd.a\", take = { last_above = 4 } }", 4.0),
            ("{ of = \"cwnd.a\", from = 1, take = { first_at_most = 1 } }", 1.0),
            ("{ of = \"cwnd.a\", take = { at = 2.5 } }", 4.0),
            ("{ of = \"cwnd.a\", take = { quantile = 0.5 } }", 4.0),
            ("{ of = \"cwnd.a\", take = { part_at_most = 4 } }", 0.6),
            ("{ of = \"cwnd.a\", to = 1, take = \"sd\" }", 0.5),
            ("{ of = \"cwnd.a\", to = 1, take = \"cv\" }", 1.0),
            ("{ of = \"cwnd.a\", to = 1, take = { rms_from = 2 } }", 2.5f64.sqrt()),
            ("{ of = \"cwnd.a\", plus = \"cwnd.b\", take = \"max\" }", 32.0),
            ("{ of = \"cwnd.a\", from = { first = \"cwnd.b\", at_least = 4 }, take = \"min\" }", 4.0),
            ("{ of = \"cwnd.a\", take = { at = { first = \"rate.b\", at_least = 4 } } }", 4.0),
            ("{ of = \"mean.b\", take = { at = 4 } }", 3.0),
            ("{ of = \"fairness.all\", take = { at = 4 } }", jain(&[12.0 / 4.0, 12.0 / 3.0])),
            ("{ of = \"wait.a\", take = \"sum\" }", 4.0),
            ("{ of = \"wait.c\", take = \"sum\" }", 0.0),
            ("{ of = \"cwnd.a\", take = \"peak_at\" }", 4.0),
            ("{ of = \"cwnd.a\", take = \"first_time\" }", 0.0),
            ("{ of = \"rate.a\", take = { dot = \"cwnd.b\" } }", 3.0 * 30.0),
            ("{ of = \"rate.a\", take = { at_peak_of = \"cwnd.b\" } }", 3.0),
            ("{ of = \"rate.a\", take = { pauses = { over_s = 1, what = \"longest\" } } }", 0.0),
        ] {
            let got = value(text).expect(text);
            assert!((got - expected).abs() < 1e-12, "{text}: {got}");
        }
    }

    #[test]
    fn dips_count_falls_from_above() {
        let track = Track::new([20.0, 40.0, 5.0, 20.0, 5.0, 40.0, 20.0, 5.0].iter().enumerate().map(|(n, v)| (n as f64, *v)).collect());
        assert_eq!(dips(&track, 12.0, 30.0, 1.0), 1.0);
        assert_eq!(dips(&track, 12.0, 30.0, 2.0), 2.0);
    }

    #[test]
    fn metrics_are_made_of_others_in_whichever_order() {
        let metrics = metrics("a = \"b * 2 + goodput(f)\"\nb = \"util - 0.25\"");
        let mut values = Values::default();
        values.whole.insert("util".to_owned(), 0.5);
        values.by_flow.entry("goodput").or_default().insert("f".to_owned(), 3.0);
        make(&metrics, &mut values).expect("made");
        assert_eq!((values.whole["a"], values.whole["b"]), (3.5, 0.25));
        let ring = toml::from_str("a = \"b + 1\"\nb = \"a + 1\"").expect("well-formed");
        assert!(make(&ring, &mut Values::default()).expect_err("a ring").to_string().contains("made of itself"));
    }

    #[test]
    fn what_never_happens_is_nan_and_what_is_unknown_an_error() {
        assert!(value("{ of = \"cwnd.a\", take = { first_at_least = 99 } }").expect("computable").is_nan());
        assert!(value("{ of = \"cwnd.c\", take = \"mean\" }").expect("a flow that is not there").is_nan());
        assert!(
            value("{ of = \"cwnt.a\", take = \"mean\" }")
                .expect_err("no track")
                .root_cause()
                .to_string()
                .contains("there are computed, cwnd")
        );
        for refused in
            ["{ of = \"cwnd.a\", take = \"maen\" }", "{ of = \"cwnd.a\", take = \"mean\", form = 3 }", "\"1 +\"", "\"mean(a over b)\""]
        {
            assert!(toml::from_str::<BTreeMap<String, Metric>>(&format!("x = {refused}")).is_err() || value(refused).is_err(), "{refused}");
        }
    }
}
