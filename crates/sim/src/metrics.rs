//! What is reported of a run: the summary, and series sampled at even intervals. Looks at the world, changes nothing in it.

use std::borrow::Cow;

use lowtide_cc::Snapshot;
use lowtide_scenario::result::{Delays, Lengths, Rtts, Transfers, jain};
use lowtide_scenario::{Bottleneck, FlowPoint, FlowResult, QueuePoint, Series};
use lowtide_units::histogram::Histogram;
use lowtide_units::{Rate, Span, Time};

use crate::flow::Flow;
use crate::link::Link;
use crate::stage::Stage;
use crate::traffic::Row;
use crate::world::Observer;

/// One flow at one sample, small: names are added when the run is over.
#[derive(Clone, Copy, Debug)]
struct FlowSample {
    delivered: u64,
    waited: (Span, u64),
    acks: u64,
    shown: Option<(Snapshot, Option<u64>)>,
    rtt: Option<Span>,
}

/// What was sampled, by row or bottleneck, then by time; point `n` is at `(n + 1) × interval`.
#[derive(Clone, Debug, Default)]
struct Samples {
    interval: Span,
    flows: Vec<Vec<FlowSample>>,
    queues: Vec<Vec<(u64, usize, Rate, u64)>>,
}

impl Samples {
    fn into_series(self, rows: &[Row], bottlenecks: &[(String, u16)]) -> Series {
        let at = |n: usize| Span::from_nanos(self.interval.nanos() * (n as u64 + 1)).secs_f64();
        let times = self.flows.first().map_or(0, Vec::len);
        let mut series = Series::default();
        for n in 0..times {
            for (row, samples) in rows.iter().zip(&self.flows) {
                let before = if n == 0 { 0 } else { samples[n - 1].delivered };
                let mut point = FlowPoint::at(at(n), row.name.clone());
                point.goodput_bps = (samples[n].delivered - before) as f64 * 8.0 / self.interval.secs_f64();
                point.wait_ms = mean_wait(samples[n].waited, if n == 0 { (Span::ZERO, 0) } else { samples[n - 1].waited });
                point.rtt_ms = samples[n].rtt.map_or(f64::NAN, Span::millis_f64);
                if let Some((shown, window)) = samples[n].shown {
                    point.acks = (samples[n].acks - if n == 0 { 0 } else { samples[n - 1].acks }) as f64;
                    point.cwnd_bytes = shown.cwnd as f64;
                    point.ssthresh_bytes = shown.ssthresh.map_or(f64::NAN, |bytes| bytes as f64);
                    point.rwnd_bytes = window.map_or(f64::NAN, |bytes| bytes as f64);
                    point.phase = Cow::Borrowed(shown.phase);
                    point.queueing_ms = shown.queueing_delay.map_or(f64::NAN, Span::millis_f64);
                }
                series.flows.push(point);
            }
            for ((name, _), samples) in bottlenecks.iter().zip(&self.queues) {
                let (bytes, packets, rate, drops) = samples[n];
                series.queues.push(QueuePoint {
                    time_s: at(n),
                    bottleneck: Cow::Owned(name.clone()),
                    queue_bytes: bytes as f64,
                    queue_packets: packets as f64,
                    // Nobody knows how long an outage lasts.
                    queue_delay_ms: if rate.bps() == 0 { f64::NAN } else { rate.time_for(bytes).millis_f64() },
                    // The counter starts afresh after the warm-up.
                    drops: drops.saturating_sub(if n == 0 { 0 } else { samples[n - 1].3 }) as f64,
                });
            }
        }
        series
    }
}

/// Mean wait in ms of the packets between two samples, NaN without any.
fn mean_wait(now: (Span, u64), before: (Span, u64)) -> f64 {
    (now.0 - before.0).millis_f64() / (now.1 - before.1) as f64
}

/// The window of the short-term fairness index.
const SHORT: Span = Span::from_secs(1);

