//! What an experiment derives from a run: expressions over its values and its series. Knows neither paper nor simulator.
//!
//! An expression sees `run`: the values that claims see, and per quantity a map of tracks by flow (`run.cwnd.bulk`, bytes;
//! `computed`, the same once for every acknowledgement; `flight`, what both ends permit; `rate` and its mean since time zero
//! `mean`, Mbit/s; `received`, bytes; `rtt`, `queueing`, `wait`, ms), by bottleneck (`run.queue.forward`, ms; `dropped`, packets), and Jain's index of
//! what all flows carried so far (`run.fairness.all`). A track knows `between(a, b)` in seconds, `mean()`, `sum()`, `sd()`, `min()`,
//! `max()`, `rms_from(x)`, `first_at_least(x)`, `first_at_most(x)`, `last_above(x)`, `at(t)`, `plus(track)`, `quantile(q)`,
//! `at_most(x)`, the part of the points that is, and `falls_below(x)`, the times at which it does;
//! `count()`, `peak_at()`, `dot(track)`; `whole(unit)`, its values in whole units; `once_at(x)`, without the points that repeat x;
//! `pauses(s)`, the stretches of zeros longer than that, by their ends; and `peaks(part)`, the points after which the value falls below that part of itself. `after.rs` has tracks of drops and of what follows them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Result, anyhow};
use lowtide_scenario::result::jain;
use lowtide_scenario::{FlowPoint, Series};
use rhai::{Dynamic, Engine, Scope};
use serde::{Deserialize, Serialize};

use super::experiment::Experiment;

/// Values over time, without the times at which nothing is known.
#[derive(Clone, Debug, Default)]
pub struct Track(Rc<Vec<(f64, f64)>>);

/// A flow's quantity at one point.
pub type Quantity = fn(&FlowPoint) -> f64;

/// What a flow's points hold, by the names that experiments use.
pub const QUANTITIES: [(&str, Quantity); 7] = [
    ("cwnd", |p| p.cwnd_bytes),
    ("computed", |p| if p.acks > 0.0 { p.cwnd_bytes } else { f64::NAN }),
    ("rate", |p| p.goodput_bps / 1e6),
    ("rtt", |p| p.rtt_ms),
    ("queueing", |p| p.queueing_ms),
    ("wait", |p| p.wait_ms),
    ("flight", |p| p.cwnd_bytes.min(p.rwnd_bytes)),
];

/// Tracks by quantity, then by flow or bottleneck.
pub type Tracks = BTreeMap<&'static str, BTreeMap<String, Track>>;

/// What the series of a run hold.
pub fn tracks(series: &Series) -> Tracks {
    let mut all = Tracks::new();
    for (quantity, value) in QUANTITIES {
        let points = series.flows.iter().map(|p| (&*p.flow, p.time_s, value(p)));
        all.insert(quantity, by_name(points));
    }
    let means: BTreeMap<String, Track> = all["rate"].iter().map(|(name, rate)| (name.clone(), rate.running())).collect();
    all.insert("fairness", BTreeMap::from([("all".to_owned(), fairness(&all["rate"]))]));
    all.insert("mean", means);
    all.insert("received", all["rate"].iter().map(|(name, rate)| (name.clone(), rate.received())).collect());
    all.insert("queue", by_name(series.queues.iter().map(|p| (&*p.bottleneck, p.time_s, p.queue_delay_ms))));
    all.insert("dropped", by_name(series.queues.iter().map(|p| (&*p.bottleneck, p.time_s, p.drops))));
    all
}

fn by_name<'a>(points: impl Iterator<Item = (&'a str, f64, f64)>) -> BTreeMap<String, Track> {
    let mut found: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for (name, time, value) in points {
        let track = found.entry(name).or_default();
        if value.is_finite() {
            track.push((time, value));
        }
    }
    found.into_iter().map(|(name, points)| (name.to_owned(), Track(Rc::new(points)))).collect()
}

impl Track {
    /// A track of `points`, in order.
    pub fn new(points: Vec<(f64, f64)>) -> Track {
        Track(Rc::new(points))
    }

