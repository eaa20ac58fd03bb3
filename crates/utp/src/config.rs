//! What can be chosen of a connection, with libutp's values. Knows no congestion control.

use lowtide_units::Span;

/// A connection's parameters; the defaults are libutp's (commit 3110314; spec B.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Payload of a full packet: what IPv4 over Ethernet with room for PPPoE, GRE and Teredo leaves, less the header.
    pub packet: u16,
    /// The floor of the retransmission timeout: 1 s.
    pub min_rto: Span,
    /// Timers are looked at this often, and when packets arrive: TIMEOUT_CHECK_INTERVAL, 500 ms.
    pub tick: Span,
    /// What happens to a retransmission that is lost.
    pub repair: Repair,
    /// How often the congestion control hears of losses.
    pub episodes: Episodes,
    /// Bytes in flight at most (opt_sndbuf).
    pub send_buffer: u64,
    /// Bytes of the receive buffer (opt_rcvbuf).
    pub receive_buffer: u32,
}

/// What happens to a retransmission that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// It waits for the timeout: libutp repairs a packet once.
    Once,
    /// It is sent again as soon as a packet sent after it is known to have arrived: libutp-mod (Al-Saadi 2018, sec. IV-B).
    ByTime,
}

/// How often the congestion control hears of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Episodes {
    /// With every acknowledgement that made something be sent again: libutp's control has a gate of its own.
    EveryRepair,
    /// Once per window of data: the contract of all others.
    PerWindow,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            packet: 1382,
            min_rto: Span::from_millis(1000),
            tick: Span::from_millis(500),
            repair: Repair::Once,
            episodes: Episodes::EveryRepair,
            send_buffer: 1 << 20,
            receive_buffer: 1 << 20,
        }
    }
}
