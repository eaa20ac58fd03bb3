//! `TcpLp` of ns-3.37 (`tcp-lp.cc`), on `TcpNewReno`: Linux's TCP-LP in whole milliseconds, with a delay range that starts afresh with
//! every indication and a reaction at every acknowledgement, so that a flow which sees any queue of its own stays at a few segments.
//! `tcp_lp` of `lowtide-cc` is the algorithm.

use lowtide_cc::scavenger::tcp_lp_range::DelayRange;
use lowtide_units::{Span, Time};

use super::reno::NewReno;
use super::socket::{CongestionOps, SocketState};

/// The inference phase in times what the echoed timestamp is old.
const INFERENCE: u64 = 3;

/// The state of a flow.
#[derive(Debug, Default)]
pub struct Lp {
    /// `m_owdMin`, `m_owdMax`, `m_owdMaxRsv`, `m_sOwd`.
    delays: DelayRange,
    /// `m_lastDrop`, `m_inference`.
    last_drop: Option<Time>,
    inference: Span,
    /// `LP_WITHIN_INF`.
    inferring: bool,
}

impl CongestionOps for Lp {
    fn pkts_acked(&mut self, tcb: &mut SocketState, _: u32, rtt: Span) {
        let delay = tcb.one_way_ms().unsigned_abs();
        if rtt > Span::ZERO && delay > 0 {
            self.delays.sample(delay as u32);
        }
        if (tcb.now.nanos() / 1_000_000) as i64 > tcb.timestamp_echo {
            self.inference = tcb.now.since(Time::from_millis(tcb.timestamp_echo as u64)) * INFERENCE;
        }
        self.inferring = self.last_drop.is_some_and(|at| tcb.now.since(at) < self.inference);
        if self.delays.smoothed() <= self.delays.threshold() {
            return;
        }
        self.delays.start_afresh();
        tcb.cwnd = if self.inferring { tcb.segment } else { (tcb.cwnd >> 1).max(tcb.segment) };
        self.last_drop = Some(tcb.now);
    }

    fn increase_window(&mut self, tcb: &mut SocketState, segments: u32) {
        NewReno::increase(tcb, segments, |tcb, segments| {
            if !self.inferring {
                NewReno::congestion_avoidance(tcb, segments);
            }
        });
    }

    fn get_ss_thresh(&mut self, tcb: &SocketState, bytes_in_flight: u32) -> u32 {
        NewReno::half(tcb, bytes_in_flight)
    }

    fn delays(&self) -> (Option<Span>, Option<Span>) {
        (None, self.delays.queueing().map(|ms| Span::from_millis(u64::from(ms))))
    }
}

#[cfg(test)]
mod tests {
    use lowtide_cc::Start;

    use super::*;

    /// A socket with eleven segments of 1000 bytes.
    fn socket() -> SocketState {
        SocketState::new(&Start { mss: 1000, initial_window: Some(11_000), ..Start::default() })
    }

    fn tell(lp: &mut Lp, tcb: &mut SocketState, at_ms: u64, one_way_ms: i64) {
        tcb.now = Time::from_millis(at_ms);
        (tcb.timestamp_value, tcb.timestamp_echo) = (at_ms as i64 - 25, at_ms as i64 - 25 - one_way_ms);
        lp.pkts_acked(tcb, 1, Span::from_millis(50));
    }

    /// s: 25, then towards 60: 29, 33, 36; the range 25 to 60 has its threshold at 30.
    #[test]
    fn the_range_starts_afresh_at_every_indication_and_a_second_one_leaves_a_segment() {
        let (mut lp, mut tcb) = (Lp::default(), socket());
        tell(&mut lp, &mut tcb, 1000, 25);
        assert_eq!((lp.delays.smoothed(), lp.delays.min, tcb.cwnd), (25, 25, 11_000));
        tell(&mut lp, &mut tcb, 1001, 60);
        assert_eq!((lp.delays.smoothed(), tcb.cwnd), (29, 5500));
        assert_eq!((lp.delays.min, lp.delays.max), (29, 58));
        tell(&mut lp, &mut tcb, 1002, 60);
        assert_eq!((lp.delays.smoothed(), tcb.cwnd), (33, 5500));
        tell(&mut lp, &mut tcb, 1003, 60);
        assert_eq!((lp.delays.smoothed(), tcb.cwnd), (36, 1000));
    }

    #[test]
    fn a_constant_delay_is_no_indication() {
        let (mut lp, mut tcb) = (Lp::default(), socket());
        (0..100).for_each(|at| tell(&mut lp, &mut tcb, 1000 + at, 25));
        assert_eq!(tcb.cwnd, 11_000);
    }
}
