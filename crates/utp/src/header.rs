//! The wire format (BEP 29): a header of twenty bytes, a chain of extensions, payload. Knows no connection.

/// Bytes of a header without extensions.
pub const HEADER_BYTES: usize = 20;
const VERSION: u8 = 1;
/// Extension numbers.
const SACK: u8 = 1;
const EXTENSION_BITS: u8 = 2;
const CLOSE_REASON: u8 = 3;

/// What a packet is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Carries payload.
    Data = 0,
    /// The last packet of a direction.
    Fin = 1,
    /// An acknowledgement; takes no packet number.
    #[default]
    State = 2,
    /// Ends the connection at once.
    Reset = 3,
    /// Opens a connection.
    Syn = 4,
}

/// The fixed part of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// What it is for.
    pub kind: Kind,
    /// The id that the receiver listens on; in a SYN the sender's own.
    pub connection_id: u16,
    /// The sender's clock in µs when it left.
    pub timestamp: u32,
    /// How much later than its timestamp the last packet arrived at the sender, in µs; 0: none has arrived.
    pub timestamp_difference: u32,
    /// Free bytes of the sender's receive buffer.
    pub window: u32,
    /// The packet's number; a STATE carries the next one that its sender will use.
    pub seq: u16,
    /// The last packet that its sender has received in order.
    pub ack: u16,
}

/// What lies between the packet acknowledged and the end of the mask: bit `k` is packet `ack + 2 + k`. Packets beyond 128 are
/// not represented: libutp writes 30 and looks at no more than 128 itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sack {
    bits: u128,
    /// Bytes of the mask as it is or was on the wire, at most 16.
    bytes: u8,
}

/// A packet without its payload bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// The fixed part.
    pub header: Header,
    /// What has arrived out of order, if anything has.
    pub sack: Option<Sack>,
    /// Why the peer closes, if it says so (libtorrent's extension 3, `close_reason_t`). Read, never written: libutp takes a packet
    /// that begins with it for none of uTP.
    pub close_reason: Option<u16>,
    /// Bytes of payload behind the extensions.
    pub payload: u16,
}

/// A datagram that is not a uTP packet, or one that was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Shorter than the header.
    #[error("a uTP packet has at least 20 bytes")]
    TooShort,
    /// Another protocol, or another version of this one.
    #[error("not uTP version 1")]
    Version,
    /// A type above 4.
    #[error("unknown uTP packet type {0}")]
    Kind(u8),
    /// An extension that runs past the end of the datagram, or one whose length its number does not allow.
    #[error("uTP extension {0} has an impossible length")]
    Extension(u8),
}

impl Kind {
    fn from_nibble(nibble: u8) -> Option<Kind> {
        [Kind::Data, Kind::Fin, Kind::State, Kind::Reset, Kind::Syn].into_iter().find(|&kind| kind as u8 == nibble)
    }

    /// Whether it takes a packet number of its own.
    pub fn is_numbered(self) -> bool {
        matches!(self, Kind::Data | Kind::Fin | Kind::Syn)
    }
}

impl Sack {
    /// The most packets that a mask of libutp reports.
    pub const LIBUTP_PACKETS: u16 = 30;

    /// A mask of four bytes, as libutp writes it.
    pub fn from_mask(mask: u32) -> Sack {
        Sack { bits: u128::from(mask), bytes: 4 }
    }

    /// The first four bytes of the mask.
    pub fn mask(self) -> u32 {
        self.bits as u32
    }

    /// The mask as it stands in a packet: any length from one byte on (libtorrent does not pad it).
    fn from_wire(wire: &[u8]) -> Option<Sack> {
        let read = wire.len().min(16);
        let bits = wire[..read].iter().rev().fold(0, |bits, byte| bits << 8 | u128::from(*byte));
        (read > 0).then_some(Sack { bits, bytes: read as u8 })
    }

