//! A scenario's flows as the flows of the simulation: copies, starts, random arrivals. Knows no network.

mod sizes;

use lowtide_cc::Params;
use lowtide_net::Seed;
use lowtide_net::random::exponential;
use lowtide_scenario::scenario::{Flow, Kind, Repair};
use lowtide_scenario::{Scenario, ScenarioError, Traffic};
use lowtide_units::{Rate, Span, Time};

use crate::flow::{App, FlowSpec};
use crate::packet::UDP_HEADER;
use crate::stacks::Stack;
use crate::topology::Path;
use crate::window_limiter::WindowLimiter;
use sizes::Sizes;

/// A result to be reported: one copy of a scenario's flow.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// The scenario's flow.
    pub flow: usize,
    /// When it starts and stops.
    pub start: Time,
    /// The end of its life.
    pub stop: Time,
}

/// Every flow of the simulation and the rows they are counted in.
pub struct Traffics {
    /// Flows, in the order of the scenario.
    pub flows: Vec<FlowSpec>,
    /// Rows, in the order of the scenario.
    pub rows: Vec<Row>,
}

/// Plans a scenario's traffic over `paths` (one for each of its flows).
///
/// # Errors
/// An unknown congestion control or parameter, or traffic that the flow's kind cannot carry.
pub fn plan(scenario: &Scenario, paths: &[Path], seed: u64) -> Result<Traffics, ScenarioError> {
    let end = Time::from_secs_f64(scenario.duration_s);
    let mut planned = Traffics { flows: Vec::new(), rows: Vec::new() };
    for (index, flow) in scenario.flows.iter().enumerate() {
        let template = template(flow, &paths[index], scenario.duration_s)?;
        for copy in 0..flow.count {
            let drawn = flow.draw(seed, index, copy);
            let start = Time::from_secs_f64(drawn.start_s);
            let stop = flow.stop_s.map_or(end, |stop| Time::from_secs_f64(stop).min(end));
            let name = if flow.count == 1 { flow.name.clone() } else { format!("{}.{}", flow.name, copy + 1) };
            let row = planned.rows.len();
            planned.rows.push(Row { name, flow: index, start, stop });
            let one = FlowSpec { result: row, start, stop, forward: paths[index].there_of(copy), ..template.clone() };
            arrivals(flow, one, drawn.seed, &mut planned.flows);
        }
    }
    Ok(planned)
}

/// What of a scenario's flows can be known to be wrong before they run.
///
/// # Errors
/// As [`plan`].
pub fn check(scenario: &Scenario) -> Result<(), ScenarioError> {
    scenario.flows.iter().try_for_each(|flow| template(flow, &Path::default(), scenario.duration_s).map(drop))
}

/// The transfers of one row: one, or many for repeated and random ones.
fn arrivals(flow: &Flow, first: FlowSpec, seed: Seed, flows: &mut Vec<FlowSpec>) {
    let connection = |n: u64| seed.of("connection").nth(n).number();
    let mut at = first.start;
    match &flow.traffic {
        &Traffic::Repeat { every_s, .. } => {
            for n in 0.. {
                if at >= first.stop {
                    break;
                }
                flows.push(FlowSpec { start: at, seed: connection(n), ..first.clone() });
                at += Span::from_secs_f64(every_s);
            }
        }
        Traffic::Poisson { arrivals_per_s, mean_bytes, pareto_shape, sizes } => {
            let sizes = match (mean_bytes, pareto_shape) {
                (&Some(mean), None) => Sizes::Exponential(mean),
                (&Some(mean), &Some(shape)) => Sizes::pareto(mean, shape),
                (None, _) => Sizes::Points(sizes.clone()),
            };
            let (mut gaps, mut drawn_sizes) = (seed.of("arrivals").generator(), seed.of("sizes").generator());
            for n in 0.. {
                at += Span::from_secs_f64(exponential(&mut gaps) / arrivals_per_s);
                if at >= first.stop {
                    break;
                }
                let bytes = sizes.draw(&mut drawn_sizes);
                flows.push(FlowSpec { start: at, app: App::Bytes(bytes), seed: connection(n), ..first.clone() });
            }
        }
        _ => flows.push(FlowSpec { seed: connection(0), ..first }),
    }
}

