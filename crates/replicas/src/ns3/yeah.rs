//! `TcpYeah` of ns-3.37 (`tcp-yeah.cc`): `1 / m_phy` is a division of whole numbers, so that any excess of the RTT makes it slow.

use lowtide_units::Span;

use super::reno::NewReno;
use super::scalable::Scalable;
use super::socket::{CongestionOps, SocketState, State};
use super::vegas::Rounds;

/// `Alpha`: queued segments above which it drains.
const ALPHA: u32 = 80;
/// `Gamma`, `Delta`, `Epsilon`: a drain takes this part of the queue, a loss at least ⅛ of the flight, a drain at most half the window.
const GAMMA: u32 = 1;
const DELTA: u32 = 3;
const EPSILON: u32 = 1;
/// `Rho`: rounds in slow mode after which a loss halves. `Zeta`: fast rounds after which the count of Reno is forgotten.
const RHO: u32 = 16;
const ZETA: u32 = 50;
/// `StcpAiFactor`.
const SCALABLE_AI: u32 = 100;

/// The state of a flow; windows in segments.
#[derive(Clone, Copy, Debug)]
pub struct Yeah {
    rounds: Rounds,
    scalable: Scalable,
    /// `m_doingRenoNow`, `m_renoCount`, `m_fastCount`, `m_lastQ`.
    reno_rounds: u32,
    reno_count: u32,
    fast_rounds: u32,
    last_queue: u32,
}

impl Default for Yeah {
    fn default() -> Yeah {
        let scalable = Scalable::new(SCALABLE_AI);
        Yeah { rounds: Rounds::default(), scalable, reno_rounds: 0, reno_count: 2, fast_rounds: 0, last_queue: 0 }
    }
}

impl Yeah {
    fn judge(&mut self, tcb: &mut SocketState, (base, min): (Span, Span)) {
        let mut window = tcb.segments();
        let excess = min - base;
        let queue = (f64::from(window) / min.secs_f64() * excess.secs_f64()) as u32;
        if queue > ALPHA || excess > Span::ZERO {
            if queue > ALPHA && window > self.reno_count {
                window -= (queue / GAMMA).min(window >> EPSILON);
                window = window.max(self.reno_count);
                tcb.cwnd = window * tcb.segment;
                tcb.ssthresh = tcb.cwnd;
            }
            self.reno_count = if self.reno_count <= 2 { (window >> 1).max(2) } else { self.reno_count + 1 };
            self.reno_rounds += 1;
        } else {
            self.fast_rounds += 1;
            if self.fast_rounds > ZETA {
                (self.reno_count, self.fast_rounds) = (2, 0);
            }
            self.reno_rounds = 0;
        }
        self.last_queue = queue;
    }
}

impl CongestionOps for Yeah {
    fn pkts_acked(&mut self, _: &mut SocketState, _: u32, rtt: Span) {
        self.rounds.sample(rtt);
    }

    fn increase_window(&mut self, tcb: &mut SocketState, segments: u32) {
        if tcb.below_threshold() {
            NewReno::slow_start(tcb, segments);
        } else if self.reno_rounds == 0 {
            self.scalable.increase_window(tcb, segments);
        } else {
            NewReno::congestion_avoidance(tcb, segments);
        }
        if self.rounds.over(tcb) {
            if let Some(rtts) = self.rounds.enough() {
                self.judge(tcb, rtts);
            }
            self.rounds.begin(tcb);
        }
    }

    fn get_ss_thresh(&mut self, tcb: &SocketState, bytes_in_flight: u32) -> u32 {
        let flight = bytes_in_flight / tcb.segment;
        let half = (flight >> 1).max(2);
        let reduction = if self.reno_rounds < RHO { self.last_queue.max(flight >> DELTA).min(half) } else { half };
        self.fast_rounds = 0;
        self.reno_count = (self.reno_count >> 1).max(2);
        bytes_in_flight.saturating_sub(reduction * tcb.segment).max(tcb.least())
    }

    fn congestion_state_set(&mut self, tcb: &mut SocketState, state: State) {
        if state == State::Open {
            self.rounds.begin(tcb);
        }
    }

    fn delays(&self) -> (Option<Span>, Option<Span>) {
        (self.rounds.base, self.rounds.min.zip(self.rounds.base).map(|(min, base)| min - base))
    }
}