    /// Whether packet `ack + 2 + k` has arrived.
    pub fn has(self, k: u16) -> bool {
        k < 128 && self.bits >> k & 1 == 1
    }

    /// Packets that the mask speaks of.
    pub fn len(self) -> u16 {
        u16::from(self.bytes) * 8
    }

    /// A mask that reports nothing.
    pub fn is_empty(self) -> bool {
        self.bits == 0
    }
}

impl Packet {
    /// Bytes before the payload.
    pub fn head_bytes(&self) -> usize {
        HEADER_BYTES + self.sack.map_or(0, |sack| 2 + usize::from(sack.bytes))
    }

    /// Bytes of the datagram.
    pub fn bytes(&self) -> usize {
        self.head_bytes() + usize::from(self.payload)
    }

    /// Writes everything before the payload to the end of `out`.
    pub fn encode_head(&self, out: &mut Vec<u8>) {
        let h = &self.header;
        out.extend([(h.kind as u8) << 4 | VERSION, if self.sack.is_some() { SACK } else { 0 }]);
        out.extend(h.connection_id.to_be_bytes());
        out.extend(h.timestamp.to_be_bytes());
        out.extend(h.timestamp_difference.to_be_bytes());
        out.extend(h.window.to_be_bytes());
        out.extend(h.seq.to_be_bytes());
        out.extend(h.ack.to_be_bytes());
        if let Some(sack) = self.sack {
            out.extend([0, sack.bytes]);
            out.extend(&sack.bits.to_le_bytes()[..usize::from(sack.bytes)]);
        }
    }

    /// Reads a datagram; its payload is the rest of it.
    ///
    /// # Errors
    /// What is not a whole uTP packet.
    pub fn decode(datagram: &[u8]) -> Result<(Packet, &[u8]), DecodeError> {
        let (head, rest) = datagram.split_at_checked(HEADER_BYTES).ok_or(DecodeError::TooShort)?;
        if head[0] & 0xf != VERSION {
            return Err(DecodeError::Version);
        }
        let kind = Kind::from_nibble(head[0] >> 4).ok_or(DecodeError::Kind(head[0] >> 4))?;
        let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let word = |at: usize| u32::from(half(at)) << 16 | u32::from(half(at + 2));
        let header = Header {
            kind,
            connection_id: half(2),
            timestamp: word(4),
            timestamp_difference: word(8),
            window: word(12),
            seq: half(16),
            ack: half(18),
        };
        let (Extensions { sack, close_reason }, payload) = extensions(head[1], rest)?;
        // A UDP datagram has less than 65,536 bytes; a longer slice is none.
        let len = u16::try_from(payload.len()).map_err(|_| DecodeError::TooShort)?;
        Ok((Packet { header, sack, close_reason, payload: len }, payload))
    }
}

/// What a packet's extensions say.
#[derive(Default)]
struct Extensions {
    sack: Option<Sack>,
    close_reason: Option<u16>,
}

/// Follows the chain that begins with extension `next`: the last of each kind in it, and what comes behind it. Unknown ones are skipped.
fn extensions(mut next: u8, mut rest: &[u8]) -> Result<(Extensions, &[u8]), DecodeError> {
    let mut found = Extensions::default();
    while next != 0 {
        let wrong = DecodeError::Extension(next);
        let (&[following, len], behind) = rest.split_first_chunk::<2>().ok_or(wrong)?;
        let (content, behind) = behind.split_at_checked(usize::from(len)).ok_or(wrong)?;
        match next {
            SACK => found.sack = Some(Sack::from_wire(content).ok_or(wrong)?),
            EXTENSION_BITS if len != 8 => return Err(wrong),
            CLOSE_REASON => {
                let &[_, _, high, low] = content else { return Err(wrong) };
                found.close_reason = Some(u16::from_be_bytes([high, low]));
            }
            _ => {}
        }
        (next, rest) = (following, behind);
    }
    Ok((found, rest))
}

#[cfg(test)]
mod tests;
