//! A transmitter: serialises packets at a rate and never drifts. Knows neither queue nor propagation.

use lowtide_units::{Rate, Time};

/// Serialises one packet after another.
#[derive(Clone, Copy, Debug)]
pub struct Transmitter {
    rate: Rate,
    free_at: Time,
    /// What the last transmission took beyond whole nanoseconds, in ns × bit/s: carried over, or high rates would drift.
    remainder: u64,
}

impl Transmitter {
    /// A transmitter of that rate, which must not be zero.
    pub fn new(rate: Rate) -> Transmitter {
        assert!(rate.bps() > 0, "a link needs a rate");
        Transmitter { rate, free_at: Time::ZERO, remainder: 0 }
    }

    /// Starts a packet of `bytes` at `now`, or when the one before it is through; returns when its last bit has left.
    pub fn start(&mut self, bytes: u32, now: Time) -> Time {
        if now > self.free_at {
            self.free_at = now;
            self.remainder = 0;
        }
        let bits_ns = u128::from(bytes) * 8_000_000_000 + u128::from(self.remainder);
        let rate = u128::from(self.rate.bps());
        self.remainder = (bits_ns % rate) as u64;
        self.free_at += lowtide_units::Span::from_nanos((bits_ns / rate) as u64);
        self.free_at
    }

    /// When the transmitter is idle again.
    pub fn free_at(&self) -> Time {
        self.free_at
    }

    /// Packets from now on take this rate; the one under way keeps its own.
    pub fn set_rate(&mut self, rate: Rate) {
        assert!(rate.bps() > 0, "a link needs a rate");
        self.rate = rate;
        self.remainder = 0;
    }

    /// The rate in force.
    pub fn rate(&self) -> Rate {
        self.rate
    }
}
