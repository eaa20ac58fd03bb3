//! Any topology as one-way channels between nodes, and the route of each flow over them. Knows no packets.

use lowtide_net::{CellularConfig, ImpairConfig, QueueConfig, RateTrace, Recording, WifiConfig};
use lowtide_units::Span;

use super::topology::{Access, Dumbbell, Graph, GraphLink, ParkingLot, Topology};
use super::{Direction, Flow, ScenarioError};

/// A topology as channels. A link's two directions are neighbours: the way back over channel `i` is channel `i ^ 1`.
#[derive(Clone, Debug)]
pub struct Wiring {
    /// The channels.
    pub channels: Vec<Channel>,
    /// Bytes of link header that each counts per packet.
    pub link_header_bytes: u32,
    /// The link that each sender has of its own.
    pub access: Option<Access>,
    /// The RTT of flows that name none; none: what their route takes, and `hosts`.
    rtt: Option<Span>,
    /// What the hosts at both ends add to an RTT.
    hosts: Span,
    /// Where flows enter and leave that do not say so.
    ends: Option<(String, String)>,
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct Channel {
    /// Its name in results.
    pub name: String,
    /// The node it leaves.
    pub from: String,
    /// The node it enters.
    pub to: String,
    /// Propagation.
    pub delay: Span,
    /// What limits it; none: a delay alone.
    pub limit: Option<Limit>,
    /// It has settings of its own: acknowledgements alone may queue here. Otherwise they do not on a way back as fast as
    /// the way there, and where no flow's data goes the channel is a delay.
    pub always: bool,
}

/// What limits a channel.
#[derive(Clone, Debug)]
pub struct Limit {
    /// Its rate.
    pub rate_mbps: f64,
    /// Its rate over time, where that is not constant.
    pub trace: Option<RateTrace>,
    /// The queue before it.
    pub queue: QueueConfig,
    /// What happens behind it.
    pub impair: ImpairConfig,
    /// It is a token bucket that saves up so many bytes.
    pub token_bucket: Option<u32>,
    /// It is no wire.
    pub service: Option<Service>,
}

/// A link that serves several packets at once, or not when it is free but when it may.
#[derive(Clone, Debug)]
pub enum Service {
    /// Aggregates on a shared channel; the rate is the PHY's.
    Wifi(WifiConfig),
    /// Opportunities drawn by a model of a cellular network; the rate is their first and mean.
    Cellular(CellularConfig),
    /// Recorded opportunities.
    Recorded(Recording),
}

/// The way of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The channels of its data.
    pub there: Vec<usize>,
    /// The channels of its acknowledgements.
    pub back: Vec<usize>,
    /// What its RTT has beyond the delays of these.
    pub rest: Span,
}

impl Topology {
    /// The channels of this topology as `flows` need them.
    pub fn wiring(&self, flows: &[Flow]) -> Wiring {
        match self {
            Topology::Dumbbell(d) => Wiring::of_dumbbell(d, flows),
            Topology::ParkingLot(p) => Wiring::of_parking_lot(p),
            Topology::Graph(g) => Wiring::of_graph(g),
        }
    }
}

impl Wiring {
    /// What all flows share of the delay lies behind the bottleneck, the rest of each one's RTT on its way back.
    fn of_dumbbell(d: &Dumbbell, flows: &[Flow]) -> Wiring {
        let shared = flows.iter().map(|flow| flow.rtt_ms.unwrap_or(d.rtt_ms)).fold(d.rtt_ms, f64::min);
        let there = Limit {
            rate_mbps: d.rate_mbps,
            trace: read(d.rate_trace.as_ref()),
            queue: d.queue.clone(),
            impair: d.impair,
            token_bucket: d.token_bucket_bytes,
            service: service(d),
        };
        let back = Limit {
            rate_mbps: d.reverse_rate_mbps.unwrap_or(d.rate_mbps),
            trace: read(d.reverse_rate_trace.as_ref()),
            queue: d.reverse_queue.as_ref().unwrap_or(&d.queue).clone(),
            impair: d.reverse_impair,
            token_bucket: d.token_bucket_bytes,
            service: None,
        };
        let own = d.reverse_rate_mbps.is_some()
            || d.reverse_rate_trace.is_some()
            || d.reverse_queue.is_some()
            || d.reverse_impair != ImpairConfig::default();
        let channel = |name: &str, from: &str, to: &str, limit, always| Channel {
            name: name.to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
            delay: Span::from_millis_f64(shared / 2.0),
            limit: Some(limit),
            always,
        };
        Wiring {
            channels: vec![channel("forward", "servers", "clients", there, true), channel("reverse", "clients", "servers", back, own)],
            link_header_bytes: d.link_header_bytes,
            access: d.access.clone(),
            rtt: Some(Span::from_millis_f64(d.rtt_ms)),
            hosts: Span::ZERO,
            ends: Some(("servers".to_owned(), "clients".to_owned())),
        }
    }

