//! What the sender reports: counters of the group and a snapshot of each connection, as plain data. Knows no kernel.

use std::net::SocketAddr;

use lowtide_units::Span;
use lowtide_window::Phase;
use serde::{Deserialize, Serialize};

/// One connection that sends by the group's control, as it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendSnapshot {
    /// The socket's cookie: a name that lives as long as the connection.
    pub cookie: u64,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// The state of its path's control.
    pub phase: Phase,
    /// Payload bytes acknowledged since it has the control.
    pub bytes: u64,
    /// Segments sent again since then.
    pub retransmissions: u64,
    /// Slowdowns of its path so far.
    pub slowdowns: u64,
    /// The smallest RTT of the last ten minutes; none before the first sample.
    pub base_rtt: Option<Span>,
    /// The latest RTT sample.
    pub rtt: Option<Span>,
    /// What the path adds to the base RTT.
    pub queueing_delay: Option<Span>,
    /// Bytes it may have in flight.
    pub window: u64,
    /// Bytes all connections of the path may have in flight together.
    pub path_window: u64,
    /// Connections that share the path's window now.
    pub path_flows: u32,
    /// How long ago something of it was last acknowledged.
    pub idle: Span,
    /// How long it has had the control.
    pub age: Span,
}

/// Counters of the whole group since it was attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SendTotals {
    /// Payload bytes acknowledged, each once.
    pub bytes: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Connections that got the control.
    pub flows: u64,
    /// Congestion episodes: losses, CE marks and timeouts.
    pub losses: u64,
    /// Slowdowns begun.
    pub slowdowns: u64,
    /// Episodes that turned out spurious.
    pub undone: u64,
    /// Mean queueing delay over the samples; none before the first.
    pub mean_queueing_delay: Option<Span>,
    /// Time, summed over paths, in which the queueing delay was above the target and the window gave way.
    pub yielded: Span,
    /// Times that a program asked for a control of its own.
    pub refused: u64,
    /// Connections that could not be given the control.
    pub unmanaged: u64,
    /// Connections that were open when their process joined: they belong to the group they were made in, and no program of this one sees what
    /// they receive.
    pub joined: u64,
}
