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
        if let Some(delay) = tcb.one_way_ms.map(i64::unsigned_abs).filter(|delay| rtt > Span::ZERO && *delay > 0) {
            self.delays.sample(delay as u32);
        }
        if let Some(age) = tcb.echo_age.filter(|age| *age > Span::ZERO) {
            self.inference = age * INFERENCE;
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
    use lowtide_cc::{Ack, Controller, Start};

    use super::*;
    use crate::contract::{Beside, Replica};
    use crate::ns3::socket::Flow;

    fn flow() -> Flow<Lp> {
        Flow::new(Lp::default(), &Start { mss: 1000, ..Start::default() })
    }

    fn tell(flow: &mut Flow<Lp>, at_ms: u64, owd_ms: i64) {
        let rtt = Some(Span::from_millis(50));
        let owd = Some(owd_ms * 1_000_000);
        let ack = Ack { now: Time::from_millis(at_ms), acked: 1000, advanced: 1000, in_flight: 10_000, rtt, owd, ..Ack::default() };
        flow.on_ack_beside(&ack, &Beside { echo_age: rtt, unlimited: true, ..Beside::default() });
    }

    /// s: 25, then towards 60: 29, 33, 36; the range 25 to 60 has its threshold at 30.
    #[test]
    fn the_range_starts_afresh_at_every_indication_and_a_second_one_leaves_a_segment() {
        let mut flow = flow();
        tell(&mut flow, 0, 25);
        assert_eq!((flow.ops.delays.smoothed(), flow.ops.delays.min, flow.cwnd()), (25, 25, 11_000));
        tell(&mut flow, 1, 60);
        assert_eq!((flow.ops.delays.smoothed(), flow.cwnd()), (29, 6500));
        assert_eq!((flow.ops.delays.min, flow.ops.delays.max), (29, 58));
        (2..5).for_each(|at| tell(&mut flow, at, 60));
        assert!(flow.cwnd() <= 3000, "{}: every acknowledgement reacts, slow start adds one back", flow.cwnd());
    }

    #[test]
    fn a_constant_delay_is_no_indication() {
        let mut flow = flow();
        (0..100).for_each(|at| tell(&mut flow, at, 25));
        assert_eq!(flow.cwnd(), 110_000);
    }
}
