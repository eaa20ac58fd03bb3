//! The window of ns-2.35's own agents (`tcp/tcp.cc`, `TcpAgent::opencwnd` and `slowdown`, with `windowOption_` 1 and `precisionReduce_` on): in
//! segments and parts of one, counted by acknowledgements. What `Agent/TCP/Reno` has.

use lowtide_cc::{Ack, Cause, Congestion, Controller, ParamError, Params, Snapshot, Start};

use crate::contract::Replica;
use crate::no_params;

/// `windowInit_`, where the host does not insist on another.
const WINDOW_INIT: u32 = 2;

/// `tcp_agent-ns2`.
///
/// # Errors
/// Any parameter.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Replica>, ParamError> {
    no_params::check(params, "tcp_agent-ns2")?;
    Ok(Box::new(TcpAgent::new(start)))
}

/// The state of a flow, in segments.
#[derive(Clone, Copy, Debug)]
pub struct TcpAgent {
    /// `cwnd_`, `ssthresh_`.
    cwnd: f64,
    ssthresh: f64,
    mss: f64,
}

impl TcpAgent {
    /// A flow at its initial window.
    pub fn new(start: &Start) -> TcpAgent {
        let mss = f64::from(start.mss);
        TcpAgent { cwnd: start.window_or(WINDOW_INIT) as f64 / mss, ssthresh: f64::INFINITY, mss }
    }
}

impl Replica for TcpAgent {}

impl Controller for TcpAgent {
    /// `opencwnd`: one segment an acknowledgement, or one a window.
    fn on_ack(&mut self, ack: &Ack) {
        if !ack.in_recovery && ack.may_grow(self.cwnd(), self.cwnd < self.ssthresh) {
            self.cwnd += if self.cwnd < self.ssthresh { 1.0 } else { 1.0 / self.cwnd };
        }
    }

    /// `slowdown`: half the window, the threshold in whole segments; after a timeout one segment (`wnd_restart_`).
    fn on_congestion(&mut self, event: &Congestion) {
        let half = self.cwnd / 2.0;
        self.ssthresh = libm::floor(half).max(2.0);
        self.cwnd = if event.cause == Cause::Timeout { 1.0 } else { half };
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = f64::from(mss.max(1));
    }

    fn cwnd(&self) -> u64 {
        (self.cwnd * self.mss) as u64
    }

    fn snapshot(&self) -> Snapshot {
        let phase = if self.cwnd < self.ssthresh { "slow_start" } else { "avoidance" };
        Snapshot::of(self.cwnd(), self.ssthresh * self.mss, phase)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MSS, ack};

    /// 21 segments, halved: 10.5 and a threshold of ten; above it a segment a window.
    #[test]
    fn half_a_window_keeps_its_fraction() {
        let mut flow = TcpAgent::new(&Start { mss: MSS, initial_window: Some(21 * u64::from(MSS)), ..Start::default() });
        flow.on_congestion(&Congestion { cause: Cause::Loss, ..lost() });
        assert_eq!((flow.cwnd, flow.ssthresh), (10.5, 10.0));
        flow.on_ack(&ack(0.0, 1.0, 50.0));
        assert_eq!(flow.cwnd, 10.5 + 1.0 / 10.5);
        flow.on_congestion(&Congestion { cause: Cause::Timeout, ..lost() });
        assert_eq!((flow.cwnd, flow.ssthresh), (1.0, 5.0));
        flow.on_ack(&ack(0.0, 2.0, 50.0));
        assert_eq!(flow.cwnd, 2.0, "by acknowledgements, not by what they acknowledge");
    }

    fn lost() -> Congestion {
        let now = lowtide_units::Time::ZERO;
        Congestion { now, cause: Cause::Loss, lost: 0, in_flight: 0, srtt: lowtide_units::Span::ZERO }
    }
}
