//! A scenario: topology, flows and duration, as a TOML file. Knows no algorithm by name: those are checked by who runs it.

use std::fmt;
use std::fs;
use std::path::Path;

use lowtide_net::{ImpairConfig, QueueConfig};
use serde::{Deserialize, Serialize};

use crate::locate::{self, Place};

/// What is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name in results; the file's name if absent.
    #[serde(default)]
    pub name: String,
    /// How long it runs.
    pub duration_s: f64,
    /// Seed of everything random in it.
    #[serde(default = "one")]
    pub seed: u64,
    /// Metrics leave out what came before this.
    #[serde(default)]
    pub warmup_s: f64,
    /// The network.
    pub topology: Topology,
    /// Who uses it.
    #[serde(default)]
    pub flows: Vec<Flow>,
}

fn one() -> u64 {
    1
}

/// The network between senders and receivers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Topology {
    /// One bottleneck that all flows share.
    Dumbbell(Dumbbell),
}

/// One bottleneck, the same both ways unless said otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dumbbell {
    /// The bottleneck's rate, forward.
    pub rate_mbps: f64,
    /// The reverse rate, the forward one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_rate_mbps: Option<f64>,
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
}

fn ethernet() -> u32 {
    14
}

/// One flow, or `count` like it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Its name; of several, `name.1`, `name.2`, ….
    pub name: String,
    /// The group it is counted with; its name if absent.
    #[serde(default)]
    pub group: String,
    /// What it runs over.
    #[serde(default)]
    pub kind: Kind,
    /// The sender's congestion control, a name of the registry.
    #[serde(default)]
    pub cc: String,
    /// Parameters of that congestion control.
    #[serde(default)]
    pub params: toml::Table,
    /// The rLEDBAT receiver's parameters (`kind = "rledbat"`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver: Option<Receiver>,
    /// How many of it; zero takes it out of the scenario.
    #[serde(default = "one_u32")]
    pub count: u32,
    /// When it starts.
    #[serde(default)]
    pub start_s: f64,
    /// When it stops, the scenario's end if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_s: Option<f64>,
    /// Added to the start, uniform from 0 to this by the seed.
    #[serde(default)]
    pub start_jitter_s: f64,
    /// Between the starts of several.
    #[serde(default)]
    pub stagger_s: f64,
    /// Which way its data goes.
    #[serde(default)]
    pub direction: Direction,
    /// Its own base RTT instead of the topology's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// What it sends.
    #[serde(default)]
    pub traffic: Traffic,
    /// The TCP it runs over.
    #[serde(default)]
    pub tcp: Tcp,
    /// What the laboratory runs for it.
    #[serde(default)]
    pub lab: Lab,
}

fn one_u32() -> u32 {
    1
}

/// What a flow runs over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// TCP with a congestion control in the sender.
    #[default]
    Tcp,
    /// TCP whose receiver holds the sender back through the window (rLEDBAT).
    Rledbat,
    /// uTP.
    Utp,
    /// Datagrams without feedback.
    Udp,
}

/// The rLEDBAT receiver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receiver {
    /// The window's algorithm: `ledbat_pp`, `enhanced` or a profile that the host knows.
    pub target: String,
}

/// The direction of a flow's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Towards the clients: a download.
    #[default]
    Forward,
    /// Towards the servers: an upload.
    Reverse,
}

/// What a flow sends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Traffic {
    /// As much as it may.
    #[default]
    Bulk,
    /// So many bytes, once.
    Finite {
        /// Payload bytes.
        bytes: u64,
    },
    /// So many bytes, again and again.
    Repeat {
        /// Payload bytes.
        bytes: u64,
        /// From start to start.
        every_s: f64,
    },
    /// Packets at a constant rate.
    Cbr {
        /// Rate of the IP packets.
        rate_kbps: f64,
        /// Size of an IP packet.
        packet_bytes: u32,
    },
    /// Bulk or limited by turns.
    OnOff {
        /// How long it sends.
        on_s: f64,
        /// How long it is silent.
        off_s: f64,
        /// Its rate while on; none: as much as it may.
        rate_mbps: Option<f64>,
    },
    /// New transfers at random times.
    Poisson {
        /// Mean number of arrivals per second.
        arrivals_per_s: f64,
        /// Mean payload bytes, exponentially distributed.
        mean_bytes: f64,
    },
}