    /// Its points in order of time.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.0
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.0.iter().map(|p| p.1)
    }

    fn between(&self, from: f64, to: f64) -> Track {
        Track(Rc::new(self.0.iter().copied().filter(|p| p.0 >= from && p.0 <= to).collect()))
    }

    fn mean(&self) -> f64 {
        self.values().sum::<f64>() / self.0.len() as f64
    }

    /// Its integral since time zero; each value holds for the interval that ends at it.
    fn integral(&self) -> Track {
        let (mut sum, mut last) = (0.0, 0.0);
        let add = |&(t, v): &(f64, f64)| {
            sum += v * (t - last);
            last = t;
            (t, sum)
        };
        Track(Rc::new(self.0.iter().map(add).collect()))
    }

    /// The mean since time zero, which some programs show as throughput.
    fn running(&self) -> Track {
        Track(Rc::new(self.integral().0.iter().filter(|p| p.0 > 0.0).map(|p| (p.0, p.1 / p.0)).collect()))
    }

    /// Bytes so far, of a rate in Mbit/s.
    fn received(&self) -> Track {
        Track(Rc::new(self.integral().0.iter().map(|p| (p.0, p.1 * 1e6 / 8.0)).collect()))
    }

    /// Where the most of it is.
    fn peak_at(&self) -> f64 {
        self.0.iter().copied().reduce(|most, p| if p.1 > most.1 { p } else { most }).map_or(f64::NAN, |p| p.0)
    }

    /// The sum of its products with `other` where both have a value.
    fn dot(&self, other: &Track) -> f64 {
        let at = |t: f64| other.0.binary_search_by(|p| p.0.total_cmp(&t)).ok().map(|i| other.0[i].1);
        self.0.iter().filter_map(|&(t, v)| Some(v * at(t)?)).sum()
    }

    /// Where it was zero for longer than `least`, and for how long. The track counts from its first value above zero.
    fn pauses(&self, least: f64) -> Track {
        let busy: Vec<f64> = self.0.iter().filter(|p| p.1 > 0.0).map(|p| p.0).collect();
        let interval = self.0.windows(2).map(|w| w[1].0 - w[0].0).fold(f64::INFINITY, f64::min);
        // The interval that ends at a point is the one it speaks of.
        let pauses = busy.windows(2).map(|w| (w[1] - interval, w[1] - interval - w[0]));
        Track(Rc::new(pauses.filter(|p| p.1 > least).collect()))
    }

    /// Without the points that repeat `x`: a trace that is written when its variable changes says nothing while it stays at its bound.
    fn once_at(&self, x: f64) -> Track {
        let mut points = self.0.as_ref().clone();
        points.dedup_by(|p, before| p.1 == x && before.1 == x);
        Track::new(points)
    }

    fn peaks(&self, part: f64) -> Track {
        Track(Rc::new(self.0.windows(2).filter(|w| w[1].1 < part * w[0].1).map(|w| w[0]).collect()))
    }

    fn whole(&self, unit: f64) -> Track {
        Track::new(self.0.iter().map(|&(at, value)| (at, (value / unit).floor())).collect())
    }

    fn rms_from(&self, x: f64) -> f64 {
        (self.values().map(|v| (v - x) * (v - x)).sum::<f64>() / self.0.len() as f64).sqrt()
    }

    fn plus(&self, other: &Track) -> Track {
        let at = |t: f64| other.0.binary_search_by(|p| p.0.total_cmp(&t)).ok().map(|i| other.0[i].1);
        Track(Rc::new(self.0.iter().filter_map(|&(t, v)| Some((t, v + at(t)?))).collect()))
    }

    fn quantile(&self, q: f64) -> f64 {
        let mut values: Vec<f64> = self.values().collect();
        values.sort_by(f64::total_cmp);
        let nth = (q * values.len() as f64).ceil() as usize;
        values.get(nth.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }

    fn at_most(&self, x: f64) -> f64 {
        self.values().filter(|v| *v <= x).count() as f64 / self.0.len() as f64
    }

    fn falls_below(&self, x: f64) -> Vec<f64> {
        self.0.windows(2).filter(|pair| pair[0].1 >= x && pair[1].1 < x).map(|pair| pair[1].0).collect()
    }

    fn at(&self, time: f64) -> f64 {
        self.0.iter().take_while(|p| p.0 <= time).last().map_or(f64::NAN, |p| p.1)
    }
}

/// Jain's index over time of what each flow carried since it first carried something, over the flows that have.
fn fairness(rates: &BTreeMap<String, Track>) -> Track {
    let times = rates.values().next().map_or(&[][..], Track::points);
    let mut carried: Vec<(f64, f64)> = vec![(f64::NAN, 0.0); rates.len()];
    let mut points = Vec::new();
    for (n, &(t, _)) in times.iter().enumerate() {
        for ((since, sum), rate) in carried.iter_mut().zip(rates.values()) {
            let value = rate.0.get(n).map_or(0.0, |p| p.1);
            if since.is_nan() && value > 0.0 {
                *since = if n == 0 { 0.0 } else { times[n - 1].0 };
            }
            *sum += value;
        }
        let started: Vec<f64> = carried.iter().filter(|(since, _)| !since.is_nan()).map(|(since, sum)| sum / (t - since)).collect();
        if !started.is_empty() {
            points.push((t, jain(&started)));
        }
    }
    Track(Rc::new(points))
}

