//! When the next packet may leave, under a control that names a rate, or a window smaller than a packet. Knows no packets.

use lowtide_units::{Rate, Span, Time};

/// What a host that wakes late may make up for: timers of a millisecond wake after two at the latest.
const CREDIT: Span = Span::from_millis(2);

/// The pace of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacer {
    next: Time,
}

impl Pacer {
    /// `bytes` leave now, at `rate` if there is one.
    pub(crate) fn sent(&mut self, bytes: u64, rate: Option<Rate>, now: Time) {
        if let Some(rate) = rate.filter(|rate| rate.bps() > 0) {
            self.next = self.next.max(now - CREDIT) + rate.time_for(bytes);
        }
    }

    /// When the next may leave, if not now.
    pub(crate) fn waits(self, now: Time) -> Option<Time> {
        (self.next > now).then_some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_wakes_late_keeps_the_mean_rate_and_makes_up_for_two_milliseconds_at_most() {
        let at = |us: u64| Time::from_nanos(us * 1000);
        let mut pacer = Pacer::default();
        let rate = Some(Rate::from_bps(8_000_000));
        pacer.sent(1000, rate, at(10_000));
        assert_eq!(pacer.waits(at(8_999)), Some(at(9_000)), "1000 bytes take a millisecond");
        pacer.sent(1000, rate, at(10_000));
        pacer.sent(1000, rate, at(10_000));
        assert_eq!(pacer.waits(at(10_000)), Some(at(11_000)));
        pacer.sent(1000, rate, at(12_500));
        assert_eq!((pacer.waits(at(11_999)), pacer.waits(at(12_000))), (Some(at(12_000)), None));
        pacer.sent(1000, None, at(12_500));
        assert_eq!(pacer.waits(at(12_500)), None, "no rate, no pace");
    }
}
