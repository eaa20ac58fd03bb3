//! The integers of the control: µs, bytes and bytes a second in u64, bounded so that no product of two of them overflows. A kernel's
//! code can do the same, bit for bit.

/// RTTs are taken to be at most 16.8 s.
pub const TIME_MAX: u64 = 1 << 24;
/// Rates are taken to be at most 2.2 Tbit/s.
pub const RATE_MAX: u64 = 1 << 38;
/// Windows are at most a terabyte.
pub const WINDOW_MAX: u64 = 1 << 40;

const SECOND: u64 = 1_000_000;

/// Bytes in `us` at `rate`; both within their bounds.
pub fn bytes_in(rate: u64, us: u64) -> u64 {
    rate * us.min(TIME_MAX) / SECOND
}

/// Bytes a second, of `bytes` in `us`.
pub fn rate_of(bytes: u64, us: u64) -> u64 {
    (bytes.min(WINDOW_MAX) * SECOND / us.max(1)).min(RATE_MAX)
}

/// The time of `bytes` at `rate`, in µs.
pub fn time_of(bytes: u64, rate: u64) -> u64 {
    (bytes.min(WINDOW_MAX) * SECOND / rate.max(1)).min(TIME_MAX)
}

/// 256 · `a` / `b`: a ratio with eight binary places.
pub fn ratio(a: u64, b: u64) -> u64 {
    (a << 8) / b.max(1)
}

/// A step of a xorshift generator (Marsaglia 2003, "Xorshift RNGs", 13-7-17).
pub fn shuffle(mut x: u64) -> u64 {
    x ^= x << 13;
    x ^= x >> 7;
    x ^ (x << 17)
}
