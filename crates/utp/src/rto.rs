//! libutp's retransmission timer (`ack_packet`, `check_timeouts`): whole milliseconds, a floor of a second, looked at on a coarse tick. Knows no packets.

use lowtide_units::{Span, Time};

/// Timeout before there is a sample, and of a SYN: 3 s.
const INITIAL: u32 = 3000;
/// `rtt_var` before there is a sample.
const INITIAL_VARIANCE: u32 = 800;

/// RTT estimate and timer of one connection.
#[derive(Debug)]
pub(crate) struct Timer {
    rtt: u32,
    variance: u32,
    rto: u32,
    floor: u32,
    /// The timeout in force, doubled each time.
    backed_off: u32,
    deadline: Option<Time>,
    /// Timeouts in a row.
    count: u32,
}

impl Timer {
    pub(crate) fn new(floor: Span) -> Timer {
        let floor = (floor.nanos() / 1_000_000) as u32;
        Timer { rtt: 0, variance: INITIAL_VARIANCE, rto: INITIAL, floor, backed_off: INITIAL, deadline: None, count: 0 }
    }

    /// A packet that left once took `rtt` to be acknowledged.
    pub(crate) fn sample(&mut self, rtt: Span) {
        let sample = (rtt.nanos() / 1_000_000) as u32;
        if self.rtt == 0 {
            self.rtt = sample;
            self.variance = sample / 2;
        } else {
            // C's division: towards zero.
            let change = (i64::from(self.rtt.abs_diff(sample)) - i64::from(self.variance)) / 4;
            self.variance = (i64::from(self.variance) + change) as u32;
            self.rtt = self.rtt - self.rtt / 8 + sample / 8;
        }
        self.rto = (self.rtt + 4 * self.variance).max(self.floor);
    }

    /// The smoothed RTT, zero before the first sample.
    pub(crate) fn srtt(&self) -> Span {
        Span::from_millis(u64::from(self.rtt))
    }

    /// Something is outstanding from now on.
    pub(crate) fn start(&mut self, now: Time) {
        self.backed_off = self.rto;
        self.deadline = Some(now + Span::from_millis(u64::from(self.rto)));
    }

    /// A packet was acknowledged, in order or not: the timer starts afresh.
    pub(crate) fn restart(&mut self, now: Time) {
        self.start(now);
        self.count = 0;
    }

    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Timeouts in a row that found something outstanding.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The timer expired: it waits twice as long. `outstanding`: it counts.
    pub(crate) fn back_off(&mut self, now: Time, outstanding: bool) {
        self.backed_off = self.backed_off.saturating_mul(2);
        self.deadline = Some(now + Span::from_millis(u64::from(self.backed_off)));
        self.count += u32::from(outstanding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(samples_ms: &[u64]) -> Timer {
        let mut timer = Timer::new(Span::from_millis(1000));
        samples_ms.iter().for_each(|&ms| timer.sample(Span::from_millis(ms)));
        timer
    }

    /// 100: variance 50. 200: 50 + (100 − 50)/4 = 62, rtt 100 − 12 + 25 = 113. 7000: 62 + (6887 − 62)/4, 113 − 14 + 875.
    #[test]
    fn whole_milliseconds_as_in_c() {
        let two = timer(&[100, 200]);
        assert_eq!((two.rtt, two.variance, two.rto), (113, 62, 1000));
        let three = timer(&[100, 200, 7000]);
        assert_eq!((three.rtt, three.variance, three.rto), (974, 1768, 974 + 4 * 1768));
        // Below eight milliseconds an eighth is nothing: the estimate stays where it began.
        assert_eq!(timer(&[2, 7, 7, 7]).rtt, 2);
    }

    #[test]
    fn the_floor_is_on_the_whole_timeout() {
        let mut quick = Timer::new(Span::from_millis(200));
        quick.sample(Span::from_millis(20));
        assert_eq!(quick.rto, 200);
    }
}
