//! The network of a scenario as its file writes it: a dumbbell, a parking lot or a graph of named nodes. Knows no flow.

use std::path::Path;

use lowtide_net::{CellularConfig, ImpairConfig, QueueConfig, RateTrace, Recording, WifiConfig};
use lowtide_units::Rate;
use serde::{Deserialize, Serialize};

use super::{ScenarioError, check_delay, check_rate, read_text, require};

/// The network between senders and receivers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[expect(clippy::large_enum_variant, reason = "a scenario has one")]
pub enum Topology {
    /// One bottleneck that all flows share.
    Dumbbell(Dumbbell),
    /// Equal bottlenecks in a line; flows say where they enter and leave.
    ParkingLot(ParkingLot),
    /// Any nodes and links; flows say from where to where.
    Graph(Graph),
}

/// One bottleneck, the same both ways unless said otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dumbbell {
    /// The bottleneck's rate, forward.
    pub rate_mbps: f64,
    /// The rate over time instead: a trace's file, or its text (`lowtide_net::RateTrace`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_trace: Option<String>,
    /// The reverse rate, the forward one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_rate_mbps: Option<f64>,
    /// The reverse rate over time; constant if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_rate_trace: Option<String>,
    /// The base RTT of the path, without serialisation.
    pub rtt_ms: f64,
    /// The queue before the bottleneck, forward.
    pub queue: QueueConfig,
    /// The reverse queue, the forward one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_queue: Option<QueueConfig>,
    /// Impairments of the forward direction.
    #[serde(default)]
    pub impair: ImpairConfig,
    /// Impairments of the reverse direction.
    #[serde(default)]
    pub reverse_impair: ImpairConfig,
    /// Bytes of link header that the bottleneck counts per packet (Ethernet: 14).
    #[serde(default = "ethernet")]
    pub link_header_bytes: u32,
    /// A link of each sender's own before the bottleneck; none: as fast as need be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// The bottleneck is a token bucket that saves up so many bytes (HTB, tbf, dummynet), not a wire: a packet whose turn has
    /// come leaves whole and the next one waits, so that its own serialisation is no part of its delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_bucket_bytes: Option<u32>,
    /// Forward, the bottleneck is a Wi-Fi station that sends what waits as aggregates (`lowtide_net::wifi`); its PHY has the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wifi: Option<WifiConfig>,
    /// Forward, the bottleneck is a cellular link whose rate wanders by the seed (`lowtide_net::opportunities`), from the rate on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cellular: Option<CellularConfig>,
    /// Forward, packets leave at recorded times: a trace in mahimahi's format, or its text (`lowtide_net::opportunities`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opportunities: Option<String>,
}

/// A sender's own link. Its delay is part of the base RTT.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Its rate.
    pub rate_mbps: f64,
    /// The queue before it.
    pub queue: QueueConfig,
}

/// `hops` equal links in a line between the nodes `0`, `1`, …; a flow crosses those between its `from` and its `to`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParkingLot {
    /// How many bottlenecks.
    pub hops: u32,
    /// The rate of each, both ways.
    pub rate_mbps: f64,
    /// The delay of each, one way.
    pub delay_ms: f64,
    /// Delay between a host and the node it is at, one way.
    #[serde(default)]
    pub access_ms: f64,
    /// The queue before each, both ways.
    pub queue: QueueConfig,
    /// Impairments of each, both ways.
    #[serde(default)]
    pub impair: ImpairConfig,
    /// Bytes of link header that the bottlenecks count per packet (Ethernet: 14).
    #[serde(default = "ethernet")]
    pub link_header_bytes: u32,
}

/// Links between named nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// Bytes of link header that the links count per packet (Ethernet: 14).
    #[serde(default = "ethernet")]
    pub link_header_bytes: u32,
    /// The links; the nodes are those that they name.
    pub links: Vec<GraphLink>,
}

/// A link between two nodes, the same both ways unless said otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphLink {
    /// Its name in results; `FROM-TO` if absent.
    #[serde(default)]
    pub name: String,
    /// The node it leaves.
    pub from: String,
    /// The node it enters.
    pub to: String,
    /// Its rate; none: a delay alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<f64>,
    /// The rate over time instead: a trace's file, or its text (`lowtide_net::RateTrace`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_trace: Option<String>,
    /// The rate from `to` to `from`, the same if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_rate_mbps: Option<f64>,
    /// The rate from `to` to `from` over time; constant if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_rate_trace: Option<String>,
    /// Its delay, one way.
    #[serde(default)]
    pub delay_ms: f64,
    /// The delay from `to` to `from`, the same if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_delay_ms: Option<f64>,
    /// The queue before it, which a link with a rate needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueConfig>,
    /// The queue at `to`, the same if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_queue: Option<QueueConfig>,
    /// Impairments from `from` to `to`.
    #[serde(default)]
    pub impair: ImpairConfig,
    /// Impairments from `to` to `from`.
    #[serde(default)]
    pub reverse_impair: ImpairConfig,
}

