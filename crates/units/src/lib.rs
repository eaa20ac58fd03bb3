//! Time, span and rate: the three quantities every other crate speaks in; and how many of them are summed up.
//!
//! Nanoseconds and bits per second inside; people see ms and Mbit/s. No clock is read here:
//! a [`Time`] can only be made from a number that somebody who owns a clock passed in.

pub mod histogram;
pub mod statistics;

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// An instant, in nanoseconds since an epoch that the host chooses (the simulator: its start; the laboratory: CLOCK_MONOTONIC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(u64);

/// A length of time in nanoseconds, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(u64);

/// A rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(u64);

const NS_PER_S: u64 = 1_000_000_000;

impl Time {
    /// The host's epoch.
    pub const ZERO: Time = Time(0);
    /// Later than any instant that occurs.
    pub const MAX: Time = Time(u64::MAX);

    /// The instant `ns` nanoseconds after the epoch.
    pub const fn from_nanos(ns: u64) -> Time {
        Time(ns)
    }

    /// The instant `ms` milliseconds after the epoch.
    pub const fn from_millis(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    /// The instant `s` seconds after the epoch; negative and NaN become the epoch.
    pub fn from_secs_f64(s: f64) -> Time {
        Time((s * 1e9).round() as u64)
    }

    /// Nanoseconds since the epoch.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the epoch.
    pub fn secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// How long ago `earlier` was, zero if it lies in the future.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// Longer than any span that occurs.
    pub const MAX: Span = Span(u64::MAX);

    /// `ns` nanoseconds.
    pub const fn from_nanos(ns: u64) -> Span {
        Span(ns)
    }

    /// `us` microseconds.
    pub const fn from_micros(us: u64) -> Span {
        Span(us * 1_000)
    }

    /// `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Span {
        Span(ms * 1_000_000)
    }

    /// `s` seconds.
    pub const fn from_secs(s: u64) -> Span {
        Span(s * NS_PER_S)
    }

    /// `s` seconds; negative and NaN become zero.
    pub fn from_secs_f64(s: f64) -> Span {
        Span((s * 1e9).round() as u64)
    }

    /// `ms` milliseconds; negative and NaN become zero.
    pub fn from_millis_f64(ms: f64) -> Span {
        Span((ms * 1e6).round() as u64)
    }

    /// Nanoseconds.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Milliseconds.
    pub fn millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Seconds.
    pub fn secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `self - other`, zero if `other` is longer.
    pub const fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }

    /// `self` times a real factor; negative and NaN become zero.
    pub fn mul_f64(self, factor: f64) -> Span {
        Span((self.0 as f64 * factor).round() as u64)
    }
}

impl Rate {
    /// `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Rate {
        Rate(bps)
    }

    /// `mbps` Mbit/s; negative and NaN become zero.
    pub fn from_mbps_f64(mbps: f64) -> Rate {
        Rate((mbps * 1e6).round() as u64)
    }

    /// The mean rate of `bytes` over `span`; zero for an empty span.
    pub fn from_bytes_over(bytes: u64, span: Span) -> Rate {
        if span.0 == 0 {
            return Rate(0);
        }
        match bits_ns(bytes) {
            Ok(bits_ns) => Rate(bits_ns / span.0),
            Err(bits_ns) => Rate((bits_ns / u128::from(span.0)) as u64),
        }
    }

    /// Bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// Mbit/s.
    pub fn mbps_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// How long `bytes` take at this rate, rounded up to a nanosecond; [`Span::MAX`] at rate zero.
    /// A transmitter that must not drift carries the remainder itself (`net::Link`).
    pub fn time_for(self, bytes: u64) -> Span {
        if self.0 == 0 {
            return Span::MAX;
        }
        match bits_ns(bytes) {
            Ok(bits_ns) => Span(bits_ns.div_ceil(self.0)),
            Err(bits_ns) => Span(bits_ns.div_ceil(u128::from(self.0)) as u64),
        }
    }

    /// The same, rounded to the nearest nanosecond as ns-3 does (`DataRate::CalculateBytesTxTime`).
    pub fn nearest_time_for(self, bytes: u64) -> Span {
        if self.0 == 0 {
            return Span::MAX;
        }
        let bits_ns = u128::from(bytes) * 8 * u128::from(NS_PER_S);
        Span(((bits_ns + u128::from(self.0 / 2)) / u128::from(self.0)) as u64)
    }

    /// Bytes that pass in `span`, rounded down.
    pub fn bytes_in(self, span: Span) -> u64 {
        (u128::from(self.0) * u128::from(span.0) / (8 * u128::from(NS_PER_S))) as u64
    }
}

/// `bytes` in bits, times a second in nanoseconds: in 64 bits up to 2 GB, for a division by 128 bits takes several times as long.
fn bits_ns(bytes: u64) -> Result<u64, u128> {
    const FACTOR: u64 = 8 * NS_PER_S;
    bytes.checked_mul(FACTOR).ok_or_else(|| u128::from(bytes) * u128::from(FACTOR))
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub<Span> for Time {
    type Output = Time;
    /// Stops at the epoch.
    fn sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Span;
    /// Stops at zero.
    fn sub(self, other: Span) -> Span {
        self.saturating_sub(other)
    }
}

impl SubAssign for Span {
    fn sub_assign(&mut self, other: Span) {
        *self = *self - other;
    }
}

impl Mul<u64> for Span {
    type Output = Span;
    fn mul(self, factor: u64) -> Span {
        Span(self.0.saturating_mul(factor))
    }
}

impl Div<u64> for Span {
    type Output = Span;
    fn div(self, divisor: u64) -> Span {
        Span(self.0 / divisor)
    }
}

impl Sum for Span {
    fn sum<I: Iterator<Item = Span>>(spans: I) -> Span {
        spans.fold(Span::ZERO, Add::add)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6} s", self.secs_f64())
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.millis_f64())
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Mbit/s", self.mbps_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_frame_at_twenty_megabit_takes_six_hundred_microseconds() {
        let rate = Rate::from_mbps_f64(20.0);
        assert_eq!(rate.time_for(1500), Span::from_micros(600));
        assert_eq!(rate.bytes_in(Span::from_millis(500)), 1_250_000);
        assert_eq!(Rate::from_bytes_over(1_250_000, Span::from_millis(500)), rate);
    }

    #[test]
    fn long_and_short_spans_come_to_the_same() {
        // 2,305,843,009 bytes are the most whose bits times 10⁹ fit 64 bits.
        let rate = Rate::from_bps(8);
        for bytes in [2_305_843_009, 2_305_843_010] {
            assert_eq!(rate.time_for(bytes), Span::from_secs(bytes));
            assert_eq!(Rate::from_bytes_over(bytes, Span::from_secs(bytes)), rate);
        }
    }

    #[test]
    fn time_never_runs_below_its_epoch() {
        assert_eq!(Time::from_millis(1) - Span::from_millis(2), Time::ZERO);
        assert_eq!(Time::from_millis(1).since(Time::from_millis(3)), Span::ZERO);
        assert_eq!(Span::MAX + Span::from_nanos(1), Span::MAX);
        assert_eq!(Span::from_secs_f64(-1.0), Span::ZERO);
    }
}
