//! TCP-LP as ns-2 runs it: Linux 2.6.22's `tcp_lp.c` in the Linux agent (ns-2 `tcp/linux/src/tcp_lp.c`), what Carofiglio 2010
//! measured as LP. On top of what `tcp_lp_linux` differs from the description in, the rate of the receiver's clock is estimated
//! from the timestamps and goes wrong, and the arithmetic wraps at 32 bits. Faults are kept: for comparison with that paper only.
//! Knows nothing of retransmissions.

use lowtide_units::Time;
use serde::Deserialize;

use crate::controller::{Controller, Start};
use crate::events::{Ack, Congestion};
use crate::params::{ParamError, Params};
use crate::reno_base::{Base, Law, Rival, Window};
use crate::tcp_lp_range::DelayRange;

/// Parameters.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The base's variant.
    pub base: Base,
}

/// The inference phase in times that the last segment took.
const INFERENCE: u64 = 3;
/// Both ends' clocks tick in whole milliseconds (`JIFFY_RATIO`, `HZ`).
const HZ: i64 = 1000;

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let config: Config = params.read("tcp_lp-ns2")?;
    Ok(Box::new(Rival::new(config.base, TcpLpNs2::default(), start)))
}

/// The module's idea of the receiver's clock (`tcp_lp_remote_hz_estimator`).
#[derive(Debug, Default)]
struct RemoteClock {
    /// Ticks a second, rounded down at every update.
    hz: i64,
    /// The timestamps, receiver's and sender's, of the last acknowledgement.
    reference: (i64, i64),
}

impl RemoteClock {
    /// The one-way delay from an acknowledgement's timestamps (`tcp_lp_owd_calculator`), in 32 bits.
    ///
    /// Acknowledgements one or two ticks apart make the rate stray above 1000. The delay then multiplies the receiver's timestamp
    /// by ⌊1000 / rate⌋ = 0, and what is left is the sender's, negative: 2³² less the time since the start.
    fn delay(&mut self, remote: i64, local: i64) -> Option<u32> {
        let (remote_before, local_before) = std::mem::replace(&mut self.reference, (remote, local));
        let both_known = remote_before != 0 && local_before != 0;
        if both_known && remote != remote_before && local != local_before {
            let measured = (HZ * (remote - remote_before) / (local - local_before)).abs();
            self.hz = if self.hz > 0 { self.hz + ((measured - self.hz) >> 6) } else { measured };
        }
        if self.hz <= 0 {
            return None;
        }
        let delay = (remote * (1000 / self.hz) - local) as u32;
        (delay > 0).then_some(delay)
    }
}

/// The state of one flow; delays in 32-bit milliseconds that wrap.
#[derive(Debug, Default)]
pub struct TcpLpNs2 {
    clock: RemoteClock,
    delays: DelayRange,
    inference_ms: u64,
    last_drop_ms: u64,
    inferring: bool,
}

/// A time as the agent rounds it for a timestamp.
fn rounded_ms(ns: i64) -> i64 {
    (ns + 500_000).div_euclid(1_000_000)
}

fn whole_ms(at: Time) -> u64 {
    at.nanos() / 1_000_000
}

impl Law for TcpLpNs2 {
    fn measure(&mut self, window: &mut Window, ack: &Ack) {
        let (Some(owd), Some(rtt)) = (ack.owd, ack.rtt) else { return };
        let sent = (ack.now - rtt).nanos() as i64;
        // Only acknowledgements that move the left edge give the agent a sample: none does in recovery.
        if !ack.in_recovery
            && let Some(delay) = self.clock.delay(rounded_ms(sent + owd), rounded_ms(sent))
        {
            self.delays.sample(delay);
        }
        let now = whole_ms(ack.now);
        self.inference_ms = INFERENCE * now.saturating_sub(rounded_ms(sent) as u64);
        self.inferring = self.last_drop_ms > 0 && now - self.last_drop_ms < self.inference_ms;
        if self.delays.smoothed() >= self.delays.threshold() {
            self.delays.start_afresh();
            window.cwnd = if self.inferring { 1.0 } else { libm::floor(window.cwnd / 2.0).max(1.0) };
            self.last_drop_ms = now;
        }
    }

    fn adjust(&mut self, window: &mut Window, ack: &Ack) {
        if !self.inferring {
            window.grow_as_reno(ack);
        }
    }

    fn reduce(&mut self, window: &mut Window, event: &Congestion) {
        window.halve(event);
    }

    fn phase(&self) -> &'static str {
        if self.inferring { "inference" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use lowtide_units::Span;

    use super::*;

    /// Segments that leave and arrive every `gap_ms`, 25 ms apart, in whole ticks: how the rate of the clock is seen after each.
    fn rates(gap_ms: f64, n: u32) -> Vec<i64> {
        let mut clock = RemoteClock::default();
        let at = |i: u32| f64::from(i) * gap_ms;
        let tick = |ms: f64| libm::round(ms) as i64;
        (1..n)
            .map(|i| {
                clock.delay(tick(at(i) + 25.3), tick(at(i)));
                clock.hz
            })
            .collect()
    }

    /// Ticks far apart: 1000 exactly. 1.2 ms apart, a packet of 1500 bytes at 10 Mbit/s: above it, and the delay is lost.
    #[test]
    fn the_rate_strays_where_acknowledgements_are_a_tick_apart() {
        assert!(rates(50.0, 100).iter().skip(2).all(|hz| *hz == 1000));
        let close = rates(1.2, 2000);
        assert!(close[1000..].iter().all(|hz| (1001..1100).contains(hz)), "{:?}", &close[1990..]);
    }

    #[test]
    fn above_a_thousand_ticks_the_delay_is_the_negative_time() {
        let mut clock = RemoteClock { hz: 1003, reference: (10_000, 9_975) };
        assert_eq!(clock.delay(10_100, 10_075), Some(u32::MAX - 10_074));
        clock = RemoteClock { hz: 1000, reference: (10_275, 10_250) };
        assert_eq!(clock.delay(10_300, 10_260), Some(4_294_957_036), "25 ticks for 10: 1023 a second");
        clock = RemoteClock { hz: 1000, reference: (10_275, 10_235) };
        assert_eq!(clock.delay(10_300, 10_260), Some(40));
    }

    fn ack(at_ms: u64, owd_ms: i64) -> Ack {
        let rtt = Span::from_millis(50);
        Ack { now: Time::from_millis(at_ms), acked: 1000, owd: Some(owd_ms * 1_000_000), rtt: Some(rtt), srtt: rtt, ..Ack::default() }
    }

    /// As in Linux: the first delay is an indication, a second one within three round trips leaves one segment.
    #[test]
    fn two_indications_leave_one_segment() {
        let start = Start { mss: 1000, initial_window: Some(40_000), ..Start::default() };
        let (mut law, mut window) = (TcpLpNs2::default(), Window::new(Base::default(), &start));
        law.measure(&mut window, &ack(1000, 25));
        law.measure(&mut window, &ack(1100, 25));
        assert_eq!((window.cwnd, law.delays.min, law.delays.max), (20.0, 25, 50));
        (0..6).for_each(|n| law.measure(&mut window, &ack(1110 + 10 * n, 200)));
        assert_eq!(window.cwnd, 1.0);
    }
}