fn ethernet() -> u32 {
    14
}

/// The most bottlenecks of a parking lot: a packet counts its hops in eight bits.
const MOST_HOPS: u32 = 100;

impl Topology {
    pub(super) fn check(&mut self, dir: &Path) -> Result<(), ScenarioError> {
        match self {
            Topology::Dumbbell(d) => d.check(dir),
            Topology::ParkingLot(p) => p.check(),
            Topology::Graph(g) => g.check(dir),
        }
    }
}

impl Dumbbell {
    fn check(&mut self, dir: &Path) -> Result<(), ScenarioError> {
        check_line(self.rate_mbps, Some(&self.queue), ("topology.rate_mbps", "topology.queue"))?;
        let (back, queue) = (self.reverse_rate_mbps.unwrap_or(self.rate_mbps), self.reverse_queue.as_ref());
        check_line(back, queue, ("topology.reverse_rate_mbps", "topology.reverse_queue"))?;
        if let Some(access) = &self.access {
            check_line(access.rate_mbps, Some(&access.queue), ("topology.access.rate_mbps", "topology.access.queue"))?;
        }
        check_delay(self.rtt_ms, "topology.rtt_ms")?;
        impairments(&self.impair, "topology.impair")?;
        impairments(&self.reverse_impair, "topology.reverse_impair")?;
        let constant = self.rate_trace.is_none() && self.reverse_rate_trace.is_none();
        require(
            constant || self.token_bucket_bytes.is_none(),
            "topology.token_bucket_bytes",
            "needs a constant rate; leave out `rate_trace`",
        )?;
        take_in(&mut self.rate_trace, "topology.rate_trace", dir, check_trace)?;
        take_in(&mut self.reverse_rate_trace, "topology.reverse_rate_trace", dir, check_trace)?;
        self.check_service(dir)
    }

    /// A bottleneck is one kind of link.
    fn check_service(&mut self, dir: &Path) -> Result<(), ScenarioError> {
        let kinds = [
            ("topology.rate_trace", self.rate_trace.is_some()),
            ("topology.token_bucket_bytes", self.token_bucket_bytes.is_some()),
            ("topology.wifi", self.wifi.is_some()),
            ("topology.cellular", self.cellular.is_some()),
            ("topology.opportunities", self.opportunities.is_some()),
        ];
        let named: Vec<&str> = kinds.iter().filter(|kind| kind.1).map(|kind| kind.0).collect();
        if let [first, second, ..] = named[..] {
            return Err(ScenarioError::at(second, format!("does not go with `{first}`; the bottleneck is one or the other")));
        }
        let rule =
            |at: &str, checked: Result<(), (&str, &str)>| checked.map_err(|(key, rule)| ScenarioError::at(format!("{at}.{key}"), rule));
        self.wifi.as_ref().map_or(Ok(()), |wifi| rule("topology.wifi", wifi.check()))?;
        self.cellular.as_ref().map_or(Ok(()), |cellular| rule("topology.cellular", cellular.check()))?;
        take_in(&mut self.opportunities, "topology.opportunities", dir, |text| Recording::parse(text).map(drop).map_err(|e| e.to_string()))
    }
}

impl ParkingLot {
    fn check(&self) -> Result<(), ScenarioError> {
        require((1..=MOST_HOPS).contains(&self.hops), "topology.hops", "must be between 1 and 100")?;
        check_line(self.rate_mbps, Some(&self.queue), ("topology.rate_mbps", "topology.queue"))?;
        check_delay(self.delay_ms, "topology.delay_ms")?;
        check_delay(self.access_ms, "topology.access_ms")?;
        impairments(&self.impair, "topology.impair")
    }
}

