//! Turns the result of a run into the values that claims and plots name. docs/papers.md says what each is. Knows results only.

use std::collections::BTreeMap;

use lowtide_scenario::result::{Summary, jain};
use lowtide_units::statistics;

/// The metrics of a flow or of a group of flows.
pub const BY_FLOW: [&str; 6] = ["goodput", "share", "frac", "fairness", "retransmits", "fct"];
/// The metrics of a whole run.
pub const WHOLE: [&str; 11] =
    ["jain", "jain_short", "flows", "util", "utilisation", "qd_mean", "qd_p95", "drops", "arrivals", "loss", "at_arrival"];

/// What one run measured: metric → flow or group → value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    /// Per metric a value per flow name and per group.
    pub by_flow: BTreeMap<&'static str, BTreeMap<String, f64>>,
    /// Values of the whole run.
    pub whole: BTreeMap<String, f64>,
}

impl Values {
    /// The value of `share.lbe` or `jain`.
    pub fn named(&self, name: &str) -> Option<f64> {
        match name.split_once('.') {
            Some((metric, flow)) => self.by_flow.get(metric)?.get(flow).copied(),
            None => self.whole.get(name).copied(),
        }
    }
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
            debug_assert!(BY_FLOW.contains(&metric), "{metric} is not among those that rules may name");
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
    let mut put = |metric: &str, value| {
        debug_assert!(WHOLE.contains(&metric), "{metric} is not among those that rules may name");
        values.whole.insert(metric.to_owned(), value)
    };
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
