//! An agent of ns-2: `TcpAgent` and the way of one of those that inherit it. What they do with duplicates and timeouts is in `reno.rs` and
//! `linux.rs`, what is common to them in `tcp_agent.rs`.

use std::ops::{Deref, DerefMut};

use lowtide_replicas::Replica;
use lowtide_units::Time;

use super::linux::Linux;
use super::reno::Reno;
use super::tcp_agent::{AgentConfig, TcpAgent};
use crate::packet::Packet;

/// Which agent it is.
#[derive(Debug)]
enum Kindred {
    Reno(Reno),
    Linux(Linux),
}

/// An agent. It is a `TcpAgent` in ns-2, by inheritance; here it derefs to one.
#[derive(Debug)]
pub struct Agent {
    base: TcpAgent,
    kindred: Kindred,
}

impl Deref for Agent {
    type Target = TcpAgent;

    fn deref(&self) -> &TcpAgent {
        &self.base
    }
}

impl DerefMut for Agent {
    fn deref_mut(&mut self) -> &mut TcpAgent {
        &mut self.base
    }
}

impl Agent {
    /// An agent with nothing to send yet; the peer permits `window` bytes.
    pub fn new(flow: u32, config: AgentConfig, cc: Box<dyn Replica>, window: u64) -> Agent {
        let kindred = if config.linux { Kindred::Linux(Linux::default()) } else { Kindred::Reno(Reno::default()) };
        Agent { base: TcpAgent::new(flow, config, cc, window), kindred }
    }

    /// `recv`: an acknowledgement arrives. Afterwards [`poll`](Self::poll).
    pub fn on_ack(&mut self, ack: &Packet, now: Time) {
        if !self.base.heeds(ack) {
            return;
        }
        match &mut self.kindred {
            Kindred::Reno(reno) => reno.recv(&mut self.base, ack, now),
            Kindred::Linux(linux) => linux.recv(&mut self.base, ack, now),
        }
    }

    /// Writes the next packet to leave now to `room`, until there is none.
    pub fn poll(&mut self, now: Time, room: &mut Packet) -> bool {
        if self.base.take_pending() {
            match &mut self.kindred {
                Kindred::Reno(reno) => reno.send_much(&mut self.base, now),
                Kindred::Linux(linux) => linux.send_much(&mut self.base, now),
            }
        }
        self.base.take_out(room)
    }

    /// When [`on_timer`](Self::on_timer) is due.
    pub fn deadline(&self) -> Option<Time> {
        self.base.rtx_timer
    }

    /// `timeout`. Afterwards [`poll`](Self::poll).
    pub fn on_timer(&mut self, now: Time) {
        if !self.base.take_timeout(now) {
            return;
        }
        match &mut self.kindred {
            Kindred::Reno(reno) => reno.timeout(&mut self.base, now),
            Kindred::Linux(linux) => linux.timeout(&mut self.base, now),
        }
    }
}