/// The TCP of a flow; the defaults are today's Linux.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tcp {
    /// Payload of a full segment.
    pub mss: u32,
    /// Segments per delayed ACK: 1 or 2.
    pub delayed_ack: u32,
    /// The delayed-ACK timer.
    pub ack_timer_ms: f64,
    /// Segments acknowledged at once at the start (Linux quick-ACK).
    pub quickack: u32,
    /// Which retransmission timer.
    pub rto: Rto,
    /// The floor of the timer, the profile's if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rto_ms: Option<f64>,
    /// Initial window in segments, the algorithm's if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u32>,
    /// How losses are found.
    pub recovery: Recovery,
    /// Pace also those that do not ask for it.
    pub pacing: bool,
    /// The receiver's buffer: no window is larger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rcvbuf_bytes: Option<u64>,
    /// Shift of the advertised window.
    pub window_scale: u8,
    /// Granularity of the timestamp clock; 0 is exact.
    pub timestamp_ms: f64,
    /// Use ECN.
    pub ecn: bool,
}

impl Default for Tcp {
    fn default() -> Tcp {
        Tcp {
            mss: 1448,
            delayed_ack: 2,
            ack_timer_ms: 40.0,
            quickack: 16,
            rto: Rto::Linux,
            min_rto_ms: None,
            initial_window: None,
            recovery: Recovery::Rack,
            pacing: false,
            rcvbuf_bytes: None,
            window_scale: 10,
            timestamp_ms: 0.0,
            ecn: false,
        }
    }
}

/// The retransmission timer's profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rto {
    /// 200 ms floor on the variance term.
    #[default]
    Linux,
    /// RFC 6298: 1 s floor.
    Rfc,
    /// ns-3.37: 1 s floor, 3 s for a SYN.
    Ns3,
}

/// How a sender finds and repairs losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recovery {
    /// RFC 8985 with PRR.
    #[default]
    Rack,
    /// RFC 6675 with PRR.
    Sack,
    /// RFC 5681/6582 without SACK, as around 2010.
    Newreno,
}

/// What the laboratory runs for a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Lab {
    /// `curl` or `iperf3`.
    pub program: String,
    /// Connections of one program.
    pub connections: u32,
    /// Start it under `lowtide run`.
    pub lowtide: bool,
    /// `lowtide run --target`.
    pub target: String,
}

impl Default for Lab {
    fn default() -> Lab {
        Lab { program: "curl".to_owned(), connections: 1, lowtide: false, target: "enhanced".to_owned() }
    }
}

/// A scenario that cannot be run: file, line, key, the rule, and what is allowed, in one line.
#[derive(Debug, thiserror::Error)]
#[error("scenario{}{}{}: {reason}", part(" ", file.as_ref()), part(" line ", line.as_ref()), part(" key ", key.as_ref()))]
pub struct ScenarioError {
    file: Option<String>,
    line: Option<usize>,
    key: Option<String>,
    reason: String,
}

fn part<T: fmt::Display>(before: &str, what: Option<&T>) -> String {
    what.map(|w| format!("{before}{w}")).unwrap_or_default()
}

impl ScenarioError {
    /// A rule that the scenario breaks.
    pub fn new(reason: impl Into<String>) -> ScenarioError {
        ScenarioError { file: None, line: None, key: None, reason: reason.into() }
    }

    /// A rule that the value of `key` breaks.
    pub fn at(key: impl Into<String>, reason: impl Into<String>) -> ScenarioError {
        ScenarioError { key: Some(key.into()), ..ScenarioError::new(reason) }
    }

