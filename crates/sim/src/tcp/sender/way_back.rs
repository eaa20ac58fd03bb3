//! What a queue of others' on the way back adds to a sender's round trips, for a control whose host leaves it out
//! (docs/algorithms/way-back.md). Knows no packet.

use lowtide_cc::rledbat::{self, WayBack};
use lowtide_units::{Span, Time};

/// A window of a path whose acknowledgements make no queue; twin of PATH_FLOOR_SEGMENTS (crates/kernel/bpf/flows.h).
pub(super) const FLOOR_SEGMENTS: u64 = 8;

/// The filter, how much of the smoothed RTT it has taken for that queue, and how long the last acknowledgement waited, whosever queue it was.
#[derive(Debug, Default)]
pub(super) struct OthersQueue {
    filter: WayBack,
    behind: Span,
    waited: Span,
}

impl OthersQueue {
    /// What is told of a round trip of `rtt` that ended `now` with an acknowledgement that had left at `left`, which the peer writes in whole
    /// milliseconds (TSval, RFC 7323 §3; Linux).
    pub fn leave_out(&mut self, rtt: Span, left: Time, now: Time, at_the_floor: bool, srtt: Span) -> Span {
        let tsval = (left.nanos() / 1_000_000) as u32;
        let there = rtt.nanos() as i64 - rledbat::since(now, tsval);
        self.waited = self.filter.queue(now, rtt, Some(there));
        let queue = self.filter.of_others(now, self.waited, at_the_floor, srtt, true);
        self.behind = self.behind - self.behind / 8 + queue / 8;
        rtt - queue
    }

    /// How long the last acknowledgement waited on its way.
    pub fn waited(&self) -> Span {
        self.waited
    }

    /// What of the smoothed RTT is that queue.
    pub fn behind(&self) -> Span {
        self.behind
    }
}
