//! What a run's records say, in the terms of the result's schema. Reads no clock and starts nothing.

use anyhow::Result;
use lowtide_scenario::result::{Delays, Lateness, Lengths, Rtts, SCHEMA, Transfers, jain};
use lowtide_scenario::{Bottleneck, FlowResult, Scenario, Summary};
use lowtide_units::histogram::Histogram;
use lowtide_units::statistics;
use lowtide_units::{Rate, Span, Time};

use crate::link::{self, Record};
use crate::outcome::{Outcome, Sample, Trace};
use crate::path::Seen;
use crate::plan::{self, Job};

/// The host stalled the link when the median lateness exceeds the accuracy that is promised of the delay,
const LATE_P50: Span = Span::from_micros(200);
/// when one packet in a hundred was late by a quarter of the shortest RTT in use (20 ms),
const LATE_P99: Span = Span::from_millis(5);
/// or when the link stood still for as long as half the shortest RTT.
const LATE_MAX: Span = Span::from_millis(50);
/// Programs have the kernel's buffers ahead of them: they were starved when one wakeup in a hundred was late by an RTT of 20 ms,
const PROGRAMS_P99: Span = Span::from_millis(20);
/// or when they stood still for longer than a small socket buffer lasts.
const PROGRAMS_MAX: Span = Span::from_millis(250);

/// The summary of a run whose zero was at `zero`.
///
/// # Errors
/// A topology that the laboratory does not have.
pub fn summary(scenario: &Scenario, traces: &[Trace], link: &Record, programs: &Histogram, zero: Time) -> Result<Summary> {
    let dumbbell = plan::dumbbell(scenario)?;
    let window = scenario.duration_s - scenario.warmup_s;
    let rates = plan::mean_rates(scenario, dumbbell)?;
    let flows: Vec<FlowResult> =
        traces.iter().map(|t| flow(scenario, t, link, zero, if t.job.is_upload() { rates.1 } else { rates.0 })).collect();
    let streams = |i: &usize| traces[*i].echoes.is_none();
    let goodputs: Vec<f64> = (0..flows.len()).filter(streams).map(|i| flows[i].goodput_bps).collect();
    Ok(Summary {
        schema: SCHEMA,
        scenario: scenario.name.clone(),
        host: "lab".to_owned(),
        seed: scenario.seed,
        duration_s: scenario.duration_s,
        wall_s: 0.0,
        events: 0,
        bottlenecks: vec![bottleneck("forward", &link.forward, rates.0, window), bottleneck("reverse", &link.reverse, rates.1, window)],
        jain: jain(&goodputs),
        jain_short: jain_short(scenario, traces, zero),
        flows,
        lateness_ms: Some(lateness(&link.lateness, programs)),
    })
}

fn lateness(late: &link::Lateness, programs: &Histogram) -> Lateness {
    let (programs_p99, programs_max) = (programs.quantile(0.99), programs.max());
    let link_stalled = late.p50 > LATE_P50 || late.p99 > LATE_P99 || late.max > LATE_MAX;
    Lateness {
        p50: late.p50.millis_f64(),
        p99: late.p99.millis_f64(),
        max: late.max.millis_f64(),
        programs_p99: programs_p99.millis_f64(),
        programs_max: programs_max.millis_f64(),
        stalled: link_stalled || programs_p99 > PROGRAMS_P99 || programs_max > PROGRAMS_MAX,
    }
}

fn bottleneck(name: &str, seen: &Seen, mbps: f64, window: f64) -> Bottleneck {
    Bottleneck {
        name: name.to_owned(),
        capacity_bps: mbps * 1e6,
        utilisation: seen.carried as f64 * 8.0 / (mbps * 1e6 * window),
        drops: seen.drops,
        marks: seen.marks,
        queue_delay_ms: delays(&seen.queue_delay),
        queue_bytes: Lengths { mean: seen.queue_integral / window, max: seen.queue_max as f64, ..Lengths::default() },
        ..Bottleneck::default()
    }
}

fn delays(histogram: &Histogram) -> Delays {
    let at = |q| histogram.quantile(q).millis_f64();
    Delays { mean: histogram.mean().millis_f64(), p50: at(0.5), p95: at(0.95), p99: at(0.99), max: histogram.max().millis_f64() }
}