    /// The line it stands in, counted from one.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// The key it is about.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}

impl Scenario {
    /// Reads TOML text.
    ///
    /// # Errors
    /// With the line, the key and what is allowed.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        let scenario = toml::from_str::<Scenario>(text).map_err(|e| {
            let Place { line, key } = locate::complaint(text, &e);
            ScenarioError { line, key, ..ScenarioError::new(e.message().replace('\n', "; ")) }
        })?;
        scenario.checked().map_err(|e| {
            let line = e.key.as_deref().and_then(|key| locate::line_of_key(text, key));
            ScenarioError { line, ..e }
        })
    }

    /// Reads a file; an unnamed scenario takes the file's name.
    ///
    /// # Errors
    /// An unreadable file, or as [`Scenario::parse`].
    pub fn load(path: &Path) -> Result<Scenario, ScenarioError> {
        let named = |e: ScenarioError| ScenarioError { file: Some(path.display().to_string()), ..e };
        let text = fs::read_to_string(path).map_err(|e| named(ScenarioError::new(format!("cannot be read: {e}"))))?;
        let mut scenario = Scenario::parse(&text).map_err(named)?;
        if scenario.name.is_empty() {
            scenario.name = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        }
        Ok(scenario)
    }

    /// This scenario with `key` (`topology.rtt_ms`, `flows.bulk.cc`) set to `value`.
    ///
    /// # Errors
    /// An unknown key or a value it cannot take.
    pub fn with(&self, key: &str, value: toml::Value) -> Result<Scenario, ScenarioError> {
        let mut tree = toml::Value::try_from(self).map_err(|e| ScenarioError::new(e.to_string()))?;
        set(&mut tree, key, key, value)?;
        let scenario: Scenario = tree.try_into().map_err(|e: toml::de::Error| ScenarioError::at(key, e.message()))?;
        scenario.checked()
    }

    /// This scenario as the text of a file.
    ///
    /// # Errors
    /// A number that TOML cannot hold (a seed above 2^63).
    pub fn to_toml(&self) -> Result<String, ScenarioError> {
        toml::to_string(self).map_err(|e| ScenarioError::new(e.to_string()))
    }

    fn checked(mut self) -> Result<Scenario, ScenarioError> {
        require(self.duration_s > 0.0 && self.duration_s.is_finite(), "duration_s", "must be above 0")?;
        require((0.0..self.duration_s).contains(&self.warmup_s), "warmup_s", "must be at least 0 and below `duration_s`")?;
        self.topology.check()?;
        for i in 0..self.flows.len() {
            let (before, rest) = self.flows.split_at_mut(i);
            let flow = &mut rest[0];
            if flow.group.is_empty() {
                flow.group.clone_from(&flow.name);
            }
            let named = !flow.name.is_empty() && !flow.name.contains('.');
            require(named, &format!("flows.{}.name", i + 1), "must not be empty or contain a dot")?;
            let twin = before.iter().any(|f| f.name == flow.name);
            require(!twin, &format!("flows.{}.name", flow.name), "two flows have this name; `count = 2` makes several alike")?;
            flow.check()?;
        }
        Ok(self)
    }
}

fn require(ok: bool, key: &str, rule: &str) -> Result<(), ScenarioError> {
    if ok { Ok(()) } else { Err(ScenarioError::at(key, rule)) }
}

impl Topology {
    fn check(&self) -> Result<(), ScenarioError> {
        let Topology::Dumbbell(link) = self;
        require(link.rate_mbps > 0.0, "topology.rate_mbps", "must be above 0")?;
        require(link.reverse_rate_mbps.is_none_or(|r| r > 0.0), "topology.reverse_rate_mbps", "must be above 0")?;
        require(link.rtt_ms >= 0.0, "topology.rtt_ms", "must not be negative")
    }
}

