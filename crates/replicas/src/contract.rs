//! What a host that imitates another program tells a control beside [`Controller`]'s events.

use lowtide_cc::{Ack, Congestion, Controller, Recovery, Restart, Snapshot};
use lowtide_units::{Rate, Span, Time};

/// What is told beside an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside {
    /// How old the timestamp is that it echoes (RFC 7323): the RTT and the wait for a delayed acknowledgement, on a duplicate also the
    /// time since the last segment that came in order.
    pub echo_age: Option<Span>,
}

/// A control that an imitated host runs.
pub trait Replica: Controller {
    /// The host calls this instead of [`Controller::on_ack`]. A control that uses nothing of `beside` need not define it.
    fn on_ack_beside(&mut self, ack: &Ack, _beside: &Beside) {
        self.on_ack(ack);
    }

    /// What a timeout gave up has been repaired, and the host lifts the window to the threshold, but to `most` bytes only (ns-2's
    /// Linux agent, `tcp_fastretrans_alert`).
    fn on_repaired(&mut self, _most: u64) {}
}

/// A control of `lowtide-cc` under an imitated host, which hears of nothing else.
#[derive(Debug)]
pub(crate) struct Plain(pub Box<dyn Controller>);

impl Replica for Plain {}

impl Controller for Plain {
    fn on_ack(&mut self, ack: &Ack) {
        self.0.on_ack(ack);
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.0.on_congestion(event);
    }

    fn on_further_timeout(&mut self, event: &Congestion) {
        self.0.on_further_timeout(event);
    }

    fn on_restart(&mut self, restart: &Restart) {
        self.0.on_restart(restart);
    }

    fn on_undo(&mut self, now: Time) {
        self.0.on_undo(now);
    }

    fn on_mss(&mut self, mss: u32) {
        self.0.on_mss(mss);
    }

    fn cwnd(&self) -> u64 {
        self.0.cwnd()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.0.pacing_rate()
    }

    fn recovery(&self) -> Recovery {
        self.0.recovery()
    }

    fn counts_marks(&self) -> bool {
        self.0.counts_marks()
    }

    fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }
}
