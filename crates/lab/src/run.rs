//! A scenario run in the laboratory, from the ground to the result. Says in which order things happen; each is done elsewhere.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use lowtide_scenario::Scenario;
use lowtide_units::Span;

use crate::canary::Canary;
use crate::clock;
use crate::measure;
use crate::outcome::{Outcome, SAMPLE, Sample, Trace};
use crate::plan::{self, Job, Work};
use crate::probe::{Call, Reflector};
use crate::programs::{self, Ground, Said};
use crate::server::Server;
use crate::site::{SERVER, Site};
use crate::sockets::Sockets;
use crate::utp;

/// Between the last preparation and the scenario's time zero.
const LEAD: Span = Span::from_millis(300);
/// How often a run that the host stalled is made again.
const REPEATS: u32 = 2;

/// How a scenario is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The executable whose `run` manages flows.
    pub lowtide: PathBuf,
    /// Set from outside (Ctrl-C) to end early and clean up.
    pub stop: Arc<AtomicBool>,
}

/// Runs `scenario`; again, if the host stalled the link meanwhile. What is still marked after that is returned so.
pub fn run(scenario: &Scenario, options: &Options) -> Result<Outcome> {
    let mut outcome = once(scenario, options)?;
    for _ in 0..REPEATS {
        if !outcome.summary.lateness_ms.is_some_and(|l| l.stalled) {
            break;
        }
        outcome = once(scenario, options)?;
    }
    Ok(outcome)
}

fn once(scenario: &Scenario, options: &Options) -> Result<Outcome> {
    let began = clock::now();
    let jobs = plan::jobs(scenario)?;
    let (up, down) = plan::paths(scenario, &jobs)?;
    let folder = tempfile::Builder::new().prefix("lowtide-lab-").tempdir().context("making a temporary folder")?;
    let managed = jobs.iter().any(|job| job.managed.is_some());
    let zero = clock::now() + LEAD + if managed { programs::AHEAD } else { Span::ZERO };
    let at = |seconds: f64| zero + Span::from_secs_f64(seconds);
    let site = Site::new(plan::mtu(scenario)?, up, down, at(scenario.warmup_s)..at(scenario.duration_s))?;
    let _reflectors = jobs
        .iter()
        .filter(|j| matches!(j.work, Work::Call(_)))
        .map(|j| Reflector::new(&site.server, SERVER, j.port))
        .collect::<Result<Vec<_>>>()?;
    // A failure in one flow ends the others: their threads watch this flag and the caller's.
    let stop = Arc::new(AtomicBool::new(false));
    let ground =
        Ground { client: &site.client, server: &site.server, lowtide: Some(&options.lowtide), folder: folder.path(), zero, stop: &stop };
    let canary = Canary::new(at(scenario.warmup_s)..at(scenario.duration_s))?;
    let done = AtomicBool::new(false);
    let traces = thread::scope(|scope| {
        let flows: Vec<_> = jobs.iter().map(|job| scope.spawn(|| follow(job, &ground, &stop))).collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                stop.fetch_or(options.stop.load(Ordering::Relaxed), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(10));
            }
        });
        let traces = flows.into_iter().map(|flow| {
            let trace = flow.join().map_err(|_| anyhow!("the thread of a flow died")).and_then(|trace| trace);
            stop.fetch_or(trace.is_err(), Ordering::Relaxed);
            trace
        });
        let traces: Vec<Result<Trace>> = traces.collect();
        done.store(true, Ordering::Relaxed);
        traces
    });
    let traces = traces.into_iter().collect::<Result<Vec<_>>>()?;
    if options.stop.load(Ordering::Relaxed) {
        bail!("interrupted; the laboratory is gone");
    }
    let programs = canary.stop()?;
    let link = site.stop()?;
    let mut summary = measure::summary(scenario, &traces, &link, &programs, zero)?;
    summary.wall_s = clock::now().since(began).secs_f64();
    Ok(Outcome { summary, traces, link, zero })
}

/// One flow from its server to its last sample.
fn follow(job: &Job, ground: &Ground<'_>, stop: &Arc<AtomicBool>) -> Result<Trace> {
    let mut trace = Trace { job: job.clone(), samples: Vec::new(), uploads: Vec::new(), said: Said::default(), echoes: None };
    let result = match job.work {
        Work::Call(beat) => {
            let at = |seconds: f64| ground.zero + Span::from_secs_f64(seconds);
            let call = Call::new(ground.client, (SERVER, job.port).into(), beat, at(job.runs.start), at(job.runs.end), Arc::clone(stop))?;
            call.join().map(|echoes| trace.echoes = Some(echoes))
        }
        Work::Iperf { .. } => ground.run(job, None).map(|said| trace.said = said),
        Work::Utp { bytes, up } => utp::run(job, ground, bytes, up, &mut trace.samples).map(|transfers| trace.said.transfers = transfers),
        Work::Curl { .. } => watched(job, ground, &mut trace),
    };
    if result.is_err() {
        ground.stop.store(true, Ordering::Relaxed);
    }
    result.map(|()| trace)
}

/// Runs a job against a server of its own and looks at the server's connections meanwhile.
fn watched(job: &Job, ground: &Ground<'_>, trace: &mut Trace) -> Result<()> {
    let server = Server::new(ground.server, SERVER, job.port, &job.cc)?;
    let mut sockets = None;
    if job.is_upload() {
        ground.client.control_by_port(&job.cc, job.port, "tun0", SERVER)?;
        sockets = ground.client.enter(|| Ok(Sockets::open().ok()))?; // Without it there is a plot less.
    }
    let over = AtomicBool::new(false);
    let (samples, uploads) = (&mut trace.samples, &mut trace.uploads);
    trace.said = thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                samples.push(Sample { at: clock::now(), stats: server.stats() });
                let window = sockets.as_ref().and_then(|sockets| sockets.windows_to(job.port).ok()?);
                uploads.extend(window.map(|window| (clock::now(), window)));
                thread::sleep(SAMPLE);
            }
        });
        let said = ground.run(job, Some(&server));
        over.store(true, Ordering::Relaxed);
        said
    })?;
    trace.samples.push(Sample { at: clock::now(), stats: server.stats() });
    Ok(())
}