/// Evaluates `expressions` (by name) over one run. A number that the run does not have (a level never reached) is NaN.
///
fn derive(expressions: &BTreeMap<String, String>, mut run: rhai::Map, tracks: Tracks) -> Result<BTreeMap<String, f64>> {
    for (quantity, flows) in tracks {
        let flows: rhai::Map = flows.into_iter().map(|(name, track)| (name.into(), Dynamic::from(track))).collect();
        run.insert(quantity.into(), Dynamic::from_map(flows));
    }
    let engine = engine();
    let mut scope = Scope::new();
    scope.push_constant("run", run);
    let value = |(name, expression): (&String, &String)| {
        let value = engine.eval_with_scope::<Dynamic>(&mut scope, expression);
        let number = value.map_err(|e| anyhow!("`{name} = {expression}` cannot be computed: {e}"))?;
        let number = number.as_float().or_else(|_| number.as_int().map(|i| i as f64));
        Ok((name.clone(), number.map_err(|kind| anyhow!("`{name} = {expression}` is no number but a {kind}"))?))
    };
    expressions.iter().map(value).collect()
}

/// Derived values of one run, kept beside its summary by expression: a changed expression asks for another run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Derived {
    series_ms: f64,
    /// JSON has no NaN: null.
    values: BTreeMap<String, Option<f64>>,
}

const FILE: &str = "derived.json";

impl Derived {
    /// Computes what `experiment` derives from a run.
    ///
    /// # Errors
    /// An expression that cannot be computed.
    pub fn new(experiment: &Experiment, run: rhai::Map, tracks: Tracks) -> Result<Derived> {
        let values = derive(&experiment.derive, run, tracks)?;
        let values = values.into_iter().map(|(name, v)| (experiment.derive[&name].clone(), v.is_finite().then_some(v)));
        Ok(Derived { series_ms: experiment.series_ms, values: values.collect() })
    }

    /// Those of the run in `dir`, if there are any.
    pub fn read(dir: &Path) -> Option<Derived> {
        serde_json::from_slice(&fs::read(dir.join(FILE)).ok()?).ok()
    }

    /// Keeps them in `dir`.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn write(&self, dir: &Path) -> Result<()> {
        Ok(fs::write(dir.join(FILE), serde_json::to_vec(self)?)?)
    }

    /// Whether they are all that `experiment` asks for.
    pub fn serves(&self, experiment: &Experiment) -> bool {
        self.series_ms == experiment.series_ms && experiment.derive.values().all(|e| self.values.contains_key(e))
    }

    /// By name.
    pub fn values(&self, experiment: &Experiment) -> BTreeMap<String, f64> {
        let value = |expression| self.values.get(expression).copied().flatten().unwrap_or(f64::NAN);
        experiment.derive.iter().map(|(name, expression)| (name.clone(), value(expression))).collect()
    }
}

