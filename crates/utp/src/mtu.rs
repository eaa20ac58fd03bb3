//! The search for the largest datagram that the path carries whole (libutp `mtu_search_update`, utp_internal.cpp): one packet at a
//! time leaves with "don't fragment", and between what arrived and what did not the middle is tried next. Knows sizes, no windows.

use lowtide_units::{Span, Time};

/// Closer than this the search has ended.
const CLOSE: u16 = 16;
/// The path may have changed after this long.
const SEARCH_AGAIN: Span = Span::from_secs(30 * 60);

/// Bytes of UDP payload between which the largest datagram is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtu {
    /// Every path carries this much: libutp 576.
    pub floor: u16,
    /// No path is asked for more: libutp 1402 over IPv4, 1232 over IPv6, leaving room for PPPoE, GRE and Teredo.
    pub ceiling: u16,
}

impl PathMtu {
    /// libutp's for IPv4.
    pub const IPV4: PathMtu = PathMtu { floor: 576, ceiling: 1402 };
    /// libutp's for IPv6.
    pub const IPV6: PathMtu = PathMtu { floor: 576, ceiling: 1232 };
}

/// Where the search of one connection stands.
#[derive(Debug)]
pub(crate) struct Search {
    limits: PathMtu,
    floor: u16,
    ceiling: u16,
    current: u16,
    /// The probe under way: its number and its bytes.
    probe: Option<(u16, u16)>,
    ended: Option<Time>,
}

impl Search {
    pub(crate) fn new(limits: PathMtu) -> Search {
        let PathMtu { floor, ceiling } = limits;
        Search { limits, floor, ceiling, current: ceiling, probe: None, ended: None }
    }

    /// Bytes of a full datagram now.
    pub(crate) fn bytes(&self) -> u16 {
        self.current
    }

    /// Whether a datagram of `bytes` that leaves for the first time as packet `seq` is a probe; if so, it is under way.
    pub(crate) fn send(&mut self, seq: u16, bytes: u16) -> bool {
        let probes = self.probe.is_none() && self.ended.is_none() && bytes > self.floor && bytes <= self.ceiling;
        if probes {
            self.probe = Some((seq, bytes));
        }
        probes
    }

    /// The probe under way.
    pub(crate) fn probe(&self) -> Option<u16> {
        self.probe.map(|(seq, _)| seq)
    }

    /// Packet `seq` has arrived.
    pub(crate) fn arrived(&mut self, seq: u16, now: Time) {
        if let Some((_, bytes)) = self.probe.take_if(|(probe, _)| *probe == seq) {
            self.floor = bytes;
            self.narrow(now);
        }
    }

    /// Packet `seq` was lost. Whether it was the probe: then its size may be the cause.
    pub(crate) fn lost(&mut self, seq: u16, now: Time) -> bool {
        let Some((_, bytes)) = self.probe.take_if(|(probe, _)| *probe == seq) else { return false };
        self.ceiling = bytes - 1;
        self.narrow(now);
        true
    }

    /// Other packets were lost too: the probe's fate says nothing.
    pub(crate) fn cancel(&mut self) {
        self.probe = None;
    }

    /// Starts again half an hour after the end.
    pub(crate) fn on_tick(&mut self, now: Time) {
        if self.ended.is_some_and(|ended| now.since(ended) >= SEARCH_AGAIN) {
            *self = Search::new(self.limits);
        }
    }

    fn narrow(&mut self, now: Time) {
        self.current = self.floor.midpoint(self.ceiling);
        if self.ceiling - self.floor <= CLOSE {
            (self.current, self.ceiling, self.ended) = (self.floor, self.floor, Some(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The datagrams tried on a path that carries `most`, and what is found.
    fn search(most: u16) -> (Vec<u16>, u16) {
        let mut search = Search::new(PathMtu::IPV4);
        let mut tried = Vec::new();
        for seq in 0..40 {
            let bytes = search.bytes();
            if !search.send(seq, bytes) {
                break;
            }
            tried.push(bytes);
            if bytes <= most {
                search.arrived(seq, Time::ZERO);
            } else {
                assert!(search.lost(seq, Time::ZERO));
            }
        }
        (tried, search.bytes())
    }

    /// Worked by hand from `mtu_search_update`.
    #[test]
    fn the_middle_is_tried_until_sixteen_bytes_are_left() {
        assert_eq!(search(1402), (vec![1402], 1402));
        assert_eq!(search(1300), (vec![1402, 988, 1194, 1297, 1349, 1322, 1309], 1297));
        assert_eq!(search(576), (vec![1402, 988, 781, 678, 626, 600, 587], 576));
    }

    #[test]
    fn one_probe_at_a_time_and_another_search_after_half_an_hour() {
        let mut search = Search::new(PathMtu::IPV4);
        assert!(search.send(1, 1402) && !search.send(2, 1402));
        search.cancel();
        assert!(search.send(3, 1000));
        search.arrived(1, Time::ZERO);
        assert_eq!(search.floor, 576, "1 was no longer the probe");
        search.arrived(3, Time::ZERO);
        search.send(4, 1402);
        search.arrived(4, Time::ZERO);
        assert!(!search.send(5, 1402));
        search.on_tick(Time::ZERO + Span::from_secs(1799));
        assert!(!search.send(5, 1402));
        search.on_tick(Time::ZERO + Span::from_secs(1800));
        assert!(search.send(5, 1402));
    }
}
