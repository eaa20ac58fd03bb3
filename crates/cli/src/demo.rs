//! `lowtide demo`: one home line, a call, page loads and a download, without and with lowtide. Says what is compared and shows
//! it; `demo/real` and `demo/simulated` run it.

mod real;
mod simulated;

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use lowtide_scenario::{Scenario, Summary};
use serde::Serialize;

use crate::lab;
use crate::report::{Curve, Form, Page, Plot};
use crate::stdout;

/// See what lowtide does, on real network stacks inside this machine: under three minutes
///
/// A line of 20 Mbit/s and 20 ms with half a second of buffer carries a call, page loads and a download with curl: without
/// the download, with plain curl, with `lowtide run -- curl`; and lowtide alone. Needs root; changes nothing on the machine.
/// With --sim the same is simulated, in a second and without root.
#[derive(clap::Args)]
pub struct Args {
    /// Simulate it instead: no root, no BPF, done in a second
    #[arg(long)]
    sim: bool,
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

/// What one act left behind, whoever ran it.
struct Seen {
    summary: Summary,
    call: Option<Call>,
    /// Each flow's throughput: seconds, Mbit/s.
    throughput: Vec<Curve>,
    /// The download's window: seconds, kB.
    window: Vec<(f64, f64)>,
}

/// What a call saw; delays beyond that of its fastest packet, in ms.
struct Call {
    /// By the time of sending.
    added: Vec<(f64, f64)>,
    p50: f64,
    p95: f64,
    max: f64,
    loss: f64,
}

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
    let for_real = if args.sim { None } else { Some(real::ready()?) };
    let unwritable = || format!("--html {}: cannot be written", args.html.display());
    may_write(&args.html).with_context(unwritable)?;
    let seen = for_real.as_ref().map_or_else(simulated::run, real::run)?;
    let rows: Vec<Row> = ACTS.iter().zip(&seen).map(|(act, seen)| row(act, seen)).collect();
    page(&rows, &seen, args.sim).write(&args.html).with_context(unwritable)?;
    if args.json {
        let summaries: Vec<_> = seen.iter().map(|s| &s.summary).collect();
        stdout::line(serde_json::to_string_pretty(&serde_json::json!({ "schema": 1, "acts": rows, "summaries": summaries }))?)?;
    } else {
        stdout::print(table(&rows, args.sim))?;
    }
    seen.iter().for_each(|s| lab::warn_if_stalled(&s.summary));
    eprintln!("lowtide: time series in {}", args.html.display());
    Ok(ExitCode::SUCCESS)
}

/// Whether the page can be written is known before the acts, not three minutes later. Leaves everything as it was.
fn may_write(path: &Path) -> io::Result<()> {
    let is_new = !path.exists();
    OpenOptions::new().append(true).create(true).open(path)?;
    if is_new { fs::remove_file(path) } else { Ok(()) }
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

fn row(act: &Act, seen: &Seen) -> Row {
    let summary = &seen.summary;
    let flow = |name: &str| summary.flows.iter().find(|f| f.name == name);
    let call = seen.call.as_ref();
    Row {
        name: act.name,
        call_added_delay_ms_p50: call.map(|c| c.p50),
        call_added_delay_ms_p95: call.map(|c| c.p95),
        call_added_delay_ms_max: call.map(|c| c.max),
        call_loss: call.map(|c| c.loss),
        call_jitter_ms: flow("call").and_then(|f| f.jitter_ms),
        page_load_s: flow("page").and_then(|f| f.completion_s),
        download_mbps: flow("bulk").map(|f| f.goodput_bps / 1e6),
        utilisation: summary.bottlenecks[0].utilisation,
        queue_delay_ms_p95: summary.bottlenecks[0].queue_delay_ms.p95,
        stalled: summary.lateness_ms.is_some_and(|l| l.stalled),
    }
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

fn table(rows: &[Row], simulated: bool) -> String {
    let where_ = if simulated { "simulated: " } else { "" };
    let mut text = format!("{where_}20 Mbit/s, 20 ms, 500 ms of buffer; a call, a page each 2.5 s, a download\n\n");
    text += &format!("{:<27} {:>22} {:>9} {:>9}\n", "", "call: added delay p50", "p95", "max");
    for cells in rows.iter().map(cells) {
        text += &format!("{:<27} {:>22} {:>9} {:>9}\n", cells[0], cells[1], cells[2], cells[3]);
    }
    text += &format!("\n{:<27} {:>13} {:>15} {:>13} {:>9}\n", "", HEAD[4], HEAD[5], HEAD[6], "in use");
    for cells in rows.iter().map(cells) {
        text += &format!("{:<27} {:>13} {:>15} {:>13} {:>9}\n", cells[0], cells[4], cells[5], cells[6], cells[7]);
    }
    text
}

fn page(rows: &[Row], seen: &[Seen], simulated: bool) -> Page {
    let mut page = Page::new("lowtide: a download that gets out of the way");
    let made = if simulated { "in lowtide's packet simulator" } else { "made of real Linux network stacks" };
    page.paragraph(&format!("A line of 20 Mbit/s and 20 ms with 500 ms of buffer, {made}. A call sends 160 bytes each 20 ms, a page of 262 kB is loaded each 2.5 s over TCP (CUBIC), and curl downloads as fast as it may from a CUBIC server."));
    page.table(&HEAD, &rows.iter().map(cells).collect::<Vec<_>>());
    let calls = ACTS.iter().zip(seen).filter_map(|(act, seen)| Some((act.name, seen.call.as_ref()?)));
    let curves = calls.map(|(name, call)| Curve::line(name, call.added.clone())).collect();
    page.plot(&over_time("The call's added delay", "added delay (ms)", curves), None);
    for (act, seen) in ACTS.iter().zip(seen) {
        page.heading(&act.name.replace(' ', "-"), act.name);
        page.plot(&over_time("Throughput of each flow, over half seconds", "Mbit/s", seen.throughput.clone()), None);
        if !seen.window.is_empty() {
            let title = "The download's window: the smaller of the server's own and the one in the client's acknowledgements";
            page.plot(&over_time(title, "kB", vec![Curve::line("window", seen.window.clone())]), None);
        }
    }
    page
}

fn over_time(title: &str, y_label: &str, curves: Vec<Curve>) -> Plot {
    Plot { title: title.into(), x_label: "time (s)".into(), y_label: y_label.into(), curves, form: Form::Lines, ..Plot::default() }
}

/// Means of five tenths of a second each.
fn smooth(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    points.chunks(5).map(|c| (c[0].0, c.iter().map(|p| p.1).sum::<f64>() / c.len() as f64)).collect()
}
