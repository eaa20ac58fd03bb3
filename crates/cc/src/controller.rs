//! The contract between a congestion control and its host.

use std::fmt;

use lowtide_units::{Rate, Span, Time};

use crate::events::{Ack, Congestion, Restart, Snapshot};

/// A congestion control. Deterministic: the same construction and the same events give the same window on every machine.
///
/// Order of a host's work per acknowledgement: RTT estimate, loss detection, [`on_congestion`](Controller::on_congestion)
/// if an episode starts, then [`on_ack`](Controller::on_ack); afterwards it reads the outputs.
pub trait Controller: fmt::Debug + Send {
    /// Once per acknowledgement that delivers something new.
    fn on_ack(&mut self, ack: &Ack);

    /// Once per episode. The controller sets its window to what it wants *after* the episode (its ssthresh; one MSS or
    /// what its source says after a timeout); how the host gets there is its own affair (PRR).
    fn on_congestion(&mut self, event: &Congestion);

    /// A timeout within a window of data for which it was told of congestion already: Linux leaves the threshold, and starts over from one
    /// segment (`tcp_enter_loss`). By default as any other timeout.
    fn on_further_timeout(&mut self, event: &Congestion) {
        self.on_congestion(event);
    }

    /// Before the first send after a pause with nothing in flight.
    fn on_restart(&mut self, _restart: &Restart) {}

    /// The last episode was spurious (Eifel, F-RTO, DSACK): give the window back.
    fn on_undo(&mut self, _now: Time) {}

    /// The sender's segment size changed; windows keep their bytes.
    fn on_mss(&mut self, mss: u32);

    /// The congestion window in bytes. Never zero, may be below one MSS: then the host spaces its segments so that the
    /// mean rate is cwnd per RTT.
    fn cwnd(&self) -> u64;

    /// The rate to pace at; none leaves pacing to the host.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// Whether it wants to hear of losses with every acknowledgement that shows some, because it has a gate of its own, and of
    /// timeouts of an idle connection. Others are told once per window of data.
    fn hears_every_loss(&self) -> bool {
        false
    }

    /// Of a control made for a receive window: by how many bytes more than what has arrived the right edge may move on one acknowledgement.
    /// It is told of segments that were sent again or marked as of all others (`Ack::lost`, `Ack::ce`). None: it knows senders only.
    fn edge_step(&self) -> Option<u64> {
        None
    }

    /// Whether only others make it stand back to its floor, never the clock, as in LEDBAT++'s slowdowns (-01 §4.4). A host that leaves a queue of
    /// others' on the way back out of its RTTs takes one for its own until a floor has shown that it stays (docs/algorithms/way-back.md).
    /// The simulator's senders do so for such controls: those of papers measure round trips.
    fn yields_to_others_only(&self) -> bool {
        false
    }

    /// Who limits sending during fast recovery.
    fn recovery(&self) -> Recovery {
        Recovery::Host
    }

    /// Whether it counts marked bytes, so that the receiver has to echo each change of marks (RFC 8257 §3.2, Linux `TCP_CONG_NEEDS_ECN`);
    /// otherwise one echo a window suffices (RFC 3168).
    fn counts_marks(&self) -> bool {
        false
    }

    /// The state for series and status displays.
    fn snapshot(&self) -> Snapshot;
}

/// Who limits sending during fast recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The host, by proportional rate reduction towards `cwnd()`; `on_ack` must not grow meanwhile.
    Host,
    /// The controller's own `cwnd()`, also while `in_recovery` (BBR).
    Own,
}

/// What a controller is told at birth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// The time of its creation.
    pub now: Time,
    /// The sender's segment size in bytes of payload.
    pub mss: u32,
    /// The initial window in bytes where the host insists on one; none: what the algorithm's source says, else ten segments (RFC 6928).
    pub initial_window: Option<u64>,
    /// RTT of the handshake where the host has one; never a delay sample, only a first guess for pacing.
    pub handshake_rtt: Option<Span>,
    /// Seed of whatever the algorithm draws at random (BBR's first phase).
    pub seed: u64,
}

impl Default for Start {
    fn default() -> Start {
        Start { now: Time::ZERO, mss: 1448, initial_window: None, handshake_rtt: None, seed: 1 }
    }
}

impl Start {
    /// The initial window in bytes: the host's wish, else `segments` full segments.
    pub fn window_or(&self, segments: u32) -> u64 {
        self.initial_window.unwrap_or(u64::from(self.mss) * u64::from(segments)).max(1)
    }
}
