//! What an acknowledgement does to a socket of ns-3: `DoForwardUp`, `ReceivedAck`, `ProcessAck`, `DupAck`, `EnterRecovery`, `EnterCwr` and
//! `NewAck` of `tcp-socket-base.cc`, in their order.

use lowtide_replicas::ns3::socket::{Event, State};
use lowtide_units::Time;

use super::socket::{DATA_RETRIES, EcnState, Socket};
use super::{elapsed, ts_value};
use crate::packet::Packet;

/// `ReTxThreshold`.
const RETX_THRESH: u32 = 3;

impl Socket {
    /// `DoForwardUp`: an acknowledgement arrives. Afterwards [`poll`](Self::poll).
    pub fn on_ack(&mut self, ack: &Packet, now: Time) {
        self.tcb.now = now;
        // `ProcessOptionTimestamp`.
        if self.tcb.timestamp_value <= ts_value(ack.sent) {
            (self.tcb.timestamp_value, self.tcb.timestamp_echo) = (ts_value(ack.sent), ts_value(ack.echo));
            self.timestamp_to_echo = ack.sent;
        }
        self.estimate_rtt(ack);
        self.update_window_size(ack);
        if self.r_wnd == 0 && self.persist_event.is_none() {
            self.retx_event = None;
            self.persist_event = Some(now + self.persist_timeout);
        }
        // `ProcessEstablished`.
        if (self.tx.head()..=self.tx.high_tx()).contains(&ack.seq) && !self.closed {
            self.received_ack(ack);
        }
    }

    /// `EstimateRtt`.
    fn estimate_rtt(&mut self, ack: &Packet) {
        if let Some(sample) = self.rtt.on_ack(ack.seq, elapsed(ack.echo, self.tcb.now)) {
            self.tcb.last_rtt = self.rtt.estimate();
            self.tcb.min_rtt = Some(self.tcb.min_rtt.map_or(self.tcb.last_rtt, |min| min.min(self.tcb.last_rtt)));
            self.min_rtt = Some(self.min_rtt.map_or(sample, |min| min.min(sample)));
            self.latest_rtt = Some(sample);
        }
    }

    /// `UpdateWindowSize`.
    fn update_window_size(&mut self, ack: &Packet) {
        let window = u64::from(ack.window);
        if ack.seq > self.high_rx_ack || (ack.seq == self.high_rx_ack && window > self.r_wnd) {
            (self.high_rx_ack, self.r_wnd) = (ack.seq, window);
            self.persist_event = self.persist_event.filter(|_| window == 0);
        }
    }

    fn received_ack(&mut self, ack: &Packet) {
        let previous_lost = self.tx.lost_out();
        let prior_in_flight = self.tcb.bytes_in_flight;
        let previous_delivered = self.rate.delivered();
        let (now, number) = (self.tcb.now, ack.seq);
        let Socket { tx, rate, .. } = self;
        let bytes_sacked = tx.update(sack_blocks(ack), |item| rate.skb_delivered(&mut item.rate, item.last_sent, item.len, now));
        let old_head = tx.head();
        if number > old_head && number < self.recover && self.tcb.state == State::Recovery {
            self.tcb.retransmission_acked |= (old_head..number).any(|seq| tx.is_retransmitted(seq));
        }
        let bytes_acked = tx.discard_up_to(number, |item| rate.skb_delivered(&mut item.rate, item.last_sent, item.len, now));
        let delivered = (rate.delivered() - previous_delivered) as u32;
        self.tcb.last_acked_sacked = delivered;
        self.stats.acks += u64::from(delivered > 0);
        if self.tcb.state == State::Cwr && number > self.recover {
            self.tcb.state = State::Open;
            if !self.ops.has_cong_control() {
                self.tcb.cwnd = self.tcb.ssthresh;
                self.ops.cwnd_event(&mut self.tcb, Event::CompleteCwr);
            }
        }
        self.take_echo(ack, number > old_head, delivered);
        self.bytes_in_flight();
        self.process_ack(number, old_head, bytes_acked, bytes_sacked > 0, delivered);
        self.tcb.retransmission_acked = false;
        if self.ops.has_cong_control() {
            let lost = self.tx.lost_out().abs_diff(previous_lost);
            let sample = self.rate.generate_sample(delivered, lost, prior_in_flight, self.tcb.min_rtt);
            self.ops.cong_control(&mut self.tcb, &sample);
        }
        self.send_pending_data();
    }

