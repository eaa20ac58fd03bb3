//! BBRv2's minimum RTT and the mode that refreshes it. Knows nothing of PROBE_BW but how to go back to it (`tcp_bbr2.c`,
//! `bbr_update_min_rtt`).

use lowtide_units::Time;

use super::{Bbr2, PROBE_RTT_DUE};
use crate::best_effort::bbr::MIN_RTT_WINDOW;
use crate::best_effort::bbr::mode::{HeldBack, Mode, ProbeRtt};
use crate::events::Ack;

impl Bbr2 {
    pub(super) fn learn_min_rtt(&mut self, ack: &Ack, left_in_flight: u64) {
        let due = ack.now > self.recent_rtt_at + PROBE_RTT_DUE;
        let delayed = ack.rate.is_some_and(|s| s.ack_delayed);
        if let Some(rtt) = ack.rtt
            && (self.recent_rtt.is_none_or(|min| rtt < min || (rtt == min && !self.rules.strict_minimum)) || (due && !delayed))
        {
            (self.recent_rtt, self.recent_rtt_at) = (Some(rtt), ack.now);
        }
        let lower = self.recent_rtt.is_some_and(|recent| self.min_rtt.is_none_or(|min| recent <= min));
        if lower || ack.now > self.min_rtt_at + MIN_RTT_WINDOW {
            (self.min_rtt, self.min_rtt_at) = (self.recent_rtt, self.recent_rtt_at);
        }
        if due && !self.idle_restart && !self.mode.is_probe_rtt() {
            self.save_cwnd();
            self.mode = Mode::ProbeRtt(ProbeRtt::default());
            self.cycle.stop_probing();
            self.round.restart(ack.delivered);
            self.held_back = HeldBack::since(ack.delivered);
        }
        if let Mode::ProbeRtt(mut probe) = self.mode {
            self.held_back.until(ack.delivered + left_in_flight);
            let drained = left_in_flight <= self.probe_rtt_cwnd();
            let over = probe.goes_on(ack, drained, self.round_start, &mut self.round);
            self.mode = Mode::ProbeRtt(probe);
            if over {
                self.end_probe_rtt(ack.now);
            }
        }
        self.idle_restart &= ack.acked == 0;
    }

    /// Back to cruising: what is in flight lies below the bandwidth-delay product (`bbr2_exit_probe_rtt`).
    pub(super) fn end_probe_rtt(&mut self, now: Time) {
        self.recent_rtt_at = now;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.bounds.lift_low();
        if self.full_pipe.reached() {
            self.mode = Mode::ProbeBw;
            self.start_down(now);
            self.start_cruise();
        } else {
            self.mode = Mode::Startup;
        }
    }
}
