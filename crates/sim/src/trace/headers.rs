//! A simulated packet as the bytes of its IPv4, TCP or UDP headers, checksums over a payload of zeros. Knows no file format.

use std::net::Ipv4Addr;

use lowtide_net::Ecn;
use lowtide_scenario::scenario::Direction;
use lowtide_units::Time;

use super::Connection;
use crate::flow::App;
use crate::packet::{Kind, Packet};
use crate::utp::numbered;

/// Servers and clients live in networks of their own.
const SERVERS: [u8; 2] = [10, 1];
const CLIENTS: [u8; 2] = [10, 2];
/// Where receivers wait for streams and for datagrams.
const STREAM_PORT: u16 = 5001;
const DATAGRAM_PORT: u16 = 4000;
/// Senders' ports: the ephemeral ones, one a connection.
const FIRST_PORT: u32 = 32_768;
const PORTS: u32 = 28_232;
/// The timestamp clock (milliseconds) at the scenario's start: zero means "none" to some readers.
const CLOCK: u32 = 1_000_000;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;
const CWR: u8 = 0x80;

/// The headers of `packet`; its payload follows as zeros up to `packet.size`. `heard` is the clock of the peer's handshake.
pub fn encode(packet: &Packet, connection: &Connection, heard: Time, into: &mut Vec<u8>) {
    into.clear();
    let (from, to) = addresses(packet, connection);
    let protocol = if is_udp(packet) { 17 } else { 6 };
    ip_header(packet, from.0, to.0, protocol, into);
    let start = into.len();
    into.extend(from.1.to_be_bytes());
    into.extend(to.1.to_be_bytes());
    let checksum_at = if protocol == 17 {
        into.extend(((packet.size - 20) as u16).to_be_bytes());
        into.extend([0, 0]);
        if let Some(head) = numbered(packet) {
            head.encode_head(into);
        }
        start + 6
    } else {
        tcp_rest(packet, connection, heard, into);
        start + 16
    };
    let mut sum = ones_sum(&into[start..], 0);
    sum = ones_sum(&from.0.octets(), ones_sum(&to.0.octets(), sum)) + protocol + packet.size - 20;
    let checksum = match folded(sum) {
        // RFC 768: zero would mean that there is none.
        0 if protocol == 17 => 0xffff,
        other => other,
    };
    into[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// Whether the server sends it.
pub fn from_server(packet: &Packet, connection: &Connection) -> bool {
    (connection.direction == Direction::Forward) != packet.kind.goes_back()
}

type Socket = (Ipv4Addr, u16);

/// Source and destination: an address for each flow of the result, a port of its sender for each of its connections. The
/// simulator's senders open their connections, whichever way the data goes.
fn addresses(packet: &Packet, connection: &Connection) -> (Socket, Socket) {
    let host = connection.spec.result as u32 + 1;
    let address = |net: [u8; 2]| Ipv4Addr::new(net[0], net[1], (host >> 8) as u8, host as u8);
    let waits = if is_udp(packet) { DATAGRAM_PORT } else { STREAM_PORT };
    let nets = if connection.direction == Direction::Forward { [SERVERS, CLIENTS] } else { [CLIENTS, SERVERS] };
    let sender = (address(nets[0]), (FIRST_PORT + connection.number as u32 % PORTS) as u16);
    let receiver = (address(nets[1]), waits);
    if packet.kind.goes_back() { (receiver, sender) } else { (sender, receiver) }
}

fn is_udp(packet: &Packet) -> bool {
    matches!(packet.kind, Kind::Datagram | Kind::Utp(_))
}

fn ip_header(packet: &Packet, from: Ipv4Addr, to: Ipv4Addr, protocol: u32, into: &mut Vec<u8>) {
    let ecn = match packet.ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    };
    into.extend([0x45, ecn]);
    into.extend((packet.size as u16).to_be_bytes());
    // RFC 6864: what is never fragmented (DF) needs no identification.
    into.extend([0, 0, 0x40, 0, 64, protocol as u8, 0, 0]);
    into.extend(from.octets());
    into.extend(to.octets());
    let checksum = folded(ones_sum(into, 0));
    into[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// What follows the ports.
fn tcp_rest(packet: &Packet, connection: &Connection, heard: Time, into: &mut Vec<u8>) {
    let (sender, receiver) = (initial(packet.flow, 1), initial(packet.flow, 2));
    let scale = connection.spec.wire.scale;
    let field = |window: u32| (window >> scale).min(0xffff) as u16;
    let ecn = connection.spec.wire.ecn;
    let after_syn = sender.wrapping_add(1);
    let (seq, ack, flags, window) = match packet.kind {
        Kind::Syn => (sender, 0, if ecn { SYN | ECE | CWR } else { SYN }, 0xffff),
        // RFC 7323 §2.2: the window of a segment with SYN is not scaled.
        Kind::SynAck => (receiver, after_syn, if ecn { SYN | ACK | ECE } else { SYN | ACK }, packet.window.min(0xffff) as u16),
        Kind::Ack => {
            let seen = if packet.ece || packet.ce > 0 { ACK | ECE } else { ACK };
            (receiver.wrapping_add(1), after_syn.wrapping_add(offset(packet.seq, connection)), seen, field(packet.window))
        }
        // The sender receives nothing: its own window never changes.
        _ => (after_syn.wrapping_add(offset(packet.seq, connection)), receiver.wrapping_add(1), ACK, field(connection.spec.wire.window)),
    };
    let flags = if packet.fin { flags | FIN } else { flags };
    into.extend(seq.to_be_bytes());
    into.extend(ack.to_be_bytes());
    let length_at = into.len();
    into.extend([0, flags]);
    into.extend(window.to_be_bytes());
    into.extend([0; 4]);
    options(packet, connection, heard, after_syn, into);
    into[length_at] = (((into.len() - 20) / 4) << 4) as u8;
}

fn options(packet: &Packet, connection: &Connection, heard: Time, after_syn: u32, into: &mut Vec<u8>) {
    let mut timestamps = vec![8, 10];
    timestamps.extend(clock(packet.sent).to_be_bytes());
    let echo = match packet.kind {
        Kind::Syn => 0,
        _ => clock(packet.echo.max(heard)),
    };
    timestamps.extend(echo.to_be_bytes());
    if matches!(packet.kind, Kind::Syn | Kind::SynAck) {
        into.extend([2, 4]);
        into.extend((connection.spec.wire.mss as u16 + 12).to_be_bytes());
        into.extend(if connection.spec.wire.sack { [4, 2] } else { [1, 1] });
        into.extend(timestamps);
        into.extend([1, 3, 3, connection.spec.wire.scale]);
        return;
    }
    into.extend([1, 1]);
    into.extend(timestamps);
    let blocks = packet.sack.iter().filter(|block| block.0 < block.1);
    let count = blocks.clone().count() as u8;
    if count > 0 {
        into.extend([1, 1, 5, 2 + 8 * count]);
        for edge in blocks.flat_map(|block| [block.0, block.1]) {
            into.extend(after_syn.wrapping_add(offset(edge, connection)).to_be_bytes());
        }
    }
}

/// The first byte of segment `number`; a transfer's last segment may be short, and what follows it counts its FIN.
fn offset(number: u32, connection: &Connection) -> u32 {
    let bytes = u64::from(number) * u64::from(connection.spec.wire.mss);
    match connection.spec.app {
        App::Bytes(all) if bytes >= all => (all + 1) as u32,
        _ => bytes as u32,
    }
}

fn clock(at: Time) -> u32 {
    CLOCK.wrapping_add((at.nanos() / 1_000_000) as u32)
}

/// An initial sequence number: another one for each connection and end, the same in every run.
fn initial(flow: u32, end: u32) -> u32 {
    (flow * 2 + end).wrapping_mul(0x9e37_79b1)
}

/// RFC 1071, in 16-bit words of big-endian bytes.
fn ones_sum(bytes: &[u8], before: u32) -> u32 {
    bytes.chunks(2).fold(before, |sum, pair| sum + u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)])))
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_a_known_header() {
        // RFC 1071's example words, and an IPv4 header whose checksum is known to be b861.
        assert_eq!(folded(ones_sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7], 0)), !0xddf2);
        let header = [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
        assert_eq!(folded(ones_sum(&header, 0)), 0xb861);
    }
}