    /// `ReceivedAck`'s part of ECN.
    fn take_echo(&mut self, ack: &Packet, advanced: bool, delivered: u32) {
        if advanced && self.ecn != EcnState::Disabled && ack.ece {
            if self.ecn_echo_seq < ack.seq {
                self.ecn_echo_seq = ack.seq;
                self.ecn = EcnState::EceReceived;
                if self.tcb.state != State::Cwr {
                    self.enter_cwr(delivered);
                }
            }
        } else if self.ecn == EcnState::EceReceived && !ack.ece {
            self.ecn = EcnState::Idle;
        }
        self.tcb.ece_received = self.ecn == EcnState::EceReceived;
    }

    /// `EnterCwr`. `ProcessAck` counts the same acknowledgement again, over a flight that it is no longer part of.
    fn enter_cwr(&mut self, delivered: u32) {
        let in_flight = self.bytes_in_flight();
        self.tcb.ssthresh = self.ops.get_ss_thresh(&self.tcb, in_flight);
        self.tcb.state = State::Cwr;
        self.recover = self.tx.high_tx();
        self.stats.episodes += 1;
        if !self.ops.has_cong_control() {
            self.recovery.enter_recovery(&mut self.tcb, self.tx.sent_size() as u32, delivered);
        }
    }

    fn enter_recovery(&mut self, delivered: u32) {
        if !self.tx.is_lost(self.tx.head()) {
            self.tx.mark_head_as_lost();
        }
        (self.recover, self.recover_active) = (self.tx.high_tx(), true);
        self.ops.congestion_state_set(&mut self.tcb, State::Recovery);
        self.tcb.state = State::Recovery;
        let in_flight = self.bytes_in_flight();
        self.tcb.ssthresh = self.ops.get_ss_thresh(&self.tcb, in_flight);
        self.stats.episodes += 1;
        if !self.ops.has_cong_control() {
            self.recovery.enter_recovery(&mut self.tcb, self.tx.sent_size() as u32, delivered);
        }
        self.do_retransmit();
    }

    fn dup_ack(&mut self, delivered: u32) {
        if self.tcb.state == State::Loss {
            return;
        }
        if self.tcb.state != State::Recovery {
            self.dup_ack_count += 1;
        }
        if self.tcb.state == State::Open {
            self.ops.congestion_state_set(&mut self.tcb, State::Disorder);
            self.tcb.state = State::Disorder;
        }
        if self.tcb.state == State::Recovery {
            if !self.ops.has_cong_control() {
                self.recovery.do_recovery(&mut self.tcb, delivered);
            }
        } else if self.tcb.state == State::Disorder {
            let beyond = self.high_rx_ack >= self.recover || !self.recover_active;
            if (self.dup_ack_count == RETX_THRESH && beyond) || self.tx.is_lost(self.high_rx_ack + 1) {
                self.enter_recovery(delivered);
            }
        }
    }

    fn process_ack(&mut self, number: u32, old_head: u32, bytes_acked: u32, is_dupack: bool, delivered: u32) {
        let old_dup_ack_count = self.dup_ack_count;
        self.tcb.acked = self.offset(number);
        if is_dupack {
            self.dup_ack(delivered);
        }
        if number == old_head {
            if number == self.tx.high_tx() {
                return;
            }
            self.pkts_acked(1);
        } else {
            let mut segments = bytes_acked / self.tcb.segment;
            self.acked_not_processed += bytes_acked % self.tcb.segment;
            if self.acked_not_processed >= self.tcb.segment {
                segments += 1;
                self.acked_not_processed -= self.tcb.segment;
            }
            if !is_dupack {
                self.dup_ack_count = 0;
            }
            self.advance(number, segments, old_head, is_dupack, old_dup_ack_count, delivered);
        }
        self.update_pacing_rate();
    }

