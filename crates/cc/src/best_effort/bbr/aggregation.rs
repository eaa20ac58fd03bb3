//! How far acknowledgements run ahead of the rate (aggregation by Wi-Fi, cable, GRO): bytes to add to BBR's window. Knows only
//! rounds and a rate (Linux `tcp_bbr.c`, `bbr_update_ack_aggregation`).

use lowtide_units::{Rate, Span, Time};

/// An epoch ends at the latest after so many segments (`bbr_ack_epoch_acked_reset_thresh`).
const EPOCH_SEGMENTS: u64 = 1 << 20;
/// The excess counts up to what passes in this time (`bbr_extra_acked_max_us`).
const LONGEST: Span = Span::from_millis(100);

/// The largest excess of the last one to two windows of rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aggregation {
    epoch_start: Time,
    epoch_acked: u64,
    /// Bytes; two windows of rounds, one being filled.
    excess: [u64; 2],
    filling: usize,
    rounds: u64,
}

/// One acknowledgement as this filter sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    pub(crate) now: Time,
    pub(crate) bytes: u64,
    pub(crate) round_start: bool,
    /// Rounds in a window: 5 (`bbr_extra_acked_win_rtts`), in version 2's STARTUP 1.
    pub(crate) window_rounds: u64,
    pub(crate) rate_bps: u64,
    pub(crate) cwnd: u64,
    pub(crate) mss: u64,
}

impl Aggregation {
    pub(crate) fn new(now: Time) -> Aggregation {
        Aggregation { epoch_start: now, epoch_acked: 0, excess: [0; 2], filling: 0, rounds: 0 }
    }

    pub(crate) fn update(&mut self, acked: Acked) {
        if acked.round_start {
            self.rounds += 1;
            if self.rounds >= acked.window_rounds {
                self.rounds = 0;
                self.filling = 1 - self.filling;
                self.excess[self.filling] = 0;
            }
        }
        let mut expected = Rate::from_bps(acked.rate_bps).bytes_in(acked.now.since(self.epoch_start));
        if self.epoch_acked <= expected || self.epoch_acked + acked.bytes >= EPOCH_SEGMENTS * acked.mss {
            self.restart(acked.now);
            expected = 0;
        }
        self.epoch_acked += acked.bytes;
        let excess = self.epoch_acked.saturating_sub(expected).min(acked.cwnd);
        self.excess[self.filling] = self.excess[self.filling].max(excess);
    }

    /// Begins a new epoch (also after a pause).
    pub(crate) fn restart(&mut self, now: Time) {
        (self.epoch_start, self.epoch_acked) = (now, 0);
    }

    /// Bytes to add to the window.
    pub(crate) fn allowance(&self, rate_bps: u64) -> u64 {
        self.excess[0].max(self.excess[1]).min(Rate::from_bps(rate_bps).bytes_in(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acked(ms: u64, bytes: u64, round_start: bool) -> Acked {
        Acked { now: Time::from_millis(ms), bytes, round_start, window_rounds: 5, rate_bps: 8_000_000, cwnd: 1_000_000, mss: 1000 }
    }

    /// 8 Mbit/s is 1000 bytes a millisecond.
    #[test]
    fn a_burst_counts_what_exceeds_the_rate_and_ages_out_in_ten_rounds() {
        let mut filter = Aggregation::new(Time::ZERO);
        filter.update(acked(10, 20_000, true));
        filter.update(acked(12, 8000, false));
        assert_eq!(filter.allowance(8_000_000), 26_000);
        for round in 0..10 {
            filter.update(acked(100 + 10 * round, 1000, true));
        }
        assert_eq!(filter.allowance(8_000_000), 1000);
    }

    #[test]
    fn the_excess_is_capped_at_a_tenth_of_a_second() {
        let mut filter = Aggregation::new(Time::ZERO);
        filter.update(acked(0, 900_000, true));
        assert_eq!(filter.allowance(8_000_000), 100_000);
    }
}
