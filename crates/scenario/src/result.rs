//! A result: `summary.json`, a stable interface (schema 1), and the helpers that fill it. A field is never renamed or given
//! another unit; new ones may be added.

use std::fs;
use std::io;
use std::path::Path;

use lowtide_units::statistics;
use serde::{Deserialize, Serialize};

/// The version of `summary.json` that this code writes.
pub const SCHEMA: u32 = 1;

/// What came of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The scenario's name.
    pub scenario: String,
    /// Who ran it: `sim` or `lab`.
    pub host: String,
    /// The seed it ran with.
    pub seed: u64,
    /// Seconds of the scenario.
    pub duration_s: f64,
    /// Seconds it took; zero where results must be byte-identical.
    pub wall_s: f64,
    /// Events of the simulated network, those too that would have changed nothing and were left out.
    pub events: u64,
    /// The bottlenecks, forward direction first.
    pub bottlenecks: Vec<Bottleneck>,
    /// The flows in the scenario's order.
    pub flows: Vec<FlowResult>,
    /// Jain's index of the goodputs of flows that are not datagram flows, each over its own life.
    pub jain: f64,
    /// The same over windows of a second, averaged.
    pub jain_short: f64,
    /// How late the laboratory's link was; absent in the simulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_ms: Option<Lateness>,
}

/// One direction of a bottleneck.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// `forward`, `reverse` or the link's name.
    pub name: String,
    /// Its nominal rate.
    pub capacity_bps: f64,
    /// Frames sent over it against its capacity.
    pub utilisation: f64,
    /// Packets that came to its queue, the dropped ones too; zero where nobody counted.
    #[serde(default)]
    pub arrivals: u64,
    /// Packets dropped by its queue.
    pub drops: u64,
    /// Packets marked CE by its queue.
    pub marks: u64,
    /// Time from entering the queue to leaving it, per packet.
    pub queue_delay_ms: Delays,
    /// The queue's length over time.
    pub queue_bytes: Lengths,
}

/// A delay distribution in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Delays {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// A queue's length in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lengths {
    /// Mean over time.
    pub mean: f64,
    /// Largest.
    pub max: f64,
    /// Mean over the packets that came, each seeing what waited before it; zero where nobody counted.
    #[serde(default)]
    pub at_arrival: f64,
}

/// One flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowResult {
    /// Its name.
    pub name: String,
    /// The group it is counted with.
    pub group: String,
    /// Its congestion control.
    pub cc: String,
    /// When it started.
    pub start_s: f64,
    /// When it stopped.
    pub stop_s: f64,
    /// Payload delivered per second of its life.
    pub goodput_bps: f64,
    /// That against the bottleneck's capacity.
    pub share: f64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Packets of it that were lost or dropped on the way.
    pub losses: u64,
    /// Round-trip times it saw.
    pub rtt_ms: Rtts,
    /// For finite transfers that began after the warm-up: from the first SYN to the last byte acknowledged, the mean of those that finished.
    pub completion_s: Option<f64>,
    /// Finite transfers that began after the warm-up, finished or not; absent of other flows and in results from before they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfers: Option<Transfers>,
    /// For datagram flows: mean difference of successive delays (RFC 3550).
    pub jitter_ms: Option<f64>,
}

/// Finite transfers and how long they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Transfers {
    /// Those that were complete at the end.
    pub finished: u64,
    /// Those that were not: no time below counts them, so that with many of them all are too low.
    pub unfinished: u64,
    /// Completion times of the finished ones in seconds; null of none.
    pub times_s: Option<Times>,
}

/// Times in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Mean.
    pub mean: f64,
    /// Sample standard deviation; null of one.
    pub sd: Option<f64>,
    /// Median, by nearest rank as the others.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

impl Transfers {
    /// The transfers that took `times` seconds, and `unfinished` more.
    pub fn new(times: &[f64], unfinished: u64) -> Transfers {
        let sd = Some(statistics::deviation(times)).filter(|sd| sd.is_finite());
        let at = |q| statistics::quantile(times, q);
        let times_s = Times { mean: statistics::mean(times), sd, p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1.0) };
        Transfers { finished: times.len() as u64, unfinished, times_s: (!times.is_empty()).then_some(times_s) }
    }

    /// Their mean completion time.
    pub fn mean_s(&self) -> Option<f64> {
        self.times_s.map(|times| times.mean)
    }
}

/// Round-trip times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rtts {
    /// Smallest.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    #[serde(default)]
    pub max: f64,
}

