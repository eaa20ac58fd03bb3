//! Packet-timed rounds: a round ends when something sent after its start has been acknowledged (Linux `tcp_bbr.c`, RFC 9406).

use crate::events::Ack;

/// Counts rounds by the delivered-bytes clock that every [`Ack`] carries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    end: u64,
    count: u64,
}

impl Round {
    /// Whether `ack` ends the running round; the next one starts with it.
    pub fn ended_by(&mut self, ack: &Ack) -> bool {
        if ack.prior_delivered < self.end {
            return false;
        }
        self.end = ack.delivered;
        self.count += 1;
        true
    }

    /// Starts a round now: it ends when something sent after `delivered` bytes had been delivered is acknowledged.
    pub fn restart(&mut self, delivered: u64) {
        self.end = delivered;
    }

    /// Rounds ended so far.
    pub fn count(&self) -> u64 {
        self.count
    }
}
