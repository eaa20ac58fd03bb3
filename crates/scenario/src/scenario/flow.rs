//! A flow of a scenario: who it is, when it runs, what it sends, over which transport. Knows no algorithm by name.

use serde::{Deserialize, Serialize};

use super::{FASTEST_MBPS, LONGEST_S, SLOWEST_MBPS, ScenarioError, check_delay, require};

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
    /// The node its data comes from (topologies with nodes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The node its data goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// All nodes of its way, instead of `from`, `to` and the shortest way between them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub route: Vec<String>,
    /// Its own base RTT instead of the topology's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// What it sends.
    #[serde(default)]
    pub traffic: Traffic,
    /// The TCP it runs over.
    #[serde(default)]
    pub tcp: Tcp,
    /// The uTP it runs over (`kind = "utp"`).
    #[serde(default)]
    pub utp: Utp,
    /// What the laboratory runs for it.
    #[serde(default)]
    pub lab: Lab,
}

/// The most transfers, or bursts, that all copies of a flow may make.
const MOST_TRANSFERS: f64 = 1e6;
/// The most datagrams.
const MOST_DATAGRAMS: f64 = 1e9;
/// The shortest burst.
const SHORTEST_S: f64 = 1e-6;
/// The most copies of one flow.
const MOST_COPIES: u32 = 10_000;
/// An IPv4 packet's 65,535 bytes less 52 of headers with timestamps.
const LARGEST_MSS: u32 = 65_483;

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
    /// The profile of the window's algorithm; `lowtide sim --list` names them.
    pub algorithm: String,
    /// Parameters of that algorithm; in the simulator only.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub params: toml::Table,
}

/// The direction of a flow's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Towards the clients: a download; from `from` to `to`.
    #[default]
    Forward,
    /// Towards the servers: an upload; from `to` to `from`.
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
        /// The first burst comes so long after the connection's start.
        wait_s: Option<f64>,
        /// With a rate: what is written and not yet acknowledged is no more than this; the application does not make up for it.
        buffer_bytes: Option<u64>,
    },
    /// New transfers at random times.
    Poisson {
        /// Mean number of arrivals per second.
        arrivals_per_s: f64,
        /// Mean payload bytes, exponentially distributed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mean_bytes: Option<f64>,
        /// Their distribution is Pareto's with this shape and that mean instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pareto_shape: Option<f64>,
        /// Instead of a mean, points of their cumulative distribution: bytes, and the part of all transfers that is no larger.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sizes: Vec<[f64; 2]>,
    },
}

/// The TCP of a flow; the defaults are today's Linux.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tcp {
    /// Whose TCP it is.
    pub stack: Stack,
    /// Payload of a full segment.
    pub mss: u32,
    /// Segments per delayed ACK: 1 or 2.
    pub delayed_ack: u32,
    /// The delayed-ACK timer.
    pub ack_timer_ms: f64,
    /// Segments acknowledged at once at the start (Linux quick-ACK).
    pub quickack: u32,
    /// The floor of the timer, the profile's if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rto_ms: Option<f64>,
    /// Initial window in segments, the algorithm's if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u32>,
    /// How losses are found and repaired (`rfc` only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// Pace also those that do not ask for it.
    pub pacing: bool,
    /// What is paced leaves in bursts of two segments or more (TCP segmentation offload).
    pub tso: bool,
    /// The receiver's buffer: no window is larger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rcvbuf_bytes: Option<u64>,
    /// Shift of the advertised window.
    pub window_scale: u8,
    /// Granularity of the timestamp clock; 0 is exact.
    pub timestamp_ms: f64,
    /// Use ECN.
    pub ecn: bool,
    /// What only ns-3's socket has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns3: Option<Ns3>,
    /// What only ns-2's agents have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns2: Option<Ns2>,
}

impl Default for Tcp {
    fn default() -> Tcp {
        Tcp {
            stack: Stack::Linux,
            mss: 1448,
            delayed_ack: 2,
            ack_timer_ms: 40.0,
            quickack: 16,
            min_rto_ms: None,
            initial_window: None,
            recovery: None,
            pacing: false,
            tso: false,
            rcvbuf_bytes: None,
            window_scale: 10,
            timestamp_ms: 0.0,
            ecn: false,
            ns3: None,
            ns2: None,
        }
    }
}

/// Whose TCP a flow runs over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stack {
    /// Linux 6.18: RACK-TLP, proportional rate reduction, F-RTO, undo.
    #[default]
    Linux,
    /// The RFCs: 5681, 6298, and 6675 or 6582.
    Rfc,
    /// ns-3.37's socket.
    Ns3,
    /// An agent of ns-2.35, and its sink.
    Ns2,
}

/// How the RFCs' sender finds and repairs losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recovery {
    /// RFC 6675.
    #[default]
    Sack,
    /// RFC 6582 without SACK: one hole a round trip.
    Newreno,
}

