//! LEDBAT++'s slowdowns (-01 §4.4): when one is due, its freeze, and the ramp back to the window of before. Knows nothing of
//! losses, and of the window only how slow start raises it.

use lowtide_units::{Span, Time};

use super::{LedbatPp, Phase, RampExit};
use crate::events::Ack;

/// A slowdown holds the floor for this many RTTs (-01 §4.4).
pub const FREEZE_RTTS: u64 = 2;
/// The first slowdown comes this many RTTs after the initial slow start (-01 §4.4).
pub const FIRST_SLOWDOWN_RTTS: u64 = 2;
/// The next slowdown comes this many times the last one's duration after it (-01 §4.4).
pub const SLOWDOWN_INTERVAL_FACTOR: u64 = 9;
/// A receiver's sender that has nothing to drain ends the drain after this many RTTs.
const DRAIN_RTTS: u64 = 4;
/// The most that a window can be of its floor (RFC 7323 §2.3); twin of the bound in `ledbat_pp_ramp_rtts`.
const LARGEST_RATIO: f64 = (1u64 << 30) as f64;

impl LedbatPp {
    /// Slowdowns fall due and freezes end by time. True if a slowdown starts here.
    pub(super) fn time_transitions(&mut self, ack: &Ack) -> bool {
        let phase = self.phase;
        match phase {
            Phase::Avoidance if !ack.in_recovery && self.next_slowdown.is_some_and(|t| ack.now >= t) => {
                if self.uses_no_more_than_the_floor() {
                    self.next_slowdown = Some(ack.now + ack.srtt * (2 * SLOWDOWN_INTERVAL_FACTOR));
                    return false;
                }
                self.start_slowdown(ack);
                true
            }
            Phase::Drain if ack.drained => {
                self.phase = Phase::Freeze { end: ack.now + ack.srtt * FREEZE_RTTS };
                false
            }
            Phase::Drain if ack.now.since(self.slowdown_start) > ack.srtt * DRAIN_RTTS => {
                self.phase = Phase::Ramp;
                false
            }
            Phase::Freeze { end } if ack.now >= end && self.has_seen_the_drained_queue(ack) => {
                self.phase = Phase::Ramp;
                false
            }
            _ => false,
        }
    }

    fn uses_no_more_than_the_floor(&self) -> bool {
        self.cwnd <= self.floor() || self.peak_in_flight.iter().all(|&bytes| bytes as f64 <= self.floor())
    }

    fn start_slowdown(&mut self, ack: &Ack) {
        self.saved = self.cwnd;
        self.saved_halved = false;
        self.ssthresh = self.cwnd;
        self.cwnd = self.floor();
        self.slowdown_start = ack.now;
        self.drained = None;
        self.next_slowdown = None;
        self.phase = if self.config.receiver { Phase::Drain } else { Phase::Freeze { end: ack.now + ack.srtt * FREEZE_RTTS } };
    }

    /// The smoothed RTT may be shorter than the old flight needs to drain: ask for one acknowledgement of something that
    /// was sent when no more than the floor was left.
    fn has_seen_the_drained_queue(&mut self, ack: &Ack) -> bool {
        if self.config.receiver {
            return true; // The drain came before the freeze.
        }
        if self.drained.is_none() && ack.in_flight.saturating_sub(ack.acked) as f64 <= self.floor() {
            self.drained = Some(ack.delivered);
        }
        self.drained.is_some_and(|mark| ack.prior_delivered >= mark || ack.in_flight as f64 <= self.floor())
    }

    pub(super) fn end_slowdown(&mut self, now: Time) {
        let took = now.since(self.slowdown_start);
        self.next_slowdown = self.config.slowdowns.then(|| now + took * SLOWDOWN_INTERVAL_FACTOR);
        self.phase = Phase::Avoidance;
    }

    pub(super) fn end_initial_slow_start(&mut self, now: Time, srtt: Span) {
        self.next_slowdown = self.config.slowdowns.then(|| now + srtt * FIRST_SLOWDOWN_RTTS);
        self.phase = Phase::Avoidance;
    }

    pub(super) fn ramp(&mut self, ack: &Ack, queueing: Option<f64>) {
        if self.config.ramp_exit == RampExit::Target && queueing.is_some_and(|q| q > self.target_ns()) {
            self.ssthresh = self.cwnd;
            self.end_slowdown(ack.now);
            self.avoid(ack, queueing);
            return;
        }
        self.slow_start(ack);
        if self.cwnd >= self.ssthresh || (!self.may_slow_start(ack) && self.is_overdue(ack)) {
            self.end_slowdown(ack.now);
        }
    }

    /// A flow that does not use its window would never reach the old one: it gives up after twice the time it should take. An undo may have
    /// given back a threshold without bound: no window is 2^30 times the floor.
    fn is_overdue(&self, ack: &Ack) -> bool {
        let ratio = (self.ssthresh / self.floor()).min(LARGEST_RATIO);
        let expected = libm::log(ratio).max(1.0) / libm::log(1.0 + self.gain());
        ack.now.since(self.slowdown_start) > ack.srtt.mul_f64(2.0 * expected + FREEZE_RTTS as f64)
    }
}
