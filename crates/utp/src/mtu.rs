//! The search for the largest datagram that the path carries whole, by packets of data that leave with "don't fragment" (RFC 8899;
//! libutp `mtu_search_update`, utp_internal.cpp, for what is tried). Knows sizes, no windows.
//!
//! A uTP packet has one number and cannot be cut again: a probe that was lost leaves again as it is, without "don't fragment".

use lowtide_units::{Span, Time};

/// Closer than this the search has ended (libutp).
const CLOSE: u16 = 16;
/// MAX_PROBES: a size is given up when it was lost so often (RFC 8899, sec. 5.1.2); libutp gives it up at once.
const MOST_TRIES: u8 = 3;
/// PMTU_RAISE_TIMER: larger ones are tried again after this long (RFC 8899, sec. 5.1.1); libutp waits for half an hour.
const RAISE: Span = Span::from_secs(600);

/// Bytes of UDP payload between which the largest datagram is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtu {
    /// Every path carries this much: libutp 576.
    pub floor: u16,
    /// No path is asked for more: libutp 1402 over IPv4, 1232 over IPv6, leaving room for PPPoE, GRE and Teredo. With its headers 1232 is
    /// the 1280 bytes that every link of IPv6 carries (RFC 8200, sec. 5): no sound path of IPv6 loses a probe for its size.
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
    /// So much is known to arrive whole.
    confirmed: u16,
    /// More does not, or is not asked for.
    ceiling: u16,
    /// What is tried next, and how often it was lost.
    next: u16,
    tries: u8,
    /// The probe under way: its number and its bytes.
    probe: Option<(u16, u16)>,
    ended: Option<Time>,
}

impl Search {
    pub(crate) fn new(limits: PathMtu) -> Search {
        let PathMtu { floor, ceiling } = limits;
        Search { limits, confirmed: floor, ceiling, next: ceiling, tries: 0, probe: None, ended: None }
    }

    /// Bytes of a full datagram that is no probe.
    pub(crate) fn bytes(&self) -> u16 {
        self.confirmed
    }

    /// Bytes of the probe that is due.
    pub(crate) fn due(&self) -> Option<u16> {
        (self.probe.is_none() && self.ended.is_none()).then_some(self.next)
    }

    /// The probe that is due leaves as packet `seq`.
    pub(crate) fn send(&mut self, seq: u16) {
        self.probe = Some((seq, self.next));
    }

    /// The probe under way.
    pub(crate) fn probe(&self) -> Option<u16> {
        self.probe.map(|(seq, _)| seq)
    }

    /// Packet `seq` has arrived.
    pub(crate) fn arrived(&mut self, seq: u16, now: Time) {
        if let Some((_, bytes)) = self.probe.take_if(|(probe, _)| *probe == seq) {
            (self.confirmed, self.ceiling, self.tries) = (bytes, self.ceiling.max(bytes), 0);
            self.narrow(now);
        }
    }

    /// Packet `seq` was lost. Whether it was the probe: then its size may be the cause.
    pub(crate) fn lost(&mut self, seq: u16, now: Time) -> bool {
        let Some((_, bytes)) = self.probe.take_if(|(probe, _)| *probe == seq) else { return false };
        self.tries += 1;
        if self.tries >= MOST_TRIES {
            (self.ceiling, self.tries) = ((bytes - 1).clamp(self.confirmed, self.ceiling), 0);
            self.narrow(now);
        }
        true
    }

    /// Other packets were lost too: the probe's fate says nothing.
    pub(crate) fn cancel(&mut self) {
        self.probe = None;
    }

    /// A router says that packet `seq` did not fit, and that `most` bytes do (RFC 8899, sec. 4.6.1). Whether it was the probe.
    pub(crate) fn told(&mut self, seq: u16, most: u16, now: Time) -> bool {
        let probe = self.probe.take_if(|(probe, _)| *probe == seq).is_some();
        if !probe && most >= self.confirmed {
            return false;
        }
        // Less than what was confirmed: the path has changed.
        self.confirmed = self.confirmed.min(most.max(self.limits.floor));
        (self.ceiling, self.next, self.tries) = (most.max(self.confirmed), most.max(self.confirmed), 0);
        self.ended = (self.next == self.confirmed).then_some(now);
        probe
    }

