//! The socket of ns-3.37 (`src/internet/model/tcp-socket-base.cc` and what it calls), for comparison with that simulator's results.

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

use lowtide_scenario::scenario::{Ns3Recovery, Tcp};
use lowtide_units::Span;

use receiver::{Echo, ReceiverConfig};
use rto::RtoProfile;
use sender::{Detection, Reduction, SenderConfig};

/// The ends that a scenario asks for.
pub fn config(tcp: &Tcp) -> (SenderConfig, ReceiverConfig) {
    let ns3 = tcp.ns3.unwrap_or_default();
    let sender = SenderConfig {
        mss: tcp.mss,
        detection: Detection::Rfc6675,
        reduction: match ns3.recovery {
            Ns3Recovery::Prr => Reduction::Prr,
            Ns3Recovery::Classic => Reduction::AtOnce,
        },
        rto: RtoProfile::Ns3,
        rto_floor: tcp.min_rto_ms.map(Span::from_millis_f64),
        tlp: false,
        undo: false,
        granularity: Span::from_millis_f64(tcp.timestamp_ms),
        pacing: tcp.pacing,
        ecn: tcp.ecn,
        group: tcp.delayed_ack,
        stalls: true,
        impatient: true,
        ghosts: true,
        disorder: true,
        echoed_rtt: ns3.echoed_rtt,
        smoothed_rtt: ns3.smoothed_rtt,
        one_way: false,
        validated: ns3.validated,
        counts_twice: true,
    };
    let receiver = ReceiverConfig {
        every: tcp.delayed_ack,
        delay: Span::from_millis_f64(tcp.ack_timer_ms),
        quick: tcp.quickack,
        sack: true,
        buffer: tcp.rcvbuf_bytes.unwrap_or(1 << 30),
        mss: tcp.mss,
        scale: tcp.window_scale,
        echo: if ns3.echoed_rtt { Echo::InOrder } else { Echo::First },
        short_of_change: true,
    };
    (sender, receiver)
}
