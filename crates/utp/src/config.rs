//! What can be chosen of a connection, with libutp's values. Knows no congestion control.

use lowtide_units::Span;

use crate::mtu::PathMtu;

/// A connection's parameters; the defaults are libutp's (commit 3110314, utp_internal.cpp).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Payload of a full packet: what IPv4 over Ethernet with room for PPPoE, GRE and Teredo leaves, less the header.
    pub packet: u16,
    /// Between which limits the path is asked for the largest datagram it carries; none: every packet is as large as `packet` says.
    pub path_mtu: Option<PathMtu>,
    /// The floor of the retransmission timeout: 1 s.
    pub min_rto: Span,
    /// Timers are looked at this often, and when packets arrive: TIMEOUT_CHECK_INTERVAL, 500 ms.
    pub tick: Span,
    /// What happens to a retransmission that is lost.
    pub repair: Repair,
    /// A peer of which nothing was heard for this long, and to which nothing is under way, is asked whether it is there; none: never, as
    /// libutp.
    pub silence: Option<Span>,
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

impl Default for Config {
    fn default() -> Config {
        Config {
            packet: 1382,
            path_mtu: None,
            min_rto: Span::from_millis(1000),
            tick: Span::from_millis(500),
            repair: Repair::Once,
            silence: None,
            send_buffer: 1 << 20,
            receive_buffer: 1 << 20,
        }
    }
}
