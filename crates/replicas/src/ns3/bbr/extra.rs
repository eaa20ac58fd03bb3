//! How far acknowledgements run ahead of the rate, as ns-3.37's `TcpBbr` finds it. Knows rounds and a rate.

use lowtide_units::Time;

/// `ExtraAckedRttWindowLength`.
const EXTRA_ROUNDS: u32 = 5;
/// `AckEpochAckedResetThresh`, in bytes.
const EPOCH_BYTES: u64 = 1 << 12;

/// How far acknowledgements run ahead of the rate (`UpdateAckAggregation`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Extra {
    pub(super) most: [u64; 2],
    filling: usize,
    rounds: u32,
    epoch_start: Time,
    pub(super) epoch_acked: u64,
}

impl Extra {
    pub(super) fn new(now: Time) -> Extra {
        Extra { most: [0; 2], filling: 0, rounds: 0, epoch_start: now, epoch_acked: 0 }
    }

    /// The epoch starts over (`CwndEvent`).
    pub(super) fn restart(&mut self, now: Time) {
        (self.epoch_start, self.epoch_acked) = (now, 0);
    }

    pub(super) fn update(&mut self, now: Time, acked_sacked: u32, round_start: bool, rate_bps: u64, cwnd: u32) {
        if round_start {
            self.rounds += 1;
            if self.rounds >= EXTRA_ROUNDS {
                (self.rounds, self.filling) = (0, 1 - self.filling);
                self.most[self.filling] = 0;
            }
        }
        let whole_seconds = now.since(self.epoch_start).nanos() / 1_000_000_000;
        let mut expected = rate_bps * whole_seconds / 8;
        if self.epoch_acked <= expected || self.epoch_acked + u64::from(acked_sacked) >= EPOCH_BYTES {
            (self.epoch_acked, self.epoch_start, expected) = (0, now, 0);
        }
        self.epoch_acked += u64::from(acked_sacked);
        let extra = (self.epoch_acked - expected).min(u64::from(cwnd));
        self.most[self.filling] = self.most[self.filling].max(extra);
    }

    /// Bytes to add to the window: at most what passes in 100 ms (`AckAggregationCwnd`).
    pub(super) fn allowance(&self, rate_bps: u64) -> u64 {
        self.most[0].max(self.most[1]).min(rate_bps / 80)
    }
}
