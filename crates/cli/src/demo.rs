//! `lowtide demo`: one home line, a call, page loads and a download or an upload, without and with lowtide. Says what is compared and shows
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
/// With --upload curl uploads instead, and the way up is 5 Mbit/s. With --sim the same is simulated, in a second and without root.
#[derive(clap::Args)]
pub struct Args {
    /// An upload in place of the download
    #[arg(long)]
    upload: bool,
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

/// The way of the bulk transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Down,
    Up,
}

impl Way {
    fn noun(self) -> &'static str {
        match self {
            Way::Down => "download",
            Way::Up => "upload",
        }
    }

    fn line(self) -> &'static str {
        match self {
            Way::Down => "20 Mbit/s, 20 ms",
            Way::Up => "20 Mbit/s down and 5 up, 20 ms",
        }
    }

    /// Its bottleneck among those of a result.
    fn bottleneck(self) -> usize {
        match self {
            Way::Down => 0,
            Way::Up => 1,
        }
    }
}

/// The way up of a line whose demo is an upload.
const UPLOAD_MBPS: f64 = 5.0;

/// One of the four comparisons: which flows of the scenario take part and how.
struct Act {
    /// With a download, with an upload.
    names: [&'static str; 2],
    seconds: f64,
    others: bool,
    bulk: bool,
    lowtide: bool,
}

const ACTS: [Act; 4] = [
    Act { names: ["no download", "no upload"], seconds: 22.0, others: true, bulk: false, lowtide: false },
    Act { names: ["curl", "curl -T"], seconds: 42.0, others: true, bulk: true, lowtide: false },
    Act { names: ["lowtide run -- curl", "lowtide run -- curl -T"], seconds: 48.0, others: true, bulk: true, lowtide: true },
    Act { names: ["lowtide run -- curl, alone", "lowtide run -- curl -T, alone"], seconds: 40.0, others: false, bulk: true, lowtide: true },
];

impl Act {
    fn name(&self, way: Way) -> &'static str {
        self.names[way as usize]
    }
}

/// What one act left behind, whoever ran it.
struct Seen {
    summary: Summary,
    call: Option<Call>,
    /// Each flow's throughput: seconds, Mbit/s.
    throughput: Vec<Curve>,
    /// The bulk transfer's window: seconds, kB; nothing in an act without it.
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
    upload_mbps: Option<f64>,
    /// Of the way that the bulk transfer takes, as is the queue's delay.
    utilisation: f64,
    queue_delay_ms_p95: f64,
    stalled: bool,
}

