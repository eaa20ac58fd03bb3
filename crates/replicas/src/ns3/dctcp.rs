//! `TcpDctcp` of ns-3.37 (`tcp-dctcp.cc`), on `TcpLinuxReno`: a loss cuts by α/2, too, and by parts of a segment.

use lowtide_units::Span;

use super::reno::LinuxReno;
use super::socket::{CongestionOps, SocketState};

/// `DctcpShiftG`.
const G: f64 = 0.0625;

/// The state of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Dctcp {
    reno: LinuxReno,
    /// `m_alpha`; `DctcpAlphaOnInit` is 1.
    alpha: f64,
    /// `m_ackedBytesTotal`, `m_ackedBytesEcn`.
    acked: u64,
    marked: u64,
    /// `m_nextSeq`.
    next: Option<u64>,
}

impl Default for Dctcp {
    fn default() -> Dctcp {
        Dctcp { reno: LinuxReno::default(), alpha: 1.0, acked: 0, marked: 0, next: None }
    }
}

impl CongestionOps for Dctcp {
    fn pkts_acked(&mut self, tcb: &mut SocketState, segments: u32, _: Span) {
        let bytes = u64::from(segments) * u64::from(tcb.segment);
        self.acked += bytes;
        if tcb.ece_received {
            self.marked += bytes;
        }
        if tcb.acked >= *self.next.get_or_insert(tcb.next) {
            let part = if self.acked > 0 { self.marked as f64 / self.acked as f64 } else { 0.0 };
            self.alpha = (1.0 - G) * self.alpha + G * part;
            (self.acked, self.marked, self.next) = (0, 0, Some(tcb.next));
        }
    }

    fn has_dctcp_ecn(&self) -> bool {
        true
    }

    fn increase_window(&mut self, tcb: &mut SocketState, segments: u32) {
        self.reno.increase_window(tcb, segments);
    }

    fn get_ss_thresh(&mut self, tcb: &SocketState, _: u32) -> u32 {
        ((1.0 - self.alpha / 2.0) * f64::from(tcb.cwnd)) as u32
    }
}
