//! The simulations that experiments owe: which, in which folder, and running those that have no result yet. Judges nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, anyhow};
use lowtide_scenario::events::EVENTS;
use lowtide_scenario::scenario::{Tcp, Utp};
use lowtide_scenario::series::FLOWS;
use lowtide_scenario::{Scenario, Series, Summary, Topology};
use lowtide_sim::trace::Request;
use lowtide_units::Span;

use super::experiment::Experiment;
use super::fragile::Change;
use super::metrics::after;
use super::metrics::kept::Kept;
use super::metrics::tracks::{self, Tracks};
use super::points::{Extent, Point};
use super::progress::Progress;
use crate::made_by;

/// One simulation.
pub struct Job<'a> {
    pub experiment: &'a Experiment,
    pub scenario: Scenario,
    pub dir: PathBuf,
    /// Whether its series are drawn.
    keep: bool,
}

/// Where the result of `point` with `seed` lies.
pub fn dir_of(out: &Path, experiment: &Experiment, point: &Point, seed: u32) -> PathBuf {
    out.join(&experiment.id).join(point.label().replace([' ', '/'], "_")).join(format!("seed-{seed}"))
}

/// What `experiment` consists of.
///
/// # Errors
/// A scenario that is none, with the point.
pub fn of<'a>(out: &Path, experiment: &'a Experiment, extent: Extent, change: Change) -> Result<Vec<Job<'a>>> {
    at(out, experiment, extent, change, experiment.points(extent).into_iter().map(|p| change.of_point(p)))
}

/// What some points of it consist of.
///
/// # Errors
/// As [`of`].
pub fn at<'a>(
    out: &Path,
    experiment: &'a Experiment,
    extent: Extent,
    change: Change,
    points: impl Iterator<Item = Point>,
) -> Result<Vec<Job<'a>>> {
    let text = toml::to_string(&experiment.scenario)?;
    let base = Scenario::parse(&text).with_context(|| experiment.id.clone())?;
    let mut jobs = Vec::new();
    for point in points {
        let mut scenario = base.clone();
        if let (Extent::Lab, Some(lab)) = (extent, &experiment.lab) {
            scenario.duration_s = lab.duration_s;
        }
        for (key, value) in &point.set {
            scenario = scenario.with(key, value.clone()).with_context(|| format!("{}, {}", experiment.id, point.label()))?;
        }
        scenario = change.of_scenario(scenario);
        scenario.name = format!("{} {}", experiment.id, point.label());
        for seed in point.seeds() {
            scenario.seed = u64::from(seed);
            let keep = change == Change::None && seed == 1 && experiment.draws_series();
            jobs.push(Job { experiment, scenario: scenario.clone(), dir: dir_of(out, experiment, &point, seed), keep });
        }
    }
    Ok(jobs)
}

/// Runs what has no result of this very scenario and build yet, the longest first: then none is left alone at the end.
///
/// # Errors
/// The first simulation that failed.
pub fn simulate(jobs: &[Job], threads: Option<usize>) -> Result<()> {
    let mut owed = shared(jobs.iter().filter(|job| !job.is_current()))?;
    owed.sort_by(|a, b| b[0].cost().total_cmp(&a[0].cost()));
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let progress = Progress::new(owed.iter().map(|same| same[0].cost()).sum(), owed.len());
    let threads = self::threads(threads);
    if owed.is_empty() {
        return Ok(());
    }
    let fail = |e| {
        failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
        next.store(owed.len(), Ordering::Relaxed);
    };
    let work = || {
        while let Some(same) = owed.get(next.fetch_add(1, Ordering::Relaxed)) {
            match run(same) {
                Ok(()) => progress.done(same[0].cost()),
                Err(e) => return fail(e),
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| progress.tell());
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            if worker.join().is_err() {
                fail(anyhow!("a simulation panicked"));
            }
        }
        progress.over();
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Simulations at a time: so many, or the machine's cores.
pub fn threads(wanted: Option<usize>) -> usize {
    wanted.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1).max(1)
}

/// Simulated events of the results of `jobs`, which must be there; what is one run counts once.
///
/// # Errors
/// A result that cannot be read.
pub fn events(jobs: &[Job]) -> Result<f64> {
    let runs = shared(jobs.iter())?;
    runs.iter().map(|same| Ok(Summary::read(&same[0].dir)?.events as f64)).sum()
}

/// Jobs by simulation: those of an experiment that differ by nothing but flows that are taken out (a table's row without the flow
/// whose algorithm its columns change) are one.
fn shared<'a>(owed: impl Iterator<Item = &'a Job<'a>>) -> Result<Vec<Vec<&'a Job<'a>>>> {
    let mut same: BTreeMap<String, Vec<&Job>> = BTreeMap::new();
    for job in owed {
        same.entry(job.simulation()?).or_default().push(job);
    }
    Ok(same.into_values().collect())
}

