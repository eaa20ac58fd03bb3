//! Turns the results of a point's runs into the values that claims and plots name: per metric a map by flow and by group,
//! averaged over the repetitions. Knows results only.

use std::collections::BTreeMap;

use lowtide_scenario::result::{Summary, jain};
use lowtide_units::statistics;

use super::experiment::{Experiment, Point};

/// Metric → flow or group → value, averaged over the runs of one point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    /// Per metric a value per flow name and per group.
    pub by_flow: BTreeMap<&'static str, BTreeMap<String, f64>>,
    /// Values of the whole run.
    pub whole: BTreeMap<String, f64>,
}

impl Values {
    /// The mean over the runs `each`; a value that some run lacks (an unfinished transfer) is left out for all.
    pub fn mean(each: &[Values]) -> Values {
        let Some(first) = each.first() else { return Values::default() };
        let by_flow = first.by_flow.iter().map(|(metric, flows)| {
            let mean = |name: &String| mean_of(each.iter().map(|v| v.by_flow.get(metric).and_then(|m| m.get(name)).copied()));
            (*metric, flows.keys().filter_map(|name| Some((name.clone(), mean(name)?))).collect())
        });
        let whole =
            first.whole.keys().filter_map(|metric| Some((metric.clone(), mean_of(each.iter().map(|v| v.whole.get(metric).copied()))?)));
        Values { by_flow: by_flow.collect(), whole: whole.collect() }
    }

    /// The value of `share.lbe` or `jain`.
    pub fn named(&self, name: &str) -> Option<f64> {
        match name.split_once('.') {
            Some((metric, flow)) => self.by_flow.get(metric)?.get(flow).copied(),
            None => self.whole.get(name).copied(),
        }
    }

    /// The point as claims see it, with what the paper prints for it.
    pub fn to_map(&self, experiment: &Experiment, point: &Point) -> rhai::Map {
        let mut map = rhai::Map::new();
        let reported = experiment
            .reported
            .keys()
            .filter_map(|m| Some((m.as_str().into(), rhai::Dynamic::from_float(experiment.reported_at(m, point)?))));
        map.insert("reported".into(), rhai::Dynamic::from_map(reported.collect()));
        for (name, value) in &point.at {
            let dynamic = match value {
                toml::Value::String(s) => rhai::Dynamic::from(s.clone()),
                toml::Value::Integer(i) => rhai::Dynamic::from_float(*i as f64),
                toml::Value::Float(f) => rhai::Dynamic::from_float(*f),
                other => rhai::Dynamic::from(other.to_string()),
            };
            map.insert(name.as_str().into(), dynamic);
        }
        for (metric, flows) in &self.by_flow {
            let values: rhai::Map = flows.iter().map(|(name, v)| (name.as_str().into(), rhai::Dynamic::from_float(*v))).collect();
            map.insert((*metric).into(), rhai::Dynamic::from_map(values));
        }
        map.extend(self.whole.iter().map(|(metric, v)| (metric.as_str().into(), rhai::Dynamic::from_float(*v))));
        map
    }
}

fn mean_of(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let all = values.collect::<Option<Vec<f64>>>()?;
    (!all.is_empty()).then(|| statistics::mean(&all))
}

/// What one run measured.
pub fn of_run(run: &Summary) -> Values {
    let mut values = Values::default();
    let total: f64 = run.flows.iter().map(|f| f.goodput_bps).sum();
    let capacity = run.bottlenecks.first().map_or(f64::NAN, |b| b.capacity_bps);
    let groups: BTreeMap<String, Vec<_>> = run.flows.iter().fold(BTreeMap::new(), |mut groups, flow| {
        groups.entry(flow.name.clone()).or_insert_with(Vec::new).push(flow);
        if flow.group != flow.name {
            groups.entry(flow.group.clone()).or_insert_with(Vec::new).push(flow);
        }
        groups
    });
    for (name, flows) in groups {
        let sum = |value: fn(&lowtide_scenario::result::FlowResult) -> f64| flows.iter().map(|f| value(f)).sum::<f64>();
        let goodput = sum(|f| f.goodput_bps);
        let mut put = |metric, value| {
            values.by_flow.entry(metric).or_default().insert(name.clone(), value);
        };
        put("goodput", goodput / 1e6);
        put("share", sum(|f| f.share));
        put("frac", goodput / total);
        put("fairness", jain(&flows.iter().map(|f| f.goodput_bps).collect::<Vec<_>>()));
        put("retransmits", sum(|f| f.retransmits as f64));
        if let Some(times) = flows.iter().map(|f| f.completion_s).collect::<Option<Vec<f64>>>() {
            put("fct", statistics::mean(&times));
        }
    }
    let mut put = |metric: &str, value| values.whole.insert(metric.to_owned(), value);
    put("jain", run.jain);
    put("jain_short", run.jain_short);
    put("flows", run.flows.iter().filter(|f| f.jitter_ms.is_none()).count() as f64);
    put("util", total / capacity);
    if let Some(bottleneck) = run.bottlenecks.first() {
        put("utilisation", bottleneck.utilisation);
        put("qd_mean", bottleneck.queue_delay_ms.mean);
        put("qd_p95", bottleneck.queue_delay_ms.p95);
        put("drops", bottleneck.drops as f64);
        put("arrivals", bottleneck.arrivals as f64);
        put("loss", bottleneck.drops as f64 / (bottleneck.arrivals as f64).max(1.0));
        put("at_arrival", bottleneck.queue_bytes.at_arrival);
    }
    values
}
