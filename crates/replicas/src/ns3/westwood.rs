//! `TcpWestwood` of ns-3.37 (`tcp-westwood.cc`), both its protocol types, on `TcpNewReno`, with Tustin's filter.

use lowtide_units::{Span, Time};

use super::reno::NewReno;
use super::socket::{CongestionOps, SocketState};

/// The filter's weight of what was before.
const ALPHA: f64 = 0.9;

/// `ProtocolType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A sample per acknowledgement.
    Westwood,
    /// A sample per RTT, from the acknowledgement that follows the last one.
    WestwoodPlus,
}

/// The state of a flow; bandwidths in bytes a second.
#[derive(Clone, Copy, Debug)]
pub struct Westwood {
    kind: Type,
    /// `m_ackedSegments`.
    acked: u32,
    /// `m_lastAck`.
    last_ack: Time,
    /// `m_bwEstimateEvent`: when it fires, and the RTT it was scheduled for.
    due: Option<(Time, Span)>,
    /// `m_currentBW`, `m_lastSampleBW`.
    bandwidth: f64,
    last_sample: f64,
}

impl Westwood {
    /// A flow that has measured nothing.
    pub fn new(kind: Type) -> Westwood {
        Westwood { kind, acked: 0, last_ack: Time::ZERO, due: None, bandwidth: 0.0, last_sample: 0.0 }
    }

    /// `EstimateBW`.
    fn estimate(&mut self, segment: u32, over: Span) {
        let sample = f64::from(self.acked) * f64::from(segment) / over.secs_f64();
        self.bandwidth = self.bandwidth * ALPHA + (sample + self.last_sample) * 0.5 * (1.0 - ALPHA);
        self.last_sample = sample;
        self.acked = 0;
    }
}

impl CongestionOps for Westwood {
    fn pkts_acked(&mut self, tcb: &mut SocketState, segments: u32, rtt: Span) {
        // The event has happened before this acknowledgement.
        if let Some((_, over)) = self.due.take_if(|(at, _)| *at <= tcb.now) {
            self.estimate(tcb.segment, over);
        }
        if rtt == Span::ZERO {
            return;
        }
        self.acked += segments;
        match self.kind {
            Type::Westwood if tcb.now > self.last_ack => {
                let over = tcb.now.since(self.last_ack);
                self.last_ack = tcb.now;
                self.estimate(tcb.segment, over);
            }
            Type::Westwood => {}
            Type::WestwoodPlus => self.due = self.due.or(Some((tcb.now + rtt, rtt))),
        }
    }

    fn increase_window(&mut self, tcb: &mut SocketState, segments: u32) {
        NewReno.increase_window(tcb, segments);
    }

    fn get_ss_thresh(&mut self, tcb: &SocketState, _: u32) -> u32 {
        tcb.least().max((self.bandwidth * tcb.min_rtt.map_or(0.0, Span::secs_f64)) as u32)
    }
}
