//! The one-way agents of ns-2.35 that the papers' scripts ran, and their sinks, for comparison with that simulator's results: a port to be
//! read beside `tcp/` there. `crates/sim/tests/ns2.rs` compares it with records of ns-2 itself.
//!
//! | here | there |
//! |---|---|
//! | `tcp_agent.rs` | `tcp.cc`: `TcpAgent`, what both agents inherit |
//! | `agent.rs` | which of the two it is |
//! | `reno.rs` | `tcp-reno.cc`: `RenoTcpAgent` (`Agent/TCP/Reno`) |
//! | `linux.rs` | `tcp-linux.cc`, `scoreboard1.cc`: `LinuxTcpAgent` (`Agent/TCP/Linux`) before a sink without SACK |
//! | `rtt.rs` | of both: `rtt_update`, `rtt_timeout`, `rtt_backoff`, and the one segment a round that is timed |
//! | `sink.rs` | `tcp-sink.cc`: `TcpSink`, `DelAckSink` |
//!
//! Numbers are those of `tcl/lib/ns-default.tcl`. Not ported: SACK, ECN, limited slow start, F-RTO, Quick-Start.

mod agent;
mod linux;
mod reno;
mod rtt;
pub mod sink;
mod tcp_agent;

#[cfg(test)]
mod tests;

use lowtide_scenario::scenario::{Ns2Agent, Tcp};
use lowtide_units::Span;

pub use agent::Agent;
use sink::SinkConfig;
pub use tcp_agent::AgentConfig;

/// The ends that a scenario asks for.
pub fn config(tcp: &Tcp) -> (AgentConfig, SinkConfig) {
    let ns2 = tcp.ns2.unwrap_or_default();
    let sender = AgentConfig {
        linux: ns2.agent == Ns2Agent::Linux,
        size: tcp.mss,
        timestamps: ns2.timestamps,
        minrto: tcp.min_rto_ms.map_or(Span::from_millis(200), Span::from_millis_f64),
        one_way: ns2.one_way,
    };
    let sink = SinkConfig {
        size: tcp.mss,
        every: tcp.delayed_ack,
        interval: Span::from_millis_f64(tcp.ack_timer_ms),
        buffer: tcp.rcvbuf_bytes.unwrap_or(1 << 30),
        scale: tcp.window_scale,
    };
    (sender, sink)
}
