//! What the published module reads RTTs from, and the queueing delay that it makes of them (rledbat_receive.c, 241–391). Knows no
//! windows.

use std::collections::VecDeque;

use lowtide_units::Time;

use lowtide_cc::rledbat::later;

/// `LAST_QDS` (163): packets, each with the reading of before where it has none of its own. The paper's Fig. 2 has four samples.
const FILTER: usize = 10;
/// `MAX_COUNT_RTT` (77).
const LABELS: usize = 10_000;

/// Times are ns.
#[derive(Debug, Default)]
pub(super) struct Delays {
    /// TSvals and when each left first.
    labels: VecDeque<(u32, u64)>,
    /// `tsecr_already_checked`.
    read: Option<u32>,
    /// `rtt`, `rtt_min`: none is `MAX_LONG_LONG`.
    last: Option<u64>,
    base: Option<u64>,
    queueing: VecDeque<u64>,
}

impl Delays {
    /// An acknowledgement with that TSval leaves.
    pub(super) fn sent(&mut self, tsval: u32, now: Time) {
        if self.labels.back().is_some_and(|&(newest, _)| newest == tsval) {
            return;
        }
        if self.labels.len() == LABELS {
            self.labels.pop_front();
        }
        self.labels.push_back((tsval, now.nanos()));
    }

    /// `clear_rtt_table`.
    pub(super) fn forget(&mut self) {
        self.labels.clear();
    }

    /// Whether nothing that left can give an RTT.
    #[cfg(test)]
    pub(super) fn is_forgotten(&self) -> bool {
        self.labels.is_empty()
    }

    /// The last RTT read.
    pub(super) fn rtt(&self) -> u64 {
        self.last.unwrap_or_default()
    }

    /// The least RTT of all.
    pub(super) fn base(&self) -> Option<u64> {
        self.base
    }

    /// The queueing delay after a segment with that echo: the least of the last packets'.
    pub(super) fn received(&mut self, now: u64, tsecr: Option<u32>, unknown_is_empty: bool) -> u64 {
        match tsecr.and_then(|echo| self.first(echo)) {
            Some(_) if self.read == tsecr => {}
            Some(sent) => {
                let rtt = now.saturating_sub(sent);
                (self.read, self.last) = (tsecr, Some(rtt));
                self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
            }
            None if unknown_is_empty => self.last = self.base,
            None => {}
        }
        if self.queueing.len() == FILTER {
            self.queueing.pop_front();
        }
        self.queueing.push_back(self.last.zip(self.base).map_or(0, |(last, base)| last - base));
        self.queueing.iter().copied().min().unwrap_or_default()
    }

    /// When the first acknowledgement with that TSval left; TSvals never go back (RFC 7323 §5.2).
    fn first(&self, echo: u32) -> Option<u64> {
        let at = self.labels.partition_point(|&(tsval, _)| later(echo, tsval));
        self.labels.get(at).filter(|label| label.0 == echo).map(|label| label.1)
    }
}