impl Flow {
    fn check(&self) -> Result<(), ScenarioError> {
        let rule = |ok: bool, key: &str, rule: &str| require(ok, &format!("flows.{}.{key}", self.name), rule);
        rule(self.kind != Kind::Rledbat || self.receiver.is_some(), "receiver", "kind rledbat needs `receiver = { target = \"enhanced\" }`")?;
        rule(self.kind == Kind::Udp || !self.cc.is_empty(), "cc", "is missing; `lowtide sim --list` names the congestion controls")?;
        rule(self.start_s >= 0.0, "start_s", "must not be negative")?;
        rule(self.stop_s.is_none_or(|stop| stop > self.start_s), "stop_s", "must lie after `start_s`")?;
        rule(self.start_jitter_s >= 0.0, "start_jitter_s", "must not be negative")?;
        rule(self.stagger_s >= 0.0, "stagger_s", "must not be negative")?;
        rule(self.rtt_ms.is_none_or(|rtt| rtt >= 0.0), "rtt_ms", "must not be negative")?;
        rule(self.tcp.mss > 0, "tcp.mss", "must be above 0")?;
        rule(self.tcp.window_scale <= 14, "tcp.window_scale", "must be at most 14 (RFC 7323)")?;
        rule((1..=2).contains(&self.tcp.delayed_ack), "tcp.delayed_ack", "must be 1 (every segment) or 2")?;
        rule(self.traffic.is_sound(), "traffic", "its sizes, times and rates must be above 0")
    }
}

impl Traffic {
    fn is_sound(&self) -> bool {
        match self {
            Traffic::Bulk => true,
            Traffic::Finite { bytes } => *bytes > 0,
            Traffic::Repeat { bytes, every_s } => *bytes > 0 && *every_s > 0.0,
            Traffic::Cbr { rate_kbps, packet_bytes } => *rate_kbps > 0.0 && *packet_bytes > 0,
            Traffic::OnOff { on_s, off_s, rate_mbps } => *on_s > 0.0 && *off_s >= 0.0 && rate_mbps.is_none_or(|r| r > 0.0),
            Traffic::Poisson { arrivals_per_s, mean_bytes } => *arrivals_per_s > 0.0 && *mean_bytes > 0.0,
        }
    }
}

/// What `--set key=TEXT` means by TEXT: a TOML value, or else the text itself (`cc=cubic` needs no quotes).
pub fn value(text: &str) -> toml::Value {
    let parsed = toml::from_str::<toml::Table>(&format!("v = {text}")).ok();
    parsed.filter(|t| t.len() == 1).and_then(|mut t| t.remove("v")).unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

/// Descends `path` in `tree`; a list of tables is entered by its elements' `name`.
fn set(tree: &mut toml::Value, path: &str, whole: &str, value: toml::Value) -> Result<(), ScenarioError> {
    let (head, rest) = path.split_once('.').map_or((path, None), |(head, rest)| (head, Some(rest)));
    let unknown = || ScenarioError::new(format!("`{whole}`: there is no `{head}` here"));
    match tree {
        toml::Value::Array(items) => {
            let item = items.iter_mut().find(|i| i.get("name").and_then(toml::Value::as_str) == Some(head)).ok_or_else(unknown)?;
            set(item, rest.ok_or_else(unknown)?, whole, value)
        }
        toml::Value::Table(table) => match rest {
            None => {
                // A whole number given where a real one stands is meant as one.
                let real = matches!(table.get(head), Some(toml::Value::Float(_)));
                let value = match value {
                    toml::Value::Integer(i) if real => toml::Value::Float(i as f64),
                    other => other,
                };
                table.insert(head.to_owned(), value);
                Ok(())
            }
            Some(rest) => set(table.entry(head).or_insert_with(|| toml::Value::Table(toml::Table::new())), rest, whole, value),
        },
        _ => Err(unknown()),
    }
}

#[cfg(test)]
mod tests;
