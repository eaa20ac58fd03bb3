//! `TcpVeno` of ns-3.37 (`tcp-veno.cc`): counts what is queued by the last RTT, and since it clears its sample counter at every
//! acknowledgement, its increase is NewReno's in any state.

use lowtide_units::Span;

use super::reno::NewReno;
use super::socket::{CongestionOps, SocketState, State};

/// `Beta`: from so many queued segments on a loss means congestion.
const BETA: u32 = 3;

/// The state of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Veno {
    /// `m_baseRtt`, `m_minRtt`, `m_cntRtt`.
    base: Option<Span>,
    min: Option<Span>,
    samples: u32,
    /// `m_doingVenoNow`, `m_inc`, `m_diff`.
    on: bool,
    skip: bool,
    queued: u32,
}

impl CongestionOps for Veno {
    fn pkts_acked(&mut self, _: &mut SocketState, _: u32, rtt: Span) {
        if rtt > Span::ZERO {
            self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
            self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
            self.samples += 1;
        }
    }

    fn increase_window(&mut self, tcb: &mut SocketState, segments: u32) {
        let window = tcb.segments();
        // Without a sample `Time::Max` divides: all of the window is queued.
        let part = self.base.zip(self.min).map_or(0.0, |(base, min)| base.secs_f64() / min.secs_f64());
        self.queued = window - (f64::from(window) * part) as u32;
        if !self.on {
            return NewReno.increase_window(tcb, segments);
        }
        if self.samples <= 2 {
            NewReno.increase_window(tcb, segments);
        } else if tcb.below_threshold() {
            NewReno::slow_start(tcb, segments);
        } else if self.queued < BETA {
            NewReno::congestion_avoidance(tcb, segments);
        } else {
            if !self.skip {
                NewReno::congestion_avoidance(tcb, segments);
            }
            self.skip = !self.skip;
        }
        (self.samples, self.min) = (0, None);
    }

    fn get_ss_thresh(&mut self, tcb: &SocketState, bytes_in_flight: u32) -> u32 {
        if self.queued < BETA {
            return tcb.least().max((f64::from(bytes_in_flight) * (4.0 / 5.0)) as u32);
        }
        NewReno::half(tcb, bytes_in_flight)
    }

    fn congestion_state_set(&mut self, _: &mut SocketState, state: State) {
        self.on = state == State::Open;
        if self.on {
            self.min = None;
        }
    }

    fn delays(&self) -> (Option<Span>, Option<Span>) {
        (self.base, self.min.zip(self.base).map(|(min, base)| min - base))
    }
}
