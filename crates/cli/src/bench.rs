//! `lowtide bench`: suites of measurements in the laboratory, set beside what they must reach and what the paper reports. Says in
//! which order things are done; rows, numbers and tables are in `bench/`.

mod measured;
mod show;
mod suite;
mod values;

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use lowtide_lab::run::{self, Options};
use lowtide_lab::series;
use lowtide_scenario::{ResultDir, Scenario};

use self::suite::{Row, Table};
use crate::{human, lab};

/// Measure a suite in the laboratory and set it beside what it must reach
///
/// A suite is a folder of `bench/`: `receive` is what `lowtide run` does to others and for itself, `link` is how exact the
/// laboratory is. Each row is run several times on real network stacks; a run that the host stalled is repeated, and if it stays
/// so it is marked and left out. Needs root.
#[derive(clap::Args)]
pub struct Args {
    /// The suite
    suite: String,
    /// Only rows whose name begins so; can be given several times
    #[arg(long, value_name = "ROW")]
    only: Vec<String>,
    /// Seconds of each run that count, after the scenario's own warm-up
    #[arg(long, value_name = "N")]
    seconds: Option<f64>,
    /// Runs a row
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: u32,
    /// Runs at a time; each needs about a fifth of a processor for 20 Mbit/s
    #[arg(long, value_name = "N", default_value_t = 4)]
    jobs: usize,
    /// Run nothing: show the results that are kept
    #[arg(long)]
    kept: bool,
    /// Print the numbers as JSON
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print them as a page of documentation
    #[arg(long)]
    markdown: bool,
    /// The folder of suites
    #[arg(long, value_name = "DIR", default_value = "bench")]
    suites: PathBuf,
    /// Where results are kept, a folder a run
    #[arg(long, value_name = "DIR", default_value = "results/bench")]
    out: PathBuf,
}

pub fn main(args: &Args) -> Result<ExitCode> {
    let tables = suite::load(&args.suites.join(&args.suite), &args.only)?;
    let out = args.out.join(&args.suite);
    if args.runs == 0 || args.jobs == 0 {
        bail!("--runs and --jobs must be above 0");
    }
    if !args.kept {
        let options = lab::options()?;
        run_all(&owed(args, &tables, &out)?, args.jobs, &options)?;
    }
    let parts = tables.iter().map(|table| Ok((table, measured::read(table, &out)?))).collect::<Result<Vec<_>>>()?;
    if args.json {
        let rows: Vec<_> = parts.iter().flat_map(|(_, rows)| rows).collect();
        println!("{}", serde_json::to_string_pretty(&serde_json::json!({ "schema": 1, "suite": args.suite, "rows": rows }))?);
    } else if args.markdown {
        print!("{}", show::markdown(&parts));
    } else {
        print!("{}", show::text(&parts));
    }
    let numbers = || parts.iter().flat_map(|(_, rows)| rows).flat_map(|row| &row.numbers);
    let (asked, missed) = (numbers().filter(|n| n.met.is_some()).count(), numbers().filter(|n| n.met == Some(false)).count());
    eprintln!("lowtide: {} of {asked} bounds met", asked - missed);
    Ok(ExitCode::SUCCESS)
}

/// Between the starts of the first runs: a laboratory that starts loads programs into the kernel, and its neighbour, in slow start
/// just then, would take the host's delay for a queue.
const APART: Duration = Duration::from_secs(3);

/// One run that is owed.
struct Owed {
    scenario: Scenario,
    dir: PathBuf,
}

/// The runs, each row's first run before anyone's second: what goes wrong shows early.
fn owed(args: &Args, tables: &[Table], out: &std::path::Path) -> Result<Vec<Owed>> {
    let rows: Vec<(&Row, &Scenario)> = tables.iter().flat_map(|t| &t.rows).filter_map(|row| Some((row, row.scenario.as_ref()?))).collect();
    for (row, _) in &rows {
        let dir = out.join(&row.name);
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("{}: the results of before cannot be removed", dir.display()))?;
        }
    }
    let runs = (1..=args.runs).flat_map(|run| rows.iter().map(move |(row, scenario)| (run, *row, *scenario)));
    let owed = |(run, row, scenario): (u32, &Row, &Scenario)| Owed {
        scenario: Scenario {
            seed: u64::from(run),
            duration_s: args.seconds.map_or(scenario.duration_s, |seconds| scenario.warmup_s + seconds),
            ..scenario.clone()
        },
        dir: measured::dir(out, row, run),
    };
    Ok(runs.map(owed).collect())
}

fn run_all(owed: &[Owed], jobs: usize, options: &Options) -> Result<()> {
    let (next, failed, progress) = (AtomicUsize::new(0), Mutex::new(None), Mutex::new(Progress::new(owed, jobs)));
    std::thread::scope(|scope| {
        for worker in 0..jobs.min(owed.len()) {
            let (next, failed, progress) = (&next, &failed, &progress);
            scope.spawn(move || {
                std::thread::sleep(APART * worker as u32);
                while let Some(one) = owed.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if lock(failed).is_some() || options.stop.load(Ordering::Relaxed) {
                        return;
                    }
                    match run_one(one, options) {
                        Ok(stalled) => lock(progress).step(one, stalled),
                        Err(e) => {
                            lock(failed).get_or_insert(e.context(one.scenario.name.clone()));
                        }
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// A poisoned lock only means that another run died, which is reported.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs one and keeps its result; whether the host stalled it, also when repeated.
fn run_one(one: &Owed, options: &Options) -> Result<bool> {
    let outcome = run::run(&one.scenario, options)?;
    ResultDir::write(&one.dir, &one.scenario.to_toml()?, &outcome.summary, Some(&series::of(&outcome)))?;
    Ok(outcome.summary.lateness_ms.is_some_and(|l| l.stalled))
}

/// How far the runs are, on stderr: one line that changes on a terminal, one a run elsewhere.
struct Progress {
    done: usize,
    all: usize,
    seconds_done: f64,
    seconds_all: f64,
    start: Instant,
}

impl Progress {
    #[expect(clippy::disallowed_methods, reason = "the time left is for people")]
    fn new(owed: &[Owed], jobs: usize) -> Progress {
        let seconds_all: f64 = owed.iter().map(|o| o.scenario.duration_s).sum();
        eprintln!("lowtide: {} runs, about {}", owed.len(), human::span(seconds_all / jobs.min(owed.len()).max(1) as f64));
        Progress { done: 0, all: owed.len(), seconds_done: 0.0, seconds_all, start: Instant::now() }
    }

    fn step(&mut self, one: &Owed, stalled: bool) {
        self.done += 1;
        self.seconds_done += one.scenario.duration_s;
        let left = self.start.elapsed().as_secs_f64() / self.seconds_done * (self.seconds_all - self.seconds_done);
        let (start, end) = if std::io::stderr().is_terminal() { ("\r", if self.done == self.all { "\n" } else { "" }) } else { ("", "\n") };
        let note = if stalled { ", stalled by the host" } else { "" };
        eprint!(
            "{start}{} of {}: {} run {}{note}; about {} left   {end}",
            self.done,
            self.all,
            one.scenario.name,
            one.scenario.seed,
            human::span(left)
        );
        // Nobody is harmed by a progress line that cannot be written.
        let _ = std::io::stderr().flush();
    }
}
