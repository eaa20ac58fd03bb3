//! The one-way TCP agents of ns-2.35 (`tcp/tcp-linux.cc`, `tcp/tcp-reno.cc`) and their sinks, for comparison with that simulator's
//! results.

pub mod halving;
pub mod pace;
pub mod prr;
pub mod rack;
pub mod rate;
pub mod receiver;
pub mod rto;
pub mod sack;
pub mod sender;
pub mod undo;
pub mod usage;

#[cfg(test)]
mod tests;

use lowtide_scenario::scenario::{Ns2Agent, Tcp};
use lowtide_units::Span;

use receiver::{Echo, ReceiverConfig};
use rto::RtoProfile;
use sender::{Detection, Reduction, SenderConfig};

/// The ends that a scenario asks for.
pub fn config(tcp: &Tcp) -> (SenderConfig, ReceiverConfig) {
    let ns2 = tcp.ns2.unwrap_or_default();
    let (detection, reduction) = match (ns2.agent, ns2.sack) {
        (Ns2Agent::Linux, true) => (Detection::Rack, Reduction::Halving),
        (Ns2Agent::Linux, false) => (Detection::Timer, Reduction::AtOnce),
        (Ns2Agent::Reno, _) => (Detection::Reno, Reduction::AtOnce),
    };
    let linux = ns2.agent == Ns2Agent::Linux;
    let sender = SenderConfig {
        mss: tcp.mss,
        detection,
        reduction,
        rto: if linux && !ns2.sack { RtoProfile::Ns2 { timestamps: ns2.timestamps } } else { RtoProfile::Rfc },
        rto_floor: tcp.min_rto_ms.map(Span::from_millis_f64),
        tlp: false,
        undo: false,
        granularity: Span::from_millis_f64(tcp.timestamp_ms),
        pacing: tcp.pacing,
        ecn: tcp.ecn,
        group: tcp.delayed_ack,
        stalls: false,
        impatient: false,
        ghosts: false,
        disorder: false,
        echoed_rtt: false,
        smoothed_rtt: false,
        one_way: ns2.one_way,
        validated: linux || ns2.one_way,
        counts_twice: false,
    };
    let receiver = ReceiverConfig {
        every: tcp.delayed_ack,
        delay: Span::from_millis_f64(tcp.ack_timer_ms),
        quick: tcp.quickack,
        sack: linux && ns2.sack,
        buffer: tcp.rcvbuf_bytes.unwrap_or(1 << 30),
        mss: tcp.mss,
        scale: tcp.window_scale,
        echo: if detection == Detection::Timer { Echo::LeftEdge } else { Echo::First },
        short_of_change: false,
    };
    (sender, receiver)
}