fn flow(scenario: &Scenario, trace: &Trace, link: &Record, zero: Time, rate_mbps: f64) -> FlowResult {
    let job = &trace.job;
    let (from, to) = (job.runs.start.max(scenario.warmup_s), job.runs.end.min(scenario.duration_s));
    let goodput = goodput(trace, zero, from, to);
    let losses = |seen: &Seen| seen.losses.get(&job.port).copied().unwrap_or(0);
    let cc = if job.managed.is_some() { format!("{}+lowtide", job.cc) } else { job.cc.clone() };
    let counted = trace.said.transfers.iter().filter(|c| c.began >= scenario.warmup_s);
    let times: Vec<f64> = counted.clone().filter_map(|c| c.took).collect();
    let unfinished = counted.count() - times.len();
    let transfers = job.is_transfer().then(|| Transfers::new(&times, unfinished as u64));
    FlowResult {
        name: job.name.clone(),
        group: job.flow.group.clone(),
        cc,
        start_s: job.runs.start,
        stop_s: job.runs.end,
        goodput_bps: goodput,
        share: goodput / (rate_mbps * 1e6),
        retransmits: retransmits(trace),
        losses: losses(&link.forward) + losses(&link.reverse),
        rtt_ms: rtts(trace, zero, from, to),
        completion_s: transfers.and_then(|transfers| transfers.mean_s()),
        transfers,
        jitter_ms: trace.echoes.as_ref().map(crate::probe::Echoes::jitter_ms),
    }
}

/// Payload per second between two times of the scenario.
fn goodput(trace: &Trace, zero: Time, from: f64, to: f64) -> f64 {
    if to <= from {
        return 0.0;
    }
    if let Some(report) = &trace.said.iperf {
        let began = to - report["end"]["sum_received"]["seconds"].as_f64().unwrap_or(0.0).min(to - trace.job.runs.start);
        let bytes: f64 = report["intervals"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|i| (from..to).contains(&(began + i["sum"]["start"].as_f64().unwrap_or(0.0))))
            .filter_map(|i| i["sum"]["bytes"].as_f64())
            .sum();
        return bytes * 8.0 / (to - from);
    }
    if let Some(echoes) = &trace.echoes {
        let heard = echoes.echoes.iter().filter(|e| within(e.sent, zero, from, to)).count();
        return heard as f64 * call_bytes(&trace.job) * 8.0 / (to - from);
    }
    let carried = |seconds| carried_by(trace, zero + Span::from_secs_f64(seconds));
    (carried(to) - carried(from)) * 8.0 / (to - from)
}

fn call_bytes(job: &Job) -> f64 {
    match job.work {
        plan::Work::Call(beat) => beat.size as f64,
        _ => 0.0,
    }
}

fn within(at: Time, zero: Time, from: f64, to: f64) -> bool {
    at >= zero + Span::from_secs_f64(from) && at < zero + Span::from_secs_f64(to)
}

/// Payload that had arrived by `at`, between two samples on the line that joins them.
fn carried_by(trace: &Trace, at: Time) -> f64 {
    let samples = &trace.samples;
    let carried = |sample: &Sample| carried(trace, sample) as f64;
    let after = samples.partition_point(|s| s.at < at);
    match (after.checked_sub(1).and_then(|i| samples.get(i)), samples.get(after)) {
        (Some(a), Some(b)) => {
            let part = at.since(a.at).secs_f64() / b.at.since(a.at).secs_f64();
            carried(a) + (carried(b) - carried(a)).max(0.0) * part
        }
        (Some(last), None) => carried(last),
        (None, _) => 0.0,
    }
}

/// The flow's payload as the end that is seen knows it: what it received, or what was acknowledged to it.
pub fn carried(trace: &Trace, sample: &Sample) -> u64 {
    if trace.job.is_seen_from_receiver() { sample.stats.received } else { sample.stats.acked }
}

