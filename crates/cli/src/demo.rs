//! `lowtide demo`: one home line, a call, page loads and a download, without and with lowtide. Says what is compared; the
//! laboratory runs it and the report draws it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use lowtide_lab::run::{self, Outcome};
use lowtide_lab::{measure, plan};
use lowtide_scenario::Scenario;
use serde::Serialize;

use crate::lab;
use crate::report::{Curve, Page, Plot};

/// See what lowtide does, on real network stacks inside this machine: under three minutes
///
/// A line of 20 Mbit/s and 20 ms with half a second of buffer carries a call, page loads and a download with curl: without
/// the download, with plain curl, with `lowtide run -- curl`; and lowtide alone. Needs root; changes nothing on the machine.
#[derive(clap::Args)]
pub struct Args {
    /// Print the numbers as JSON
    #[arg(long)]
    json: bool,
    /// Where the page with the time series goes
    #[arg(long, value_name = "FILE", default_value = "lowtide-demo.html")]
    html: PathBuf,
}

const SCENARIO: &str = include_str!("../../lab/scenarios/demo.toml");

/// One of the four comparisons: which flows of the scenario take part and how.
struct Act {
    name: &'static str,
    seconds: f64,
    others: bool,
    bulk: bool,
    lowtide: bool,
}

const ACTS: [Act; 4] = [
    Act { name: "no download", seconds: 22.0, others: true, bulk: false, lowtide: false },
    Act { name: "curl", seconds: 42.0, others: true, bulk: true, lowtide: false },
    Act { name: "lowtide run -- curl", seconds: 48.0, others: true, bulk: true, lowtide: true },
    Act { name: "lowtide run -- curl, alone", seconds: 40.0, others: false, bulk: true, lowtide: true },
];

/// What one act showed; a name of `--json`.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    call_added_delay_ms_p50: Option<f64>,
    call_added_delay_ms_p95: Option<f64>,
    call_added_delay_ms_max: Option<f64>,
    call_loss: Option<f64>,
    call_jitter_ms: Option<f64>,
    page_load_s: Option<f64>,
    download_mbps: Option<f64>,
    utilisation: f64,
    queue_delay_ms_p95: f64,
    stalled: bool,
}

pub fn main(args: &Args) -> Result<ExitCode> {
    let options = lab::options()?;
    let mut outcomes = Vec::new();
    for (number, act) in ACTS.iter().enumerate() {
        eprintln!("lowtide: {} of {}: {} ({:.0} s)", number + 1, ACTS.len(), act.name, act.seconds);
        outcomes.push(run::run(&scenario(act)?, &options).with_context(|| act.name)?);
    }
    let rows: Vec<Row> = ACTS.iter().zip(&outcomes).map(|(act, outcome)| row(act, outcome)).collect();
    page(&rows, &outcomes).write(&args.html).with_context(|| format!("--html {}: cannot be written", args.html.display()))?;
    if args.json {
        let summaries: Vec<_> = outcomes.iter().map(|o| &o.summary).collect();
        println!("{}", serde_json::to_string_pretty(&serde_json::json!({ "schema": 1, "acts": rows, "summaries": summaries }))?);
    } else {
        print(&rows);
    }
    outcomes.iter().for_each(|o| lab::warn_if_stalled(&o.summary));
    eprintln!("lowtide: time series in {}", args.html.display());
    Ok(ExitCode::SUCCESS)
}

fn scenario(act: &Act) -> Result<Scenario> {
    let mut scenario = Scenario::parse(SCENARIO)?;
    scenario.name = act.name.to_owned();
    scenario.duration_s = act.seconds;
    for flow in &mut scenario.flows {
        let bulk = flow.name == "bulk";
        flow.count = u32::from(if bulk { act.bulk } else { act.others });
        flow.lab.lowtide = bulk && act.lowtide;
    }
    Ok(scenario)
}

fn row(act: &Act, outcome: &Outcome) -> Row {
    let summary = &outcome.summary;
    let flow = |name: &str| summary.flows.iter().find(|f| f.name == name);
    let call = outcome.traces.iter().find(|t| matches!(t.job.work, plan::Work::Call(_)));
    let warm = outcome_warmup();
    let mut added: Vec<f64> = call.map_or(Vec::new(), |t| measure::added_delay(t, outcome.zero)).into_iter().filter(|p| p.0 >= warm).map(|p| p.1).collect();
    added.sort_by(f64::total_cmp);
    let quantile = |q: f64| added.get(((added.len().max(1) - 1) as f64 * q).round() as usize).copied();
    Row {
        name: act.name,
        call_added_delay_ms_p50: quantile(0.5),
        call_added_delay_ms_p95: quantile(0.95),
        call_added_delay_ms_max: quantile(1.0),
        call_loss: call.and_then(|t| t.echoes.as_ref()).map(lowtide_lab::probe::Echoes::loss),
        call_jitter_ms: flow("call").and_then(|f| f.jitter_ms),
        page_load_s: flow("page").and_then(|f| f.completion_s),
        download_mbps: flow("bulk").map(|f| f.goodput_bps / 1e6),
        utilisation: summary.bottlenecks[0].utilisation,
        queue_delay_ms_p95: summary.bottlenecks[0].queue_delay_ms.p95,
        stalled: summary.lateness_ms.is_some_and(|l| l.stalled),
    }
}