    /// `ProcessAck` where the left edge has moved.
    fn advance(&mut self, number: u32, segments: u32, old_head: u32, is_dupack: bool, old_dup_ack_count: u32, delivered: u32) {
        match self.tcb.state {
            State::Recovery if number < self.recover => self.partial_ack(segments, delivered),
            State::Loss if number < self.recover => {
                self.pkts_acked(segments);
                self.ops.increase_window(&mut self.tcb, segments);
                self.new_ack(true);
            }
            State::Cwr => {
                self.pkts_acked(segments);
                if !self.ops.has_cong_control() && segments >= 1 {
                    self.recovery.do_recovery(&mut self.tcb, delivered);
                }
                self.new_ack(true);
            }
            _ => {
                let (segments, left_recovery) = self.back_to_open(number, segments, old_head, is_dupack, old_dup_ack_count);
                if number >= self.recover {
                    self.recover_active = false;
                }
                if left_recovery {
                    self.new_ack(true);
                    self.tcb.cwnd = self.tcb.ssthresh;
                }
                if self.tcb.state == State::Open {
                    self.ops.increase_window(&mut self.tcb, segments);
                    self.new_ack(true);
                }
            }
        }
    }

    /// `ProcessAck` of a partial acknowledgement in CA_RECOVERY.
    fn partial_ack(&mut self, segments: u32, delivered: u32) {
        if !self.ops.has_cong_control() && segments >= 1 {
            self.recovery.do_recovery(&mut self.tcb, delivered);
        }
        if !self.tx.is_retransmitted(self.tx.head()) {
            self.do_retransmit();
        }
        self.pkts_acked(1);
        self.new_ack(self.first_partial_ack);
        self.first_partial_ack = false;
    }

    /// `ProcessAck`'s way from each state to CA_OPEN. The segments that may make the window grow, and whether a recovery has ended.
    fn back_to_open(&mut self, number: u32, segments: u32, old_head: u32, is_dupack: bool, old_dup_ack_count: u32) -> (u32, bool) {
        match self.tcb.state {
            State::Open => self.pkts_acked(segments),
            State::Disorder => {
                if segments >= old_dup_ack_count {
                    self.pkts_acked(segments - old_dup_ack_count);
                }
                if !is_dupack {
                    self.open();
                }
            }
            State::Recovery => {
                self.first_partial_ack = true;
                let segments = number - old_head;
                self.pkts_acked(segments);
                self.ops.cwnd_event(&mut self.tcb, Event::CompleteCwr);
                self.open();
                self.dup_ack_count = 0;
                return (segments, true);
            }
            State::Loss => {
                self.first_partial_ack = true;
                let segments = number - self.recover;
                self.pkts_acked(segments);
                self.open();
                return (segments, false);
            }
            State::Cwr => {}
        }
        (segments, false)
    }

    fn open(&mut self) {
        self.ops.congestion_state_set(&mut self.tcb, State::Open);
        self.tcb.state = State::Open;
    }

    /// Calls `PktsAcked` with the smoothed RTT (`m_lastRtt`).
    fn pkts_acked(&mut self, segments: u32) {
        let rtt = self.tcb.last_rtt;
        self.ops.pkts_acked(&mut self.tcb, segments, rtt);
    }

    fn new_ack(&mut self, reset_rto: bool) {
        self.data_retries = DATA_RETRIES;
        if reset_rto {
            self.rtt.set_rto();
            self.retx_event = Some(self.tcb.now + self.rtt.rto());
        }
        if self.tx.is_bulk() {
            // `NotifySend`: the application fills the buffer, and `Send` asks for the window.
            self.bytes_in_flight();
        }
        self.tcb.next = self.tcb.next.max(self.offset(self.tx.head()));
        if self.tx.is_empty() {
            self.retx_event = None;
        }
    }
}

/// The blocks that an acknowledgement carries.
fn sack_blocks(ack: &Packet) -> &[(u32, u32)] {
    let n = ack.sack.iter().take_while(|block| block.0 < block.1).count();
    &ack.sack[..n]
}
