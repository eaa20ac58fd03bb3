//! A sender's congestion control with its window and rate as of its last event: they change once an event and are asked for several times
//! a packet. Knows no segments.

use lowtide_cc::{Ack, Congestion, Controller, Recovery, Restart, Snapshot};
use lowtide_units::{Rate, Time};

/// The algorithm and what it answered last.
#[derive(Debug)]
pub(super) struct Control {
    cc: Box<dyn Controller>,
    cwnd: u64,
    pacing_rate: Option<Rate>,
    own_recovery: bool,
}

impl Control {
    pub fn new(cc: Box<dyn Controller>) -> Control {
        let (cwnd, pacing_rate, own_recovery) = (cc.cwnd(), cc.pacing_rate(), cc.recovery() == Recovery::Own);
        Control { cc, cwnd, pacing_rate, own_recovery }
    }

    /// The congestion window in bytes.
    pub fn cwnd(&self) -> u64 {
        self.cwnd
    }

    /// The rate that the algorithm paces at, if it names one.
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.pacing_rate
    }

    /// Only others make it stand back to its floor.
    pub fn yields_to_others_only(&self) -> bool {
        self.cc.yields_to_others_only()
    }

    /// It limits sending itself while the window is reduced.
    pub fn has_own_recovery(&self) -> bool {
        self.own_recovery
    }

    pub fn snapshot(&self) -> Snapshot {
        self.cc.snapshot()
    }

    pub fn on_ack(&mut self, ack: &Ack) {
        self.cc.on_ack(ack);
        self.ask();
    }

    pub fn on_congestion(&mut self, event: &Congestion) {
        self.cc.on_congestion(event);
        self.ask();
    }

    pub fn on_further_timeout(&mut self, event: &Congestion) {
        self.cc.on_further_timeout(event);
        self.ask();
    }

    pub fn on_restart(&mut self, restart: &Restart) {
        self.cc.on_restart(restart);
        self.ask();
    }

    pub fn on_undo(&mut self, now: Time) {
        self.cc.on_undo(now);
        self.ask();
    }

    fn ask(&mut self) {
        (self.cwnd, self.pacing_rate) = (self.cc.cwnd(), self.cc.pacing_rate());
    }
}
