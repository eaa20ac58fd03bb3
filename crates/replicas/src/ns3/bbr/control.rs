//! What ns-3.37's `TcpBbr` does with each acknowledgement: `UpdateModelAndState` and `UpdateControlParameters`.

use super::{Bbr, CYCLE, FLAT_ROUNDS, GROWTH, HIGH_GAIN, MIN_PIPE, Mode, PROBE_RTT, RTT_WINDOW, draw};
use crate::ns3::socket::{RateSample, SocketState, State};
use lowtide_units::Time;

impl Bbr {
    /// `InFlight`: three segments of bursts beside the product, two more while probing.
    pub(super) fn in_flight_at(&self, tcb: &SocketState, gain: f64) -> u32 {
        let Some(rtt) = self.rt_prop else { return tcb.initial_cwnd * tcb.segment };
        let probing = self.mode == Mode::ProbeBw && self.cycle == 0;
        let room = if probing { 5 } else { 3 } * tcb.segment;
        (gain * self.rate.max() as f64 * rtt.secs_f64() / 8.0 + f64::from(room)) as u32
    }

    /// `UpdateModelAndState`.
    pub(super) fn update_model_and_state(&mut self, tcb: &mut SocketState, sample: &RateSample) {
        self.update_btl_bw(sample);
        if sample.acked_sacked > 0 && sample.delivered.is_some() {
            self.extra.update(tcb.now, sample.acked_sacked, self.round_start, self.rate.max(), tcb.cwnd);
        }
        if self.mode == Mode::ProbeBw && self.is_next_cycle_phase(tcb, sample) {
            self.advance_cycle_phase(tcb.now);
        }
        self.check_full_pipe(sample);
        self.check_drain(tcb);
        self.update_rt_prop(tcb);
        self.check_probe_rtt(tcb, sample);
    }

