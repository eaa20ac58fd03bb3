//! `lowtide papers`: runs the papers' experiments in the simulator and sets what was measured beside what was reported.

mod claims;
mod experiment;
mod measure;
mod page;
mod tracks;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use clap::Subcommand;
use lowtide_scenario::series::FLOWS;
use lowtide_scenario::{Scenario, Series, Summary};
use lowtide_units::Span;

use claims::Judge;
use experiment::{Claim, Experiment, Point};
use measure::Values;
use tracks::Derived;

/// Reproduces the papers' figures and tables.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
    /// The folder of experiments.
    #[arg(long, default_value = "papers", global = true)]
    experiments: PathBuf,
}

#[derive(Subcommand)]
enum Action {
    /// Name the experiments and how many claims each has.
    List,
    /// Run experiments (all, PAPER or PAPER/FIGURE) and write the report.
    Run(Run),
}

#[derive(clap::Args)]
struct Run {
    /// PAPER or PAPER/FIGURE; all if none.
    which: Vec<String>,
    /// Few points and one run each: enough to check a claim of every figure.
    #[arg(long)]
    quick: bool,
    /// Runs at a time; the machine's cores if absent.
    #[arg(long)]
    jobs: Option<usize>,
    /// Where results and the report go; what is there already is not run again.
    #[arg(long, default_value = "results/papers")]
    out: PathBuf,
    /// Print the claims as JSON.
    #[arg(long)]
    json: bool,
}

/// The subcommand.
pub fn main(args: &Args) -> Result<ExitCode> {
    match &args.action {
        Action::List => {
            for experiment in experiment::load_all(&args.experiments, &[])? {
                println!("{:<28} {} ({} claims)", experiment.id, experiment.title, experiment.claims.len());
            }
            Ok(ExitCode::SUCCESS)
        }
        Action::Run(run) => run_all(run, &experiment::load_all(&args.experiments, &run.which)?),
    }
}

/// A point with what was measured there.
pub struct Measured {
    point: Point,
    values: Values,
    /// Of the first run, where a plot over time draws it.
    series: Option<Series>,
}

/// A claim and what became of it.
pub struct Verdict<'a> {
    claim: &'a Claim,
    /// Met or not; none where a quick run has no point for it.
    met: Option<bool>,
}

/// One simulation that is owed.
struct Job<'a> {
    experiment: &'a Experiment,
    scenario: Scenario,
    dir: PathBuf,
    /// Whether its series are drawn.
    keep: bool,
}

fn run_all(run: &Run, experiments: &[Experiment]) -> Result<ExitCode> {
    let began = Instant::now();
    let jobs = experiments.iter().map(|e| jobs_of(run, e)).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect::<Vec<_>>();
    simulate(&jobs, run.jobs)?;
    let mut results = Vec::new();
    for experiment in experiments {
        let measured = read_back(run, experiment)?;
        let verdicts = judge(run, experiment, &measured)?;
        results.push((experiment, measured, verdicts));
    }
    let report = page::write(&run.out, run.quick, &results)?;
    let (mut met, mut decided, mut unexplained) = (0, 0, 0);
    for (experiment, _, verdicts) in &results {
        for verdict in verdicts {
            met += usize::from(verdict.met == Some(true));
            decided += usize::from(verdict.met.is_some());
            unexplained += usize::from(verdict.met == Some(false) && verdict.claim.explained.is_none());
            if !run.json {
                println!("{}", line_of(experiment, verdict));
            }
        }
    }
    if run.json {
        println!("{}", serde_json::to_string_pretty(&as_json(&results))?);
    }
    eprintln!("{met} of {decided} claims met, {unexplained} of the others without an explanation; {:.0} s", began.elapsed().as_secs_f64());
    eprintln!("report: {}", report.display());
    Ok(ExitCode::SUCCESS)
}

fn line_of(experiment: &Experiment, verdict: &Verdict) -> String {
    let mark = match verdict.met {
        Some(true) => "met",
        Some(false) if verdict.claim.explained.is_some() => "not met, explained",
        Some(false) => "NOT MET",
        None => "needs the full run",
    };
    format!("{:<28} {:<4} {mark:<19} {}", experiment.id, verdict.claim.id, verdict.claim.says)
}

fn as_json(results: &[(&Experiment, Vec<Measured>, Vec<Verdict>)]) -> serde_json::Value {
    let claims = results.iter().flat_map(|(experiment, _, verdicts)| {
        verdicts.iter().map(move |v| {
            serde_json::json!({
                "experiment": experiment.id, "claim": v.claim.id, "says": v.claim.says, "place": v.claim.place,
                "rule": v.claim.rule, "met": v.met, "explained": v.claim.explained,
            })
        })
    });
    serde_json::Value::Array(claims.collect())
}

fn repetitions(run: &Run, experiment: &Experiment) -> u32 {
    if run.quick { 1 } else { experiment.repeat }
}

fn dir_of(run: &Run, experiment: &Experiment, point: &Point, seed: u32) -> PathBuf {
    run.out.join(&experiment.id).join(point.label().replace([' ', '/'], "_")).join(format!("seed-{seed}"))
}

