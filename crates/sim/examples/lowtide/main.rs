//! The rows of docs/algorithms/lowtide.md: `cargo run --release -p lowtide-sim --example lowtide -- [WORDS] [--seeds N] [--cc NAME]
//! [--receiver SERVER] [--params TOML] [--host-jitter US]`.
//!
//! Prints of each row whose name holds all WORDS the mean and the range over seeds against its bound. `--params 'without = ["drain"]'` leaves a
//! mechanism out, `--host-jitter 100` holds each packet in its host by 0 to 100 µs (as `lowtide bench scavenger` does), `--receiver cubic`
//! measures the form of a receive window on downloads from such a server, `--trace` prints the changes of state of the first run instead.
#![expect(clippy::print_stdout, reason = "an example prints what it shows")]

mod rows;

use lowtide_scenario::result::jain;
use lowtide_scenario::{Scenario, Summary};
use rows::{Measure, Row, What};

/// Payload's part of the line, as `share` counts.
const PAYLOAD: f64 = 1448.0 / 1514.0;

/// What the command line asks for.
struct Asked {
    words: Vec<String>,
    seeds: u64,
    cc: String,
    /// The sender's control where ours is the receiver's.
    server: Option<String>,
    params: String,
    host_jitter_us: f64,
    trace: bool,
}

impl Asked {
    fn read() -> Asked {
        let mut asked = Asked {
            words: Vec::new(),
            seeds: 8,
            cc: "lowtide".to_owned(),
            server: None,
            params: String::new(),
            host_jitter_us: 0.0,
            trace: false,
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().unwrap_or_else(|| panic!("{word} needs a value"));
            match word.as_str() {
                "--seeds" => asked.seeds = value().parse().unwrap_or_else(|e| panic!("--seeds: {e}")),
                "--cc" => asked.cc = value(),
                "--receiver" => asked.server = Some(value()),
                "--params" => asked.params = value(),
                "--host-jitter" => asked.host_jitter_us = value().parse().unwrap_or_else(|e| panic!("--host-jitter: {e}")),
                "--trace" => asked.trace = true,
                _ => asked.words.push(word),
            }
        }
        asked
    }

    /// What a flow of ours is.
    fn ours(&self) -> String {
        let Asked { cc, params, .. } = self;
        match &self.server {
            Some(server) => {
                format!("kind = \"rledbat\"\ncc = \"{server}\"\nreceiver = {{ algorithm = \"{cc}\", params = {{ {params} }} }}")
            }
            None => format!("cc = \"{cc}\"\nparams = {{ {params} }}"),
        }
    }

    /// The scenario of `row`, with our flows or without.
    fn text(&self, row: &Row, with_ours: bool) -> String {
        format!("host_jitter_us = {:.1}\n{}", self.host_jitter_us, row.text(&self.ours(), with_ours))
    }

    fn wants(&self, row: &Row) -> bool {
        let name = format!("{} {} ", row.group, row.name);
        self.words.iter().all(|word| name.contains(word.as_str()))
    }
}

fn parse(text: &str) -> Scenario {
    Scenario::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn run(text: &str, seed: u64) -> Summary {
    lowtide_sim::run(&parse(text), seed, false).unwrap_or_else(|e| panic!("{e}")).summary
}

/// What `measure` says of a run; `without` is the same run without ours.
fn value(measure: &Measure, with: &Summary, without: impl Fn() -> Summary) -> f64 {
    let ours = || with.flows.iter().filter(|flow| flow.name.starts_with("ours"));
    let other = |summary: &Summary| summary.flows.iter().find(|flow| flow.name.starts_with("other")).expect("another flow").clone();
    let line = with.bottlenecks[0].capacity_bps * PAYLOAD;
    match measure.what {
        What::Ours => ours().map(|flow| flow.goodput_bps).sum::<f64>() / line,
        What::OfTheRest(mbps) => ours().map(|flow| flow.goodput_bps).sum::<f64>() / (line - mbps * 1e6),
        What::Used => with.flows.iter().map(|flow| flow.goodput_bps).sum::<f64>() / line,
        What::P99 => with.bottlenecks[0].queue_delay_ms.p99,
        What::Jain => jain(&ours().map(|flow| flow.goodput_bps).collect::<Vec<_>>()),
        What::Loses => 1.0 - other(with).goodput_bps / other(&without()).goodput_bps,
        What::Completion => other(with).completion_s.unwrap_or(f64::NAN),
        What::CompletionAlone => other(&without()).completion_s.unwrap_or(f64::NAN),
    }
}

/// Prints the row; whether all seeds met its bounds.
fn show(row: &Row, asked: &Asked) -> bool {
    let mut met = true;
    let mut cells = Vec::new();
    let runs: Vec<Summary> = (1..=asked.seeds).map(|seed| run(&asked.text(row, true), seed)).collect();
    for measure in &row.measures {
        let values: Vec<f64> =
            runs.iter().zip(1..).map(|(with, seed)| value(measure, with, || run(&asked.text(row, false), seed))).collect();
        let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(a, b), &x| (a.min(x), b.max(x)));
        let bound = match (measure.at_least, measure.at_most) {
            (Some(bound), _) => format!(" ≥ {bound}"),
            (_, Some(bound)) => format!(" ≤ {bound}"),
            _ => String::new(),
        };
        let within = values.iter().all(|x| measure.at_least.is_none_or(|b| *x >= b) && measure.at_most.is_none_or(|b| *x <= b));
        met &= within;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        cells.push(format!("{} {mean:.3} ({least:.3}–{most:.3}){bound}{}", measure.what.name(), if within { "" } else { " **missed**" }));
    }
    println!("| {} | {} |", row.name, cells.join(" | "));
    met
}

/// The changes of state of our flows in one run.
fn trace(row: &Row, asked: &Asked) {
    let interval = lowtide_units::Span::from_millis(10);
    let scenario = parse(&asked.text(row, true));
    let outcome = lowtide_sim::run_sampled(&scenario, asked.seeds, Some(interval)).unwrap_or_else(|e| panic!("{e}"));
    let mut last: Vec<(String, String, f64)> = Vec::new();
    for point in &outcome.series.flows {
        let at = last.iter().position(|(flow, ..)| *flow == point.flow).unwrap_or_else(|| {
            last.push((point.flow.to_string(), String::new(), -1.0));
            last.len() - 1
        });
        let (_, phase, shown) = &mut last[at];
        if *phase != point.phase || point.time_s - *shown >= 0.995 {
            (*phase, *shown) = (point.phase.to_string(), point.time_s);
            println!(
                "{:8.2} {:8} {:12} {:7.2} Mbit/s cwnd {:8.1} rwnd {:8.1} srtt {:7.2} ms queue {:6.2} ms",
                point.time_s,
                point.flow,
                point.phase,
                point.goodput_bps / 1e6,
                point.cwnd_bytes / 1448.0,
                point.rwnd_bytes / 1448.0,
                point.rtt_ms,
                point.queueing_ms
            );
        }
    }
}

fn main() {
    let asked = Asked::read();
    let (mut group, mut missed, mut all) = ("", 0, 0);
    for row in rows::all().iter().filter(|row| asked.wants(row)) {
        if asked.trace {
            return trace(row, &asked);
        }
        if row.group != group {
            group = row.group;
            println!("\n{group}\n");
        }
        all += 1;
        missed += u32::from(!show(row, &asked));
    }
    println!("\n{} of {all} rows met", all - missed);
}