    fn of_parking_lot(p: &ParkingLot) -> Wiring {
        let link = |hop: u32| GraphLink {
            name: format!("hop{}", hop + 1),
            from: hop.to_string(),
            to: (hop + 1).to_string(),
            rate_mbps: Some(p.rate_mbps),
            rate_trace: None,
            reverse_rate_trace: None,
            reverse_rate_mbps: None,
            delay_ms: p.delay_ms,
            reverse_delay_ms: None,
            queue: Some(p.queue.clone()),
            reverse_queue: None,
            impair: p.impair,
            reverse_impair: p.impair,
        };
        let graph = Graph { link_header_bytes: p.link_header_bytes, links: (0..p.hops).map(link).collect() };
        // Two hosts, each crossed twice.
        let hosts = Span::from_millis_f64(4.0 * p.access_ms);
        Wiring { hosts, ends: Some(("0".to_owned(), p.hops.to_string())), ..Wiring::of_graph(&graph) }
    }

    fn of_graph(graph: &Graph) -> Wiring {
        Wiring {
            channels: graph.links.iter().flat_map(both_ways).collect(),
            link_header_bytes: graph.link_header_bytes,
            access: None,
            rtt: None,
            hosts: Span::ZERO,
            ends: None,
        }
    }

    /// The route of `flow`: what it says, else the one with the least delay, of equals the one with the fewest links.
    ///
    /// # Errors
    /// A node or link that is not there, ends that are not joined, or an RTT that the route exceeds.
    pub fn route(&self, flow: &Flow) -> Result<Route, ScenarioError> {
        let at = |key: &str, rule: String| ScenarioError::at(format!("flows.{}.{key}", flow.name), rule);
        let mut there = if flow.route.is_empty() {
            let (from, to) = self.ends_of(flow)?;
            self.shortest(from, to).ok_or_else(|| at("to", format!("there is no way from `{from}` to `{to}`")))?
        } else {
            self.along(flow)?
        };
        let mut back: Vec<usize> = there.iter().rev().map(|channel| channel ^ 1).collect();
        if flow.direction == Direction::Reverse {
            std::mem::swap(&mut there, &mut back);
        }
        let path = there.iter().chain(&back).fold(Span::ZERO, |sum, &channel| sum + self.channels[channel].delay);
        let rtt = flow.rtt_ms.map(Span::from_millis_f64).or(self.rtt).unwrap_or(path + self.hosts);
        // A dumbbell's delay was made from the RTTs, two halves that may round up.
        if rtt < path && self.rtt.is_none() {
            return Err(at("rtt_ms", format!("must be at least {} ms, the delay of its route there and back", path.millis_f64())));
        }
        Ok(Route { there, back, rest: rtt.saturating_sub(path) })
    }