pub fn main(args: &Args) -> Result<ExitCode> {
    let for_real = if args.sim { None } else { Some(real::ready()?) };
    let unwritable = || format!("--html {}: cannot be written", args.html.display());
    may_write(&args.html).with_context(unwritable)?;
    let way = if args.upload { Way::Up } else { Way::Down };
    let seen = for_real.as_ref().map_or_else(|| simulated::run(way), |options| real::run(way, options))?;
    let rows: Vec<Row> = ACTS.iter().zip(&seen).map(|(act, seen)| row(act, way, seen)).collect();
    page(&rows, way, &seen, args.sim).write(&args.html).with_context(unwritable)?;
    if args.json {
        let summaries: Vec<_> = seen.iter().map(|s| &s.summary).collect();
        stdout::line(serde_json::to_string_pretty(&serde_json::json!({ "schema": 1, "acts": rows, "summaries": summaries }))?)?;
    } else {
        stdout::print(table(&rows, way, args.sim))?;
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

fn scenario(act: &Act, way: Way) -> Result<Scenario> {
    let mut scenario = Scenario::parse(SCENARIO)?;
    if way == Way::Up {
        scenario = scenario.with("topology.reverse_rate_mbps", UPLOAD_MBPS.into())?.with("flows.bulk.direction", "reverse".into())?;
    }
    scenario.name = act.name(way).to_owned();
    scenario.duration_s = act.seconds;
    for flow in &mut scenario.flows {
        let bulk = flow.name == "bulk";
        flow.count = u32::from(if bulk { act.bulk } else { act.others });
        flow.lab.lowtide = bulk && act.lowtide;
    }
    Ok(scenario)
}

fn row(act: &Act, way: Way, seen: &Seen) -> Row {
    let summary = &seen.summary;
    let flow = |name: &str| summary.flows.iter().find(|f| f.name == name);
    let call = seen.call.as_ref();
    let bulk = |of: Way| flow("bulk").filter(|_| of == way).map(|f| f.goodput_bps / 1e6);
    let line = &summary.bottlenecks[way.bottleneck()];
    Row {
        name: act.name(way),
        call_added_delay_ms_p50: call.map(|c| c.p50),
        call_added_delay_ms_p95: call.map(|c| c.p95),
        call_added_delay_ms_max: call.map(|c| c.max),
        call_loss: call.map(|c| c.loss),
        call_jitter_ms: flow("call").and_then(|f| f.jitter_ms),
        page_load_s: flow("page").and_then(|f| f.completion_s),
        download_mbps: bulk(Way::Down),
        upload_mbps: bulk(Way::Up),
        utilisation: line.utilisation,
        queue_delay_ms_p95: line.queue_delay_ms.p95,
        stalled: summary.lateness_ms.is_some_and(|l| l.stalled),
    }
}

fn head(way: Way) -> [&'static str; 8] {
    let in_use = if way == Way::Up { "way up in use" } else { "line in use" };
    ["", "call: added delay p50", "p95", "max", "packets lost", "page of 262 kB", way.noun(), in_use]
}

fn cells(row: &Row) -> Vec<String> {
    let some = |value: Option<f64>, digits: usize, unit: &str| value.map_or_else(|| "–".to_owned(), |v| format!("{v:.digits$} {unit}"));
    vec![
        format!("{}{}", row.name, if row.stalled { " (host stalled)" } else { "" }),
        some(row.call_added_delay_ms_p50, 1, "ms"),
        some(row.call_added_delay_ms_p95, 1, "ms"),
        some(row.call_added_delay_ms_max, 1, "ms"),
        some(row.call_loss.map(|l| l * 100.0), 1, "%"),
        some(row.page_load_s, 2, "s"),
        some(row.download_mbps.or(row.upload_mbps), 1, "Mbit/s"),
        format!("{:.0} %", row.utilisation * 100.0),
    ]
}

fn table(rows: &[Row], way: Way, simulated: bool) -> String {
    let where_ = if simulated { "simulated: " } else { "" };
    let (line, bulk, head) = (way.line(), way.noun(), head(way));
    let article = if way == Way::Up { "an" } else { "a" };
    let mut text = format!("{where_}{line}, 500 ms of buffer; a call, a page each 2.5 s, {article} {bulk}\n\n");
    text += &format!("{:<29} {:>22} {:>9} {:>9}\n", "", "call: added delay p50", "p95", "max");
    for cells in rows.iter().map(cells) {
        text += &format!("{:<29} {:>22} {:>9} {:>9}\n", cells[0], cells[1], cells[2], cells[3]);
    }
    text += &format!("\n{:<29} {:>13} {:>15} {:>13} {:>9}\n", "", head[4], head[5], head[6], "in use");
    for cells in rows.iter().map(cells) {
        text += &format!("{:<29} {:>13} {:>15} {:>13} {:>9}\n", cells[0], cells[4], cells[5], cells[6], cells[7]);
    }
    text
}

fn page(rows: &[Row], way: Way, seen: &[Seen], simulated: bool) -> Page {
    let mut page = Page::new(match way {
        Way::Down => "lowtide: a download that gets out of the way",
        Way::Up => "lowtide: an upload that gets out of the way",
    });
    let made = if simulated { "in lowtide's packet simulator" } else { "made of real Linux network stacks" };
    let bulk = match way {
        Way::Down => "downloads as fast as it may from a CUBIC server",
        Way::Up => "uploads as fast as it may, by CUBIC where lowtide does not hold it back",
    };
    page.paragraph(&format!("A line of {} with 500 ms of buffer, {made}. A call sends 160 bytes each 20 ms, a page of 262 kB is loaded each 2.5 s over TCP (CUBIC), and curl {bulk}.", way.line()));
    page.table(&head(way), &rows.iter().map(cells).collect::<Vec<_>>());
    let calls = ACTS.iter().zip(seen).filter_map(|(act, seen)| Some((act.name(way), seen.call.as_ref()?)));
    let curves = calls.map(|(name, call)| Curve::line(name, call.added.clone())).collect();
    page.plot(&over_time("The call's added delay", "added delay (ms)", curves), None);
    for (act, seen) in ACTS.iter().zip(seen) {
        page.heading(&act.name(way).replace(' ', "-"), act.name(way));
        page.plot(&over_time("Throughput of each flow, over half seconds", "Mbit/s", seen.throughput.clone()), None);
        if !seen.window.is_empty() {
            let title = match way {
                Way::Down => "The download's window: the smaller of the server's own and the one in the client's acknowledgements",
                Way::Up => "The upload's window: the smaller of the client's own and the one in the server's acknowledgements",
            };
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