    /// `UpdateBtlBw` and `UpdateRound`.
    fn update_btl_bw(&mut self, sample: &RateSample) {
        if sample.bps == 0 {
            return;
        }
        self.round_start = sample.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.next_round_delivered = self.delivered;
            self.rounds += 1;
            self.conserve = false;
        }
        if sample.bps >= self.rate.max() || !sample.app_limited {
            self.rate.update(self.rounds, sample.bps);
        }
    }

    /// `IsNextCyclePhase`.
    fn is_next_cycle_phase(&self, tcb: &SocketState, sample: &RateSample) -> bool {
        let full_length = self.rt_prop.is_some_and(|rtt| tcb.now.since(self.cycle_start) > rtt);
        if self.pacing_gain > 1.0 {
            full_length && (sample.lost > 0 || sample.prior_in_flight >= self.in_flight_at(tcb, self.pacing_gain))
        } else {
            full_length || (self.pacing_gain < 1.0 && sample.prior_in_flight <= self.in_flight_at(tcb, 1.0))
        }
    }

    fn advance_cycle_phase(&mut self, now: Time) {
        self.cycle = (self.cycle + 1) % CYCLE.len();
        (self.cycle_start, self.pacing_gain) = (now, CYCLE[self.cycle]);
    }

    fn check_full_pipe(&mut self, sample: &RateSample) {
        if self.full || !self.round_start || sample.app_limited {
            return;
        }
        if self.rate.max() as f64 >= self.plateau as f64 * GROWTH {
            (self.plateau, self.flat_rounds) = (self.rate.max(), 0);
            return;
        }
        self.flat_rounds += 1;
        self.full = self.flat_rounds >= FLAT_ROUNDS;
    }

    fn check_drain(&mut self, tcb: &mut SocketState) {
        if self.mode == Mode::Startup && self.full {
            self.enter(Mode::Drain, 1.0 / HIGH_GAIN, HIGH_GAIN);
            tcb.ssthresh = self.in_flight_at(tcb, 1.0);
        }
        if self.mode == Mode::Drain && tcb.bytes_in_flight <= self.in_flight_at(tcb, 1.0) {
            self.enter_probe_bw(tcb.now);
        }
    }

    /// `EnterProbeBW`: any phase but the draining one.
    pub(super) fn enter_probe_bw(&mut self, now: Time) {
        self.enter(Mode::ProbeBw, 1.0, 2.0);
        self.cycle = CYCLE.len() - 1 - draw(&mut self.random, 6) as usize;
        self.advance_cycle_phase(now);
    }

    /// `UpdateRTprop`.
    fn update_rt_prop(&mut self, tcb: &SocketState) {
        self.rt_prop_expired = tcb.now > self.rt_prop_at + RTT_WINDOW;
        if self.rt_prop_expired || self.rt_prop.is_none_or(|least| tcb.last_rtt <= least) {
            (self.rt_prop, self.rt_prop_at) = (Some(tcb.last_rtt), tcb.now);
        }
    }

    /// `CheckProbeRTT`.
    fn check_probe_rtt(&mut self, tcb: &mut SocketState, sample: &RateSample) {
        if self.mode != Mode::ProbeRtt && self.rt_prop_expired && !self.idle_restart {
            self.enter(Mode::ProbeRtt, 1.0, 1.0);
            self.save_cwnd(tcb);
            self.probe_done = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.handle_probe_rtt(tcb);
        }
        // `if (rs.m_delivered)`: also −1, that of an invalid sample.
        self.idle_restart &= sample.delivered == Some(0);
    }

    fn handle_probe_rtt(&mut self, tcb: &mut SocketState) {
        self.app_limited = true;
        if self.probe_done.is_some() {
            self.probe_round_done |= self.round_start;
            self.leave_probe_rtt(tcb);
        } else if tcb.bytes_in_flight <= MIN_PIPE * tcb.segment {
            (self.probe_done, self.probe_round_done) = (Some(tcb.now + PROBE_RTT), false);
            self.next_round_delivered = self.delivered;
        }
    }

    /// `HandleProbeRTT`'s end, which `CwndEvent` repeats.
    pub(super) fn leave_probe_rtt(&mut self, tcb: &mut SocketState) {
        if !self.probe_round_done || tcb.now <= self.probe_done.unwrap_or(Time::ZERO) {
            return;
        }
        self.rt_prop_at = tcb.now;
        self.restore_cwnd(tcb);
        if self.full {
            self.enter_probe_bw(tcb.now);
        } else {
            self.enter(Mode::Startup, HIGH_GAIN, HIGH_GAIN);
        }
    }

    /// `SetPacingRate`.
    pub(super) fn set_pacing_rate(&mut self, tcb: &mut SocketState, gain: f64) {
        let bps = gain * self.rate.max() as f64;
        if !self.has_seen_rtt && tcb.min_rtt.is_some() {
            self.init_pacing_rate(tcb);
        }
        if self.full || bps > tcb.pacing_bps {
            tcb.pacing_bps = bps;
        }
    }

    /// `SetCwnd`; the sum wraps as in ns-3.
    pub(super) fn set_cwnd(&mut self, tcb: &mut SocketState, sample: &RateSample) {
        let min_pipe = MIN_PIPE * tcb.segment;
        let conserved = tcb.state == State::Recovery && sample.acked_sacked > 0 && self.modulate_cwnd_for_recovery(tcb, sample);
        if sample.acked_sacked > 0 && !conserved {
            let extra = if self.full { self.extra.allowance(self.rate.max()) } else { 0 };
            let target = self.in_flight_at(tcb, self.cwnd_gain).wrapping_add(extra as u32);
            if self.full {
                tcb.cwnd = tcb.cwnd.wrapping_add(sample.acked_sacked).min(target);
            } else if tcb.cwnd < target || self.delivered < u64::from(tcb.initial_cwnd * tcb.segment) {
                tcb.cwnd = tcb.cwnd.wrapping_add(sample.acked_sacked);
            }
            tcb.cwnd = tcb.cwnd.max(min_pipe);
        }
        if self.mode == Mode::ProbeRtt {
            tcb.cwnd = tcb.cwnd.min(min_pipe);
        }
    }

    /// `ModulateCwndForRecovery`.
    fn modulate_cwnd_for_recovery(&self, tcb: &mut SocketState, sample: &RateSample) -> bool {
        if sample.lost > 0 {
            // In signed numbers: a window above 2³¹ is one segment.
            tcb.cwnd = (tcb.cwnd as i32).wrapping_sub(sample.lost as i32).max(tcb.segment as i32) as u32;
        }
        if self.conserve {
            tcb.cwnd = tcb.cwnd.max(tcb.bytes_in_flight.wrapping_add(sample.acked_sacked));
        }
        self.conserve
    }
}
