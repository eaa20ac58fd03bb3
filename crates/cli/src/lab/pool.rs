//! Several runs of the laboratory, some at a time, with progress. Knows neither suites nor papers.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use lowtide_lab::outcome::Outcome;
use lowtide_lab::run::{self, Options};
use lowtide_scenario::Scenario;

use super::controls::Controls;
use crate::human;

/// Between the starts of the first runs: a laboratory that starts loads programs into the kernel, and its neighbour, in slow start
/// just then, would take the host's delay for a queue.
const APART: Duration = Duration::from_secs(3);

/// What keeps the outcome of a run.
pub type Keep<'a> = Box<dyn Fn(&Outcome) -> Result<()> + Send + Sync + 'a>;

/// One run that is owed.
pub struct Run<'a> {
    /// What people call it.
    pub label: String,
    /// What runs.
    pub scenario: Scenario,
    /// Keeps what came of it.
    pub keep: Keep<'a>,
}

/// Runs all in their order, `at_a_time` of them; ends early when one fails or `options` says so.
///
/// # Errors
/// The first that failed, named.
pub fn run_all(runs: &[Run<'_>], at_a_time: usize, options: &Options) -> Result<()> {
    let _controls = Controls::load(runs.iter().map(|r| &r.scenario))?;
    let (next, failed, progress) = (AtomicUsize::new(0), Mutex::new(None), Mutex::new(Progress::new(runs, at_a_time)));
    std::thread::scope(|scope| {
        for worker in 0..at_a_time.min(runs.len()) {
            let (next, failed, progress) = (&next, &failed, &progress);
            scope.spawn(move || {
                std::thread::sleep(APART * worker as u32);
                while let Some(one) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if lock(failed).is_some() || options.stop.load(Ordering::Relaxed) {
                        return;
                    }
                    match run_one(one, options) {
                        Ok(stalled) => lock(progress).step(one, stalled),
                        Err(e) => {
                            lock(failed).get_or_insert(e.context(one.label.clone()));
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
fn run_one(one: &Run<'_>, options: &Options) -> Result<bool> {
    let outcome = run::run(&one.scenario, options)?;
    (one.keep)(&outcome)?;
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
    fn new(runs: &[Run<'_>], at_a_time: usize) -> Progress {
        let seconds_all: f64 = runs.iter().map(|r| r.scenario.duration_s).sum();
        let at_a_time = at_a_time.min(runs.len()).max(1);
        eprintln!("lowtide: {} runs in the laboratory, about {}", runs.len(), human::span(seconds_all / at_a_time as f64));
        Progress { done: 0, all: runs.len(), seconds_done: 0.0, seconds_all, start: Instant::now() }
    }

    fn step(&mut self, one: &Run<'_>, stalled: bool) {
        self.done += 1;
        self.seconds_done += one.scenario.duration_s;
        let left = self.start.elapsed().as_secs_f64() / self.seconds_done * (self.seconds_all - self.seconds_done);
        let (start, end) = if std::io::stderr().is_terminal() { ("\r", if self.done == self.all { "\n" } else { "" }) } else { ("", "\n") };
        let note = if stalled { ", stalled by the host" } else { "" };
        eprint!(
            "{start}{} of {}: {} run {}{note}; about {} left   {end}",
            self.done,
            self.all,
            one.label,
            one.scenario.seed,
            human::span(left)
        );
        // Nobody is harmed by a progress line that cannot be written.
        let _ = std::io::stderr().flush();
    }
}
