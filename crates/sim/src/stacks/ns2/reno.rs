//! `RenoTcpAgent` of ns-2.35 (`tcp-reno.cc`, and what it inherits from `tcp.cc`), with the defaults of `ns-default.tcl`: `bugFix_`,
//! `bugfix_ss_`, `singledup_` and `exitFastRetrans_` on. The window grows on every acknowledgement of new data, whether or not it is the limit
//! (`control_increase_` is off).

use lowtide_cc::Cause;
use lowtide_units::Time;

use super::tcp_agent::TcpAgent;
use crate::packet::Packet;

/// `numdupacks_`.
const NUMDUPACKS: u32 = 3;

/// `last_cwnd_action_`, as far as it is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CwndAction {
    #[default]
    None,
    Dupack,
    Exited,
    Timeout,
}

/// What a Reno agent keeps beside `TcpAgent`.
#[derive(Debug, Default)]
pub(super) struct Reno {
    dupacks: u32,
    /// `dupwnd_`.
    dupwnd: u32,
    last_cwnd_action: CwndAction,
}

impl Reno {
    pub(super) fn recv(&mut self, agent: &mut TcpAgent, ack: &Packet, now: Time) {
        if ack.seq > agent.una {
            if self.last_cwnd_action == CwndAction::Dupack {
                self.last_cwnd_action = CwndAction::Exited;
            }
            (self.dupwnd, self.dupacks) = (0, 0);
            // `delay_growth_`: the SYN's acknowledgement sets the initial window.
            let grows = !(agent.config.one_way && agent.una == 0);
            // Not asked whether it is full: as if all of it were out.
            agent.newack(ack, u32::MAX, grows, now);
            agent.newtimer(now);
        } else if agent.una < agent.nxt {
            self.dupacks += 1;
            if self.dupacks == NUMDUPACKS {
                self.dupack_action(agent, now);
            } else if self.dupacks > NUMDUPACKS && self.last_cwnd_action == CwndAction::Dupack {
                self.dupwnd += 1;
            } else if self.dupacks < NUMDUPACKS {
                self.send_one(agent, now);
            }
        }
        if self.dupacks == 0 || self.dupacks >= NUMDUPACKS {
            self.send_much(agent, now);
        }
    }

    /// A fast retransmission, once a window: something above the recovery point must have arrived.
    fn dupack_action(&mut self, agent: &mut TcpAgent, now: Time) {
        // `highest_ack_ > recover_`, where both begin at −1; `allow_fast_retransmit`; `bugfix_ss_ && highest_ack_ == 0`.
        let recovered = agent.una > agent.recover;
        if !(recovered || self.last_cwnd_action == CwndAction::Dupack || agent.una == 1) {
            return;
        }
        agent.recover = agent.nxt;
        self.last_cwnd_action = CwndAction::Dupack;
        agent.slowdown(Cause::Loss, now);
        // `reset_rtx_timer(1, 0)`.
        agent.rtt.forget();
        agent.set_rtx_timer(now);
        agent.output(agent.una, now);
        self.dupwnd = NUMDUPACKS;
    }

    /// `send_one`: a new segment for the first and for the second duplicate (RFC 3042).
    fn send_one(&mut self, agent: &mut TcpAgent, now: Time) {
        let seq = agent.t_seqno;
        if agent.may_send(seq) && seq - agent.una < agent.cwnd() + self.dupacks {
            agent.output(seq, now);
            agent.t_seqno += 1;
        }
    }

    /// `window`.
    fn window(&self, agent: &TcpAgent) -> u32 {
        let unanswered = agent.config.one_way && agent.una == 0;
        if unanswered { 1 } else { agent.cwnd().saturating_add(self.dupwnd) }
    }

    pub(super) fn send_much(&mut self, agent: &mut TcpAgent, now: Time) {
        while agent.t_seqno - agent.una < self.window(agent) && agent.may_send(agent.t_seqno) {
            agent.output(agent.t_seqno, now);
            agent.t_seqno += 1;
        }
    }

    /// Everything is sent again from the left edge on (`reset_rtx_timer(0, 1)`: go back N).
    pub(super) fn timeout(&mut self, agent: &mut TcpAgent, now: Time) {
        (self.dupwnd, self.dupacks) = (0, 0);
        agent.recover = agent.nxt;
        agent.slowdown(Cause::Timeout, now);
        self.last_cwnd_action = CwndAction::Timeout;
        agent.rtt.back_off();
        agent.set_rtx_timer(now);
        agent.t_seqno = agent.una;
        agent.rtt.forget();
        self.send_much(agent, now);
    }
}
