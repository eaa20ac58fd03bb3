//! `lowtide papers`: runs the papers' experiments and sets what was measured beside what was reported.

mod axes;
mod claim;
mod conclusions;
mod costs;
mod experiment;
mod figure;
mod fragile;
mod jobs;
mod judged;
mod judging;
mod lab;
mod lessons;
mod measure;
mod metrics;
mod outcome;
mod page;
mod point;
mod points;
mod progress;
mod record;
mod rule;
mod units;
mod verdict;
mod words;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Subcommand;

use crate::stdout;
use costs::Costs;
use experiment::Experiment;
use fragile::Change;
use outcome::Outcome;
use page::Beside;
use points::{Extent, Profile};
use record::Recorded;

/// Reproduce the papers' figures and tables.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
    /// The folder of experiments.
    #[arg(long, value_name = "DIR", default_value = "papers", global = true)]
    experiments: PathBuf,
    /// Where results and the report go; what this build has already run is not run again.
    #[arg(long, value_name = "DIR", default_value = "results/papers", global = true)]
    out: PathBuf,
}

#[derive(Subcommand)]
enum Action {
    /// Name the experiments, how many claims each has, and what its full run costs; L marks those that also run in the laboratory.
    List,
    /// Run experiments (all, PAPER or PAPER/FIGURE) and write the report.
    Run(Run),
    /// Run what their verdicts hang on again, with other seeds and with changes of one per cent: which of them stand.
    Fragile(Fragile),
    /// Write the report of the results that are there.
    Report,
}

#[derive(clap::Args)]
struct Run {
    /// PAPER or PAPER/FIGURE; all if none.
    which: Vec<String>,
    /// Few points and one run each: enough to check a claim of every figure.
    #[arg(long, conflicts_with = "lab")]
    quick: bool,
    /// Leave out the costliest figures, so that the others take about so many minutes here: `papers list` shows what each costs.
    #[arg(long, value_name = "MIN", conflicts_with_all = ["quick", "lab"], value_parser = clap::value_parser!(u32).range(1..))]
    within: Option<u32>,
    /// Run the rows marked L with real kernels too; needs root.
    #[arg(long)]
    lab: bool,
    /// Simulations at a time; the machine's cores if absent.
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1024))]
    jobs: Option<usize>,
    /// Laboratory runs at a time; each needs about a fifth of a processor for 20 Mbit/s.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=64))]
    lab_jobs: usize,
    /// Fail if a claim is not met and not explained, or if a verdict is not the recorded one.
    #[arg(long, conflicts_with = "record")]
    check: bool,
    /// Record the verdicts beside the experiments, for `--check` to compare.
    #[arg(long)]
    record: bool,
    /// Print the claims as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Fragile {
    /// PAPER or PAPER/FIGURE; all if none.
    which: Vec<String>,
    /// The points of the quick set only.
    #[arg(long)]
    quick: bool,
    /// Record what they say beside the experiments, for every report to show; after each figure, so that nothing is lost.
    #[arg(long)]
    record: bool,
    /// Only the verdicts of which no rerun is kept yet.
    #[arg(long)]
    left: bool,
    /// Run nothing: say which verdicts are left and what their reruns would take.
    #[arg(long, conflicts_with = "record")]
    dry_run: bool,
    /// Simulations at a time; the machine's cores if absent.
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1024))]
    jobs: Option<usize>,
}

/// Where results lie.
pub struct Folders {
    /// The simulator's results, and the report.
    pub out: PathBuf,
    /// The experiments, and what is recorded of them.
    pub experiments: PathBuf,
}

impl Folders {
    /// The laboratory's results.
    pub fn lab(&self) -> PathBuf {
        self.out.join("lab")
    }

    /// The simulator's results of the laboratory's scenarios.
    pub fn twins(&self) -> PathBuf {
        self.out.join("lab-sim")
    }
}