impl Graph {
    /// Checks the links and names those that have no name.
    fn check(&mut self, dir: &Path) -> Result<(), ScenarioError> {
        require(!self.links.is_empty(), "topology.links", "there must be at least one link")?;
        for i in 0..self.links.len() {
            let (before, rest) = self.links.split_at_mut(i);
            let link = &mut rest[0];
            let at = if link.name.is_empty() { format!("topology.links.{}", i + 1) } else { format!("topology.links.{}", link.name) };
            link.check(&at)?;
            take_in(&mut link.rate_trace, &format!("{at}.rate_trace"), dir, check_trace)?;
            take_in(&mut link.reverse_rate_trace, &format!("{at}.reverse_rate_trace"), dir, check_trace)?;
            if link.name.is_empty() {
                link.name = format!("{}-{}", link.from, link.to);
            }
            let twin = before.iter().any(|l| l.name == link.name);
            require(!twin, &format!("{at}.name"), "two links have this name; parallel links need a `name` each")?;
        }
        Ok(())
    }
}

impl GraphLink {
    fn check(&self, at: &str) -> Result<(), ScenarioError> {
        let rule = |ok: bool, key: &str, rule: &str| require(ok, &format!("{at}.{key}"), rule);
        rule(!self.name.contains('.'), "name", "must not contain a dot")?;
        rule(!self.from.is_empty(), "from", "must name a node")?;
        rule(!self.to.is_empty() && self.to != self.from, "to", "must name another node than `from`")?;
        let key = |key: &str| format!("{at}.{key}");
        if let Some(rate) = self.rate_mbps {
            check_line(rate, self.queue.as_ref(), (&key("rate_mbps"), &key("queue")))?;
        }
        if let Some(rate) = self.reverse_rate_mbps.or(self.rate_mbps) {
            check_line(rate, self.reverse_queue.as_ref(), (&key("reverse_rate_mbps"), &key("reverse_queue")))?;
        }
        check_delay(self.delay_ms, &key("delay_ms"))?;
        self.reverse_delay_ms.map_or(Ok(()), |delay| check_delay(delay, &key("reverse_delay_ms")))?;
        rule(self.rate_mbps.is_none() || self.queue.is_some(), "queue", "is missing; a link with a rate needs one")?;
        impairments(&self.impair, &format!("{at}.impair"))?;
        impairments(&self.reverse_impair, &format!("{at}.reverse_impair"))?;
        let constant = self.rate_trace.is_none() && self.reverse_rate_trace.is_none();
        rule(self.rate_mbps.is_some() || constant, "rate_mbps", "is missing; with a trace it sizes the queue")?;
        let bare = self.queue.is_none() && self.reverse_queue.is_none() && self.reverse_rate_mbps.is_none();
        let perfect = self.impair == ImpairConfig::default() && self.reverse_impair == ImpairConfig::default();
        rule(self.rate_mbps.is_some() || (bare && perfect), "rate_mbps", "is missing; queues and impairments need a rate")
    }
}

/// A line's rate, and the queue before it; the keys of both.
fn check_line(mbps: f64, queue: Option<&QueueConfig>, (rate_key, queue_key): (&str, &str)) -> Result<(), ScenarioError> {
    check_rate(mbps, rate_key)?;
    let sound = queue.map_or(Ok(()), |queue| queue.check(Rate::from_mbps_f64(mbps)));
    sound.map_err(|e| ScenarioError::at(queue_key, e.to_string()))
}

fn impairments(impair: &ImpairConfig, at: &str) -> Result<(), ScenarioError> {
    impair.check().map_err(|e| ScenarioError::at(format!("{at}.{}", e.key()), e.rule()))
}

/// Replaces the name of a trace's file (which has no line feed) by what is in it, so that results stand alone; and checks that.
fn take_in(trace: &mut Option<String>, key: &str, dir: &Path, check: fn(&str) -> Result<(), String>) -> Result<(), ScenarioError> {
    let Some(trace) = trace else { return Ok(()) };
    let mut file = String::new();
    if !trace.contains('\n') {
        let text = read_text(&dir.join(&*trace)).map_err(|e| {
            ScenarioError::at(
                key,
                format!(
                    "`{}` cannot be read: {e}; it is a file beside the scenario, or a trace of several lines",
                    dir.join(&*trace).display()
                ),
            )
        })?;
        file = format!("{}: ", std::mem::replace(trace, text));
    }
    check(trace).map_err(|e| ScenarioError::at(key, format!("{file}{e}")))
}

fn check_trace(text: &str) -> Result<(), String> {
    RateTrace::parse(text).map(drop).map_err(|e| e.to_string())
}