fn retransmits(trace: &Trace) -> u64 {
    match &trace.said.iperf {
        Some(report) => report["end"]["sum_sent"]["retransmits"].as_u64().unwrap_or(0),
        // Only the sender knows; `lowtide run` tells what its own sent again.
        None if trace.job.is_seen_from_receiver() => {
            let said = trace.said.lowtide.as_ref();
            said.and_then(|said| said["sent"]["retransmissions"].as_u64()).unwrap_or(0)
        }
        None => trace.samples.last().map_or(0, |s| s.stats.retransmits),
    }
}

fn rtts(trace: &Trace, zero: Time, from: f64, to: f64) -> Rtts {
    let all: Vec<f64> = match &trace.echoes {
        Some(echoes) => echoes.echoes.iter().filter(|e| within(e.sent, zero, from, to)).map(|e| e.rtt().millis_f64()).collect(),
        None if trace.job.is_seen_from_receiver() => Vec::new(),
        None => trace
            .samples
            .iter()
            .filter(|s| s.stats.srtt_us > 0 && within(s.at, zero, from, to))
            .map(|s| f64::from(s.stats.srtt_us) / 1e3)
            .collect(),
    };
    if all.is_empty() {
        return Rtts::default();
    }
    let at = |q| statistics::quantile(&all, q);
    Rtts { min: at(0.0), mean: statistics::mean(&all), p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1.0) }
}

/// Jain's index of each second in which at least two of our servers' flows run, averaged.
fn jain_short(scenario: &Scenario, traces: &[Trace], zero: Time) -> f64 {
    let mut indices = Vec::new();
    let mut from = scenario.warmup_s;
    while from + 1.0 <= scenario.duration_s {
        let running = |t: &&Trace| t.echoes.is_none() && t.job.runs.start <= from && t.job.runs.end >= from + 1.0;
        let rates: Vec<f64> = traces.iter().filter(running).map(|t| goodput(t, zero, from, from + 1.0)).collect();
        if rates.len() > 1 {
            indices.push(jain(&rates));
        }
        from += 1.0;
    }
    if indices.is_empty() { 1.0 } else { statistics::mean(&indices) }
}

/// A flow's throughput on the wire over time: seconds of the scenario, bit/s.
pub fn throughput(trace: &Trace, link: &Record, zero: Time) -> Vec<(f64, f64)> {
    let port = trace.job.port;
    let rate = |bytes: u64| Rate::from_bytes_over(bytes, crate::path::BIN).bps() as f64;
    let way = if trace.job.is_upload() { &link.reverse } else { &link.forward };
    way.bins
        .iter()
        .filter(|b| b.start >= zero)
        .map(|b| (b.start.since(zero).secs_f64(), rate(b.bytes.get(&port).copied().unwrap_or(0))))
        .collect()
}

/// The queueing delay at the bottleneck on the way down: seconds of the scenario, ms, the worst of each tenth of a second.
pub fn queue_delay(outcome: &Outcome) -> Vec<(f64, f64)> {
    let bins = outcome.link.forward.bins.iter().filter(|b| b.start >= outcome.zero);
    bins.map(|b| (b.start.since(outcome.zero).secs_f64(), b.queue_delay.millis_f64())).collect()
}

/// The sender's window over time: the smaller of its own and the one its peer advertises. Seconds of the scenario, bytes.
pub fn window(trace: &Trace, zero: Time) -> Vec<(f64, f64)> {
    if trace.job.is_upload() {
        return trace.uploads.iter().filter(|(at, _)| *at >= zero).map(|(at, bytes)| (at.since(zero).secs_f64(), *bytes as f64)).collect();
    }
    let open = trace.samples.iter().filter(|s| s.at >= zero && s.stats.open > 0);
    open.map(|s| (s.at.since(zero).secs_f64(), s.stats.cwnd.min(s.stats.peer_window) as f64)).collect()
}

/// What a call's packets were delayed beyond the fastest of them, in seconds of the scenario and ms.
pub fn added_delay(trace: &Trace, zero: Time) -> Vec<(f64, f64)> {
    let Some(echoes) = &trace.echoes else { return Vec::new() };
    let base = echoes.echoes.iter().map(|e| e.rtt()).min().unwrap_or(Span::ZERO);
    echoes.echoes.iter().map(|e| (e.sent.since(zero).secs_f64(), e.rtt().saturating_sub(base).millis_f64())).collect()
}
