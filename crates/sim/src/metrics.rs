//! What is reported of a run: the summary, and series sampled at even intervals. Looks at the world, changes nothing in it.

use lowtide_scenario::result::{Delays, Lengths, Rtts, jain};
use lowtide_scenario::{Bottleneck, FlowResult};
use lowtide_units::{Span, Time};

use crate::flow::Flow;
use crate::histogram::Histogram;
use crate::link::{Link, Stage};
use crate::traffic::Row;
use crate::world::Observer;

/// One flow at one sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowPoint {
    /// Payload delivered since the last sample, per second.
    pub goodput_bps: f64,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Slow-start threshold in bytes, zero if unset.
    pub ssthresh: u64,
    /// Smoothed RTT.
    pub srtt_ms: f64,
    /// The algorithm's state.
    pub phase: &'static str,
}

/// One bottleneck at one sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueuePoint {
    /// Bytes waiting.
    pub bytes: u64,
    /// Packets waiting.
    pub packets: u64,
}

/// Series of all rows and bottlenecks; point `n` is at `(n + 1) × interval`.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Between two points.
    pub interval: Span,
    /// By row, then by time.
    pub flows: Vec<Vec<FlowPoint>>,
    /// By bottleneck, then by time.
    pub queues: Vec<Vec<QueuePoint>>,
}

/// The window of the short-term fairness index.
const SHORT: Span = Span::from_secs(1);

/// Samples the world.
pub struct Sampler<'a> {
    rows: &'a [Row],
    bottlenecks: &'a [(String, u16)],
    series: Series,
    keep: bool,
    delivered: Vec<u64>,
    /// Bytes of each row when the running short window began, and the indices so far.
    window: Vec<u64>,
    measure_from: Time,
    indices: (f64, u32),
}

impl<'a> Sampler<'a> {
    /// A sampler of `rows` and `bottlenecks`; `keep` the series.
    pub fn new(rows: &'a [Row], bottlenecks: &'a [(String, u16)], interval: Span, measure_from: Time, keep: bool) -> Sampler<'a> {
        Sampler {
            rows,
            bottlenecks,
            series: Series { interval, flows: vec![Vec::new(); rows.len()], queues: vec![Vec::new(); bottlenecks.len()] },
            keep,
            delivered: vec![0; rows.len()],
            window: vec![0; rows.len()],
            measure_from,
            indices: (0.0, 0),
        }
    }

    /// The series, and the mean of the short-term indices (1 if there were none).
    pub fn finish(self) -> (Series, f64) {
        (self.series, if self.indices.1 == 0 { 1.0 } else { self.indices.0 / f64::from(self.indices.1) })
    }

    fn close_window(&mut self, now: Time, totals: &[u64], streams: &[bool]) {
        let begun = now - SHORT;
        let rates: Vec<f64> = (0..self.rows.len())
            .filter(|&row| streams[row] && self.rows[row].start <= begun && self.rows[row].stop >= now)
            .map(|row| (totals[row] - self.window[row]) as f64)
            .collect();
        self.window.copy_from_slice(totals);
        if rates.len() > 1 && begun >= self.measure_from {
            self.indices.0 += jain(&rates);
            self.indices.1 += 1;
        }
    }
}