/// Runs one simulation and writes its result for each of the jobs that it is.
fn run(same: &[&Job]) -> Result<()> {
    let job = same[0];
    let interval = job.needs_series().then(|| Span::from_millis_f64(job.experiment.series_ms));
    let named = || job.scenario.name.clone();
    for job in same {
        job.make_dir()?;
        // An older result goes first: interrupted, its scenario must not stand beside this run's numbers.
        let _none = fs::remove_file(job.dir.join("scenario.toml"));
    }
    let request = Request { folder: job.dir.clone(), events: job.experiment.watches_packets(), ..Request::default() };
    let outcome = lowtide_sim::run_watched(&job.scenario, job.scenario.seed, interval, &request, &|_| ()).with_context(named)?;
    let tracks = job.needs_series().then(|| tracks_of(job.experiment, &outcome.series, &job.dir)).transpose().with_context(named)?;
    if request.events && !job.keep {
        fs::remove_file(job.dir.join(EVENTS))?;
    }
    for job in same {
        if let Some(tracks) = &tracks {
            Kept::new(&job.experiment.metrics, job.experiment.series_ms, tracks).with_context(named)?.write(&job.dir)?;
        }
        if job.keep {
            outcome.series.write(&job.dir)?;
        }
        job.write(&Summary { scenario: job.scenario.name.clone(), ..outcome.summary.clone() })?;
    }
    Ok(())
}

impl Job<'_> {
    /// What the simulator is told, but for its name and for flows that are taken out. Two jobs with the same are one run.
    fn simulation(&self) -> Result<String> {
        if self.experiment.watches_packets() {
            return Ok(self.dir.display().to_string()); // its packet events lie in its own folder
        }
        let mut told = self.scenario.clone();
        told.name.clear();
        for flow in told.flows.iter_mut().filter(|f| f.count == 0) {
            (flow.cc, flow.params, flow.receiver) = (String::new(), toml::Table::new(), None);
            (flow.tcp, flow.utp) = (Tcp::default(), Utp::default());
        }
        Ok(format!("{}\n{}", self.experiment.id, toml::to_string(&told).context("a scenario that cannot be written")?))
    }

    fn text(&self) -> Result<String> {
        toml::to_string(&self.scenario).context("a scenario that cannot be written")
    }

    /// Whether there is a result of this very scenario and of this build.
    pub fn is_current(&self) -> bool {
        self.is_done() && fs::read_to_string(self.dir.join("scenario.toml")).is_ok_and(|had| made_by::is_ours(&had))
    }

    /// Whether there is a result of this very scenario, of whichever build.
    pub fn is_done(&self) -> bool {
        let Ok(had) = fs::read_to_string(self.dir.join("scenario.toml")) else { return false };
        let same = |text: String| made_by::scenario(&had) == text;
        let kept = || Kept::read(&self.dir).is_some_and(|had| had.serves(&self.experiment.metrics, self.experiment.series_ms));
        self.text().is_ok_and(same)
            && Summary::read(&self.dir).is_ok()
            && (!self.experiment.takes_tracks() || kept())
            && (!self.keep || self.dir.join(FLOWS).exists())
    }

    fn needs_series(&self) -> bool {
        self.keep || self.experiment.takes_tracks()
    }

    /// In proportion to the packets it will carry: the line is busy most of the time in most of them.
    pub fn cost(&self) -> f64 {
        let rate = match &self.scenario.topology {
            Topology::Dumbbell(link) => link.rate_mbps,
            Topology::ParkingLot(lot) => lot.rate_mbps,
            Topology::Graph(graph) => graph.links.iter().filter_map(|link| link.rate_mbps).fold(f64::INFINITY, f64::min).min(1e3),
        };
        self.scenario.duration_s * rate
    }

    /// Writes the result; its scenario last, so that half a result is none.
    pub fn write(&self, summary: &Summary) -> Result<()> {
        self.make_dir()?;
        summary.write(&self.dir).with_context(|| format!("{}: cannot be written", self.dir.display()))?;
        let file = self.dir.join("scenario.toml");
        fs::write(&file, made_by::sign(&self.text()?)).with_context(|| format!("{}: cannot be written", file.display()))
    }

    fn make_dir(&self) -> Result<()> {
        fs::create_dir_all(&self.dir).with_context(|| format!("{}: cannot be made; --out names another folder", self.dir.display()))
    }
}

