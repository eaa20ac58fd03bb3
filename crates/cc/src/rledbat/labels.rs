//! Acknowledgements as labels: what was shown when, and the RTT of the data that it let go. Knows no windows and no losses;
//! edges are unwrapped sequence numbers, TSvals compare by 32-bit serial arithmetic (RFC 7323 §5.2).

use std::collections::VecDeque;

use lowtide_units::{Span, Time};
use serde::Deserialize;

/// Acknowledgements remembered.
const CAPACITY: usize = 1024;
/// For how long a label is good.
const LIFE: Span = Span::from_secs(2);

/// How an RTT is read off the labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RttRule {
    /// A segment cannot have left before the first acknowledgement that permitted it arrived, nor before the first with the
    /// TSval it echoes: exact while the window is the limit, one sample a segment.
    #[default]
    Edge,
    /// Bagnulo 2023: from the first packet with a TSval to the first segment that echoes it, once a TSval; not of
    /// acknowledgements that moved no edge.
    FirstEcho,
}

#[derive(Clone, Copy, Debug)]
struct Label {
    tsval: Option<u32>,
    edge: u64,
    at: Time,
    advanced: bool,
}

/// The last acknowledgements sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels {
    sent: VecDeque<Label>,
    /// Something older than the front has been dropped: the front is not known to be the first of its kind.
    truncated: bool,
    /// The newest TSval that `FirstEcho` has used.
    used: Option<u32>,
}

/// Whether `a` is later than `b` in serial arithmetic.
pub fn later(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl Labels {
    pub(super) fn push(&mut self, tsval: Option<u32>, edge: u64, at: Time, advanced: bool) {
        while self.sent.len() >= CAPACITY || self.sent.front().is_some_and(|l| at.since(l.at) > LIFE) {
            self.sent.pop_front();
            self.truncated = true;
        }
        self.sent.push_back(Label { tsval, edge, at, advanced });
    }

    /// Forgets every label: what echoes them says nothing any more.
    pub(super) fn clear(&mut self) {
        self.sent.clear();
        self.truncated = true;
    }

    /// The edge of the first acknowledgement with this TSval.
    pub(super) fn edge_of(&self, tsval: u32) -> Option<u64> {
        self.first(tsval).map(|index| self.sent[index].edge)
    }

    /// Where the first label with this TSval is: TSvals never go back (RFC 7323 §5.2).
    fn first(&self, tsval: u32) -> Option<usize> {
        let index = self.sent.partition_point(|l| l.tsval.is_some_and(|v| later(tsval, v)));
        self.sent.get(index).filter(|l| l.tsval == Some(tsval)).map(|_| index)
    }

    /// The RTT of a segment that ends at `end`, echoes `tsecr` and arrived `now`.
    pub(super) fn rtt(&mut self, rule: RttRule, now: Time, end: u64, tsecr: Option<u32>) -> Option<Span> {
        match rule {
            RttRule::Edge => self.edge_rtt(now, end, tsecr),
            RttRule::FirstEcho => self.first_echo_rtt(now, tsecr?),
        }
    }

    fn known_first(&self, index: usize) -> Option<&Label> {
        if index == 0 && self.truncated {
            return None;
        }
        self.sent.get(index)
    }

    fn edge_rtt(&self, now: Time, end: u64, tsecr: Option<u32>) -> Option<Span> {
        let permitted = self.known_first(self.sent.partition_point(|l| l.edge < end))?.at;
        let sent = match tsecr {
            Some(v) => permitted.max(self.known_first(self.first(v)?)?.at),
            None => permitted,
        };
        Some(now.since(sent))
    }

    fn first_echo_rtt(&mut self, now: Time, tsecr: u32) -> Option<Span> {
        if self.used.is_some_and(|used| !later(tsecr, used)) {
            return None;
        }
        let first = *self.known_first(self.first(tsecr)?)?;
        self.used = Some(tsecr);
        first.advanced.then(|| now.since(first.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Acknowledgements at 0.0 (TSval 7, edge 3000) and 0.4 ms (7, 6000); a segment ending at 6000 echoes 7 at 20.4 ms.
    #[test]
    fn the_edge_rule_removes_the_tick() {
        let mut labels = Labels::default();
        labels.push(Some(7), 3000, Time::ZERO, true);
        labels.push(Some(7), 6000, Time::from_nanos(400_000), true);
        let arrival = Time::from_nanos(20_400_000);
        assert_eq!(labels.rtt(RttRule::Edge, arrival, 6000, Some(7)), Some(Span::from_millis(20)));
        assert_eq!(labels.rtt(RttRule::FirstEcho, arrival, 6000, Some(7)), Some(Span::from_micros(20_400)));
        assert_eq!(labels.rtt(RttRule::FirstEcho, arrival, 6000, Some(7)), None, "a TSval counts once");
        assert_eq!(labels.rtt(RttRule::Edge, arrival, 6001, Some(7)), None, "never permitted");
        assert_eq!(labels.rtt(RttRule::Edge, arrival, 6000, Some(8)), None, "never sent");
    }

    #[test]
    fn without_timestamps_the_edge_alone_counts() {
        let mut labels = Labels::default();
        labels.push(None, 3000, Time::from_millis(1), true);
        labels.push(None, 6000, Time::from_millis(5), true);
        assert_eq!(labels.rtt(RttRule::Edge, Time::from_millis(30), 4000, None), Some(Span::from_millis(25)));
    }

    #[test]
    fn a_reduction_gives_no_first_echo_sample() {
        let mut labels = Labels::default();
        labels.push(Some(1), 3000, Time::ZERO, true);
        labels.push(Some(2), 3000, Time::from_millis(1), false);
        assert_eq!(labels.rtt(RttRule::FirstEcho, Time::from_millis(9), 3000, Some(2)), None);
    }

    #[test]
    fn old_labels_give_no_sample() {
        let mut labels = Labels::default();
        labels.push(Some(1), 1000, Time::ZERO, true);
        labels.push(Some(2), 2000, Time::from_millis(2500), true);
        labels.push(Some(3), 3000, Time::from_millis(2600), true);
        assert_eq!(labels.rtt(RttRule::Edge, Time::from_millis(2700), 1000, Some(2)), None);
        assert_eq!(labels.rtt(RttRule::Edge, Time::from_millis(2700), 3000, Some(3)), Some(Span::from_millis(100)));
    }
}
