//! A scenario: topology, flows and duration, as a TOML file. Knows no algorithm by name: those are checked by who runs it.

use std::fs;
use std::path::Path;

use lowtide_net::{ImpairConfig, QueueConfig};
use serde::{Deserialize, Serialize};

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

/// A scenario that cannot be run.
#[derive(Debug, thiserror::Error)]
#[error("scenario{}: {reason}", file.as_ref().map(|f| format!(" {f}")).unwrap_or_default())]
pub struct ScenarioError {
    file: Option<String>,
    reason: String,
}

impl ScenarioError {
    /// A rule that the scenario breaks.
    pub fn new(reason: impl Into<String>) -> ScenarioError {
        ScenarioError { file: None, reason: reason.into() }
    }
}

impl Scenario {
    /// Reads TOML text.
    ///
    /// # Errors
    /// With the line, the key and what is allowed.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        toml::from_str::<Scenario>(text).map_err(|e| ScenarioError::new(e.to_string().trim_end()))?.checked()
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
        let scenario: Scenario = tree.try_into().map_err(|e: toml::de::Error| ScenarioError::new(format!("`{key}`: {}", e.message())))?;
        scenario.checked()
    }

    fn checked(mut self) -> Result<Scenario, ScenarioError> {
        let require = |ok: bool, rule: &str| if ok { Ok(()) } else { Err(ScenarioError::new(rule)) };
        require(self.duration_s > 0.0, "`duration_s` must be above 0")?;
        require((0.0..self.duration_s).contains(&self.warmup_s), "`warmup_s` must lie in the run")?;
        let Topology::Dumbbell(link) = &self.topology;
        require(link.rate_mbps > 0.0 && link.reverse_rate_mbps.is_none_or(|r| r > 0.0), "a rate must be above 0 Mbit/s")?;
        require(link.rtt_ms >= 0.0, "`topology.rtt_ms` must not be negative")?;
        for (i, flow) in self.flows.iter_mut().enumerate() {
            if flow.group.is_empty() {
                flow.group.clone_from(&flow.name);
            }
            let rule = |rule: &str| ScenarioError::new(format!("flow {} (`{}`): {rule}", i + 1, flow.name));
            if flow.name.is_empty() || flow.name.contains('.') {
                return Err(rule("`name` must not be empty or contain a dot"));
            }
            if flow.kind == Kind::Rledbat && flow.receiver.is_none() {
                return Err(rule("kind rledbat needs `receiver = { target = … }`"));
            }
            if flow.kind != Kind::Udp && flow.cc.is_empty() {
                return Err(rule("`cc` is missing; `lowtide sim --list` names them"));
            }
            if flow.tcp.mss == 0 || flow.tcp.window_scale > 14 || !(1..=2).contains(&flow.tcp.delayed_ack) {
                return Err(rule("tcp: `mss` above 0, `window_scale` at most 14, `delayed_ack` 1 or 2"));
            }
        }
        Ok(self)
    }
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
mod tests {
    use super::*;

    const DEMO: &str = r#"
duration_s = 60.0

[topology]
kind = "dumbbell"
rate_mbps = 20.0
rtt_ms = 20.0
queue = { kind = "drop_tail", ms = 500 }

[[flows]]
name = "bulk"
cc = "cubic"

[[flows]]
name = "call"
kind = "udp"
traffic = { kind = "cbr", rate_kbps = 64, packet_bytes = 160 }
"#;

    #[test]
    fn a_scenario_survives_being_written() {
        let scenario = Scenario::parse(DEMO).expect("valid");
        assert_eq!(Scenario::parse(&toml::to_string(&scenario).expect("writable")).expect("valid"), scenario);
        assert_eq!(scenario.flows[0].group, "bulk");
    }

    #[test]
    fn keys_are_set_by_name() {
        let scenario = Scenario::parse(DEMO).expect("valid");
        let changed = scenario
            .with("topology.rtt_ms", toml::Value::Integer(100))
            .and_then(|s| s.with("flows.bulk.cc", "ledbat_pp".into()))
            .and_then(|s| s.with("flows.bulk.params.target_ms", toml::Value::Integer(25)))
            .expect("known keys");
        let Topology::Dumbbell(link) = &changed.topology;
        assert_eq!(link.rtt_ms, 100.0);
        assert_eq!(changed.flows[0].cc, "ledbat_pp");
        for (key, word) in [("topology.rtt", "rtt"), ("flows.blk.cc", "blk"), ("flows.bulk.ccc", "ccc")] {
            let message = scenario.with(key, toml::Value::Integer(1)).expect_err(key).to_string();
            assert!(message.contains(word), "{message}");
        }
    }

    #[test]
    fn errors_name_line_key_and_what_is_allowed() {
        let message = Scenario::parse(&DEMO.replace("rtt_ms", "rtt_msec")).expect_err("unknown key").to_string();
        assert!(message.contains("rtt_msec") && message.contains("rtt_ms"), "{message}");
        let message = Scenario::parse(&DEMO.replace("drop_tail", "dropp_tail")).expect_err("unknown kind").to_string();
        assert!(message.contains("dropp_tail") && message.contains("drop_tail") && message.contains("line 4"), "{message}");
        let message = Scenario::parse(&DEMO.replace("cc = \"cubic\"\n", "")).expect_err("no cc").to_string();
        assert!(message.contains("bulk") && message.contains("cc"), "{message}");
    }
}
