//! What the receiver reports: counters of the group and a snapshot of each flow, as plain data. Knows no kernel.

use std::fmt;
use std::net::SocketAddr;

use lowtide_units::Span;
use lowtide_window::Phase;
use serde::{Deserialize, Serialize};

/// How a flow's round-trip time is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// TCP timestamps and the right edge (docs/algorithms/receiver.md): exact.
    Timestamps,
    /// No timestamps were negotiated: by the right edge alone; exact while the window is the limit.
    Edge,
}

/// One flow as the kernel last saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowSnapshot {
    /// The socket's cookie: a name that lives as long as the connection.
    pub cookie: u64,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// How its RTT is measured.
    pub mode: Mode,
    /// The state of its path's controller.
    pub phase: Phase,
    /// Payload bytes received, each once.
    pub bytes: u64,
    /// Data segments received (after the kernel merged what arrived together).
    pub segments: u64,
    /// Retransmissions noticed.
    pub retransmissions: u64,
    /// Slowdowns of its path so far.
    pub slowdowns: u64,
    /// The smallest RTT of the last ten minutes; none before the first sample.
    pub base_rtt: Option<Span>,
    /// The latest RTT sample.
    pub rtt: Option<Span>,
    /// Current queueing delay: what the path adds to the base RTT.
    pub queueing_delay: Option<Span>,
    /// Bytes this flow may have in flight: its part of the path's window.
    pub window: u64,
    /// Bytes all flows of the path may have in flight together.
    pub path_window: u64,
    /// Flows that share the path's window now.
    pub path_flows: u32,
    /// The window scale this end announced.
    pub window_scale: u8,
    /// Segments leave its socket that the outgoing program does not see, or cannot parse: its window is not lowered.
    pub unseen: bool,
    /// How long ago it last received payload.
    pub idle: Span,
    /// How long it has been managed.
    pub age: Span,
}

/// Counters of the whole group since it was attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Payload bytes received, each once.
    pub bytes: u64,
    /// Data segments received.
    pub segments: u64,
    /// Connections managed so far.
    pub flows: u64,
    /// Connections that did not yield, or not for a time.
    pub left_alone: LeftAlone,
    /// Retransmissions noticed.
    pub retransmissions: u64,
    /// Times a window was halved for a loss or a CE mark.
    pub losses: u64,
    /// Slowdowns begun.
    pub slowdowns: u64,
    /// RTT samples taken.
    pub samples: u64,
    /// Mean queueing delay over the samples; none before the first.
    pub mean_queueing_delay: Option<Span>,
    /// Time, summed over paths, in which the queueing delay was above the target and the window gave way.
    pub yielded: Span,
    /// Packets to managed connections that could not be parsed completely and were not counted.
    pub unparsed: u64,
    /// Packets from managed connections that could not be parsed and left as they were.
    pub unparsed_sent: u64,
    /// Segments that left with a smaller window than the kernel's.
    pub lowered: u64,
}

/// Connections of the group that do not yield, by cause (`enum left_alone` of bpf/intf.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftAlone {
    /// Open before lowtide came, and the kernel does not tell their window scale.
    pub window_scale_unknown: u64,
    /// Multipath TCP: its windows belong to the whole connection, not to a subflow (RFC 8684 section 3.3.1).
    pub mptcp: u64,
    /// The kernel gave the socket no more storage: several runs manage it, and `net.core.optmem_max` is small.
    pub no_socket_storage: u64,
    /// More remote addresses than lowtide keeps.
    pub paths_full: u64,
    /// Their segments left by a way that lowtide's outgoing program does not see, or with headers that it cannot read.
    pub acks_unseen: u64,
    /// Open when their process joined the group, and made in a cgroup that was removed, is out of sight, or takes no program of ours.
    #[serde(default)]
    pub made_elsewhere: u64,
}

impl LeftAlone {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.causes().iter().map(|(n, _)| n).sum()
    }

    /// How many of each cause, in words.
    pub fn causes(&self) -> [(u64, &'static str); 6] {
        [
            (self.window_scale_unknown, "open before lowtide came, window scale unknown"),
            (self.mptcp, "Multipath TCP"),
            (self.no_socket_storage, "no socket storage left (net.core.optmem_max)"),
            (self.paths_full, "more remote addresses than lowtide keeps"),
            (self.acks_unseen, "acknowledgements leave where lowtide does not see or cannot read them (another BPF program, IPsec)"),
            (self.made_elsewhere, "open before lowtide came, made in a cgroup that lowtide cannot attach to"),
        ]
    }
}

impl fmt::Display for LeftAlone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let causes: Vec<String> = self.causes().iter().filter(|(n, _)| *n > 0).map(|(n, why)| format!("{n} {why}")).collect();
        f.write_str(&causes.join("; "))
    }
}

/// What a program cost the kernel's verifier, the larger part of what starting takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// The program.
    pub name: String,
    /// Instructions it has.
    pub instructions: usize,
    /// Instructions the verifier followed, each as often as ways lead to it ("processed" in its log; the kernel's limit is 10⁶).
    pub followed: u32,
}

/// A program that the kernel refuses, as a whole or in one thing that it would do, and without which all else works; or a group's sending control, for which
/// another stands in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lacking {
    /// The program, or the control's profile.
    pub program: &'static str,
    /// The kernel's reason.
    pub why: String,
}

/// What stands in for a control is [`crate::Sender::sends_by`].
const STANDS_IN: &str = "what is sent yields by a simpler control";

impl Lacking {
    /// What is not done without it.
    pub fn means(&self) -> &'static str {
        match self.program {
            "receive_joined" | "open_before" => "with --pid, what connections receive that were open before is NOT held back",
            "take_over" => "what connections send that were open before is NOT held back",
            "give_back" => "connections that outlive a run act as Reno until the next one",
            "send_init" => "uploads are not paced",
            control if lowtide_window::by_name(control).is_ok() => STANDS_IN,
            "reclaim" => "connections of runs that were killed act as Reno for good",
            _ => "uploads are not shown, and count when their connection ends",
        }
    }
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (`{}`: {})", self.means(), self.program, self.why)
    }
}
