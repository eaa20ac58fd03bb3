//! Packets for nobody: each is answered by a RESET once, and only so many are remembered (libutp `rst_info`).

use std::collections::HashMap;
use std::net::SocketAddr;

use lowtide_cc::{Span, Time};
use lowtide_utp::{Header, Kind, Packet};

/// RST_INFO_TIMEOUT and RST_INFO_LIMIT.
const REMEMBERED: Span = Span::from_secs(10);
const MOST: usize = 1000;

/// The packets answered lately.
#[derive(Debug, Default)]
pub(crate) struct Strays(HashMap<(SocketAddr, u16, u16), Time>);

impl Strays {
    /// The RESET that answers `packet`, which belongs to no connection; none if it was answered lately, or too many others were. It
    /// is no larger than what it answers.
    pub(crate) fn answer(&mut self, from: SocketAddr, packet: &Packet, seq: u16, now: Time) -> Option<Packet> {
        let Header { kind, connection_id, seq: answered, .. } = packet.header;
        if matches!(kind, Kind::Reset | Kind::Syn) || self.0.len() >= MOST {
            return None;
        }
        let known = self.0.insert((from, connection_id, answered), now).is_some();
        let header = Header { kind: Kind::Reset, connection_id, seq, ack: answered, ..Header::default() };
        (!known).then_some(Packet { header, ..Packet::default() })
    }

    pub(crate) fn forget(&mut self, now: Time) {
        self.0.retain(|_, at| now.since(*at) < REMEMBERED);
        if self.0.is_empty() {
            self.0 = HashMap::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stray_is_answered_once_and_a_thousand_in_ten_seconds() {
        let mut strays = Strays::default();
        let from = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let packet = |seq| Packet { header: Header { seq, connection_id: 9, ..Header::default() }, ..Packet::default() };
        let answer = strays.answer(from(1), &packet(7), 3, Time::ZERO).expect("the first");
        assert_eq!((answer.header.kind, answer.header.connection_id, answer.header.ack, answer.bytes()), (Kind::Reset, 9, 7, 20));
        assert_eq!(strays.answer(from(1), &packet(7), 3, Time::ZERO), None);
        let answered = (2..1102).filter(|&port| strays.answer(from(port), &packet(7), 3, Time::ZERO).is_some()).count();
        assert_eq!(answered, 999);
        strays.forget(Time::from_millis(10_000));
        assert!(strays.answer(from(1), &packet(7), 3, Time::from_millis(10_000)).is_some());
    }
}
