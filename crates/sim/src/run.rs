//! Runs a scenario: lays it out, plans its traffic, runs the event loop, reports. Pure: the same scenario and seed give the same
//! outcome, byte for byte.

use std::io;
use std::sync::Arc;

use lowtide_scenario::result::{SCHEMA, jain};
use lowtide_scenario::{Scenario, ScenarioError, Series, Summary};
use lowtide_units::{Rate, Span, Time};

use crate::flow::Flow;
use crate::metrics::{Sampler, bottleneck, flow_result};
use crate::stage::Stage;
use crate::topology::{Layout, lay_out};
use crate::trace::{Connection, Participants, Request, TraceSinks, watchers};
use crate::traffic::{self, Traffics, plan};
use crate::world::{Observer, World};

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The result; `wall_s` is zero, for whoever has a clock to fill in.
    pub summary: Summary,
    /// Series, empty if none were asked for.
    pub series: Series,
}

/// The most points of all flows' series: they are kept in memory until the run is over.
const MOST_POINTS: f64 = 2e7;

/// Between two points of the series.
pub const INTERVAL: Span = Span::from_millis(100);

/// Whether `scenario` can be run: all that [`run`] would refuse it for, without running it.
///
/// # Errors
/// As [`run`].
pub fn check(scenario: &Scenario) -> Result<(), ScenarioError> {
    lay_out(scenario, scenario.seed)?;
    traffic::check(scenario)
}

/// Runs `scenario` with `seed`, with series if `series`.
///
/// # Errors
/// A scenario that names what does not exist or cannot be.
pub fn run(scenario: &Scenario, seed: u64, series: bool) -> Result<Outcome, ScenarioError> {
    run_sampled(scenario, seed, series.then_some(INTERVAL))
}

/// Runs `scenario` with `seed`, with series of a point every `interval` if there is one.
///
/// # Errors
/// As [`run`], and an interval of which no whole number makes a second.
pub fn run_sampled(scenario: &Scenario, seed: u64, interval: Option<Span>) -> Result<Outcome, ScenarioError> {
    match run_watched(scenario, seed, interval, &Request::default(), &|_| ()) {
        Ok(outcome) => Ok(outcome),
        Err(RunError::Scenario(error)) => Err(error),
        Err(RunError::Io(error)) => Err(ScenarioError::new(error.to_string())),
    }
}

/// A run that came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario cannot be.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// What was to be written of it could not be.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// As [`run_sampled`], and writes what `request` asks for while it runs; `told` how much of the run is done, from 0 to 1.
///
/// # Errors
/// As [`run_sampled`]; or a file that cannot be written.
pub fn run_watched(
    scenario: &Scenario,
    seed: u64,
    interval: Option<Span>,
    request: &Request,
    told: &dyn Fn(f64),
) -> Result<Outcome, RunError> {
    let series = interval.is_some();
    let interval = interval.unwrap_or(INTERVAL);
    if interval == Span::ZERO || !Span::from_secs(1).nanos().is_multiple_of(interval.nanos()) {
        return Err(ScenarioError::new("a whole number of sampling intervals must make a second").into());
    }
    let points = scenario.duration_s / interval.secs_f64() * scenario.flows.iter().map(|flow| f64::from(flow.count)).sum::<f64>();
    if series && points > MOST_POINTS {
        return Err(
            ScenarioError::at("duration_s", "its series have more than 20,000,000 points; shorten it, or run it without `--out`").into()
        );
    }
    let layout = lay_out(scenario, seed)?;
    let traffic = plan(scenario, &layout.paths, seed)?;
    let end = Time::from_secs_f64(scenario.duration_s);
    let from = Time::from_secs_f64(scenario.warmup_s);
    let watchers = if request.is_none() { Vec::new() } else { watchers(request, &participants(scenario, &layout, &traffic))? };
    let mut world = World::new(layout.network, traffic.flows);
    world.sinks = TraceSinks(watchers);
    let mut sampler = Sampler::new(&traffic.rows, &layout.bottlenecks, interval, from, series);
    world.run(end, from, interval, &mut Telling { sampler: &mut sampler, told, end }).map_err(|e| ScenarioError::new(e.to_string()))?;
    let (series, jain_short) = sampler.finish();
    for watcher in world.sinks.0.drain(..) {
        watcher.finish()?;
    }

    // A cellular link draws all its opportunities again for this: once, not for each flow.
    let capacities: Vec<Option<Rate>> = world.stages.iter().map(|stage| stage.link.as_ref().map(|link| link.capacity(from, end))).collect();
    let of_link = |(name, stage): &(String, u16)| {
        let at = usize::from(*stage);
        Some(bottleneck(name, world.stages[at].link.as_ref()?, capacities[at]?, end.since(from)))
    };
    let bottlenecks: Vec<_> = layout.bottlenecks.iter().filter_map(of_link).collect();
    // Capacity: the slowest shared link on the path, without the access link; with none, share is 0.
    let capacity = |flow: usize| {
        let links = layout.paths[flow].there.iter().filter_map(|&stage| capacities[usize::from(stage)]);
        links.map(Rate::bps).min().map_or(f64::INFINITY, |bps| bps as f64)
    };
    let flows: Vec<_> = traffic
        .rows
        .iter()
        .enumerate()
        .map(|(row, info)| flow_result(row, info, &scenario.flows[info.flow].group, &world.flows, (from, end), capacity(info.flow)))
        .collect();
    let streams: Vec<f64> = flows.iter().filter(|flow| flow.jitter_ms.is_none()).map(|flow| flow.goodput_bps).collect();
    let summary = Summary {
        schema: SCHEMA,
        scenario: scenario.name.clone(),
        host: "sim".to_owned(),
        seed,
        duration_s: scenario.duration_s,
        wall_s: 0.0,
        events: world.events(),
        bottlenecks,
        jain: jain(&streams),
        jain_short,
        flows,
        lateness_ms: None,
    };
    Ok(Outcome { summary, series })
}

/// A sampler that tells how far the run is.
struct Telling<'a, 'b> {
    sampler: &'a mut Sampler<'b>,
    told: &'a dyn Fn(f64),
    end: Time,
}

impl Observer for Telling<'_, '_> {
    fn sample(&mut self, now: Time, flows: &[Flow], stages: &[Stage]) {
        self.sampler.sample(now, flows, stages);
        (self.told)(now.secs_f64() / self.end.secs_f64());
    }
}

/// Who is in the run, for those who watch.
fn participants(scenario: &Scenario, layout: &Layout, traffic: &Traffics) -> Arc<Participants> {
    let mut links: Vec<Arc<str>> = vec!["".into(); layout.network.stages.len()];
    for (name, stage) in &layout.bottlenecks {
        links[usize::from(*stage)] = name.as_str().into();
    }
    let names: Vec<Arc<str>> = traffic.rows.iter().map(|row| row.name.as_str().into()).collect();
    let mut counts = vec![0; names.len()];
    let mut connections: Vec<Connection> = traffic
        .flows
        .iter()
        .map(|spec| {
            let row = spec.result;
            counts[row] += 1;
            let direction = scenario.flows[traffic.rows[row].flow].direction;
            Connection { name: Arc::clone(&names[row]), number: counts[row] - 1, of_many: false, direction, spec: Arc::new(spec.clone()) }
        })
        .collect();
    connections.iter_mut().for_each(|c| c.of_many = counts[c.spec.result] > 1);
    Arc::new(Participants { connections, links })
}