/// Seconds at the start that the numbers leave out; the plots show them.
fn outcome_warmup() -> f64 {
    Scenario::parse(SCENARIO).map_or(0.0, |s| s.warmup_s)
}

const HEAD: [&str; 8] = ["", "call: added delay p50", "p95", "max", "packets lost", "page of 262 kB", "download", "line in use"];

fn cells(row: &Row) -> Vec<String> {
    let some = |value: Option<f64>, digits: usize, unit: &str| value.map_or_else(|| "–".to_owned(), |v| format!("{v:.digits$} {unit}"));
    vec![
        format!("{}{}", row.name, if row.stalled { " (host stalled)" } else { "" }),
        some(row.call_added_delay_ms_p50, 1, "ms"),
        some(row.call_added_delay_ms_p95, 1, "ms"),
        some(row.call_added_delay_ms_max, 1, "ms"),
        some(row.call_loss.map(|l| l * 100.0), 1, "%"),
        some(row.page_load_s, 2, "s"),
        some(row.download_mbps, 1, "Mbit/s"),
        format!("{:.0} %", row.utilisation * 100.0),
    ]
}

fn print(rows: &[Row]) {
    println!("20 Mbit/s, 20 ms, 500 ms of buffer; a call, a page each 2.5 s, a download\n");
    println!("{:<27} {:>22} {:>9} {:>9}", "", "call: added delay p50", "p95", "max");
    for cells in rows.iter().map(cells) {
        println!("{:<27} {:>22} {:>9} {:>9}", cells[0], cells[1], cells[2], cells[3]);
    }
    println!("\n{:<27} {:>13} {:>15} {:>13} {:>9}", "", HEAD[4], HEAD[5], HEAD[6], "in use");
    for cells in rows.iter().map(cells) {
        println!("{:<27} {:>13} {:>15} {:>13} {:>9}", cells[0], cells[4], cells[5], cells[6], cells[7]);
    }
}

fn page(rows: &[Row], outcomes: &[Outcome]) -> Page {
    let mut page = Page::new("lowtide: a download that gets out of the way");
    page.paragraph("A line of 20 Mbit/s and 20 ms with 500 ms of buffer, made of real Linux network stacks. A call sends 160 bytes each 20 ms, a page of 262 kB is loaded each 2.5 s over TCP (CUBIC), and curl downloads as fast as it may from a CUBIC server.");
    page.table(&HEAD, &rows.iter().map(cells).collect::<Vec<_>>());
    let first: Vec<(&str, &Outcome)> = ACTS.iter().map(|a| a.name).zip(outcomes).filter(|(_, o)| o.traces.len() > 1).collect();
    let call = |outcome: &Outcome| outcome.traces.iter().flat_map(|t| measure::added_delay(t, outcome.zero)).collect();
    let curves = first.iter().map(|(name, outcome)| Curve { name: (*name).to_owned(), points: call(outcome) }).collect();
    page.plot(&Plot { title: "The call's added delay".into(), x_label: "time (s)".into(), y_label: "added delay (ms)".into(), curves, marks: false }, None);
    for (act, outcome) in ACTS.iter().zip(outcomes) {
        let throughput = |t: &run::Trace| smooth(&measure::throughput(t, &outcome.link, outcome.zero));
        let curves = outcome.traces.iter().map(|t| Curve { name: t.job.name.clone(), points: throughput(t) }).collect();
        page.heading(&act.name.replace(' ', "-"), act.name);
        page.plot(&Plot { title: "Throughput of each flow, over half seconds".into(), x_label: "time (s)".into(), y_label: "Mbit/s".into(), curves, marks: false }, None);
        let bulk = outcome.traces.iter().filter(|t| t.job.name == "bulk");
        let window = |t: &run::Trace| measure::window(t, outcome.zero).into_iter().map(|(at, bytes)| (at, bytes / 1e3)).collect();
        let curves: Vec<Curve> = bulk.map(|t| Curve { name: "window".into(), points: window(t) }).collect();
        if !curves.is_empty() {
            page.plot(&Plot { title: "The download's window: the smaller of the server's own and the one in the client's acknowledgements".into(), x_label: "time (s)".into(), y_label: "kB".into(), curves, marks: false }, None);
        }
    }
    page
}

/// Means of five tenths of a second each, in Mbit/s.
fn smooth(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    points.chunks(5).map(|c| (c[0].0, c.iter().map(|p| p.1).sum::<f64>() / c.len() as f64 / 1e6)).collect()
}