    fn ends_of<'a>(&'a self, flow: &'a Flow) -> Result<(&'a str, &'a str), ScenarioError> {
        let end = |key: &str, said: &'a Option<String>, default: Option<&'a String>| {
            let at = |rule: String| ScenarioError::at(format!("flows.{}.{key}", flow.name), rule);
            let node = said.as_ref().or(default).ok_or_else(|| at(format!("is missing; the nodes are {}", self.nodes())))?;
            if self.channels.iter().all(|c| c.from != *node) {
                return Err(at(format!("there is no node `{node}`; the nodes are {}", self.nodes())));
            }
            Ok(node.as_str())
        };
        let ends = self.ends.as_ref();
        let (from, to) = (end("from", &flow.from, ends.map(|e| &e.0))?, end("to", &flow.to, ends.map(|e| &e.1))?);
        if from == to {
            return Err(ScenarioError::at(format!("flows.{}.to", flow.name), "must be another node than `from`"));
        }
        Ok((from, to))
    }

    fn nodes(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for channel in &self.channels {
            if !names.contains(&channel.from.as_str()) {
                names.push(&channel.from);
            }
        }
        names.join(", ")
    }

    /// The channels between the nodes that the flow lists.
    fn along(&self, flow: &Flow) -> Result<Vec<usize>, ScenarioError> {
        let at = |rule: String| ScenarioError::at(format!("flows.{}.route", flow.name), rule);
        if flow.from.is_some() || flow.to.is_some() {
            return Err(at("names the ends too; leave `from` and `to` out".to_owned()));
        }
        let step = |pair: &[String]| {
            let between = |c: &Channel| c.from == pair[0] && c.to == pair[1];
            let found = (0..self.channels.len()).filter(|&i| between(&self.channels[i])).min_by_key(|&i| self.channels[i].delay);
            found.ok_or_else(|| {
                let near: Vec<&str> = self.channels.iter().filter(|c| c.from == pair[0]).map(|c| c.to.as_str()).collect();
                let linked =
                    if near.is_empty() { format!("the nodes are {}", self.nodes()) } else { format!("it has to {}", near.join(", ")) };
                at(format!("there is no link from `{}` to `{}`; {linked}", pair[0], pair[1]))
            })
        };
        let steps = flow.route.windows(2).map(step).collect::<Result<Vec<_>, _>>()?;
        if steps.is_empty() { Err(at("must name at least two nodes".to_owned())) } else { Ok(steps) }
    }

    /// The channels of the shortest way (Bellman and Ford: graphs of scenario files are small).
    fn shortest(&self, from: &str, to: &str) -> Option<Vec<usize>> {
        let node = |name: &str| self.channels.iter().position(|c| c.from == name);
        // A node is known by its first channel; what is kept of it is the cost and the channel it is reached by.
        let mut best: Vec<Option<(Span, u32, Option<usize>)>> = vec![None; self.channels.len()];
        best[node(from)?] = Some((Span::ZERO, 0, None));
        loop {
            let mut changed = false;
            for (i, channel) in self.channels.iter().enumerate() {
                let (Some(tail), Some(head)) = (node(&channel.from), node(&channel.to)) else { continue };
                let Some((delay, hops, _)) = best[tail] else { continue };
                let cost = (delay + channel.delay, hops + 1);
                if best[head].is_none_or(|(d, h, _)| cost < (d, h)) {
                    best[head] = Some((cost.0, cost.1, Some(i)));
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        let mut way = Vec::new();
        let mut at = node(to)?;
        while let Some(channel) = best[at]?.2 {
            way.push(channel);
            at = node(&self.channels[channel].from)?;
        }
        way.reverse();
        Some(way)
    }
}

/// A trace as the scenario holds it: one that its check has accepted.
fn read(trace: Option<&String>) -> Option<RateTrace> {
    trace.and_then(|text| RateTrace::parse(text).ok())
}

/// What serves the packets of a dumbbell that is no wire.
fn service(d: &Dumbbell) -> Option<Service> {
    let recording = d.opportunities.as_ref().and_then(|text| Recording::parse(text).ok());
    d.wifi.map(Service::Wifi).or(d.cellular.map(Service::Cellular)).or(recording.map(Service::Recorded))
}

/// A link as its two channels.
fn both_ways(link: &GraphLink) -> [Channel; 2] {
    let limit = |rate: Option<f64>, trace: Option<&String>, queue: Option<&QueueConfig>, impair| {
        rate.zip(queue).map(|(rate_mbps, queue)| Limit {
            rate_mbps,
            trace: read(trace),
            queue: queue.clone(),
            impair,
            token_bucket: None,
            service: None,
        })
    };
    let (rate, trace, queue) = (link.rate_mbps, link.rate_trace.as_ref(), link.queue.as_ref());
    let (back_rate, back_trace, back_queue) = (link.reverse_rate_mbps, link.reverse_rate_trace.as_ref(), link.reverse_queue.as_ref());
    let there = Channel {
        name: link.name.clone(),
        from: link.from.clone(),
        to: link.to.clone(),
        delay: Span::from_millis_f64(link.delay_ms),
        limit: limit(rate, trace, queue, link.impair),
        always: false,
    };
    let back = Channel {
        name: format!("{}.reverse", link.name),
        from: link.to.clone(),
        to: link.from.clone(),
        delay: Span::from_millis_f64(link.reverse_delay_ms.unwrap_or(link.delay_ms)),
        limit: limit(back_rate.or(rate), back_trace, back_queue.or(queue), link.reverse_impair),
        always: back_rate.is_some() || back_trace.is_some() || back_queue.is_some() || link.reverse_impair != ImpairConfig::default(),
    };
    // A way back that differs makes the way there differ too: data may go either way.
    [Channel { always: back.always, ..there }, back]
}

#[cfg(test)]
mod tests;
