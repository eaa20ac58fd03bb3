//! The tracks that a run's series hold, by quantity and flow. Knows neither paper nor simulator.

use std::collections::BTreeMap;

use lowtide_scenario::result::jain;
use lowtide_scenario::{FlowPoint, Series};

use super::track::Track;

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
    found.into_iter().map(|(name, points)| (name.to_owned(), Track::new(points))).collect()
}

/// Jain's index over time of what each flow carried since it first carried something, over the flows that have.
fn fairness(rates: &BTreeMap<String, Track>) -> Track {
    let times = rates.values().next().map_or(&[][..], Track::points);
    let mut carried: Vec<(f64, f64)> = vec![(f64::NAN, 0.0); rates.len()];
    let mut points = Vec::new();
    for (n, &(t, _)) in times.iter().enumerate() {
        for ((since, sum), rate) in carried.iter_mut().zip(rates.values()) {
            let value = rate.points().get(n).map_or(0.0, |p| p.1);
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
    Track::new(points)
}
