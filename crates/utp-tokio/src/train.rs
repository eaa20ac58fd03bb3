//! Datagrams to one peer that leave in one system call: all of one size but the last (UDP GSO). Knows no sockets.

use std::net::{IpAddr, SocketAddr};

use lowtide_utp::{Header, Packet};
use quinn_udp::Transmit;

/// A UDP datagram's payload over IPv4 has at most 65,507 bytes, and so has a train.
const MOST_BYTES: usize = 65_507;

/// Datagrams under way to the socket.
#[derive(Debug)]
pub(crate) struct Train {
    pub to: SocketAddr,
    /// The address of this host that it leaves from, where it matters.
    pub from: Option<IpAddr>,
    /// A single datagram that must not be fragmented.
    pub probe: bool,
    /// A single datagram that may have to be: the kernel fragments none of a train, and refuses all of it.
    pub alone: bool,
    bytes: Vec<u8>,
    segment: usize,
    segments: usize,
    most: usize,
}

impl Train {
    pub(crate) fn new(to: SocketAddr, most: usize) -> Train {
        Train { to, from: None, probe: false, alone: false, bytes: Vec::new(), segment: 0, segments: 0, most: most.max(1) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments == 0
    }

    /// The first datagram's header.
    pub(crate) fn header(&self) -> Option<Header> {
        Packet::decode(&self.bytes).ok().map(|(packet, _)| packet.header)
    }

    /// Whether a datagram of `bytes`, which may have to leave `alone`, may join.
    pub(crate) fn takes(&self, bytes: usize, alone: bool) -> bool {
        let ended = self.bytes.len() < self.segment * self.segments;
        self.is_empty()
            || !(ended
                || alone
                || self.alone
                || self.segments >= self.most
                || bytes > self.segment
                || self.bytes.len() + bytes > MOST_BYTES)
    }

    /// A datagram of `bytes`, written by `write` to the end of what it is given.
    pub(crate) fn push(&mut self, bytes: usize, write: impl FnOnce(&mut Vec<u8>)) {
        if self.is_empty() {
            self.segment = bytes;
        }
        self.segments += 1;
        write(&mut self.bytes);
    }

    /// Empties it, for another peer.
    pub(crate) fn restart(&mut self, to: SocketAddr, from: Option<IpAddr>) {
        (self.to, self.from, self.probe, self.alone, self.segments) = (to, from, false, false, 0);
        self.bytes.clear();
    }

    pub(crate) fn transmit(&self) -> Transmit<'_> {
        let segment_size = (self.segments > 1).then_some(self.segment);
        Transmit { destination: self.to, ecn: None, contents: &self.bytes, segment_size, src_ip: self.from }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_datagram_ends_a_train_and_a_longer_one_does_not_join() {
        let mut train = Train::new("127.0.0.1:1".parse().expect("an address"), 64);
        assert!(train.takes(1402, true));
        for _ in 0..3 {
            train.push(1402, |out| out.resize(out.len() + 1402, 0));
        }
        assert!(train.takes(1402, false) && train.takes(20, false) && !train.takes(1403, false) && !train.takes(1402, true));
        train.push(20, |out| out.resize(out.len() + 20, 0));
        assert!(!train.takes(20, false), "a short one came");
        let transmit = train.transmit();
        assert_eq!((transmit.contents.len(), transmit.segment_size), (3 * 1402 + 20, Some(1402)));
    }
}
