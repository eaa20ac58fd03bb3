//! What travels: one small plain struct for data, acknowledgements, handshakes and datagrams.

use lowtide_net::Ecn;
use lowtide_units::Time;
use lowtide_utp::Header;

/// Bytes of IPv4 and TCP headers with the timestamp option (RFC 791, 9293 and 7323: 20 + 20 + 12).
pub const TCP_HEADER: u32 = 52;
/// Bytes of the SACK option's head and of each block (RFC 2018 §3), with padding.
const SACK_HEADER: u32 = 4;
const SACK_BLOCK: u32 = 8;
/// Bytes of IPv4 and UDP headers.
pub const UDP_HEADER: u32 = 28;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Opens a connection.
    Syn,
    /// Answers a `Syn`.
    SynAck,
    /// A segment with payload.
    Data,
    /// An acknowledgement.
    Ack,
    /// A datagram of a flow without acknowledgements (CBR, probes).
    Datagram,
    /// A packet of uTP, whichever it is.
    Utp(Utp),
}

/// What uTP writes into a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utp {
    /// Its header.
    pub header: Header,
    /// Its selective acknowledgement as libutp writes it; zero: none.
    pub mask: u32,
    /// From the end that accepted to the one that connected.
    pub back: bool,
}

impl Kind {
    /// Whether it travels from the flow's receiver to its sender.
    pub fn goes_back(self) -> bool {
        matches!(self, Kind::Ack | Kind::SynAck | Kind::Utp(Utp { back: true, .. }))
    }
}

/// A packet. Sequence numbers count segments: every segment but a flow's last is full.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// The flow it belongs to.
    pub flow: u32,
    /// Data: the segment's number. ACK: the next segment expected.
    pub seq: u32,
    /// Bytes of the IP packet.
    pub size: u32,
    /// ACK: the advertised window in bytes, from `seq` on, as rounded by the window scale.
    pub window: u32,
    /// The sender's clock when it left (TSval).
    pub sent: Time,
    /// The clock reading being echoed (TSecr).
    pub echo: Time,
    /// ACK: one-way delay of the segment that caused it, by the receiver's clock.
    pub owd: i64,
    /// ACK: SACKed runs `[from, to)`, newest first; unused ones are empty.
    pub sack: [(u32, u32); 3],
    /// ACK: bytes reported as CE-marked.
    pub ce: u32,
    /// What it is.
    pub kind: Kind,
    /// Its ECN codepoint.
    pub ecn: Ecn,
    /// ACK: the TCP header's ECE flag, which echoes a mark (RFC 3168 §6.1.3).
    pub ece: bool,
    /// Data: its CWR flag, which answers the echo.
    pub cwr: bool,
    /// Data: sent before.
    pub retransmission: bool,
    /// Data: the last of the transfer; the sender has closed.
    pub fin: bool,
}

impl Packet {
    /// A packet of `flow` with nothing in it yet.
    pub fn new(flow: u32, kind: Kind, size: u32, now: Time) -> Packet {
        Packet {
            flow,
            seq: 0,
            size,
            window: 0,
            sent: now,
            echo: Time::ZERO,
            owd: 0,
            sack: [(0, 0); 3],
            ce: 0,
            kind,
            ecn: Ecn::NotEct,
            ece: false,
            cwr: false,
            retransmission: false,
            fin: false,
        }
    }

    /// Payload bytes of a data segment.
    pub fn payload(&self) -> u32 {
        self.size - TCP_HEADER
    }

    /// Whether a queue marked it.
    pub fn is_marked(&self) -> bool {
        self.ecn == Ecn::Ce
    }
}

/// The window in bytes that a field scaled by 2^`scale` can say of an empty `buffer` (RFC 7323 §2.2).
pub fn window_of(buffer: u64, scale: u8) -> u32 {
    ((buffer >> scale).min(u64::from(u16::MAX)) << scale) as u32
}

/// Bytes of an acknowledgement with `blocks` SACK blocks.
pub fn ack_size(blocks: u32) -> u32 {
    TCP_HEADER + if blocks == 0 { 0 } else { SACK_HEADER + SACK_BLOCK * blocks }
}
