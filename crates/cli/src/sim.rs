//! `lowtide sim`: runs scenarios in the simulator, alone or as sweeps. Knows files, threads and the clock; the simulator knows
//! none of them.

pub mod pool;
mod progress;
mod sweep;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use lowtide_scenario::{Part, ResultDir, Scenario, ScenarioError, Summary};
use lowtide_sim::run::INTERVAL;
use lowtide_sim::trace::Request;

use crate::made_by;
use crate::stdout;
pub use sweep::Assignment;
use sweep::Run;

/// Run a scenario in the simulator and print what each flow got.
///
/// The same scenario and seed give the same result on every machine. With `--out`, a run that this build has already made is
/// not repeated: an interrupted sweep goes on where it stopped.
#[derive(Parser)]
pub struct Args {
    /// The scenario (TOML).
    #[arg(required_unless_present = "list", value_name = "SCENARIO.toml")]
    scenario: Option<PathBuf>,
    /// Sets a value: `topology.rtt_ms=50`, `flows.bulk.cc=cubic`.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Assignment>,
    /// Runs once for each value; several sweeps are combined.
    #[arg(long, value_name = "KEY=A,B,C")]
    sweep: Vec<Assignment>,
    /// Runs each N times, with the seeds seed, seed + 1, ….
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    repeat: u64,
    /// Runs at the same time; as many as there are processors if absent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    jobs: Option<u64>,
    /// Writes each run's summary, series (Parquet) and scenario to this folder, or to one a run below it.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Writes what tcpdump would see at both ends: server.pcap and client.pcap in the result's folder
    #[arg(long, requires = "out")]
    pcap: bool,
    /// Bytes kept of each packet of --pcap; 0 keeps all, so that Wireshark can verify TCP's checksums too
    #[arg(long, value_name = "BYTES", default_value_t = 128, requires = "pcap")]
    snaplen: u32,
    /// Writes each connection's recovery metrics and packets as qlog: qlog/NAME.sqlog
    #[arg(long, requires = "out")]
    qlog: bool,
    /// Writes what happened to each packet, with the queue's length: events.parquet
    #[arg(long, requires = "out")]
    events: bool,
    /// Prints the summaries as JSON, one a line.
    #[arg(long)]
    json: bool,
    /// Names congestion controls, queue disciplines and topologies.
    #[arg(long)]
    list: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// A scenario that cannot be run, or a folder that cannot be written.
pub fn main(args: &Args) -> Result<ExitCode> {
    if args.list {
        stdout::print(table::list())?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(file) = &args.scenario else { bail!("which scenario? `lowtide sim SCENARIO.toml`, or `--list`") };
    let mut scenario = Scenario::load(file)?;
    for assignment in &args.set {
        scenario = scenario.with(&assignment.key, assignment.value())?;
    }
    let runs = sweep::expand(&scenario, &args.sweep, args.repeat)?;
    // All of a sweep before any of it: its last run may be hours away.
    for run in &runs {
        lowtide_sim::check(&run.scenario).map_err(|e| args.placed(e, file))?;
    }
    if let Some(out) = &args.out {
        fs::create_dir_all(out).with_context(|| format!("--out {}: must be a folder that can be written", out.display()))?;
    }
    let summaries = run_all(&runs, args)?;
    for (run, summary) in runs.iter().zip(&summaries) {
        if args.json {
            stdout::line(serde_json::to_string(summary)?)?;
        } else if runs.len() == 1 {
            stdout::print(table::one(summary))?;
        } else {
            stdout::print(table::line(&run.name, summary))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn run_all(runs: &[Run], args: &Args) -> Result<Vec<Summary>> {
    let results = pool::each(runs.len(), args.jobs.map(|jobs| jobs as usize), |n, told| {
        let result = run_one(&runs[n], args, runs.len() > 1, told);
        let found = matches!(&result, Ok((_, false)));
        (result.map(|(summary, _)| summary), found)
    });
    results.into_iter().zip(runs).map(|(result, run)| result.with_context(|| run.name.clone())).collect()
}

/// The summary of one run, and whether it had to be computed.
fn run_one(run: &Run, args: &Args, several: bool, told: &dyn Fn(f64)) -> Result<(Summary, bool)> {
    let Some(out) = &args.out else {
        return Ok((lowtide_sim::run_watched(&run.scenario, run.seed, None, &Request::default(), told)?.summary, true));
    };
    let dir = if several { out.join(run.folder()) } else { out.to_owned() };
    let text = made_by::sign(&toml::to_string(&Scenario { seed: run.seed, ..run.scenario.clone() })?);
    let traced = args.traces(&dir).files().iter().all(|file| dir.join(file).exists());
    if let Some(there) = ResultDir::read(&dir).ok().filter(|there| traced && there.scenario == text) {
        return Ok((there.summary, false));
    }
    let part = Part::begin(&dir).with_context(|| dir.display().to_string())?;
    let outcome = lowtide_sim::run_watched(&run.scenario, run.seed, Some(INTERVAL), &args.traces(part.path()), told)?;
    part.finish(&text, &outcome.summary, Some(&outcome.series)).with_context(|| dir.display().to_string())?;
    Ok((outcome.summary, true))
}

impl Args {
    /// With the file and the line, unless the value is one of the command line's.
    fn placed(&self, error: ScenarioError, file: &Path) -> ScenarioError {
        let given = error.key().is_some_and(|key| self.set.iter().chain(&self.sweep).any(|a| a.key == key));
        if given { error } else { error.in_file(file) }
    }

    /// What is to be written of each packet, to `folder`.
    fn traces(&self, folder: &Path) -> Request {
        let snaplen = if self.snaplen == 0 { WHOLE } else { self.snaplen };
        Request { folder: folder.to_owned(), pcap: self.pcap.then_some(snaplen), qlog: self.qlog, events: self.events }
    }
}

/// More than the largest IP packet.
const WHOLE: u32 = 1 << 18;
