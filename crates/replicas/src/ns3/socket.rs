//! What ns-3.37's socket shares with a congestion control (`tcp-socket-state.h`), the control's interface
//! (`tcp-congestion-ops.h`), and [`Flow`], which makes a control of this workspace out of one. Windows are in bytes, 32 bits of
//! them, and cut to whole bytes wherever ns-3 cuts them.

use std::fmt;

use lowtide_cc::{Ack, Cause, Congestion, Controller, ParamError, Params, Snapshot, Start};
use lowtide_units::{Span, Time};
use serde::Deserialize;

use crate::contract::{Beside, Replica};

/// `TcpSocketState::TcpCongState_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// `CA_OPEN`.
    Open,
    /// `CA_DISORDER`: duplicates have come, not enough for a recovery.
    Disorder,
    /// `CA_CWR` and `CA_RECOVERY`.
    Recovery,
    /// `CA_LOSS`.
    Loss,
}

/// `TcpSocketState`, what of it the controls read.
#[derive(Clone, Copy, Debug)]
pub struct SocketState {
    /// `m_cWnd`.
    pub cwnd: u32,
    /// `m_ssThresh`.
    pub ssthresh: u32,
    /// `m_segmentSize`.
    pub segment: u32,
    /// `m_congState`.
    pub state: State,
    /// `Simulator::Now`.
    pub now: Time,
    /// `m_minRtt`, of smoothed RTTs; the handshake's is one.
    pub min_rtt: Option<Span>,
    /// `m_lastAckedSeq`.
    pub acked: u64,
    /// `m_nextTxSequence`.
    pub next: u64,
    /// `m_ecnState` is `ECN_ECE_RCVD`.
    pub marked: bool,
    /// `m_rcvTimestampValue` less `m_rcvTimestampEchoReply`, in ms: the one-way delay, both ends having one clock.
    pub one_way_ms: Option<i64>,
    /// The time since `m_rcvTimestampEchoReply`.
    pub echo_age: Option<Span>,
}

impl SocketState {
    /// `GetCwndInSegments`.
    pub fn segments(&self) -> u32 {
        self.cwnd / self.segment
    }

    /// Whether the window is below the threshold.
    pub fn below_threshold(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Two segments.
    pub fn least(&self) -> u32 {
        2 * self.segment
    }
}

/// `TcpCongestionOps`.
pub trait CongestionOps: fmt::Debug + Send {
    /// `PktsAcked`: each acknowledgement; `rtt` is the smoothed one, zero before the first.
    fn pkts_acked(&mut self, _tcb: &mut SocketState, _segments: u32, _rtt: Span) {}
    /// `IncreaseWindow`: each acknowledgement of new data outside a recovery.
    fn increase_window(&mut self, tcb: &mut SocketState, segments: u32);
    /// `GetSsThresh`.
    fn get_ss_thresh(&mut self, tcb: &SocketState, bytes_in_flight: u32) -> u32;
    /// `CongestionStateSet`.
    fn congestion_state_set(&mut self, _tcb: &mut SocketState, _state: State) {}
    /// What it measures: base delay and queueing delay.
    fn delays(&self) -> (Option<Span>, Option<Span>) {
        (None, None)
    }
}

/// No parameters: a replica has what its original has by default.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct None_ {}

/// Makes the constructor of `ops` under `name`.
///
/// # Errors
/// Any parameter.
pub fn build<O: CongestionOps + 'static>(name: &str, ops: O, params: &Params, start: &Start) -> Result<Box<dyn Replica>, ParamError> {
    let None_ {} = params.read(name)?;
    Ok(Box::new(Flow::new(ops, start)))
}

/// The threshold that the socket starts with.
const UNSET: u32 = u32::MAX;
/// The initial window in segments, where the host does not insist on one (`InitialCwnd`).
const INITIAL_SEGMENTS: u32 = 10;

/// A connection's state and its control.
#[derive(Debug)]
pub struct Flow<O> {
    /// The socket's.
    pub tcb: SocketState,
    /// The control.
    pub ops: O,
    /// `m_dupAckCount`.
    duplicates: u32,
}

impl<O: CongestionOps> Flow<O> {
    /// A flow at its initial window.
    pub fn new(mut ops: O, start: &Start) -> Flow<O> {
        let mut tcb = SocketState {
            cwnd: start.window_or(INITIAL_SEGMENTS) as u32,
            ssthresh: UNSET,
            segment: start.mss,
            state: State::Open,
            now: start.now,
            min_rtt: start.handshake_rtt,
            acked: 0,
            next: 0,
            marked: false,
            one_way_ms: None,
            echo_age: None,
        };
        ops.congestion_state_set(&mut tcb, State::Open);
        Flow { tcb, ops, duplicates: 0 }
    }

    fn set_state(&mut self, state: State) {
        self.duplicates = 0;
        self.ops.congestion_state_set(&mut self.tcb, state);
        self.tcb.state = state;
    }

