//! The sending end of `TcpSocketBase` (`tcp-socket-base.cc`): its state, its application's side and its timers. What arrives is in `ack.rs`,
//! what leaves in `send.rs`.

use std::collections::VecDeque;

use lowtide_cc::{Snapshot, Start};
use lowtide_net::queue::restart_if_empty;
use lowtide_replicas::ns3::socket::{CongestionOps, SocketState, State};
use lowtide_units::{Rate as BitRate, Span, Time};

use super::rate::Rate;
use super::recovery::RecoveryOps;
use super::rtt::Rtt;
use super::tx_buffer::TxBuffer;
use crate::packet::Packet;
use crate::sender_stats::{Note, SenderStats};

/// `DataRetries`: so many timeouts in a row end the connection.
pub(super) const DATA_RETRIES: u32 = 6;

/// How a sender behaves besides its congestion control: attributes of `TcpSocket`, `TcpSocketBase` and `TcpL4Protocol`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SocketConfig {
    /// `SegmentSize`.
    pub segment: u32,
    /// `RecoveryType`.
    pub recovery: RecoveryOps,
    /// `MinRto`.
    pub min_rto: Span,
    /// `SndBufSize`; as large as the peer's buffer.
    pub snd_buf: u64,
    /// `EnablePacing`, for controls that name no rate.
    pub pacing: bool,
    /// `UseEcn`.
    pub ecn: bool,
}

/// `EcnState_t`, as far as a sender goes through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EcnState {
    Disabled,
    Idle,
    EceReceived,
    CwrSent,
}

/// The sending end of one connection.
#[derive(Debug)]
pub struct Socket {
    pub(super) flow: u32,
    pub(super) tcb: SocketState,
    pub(super) ops: Box<dyn CongestionOps>,
    /// `m_recoveryOps`.
    pub(super) recovery: RecoveryOps,
    pub(super) tx: TxBuffer,
    pub(super) rtt: Rtt,
    /// `m_rateOps`.
    pub(super) rate: Rate,
    /// `m_rWnd`, `m_highRxAckMark`.
    pub(super) r_wnd: u64,
    pub(super) high_rx_ack: u32,
    /// `m_dupAckCount`.
    pub(super) dup_ack_count: u32,
    /// `m_recover`, `m_recoverActive`, `m_isFirstPartialAck`.
    pub(super) recover: u32,
    pub(super) recover_active: bool,
    pub(super) first_partial_ack: bool,
    /// `m_bytesAckedNotProcessed`.
    pub(super) acked_not_processed: u32,
    pub(super) ecn: EcnState,
    /// `m_ecnEchoSeq`, `m_ecnCWRSeq`.
    pub(super) ecn_echo_seq: u32,
    pub(super) ecn_cwr_seq: u32,
    /// `m_timestampToEcho`.
    pub(super) timestamp_to_echo: Time,
    /// `m_retxEvent`, `m_pacingTimer`, `m_persistEvent` and its `m_persistTimeout`.
    pub(super) retx_event: Option<Time>,
    pub(super) pacing_timer: Option<Time>,
    pub(super) persist_event: Option<Time>,
    pub(super) persist_timeout: Span,
    /// `m_dataRetrCount`.
    pub(super) data_retries: u32,
    /// `m_sendPendingDataEvent` runs: the application has written.
    pub(super) send_pending: bool,
    /// `m_closeOnEmpty`; the state is `FIN_WAIT_1`; or `CLOSED`, for want of answers.
    pub(super) close_on_empty: bool,
    pub(super) fin_wait: bool,
    pub(super) closed: bool,
    /// What has left and was not fetched yet.
    pub(super) out: VecDeque<Packet>,
    pub(super) stats: SenderStats,
    pub(super) latest_rtt: Option<Span>,
    pub(super) min_rtt: Option<Span>,
}

impl Socket {
    /// A socket whose handshake has just ended and took what `start` says (`ProcessSynSent`); the peer permits `window` bytes.
    pub fn new(flow: u32, config: SocketConfig, mut ops: Box<dyn CongestionOps>, start: &Start, window: u64) -> Socket {
        let mut rtt = Rtt::new(config.min_rto);
        if let Some(handshake) = start.handshake_rtt {
            rtt.measure(handshake);
            rtt.set_rto();
        }
        let mut tcb = SocketState { pacing: config.pacing, ..SocketState::new(start) };
        ops.congestion_state_set(&mut tcb, State::Open);
        let mut socket = Socket {
            flow,
            tcb,
            ops,
            recovery: config.recovery,
            tx: TxBuffer::new(config.segment, config.snd_buf),
            rtt,
            rate: Rate::default(),
            r_wnd: window,
            high_rx_ack: 0,
            dup_ack_count: 0,
            recover: 0,
            recover_active: false,
            first_partial_ack: true,
            acked_not_processed: 0,
            ecn: if config.ecn { EcnState::Idle } else { EcnState::Disabled },
            ecn_echo_seq: 0,
            ecn_cwr_seq: 0,
            timestamp_to_echo: start.now,
            retx_event: None,
            pacing_timer: None,
            persist_event: None,
            persist_timeout: Span::from_secs(6),
            data_retries: DATA_RETRIES,
            send_pending: false,
            close_on_empty: false,
            fin_wait: false,
            closed: false,
            out: VecDeque::new(),
            stats: SenderStats::default(),
            latest_rtt: start.handshake_rtt,
            min_rtt: start.handshake_rtt,
        };
        socket.update_pacing_rate();
        socket
    }