/// What only ns-3.37's socket has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ns3 {
    /// `TcpRecoveryOps`.
    pub recovery: Ns3Recovery,
}

/// How ns-3's window falls during a recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ns3Recovery {
    /// `TcpPrrRecovery`.
    #[default]
    Prr,
    /// `TcpClassicRecovery`.
    Classic,
}

/// What only ns-2's agents have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ns2 {
    /// Which agent sends.
    pub agent: Ns2Agent,
    /// The sink reports what arrives out of order (`TCPSink/Sack1`); otherwise the Linux agent knows losses by its timer alone.
    pub sack: bool,
    /// Each acknowledgement is an RTT sample (`timestamps_`); otherwise one segment a round is timed.
    pub timestamps: bool,
    /// No handshake: the SYN is the first segment of the initial window, and the others do not wait for it.
    pub one_way: bool,
}

impl Default for Ns2 {
    fn default() -> Ns2 {
        Ns2 { agent: Ns2Agent::Linux, sack: false, timestamps: false, one_way: true }
    }
}

/// The agents of ns-2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ns2Agent {
    /// `Agent/TCP/Linux`: Linux 2.6.22's congestion controls.
    #[default]
    Linux,
    /// `Agent/TCP/Reno`.
    Reno,
}

/// The uTP of a flow; the defaults are libutp's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Utp {
    /// Payload of a full packet.
    pub payload_bytes: u16,
    /// The floor of the retransmission timer.
    pub min_rto_ms: f64,
    /// How often timers are looked at.
    pub tick_ms: f64,
    /// What happens to a lost retransmission; if absent, what the congestion control's own program does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
}

impl Default for Utp {
    fn default() -> Utp {
        Utp { payload_bytes: 1382, min_rto_ms: 1000.0, tick_ms: 500.0, repair: None }
    }
}

/// What uTP does about a lost retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// Waits for the timeout, as libutp.
    Once,
    /// Sends it again once a packet sent later has arrived, as libutp-mod.
    ByTime,
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
        Lab { program: "curl".to_owned(), connections: 1, lowtide: false, target: "ledbat_pp-enhanced-burst".to_owned() }
    }
}

