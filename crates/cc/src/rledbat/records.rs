//! What a flow has sent, as far as it dates what arrives: TSval, right edge and time of each outgoing segment. Knows no window; edges
//! are unwrapped sequence numbers, TSvals compare by 32-bit serial arithmetic (RFC 7323 §5.2).

use std::collections::VecDeque;

use lowtide_units::{Span, Time};

use super::later;

/// Records that may be read; twin of RX_RECORDS in crates/kernel/bpf/receiver.h, whose ring keeps one more that is being written.
const CAPACITY: usize = 1023;
/// How long a record is good for; twin of RX_LABEL_NS.
const LIFE: Span = Span::from_secs(2);
/// Times are kept in units of 2^10 ns; twin of RX_TICK.
const TICK: u32 = 10;

/// An outgoing segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    tsval: u32,
    pub(super) edge: u64,
    at: Time,
    /// The host's own window was smaller than ours.
    pub(super) by_host: bool,
    /// It carried payload.
    pub(super) data: bool,
}

/// The last outgoing segments: neither TSvals nor edges ever fall.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    sent: VecDeque<Record>,
    /// Nothing that permits data left before the first of them.
    whole: bool,
}

impl Records {
    /// Forgets everything; `whole` if nothing has left before either.
    pub(super) fn restart(&mut self, whole: bool) {
        self.sent.clear();
        self.whole = whole;
    }

    pub(super) fn push(&mut self, tsval: u32, edge: u64, at: Time, by_host: bool, data: bool) {
        if self.sent.back().is_some_and(|last| last.tsval == tsval && last.edge == edge) {
            return;
        }
        if self.sent.len() == CAPACITY {
            self.sent.pop_front();
            self.whole = false;
        }
        self.sent.push_back(Record { tsval, edge, at, by_host, data });
    }

    /// Where the first record with this TSval is.
    pub(super) fn echoed(&self, tsecr: u32) -> Option<usize> {
        let index = self.sent.partition_point(|r| later(tsecr, r.tsval));
        self.sent.get(index).filter(|r| r.tsval == tsecr).map(|_| index)
    }

    /// The record at `index`, if it is known to be the first with its TSval.
    pub(super) fn first_with_its_tsval(&self, index: usize) -> Option<&Record> {
        self.sent.get(index).filter(|_| index > 0 || self.whole)
    }

    /// Where the first record is that permitted data up to `end`.
    pub(super) fn permitting(&self, end: u64) -> Option<usize> {
        let index = self.sent.partition_point(|r| r.edge < end);
        (index < self.sent.len()).then_some(index)
    }

    /// Whether the record at `index` permitted more than the one before it.
    pub(super) fn moved_edge(&self, index: usize) -> bool {
        index == 0 || self.sent[index - 1].edge < self.sent[index].edge
    }

    /// How long ago the record at `index` was made, unless that is too long.
    pub(super) fn age(&self, index: usize, now: Time) -> Option<Span> {
        let ticks = (now.nanos() >> TICK) - (self.sent[index].at.nanos() >> TICK);
        Some(Span::from_nanos(ticks << TICK)).filter(|age| *age <= LIFE)
    }
}
