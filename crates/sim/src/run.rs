//! Runs a scenario: lays it out, plans its traffic, turns the crank, reports. Pure: the same scenario and seed give the same
//! outcome, byte for byte.

use lowtide_scenario::result::{SCHEMA, jain};
use lowtide_scenario::{Scenario, ScenarioError, Series, Summary};
use lowtide_units::{Span, Time};

use crate::metrics::{Sampler, bottleneck, flow_result};
use crate::topology::lay_out;
use crate::traffic::plan;
use crate::world::World;

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The result; `wall_s` is zero, for whoever has a clock to fill in.
    pub summary: Summary,
    /// Series, empty if none were asked for.
    pub series: Series,
}

/// Between two points of the series.
pub const INTERVAL: Span = Span::from_millis(100);

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
    let series = interval.is_some();
    let interval = interval.unwrap_or(INTERVAL);
    if interval == Span::ZERO || !Span::from_secs(1).nanos().is_multiple_of(interval.nanos()) {
        return Err(ScenarioError::new("a whole number of sampling intervals must make a second"));
    }
    let layout = lay_out(scenario, seed)?;
    let traffic = plan(scenario, &layout.paths, seed)?;
    let end = Time::from_secs_f64(scenario.duration_s);
    let from = Time::from_secs_f64(scenario.warmup_s);
    let mut world = World::new(layout.network, traffic.flows);
    let mut sampler = Sampler::new(&traffic.rows, &layout.bottlenecks, interval, from, series);
    world.run(end, from, interval, &mut sampler).map_err(|e| ScenarioError::new(e.to_string()))?;
    let (series, jain_short) = sampler.finish();

    let span = end.since(from);
    let bottlenecks: Vec<_> = layout
        .bottlenecks
        .iter()
        .filter_map(|(name, stage)| world.stages[usize::from(*stage)].link.as_ref().map(|link| bottleneck(name, link, span)))
        .collect();
    // Of the links on its way the slowest; its own, if it has one, is no bottleneck that it shares.
    let capacity = |flow: usize| {
        let links = layout.paths[flow].there.iter().filter_map(|&stage| world.stages[usize::from(stage)].link.as_ref());
        links.map(|link| link.rate().bps()).min().map_or(1.0, |bps| bps as f64)
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
