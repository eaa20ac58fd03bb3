//! What can be chosen of a port and its connections. Knows no sockets.

use lowtide_cc::{Controller, ParamError, Params, Span, Start, Time, registry};
use lowtide_utp::header::HEADER_BYTES;
use lowtide_utp::{Config, PathMtu, Repair};

/// What a UDP datagram over IPv4 carries beside uTP's header.
const MOST_PACKET: u16 = 65_507 - HEADER_BYTES as u16 - 20;
/// The shortest timer.
const SHORTEST: Span = Span::from_millis(1);

/// What can be chosen; the defaults are libutp's limits under libutp-mod's congestion control.
#[derive(Clone, Debug)]
pub struct Options {
    /// The congestion control, by its name in `lowtide_cc::registry`.
    pub control: String,
    /// The control's parameters.
    pub params: Params,
    /// What happens to a retransmission that is lost; libutp itself waits for the timeout.
    pub repair: Repair,
    /// The floor of the retransmission timeout.
    pub min_rto: Span,
    /// Timers are looked at this often; libutp's programs do every 500 ms.
    pub tick: Span,
    /// A peer that is silent for so long while nothing is under way to it is asked whether it is there, and given up after three
    /// questions without an answer, 10 s apart or as far as this if that is less; none: never, as libutp.
    pub silence: Option<Span>,
    /// Payload of a full packet, without a search for what the path carries; none searches (RFC 8899).
    pub packet: Option<u16>,
    /// Bytes written and not acknowledged, per connection.
    pub send_buffer: usize,
    /// Bytes received and not read, per connection.
    pub receive_buffer: u32,
    /// Connections on the port; further SYNs are ignored. libutp: 3000.
    pub max_connections: usize,
    /// Connections whose peer has not shown yet that it has our answer, about 2 KB each. Another SYN takes the place of the oldest: so
    /// many may arrive within a round trip.
    pub max_half_open: usize,
    /// Connections established and not accepted yet; further SYNs are ignored.
    pub backlog: usize,
    /// Bytes asked of the kernel for the UDP socket's buffers; it may give fewer (net.core.rmem_max, wmem_max).
    pub udp_buffer: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            control: "libutp-mod".to_owned(),
            params: Params::default(),
            repair: Repair::ByTime,
            min_rto: Span::from_millis(1000),
            tick: Span::from_millis(500),
            silence: Some(Span::from_secs(120)),
            packet: None,
            send_buffer: 1 << 20,
            receive_buffer: 1 << 20,
            max_connections: 16_384,
            max_half_open: 4096,
            backlog: 1024,
            udp_buffer: 4 << 20,
        }
    }
}

/// Options that cannot be had.
#[derive(Debug)]
pub struct OptionsError(String);

impl std::fmt::Display for OptionsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OptionsError {}

impl From<ParamError> for OptionsError {
    fn from(error: ParamError) -> OptionsError {
        OptionsError(error.to_string())
    }
}

impl Options {
    /// A control for a new connection.
    pub(crate) fn control(&self, mtu: PathMtu, seed: u64, now: Time) -> Result<Box<dyn Controller>, OptionsError> {
        let entry = registry::by_name(&self.control).map_err(|e| OptionsError(e.to_string()))?;
        let start = Start { now, mss: u32::from(self.largest_packet(mtu)), seed, ..Start::default() };
        Ok(entry.build(&self.params, &start)?)
    }

    /// A connection's parameters, to an IPv4 address or not.
    pub(crate) fn config(&self, mtu: PathMtu) -> Config {
        Config {
            packet: self.largest_packet(mtu),
            path_mtu: self.packet.is_none().then_some(mtu),
            min_rto: self.min_rto,
            tick: self.tick,
            repair: self.repair,
            silence: self.silence,
            send_buffer: self.send_buffer as u64,
            receive_buffer: self.receive_buffer,
        }
    }

    fn largest_packet(&self, mtu: PathMtu) -> u16 {
        self.packet.unwrap_or(mtu.ceiling - HEADER_BYTES as u16)
    }

    pub(crate) fn check(&self) -> Result<(), OptionsError> {
        self.control(PathMtu::IPV4, 0, Time::ZERO)?;
        let rule = |holds: bool, text: &str| if holds { Ok(()) } else { Err(OptionsError(text.to_owned())) };
        rule(self.send_buffer >= 1400, "send_buffer must be at least 1400 bytes, one packet")?;
        rule(self.receive_buffer >= 1400, "receive_buffer must be at least 1400 bytes, one packet")?;
        rule(self.packet.is_none_or(|packet| (1..=MOST_PACKET).contains(&packet)), "packet must be between 1 and 65,467 bytes")?;
        rule(self.min_rto >= SHORTEST && self.tick >= SHORTEST, "min_rto and tick must be at least 1 ms")?;
        rule(self.max_half_open >= 1 && self.backlog >= 1, "max_half_open and backlog must be at least 1")
    }
}
