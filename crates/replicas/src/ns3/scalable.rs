//! `TcpScalable` of ns-3.37 (`tcp-scalable.cc`), on `TcpNewReno`: +1 for fifty segments; what is left of a count is forgotten.

use super::reno::NewReno;
use super::socket::{CongestionOps, SocketState};

/// `MDFactor`.
const DECREASE: f64 = 0.125;

/// The state of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Scalable {
    /// `AIFactor`.
    factor: u32,
    /// `m_ackCnt`.
    count: u32,
}

impl Scalable {
    /// With an `AIFactor`.
    pub fn new(factor: u32) -> Scalable {
        Scalable { factor, count: 0 }
    }
}

impl CongestionOps for Scalable {
    fn increase_window(&mut self, tcb: &mut SocketState, segments: u32) {
        NewReno::increase(tcb, segments, |tcb, segments| {
            let before = tcb.segments();
            let (mut window, per) = (before, before.min(self.factor).max(1));
            if self.count >= per {
                self.count = 0;
                window += 1;
            }
            self.count += segments;
            if self.count >= per {
                window += self.count / per;
                self.count = 0;
            }
            if window != before {
                tcb.cwnd = window * tcb.segment;
            }
        });
    }

    fn get_ss_thresh(&mut self, tcb: &SocketState, bytes_in_flight: u32) -> u32 {
        (f64::from(bytes_in_flight / tcb.segment) * (1.0 - DECREASE)).max(2.0) as u32 * tcb.segment
    }
}
