//! What the network says about packets that did not arrive (ICMP), as far as it can be believed: only what quotes a packet of ours that is
//! under way, its number and its timestamp included, which nobody off the path knows (RFC 5927, sec. 4; RFC 8899, sec. 4.6.1).

use lowtide_units::{Span, Time};

use super::{Connection, Failure, State};
use crate::delay::stamp;
use crate::header::{HEADER_BYTES, Header, Kind};

/// An established connection outlives reports that its peer's port is closed for this long: they are soft errors (RFC 5927, sec. 5.2).
const UNREACHABLE_FOR: Span = Span::from_secs(3);

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Nobody listens on the peer's port.
    Unreachable,
    /// No route leads to the peer, or not now.
    NoRoute,
    /// It must not be fragmented, and a link carries no UDP payload of more than so many bytes.
    TooLarge(u16),
}

impl Connection {
    /// The network reports about a packet of this connection, which it quotes. Whether it was believed.
    pub fn on_report(&mut self, quoted: &Header, report: Report, now: Time) -> bool {
        let id = if self.state == State::SynSent { self.ids.0 } else { self.ids.1 };
        if report == Report::Unreachable && self.is_question(quoted) {
            self.unreachable.get_or_insert(now);
            return true;
        }
        let sent = self.out.get(quoted.seq).filter(|sent| sent.kind == quoted.kind && stamp(sent.at) == quoted.timestamp);
        let Some(sent) = sent.filter(|sent| quoted.connection_id == id && sent.transmissions > 0) else { return false };
        let bytes = HEADER_BYTES as u16 + sent.len;
        match report {
            Report::Unreachable if self.state == State::SynSent => self.state = State::Failed(Failure::Refused),
            // Linux's TCP ends such an attempt too: there may be another address to try (RFC 5461, sec. 4.1).
            Report::NoRoute if self.state == State::SynSent => self.state = State::Failed(Failure::NoRoute),
            // A route that flaps (RFC 1122, sec. 4.2.3.9).
            Report::NoRoute => return false,
            Report::Unreachable => {
                self.unreachable.get_or_insert(now);
            }
            Report::TooLarge(most) if most < bytes => self.shrink(quoted.seq, most, now),
            Report::TooLarge(_) => return false,
        }
        true
    }

    /// Whether it is the header of the last question whether the peer is there, which has not been answered.
    fn is_question(&self, quoted: &Header) -> bool {
        let Header { kind, connection_id, seq, timestamp, .. } = *quoted;
        let numbers = (kind, connection_id, seq, timestamp);
        self.asked > 0 && numbers == (Kind::Data, self.ids.1, self.out.next().wrapping_sub(1), self.asked_stamp)
    }

    /// Whether reports that the peer's port is closed went on for so long, and nothing came meanwhile.
    pub(super) fn is_unreachable(&self, now: Time) -> bool {
        self.unreachable.is_some_and(|since| now.since(since) >= UNREACHABLE_FOR)
    }

    fn shrink(&mut self, seq: u16, most: u16, now: Time) {
        let Some(mtu) = &mut self.mtu else { return };
        if mtu.told(seq, most, now) {
            // It is not lost to congestion: it leaves again at once, to be fragmented.
            self.out.queue(seq);
        }
        self.cc.on_mss(u32::from(self.packet()));
    }
}
