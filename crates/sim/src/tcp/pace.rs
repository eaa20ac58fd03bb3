//! When the next segment may leave: pacing (Linux `tcp_update_pacing_rate`, `tcp_update_skb_after_send`) and the spacing of
//! windows below one segment. Knows rates and windows only.

use lowtide_units::{Rate, Span, Time};

/// Segments of a new connection that wait for none before them (Linux `TCP_INIT_CWND`).
const INITIAL_BURST: u32 = 10;
/// Linux's pacing ratios, in percent: slow start and congestion avoidance.
const RATIO_SLOW_START: u64 = 200;
const RATIO_AVOIDANCE: u64 = 120;

/// The sender's departure clock (`tcp_wstamp_ns`).
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    next: Time,
    burst_left: u32,
    /// Segments that leave together while the window is below one segment: two, if the receiver waits for a second.
    group: u32,
    group_left: u32,
    group_start: Option<Time>,
    /// A burst of TCP segmentation offload: whether there are any, when this one left, and the segments that may still leave with it.
    tso: bool,
    burst_at: Time,
    room: u64,
}

impl Pacer {
    /// A pacer that has sent nothing; `group` segments leave together while the window is below one.
    pub fn new(group: u32) -> Pacer {
        Pacer {
            next: Time::ZERO,
            burst_left: INITIAL_BURST,
            group,
            group_left: 0,
            group_start: None,
            tso: false,
            burst_at: Time::ZERO,
            room: 0,
        }
    }

    /// This pacer for a host with segmentation offload: segments leave together that one packet of it holds.
    #[must_use]
    pub fn with_tso(self, tso: bool) -> Pacer {
        Pacer { tso, ..self }
    }

    /// The earliest departure of a paced segment.
    pub fn next(&self) -> Time {
        self.next
    }

    /// Whether a segment may leave at `now`: its time has come, or it leaves with those before it.
    #[inline]
    pub fn allows(&self, now: Time) -> bool {
        self.next <= now || (self.room > 0 && self.burst_at == now)
    }

    /// A segment with `payload` leaves at `now`; the next one waits for its time at `rate`, less at most half of it where this one
    /// leaves later than it might. Headers do not count: the rate is one of payload, too (Linux `tcp_update_skb_after_send`).
    pub fn on_sent(&mut self, now: Time, payload: u32, rate: Option<Rate>) {
        self.group_left = self.group_left.saturating_sub(1);
        self.burst_left = self.burst_left.saturating_sub(1);
        let late = now.since(self.next.min(now));
        self.next = self.next.max(now);
        if let Some(rate) = rate.filter(|r| self.burst_left == 0 && r.bps() > 0) {
            let spacing = rate.time_for(u64::from(payload));
            self.next += spacing - late.min(spacing / 2);
            if self.tso {
                self.note_burst(now, payload, rate);
            }
        }
    }

    /// Linux `tcp_tso_autosize`: as many segments as the rate fills in 1/1024 s, at least two, at most what a packet of 64 KiB holds.
    /// Its addition for RTTs below 16 ms (`tcp_tso_rtt_log`) is not here: it is a segment or more only below 6 ms.
    fn note_burst(&mut self, now: Time, payload: u32, rate: Rate) {
        if self.room > 0 && self.burst_at == now {
            self.room -= 1;
            return;
        }
        let segments = (rate.bps() / (8 * 1024)).min(65_535) / u64::from(payload.max(1));
        (self.burst_at, self.room) = (now, segments.max(2) - 1);
    }

    /// Whether a segment of `mss` may leave although the window is below one, so that the mean rate is `cwnd` per `srtt`;
    /// if not, when.
    #[cold]
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
    fn from_the_tenth_on_segments_are_spaced_by_their_payload() {
        let mut pacer = Pacer::new(2);
        let rate = Some(Rate::from_mbps_f64(10.0));
        for sent in 0..INITIAL_BURST {
            assert_eq!(pacer.next(), Time::ZERO, "{sent}");
            pacer.on_sent(Time::ZERO, 1250, rate);
        }
        assert_eq!(pacer.next(), Time::from_millis(1));
        pacer.on_sent(Time::from_nanos(1_200_000), 1250, rate);
        assert_eq!(pacer.next(), Time::from_millis(2), "what is late does not delay the others");
        pacer.on_sent(Time::from_millis(10), 1250, rate);
        assert_eq!(pacer.next(), Time::from_nanos(10_500_000), "but by half the spacing at most");
    }

    /// 20 Mbit/s are 2441 bytes in 1/1024 s: pairs; 100 Mbit/s are eight segments. The mean rate is the same.
    #[test]
    fn with_offload_segments_leave_in_bursts_at_the_same_rate() {
        for (mbps, together) in [(20.0, 2), (100.0, 8)] {
            let mut pacer = Pacer::new(2).with_tso(true);
            let rate = Rate::from_mbps_f64(mbps);
            (0..INITIAL_BURST).for_each(|_| pacer.on_sent(Time::ZERO, 1448, Some(rate)));
            let (mut now, begun) = (pacer.next(), pacer.next());
            for burst in 0..20 {
                let mut sent = 0;
                while pacer.allows(now) {
                    pacer.on_sent(now, 1448, Some(rate));
                    sent += 1;
                }
                assert_eq!(sent, together, "burst {burst} at {mbps} Mbit/s");
                now = pacer.next();
            }
            let mean = Rate::from_bytes_over(20 * together * 1448, now.since(begun));
            assert!((mean.mbps_f64() / mbps - 1.0).abs() < 0.001, "{mean:?}");
        }
    }

    #[test]
    fn the_host_paces_at_twice_the_window_in_slow_start() {
        assert_eq!(host_rate(125_000, None, Span::from_millis(100)), Some(Rate::from_mbps_f64(20.0)));
        assert_eq!(host_rate(125_000, Some(125_000), Span::from_millis(100)), Some(Rate::from_mbps_f64(12.0)));
    }
}