impl Observer for Sampler<'_> {
    fn sample(&mut self, now: Time, flows: &[Flow], stages: &[Stage]) {
        let mut totals = vec![0; self.rows.len()];
        let mut streams = vec![false; self.rows.len()];
        let mut points = vec![FlowPoint::default(); self.rows.len()];
        for flow in flows {
            let row = flow.spec.result;
            totals[row] += flow.delivered();
            streams[row] = !flow.is_datagrams();
            if let Some(sender) = flow.sender.as_ref().filter(|_| self.keep) {
                let shown = sender.snapshot();
                let point = &mut points[row];
                (point.cwnd, point.ssthresh, point.phase) = (shown.cwnd, shown.ssthresh.unwrap_or(0), shown.phase);
                point.srtt_ms = sender.srtt().millis_f64();
            }
        }
        if self.keep {
            for (row, mut point) in points.into_iter().enumerate() {
                point.goodput_bps = (totals[row] - self.delivered[row]) as f64 * 8.0 / self.series.interval.secs_f64();
                self.series.flows[row].push(point);
            }
            for (n, (_, stage)) in self.bottlenecks.iter().enumerate() {
                let link = stages[usize::from(*stage)].link.as_ref();
                let point = link.map(|link| QueuePoint { bytes: link.bytes(), packets: link.packets() as u64 });
                self.series.queues[n].push(point.unwrap_or_default());
            }
        }
        self.delivered.copy_from_slice(&totals);
        if now.nanos().is_multiple_of(SHORT.nanos()) {
            self.close_window(now, &totals, &streams);
        }
    }
}

/// One bottleneck over the measured `span`.
pub fn bottleneck(name: &str, link: &Link, span: Span) -> Bottleneck {
    let capacity = link.rate().bps() as f64;
    let delay = &link.stats.delay;
    Bottleneck {
        name: name.to_owned(),
        capacity_bps: capacity,
        utilisation: link.stats.sent as f64 * 8.0 / (capacity * span.secs_f64()),
        drops: link.stats.drops,
        marks: link.marks(),
        queue_delay_ms: Delays {
            mean: delay.mean().millis_f64(),
            p50: delay.quantile(0.5).millis_f64(),
            p95: delay.quantile(0.95).millis_f64(),
            p99: delay.quantile(0.99).millis_f64(),
            max: delay.max().millis_f64(),
        },
        queue_bytes: Lengths { mean: link.stats.mean_bytes(), max: link.stats.max_bytes as f64 },
    }
}

/// Row `row` of the result from all `flows` that are counted in it; `capacity` in bit/s.
pub fn flow_result(row: usize, info: &Row, group: &str, flows: &[Flow], measured: (Time, Time), capacity: f64) -> FlowResult {
    let mine = || flows.iter().filter(move |flow| flow.spec.result == row);
    let single = mine().count() == 1;
    let mut rtt = Histogram::default();
    mine().for_each(|flow| rtt.merge(&flow.stats.rtt));
    let completions: Vec<f64> =
        mine().filter_map(|flow| flow.stats.completed.map(|at| at.since(flow.spec.start).secs_f64())).collect();
    let bytes: u64 = mine().map(|flow| flow.delivered() - flow.stats.delivered_before).sum();
    // A transfer's life ends with it; rows of many transfers live until they stop.
    let stop = mine().filter_map(|flow| flow.stats.completed).max().filter(|_| single).unwrap_or(info.stop);
    let life = stop.min(measured.1).since(info.start.max(measured.0)).secs_f64();
    let goodput = if life > 0.0 { bytes as f64 * 8.0 / life } else { 0.0 };
    FlowResult {
        name: info.name.clone(),
        group: group.to_owned(),
        cc: mine().next().map(|flow| flow.spec.cc.clone()).unwrap_or_default(),
        start_s: info.start.secs_f64(),
        stop_s: stop.secs_f64(),
        goodput_bps: goodput,
        share: goodput / capacity,
        retransmits: mine().map(|flow| flow.sender_stats().retransmits).sum(),
        losses: mine().map(|flow| flow.stats.drops).sum(),
        rtt_ms: Rtts {
            min: rtt.min().millis_f64(),
            mean: rtt.mean().millis_f64(),
            p50: rtt.quantile(0.5).millis_f64(),
            p95: rtt.quantile(0.95).millis_f64(),
            p99: rtt.quantile(0.99).millis_f64(),
        },
        completion_s: (!completions.is_empty()).then(|| completions.iter().sum::<f64>() / completions.len() as f64),
        jitter_ms: mine().next().filter(|flow| flow.is_datagrams()).map(|flow| flow.stats.jitter / 1e6),
    }
}