/// How much later than planned the laboratory's link released packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
    /// How late a thread of ordinary priority was served, 99th percentile; zero in results from before it was measured.
    #[serde(default)]
    pub programs_p99: f64,
    /// The same, largest.
    #[serde(default)]
    pub programs_max: f64,
    /// The host stalled the link or starved the programs: the run says nothing and should be repeated.
    pub stalled: bool,
}

impl Summary {
    /// Reads `DIR/summary.json`.
    ///
    /// # Errors
    /// A file that is missing, is no summary, or has a newer schema.
    pub fn read(dir: &Path) -> io::Result<Summary> {
        let path = dir.join("summary.json");
        let bad = |what: String| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()));
        let summary: Summary = serde_json::from_slice(&fs::read(&path)?).map_err(|e| bad(e.to_string()))?;
        if summary.schema > SCHEMA {
            return Err(bad(format!("schema {} is newer than {SCHEMA}; update lowtide", summary.schema)));
        }
        Ok(summary)
    }

    /// Writes `DIR/summary.json`, whole or not at all.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)?;
        let part = dir.join("summary.json.part");
        fs::write(&part, serde_json::to_vec_pretty(self).map_err(io::Error::other)?)?;
        fs::rename(part, dir.join("summary.json"))
    }
}

/// Jain's fairness index (Σx)² / (n Σx²); 1 for none and for all zero.
pub fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    if squares == 0.0 { 1.0 } else { sum * sum / (rates.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_is_one_when_equal_and_one_over_n_when_not() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain(&[4.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain(&[]), 1.0);
    }

    /// The names are an interface.
    #[test]
    fn field_names_are_those_of_the_design() {
        let summary = Summary { flows: vec![FlowResult::default()], bottlenecks: vec![Bottleneck::default()], ..Summary::default() };
        let json = serde_json::to_value(&summary).expect("serialisable");
        for pointer in [
            "/schema",
            "/scenario",
            "/host",
            "/seed",
            "/duration_s",
            "/wall_s",
            "/events",
            "/jain",
            "/jain_short",
            "/bottlenecks/0/name",
            "/bottlenecks/0/capacity_bps",
            "/bottlenecks/0/utilisation",
            "/bottlenecks/0/arrivals",
            "/bottlenecks/0/drops",
            "/bottlenecks/0/marks",
            "/bottlenecks/0/queue_delay_ms/p99",
            "/bottlenecks/0/queue_bytes/max",
            "/bottlenecks/0/queue_bytes/at_arrival",
            "/flows/0/name",
            "/flows/0/group",
            "/flows/0/cc",
            "/flows/0/start_s",
            "/flows/0/stop_s",
            "/flows/0/goodput_bps",
            "/flows/0/share",
            "/flows/0/retransmits",
            "/flows/0/losses",
            "/flows/0/rtt_ms/p95",
            "/flows/0/rtt_ms/max",
            "/flows/0/completion_s",
            "/flows/0/jitter_ms",
        ] {
            assert!(json.pointer(pointer).is_some(), "{pointer} is missing");
        }
    }

    /// docs/result.md names every field there is: an interface that is not written down is none.
    #[test]
    fn every_field_is_documented() {
        let doc = include_str!("../../../docs/result.md");
        let lateness_ms = Some(Lateness::default());
        let transfers = Some(Transfers::new(&[1.0, 2.0], 3));
        let summary = Summary {
            flows: vec![FlowResult { transfers, ..FlowResult::default() }],
            bottlenecks: vec![Bottleneck::default()],
            lateness_ms,
            ..Summary::default()
        };
        let mut names = Vec::new();
        keys(&serde_json::to_value(&summary).expect("serialisable"), &mut names);
        assert!(names.len() > 40, "{names:?}");
        for name in names.iter().map(String::as_str).chain(crate::series::columns()) {
            assert!(doc.contains(&format!("`{name}`")), "docs/result.md does not name `{name}`");
        }
    }

    fn keys(value: &serde_json::Value, names: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(map) => map.iter().for_each(|(key, value)| {
                names.push(key.clone());
                keys(value, names);
            }),
            serde_json::Value::Array(items) => items.iter().for_each(|item| keys(item, names)),
            _ => {}
        }
    }

    #[test]
    fn a_summary_is_written_whole_and_a_newer_schema_refused() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut summary = Summary { schema: SCHEMA, scenario: "x".to_owned(), ..Summary::default() };
        summary.write(dir.path()).expect("writable");
        assert_eq!(Summary::read(dir.path()).expect("readable"), summary);
        summary.schema = SCHEMA + 1;
        summary.write(dir.path()).expect("writable");
        assert!(Summary::read(dir.path()).expect_err("newer").to_string().contains("newer"));
    }
}
