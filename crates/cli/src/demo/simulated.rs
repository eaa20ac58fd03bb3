//! The demo's acts in the simulator: no root, no BPF, no waiting. Draws nothing.

use anyhow::{Context, Result};
use lowtide_scenario::scenario::{Direction, Kind};
use lowtide_scenario::{FlowPoint, FlowResult, Scenario, Traffic};
use lowtide_sim::Outcome;

use super::{ACTS, Call, Seen, Way, scenario, smooth};
use crate::held_back::held_back;
use crate::report::Curve;

/// Runs the acts.
pub fn run(way: Way) -> Result<Vec<Seen>> {
    let mut runs = Vec::new();
    for act in &ACTS {
        let scenario = held_back(call_goes(way, scenario(act, way)?));
        let outcome = lowtide_sim::run(&scenario, scenario.seed, true).context(act.name(way))?;
        runs.push((scenario, outcome));
    }
    // The line is idle in the first act: an act whose queue never empties does not know the delay without one.
    let fastest = runs.iter().filter_map(|(_, outcome)| Some(caller(outcome)?.rtt_ms.min)).fold(f64::INFINITY, f64::min);
    Ok(runs.into_iter().map(|(scenario, outcome)| see(&scenario, outcome, fastest)).collect())
}

/// The simulator's datagrams go one way, the laboratory's both: here that of the bulk transfer.
fn call_goes(way: Way, mut scenario: Scenario) -> Scenario {
    scenario.flows.iter_mut().filter(|f| f.kind == Kind::Udp && way == Way::Up).for_each(|f| f.direction = Direction::Reverse);
    scenario
}

fn caller(outcome: &Outcome) -> Option<&FlowResult> {
    outcome.summary.flows.iter().find(|f| f.name == "call")
}

fn points(outcome: &Outcome, name: &str, value: impl Fn(&FlowPoint) -> f64) -> Vec<(f64, f64)> {
    let mine = outcome.series.flows.iter().filter(|p| p.flow == name);
    mine.map(|p| (p.time_s, value(p))).filter(|p| p.1.is_finite()).collect()
}

fn see(scenario: &Scenario, outcome: Outcome, fastest: f64) -> Seen {
    let throughput = |flow: &FlowResult| {
        let points = points(&outcome, &flow.name, |p| p.goodput_bps / 1e6);
        Curve::line(&flow.name, smooth(&points))
    };
    Seen {
        call: caller(&outcome).map(|flow| call(flow, scenario, &outcome, fastest)),
        throughput: outcome.summary.flows.iter().map(throughput).collect(),
        window: points(&outcome, "bulk", |p| p.cwnd_bytes.min(p.rwnd_bytes) / 1e3),
        summary: outcome.summary,
    }
}

fn call(flow: &FlowResult, scenario: &Scenario, outcome: &Outcome, fastest: f64) -> Call {
    // Quantiles are good to 0.8 %: where nothing waits they may lie below the exact minimum.
    let added = |ms: f64| (ms - fastest).max(0.0);
    let sent = packets_per_second(scenario, &flow.name) * (flow.stop_s - flow.start_s.max(scenario.warmup_s));
    Call {
        added: points(outcome, &flow.name, |p| added(p.rtt_ms)),
        p50: added(flow.rtt_ms.p50),
        p95: added(flow.rtt_ms.p95),
        max: added(flow.rtt_ms.max),
        loss: flow.losses as f64 / sent,
    }
}

fn packets_per_second(scenario: &Scenario, name: &str) -> f64 {
    match scenario.flows.iter().find(|f| f.name == name).map(|f| &f.traffic) {
        Some(Traffic::Cbr { rate_kbps, packet_bytes }) => rate_kbps * 1000.0 / 8.0 / f64::from(*packet_bytes),
        _ => f64::NAN,
    }
}
