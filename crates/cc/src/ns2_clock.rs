//! Time as the modules of ns-2's Linux agent see it (ns-2 `tcp/tcp-linux.cc`, `tcp/linux/ns-linux-util.h`): timestamps in whole
//! milliseconds (`JIFFY_RATIO`), and the rate of the receiver's clock, estimated from them. Knows no window.

use lowtide_units::Time;

use crate::events::Ack;

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

/// Small beside what ns-2's scheduler rounds off: 14 fs at 100 s.
pub(crate) const FS_PER_NS: i64 = 1_000_000;

/// What ns-2's scheduler adds to the delay of a packet `sent` over an idle path, in fs: it counts seconds in double precision and adds
/// one hop after the other (`common/scheduler.cc`: `e->time_ = clock_ + delay`), so that equal delays differ by rounding.
pub(crate) fn rounding(sent: Time, hops_ms: [f64; 3]) -> i64 {
    let arrived = hops_ms.iter().fold(sent.secs_f64(), |clock, hop| clock + hop / 1e3);
    let exact = hops_ms.iter().sum::<f64>() / 1e3;
    ((arrived - sent.secs_f64() - exact) * 1e9 * FS_PER_NS as f64) as i64
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

    /// Sums of 6.2, 28 and 6.2 ms in doubles: 0.040 399 999 999 998 215 s from 41.6 s on, 0.040 400 000 000 019 53 s from 83.2 s on.
    #[test]
    fn equal_delays_differ_by_what_the_sums_round_off() {
        let hops = [6.2, 28.0, 6.2];
        assert_eq!(rounding(Time::from_millis(41_600), hops), -1);
        assert_eq!(rounding(Time::from_millis(83_200), hops), 19);
        assert_eq!(rounding(Time::from_millis(83_200), hops), rounding(Time::from_millis(100_003), hops));
        assert_eq!(rounding(Time::from_millis(83_200), [0.0; 3]), 0);
    }

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
