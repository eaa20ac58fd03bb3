//! A scenario's topology as stages, and the path of each flow through them. Knows no traffic.

use lowtide_net::{ImpairConfig, Impairments, QueueConfig};
use lowtide_scenario::scenario::{Direction, Dumbbell, Flow};
use lowtide_scenario::{Scenario, ScenarioError, Topology};
use lowtide_units::{Rate, Span};

use crate::link::{Link, Stage};
use crate::world::Network;

/// A network with its named bottlenecks and a path for each of the scenario's flows.
pub struct Layout {
    /// What carries the packets.
    pub network: Network,
    /// Names and stages of the bottlenecks, forward first.
    pub bottlenecks: Vec<(String, u16)>,
    /// For each flow of the scenario: stages to the receiver, and back.
    pub paths: Vec<(Vec<u16>, Vec<u16>)>,
}

/// Topologies by name, for `--list`.
pub static TOPOLOGIES: &[(&str, &str)] =
    &[("dumbbell", "one bottleneck that all flows share; acknowledgements queue where there is reverse traffic")];

/// Lays a scenario's network out.
///
/// # Errors
/// A queue that cannot be built, or more stages than a path can name.
pub fn lay_out(scenario: &Scenario, seed: u64) -> Result<Layout, ScenarioError> {
    match &scenario.topology {
        Topology::Dumbbell(dumbbell) => lay_out_dumbbell(dumbbell, &scenario.flows, seed),
    }
}

fn lay_out_dumbbell(d: &Dumbbell, flows: &[Flow], seed: u64) -> Result<Layout, ScenarioError> {
    let rtt = |flow: &Flow| flow.rtt_ms.unwrap_or(d.rtt_ms);
    // What all share lies behind the bottleneck, the rest of each flow's RTT on its way back.
    let shared = Span::from_millis_f64(flows.iter().map(rtt).fold(d.rtt_ms, f64::min) / 2.0);
    let forward = link(d.rate_mbps, &d.queue, &d.impair, shared, seed)?;
    let mut stages = vec![Stage::link(forward)];
    let mut bottlenecks = vec![("forward".to_owned(), 0)];
    if reverse_matters(d, flows) {
        let rate = d.reverse_rate_mbps.unwrap_or(d.rate_mbps);
        let queue = d.reverse_queue.as_ref().unwrap_or(&d.queue);
        stages.push(Stage::link(link(rate, queue, &d.reverse_impair, shared, seed ^ 0x5bd1_e995)?));
        bottlenecks.push(("reverse".to_owned(), 1));
    }
    let mut paths = Vec::new();
    for flow in flows {
        let (there, back) = match flow.direction {
            Direction::Forward => (vec![0], if stages_hold_reverse(&bottlenecks) { vec![1] } else { vec![] }),
            Direction::Reverse => (vec![1], vec![0]),
        };
        let rest = Span::from_millis_f64(rtt(flow)) - shared * (1 + back.len() as u64);
        paths.push((there, with_delay(back, rest, &mut stages)?));
    }
    Ok(Layout { network: Network { stages, link_header: d.link_header_bytes }, bottlenecks, paths })
}

fn stages_hold_reverse(bottlenecks: &[(String, u16)]) -> bool {
    bottlenecks.len() > 1
}

/// Acknowledgements alone do not queue on a reverse link as fast as the forward one (spec K.13): then it is a delay.
fn reverse_matters(d: &Dumbbell, flows: &[Flow]) -> bool {
    flows.iter().any(|flow| flow.direction == Direction::Reverse)
        || d.reverse_rate_mbps.is_some()
        || d.reverse_queue.is_some()
        || d.reverse_impair != ImpairConfig::default()
}

fn link(rate_mbps: f64, queue: &QueueConfig, impair: &ImpairConfig, delay: Span, seed: u64) -> Result<Link, ScenarioError> {
    let rate = Rate::from_mbps_f64(rate_mbps);
    let queue = queue.build(rate, seed).map_err(|e| ScenarioError::new(e.to_string()))?;
    let impair = ImpairConfig { delay_ms: impair.delay_ms + delay.millis_f64(), ..*impair };
    impair.check().map_err(|e| ScenarioError::new(e.to_string()))?;
    Ok(Link::new(queue, rate, Impairments::new(&impair, seed)))
}

/// `path` with a delay at its end; flows with the same delay share one stage.
fn with_delay(mut path: Vec<u16>, delay: Span, stages: &mut Vec<Stage>) -> Result<Vec<u16>, ScenarioError> {
    if delay == Span::ZERO {
        return Ok(path);
    }
    let found = stages.iter().position(|stage| stage.link.is_none() && stage.delay == delay);
    let at = found.unwrap_or_else(|| {
        stages.push(Stage::delay(delay));
        stages.len() - 1
    });
    path.push(u16::try_from(at).map_err(|_| ScenarioError::new("more than 65,535 different delays"))?);
    Ok(path)
}