    /// `Send`: the application writes `bytes` more; `u64::MAX` for a bulk transfer without end.
    pub fn write(&mut self, bytes: u64) {
        self.tx.add(bytes);
        let (tcb, tx) = (&self.tcb, &self.tx);
        let lost_are_sent = tx.lost_out() <= tx.retransmits();
        self.rate.calculate_app_limited(tcb.cwnd, tcb.bytes_in_flight, tcb.segment, tx.unsent(), lost_are_sent);
        self.send_pending = true;
    }

    /// Bytes written and not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.tx.unacknowledged()
    }

    /// `Close`: the last segment carries the FIN.
    pub fn close(&mut self) {
        self.close_on_empty = true;
    }

    /// The application takes back what has not been sent.
    pub fn stop(&mut self) {
        self.tx.take_back();
    }

    /// Everything written has been acknowledged.
    pub fn is_done(&self) -> bool {
        self.tx.is_empty()
    }

    /// Counters.
    pub fn stats(&self) -> SenderStats {
        SenderStats { losses: self.tx.losses(), ..self.stats }
    }

    /// The congestion control's state.
    pub fn snapshot(&self) -> Snapshot {
        let (base_delay, queueing_delay) = self.ops.delays();
        let phase = match self.tcb.state {
            State::Recovery | State::Cwr => "recovery",
            _ if self.tcb.below_threshold() => "slow_start",
            _ => "avoidance",
        };
        let ssthresh = if self.tcb.ssthresh == u32::MAX { f64::INFINITY } else { f64::from(self.tcb.ssthresh) };
        let of = Snapshot::of(u64::from(self.tcb.cwnd), ssthresh, self.ops.phase().unwrap_or(phase));
        Snapshot { base_delay, queueing_delay, ..of }
    }

    /// Bytes in flight.
    pub fn in_flight(&self) -> u64 {
        u64::from(self.tx.bytes_in_flight())
    }

    /// The smoothed RTT.
    pub fn srtt(&self) -> Span {
        self.rtt.estimate()
    }

    /// The smallest RTT sample.
    pub fn min_rtt(&self) -> Option<Span> {
        self.min_rtt
    }

    /// The rate at which segments leave, if they are paced.
    pub fn pacing_rate(&self) -> Option<BitRate> {
        self.is_pacing_enabled().then(|| BitRate::from_bps(self.tcb.pacing_bps as u64))
    }

    /// What became of its transmissions since the last call; the first call begins it.
    pub fn take_notes(&mut self) -> Vec<Note> {
        self.tx.take_notes()
    }

    /// The RTT sample that the last acknowledgement gave.
    pub fn take_rtt(&mut self) -> Option<Span> {
        self.latest_rtt.take()
    }

    /// ns-3 orders what falls on one nanosecond by when it was scheduled: a pacing timer before the end of an acknowledgement's last
    /// hop, if that is the shorter. Paced segments come back as acknowledgements at multiples of the pacing interval.
    pub fn timer_goes_first(&self) -> bool {
        self.tcb.pacing
    }

    /// Writes the next packet to leave now to `room`, until there is none.
    pub fn poll(&mut self, now: Time, room: &mut Packet) -> bool {
        if std::mem::take(&mut self.send_pending) {
            self.tcb.now = now;
            if self.available_window() > 0 {
                self.send_pending_data();
            }
        }
        let next = self.out.pop_front();
        restart_if_empty(&mut self.out);
        next.inspect(|packet| *room = *packet).is_some()
    }

    /// When [`on_timer`](Self::on_timer) is due.
    pub fn deadline(&self) -> Option<Time> {
        [self.retx_event, self.pacing_timer, self.persist_event].into_iter().flatten().min()
    }

    /// A timer may be due. Afterwards [`poll`](Self::poll).
    pub fn on_timer(&mut self, now: Time) {
        self.tcb.now = now;
        // `NotifyPacingPerformed`.
        if self.pacing_timer.take_if(|at| *at <= now).is_some() {
            self.send_pending_data();
        }
        if self.retx_event.take_if(|at| *at <= now).is_some() {
            self.retx_timeout();
        }
        if self.persist_event.take_if(|at| *at <= now).is_some() {
            self.persist_timeout();
        }
    }
}
