//! `TcpVegas` of ns-3.37 (`tcp-vegas.cc`): whole segments, of which what should be in flight is rounded down; a loss costs one.

use lowtide_units::Span;

use super::reno::NewReno;
use super::socket::{CongestionOps, SocketState, State};

/// `Alpha`, `Beta`, `Gamma`.
const ALPHA: u32 = 2;
const BETA: u32 = 4;
const GAMMA: u32 = 1;

/// RTTs of a round and of the connection, as the Vegas family keeps them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounds {
    /// `m_baseRtt`.
    pub base: Option<Span>,
    /// `m_minRtt`.
    pub min: Option<Span>,
    /// `m_cntRtt`.
    pub samples: u32,
    /// `m_begSndNxt`.
    begin: u64,
}

impl Rounds {
    /// `PktsAcked`.
    pub fn sample(&mut self, rtt: Span) {
        if rtt > Span::ZERO {
            self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
            self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
            self.samples += 1;
        }
    }

    /// A new round begins with what is sent next.
    pub fn begin(&mut self, tcb: &SocketState) {
        self.begin = tcb.next;
        (self.samples, self.min) = (0, None);
    }

    /// Whether the round is over.
    pub fn over(&self, tcb: &SocketState) -> bool {
        tcb.acked >= self.begin
    }

    /// (base, minimum of the round) where it had more than two samples.
    pub fn enough(&self) -> Option<(Span, Span)> {
        self.base.zip(self.min).filter(|_| self.samples > 2)
    }
}

/// The state of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vegas {
    rounds: Rounds,
    /// `m_doingVegasNow`.
    on: bool,
}

impl Vegas {
    fn judge(&mut self, tcb: &mut SocketState, segments: u32, (base, min): (Span, Span)) {
        let window = tcb.segments();
        let target = (f64::from(window) * (base.secs_f64() / min.secs_f64())) as u32;
        let queued = window - target;
        if queued > GAMMA && tcb.below_threshold() {
            tcb.cwnd = window.min(target + 1) * tcb.segment;
            tcb.ssthresh = self.get_ss_thresh(tcb, 0);
        } else if tcb.below_threshold() {
            NewReno::slow_start(tcb, segments);
        } else if queued > BETA {
            tcb.cwnd = (window - 1) * tcb.segment;
            tcb.ssthresh = self.get_ss_thresh(tcb, 0);
        } else if queued < ALPHA {
            tcb.cwnd = (window + 1) * tcb.segment;
        }
        tcb.ssthresh = tcb.ssthresh.max(3 * tcb.cwnd / 4);
    }
}

impl CongestionOps for Vegas {
    fn pkts_acked(&mut self, _: &mut SocketState, _: u32, rtt: Span) {
        self.rounds.sample(rtt);
    }

    fn increase_window(&mut self, tcb: &mut SocketState, segments: u32) {
        if !self.on {
            return NewReno.increase_window(tcb, segments);
        }
        if self.rounds.over(tcb) {
            match self.rounds.enough() {
                Some(rtts) => self.judge(tcb, segments, rtts),
                None => NewReno.increase_window(tcb, segments),
            }
            self.rounds.begin(tcb);
        } else if tcb.below_threshold() {
            NewReno::slow_start(tcb, segments);
        }
    }

    fn get_ss_thresh(&mut self, tcb: &SocketState, _: u32) -> u32 {
        tcb.ssthresh.min(tcb.cwnd.saturating_sub(tcb.segment)).max(tcb.least())
    }

    fn congestion_state_set(&mut self, tcb: &mut SocketState, state: State) {
        self.on = state == State::Open;
        if self.on {
            self.rounds.begin(tcb);
        }
    }

    fn delays(&self) -> (Option<Span>, Option<Span>) {
        (self.rounds.base, self.rounds.min.zip(self.rounds.base).map(|(min, base)| min - base))
    }
}
