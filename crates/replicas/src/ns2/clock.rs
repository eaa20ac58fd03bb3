//! Time as the modules of ns-2's Linux agent see it (ns-2 `tcp/tcp-linux.cc`, `tcp/linux/ns-linux-util.h`): timestamps in whole
//! milliseconds (`JIFFY_RATIO`), and the rate of the receiver's clock, estimated from them. Knows no window.

use lowtide_units::Time;

use lowtide_cc::Ack;

/// Both ends' clocks tick so often a second (`JIFFY_RATIO`, `HZ`).
pub(crate) const HZ: i64 = 1000;

/// The timestamps, receiver's and sender's, that an acknowledgement brings a module: none in recovery and none of a segment sent
/// twice, since only those that move the left edge of something sent once give a sample (`FLAG_UNSURE_TSTAMP`).
pub(crate) fn timestamps(ack: &Ack) -> Option<(i64, i64)> {
    let (owd, rtt) = ack.owd.zip(ack.rtt).filter(|_| !ack.in_recovery)?;
    let sent = (ack.now - rtt).nanos() as i64;
    Some((rounded_ms(sent + owd), rounded_ms(sent)))
}

/// A time as the agent rounds it for a timestamp.
pub(crate) fn rounded_ms(ns: i64) -> i64 {
    (ns + 500_000).div_euclid(1_000_000)
}

/// A time as the agent tells it (`tcp_time_stamp`).
pub(crate) fn whole_ms(at: Time) -> u64 {
    at.nanos() / 1_000_000
}

/// The rate of the receiver's clock (`tcp_lp_remote_hz_estimator`; `tcp_ledbat.c` has the same).
#[derive(Debug, Default)]
pub(crate) struct RemoteClock {
    /// Ticks a second, rounded down at every update.
    pub(crate) hz: i64,
    /// The timestamps, receiver's and sender's, of the last acknowledgement.
    pub(crate) reference: (i64, i64),
}

impl RemoteClock {
    /// Takes an acknowledgement's timestamps; the rate, none before two acknowledgements differ in both.
    pub(crate) fn update(&mut self, (remote, local): (i64, i64)) -> Option<i64> {
        let (remote_before, local_before) = std::mem::replace(&mut self.reference, (remote, local));
        let both_known = remote_before != 0 && local_before != 0;
        if both_known && remote != remote_before && local != local_before {
            let measured = (HZ * (remote - remote_before) / (local - local_before)).abs();
            self.hz = if self.hz > 0 { self.hz + ((measured - self.hz) >> 6) } else { measured };
        }
        (self.hz > 0).then_some(self.hz)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments that leave and arrive every `gap_ms`, 25 ms apart, in whole ticks: how the rate of the clock is seen after each.
    fn rates(gap_ms: f64, n: u32) -> Vec<i64> {
        let mut clock = RemoteClock::default();
        let at = |i: u32| f64::from(i) * gap_ms;
        let tick = |ms: f64| libm::round(ms) as i64;
        (1..n).map(|i| clock.update((tick(at(i) + 25.3), tick(at(i)))).unwrap_or_default()).collect()
    }

    /// Ticks far apart: 1000 exactly. 1.2 ms apart, a packet of 1500 bytes at 10 Mbit/s: above it.
    #[test]
    fn the_rate_strays_where_acknowledgements_are_a_tick_apart() {
        assert!(rates(50.0, 100).iter().skip(2).all(|hz| *hz == 1000));
        let close = rates(1.2, 2000);
        assert!(close[1000..].iter().all(|hz| (1001..1100).contains(hz)), "{:?}", &close[1990..]);
    }

    #[test]
    fn half_a_tick_is_rounded_up() {
        assert_eq!([1_499_999, 1_500_000].map(rounded_ms), [1, 2]);
    }
}
