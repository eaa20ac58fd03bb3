//! `lowtide bench`: suites of measurements in the laboratory, set beside what they must reach and what the paper reports. Says in
//! which order things are done; rows, numbers and tables are in `bench/`.

mod bound;
mod measured;
mod show;
mod side_by_side;
mod suite;
mod tables;
mod values;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use lowtide_lab::outcome::Outcome;
use lowtide_lab::series;
use lowtide_scenario::{ResultDir, Scenario};

use self::suite::{Row, Table};
use crate::held_back::held_back;
use crate::lab;
use crate::lab::pool::{self, Run};
use crate::stdout;

/// Measure a suite in the laboratory and set it beside what it must reach
///
/// A suite is a folder of `bench/`: `receive` is what `lowtide run` does to others and for itself, `link` is how exact the
/// laboratory is, `utp` is uTP, real beside simulated; `scavenger` sets controls side by side in the simulator, `scavenger/lab` on real
/// network stacks. In the laboratory each row is run several times; a run that the host stalled is repeated, and if it stays
/// so it is marked and left out. The laboratory needs root.
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
    /// Runs a row, in the simulator seeds [3, in the simulator the suite's own]
    #[arg(long, value_name = "N")]
    runs: Option<u32>,
    /// Runs at a time; each needs about a fifth of a processor for 20 Mbit/s, in the simulator a whole one [4, in the simulator the processors]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// In the simulator: a fifth of each row's lines, with few seeds
    #[arg(long)]
    quick: bool,
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
    let (folder, out) = (args.suites.join(&args.suite), args.out.join(&args.suite));
    if args.runs == Some(0) || args.jobs == Some(0) {
        bail!("--runs and --jobs must be above 0");
    }
    if side_by_side::is_one(&folder) {
        return side_by_side::main(&args.side_by_side(&folder, &out)?);
    }
    if args.quick {
        bail!("--quick: the laboratory runs in real time; `--seconds` and `--runs` make it shorter");
    }
    let tables = suite::load(&folder, &args.only)?;
    if !args.kept {
        let options = lab::options()?;
        pool::run_all(&owed(args, &tables, &out)?, args.jobs.unwrap_or(4), &options)?;
    }
    let parts = tables.iter().map(|table| Ok((table, measured::read(table, &out)?))).collect::<Result<Vec<_>>>()?;
    if args.json {
        let rows: Vec<_> = parts.iter().flat_map(|(_, rows)| rows).collect();
        stdout::line(serde_json::to_string_pretty(&serde_json::json!({ "schema": 1, "suite": args.suite, "rows": rows }))?)?;
    } else if args.markdown {
        stdout::print(show::markdown(&parts))?;
    } else {
        stdout::print(show::text(&parts))?;
    }
    let numbers = || parts.iter().flat_map(|(_, rows)| rows).flat_map(|row| &row.numbers);
    let (asked, missed) = (numbers().filter(|n| n.met.is_some()).count(), numbers().filter(|n| n.met == Some(false)).count());
    eprintln!("lowtide: {} of {asked} bounds met", asked - missed);
    Ok(ExitCode::SUCCESS)
}

/// Runs the same scenario in the simulator.
fn simulate(scenario: &Scenario, dir: &Path) -> Result<()> {
    let scenario = held_back(scenario.clone());
    let outcome = lowtide_sim::run::run(&scenario, scenario.seed, false)?;
    Ok(ResultDir::write(dir, &scenario.to_toml()?, &outcome.summary, None)?)
}

impl Args {
    fn side_by_side<'a>(&'a self, folder: &'a Path, out: &'a Path) -> Result<side_by_side::Request<'a>> {
        if self.seconds.is_some() {
            bail!("--seconds: the rows of this suite say themselves how long they take; `--quick` makes it shorter");
        }
        Ok(side_by_side::Request {
            folder,
            only: &self.only,
            quick: self.quick,
            seeds: self.runs.map(u64::from),
            jobs: self.jobs,
            kept: self.kept,
            json: self.json,
            markdown: self.markdown,
            out,
        })
    }
}

/// The runs, each row's first run before anyone's second: what goes wrong shows early.
fn owed(args: &Args, tables: &[Table], out: &Path) -> Result<Vec<Run<'static>>> {
    let rows: Vec<(&Row, &Scenario)> = tables.iter().flat_map(|t| &t.rows).filter_map(|row| Some((row, row.scenario.as_ref()?))).collect();
    for (row, _) in &rows {
        let dir = out.join(&row.name);
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("{}: the results of before cannot be removed", dir.display()))?;
        }
    }
    let runs = (1..=args.runs.unwrap_or(3)).flat_map(|run| rows.iter().map(move |(row, scenario)| (run, *row, *scenario)));
    let owed = |(run, row, scenario): (u32, &Row, &Scenario)| {
        let scenario = Scenario {
            seed: u64::from(run),
            duration_s: args.seconds.map_or(scenario.duration_s, |seconds| scenario.warmup_s + seconds),
            ..scenario.clone()
        };
        let (text, dir) = (scenario.to_toml()?, measured::dir(out, row, run));
        let beside = row.measures.iter().any(|measure| values::needs_simulation(&measure.value)).then(|| scenario.clone());
        let keep = Box::new(move |outcome: &Outcome| {
            ResultDir::write(&dir, &text, &outcome.summary, Some(&series::of(outcome)))?;
            beside.iter().try_for_each(|scenario| simulate(scenario, &dir.join(values::SIMULATED)))
        });
        Ok(Run { label: row.name.clone(), scenario, keep })
    };
    runs.map(owed).collect()
}
