//! A scenario's network as stages, and the path of each flow through them. Knows no traffic.

use lowtide_net::{ImpairConfig, Impairments, Opportunities, QueueConfig, Seed, Wifi};
use lowtide_scenario::scenario::{self, Channel, Flow, Limit, Route, Wiring};
use lowtide_scenario::{Scenario, ScenarioError};
use lowtide_units::{Rate, Span};

use crate::link::Link;
use crate::service::{HostJitter, Service};
use crate::stage::Stage;
use crate::world::Network;

/// A network with its named bottlenecks and a path for each of the scenario's flows.
pub struct Layout {
    /// What carries the packets.
    pub network: Network,
    /// Names and stages of the bottlenecks, forward first.
    pub bottlenecks: Vec<(String, u16)>,
    /// The path of each flow of the scenario.
    pub paths: Vec<Path>,
}

/// The path of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Stages to the receiver, of all copies of the flow.
    pub there: Vec<u16>,
    /// Stages back.
    pub back: Vec<u16>,
    /// The stage of the first copy's own link, where senders have one; the next copy's is the next.
    pub own: Option<u16>,
}

impl Path {
    /// The stages to the receiver of copy number `copy`.
    pub fn there_of(&self, copy: u32) -> Vec<u16> {
        let own = self.own.map(|first| first + copy as u16);
        own.into_iter().chain(self.there.iter().copied()).collect()
    }
}

/// Topologies by name, for `--list`.
pub static TOPOLOGIES: &[(&str, &str)] = &[
    ("dumbbell", "one bottleneck that all flows share: rate_mbps, rtt_ms, queue, and reverse_* for the way back"),
    ("parking_lot", "hops equal bottlenecks in a line: hops, rate_mbps, delay_ms, queue; a flow says from which node to which"),
    ("graph", "named nodes and links: [[topology.links]] from, to, rate_mbps, delay_ms, queue; a flow says from, to or route"),
];

/// Lays a scenario's network out.
///
/// # Errors
/// A queue that cannot be built, a route that is not there, or more stages than a path can name.
pub fn lay_out(scenario: &Scenario, seed: u64) -> Result<Layout, ScenarioError> {
    let wiring = scenario.topology.wiring(&scenario.flows);
    let routes = scenario.flows.iter().map(|flow| wiring.route(flow)).collect::<Result<Vec<_>, _>>()?;
    let (mut layout, seed) = (Builder::default(), Seed::new(seed));
    let bottlenecks = layout.links(&wiring, &routes, seed)?;
    let mut paths = Vec::new();
    let jitter = Span::from_nanos((scenario.host_jitter_us * 1e3) as u64);
    for (index, (flow, route)) in scenario.flows.iter().zip(&routes).enumerate() {
        let hosts = seed.of("host").nth(index as u64);
        let mut there = layout.host(jitter, hosts.of("sender"))?;
        there.extend(layout.path(&wiring, &route.there, Span::ZERO)?);
        let mut back = layout.host(jitter, hosts.of("receiver"))?;
        back.extend(layout.path(&wiring, &route.back, route.rest)?);
        paths.push(Path { there, back, own: layout.own(&wiring, flow, seed.of("access").nth(index as u64))? });
    }
    Ok(Layout { network: Network { stages: layout.stages, link_header: wiring.link_header_bytes }, bottlenecks, paths })
}

/// The most flow queues of all links: some hundred megabytes.
const MOST_FLOW_QUEUES: usize = 4_000_000;

/// A network under construction.
#[derive(Default)]
struct Builder {
    stages: Vec<Stage>,
    /// The stage of each channel that is a link.
    links: Vec<Option<u16>>,
    /// Flow queues of all links.
    flow_queues: usize,
}

impl Builder {
    /// Builds the channels that are links, those of all forward directions first.
    fn links(&mut self, wiring: &Wiring, routes: &[Route], seed: Seed) -> Result<Vec<(String, u16)>, ScenarioError> {
        let count = wiring.channels.len();
        self.links = vec![None; count];
        let mut bottlenecks = Vec::new();
        for i in (0..count).step_by(2).chain((1..count).step_by(2)) {
            let channel = &wiring.channels[i];
            let carries_data = routes.iter().any(|route| route.there.contains(&i));
            let Some(limit) = channel.limit.as_ref().filter(|_| channel.always || carries_data) else { continue };
            self.plan(&limit.queue)?;
            let stage = self.add(Stage::link(link(limit, channel, seed.of("link").nth(i as u64))?))?;
            self.links[i] = Some(stage);
            bottlenecks.push((channel.name.clone(), stage));
        }
        Ok(bottlenecks)
    }