impl Flow {
    /// In a file, a receiver that would do nothing is a slip. (`--set kind=tcp` takes it away.)
    pub(super) fn check_receiver_counts(&self) -> Result<(), ScenarioError> {
        let key = format!("flows.{}.receiver", self.name);
        require(self.receiver.is_none() || self.kind == Kind::Rledbat, &key, "does nothing without `kind = \"rledbat\"`")
    }

    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        let rule = |ok: bool, key: &str, rule: &str| require(ok, &format!("flows.{}.{key}", self.name), rule);
        let held = "kind rledbat needs `receiver = { algorithm = \"ledbat_pp-enhanced-burst\" }`";
        rule(self.kind != Kind::Rledbat || self.receiver.is_some(), "receiver", held)?;
        rule(self.kind == Kind::Udp || !self.cc.is_empty(), "cc", "is missing; `lowtide sim --list` names the congestion controls")?;
        let times = [("start_s", self.start_s), ("start_jitter_s", self.start_jitter_s), ("stagger_s", self.stagger_s)];
        for (key, value) in times {
            rule(value <= LONGEST_S, key, "must be at most 10000000 (115 days)")?;
        }
        rule(self.start_s >= 0.0, "start_s", "must not be negative")?;
        rule(self.stop_s.is_none_or(|stop| stop > self.start_s), "stop_s", "must lie after `start_s`")?;
        rule(self.start_jitter_s >= 0.0, "start_jitter_s", "must not be negative")?;
        rule(self.stagger_s >= 0.0, "stagger_s", "must not be negative")?;
        self.rtt_ms.map_or(Ok(()), |rtt| check_delay(rtt, &format!("flows.{}.rtt_ms", self.name)))?;
        rule(self.count <= MOST_COPIES, "count", "must be at most 10000")?;
        rule((1..=LARGEST_MSS).contains(&self.tcp.mss), "tcp.mss", "must be between 1 and 65483: an IP packet's 64 KiB less the headers")?;
        rule(self.tcp.window_scale <= 14, "tcp.window_scale", "must be at most 14 (RFC 7323)")?;
        rule((1..=2).contains(&self.tcp.delayed_ack), "tcp.delayed_ack", "must be 1 (every segment) or 2")?;
        let tcp = &self.tcp;
        rule(tcp.ns3.is_none() || tcp.stack == Stack::Ns3, "tcp.ns3", "does nothing without `stack = \"ns3\"`")?;
        rule(tcp.ns2.is_none() || tcp.stack == Stack::Ns2, "tcp.ns2", "does nothing without `stack = \"ns2\"`")?;
        rule(tcp.recovery.is_none() || tcp.stack == Stack::Rfc, "tcp.recovery", "does nothing without `stack = \"rfc\"`")?;
        rule((1..=9000).contains(&self.utp.payload_bytes), "utp.payload_bytes", "must be between 1 and 9000")?;
        rule(self.utp.min_rto_ms >= 1.0 && self.utp.tick_ms >= 1.0, "utp", "`min_rto_ms` and `tick_ms` must be at least 1")?;
        rule(self.traffic.is_sound(), "traffic", "its sizes, times and rates must be above 0")?;
        let Traffic::Poisson { mean_bytes, pareto_shape, sizes, .. } = &self.traffic else { return Ok(()) };
        rule(mean_bytes.is_some() == sizes.is_empty(), "traffic", "wants one of `mean_bytes` and `sizes`")?;
        let has_mean = |shape: f64| shape > 1.0 && mean_bytes.is_some();
        rule(pareto_shape.is_none_or(has_mean), "traffic.pareto_shape", "must be above 1, beside `mean_bytes`")?;
        rule(
            sizes.is_empty() || is_distribution(sizes),
            "traffic.sizes",
            "must be points [bytes, part] such as [[1000, 0.5], [1e6, 1]]: both rise, the last part is 1",
        )
    }

    /// Whether what it sends in `duration_s` can be simulated in a bounded time and memory.
    pub(super) fn check_amount(&self, duration_s: f64) -> Result<(), ScenarioError> {
        let rule = |ok: bool, key: &str, rule: &str| require(ok, &format!("flows.{}.traffic.{key}", self.name), rule);
        let copies = f64::from(self.count);
        let transfers = "makes more than 1000000 transfers in `duration_s`; give it a longer pause, or fewer copies";
        match &self.traffic {
            Traffic::Repeat { every_s, .. } => rule(duration_s / every_s * copies <= MOST_TRANSFERS, "every_s", transfers),
            Traffic::Poisson { arrivals_per_s, .. } => {
                rule(duration_s * arrivals_per_s * copies <= MOST_TRANSFERS, "arrivals_per_s", transfers)
            }
            Traffic::Cbr { rate_kbps, packet_bytes } => {
                let packets = rate_kbps * 1e3 / 8.0 / f64::from(*packet_bytes) * duration_s * copies;
                rule(*rate_kbps <= FASTEST_MBPS * 1e3, "rate_kbps", "must be at most 1000000000 (1 Tbit/s)")?;
                rule(packets <= MOST_DATAGRAMS, "rate_kbps", "makes more than 1000000000 packets in `duration_s`; lower it")
            }
            Traffic::OnOff { on_s, off_s, rate_mbps, .. } => {
                let fast = rate_mbps.is_none_or(|mbps| (SLOWEST_MBPS..=FASTEST_MBPS).contains(&mbps));
                rule(fast, "rate_mbps", "must be between 0.000001 and 1000000")?;
                let bursts = duration_s / (on_s + off_s) * copies;
                rule(*on_s >= SHORTEST_S && bursts <= MOST_TRANSFERS, "on_s", "must be at least 0.000001, and make at most 1000000 bursts")
            }
            Traffic::Bulk | Traffic::Finite { .. } => Ok(()),
        }
    }

    pub(super) fn check_has_no_ends(&self) -> Result<(), ScenarioError> {
        let said = [("from", self.from.is_some()), ("to", self.to.is_some()), ("route", !self.route.is_empty())];
        match said.iter().find(|(_, said)| *said) {
            Some((key, _)) => Err(ScenarioError::at(format!("flows.{}.{key}", self.name), "a dumbbell has no nodes; say `direction`")),
            None => Ok(()),
        }
    }
}

/// Points of a cumulative distribution.
fn is_distribution(points: &[[f64; 2]]) -> bool {
    let rises = points.windows(2).all(|pair| pair[1][0] > pair[0][0] && pair[1][1] > pair[0][1]);
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return false };
    rises && first[0] > 0.0 && first[1] >= 0.0 && last[1] == 1.0 && last[0].is_finite()
}

impl Traffic {
    fn is_sound(&self) -> bool {
        let positive = |value: &Option<f64>| value.is_none_or(|value| value > 0.0);
        match self {
            Traffic::Bulk => true,
            Traffic::Finite { bytes } => *bytes > 0,
            Traffic::Repeat { bytes, every_s } => *bytes > 0 && *every_s > 0.0,
            Traffic::Cbr { rate_kbps, packet_bytes } => *rate_kbps > 0.0 && *packet_bytes > 0,
            Traffic::OnOff { on_s, off_s, rate_mbps: r, wait_s: w, .. } => *on_s > 0.0 && *off_s >= 0.0 && positive(r) && positive(w),
            Traffic::Poisson { arrivals_per_s, mean_bytes, .. } => *arrivals_per_s > 0.0 && positive(mean_bytes),
        }
    }
}
