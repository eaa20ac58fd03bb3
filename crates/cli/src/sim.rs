//! `lowtide sim`: runs scenarios in the simulator, alone or as sweeps. Knows files, threads and the clock; the simulator knows
//! none of them.

mod sweep;
mod table;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Parser;
use lowtide_scenario::{Part, ResultDir, Scenario, Summary};
use lowtide_sim::run::INTERVAL;
use lowtide_sim::trace::Request;

use crate::human;
use sweep::{Assignment, Run};

/// Runs a scenario in the simulator and prints what each flow got.
///
/// The same scenario and seed give the same result on every machine. With `--out`, a run that is already there is not
/// repeated: an interrupted sweep goes on where it stopped.
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
    #[arg(long, default_value_t = 1, value_name = "N")]
    repeat: u64,
    /// Runs at the same time; as many as there are processors if absent.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
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
        print!("{}", table::list());
        return Ok(ExitCode::SUCCESS);
    }
    let Some(file) = &args.scenario else { bail!("which scenario? `lowtide sim SCENARIO.toml`, or `--list`") };
    let mut scenario = Scenario::load(file)?;
    for assignment in &args.set {
        scenario = scenario.with(&assignment.key, assignment.value())?;
    }
    let runs = sweep::expand(&scenario, &args.sweep, args.repeat)?;
    let summaries = run_all(&runs, args)?;
    for (run, summary) in runs.iter().zip(&summaries) {
        if args.json {
            println!("{}", serde_json::to_string(summary)?);
        } else if runs.len() == 1 {
            print!("{}", table::one(summary));
        } else {
            print!("{}", table::line(&run.name, summary));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn run_all(runs: &[Run], args: &Args) -> Result<Vec<Summary>> {
    let threads = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, Into::into)).clamp(1, runs.len().max(1));
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<Result<Summary>>>> = Mutex::new((0..runs.len()).map(|_| None).collect());
    let progress = Mutex::new(Progress::new(runs.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((n, run)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, runs.get(n)?))) {
                    let result = run_one(run, args, runs.len() > 1);
                    let repeated = matches!(&result, Ok((_, false)));
                    done.lock().unwrap_or_else(PoisonError::into_inner)[n] = Some(result.map(|(summary, _)| summary));
                    progress.lock().unwrap_or_else(PoisonError::into_inner).step(repeated);
                }
            });
        }
    });
    progress.into_inner().unwrap_or_else(PoisonError::into_inner).end();
    let results = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().zip(runs).map(|(result, run)| result.context("a run was lost")?.with_context(|| run.name.clone())).collect()
}

/// The summary of one run, and whether it had to be computed.
fn run_one(run: &Run, args: &Args, several: bool) -> Result<(Summary, bool)> {
    let Some(out) = &args.out else { return Ok((lowtide_sim::run(&run.scenario, run.seed, false)?.summary, true)) };
    let dir = if several { out.join(run.folder()) } else { out.to_owned() };
    let text = toml::to_string(&Scenario { seed: run.seed, ..run.scenario.clone() })?;
    let traced = args.traces(&dir).files().iter().all(|file| dir.join(file).exists());
    if let Some(there) = ResultDir::read(&dir).ok().filter(|there| traced && there.scenario == text) {
        return Ok((there.summary, false));
    }
    let part = Part::begin(&dir).with_context(|| dir.display().to_string())?;
    let outcome = lowtide_sim::run_watched(&run.scenario, run.seed, Some(INTERVAL), &args.traces(part.path()))?;
    part.finish(&text, &outcome.summary, Some(&outcome.series)).with_context(|| dir.display().to_string())?;
    Ok((outcome.summary, true))
}

impl Args {
    /// What is to be written of each packet, to `folder`.
    fn traces(&self, folder: &Path) -> Request {
        let snaplen = if self.snaplen == 0 { WHOLE } else { self.snaplen };
        Request { folder: folder.to_owned(), pcap: self.pcap.then_some(snaplen), qlog: self.qlog, events: self.events }
    }
}

/// More than the largest IP packet.
const WHOLE: u32 = 1 << 18;

/// A line on a terminal that says how far the runs are.
struct Progress {
    total: usize,
    done: usize,
    computed: usize,
    start: Instant,
    shown: bool,
}

impl Progress {
    #[expect(clippy::disallowed_methods, reason = "the time left is for people")]
    fn new(total: usize) -> Progress {
        Progress { total, done: 0, computed: 0, start: Instant::now(), shown: total > 1 && std::io::stderr().is_terminal() }
    }

    fn step(&mut self, repeated: bool) {
        self.done += 1;
        self.computed += usize::from(!repeated);
        if !self.shown {
            return;
        }
        let left = match self.computed {
            0 => 0.0,
            computed => self.start.elapsed().as_secs_f64() / computed as f64 * (self.total - self.done) as f64,
        };
        eprint!("\r{} of {} runs, about {} left   ", self.done, self.total, human::span(left));
        // Nobody is harmed by a progress line that cannot be written.
        let _ = std::io::stderr().flush();
    }

    fn end(&self) {
        if self.shown {
            eprintln!("\r{} runs in {}{:20}", self.total, human::span(self.start.elapsed().as_secs_f64()), "");
        }
    }
}
