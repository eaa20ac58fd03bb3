//! A run's records as the time series of a result's folder. Reads no clock and starts nothing.

use lowtide_scenario::{FlowPoint, QueuePoint, Series};
use lowtide_units::Time;

use crate::measure::carried;
use crate::outcome::{Outcome, Trace};
use crate::path::Seen;

/// Everything that was seen over time, in order of time.
pub fn of(outcome: &Outcome) -> Series {
    let mut flows: Vec<FlowPoint> = outcome.traces.iter().flat_map(|trace| points(trace, outcome.zero)).collect();
    let mut queues: Vec<QueuePoint> = [("forward", &outcome.link.forward), ("reverse", &outcome.link.reverse)]
        .into_iter()
        .flat_map(|(name, seen)| lengths(name, seen, outcome.zero))
        .collect();
    flows.sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
    queues.sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
    Series { flows, queues }
}

fn seconds(at: Time, zero: Time) -> f64 {
    at.since(zero).secs_f64()
}

/// A call's points are its packets; those of curl are its server's samples; iperf3's are its report's intervals.
fn points(trace: &Trace, zero: Time) -> Vec<FlowPoint> {
    let name = || trace.job.name.clone();
    if let Some(echoes) = &trace.echoes {
        let point = |e: &crate::probe::Echo| FlowPoint { rtt_ms: e.rtt().millis_f64(), ..FlowPoint::at(seconds(e.sent, zero), name()) };
        return echoes.echoes.iter().map(point).collect();
    }
    if let Some(report) = &trace.said.iperf {
        let intervals = report["intervals"].as_array().into_iter().flatten();
        let value = |i: &serde_json::Value, key: &str| i["sum"][key].as_f64().unwrap_or(f64::NAN);
        let point =
            |i| FlowPoint { goodput_bps: value(i, "bits_per_second"), ..FlowPoint::at(trace.job.runs.start + value(i, "end"), name()) };
        return intervals.map(point).collect();
    }
    let pairs = trace.samples.windows(2).filter(|pair| pair[0].at >= zero && pair[1].stats.open > 0);
    let point = |pair: &[crate::outcome::Sample]| {
        let now = pair[1].stats;
        let carried = carried(trace, &pair[1]).saturating_sub(carried(trace, &pair[0]));
        let point = FlowPoint {
            goodput_bps: carried as f64 * 8.0 / pair[1].at.since(pair[0].at).secs_f64(),
            ..FlowPoint::at(seconds(pair[1].at, zero), name())
        };
        // The server knows no window and no RTT of what it receives.
        if trace.job.is_seen_from_receiver() {
            return point;
        }
        FlowPoint { cwnd_bytes: now.cwnd as f64, rwnd_bytes: now.peer_window as f64, rtt_ms: f64::from(now.srtt_us) / 1e3, ..point }
    };
    pairs.map(point).collect()
}

/// The longest queue and the longest wait of each tenth of a second.
fn lengths(name: &'static str, seen: &Seen, zero: Time) -> Vec<QueuePoint> {
    let bins = seen.bins.iter().filter(|bin| bin.start >= zero);
    let point = |bin: &crate::path::Bin| QueuePoint {
        time_s: seconds(bin.start, zero),
        bottleneck: name.into(),
        queue_bytes: bin.queue_bytes as f64,
        queue_packets: bin.queue_packets as f64,
        queue_delay_ms: bin.queue_delay.millis_f64(),
        drops: f64::NAN,
    };
    bins.map(point).collect()
}
