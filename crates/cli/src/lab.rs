//! `lowtide lab`: a scenario on real network stacks, to a result folder. What the laboratory is, its crate knows.

pub mod controls;
pub mod interrupt;
pub mod pool;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use lowtide_lab::run::Options;
use lowtide_lab::{link, run, series, site};
use lowtide_scenario::{Part, Scenario, Summary};

use crate::human;
use crate::sim::Assignment;
use crate::stdout;

/// Run a scenario on this machine's real network stacks
///
/// Servers, programs and a link are made inside network namespaces of their own and are gone afterwards, also after Ctrl-C;
/// no setting of the machine is changed. Needs root.
#[derive(clap::Args)]
pub struct Args {
    /// The scenario, as `lowtide sim` reads it
    scenario: PathBuf,
    /// Where the result goes
    #[arg(long, value_name = "DIR", default_value = "lab-result")]
    out: PathBuf,
    /// Change one value of the scenario: topology.rtt_ms=60, flows.bulk.cc=bbr
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Assignment>,
    /// Print summary.json instead of a table
    #[arg(long)]
    json: bool,
}

pub fn main(args: &Args) -> Result<ExitCode> {
    let scenario = args.set.iter().try_fold(Scenario::load(&args.scenario)?, |scenario, set| scenario.with(&set.key, set.value()))?;
    let options = options()?;
    // Whether it can be written is known before the run, not after it.
    let unwritable = || format!("--out {}: cannot be written", args.out.display());
    let part = Part::begin(&args.out).with_context(unwritable)?;
    eprintln!("lowtide: {} runs for {}", scenario.name, human::span(scenario.duration_s));
    let controls = controls::Controls::load(std::iter::once(&scenario))?;
    let outcome = run::run(&scenario, &options)?;
    drop(controls);
    part.finish(&scenario.to_toml()?, &outcome.summary, Some(&series::of(&outcome))).with_context(unwritable)?;
    if args.json {
        stdout::line(serde_json::to_string_pretty(&outcome.summary)?)?;
    } else {
        stdout::print(table(&outcome.summary))?;
    }
    warn_if_stalled(&outcome.summary);
    Ok(ExitCode::SUCCESS)
}

/// Whether this process may make a laboratory.
pub fn may_run() -> Result<()> {
    site::ready().context(
        "the laboratory makes network namespaces and TUN devices, for which Linux wants root: run it with sudo, or the same scenario with `lowtide sim`",
    )
}

/// What every run of the laboratory needs, after it is certain that this process may make one.
pub fn options() -> Result<Options> {
    may_run()?;
    if !link::may_run_first() {
        eprintln!(
            "lowtide: the link cannot be put before other programs (SCHED_FIFO needs CAP_SYS_NICE, and a cgroup with real-time time): leave the machine otherwise idle"
        );
    }
    let lowtide = std::env::current_exe().context("where is this program?")?;
    Ok(Options { lowtide, stop: interrupt::flag()? })
}

/// Says so on stderr if the run says little about the network.
pub fn warn_if_stalled(summary: &Summary) {
    if let Some(late) = summary.lateness_ms.filter(|l| l.stalled) {
        eprintln!(
            "lowtide: the host was too busy (packets late by {:.2} ms at the median, {:.1} ms at p99, {:.0} ms at most; programs by {:.1} ms at p99, {:.0} ms at most), also when repeated: take these numbers with care",
            late.p50, late.p99, late.max, late.programs_p99, late.programs_max
        );
    }
}

fn table(summary: &Summary) -> String {
    let mut text = String::new();
    for b in &summary.bottlenecks {
        let d = &b.queue_delay_ms;
        let _ = writeln!(
            text,
            "{:<12} {:>5.1} % of {}; queueing {:.1} ms p50, {:.1} p95, {:.1} max; {} drops",
            b.name,
            b.utilisation * 100.0,
            human::rate(b.capacity_bps as u64),
            d.p50,
            d.p95,
            d.max,
            b.drops
        );
    }
    for f in &summary.flows {
        let _ = write!(
            text,
            "{:<12} {:<16} {:>12} {:>5.1} %  rtt {:>6.1} ms p50 {:>6.1} p95  {} sent again",
            f.name,
            f.cc,
            human::rate(f.goodput_bps as u64),
            f.share * 100.0,
            f.rtt_ms.p50,
            f.rtt_ms.p95,
            f.retransmits
        );
        let _ = f.completion_s.map(|s| write!(text, "  in {s:.2} s"));
        let _ =
            f.transfers.filter(|t| t.unfinished > 0).map(|t| write!(text, "  {} of {} not done", t.unfinished, t.finished + t.unfinished));
        let _ = f.jitter_ms.map(|ms| write!(text, "  jitter {ms:.2} ms"));
        text.push('\n');
    }
    let _ = writeln!(text, "Jain {:.3}, over seconds {:.3}", summary.jain, summary.jain_short);
    text
}
