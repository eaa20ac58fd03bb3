//! BBR's model of a token-bucket policer: two intervals of heavy loss at an equal rate mean that this rate is the limit. Knows
//! only rounds, losses and deliveries (Linux `tcp_bbr.c`, `bbr_lt_bw_sampling`).

use lowtide_units::{Rate, Time};

/// An interval has at least so many rounds (`bbr_lt_intvl_min_rtts`) and at most four times as many.
const INTERVAL_ROUNDS: u64 = 4;
/// It counts from this loss on, in 1/256 of what was delivered (`bbr_lt_loss_thresh`: 19.5 %).
const LOSS: u64 = 50;
/// Two rates are equal within an eighth (`bbr_lt_bw_ratio`) …
const EQUAL_PART: u64 = 8;
/// … or within 4 kbit/s (`bbr_lt_bw_diff`).
const EQUAL_BPS: u64 = 4000;
/// The policer's rate is believed for this many rounds of PROBE_BW (`bbr_lt_bw_max_rtts`).
const BELIEVED_ROUNDS: u64 = 48;

/// One acknowledgement as the policer model sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) now: Time,
    pub(super) delivered: u64,
    /// Bytes lost on the connection so far.
    pub(super) lost: u64,
    /// Something was lost just now.
    pub(super) loss: bool,
    pub(super) app_limited: bool,
    pub(super) round_start: bool,
    pub(super) probing_bandwidth: bool,
}

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Same,
    /// The rate has been believed long enough: probe again.
    Expired,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    sampling: bool,
    believed: bool,
    rate_bps: u64,
    rounds: u64,
    start: Time,
    delivered_at_start: u64,
    lost_at_start: u64,
}

impl Policer {
    /// The policer's rate in bit/s while there seems to be one.
    pub(super) fn rate(&self) -> Option<u64> {
        self.believed.then_some(self.rate_bps)
    }

    pub(super) fn reset(&mut self) {
        *self = Policer::default();
    }

    pub(super) fn update(&mut self, seen: &Seen) -> Verdict {
        if self.believed {
            return self.age(seen);
        }
        // Tokens saved up let the first packets pass: measure from the first loss on.
        if !self.sampling {
            if !seen.loss {
                return Verdict::Same;
            }
            self.begin_interval(seen);
            self.sampling = true;
        }
        if seen.app_limited {
            self.reset();
            return Verdict::Same;
        }
        self.rounds += u64::from(seen.round_start);
        if self.rounds > 4 * INTERVAL_ROUNDS {
            self.reset();
        } else if self.rounds >= INTERVAL_ROUNDS && seen.loss {
            self.end_interval(seen);
        }
        Verdict::Same
    }

    fn age(&mut self, seen: &Seen) -> Verdict {
        if !(seen.probing_bandwidth && seen.round_start) {
            return Verdict::Same;
        }
        self.rounds += 1;
        if self.rounds < BELIEVED_ROUNDS {
            return Verdict::Same;
        }
        self.reset();
        Verdict::Expired
    }

    fn begin_interval(&mut self, seen: &Seen) {
        (self.start, self.delivered_at_start, self.lost_at_start, self.rounds) = (seen.now, seen.delivered, seen.lost, 0);
    }

    /// An interval ends with a loss, when the tokens are spent.
    fn end_interval(&mut self, seen: &Seen) {
        let lost = seen.lost - self.lost_at_start;
        let delivered = seen.delivered - self.delivered_at_start;
        let took = seen.now.since(self.start);
        if delivered == 0 || lost * 256 < LOSS * delivered || took.nanos() < 1_000_000 {
            return;
        }
        let rate = Rate::from_bytes_over(delivered, took).bps();
        let difference = rate.abs_diff(self.rate_bps);
        if self.rate_bps > 0 && (difference * EQUAL_PART <= self.rate_bps || difference <= EQUAL_BPS) {
            self.rate_bps = u64::midpoint(rate, self.rate_bps);
            (self.believed, self.rounds) = (true, 0);
            return;
        }
        self.rate_bps = rate;
        self.begin_interval(seen);
    }
}