/// Samples the world.
pub struct Sampler<'a> {
    rows: &'a [Row],
    bottlenecks: &'a [(String, u16)],
    samples: Samples,
    keep: bool,
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
            samples: Samples { interval, flows: vec![Vec::new(); rows.len()], queues: vec![Vec::new(); bottlenecks.len()] },
            keep,
            window: vec![0; rows.len()],
            measure_from,
            indices: (0.0, 0),
        }
    }

    /// The series, and the mean of the short-term indices (1 if there were none).
    pub fn finish(self) -> (Series, f64) {
        let series = self.samples.into_series(self.rows, self.bottlenecks);
        (series, if self.indices.1 == 0 { 1.0 } else { self.indices.0 / f64::from(self.indices.1) })
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
        let mut waited = vec![(Span::ZERO, 0); self.rows.len()];
        let mut acks = vec![0; self.rows.len()];
        let mut shown = vec![(None, None); self.rows.len()];
        for flow in flows {
            let row = flow.spec.result;
            totals[row] += flow.delivered();
            waited[row] = (waited[row].0 + flow.stats.waited.0, waited[row].1 + flow.stats.waited.1);
            acks[row] += flow.sender_stats().acks;
            streams[row] = !flow.is_datagrams();
            if let Some(sender) = flow.sender.as_ref().filter(|_| self.keep) {
                shown[row] = (Some((sender.snapshot(), flow.held_window())), Some(sender.srtt()));
            } else if let Some(transit) = flow.stats.last_transit() {
                shown[row].1 = Some(transit);
            }
        }
        if self.keep {
            for (row, (shown, rtt)) in shown.into_iter().enumerate() {
                self.samples.flows[row].push(FlowSample { delivered: totals[row], waited: waited[row], acks: acks[row], shown, rtt });
            }
            for (n, (_, stage)) in self.bottlenecks.iter().enumerate() {
                let link = stages[usize::from(*stage)].link.as_ref();
                let sample = link.map(|link| (link.bytes(), link.packets(), link.rate(), link.stats.drops));
                self.samples.queues[n].push(sample.unwrap_or_default());
            }
        }
        if now.nanos().is_multiple_of(SHORT.nanos()) {
            self.close_window(now, &totals, &streams);
        }
    }
}

/// One bottleneck, measured for `time`, in which it had `capacity`.
pub fn bottleneck(name: &str, link: &Link, capacity: Rate, time: Span) -> Bottleneck {
    let capacity = capacity.bps() as f64;
    let delay = &link.stats.delay;
    Bottleneck {
        name: name.to_owned(),
        capacity_bps: capacity,
        // An outage that lasts the whole measurement has no capacity to use.
        utilisation: if capacity > 0.0 { link.stats.sent as f64 * 8.0 / (capacity * time.secs_f64()) } else { 0.0 },
        arrivals: link.stats.arrivals,
        drops: link.stats.drops,
        marks: link.marks(),
        queue_delay_ms: Delays {
            mean: delay.mean().millis_f64(),
            p50: delay.quantile(0.5).millis_f64(),
            p95: delay.quantile(0.95).millis_f64(),
            p99: delay.quantile(0.99).millis_f64(),
            max: delay.max().millis_f64(),
        },
        queue_bytes: Lengths {
            mean: link.stats.mean_bytes(),
            max: link.stats.max_bytes as f64,
            at_arrival: link.stats.at_enqueue as f64 / link.stats.arrivals.max(1) as f64,
        },
    }
}

/// Row `row` of the result from all `flows` that are counted in it; `capacity` in bit/s.
pub fn flow_result(row: usize, info: &Row, group: &str, flows: &[Flow], measured: (Time, Time), capacity: f64) -> FlowResult {
    let mine = || flows.iter().filter(move |flow| flow.spec.result == row);
    let single = mine().count() == 1;
    let mut rtt = Histogram::default();
    mine().for_each(|flow| rtt.merge(&flow.stats.rtt));
    let counted = || mine().filter(|flow| flow.is_transfer() && flow.spec.start >= measured.0 && flow.spec.start < measured.1);
    let completions: Vec<f64> = counted().filter_map(|flow| Some(flow.stats.completed?.since(flow.spec.start).secs_f64())).collect();
    let unfinished = counted().count() - completions.len();
    let transfers = mine().any(Flow::is_transfer).then(|| Transfers::new(&completions, unfinished as u64));
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
        share: if capacity > 0.0 { goodput / capacity } else { 0.0 },
        retransmits: mine().map(|flow| flow.sender_stats().retransmits - flow.stats.retransmits_before).sum(),
        losses: mine().map(|flow| flow.stats.drops).sum(),
        rtt_ms: Rtts {
            min: rtt.min().millis_f64(),
            mean: rtt.mean().millis_f64(),
            p50: rtt.quantile(0.5).millis_f64(),
            p95: rtt.quantile(0.95).millis_f64(),
            p99: rtt.quantile(0.99).millis_f64(),
            max: rtt.max().millis_f64(),
        },
        completion_s: transfers.and_then(|transfers| transfers.mean_s()),
        transfers,
        jitter_ms: mine().next().filter(|flow| flow.is_datagrams()).map(|flow| flow.stats.jitter / 1e6),
    }
}