    /// The stages of `channels` and `rest`; delays in a row are one stage.
    fn path(&mut self, wiring: &Wiring, channels: &[usize], rest: Span) -> Result<Vec<u16>, ScenarioError> {
        let (mut path, mut delay) = (Vec::new(), Span::ZERO);
        for &channel in channels {
            match self.links[channel] {
                Some(stage) => {
                    path.extend(self.delay(std::mem::take(&mut delay))?);
                    path.push(stage);
                }
                None => delay += wiring.channels[channel].delay,
            }
        }
        path.extend(self.delay(delay + rest)?);
        Ok(path)
    }

    /// The stage of a host's jitter, none without.
    fn host(&mut self, most: Span, seed: Seed) -> Result<Vec<u16>, ScenarioError> {
        if most == Span::ZERO {
            return Ok(Vec::new());
        }
        Ok(vec![self.add(Stage::host(HostJitter::new(most, seed.generator())))?])
    }

    /// The stage of a delay, shared by all that have the same.
    fn delay(&mut self, delay: Span) -> Result<Option<u16>, ScenarioError> {
        if delay == Span::ZERO {
            return Ok(None);
        }
        let found = self.stages.iter().position(|stage| stage.is_delay() && stage.delay == delay);
        found.map_or_else(|| self.add(Stage::delay(delay)), |at| Ok(at as u16)).map(Some)
    }

    /// The links that the copies of `flow` have of their own; the first one's stage.
    fn own(&mut self, wiring: &Wiring, flow: &Flow, seed: Seed) -> Result<Option<u16>, ScenarioError> {
        let Some(access) = &wiring.access else { return Ok(None) };
        let mut first = None;
        for copy in 0..flow.count {
            self.plan(&access.queue)?;
            let mut own = build(access.rate_mbps, &access.queue, ImpairConfig::default(), seed.nth(u64::from(copy)))?;
            own.own = true;
            let stage = self.add(Stage::link(own))?;
            first.get_or_insert(stage);
        }
        Ok(first)
    }

    /// Notes that a link with `queue` is to be built.
    fn plan(&mut self, queue: &QueueConfig) -> Result<(), ScenarioError> {
        self.flow_queues = self.flow_queues.saturating_add(queue.flow_queues());
        let fits = self.flow_queues <= MOST_FLOW_QUEUES;
        if fits { Ok(()) } else { Err(ScenarioError::at("topology", "its links have more than 4,000,000 flow queues; lower `queues`")) }
    }

    fn add(&mut self, stage: Stage) -> Result<u16, ScenarioError> {
        // The last number ends a path in `Paths`.
        let at = u16::try_from(self.stages.len()).ok().filter(|&at| at < u16::MAX);
        let at = at.ok_or_else(|| ScenarioError::at("topology", "more than 65,535 links and different delays"))?;
        self.stages.push(stage);
        Ok(at)
    }
}

fn link(limit: &Limit, channel: &Channel, seed: Seed) -> Result<Link, ScenarioError> {
    let impair = ImpairConfig { delay_ms: limit.impair.delay_ms + channel.delay.millis_f64(), ..limit.impair };
    let link = build(limit.rate_mbps, &limit.queue, impair, seed)?;
    if let Some(kind) = &limit.service {
        let (rate, seed) = (link.rate(), seed.of("service"));
        return Ok(link.served_by(match kind {
            scenario::Service::Wifi(config) => Service::radio(Wifi::new(*config, rate, seed.generator())),
            scenario::Service::Cellular(config) => Service::slots(Opportunities::drawn(*config, rate, seed)),
            scenario::Service::Recorded(recording) => Service::slots(Opportunities::recorded(recording.clone())),
        }));
    }
    Ok(match (&limit.trace, limit.token_bucket) {
        (Some(trace), _) => link.following(trace.clone()),
        (None, Some(burst)) => link.into_token_bucket(burst),
        (None, None) => link,
    })
}

fn build(rate_mbps: f64, queue: &QueueConfig, impair: ImpairConfig, seed: Seed) -> Result<Link, ScenarioError> {
    let rate = Rate::from_mbps_f64(rate_mbps);
    let queue = queue.build(rate, seed.of("queue")).map_err(|e| ScenarioError::at("topology", e.to_string()))?;
    impair.check().map_err(|e| ScenarioError::at("topology", e.to_string()))?;
    Ok(Link::new(queue, rate, Impairments::new(&impair, seed)))
}

#[cfg(test)]
mod tests;
