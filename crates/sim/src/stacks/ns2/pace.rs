//! When the next segment may leave: pacing and the spacing of windows below one segment. Knows rates and windows
//! only.

use lowtide_units::{Rate, Span, Time};

/// Segments that leave unpaced when a connection starts (Linux: ten).
const INITIAL_BURST: u32 = 10;
/// Linux's pacing ratios, in percent: slow start and congestion avoidance.
const RATIO_SLOW_START: u64 = 200;
const RATIO_AVOIDANCE: u64 = 120;

/// The sender's departure clock.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    next: Time,
    burst_left: u32,
    /// Segments that leave together while the window is below one segment: two, if the receiver waits for a second.
    group: u32,
    group_left: u32,
    group_start: Option<Time>,
    /// It is a timer that a segment starts only while it does not run, and the last of the first burst does (ns-3's `SendDataPacket`).
    timer: bool,
}

impl Pacer {
    /// A pacer that has sent nothing; `group` segments leave together while the window is below one.
    pub fn new(group: u32) -> Pacer {
        Pacer { next: Time::ZERO, burst_left: INITIAL_BURST, group, group_left: 0, group_start: None, timer: false }
    }

    /// The same with ns-3's timer.
    pub fn of_ns3(group: u32) -> Pacer {
        Pacer { timer: true, ..Pacer::new(group) }
    }

    /// The earliest departure of a paced segment.
    pub fn next(&self) -> Time {
        self.next
    }

    /// The next segment need not wait (ns-3's `ReTxTimeout` cancels the pacing timer).
    pub fn expire(&mut self) {
        self.next = Time::ZERO;
    }

    /// A segment with `payload` leaves at `now`; the next one waits for its time at `rate`. Headers do not count: the rate is one
    /// of payload too (Linux since 4.20, `tcp_update_skb_after_send`).
    pub fn on_sent(&mut self, now: Time, payload: u32, rate: Option<Rate>) {
        self.group_left = self.group_left.saturating_sub(1);
        if self.burst_left > 0 {
            self.burst_left -= 1;
            if self.burst_left > 0 || !self.timer {
                return;
            }
        }
        if self.timer {
            if let Some(rate) = rate.filter(|r| self.next <= now && r.bps() > 0) {
                self.next = now + rate.nearest_time_for(u64::from(payload));
            }
            return;
        }
        if let Some(rate) = rate.filter(|r| r.bps() > 0) {
            self.next = self.next.max(now) + rate.time_for(u64::from(payload));
        }
    }

    /// Whether a segment of `mss` may leave although the window is below one, so that the mean rate is `cwnd` per `srtt`;
    /// if not, when.
    pub fn below_one_segment(&mut self, now: Time, cwnd: u64, mss: u64, srtt: Span, idle: bool) -> Result<(), Option<Time>> {
        if self.group_left > 0 {
            return Ok(());
        }
        if !idle {
            return Err(None);
        }
        let space = srtt.mul_f64(mss as f64 * f64::from(self.group) / cwnd.max(1) as f64);
        match self.group_start.map(|start| start + space).filter(|&due| due > now) {
            Some(due) => Err(Some(due)),
            None => {
                self.group_start = Some(now);
                self.group_left = self.group;
                Ok(())
            }
        }
    }
}

/// Linux `tcp_update_pacing_rate` for algorithms that name no rate themselves.
pub fn host_rate(cwnd: u64, ssthresh: Option<u64>, srtt: Span) -> Option<Rate> {
    if srtt == Span::ZERO {
        return None;
    }
    let slow_start = ssthresh.is_none_or(|threshold| cwnd < threshold / 2);
    let ratio = if slow_start { RATIO_SLOW_START } else { RATIO_AVOIDANCE };
    Some(Rate::from_bytes_over(cwnd * ratio / 100, srtt))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_window_sends_a_segment_every_four_round_trips() {
        let mut pacer = Pacer::new(1);
        let srtt = Span::from_millis(100);
        assert_eq!(pacer.below_one_segment(Time::ZERO, 362, 1448, srtt, true), Ok(()));
        pacer.on_sent(Time::ZERO, 1448, None);
        assert_eq!(pacer.below_one_segment(Time::from_millis(100), 362, 1448, srtt, true), Err(Some(Time::from_millis(400))));
        assert_eq!(pacer.below_one_segment(Time::from_millis(400), 362, 1448, srtt, true), Ok(()));
    }

    #[test]
    fn pairs_keep_the_mean_rate() {
        let mut pacer = Pacer::new(2);
        let srtt = Span::from_millis(100);
        for _ in 0..2 {
            assert_eq!(pacer.below_one_segment(Time::ZERO, 724, 1448, srtt, true), Ok(()));
            pacer.on_sent(Time::ZERO, 1448, None);
        }
        assert_eq!(pacer.below_one_segment(Time::from_millis(1), 724, 1448, srtt, true), Err(Some(Time::from_millis(400))));
    }

    #[test]
    fn after_the_first_burst_segments_are_spaced_by_their_payload() {
        let mut pacer = Pacer::new(2);
        for sent in 0..=INITIAL_BURST {
            assert_eq!(pacer.next(), Time::ZERO, "{sent}");
            pacer.on_sent(Time::ZERO, 1250, Some(Rate::from_mbps_f64(10.0)));
        }
        assert_eq!(pacer.next(), Time::from_millis(1));
    }

    #[test]
    fn the_host_paces_at_twice_the_window_in_slow_start() {
        assert_eq!(host_rate(125_000, None, Span::from_millis(100)), Some(Rate::from_mbps_f64(20.0)));
        assert_eq!(host_rate(125_000, Some(125_000), Span::from_millis(100)), Some(Rate::from_mbps_f64(12.0)));
    }

    /// ns-3: the last of the initial window starts the timer; a repair that leaves while it runs does not delay it.
    #[test]
    fn ns3s_timer_is_not_started_again_while_it_runs() {
        let mut pacer = Pacer::of_ns3(2);
        let rate = Some(Rate::from_mbps_f64(10.0));
        (0..INITIAL_BURST).for_each(|_| pacer.on_sent(Time::ZERO, 1250, rate));
        assert_eq!(pacer.next(), Time::from_millis(1));
        pacer.on_sent(Time::from_nanos(500_000), 1250, rate);
        assert_eq!(pacer.next(), Time::from_millis(1));
        pacer.on_sent(Time::from_nanos(1_500_000), 1250, rate);
        assert_eq!(pacer.next(), Time::from_nanos(2_500_000));
    }
}