/// What a run's series hold, and its packet events where the experiment looks at them.
///
/// # Errors
/// Packet events that are not there.
pub fn tracks_of(experiment: &Experiment, series: &Series, dir: &Path) -> Result<Tracks> {
    let mut all = tracks::tracks(series);
    if experiment.watches_packets() {
        all.extend(after::tracks(dir)?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::experiment::load_all;
    use super::*;

    /// When a scenario's flows start; they start once each.
    fn starts(scenario: &Scenario) -> Vec<f64> {
        let flows = scenario.flows.iter().enumerate();
        flows.flat_map(|(n, f)| (0..f.count).map(move |copy| f.draw(scenario.seed, n, copy).start_s)).collect()
    }

    /// The shorter runs of every experiment with rows marked L are the beginning of the simulator's full ones with their seed, and
    /// all that starts there starts in them.
    #[test]
    fn the_laboratory_draws_the_starts_of_the_full_runs() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers");
        let experiments = load_all(&root, &[]).unwrap_or_else(|e| panic!("{e:#}"));
        let mut drawn = 0;
        for experiment in experiments.iter().filter(|e| e.lab.is_some()) {
            let jobs = |extent| of(Path::new("out"), experiment, extent, Change::None).unwrap_or_else(|e| panic!("{e:#}"));
            let full = jobs(Extent::Full);
            for short in jobs(Extent::Lab) {
                let long = full.iter().find(|job| job.dir == short.dir).unwrap_or_else(|| panic!("{}: no full run", short.dir.display()));
                let starts = starts(&short.scenario);
                assert_eq!(starts, self::starts(&long.scenario), "{}", short.dir.display());
                let planned = lowtide_lab::plan::jobs(&short.scenario).unwrap_or_else(|e| panic!("{}: {e:#}", short.dir.display()));
                assert_eq!(starts, planned.iter().map(|job| job.runs.start).collect::<Vec<_>>(), "{}", short.dir.display());
                drawn += usize::from(starts.iter().any(|start| (1.0..short.scenario.duration_s).contains(start)));
            }
        }
        assert!(drawn >= 60, "of Tables 1 and 2 the short flows, in {drawn} runs");
    }

    /// Tables 1 to 3 have rows without the flow whose algorithm the columns change.
    #[test]
    fn jobs_that_differ_by_flows_that_are_taken_out_are_one_run_with_the_result_of_each() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers");
        let experiments = load_all(&root, &["bagnulo2023/tab1".to_owned()]).unwrap_or_else(|e| panic!("{e:#}"));
        let table = experiments.iter().find(|e| e.id == "bagnulo2023/tab1").expect("the table");
        let out = tempfile::tempdir().expect("a folder");
        let mut jobs = of(out.path(), table, Extent::Quick, Change::None).unwrap_or_else(|e| panic!("{e:#}"));
        jobs.retain(|job| job.dir.display().to_string().contains("rtt=20"));
        jobs.iter_mut().for_each(|job| job.scenario.duration_s = 22.0);
        let of_variant = |name: &str| jobs.iter().filter(|job| job.scenario.name.contains(name)).collect::<Vec<_>>();
        let (alone, with) = (of_variant("variant=alone"), of_variant("variant=rledbat"));
        assert_eq!((alone.len(), shared(alone.iter().copied()).expect("texts").len()), (3, 1));
        assert_eq!((with.len(), shared(with.iter().copied()).expect("texts").len()), (3, 3));

        let result =
            |job: &Job| (Summary::read(&job.dir).expect("a result"), fs::read_to_string(job.dir.join("scenario.toml")).expect("text"));
        run(&alone).expect("run at once");
        let at_once: Vec<_> = alone.iter().map(|job| result(job)).collect();
        alone.iter().for_each(|job| run(&[job]).expect("run by itself"));
        assert_eq!(at_once, alone.iter().map(|job| result(job)).collect::<Vec<_>>());
    }

    /// What is drawn is what the simulator does.
    #[test]
    fn the_simulator_starts_what_is_drawn() {
        let text = "duration_s = 2.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 1.0\nrtt_ms = 20.0\nqueue = { kind = \"drop_tail\", ms = 50 }\n\
                    [[flows]]\nname = \"a\"\ncc = \"cubic\"\ncount = 3\nstart_jitter_s = 1.5\n";
        let scenario = Scenario::parse(text).unwrap_or_else(|e| panic!("{e}"));
        let run = lowtide_sim::run(&scenario, scenario.seed, false).unwrap_or_else(|e| panic!("{e}")).summary;
        let apart = |(drawn, flow): (f64, &lowtide_scenario::FlowResult)| (drawn - flow.start_s).abs();
        assert!(starts(&scenario).into_iter().zip(&run.flows).map(apart).all(|d| d < 1e-6), "{:?}", run.flows);
        assert_eq!(run.flows.len(), 3);
    }
}