fn jobs_of<'a>(run: &Run, experiment: &'a Experiment) -> Result<Vec<Job<'a>>> {
    let text = toml::to_string(&experiment.scenario)?;
    let base = Scenario::parse(&text).with_context(|| experiment.id.clone())?;
    let mut jobs = Vec::new();
    for point in experiment.points(run.quick) {
        let mut scenario = base.clone();
        for (key, value) in &point.set {
            scenario = scenario.with(key, value.clone()).with_context(|| format!("{}, {}", experiment.id, point.label()))?;
        }
        scenario.name = format!("{} {}", experiment.id, point.label());
        for seed in 1..=repetitions(run, experiment) {
            scenario.seed = u64::from(seed);
            let keep = seed == 1 && experiment.draws_series();
            jobs.push(Job { experiment, scenario: scenario.clone(), dir: dir_of(run, experiment, &point, seed), keep });
        }
    }
    Ok(jobs)
}

/// Runs what has no result of this very scenario yet.
fn simulate(jobs: &[Job], threads: Option<usize>) -> Result<()> {
    let owed: Vec<&Job> = jobs.iter().filter(|job| !job.is_done()).collect();
    let (next, failed, began) = (AtomicUsize::new(0), Mutex::new(None), Instant::now());
    let threads = threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1).max(1);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((i, job)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, owed.get(i)?))) {
                    if let Err(e) = job.run() {
                        failed.lock().expect("no panic holds it").get_or_insert(e);
                        return;
                    }
                    progress(i + 1, owed.len(), began);
                }
            });
        }
    });
    failed.into_inner().map_err(|_| anyhow!("a simulation panicked"))?.map_or(Ok(()), Err)
}

fn progress(done: usize, all: usize, began: Instant) {
    let spent = began.elapsed().as_secs_f64();
    let left = spent / done as f64 * (all - done) as f64;
    if done == all || done.is_multiple_of((all / 200).max(1)) {
        eprint!("\r{done} of {all} runs, {left:.0} s left   {}", if done == all { "\n" } else { "" });
    }
}

impl Job<'_> {
    fn text(&self) -> Result<String> {
        toml::to_string(&self.scenario).context("a scenario that cannot be written")
    }

    fn is_done(&self) -> bool {
        let same = |text: String| fs::read_to_string(self.dir.join("scenario.toml")).is_ok_and(|had| had == text);
        let derived = || Derived::read(&self.dir).is_some_and(|had| had.serves(self.experiment));
        self.text().is_ok_and(same)
            && Summary::read(&self.dir).is_ok()
            && (!self.needs_series() || derived())
            && (!self.keep || self.dir.join(FLOWS).exists())
    }

    fn needs_series(&self) -> bool {
        self.keep || !self.experiment.derive.is_empty()
    }

    fn run(&self) -> Result<()> {
        let interval = self.needs_series().then(|| Span::from_millis_f64(self.experiment.series_ms));
        let named = || self.scenario.name.clone();
        let outcome = lowtide_sim::run_sampled(&self.scenario, self.scenario.seed, interval).with_context(named)?;
        fs::create_dir_all(&self.dir)?;
        if self.needs_series() {
            let seen = measure::of_run(&outcome.summary).to_map(&Point::default());
            Derived::new(self.experiment, seen, &outcome.series).with_context(named)?.write(&self.dir)?;
        }
        if self.keep {
            outcome.series.write(&self.dir)?;
        }
        fs::write(self.dir.join("scenario.toml"), self.text()?)?;
        outcome.summary.write(&self.dir).with_context(|| format!("{}: cannot be written", self.dir.display()))
    }
}

fn read_back(run: &Run, experiment: &Experiment) -> Result<Vec<Measured>> {
    let read = |point: Point| {
        let one = |seed| {
            let dir = dir_of(run, experiment, &point, seed);
            let mut values = measure::of_run(&Summary::read(&dir)?);
            if !experiment.derive.is_empty() {
                values.whole.extend(Derived::read(&dir).context("no derived values")?.values(experiment));
            }
            Ok(values)
        };
        let runs = (1..=repetitions(run, experiment)).map(one).collect::<Result<Vec<_>>>()?;
        let series = if experiment.draws_series() { Series::read(&dir_of(run, experiment, &point, 1))? } else { None };
        Ok(Measured { values: Values::mean(&runs), point, series })
    };
    experiment.points(run.quick).into_iter().map(read).collect()
}

fn judge<'a>(run: &Run, experiment: &'a Experiment, measured: &[Measured]) -> Result<Vec<Verdict<'a>>> {
    let judge = Judge::new(measured.iter().map(|m| m.values.to_map(&m.point)).collect());
    let verdict = |claim: &'a Claim| {
        if run.quick && !claim.quick {
            return Ok(Verdict { claim, met: None });
        }
        let met = judge.holds(&claim.rule).with_context(|| format!("{}#{}", experiment.id, claim.id))?;
        Ok(Verdict { claim, met: Some(met) })
    };
    experiment.claims.iter().map(verdict).collect()
}

/// Refuses a report folder that holds something else.
fn ensure_dir(dir: &Path) -> Result<()> {
    if dir.exists() && !dir.is_dir() {
        bail!("{}: is not a folder; name another with --out", dir.display());
    }
    fs::create_dir_all(dir).with_context(|| format!("{}: cannot be made", dir.display()))
}