fn engine() -> Engine {
    let mut engine = Engine::new();
    engine.set_max_expr_depths(128, 128);
    engine.register_type_with_name::<Track>("Track");
    engine.register_fn("between", |t: &mut Track, from: f64, to: f64| t.between(from, to));
    engine.register_fn("mean", |t: &mut Track| t.mean());
    engine.register_fn("sum", |t: &mut Track| t.values().sum::<f64>());
    engine.register_fn("sd", |t: &mut Track| t.rms_from(t.mean()));
    engine.register_fn("min", |t: &mut Track| t.values().fold(f64::NAN, f64::min));
    engine.register_fn("max", |t: &mut Track| t.values().fold(f64::NAN, f64::max));
    engine.register_fn("rms_from", |t: &mut Track, x: f64| t.rms_from(x));
    engine.register_fn("first_at_least", |t: &mut Track, x: f64| t.0.iter().find(|p| p.1 >= x).map_or(f64::NAN, |p| p.0));
    engine.register_fn("first_at_most", |t: &mut Track, x: f64| t.0.iter().find(|p| p.1 <= x).map_or(f64::NAN, |p| p.0));
    engine.register_fn("last_above", |t: &mut Track, x: f64| t.0.iter().rev().find(|p| p.1 > x).map_or(f64::NAN, |p| p.0));
    engine.register_fn("quantile", |t: &mut Track, q: f64| t.quantile(q));
    engine.register_fn("at_most", |t: &mut Track, x: f64| t.at_most(x));
    engine.register_fn("falls_below", |t: &mut Track, x: f64| t.falls_below(x).into_iter().map(Dynamic::from).collect::<rhai::Array>());
    engine.register_fn("at", |t: &mut Track, time: f64| t.at(time));
    engine.register_fn("count", |t: &mut Track| t.0.len() as f64);
    engine.register_fn("whole", |t: &mut Track, unit: f64| t.whole(unit));
    engine.register_fn("peak_at", |t: &mut Track| t.peak_at());
    engine.register_fn("dot", |t: &mut Track, other: Track| t.dot(&other));
    engine.register_fn("pauses", |t: &mut Track, least: f64| t.pauses(least));
    engine.register_fn("once_at", |t: &mut Track, x: f64| t.once_at(x));
    engine.register_fn("peaks", |t: &mut Track, part: f64| t.peaks(part));
    engine.register_fn("plus", |t: &mut Track, other: Track| t.plus(&other));
    engine
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn value(expression: &str) -> Result<f64> {
        let run = rhai::Map::from([("util".into(), Dynamic::from_float(0.5))]);
        let expressions = BTreeMap::from([("x".to_owned(), expression.to_owned())]);
        derive(&expressions, run, tracks(&series())).map(|all| all["x"])
    }

    #[test]
    fn expressions_read_tracks_and_values() {
        for (expression, expected) in [
            ("run.cwnd.a.between(1.0, 3.0).mean()", 14.0 / 3.0),
            ("run.cwnd.a.max() * run.util", 8.0),
            ("run.cwnd.a.first_at_least(4.0)", 2.0),
            ("run.cwnd.a.between(1.0, 9.0).first_at_most(1.0)", 1.0),
            ("run.cwnd.a.last_above(4.0)", 4.0),
            ("run.cwnd.a.at(2.5)", 4.0),
            ("run.cwnd.a.quantile(0.5)", 4.0),
            ("run.cwnd.a.at_most(4.0)", 0.6),
            ("run.cwnd.a.falls_below(9.0).len()", 0.0),
            ("run.cwnd.a.between(0.0, 1.0).sd()", 0.5),
            ("run.cwnd.a.between(0.0, 1.0).rms_from(2.0)", (2.5f64).sqrt()),
            ("run.cwnd.a.plus(run.cwnd.b).max()", 32.0),
            ("run.mean.b.at(4.0)", 3.0),
            ("run.fairness.all.at(1.0)", 1.0),
            ("run.fairness.all.at(4.0)", jain(&[12.0 / 4.0, 12.0 / 3.0])),
            ("run.wait.a.plus(run.cwnd.b).mean()", (0.0 + 1.0 + 9.0 + 16.0) / 4.0 + 1.0),
            ("run.cwnd.a.peaks(0.5).count()", 0.0),
            ("run.received.b.at(9.0)", 1.5e6),
            ("run.cwnd.a.peak_at()", 4.0),
            ("run.rate.a.dot(run.cwnd.b)", 3.0 * (1.0 + 4.0 + 9.0 + 16.0)),
        ] {
            let got = value(expression).expect(expression);
            assert!((got - expected).abs() < 1e-12, "{expression}: {got}");
        }
    }

    #[test]
    fn pauses_and_peaks() {
        let track = Track::new(vec![(0.0, 0.0), (1.0, 8.0), (2.0, 0.0), (3.0, 0.0), (4.0, 4.0), (5.0, 3.0)]);
        assert_eq!(track.pauses(1.5).points(), [(3.0, 2.0)]);
        assert_eq!(track.pauses(2.0).points(), []);
        assert_eq!(track.peaks(0.7).points(), [(1.0, 8.0)]);
        assert_eq!(track.once_at(0.0).points(), [(0.0, 0.0), (1.0, 8.0), (2.0, 0.0), (4.0, 4.0), (5.0, 3.0)]);
        assert_eq!(track.once_at(8.0).points(), track.points());
    }

    #[test]
    fn what_never_happens_is_nan_and_what_is_unknown_an_error() {
        assert!(value("run.cwnd.a.first_at_least(99.0)").expect("computable").is_nan());
        assert!(value("run.cwnd.c.mean()").is_err());
        assert!(value("run.cwnd.a.mean() > 1.0").is_err());
    }
}
