//! `LinuxTcpAgent` of ns-2.35 (`tcp-linux.cc`) before a sink without SACK. Only SACK blocks make its scoreboard mark a segment lost
//! (`scoreboard1.cc`, `UpdateScoreBoard`): duplicates tell it nothing, and each loss waits for the timer, which each acknowledgement sets anew,
//! duplicates too (`time_processing`).

use lowtide_cc::Cause;
use lowtide_units::Time;

use super::tcp_agent::TcpAgent;
use crate::packet::Packet;

/// Linux's `tcp_max_burst`: how many segments may leave at once when a recovery ends (`tcp_moderate_cwnd`).
const MAX_BURST: u32 = 3;

/// What a Linux agent keeps beside `TcpAgent`. Without SACK its scoreboard (`scb_`) is two numbers.
#[derive(Debug, Default)]
pub(super) struct Linux {
    /// `TCP_CA_Loss`.
    loss: bool,
    /// What a timeout has marked (`MarkLoss`): from `retran` on it was not sent again (`GetNextRetran`), to `lost_to`.
    retran: u32,
    lost_to: u32,
}

impl Linux {
    /// `packets_in_flight`.
    fn packets_in_flight(&self, agent: &TcpAgent) -> u32 {
        agent.t_seqno - agent.una - self.lost_to.saturating_sub(self.retran.max(agent.una))
    }

    pub(super) fn recv(&mut self, agent: &mut TcpAgent, ack: &Packet, now: Time) {
        let prior_in_flight = self.packets_in_flight(agent);
        // `tcp_may_raise_cwnd`: in TCP_CA_Loss, too.
        agent.newack(ack, prior_in_flight, true, now);
        agent.newtimer(now);
        self.fastretrans_alert(agent);
        self.send_much(agent, now);
    }

    /// `tcp_fastretrans_alert`: what was out at the timeout is acknowledged, and the window is lifted to the threshold, but to three
    /// segments above what is in flight at most.
    fn fastretrans_alert(&mut self, agent: &mut TcpAgent) {
        if self.loss && agent.una >= agent.recover {
            (self.loss, self.lost_to) = (false, 0);
            let most = self.packets_in_flight(agent) + MAX_BURST;
            agent.cc.on_repaired(u64::from(most) * u64::from(agent.config.size));
        }
    }

    pub(super) fn send_much(&mut self, agent: &mut TcpAgent, now: Time) {
        while self.packets_in_flight(agent) < agent.cwnd() {
            self.retran = self.retran.max(agent.una);
            if self.retran < self.lost_to {
                agent.output(self.retran, now);
                self.retran += 1;
            } else if agent.may_send(agent.t_seqno) {
                agent.output(agent.t_seqno, now);
                agent.t_seqno += 1;
            } else {
                return;
            }
        }
    }

    /// `timeout` and `enter_loss`, which reduces each time.
    pub(super) fn timeout(&mut self, agent: &mut TcpAgent, now: Time) {
        agent.slowdown(Cause::Timeout, now);
        agent.recover = agent.nxt;
        (self.loss, self.retran, self.lost_to) = (true, agent.una, agent.t_seqno);
        // `reset_rtx_timer(TCP_REASON_TIMEOUT, 1)`: the reason is not zero, so that nothing goes back.
        agent.rtt.back_off();
        agent.set_rtx_timer(now);
        agent.rtt.forget();
        self.send_much(agent, now);
    }
}
