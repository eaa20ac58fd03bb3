//! What ns-3.37's socket shares with its congestion control: the state that both write (`tcp-socket-state.h`), the control's interface
//! (`tcp-congestion-ops.h`) and the rate sample (`tcp-rate-ops.h`). The socket itself is `lowtide-sim`'s. Windows are bytes, 32 bits
//! of them, cut to whole bytes wherever ns-3 cuts them.

use std::fmt;

use lowtide_cc::{ParamError, Params, Start};
use lowtide_units::{Span, Time};

use crate::no_params;

/// `TcpSocketState::TcpCongState_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// `CA_OPEN`.
    Open,
    /// `CA_DISORDER`: duplicates have come, not enough for a recovery.
    Disorder,
    /// `CA_CWR`: the window is reduced after an ECN echo.
    Cwr,
    /// `CA_RECOVERY`.
    Recovery,
    /// `CA_LOSS`: after a timeout.
    Loss,
}

/// `TcpSocketState::TcpCAEvent_t`, as far as a control listens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// `CA_EVENT_TX_START`: a segment leaves while nothing is in flight.
    TxStart,
    /// `CA_EVENT_COMPLETE_CWR`: a recovery or the reduction after an echo has ended.
    CompleteCwr,
    /// `CA_EVENT_LOSS`: the retransmission timer has expired.
    Loss,
}

/// `TcpSocketState`.
#[derive(Clone, Copy, Debug)]
pub struct SocketState {
    /// `m_cWnd`.
    pub cwnd: u32,
    /// `m_ssThresh`.
    pub ssthresh: u32,
    /// `m_initialCWnd`, in segments.
    pub initial_cwnd: u32,
    /// `m_segmentSize`.
    pub segment: u32,
    /// `m_congState`.
    pub state: State,
    /// `Simulator::Now`.
    pub now: Time,
    /// `m_lastRtt`: the smoothed RTT.
    pub last_rtt: Span,
    /// `m_minRtt`, of smoothed RTTs; the handshake's is one.
    pub min_rtt: Option<Span>,
    /// `m_lastAckedSeq`.
    pub acked: u64,
    /// `m_nextTxSequence`.
    pub next: u64,
    /// `m_highTxMark`.
    pub high_tx: u64,
    /// `m_bytesInFlight`, as last counted.
    pub bytes_in_flight: u32,
    /// `m_lastAckedSackedBytes`: what the last acknowledgement delivered.
    pub last_acked_sacked: u32,
    /// `m_isRetransDataAcked`: that was a retransmission.
    pub retransmission_acked: bool,
    /// `m_ecnState` is `ECN_ECE_RCVD`.
    pub ece_received: bool,
    /// `m_rcvTimestampValue` and `m_rcvTimestampEchoReply`, in ms; zero: none.
    pub timestamp_value: i64,
    /// See there.
    pub timestamp_echo: i64,
    /// `m_pacing`.
    pub pacing: bool,
    /// `m_pacingRate`, in bit/s.
    pub pacing_bps: f64,
}

/// The threshold that the socket starts with (`InitialSlowStartThreshold`).
pub const INITIAL_SSTHRESH: u32 = u32::MAX;
/// `InitialCwnd`, in segments.
const INITIAL_CWND: u32 = 10;

impl SocketState {
    /// A socket whose handshake is done.
    pub fn new(start: &Start) -> SocketState {
        let cwnd = start.window_or(INITIAL_CWND) as u32;
        SocketState {
            cwnd,
            ssthresh: INITIAL_SSTHRESH,
            initial_cwnd: cwnd / start.mss,
            segment: start.mss,
            state: State::Open,
            now: start.now,
            last_rtt: start.handshake_rtt.unwrap_or(Span::ZERO),
            min_rtt: start.handshake_rtt,
            acked: 0,
            next: 0,
            high_tx: 0,
            bytes_in_flight: 0,
            last_acked_sacked: 0,
            retransmission_acked: false,
            ece_received: false,
            timestamp_value: 0,
            timestamp_echo: 0,
            pacing: false,
            pacing_bps: 0.0,
        }
    }

    /// `GetCwndInSegments`.
    pub fn segments(&self) -> u32 {
        self.cwnd / self.segment
    }

    /// Whether the window is below the threshold.
    pub fn below_threshold(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// The one-way delay in ms, both ends having one clock.
    pub fn one_way_ms(&self) -> i64 {
        self.timestamp_value - self.timestamp_echo
    }

    /// Two segments.
    pub fn least(&self) -> u32 {
        2 * self.segment
    }
}

/// `TcpRateSample` and, of `TcpRateConnection`, `m_delivered`: what a control that answers for its window alone is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateSample {
    /// `TcpRateConnection::m_delivered`: bytes delivered so far.
    pub total_delivered: u64,
    /// `m_deliveryRate` in bit/s, which the last valid sample leaves standing; zero before the first.
    pub bps: u64,
    /// `m_priorDelivered`: what had been delivered when the newest segment sampled so far was sent.
    pub prior_delivered: u64,
    /// `m_delivered`: bytes since then; none without timing information (−1 in ns-3).
    pub delivered: Option<u64>,
    /// `m_isAppLimited`.
    pub app_limited: bool,
    /// `m_ackedSacked`: bytes that this acknowledgement delivered.
    pub acked_sacked: u32,
    /// `m_priorInFlight`: bytes in flight before it.
    pub prior_in_flight: u32,
    /// `m_bytesLoss`.
    pub lost: u32,
}

/// `TcpCongestionOps`.
pub trait CongestionOps: fmt::Debug + Send {
    /// `PktsAcked`: each acknowledgement; `rtt` is the smoothed one, zero before the first.
    fn pkts_acked(&mut self, _tcb: &mut SocketState, _segments: u32, _rtt: Span) {}
    /// `IncreaseWindow`: each acknowledgement of new data outside a recovery.
    fn increase_window(&mut self, tcb: &mut SocketState, segments: u32);
    /// `GetSsThresh`.
    fn get_ss_thresh(&mut self, tcb: &SocketState, bytes_in_flight: u32) -> u32;
    /// `CongestionStateSet`, before the state is set.
    fn congestion_state_set(&mut self, _tcb: &mut SocketState, _state: State) {}
    /// `CwndEvent`.
    fn cwnd_event(&mut self, _tcb: &mut SocketState, _event: Event) {}
    /// `HasCongControl`: it sets the window itself, also in recovery ([`cong_control`](Self::cong_control)).
    fn has_cong_control(&self) -> bool {
        false
    }
    /// `CongControl`: each acknowledgement.
    fn cong_control(&mut self, _tcb: &mut SocketState, _sample: &RateSample) {}
    /// `Init` asks for DCTCP's way with marks (`m_ecnMode` is `DctcpEcn`).
    fn has_dctcp_ecn(&self) -> bool {
        false
    }
    /// What it measures: base delay and queueing delay.
    fn delays(&self) -> (Option<Span>, Option<Span>) {
        (None, None)
    }
    /// The name of the phase it is in, where it has phases of its own.
    fn phase(&self) -> Option<&'static str> {
        None
    }
}

/// Takes `ops` for the control called `name`.
///
/// # Errors
/// Any parameter.
pub fn build<O: CongestionOps + 'static>(name: &str, ops: O, params: &Params) -> Result<Box<dyn CongestionOps>, ParamError> {
    no_params::check(params, name)?;
    Ok(Box::new(ops))
}
