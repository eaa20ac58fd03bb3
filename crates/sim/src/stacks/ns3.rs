//! The socket of ns-3.37, for comparison with that simulator's results: a port to be read beside `src/internet/model`. What ns-3 calls a
//! thing is said at each; its faults are kept. `crates/sim/tests/ns3.rs` compares it with records of ns-3 itself.
//!
//! | here | there |
//! |---|---|
//! | `socket.rs`, `ack.rs`, `send.rs` | `tcp-socket-base.cc`: the sending end |
//! | `receiver.rs` | `tcp-socket-base.cc`: the receiving end; `tcp-dctcp.cc`: what of DCTCP runs there |
//! | `tx_buffer.rs`, `rx_buffer.rs` | `tcp-tx-buffer.cc`, `tcp-rx-buffer.cc` |
//! | `rtt.rs` | `rtt-estimator.cc`, and of the socket `EstimateRtt`, `UpdateRttHistory` |
//! | `recovery.rs` | `tcp-recovery-ops.cc`, `tcp-prr-recovery.cc` |
//! | `rate.rs` | `tcp-rate-ops.cc` |
//!
//! Not ported: sockets without SACK or without timestamps, Nagle's algorithm, resets, both ends sending. Segments are not split: one that
//! the peer's window does not hold whole waits, and a probe of a closed window is a whole segment, where ns-3 sends what fits, or a byte.

mod ack;
mod rate;
pub mod receiver;
mod recovery;
mod rtt;
mod rx_buffer;
mod send;
pub mod socket;
mod tx_buffer;

#[cfg(test)]
mod tests;

use lowtide_scenario::scenario::{Ns3Recovery, Tcp};
use lowtide_units::{Span, Time};

use receiver::ReceiverConfig;
use recovery::RecoveryOps;
use socket::SocketConfig;

/// The ends that a scenario asks for.
pub fn config(tcp: &Tcp) -> (SocketConfig, ReceiverConfig) {
    let ns3 = tcp.ns3.unwrap_or_default();
    let buffer = tcp.rcvbuf_bytes.unwrap_or(1 << 30);
    let sender = SocketConfig {
        segment: tcp.mss,
        recovery: match ns3.recovery {
            Ns3Recovery::Prr => RecoveryOps::prr(),
            Ns3Recovery::Classic => RecoveryOps::Classic,
        },
        min_rto: tcp.min_rto_ms.map_or(Span::from_secs(1), Span::from_millis_f64),
        snd_buf: buffer,
        pacing: tcp.pacing,
        ecn: tcp.ecn,
    };
    let receiver = ReceiverConfig {
        segment: tcp.mss,
        del_ack_max_count: tcp.delayed_ack,
        del_ack_timeout: Span::from_millis_f64(tcp.ack_timer_ms),
        rcv_buf: buffer,
        scale: tcp.window_scale,
        ecn: tcp.ecn,
        dctcp: false,
    };
    (sender, receiver)
}

/// A clock reading as the timestamp option has it, in ms (`TcpOptionTS::NowToTsValue`).
fn ts_value(at: Time) -> i64 {
    (at.nanos() / 1_000_000) as i64
}

/// The time since `echo` by that clock (`TcpOptionTS::ElapsedTimeFromTsValue`); a microsecond where it is none (`EstimateRtt`).
pub fn elapsed(echo: Time, now: Time) -> Span {
    match ts_value(now) - ts_value(echo) {
        ms if ms > 0 => Span::from_millis(ms as u64),
        _ => Span::from_micros(1),
    }
}
