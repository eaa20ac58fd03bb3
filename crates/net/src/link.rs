//! A transmitter: one packet at a time at a rate, without drift. Knows no queue; who runs it gives it the next packet.

use lowtide_units::{Rate, Span, Time};

const NS_PER_S: u128 = 1_000_000_000;

/// Serialises packets. The part of a nanosecond by which an end was rounded up is carried to the packet that follows
/// without a gap, so that a busy link sends exactly its rate for ever.
#[derive(Clone, Debug)]
pub struct Transmitter {
    rate: Rate,
    busy_until: Time,
    /// Work in bit·ns/s (bits × 10⁹) that the rounded-up end of the last packet left room for; below `rate`.
    spare: u64,
    /// Work left of a packet that waits for a rate above zero.
    stalled: Option<u128>,
}

impl Transmitter {
    /// An idle transmitter.
    pub fn new(rate: Rate) -> Transmitter {
        Transmitter { rate, busy_until: Time::ZERO, spare: 0, stalled: None }
    }

    /// The rate in force.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// When the last bit of what was started has left: [`Time::MAX`] while the rate is zero.
    pub fn busy_until(&self) -> Time {
        self.busy_until
    }

    /// Starts a packet at `now`, or behind the one still being sent. Returns when its last bit has left;
    /// [`Time::MAX`] at rate zero, until [`set_rate`](Transmitter::set_rate) says otherwise.
    ///
    /// For an exact rate a host that wakes up late passes the end it was told, not its clock.
    #[inline]
    pub fn start(&mut self, bytes: u32, now: Time) -> Time {
        let work = u128::from(bytes) * 8 * NS_PER_S;
        if let Some(left) = &mut self.stalled {
            *left += work;
            return self.busy_until;
        }
        if now > self.busy_until {
            self.busy_until = now;
            self.spare = 0;
        }
        self.work_off(work)
    }

    /// Changes the rate at `now`. Returns the new end of the packet being sent, if one is: the end told before no longer holds.
    pub fn set_rate(&mut self, rate: Rate, now: Time) -> Option<Time> {
        let left = match self.stalled.take() {
            Some(left) => left,
            None => {
                let done_at_end = u128::from(self.busy_until.since(now).nanos()) * u128::from(self.rate.bps());
                done_at_end.saturating_sub(u128::from(self.spare))
            }
        };
        self.rate = rate;
        if left == 0 {
            return None;
        }
        self.busy_until = now;
        self.spare = 0;
        Some(self.work_off(left))
    }

    #[inline]
    fn work_off(&mut self, work: u128) -> Time {
        let rate = self.rate.bps();
        if rate == 0 {
            self.stalled = Some(work);
            self.busy_until = Time::MAX;
            return self.busy_until;
        }
        let spare = u128::from(self.spare);
        if work <= spare {
            self.spare = (spare - work) as u64;
            return self.busy_until;
        }
        let (span, spare) = div_ceil_with_spare(work - spare, rate);
        self.spare = spare;
        self.busy_until += Span::from_nanos(span);
        self.busy_until
    }
}

/// `work / rate` rounded up, and by how much: in 64 bits where it fits, which is every packet but a jumbogram.
fn div_ceil_with_spare(work: u128, rate: u64) -> (u64, u64) {
    if let Ok(work) = u64::try_from(work) {
        let span = work.div_ceil(rate);
        return (span, (u128::from(span) * u128::from(rate) - u128::from(work)) as u64);
    }
    let span = work.div_ceil(u128::from(rate));
    (u64::try_from(span).unwrap_or(u64::MAX), (span * u128::from(rate) - work) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_packets_at_an_awkward_rate_end_within_a_nanosecond_of_the_truth() {
        let rate = Rate::from_bps(7_000_003);
        let mut link = Transmitter::new(rate);
        let mut now = Time::ZERO;
        for sent in 1..=1_000_000u64 {
            now = link.start(1500, now);
            assert_eq!(now.nanos(), rate.time_for(1500 * sent).nanos(), "packet {sent}");
        }
    }

    #[test]
    fn a_gap_starts_afresh_and_a_packet_behind_another_waits_for_it() {
        let mut link = Transmitter::new(Rate::from_mbps_f64(20.0));
        assert_eq!(link.start(1500, Time::from_millis(5)), Time::from_nanos(5_600_000));
        assert_eq!(link.start(1500, Time::from_millis(5)), Time::from_nanos(6_200_000));
        assert_eq!(link.start(1500, Time::from_millis(9)), Time::from_nanos(9_600_000));
    }

    #[test]
    fn a_rate_change_stretches_what_is_left_of_the_packet() {
        let mut link = Transmitter::new(Rate::from_mbps_f64(12.0));
        assert_eq!(link.start(1500, Time::ZERO), Time::from_millis(1));
        assert_eq!(link.set_rate(Rate::from_mbps_f64(6.0), Time::from_nanos(250_000)), Some(Time::from_nanos(1_750_000)));
        assert_eq!(link.set_rate(Rate::from_bps(0), Time::from_nanos(1_000_000)), Some(Time::MAX));
        assert_eq!(link.set_rate(Rate::from_mbps_f64(12.0), Time::from_millis(50)), Some(Time::from_nanos(50_375_000)));
        assert_eq!(link.set_rate(Rate::from_mbps_f64(6.0), Time::from_millis(60)), None);
        assert_eq!(link.start(1500, Time::from_millis(60)), Time::from_millis(62));
    }

    #[test]
    fn rates_above_eight_gigabit_send_several_bytes_in_a_nanosecond() {
        let mut link = Transmitter::new(Rate::from_bps(100_000_000_000));
        let ends: Vec<u64> = (0..25).map(|_| link.start(1, Time::ZERO).nanos()).collect();
        assert_eq!((ends[0], ends[11], ends[12], ends[24]), (1, 1, 2, 2));
    }
}