fn template(flow: &Flow, path: &Path, duration_s: f64) -> Result<FlowSpec, ScenarioError> {
    let at = |key: &str, reason: String| ScenarioError::at(format!("flows.{}.{key}", flow.name), reason);
    let app = app(flow).map_err(|reason| at("traffic", reason))?;
    if flow.start_s >= duration_s {
        return Err(at("start_s", format!("must be before the end, `duration_s` = {duration_s}")));
    }
    let params = Params::from(flow.params.clone());
    let start = lowtide_cc::Start::default();
    let mut stack = Stack::of(&flow.tcp);
    if flow.kind != Kind::Udp {
        // Found out now instead of when the flow starts.
        let algorithm = lowtide_replicas::by_name(&flow.cc).map_err(|e| at("cc", e.to_string()))?;
        let control = algorithm.build(&params, &start).map_err(|e| at("params", e.to_string()))?;
        let over = if flow.kind == Kind::Utp { control.into_controller().map(drop) } else { stack.suit(control) };
        over.map_err(|unfit| at("cc", format!("`{}`: {unfit}", flow.cc)))?;
    }
    let held_by =
        flow.receiver.as_ref().filter(|_| flow.kind == Kind::Rledbat).map(|r| (r.algorithm.clone(), Params::from(r.params.clone())));
    if let Some((profile, params)) = &held_by {
        WindowLimiter::build(profile, params, &start, flow.tcp.window_scale).map_err(|e| at("receiver", e.to_string()))?;
    }
    let mut wire = stack.wire();
    let utp = (flow.kind == Kind::Utp).then(|| utp(flow));
    if let Some(config) = utp {
        wire.mss = u32::from(config.packet);
    }
    Ok(FlowSpec {
        result: 0,
        cc: flow.cc.clone(),
        params,
        start: Time::ZERO,
        stop: Time::MAX,
        app,
        forward: Vec::new(),
        reverse: path.back.clone(),
        stack,
        wire,
        utp,
        held_by,
        initial_window: flow.tcp.initial_window.map(|segments| u64::from(segments) * u64::from(wire.mss)),
        seed: 0,
    })
}

fn app(flow: &Flow) -> Result<App, String> {
    let positive = |value: f64, key: &str| if value > 0.0 { Ok(value) } else { Err(format!("`{key}` must be above 0")) };
    let app = match flow.traffic {
        Traffic::Bulk => App::Bulk,
        Traffic::Finite { bytes } => App::Bytes(bytes),
        Traffic::Repeat { bytes, every_s } => {
            positive(every_s, "every_s")?;
            App::Bytes(bytes)
        }
        Traffic::Poisson { arrivals_per_s, .. } => {
            positive(arrivals_per_s, "arrivals_per_s")?;
            // Each arrival has its own size.
            App::Bytes(0)
        }
        Traffic::OnOff { on_s, off_s, rate_mbps, wait_s, buffer_bytes } => App::OnOff {
            on: Span::from_secs_f64(positive(on_s, "on_s")?),
            off: Span::from_secs_f64(positive(off_s, "off_s")?),
            rate: rate_mbps.map(|rate| positive(rate, "rate_mbps").map(Rate::from_mbps_f64)).transpose()?,
            wait: Span::from_secs_f64(wait_s.unwrap_or(0.0)),
            buffer: buffer_bytes,
        },
        Traffic::Cbr { rate_kbps, packet_bytes } => App::Datagrams {
            rate: Rate::from_mbps_f64(positive(rate_kbps, "rate_kbps")? / 1000.0),
            size: packet_bytes.checked_sub(UDP_HEADER).ok_or("`packet_bytes` must be at least 28, IP and UDP headers included")?,
        },
    };
    match (flow.kind, matches!(app, App::Datagrams { .. })) {
        (Kind::Udp, true) | (Kind::Tcp | Kind::Rledbat | Kind::Utp, false) => Ok(app),
        (Kind::Udp, false) => Err("kind udp carries cbr traffic only".to_owned()),
        (_, true) => Err("cbr traffic needs `kind = \"udp\"`; a TCP application with a rate is on_off with `rate_mbps`".to_owned()),
    }
}

fn utp(flow: &Flow) -> lowtide_utp::Config {
    lowtide_utp::Config {
        packet: flow.utp.payload_bytes,
        min_rto: Span::from_millis_f64(flow.utp.min_rto_ms),
        tick: Span::from_millis_f64(flow.utp.tick_ms),
        repair: match flow.utp.repair_under(&flow.cc) {
            Repair::Once => lowtide_utp::Repair::Once,
            Repair::ByTime => lowtide_utp::Repair::ByTime,
        },
        ..lowtide_utp::Config::default()
    }
}