/// The subcommand.
pub fn main(args: &Args) -> Result<ExitCode> {
    let folders = Folders { out: args.out.clone(), experiments: args.experiments.clone() };
    match &args.action {
        Action::List => {
            let costs = Costs::read(&args.experiments)?;
            let mut whole = 0.0;
            for experiment in experiment::load_all(&args.experiments, &[])? {
                let lab = if experiment.lab.is_some() { 'L' } else { ' ' };
                let (claims, seconds) = (experiment.claims.len(), costs.seconds(&experiment));
                whole += seconds.unwrap_or(0.0);
                let cost = seconds.map_or_else(|| "?".to_owned(), |s| format!("{s:.0} s"));
                stdout::line(format_args!("{:<28} {lab} {cost:>6}  {} ({claims} claims)", experiment.id, experiment.title))?;
            }
            stdout::line(format_args!("{:<28}   {whole:>4.0} s  of one core, by the simulated events that are recorded", "all of these"))?;
        }
        Action::Run(run) => return run_wanted(run, &folders, &args.experiments),
        Action::Fragile(wanted) => {
            let experiments = experiment::load_all(&args.experiments, &wanted.which)?;
            let extent = if wanted.quick { Extent::Quick } else { Extent::Full };
            let how = fragile::rerun::How { extent, threads: wanted.jobs, left: wanted.left, record: wanted.record };
            if wanted.dry_run {
                stdout::print(fragile::plan::of(&folders, &experiments, &wanted.which, how)?)?;
                return Ok(ExitCode::SUCCESS);
            }
            fragile::rerun::run(&folders, &experiments, &wanted.which, how)?;
            let outcomes = judged(&folders, &experiments)?;
            let mine: Vec<&Outcome> = outcomes.iter().filter(|o| experiment::is_wanted(o.experiment, &wanted.which)).collect();
            stdout::print(claims(&mine))?;
            eprintln!("report: {}", page::write(&folders.out, &outcomes, &Beside::load(&args.experiments, &experiments)?)?.display());
        }
        Action::Report => {
            let experiments = experiment::load_all(&args.experiments, &[])?;
            let outcomes = judged(&folders, &experiments)?;
            if outcomes.iter().all(|o| o.extent.is_none()) {
                bail!("{}: no complete result of any experiment; `lowtide papers run` makes them", folders.out.display());
            }
            stdout::line(page::write(&folders.out, &outcomes, &Beside::load(&args.experiments, &experiments)?)?.display())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// All that there is, read and judged; says so, for it takes its time, and how much of it is another build's.
fn judged<'a>(folders: &Folders, experiments: &'a [Experiment]) -> Result<Vec<Outcome<'a>>> {
    eprintln!("reading the results, judging the claims");
    let outcomes = judging::all(folders, experiments)?;
    let stale: usize = outcomes.iter().map(|o| o.stale).sum();
    if stale > 0 {
        eprintln!("{stale} of the runs are of another build of lowtide; `lowtide papers run` makes them anew");
    }
    Ok(outcomes)
}

#[expect(clippy::disallowed_methods, reason = "how long it took is for people")]
fn run_wanted(run: &Run, folders: &Folders, root: &Path) -> Result<ExitCode> {
    let began = Instant::now();
    let experiments = &experiment::load_all(root, &run.which)?;
    let page_beside = Beside::load(root, experiments)?;
    let mut wanted: Vec<&Experiment> = experiments.iter().filter(|e| experiment::is_wanted(e, &run.which)).collect();
    if let Some(minutes) = run.within {
        wanted = chosen(&Costs::read(root)?, experiments, &wanted, minutes, jobs::threads(run.jobs))?;
    }
    if run.lab {
        let with_lab: Vec<&Experiment> = wanted.iter().copied().filter(|e| e.lab.is_some()).collect();
        lab::run(folders, &with_lab, run.jobs, run.lab_jobs, run.record)?;
    } else {
        let beside = |e: &Experiment| wanted.iter().any(|w| w.id == e.id || w.beside.contains(&e.id));
        let extent = if run.quick { Extent::Quick } else { Extent::Full };
        let owed = experiments.iter().filter(|e| beside(e));
        let owed = owed.map(|e| jobs::of(&folders.out, e, extent, Change::None)).collect::<Result<Vec<_>>>()?;
        jobs::simulate(&owed.into_iter().flatten().collect::<Vec<_>>(), run.jobs)?;
    }
    let outcomes = judged(folders, experiments)?;
    let report = page::write(&folders.out, &outcomes, &page_beside)?;
    let wanted: Vec<&Outcome> = outcomes.iter().filter(|o| wanted.iter().any(|e| e.id == o.experiment.id)).collect();
    if run.json {
        let claims: Vec<serde_json::Value> = wanted.iter().flat_map(|o| o.json()).collect();
        stdout::line(serde_json::to_string_pretty(&claims)?)?;
    } else {
        stdout::print(claims(&wanted))?;
    }
    for profile in [Profile::Described, Profile::Run] {
        let [met, not, open] = wanted.iter().map(|o| o.counts(profile)).fold([0; 3], |a, b| [a[0] + b[0], a[1] + b[1], a[2] + b[2]]);
        eprintln!("{}: {met} met, {not} not met, {open} undecided", profile.title());
    }
    eprintln!("{:.0} s; report: {}", began.elapsed().as_secs_f64(), report.display());
    let mut recorded = Recorded::read(root)?;
    if run.record && !run.lab {
        recorded.take(&wanted);
        recorded.write(root)?;
        if !run.quick {
            let mut costs = Costs::read(root)?;
            wanted.iter().try_for_each(|o| costs.take(&folders.out, o.experiment))?;
            costs.write(root)?;
        }
    }
    if !run.check {
        return Ok(ExitCode::SUCCESS);
    }
    let mut wrong: Vec<String> = recorded.differences(&wanted);
    let unexplained = wanted.iter().flat_map(|o| o.verdicts.iter().filter(|v| v.is_unexplained()).map(move |v| (o, v)));
    wrong.extend(unexplained.map(|(o, v)| format!("{}#{}: not met, and nobody has said why (`explained`)", o.experiment.id, v.claim.id)));
    wrong.iter().for_each(|line| eprintln!("{line}"));
    if !wrong.is_empty() {
        eprintln!("{} verdicts to look at; `lowtide papers run --record` takes them as they are", wrong.len());
    }
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The figures that fit into so many minutes of so many cores; says what they take and which do not fit.
fn chosen<'a>(
    costs: &Costs,
    all: &'a [Experiment],
    wanted: &[&'a Experiment],
    minutes: u32,
    threads: usize,
) -> Result<Vec<&'a Experiment>> {
    let choice = costs.within(all, wanted, f64::from(minutes) * 60.0 * threads as f64);
    if choice.fit.is_empty() {
        bail!("--within {minutes}: no figure takes less on {threads} cores; `lowtide papers list` shows what each costs");
    }
    if !choice.left.is_empty() {
        let left: Vec<&str> = choice.left.iter().map(|e| e.id.as_str()).collect();
        let (n, seconds) = (choice.fit.len(), choice.seconds / threads as f64);
        eprintln!("{n} figures, which take about {seconds:.0} s here with nothing kept from before; left out: {}", left.join(", "));
    }
    Ok(choice.fit)
}

/// A line a claim: its verdicts, and below it each line of the rule that does not hold.
fn claims(outcomes: &[&Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let id = &outcome.experiment.id;
        for verdict in &outcome.verdicts {
            let words: Vec<String> = verdict.columns.iter().map(|(p, _)| format!("{}: {}", p.title(), verdict.word(*p))).collect();
            let _ = writeln!(text, "{id:<28} {:<6} {}\n  {}", verdict.claim.id, verdict.claim.says, words.join("; "));
            for (profile, judged) in &verdict.columns {
                let why = words::undecided(judged).map(str::to_owned).into_iter();
                let lines = judged.lines.iter().map(|seen| format!("{}: {}", seen.text, words::measured(seen, judged.seeds)));
                for line in why.chain(lines).chain(words::seeds(judged)).chain(words::reruns(verdict, *profile)) {
                    let _ = writeln!(text, "    {:<10} {line}", profile.key());
                }
            }
        }
        let lab = &outcome.lab.values;
        let (close, apart) = (lab.iter().filter(|c| c.close).count(), lab.iter().filter(|c| c.is_apart()).count());
        if !lab.is_empty() {
            let all = lab.len();
            let _ = writeln!(
                text,
                "{id:<28} lab  {close} of {all} values close to the simulator's, {apart} apart by more than the runs among themselves"
            );
        }
    }
    text
}
