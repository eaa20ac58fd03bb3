//! A flow of a scenario: who it is, when it runs, what it sends, over which transport. Knows no algorithm by name.

mod check;

use serde::{Deserialize, Serialize};

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
    /// Segments acknowledged at once at the start and after a pause (Linux quick-ACK).
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
    /// Each acknowledgement is an RTT sample (`timestamps_`); otherwise one segment a round is timed.
    pub timestamps: bool,
    /// No handshake: the SYN is the first segment of the initial window, and the others do not wait for it.
    pub one_way: bool,
}

impl Default for Ns2 {
    fn default() -> Ns2 {
        Ns2 { agent: Ns2Agent::Linux, timestamps: false, one_way: true }
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

impl Utp {
    /// What happens to a lost retransmission under the control `cc`: where the scenario leaves it open, what that control's own program
    /// does. All but libutp repair it.
    pub fn repair_under(&self, cc: &str) -> Repair {
        self.repair.unwrap_or(if cc == "libutp" { Repair::Once } else { Repair::ByTime })
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
    /// Start iperf3's server under `lowtide run` as well.
    pub lowtide_server: bool,
    /// `lowtide run --cc`, or `--target` where it is a delay; none for what `lowtide run` uses by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl Default for Lab {
    fn default() -> Lab {
        Lab { program: "curl".to_owned(), connections: 1, lowtide: false, lowtide_server: false, target: None }
    }
}