    fn read(&mut self, ack: &Ack, beside: &Beside) {
        let tcb = &mut self.tcb;
        tcb.now = ack.now;
        tcb.acked += ack.advanced;
        tcb.next = beside.next.unwrap_or(tcb.acked + ack.in_flight.saturating_sub(ack.acked));
        tcb.marked = ack.ce > 0;
        tcb.one_way_ms = ack.owd.map(|ns| ns.div_euclid(1_000_000));
        tcb.echo_age = beside.echo_age;
        if let Some(rtt) = ack.rtt.filter(|rtt| *rtt > Span::ZERO) {
            tcb.min_rtt = Some(tcb.min_rtt.map_or(rtt, |min| min.min(rtt)));
        }
    }
}

impl<O: CongestionOps> Replica for Flow<O> {
    /// `ProcessAck`. It calls `PktsAcked` with one segment for a duplicate and for a partial acknowledgement, and else with all by
    /// which the left edge moved, although duplicates have counted most of it (but those that preceded no recovery).
    fn on_ack_beside(&mut self, ack: &Ack, beside: &Beside) {
        self.read(ack, beside);
        let rtt = ack.rtt.unwrap_or(Span::ZERO);
        let advanced = (ack.advanced / u64::from(self.tcb.segment)) as u32;
        let state = self.tcb.state;
        if advanced == 0 && matches!(state, State::Open | State::Disorder) {
            self.duplicates += 1;
            if state == State::Open {
                self.ops.congestion_state_set(&mut self.tcb, State::Disorder);
                self.tcb.state = State::Disorder;
            }
        }
        let counted = match state {
            _ if advanced == 0 || ack.in_recovery => Some(1),
            State::Disorder => advanced.checked_sub(self.duplicates),
            _ => Some(advanced),
        };
        if let Some(segments) = counted {
            self.ops.pkts_acked(&mut self.tcb, segments, rtt);
        }
        if ack.in_recovery {
            return;
        }
        match state {
            State::Disorder if advanced > 0 => self.set_state(State::Open),
            State::Recovery => {
                self.set_state(State::Open);
                self.tcb.cwnd = self.tcb.ssthresh;
            }
            State::Loss if !beside.repairing => self.set_state(State::Open),
            _ => {}
        }
        if !ack.no_growth && (beside.unlimited || ack.may_grow(u64::from(self.tcb.cwnd), self.tcb.below_threshold())) {
            self.ops.increase_window(&mut self.tcb, advanced.max(1));
        }
    }
}

impl<O: CongestionOps> Controller for Flow<O> {
    fn on_ack(&mut self, ack: &Ack) {
        self.on_ack_beside(ack, &Beside::default());
    }

    /// `EnterRecovery`, `EnterCwr`, `ReTxTimeout`. The first two read `BytesInFlight` when the scoreboard has been updated: without
    /// what was lost and the segment whose SACK told of it; the third what was out before it.
    fn on_congestion(&mut self, event: &Congestion) {
        self.tcb.now = event.now;
        let timeout = event.cause == Cause::Timeout;
        self.set_state(if timeout { State::Loss } else { State::Recovery });
        let gone = if timeout { 0 } else { event.lost + u64::from(self.tcb.segment) };
        let bytes_in_flight = event.in_flight.saturating_sub(gone) as u32;
        self.tcb.ssthresh = self.ops.get_ss_thresh(&self.tcb, bytes_in_flight);
        self.tcb.cwnd = if timeout { self.tcb.segment } else { self.tcb.ssthresh };
    }

    fn on_mss(&mut self, mss: u32) {
        self.tcb.segment = mss.max(1);
    }

    fn cwnd(&self) -> u64 {
        u64::from(self.tcb.cwnd).max(1)
    }

    fn snapshot(&self) -> Snapshot {
        let (base_delay, queueing_delay) = self.ops.delays();
        let phase = match self.tcb.state {
            State::Recovery => "recovery",
            _ if self.tcb.below_threshold() => "slow_start",
            _ => "avoidance",
        };
        let ssthresh = if self.tcb.ssthresh == UNSET { f64::INFINITY } else { f64::from(self.tcb.ssthresh) };
        Snapshot { base_delay, queueing_delay, ..Snapshot::of(self.cwnd(), ssthresh, phase) }
    }
}

/// What ns-3.37's socket hands to a control that answers for its window alone (`CongControl`), beside the acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketSample {
    /// `m_deliveryRate` in bit/s, which the last valid sample leaves standing; zero before the first.
    pub bps: u64,
    /// `m_priorDelivered`: what had been delivered when the newest segment sampled so far was sent.
    pub prior_delivered: u64,
    /// `m_delivered`: bytes since then; none without timing information.
    pub delivered: Option<u64>,
    /// `m_isAppLimited`.
    pub app_limited: bool,
    /// `m_bytesInFlight`, after this acknowledgement.
    pub in_flight: u64,
    /// `m_bytesLoss`.
    pub lost: u64,
}