    /// Nothing arrives any more, and that the path has come to carry less may be why (RFC 8899, sec. 4.3): starts again from below.
    pub(crate) fn doubt(&mut self) {
        let PathMtu { floor, ceiling } = self.limits;
        if self.confirmed > floor {
            *self = Search { next: floor.midpoint(ceiling), ..Search::new(self.limits) };
        }
    }

    /// Looks for more a while after the end, if more is to be had.
    pub(crate) fn on_tick(&mut self, now: Time) {
        let rested = self.ended.is_some_and(|ended| now.since(ended) >= RAISE);
        if rested && self.confirmed + CLOSE < self.limits.ceiling {
            (self.ceiling, self.next, self.ended) = (self.limits.ceiling, self.limits.ceiling, None);
        }
    }

    fn narrow(&mut self, now: Time) {
        self.next = self.confirmed.midpoint(self.ceiling);
        if self.ceiling - self.confirmed <= CLOSE {
            self.ended = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The datagrams tried on a path that carries `most`, each size once, and what is found.
    fn search(most: u16) -> (Vec<u16>, u16) {
        let mut search = Search::new(PathMtu::IPV4);
        let mut tried = Vec::new();
        for seq in 0..40 {
            let Some(bytes) = search.due() else { break };
            search.send(seq);
            tried.push(bytes);
            if bytes <= most {
                search.arrived(seq, Time::ZERO);
            } else {
                assert!(search.lost(seq, Time::ZERO));
            }
        }
        for lost in tried.iter().filter(|bytes| **bytes > most) {
            assert_eq!(tried.iter().filter(|bytes| *bytes == lost).count(), 3, "{tried:?}");
        }
        tried.dedup();
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
    fn one_probe_at_a_time_and_two_losses_by_chance_harm_nothing() {
        let mut search = Search::new(PathMtu::IPV4);
        assert_eq!((search.due(), search.bytes()), (Some(1402), 576));
        search.send(1);
        assert_eq!(search.due(), None);
        search.cancel();
        search.send(3);
        search.arrived(1, Time::ZERO);
        assert_eq!(search.bytes(), 576, "1 was no longer the probe");
        assert!(search.lost(3, Time::ZERO) && search.due() == Some(1402));
        search.send(4);
        assert!(search.lost(4, Time::ZERO) && search.due() == Some(1402));
        search.send(5);
        search.arrived(5, Time::ZERO);
        assert_eq!((search.due(), search.bytes()), (None, 1402));
    }

    #[test]
    fn more_is_tried_again_after_ten_minutes_and_meanwhile_nothing_is_larger_than_confirmed() {
        let mut search = Search::new(PathMtu::IPV4);
        search.send(1);
        assert!(search.told(1, 1300, Time::ZERO));
        assert_eq!((search.due(), search.bytes()), (Some(1300), 576), "what the router named is tried at once");
        search.send(2);
        search.arrived(2, Time::ZERO);
        assert_eq!((search.due(), search.bytes()), (None, 1300));
        search.on_tick(Time::ZERO + Span::from_secs(599));
        assert_eq!(search.due(), None);
        search.on_tick(Time::ZERO + Span::from_secs(600));
        assert_eq!((search.due(), search.bytes()), (Some(1402), 1300));
    }

    /// Found by the fuzzer: a probe under way arrived after a router had named less than it.
    #[test]
    fn a_probe_that_arrives_after_all_is_believed() {
        let mut search = Search::new(PathMtu::IPV4);
        search.send(1);
        assert!(!search.told(7, 600, Time::ZERO), "not the probe, and less than that is confirmed");
        assert_eq!(search.due(), None);
        assert!(!search.told(7, 100, Time::ZERO));
        search.arrived(1, Time::ZERO);
        assert_eq!((search.bytes(), search.due()), (1402, None));
    }

    /// RFC 8899, sec. 4.3 and 4.6.2: less is believed down to the floor, and a black hole starts the search again.
    #[test]
    fn a_path_that_carries_less_than_before_is_noticed() {
        let mut search = Search::new(PathMtu::IPV4);
        search.send(1);
        search.arrived(1, Time::ZERO);
        assert!(!search.told(9, 68, Time::ZERO));
        assert_eq!((search.due(), search.bytes()), (None, 576), "no less than every path carries");
        let mut search = Search::new(PathMtu::IPV4);
        search.send(1);
        search.arrived(1, Time::ZERO);
        search.doubt();
        assert_eq!((search.due(), search.bytes()), (Some(989), 576));
    }
}
