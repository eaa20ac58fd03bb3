//! One end of a connection: told the time, driven by packets in, asked for packets out. The order of its work per packet is
//! libutp's (`utp_process_incoming`). Knows numbers and lengths; payload bytes, addresses and clocks are its host's.
//!
//! A host calls [`Connection::on_packet`] for what arrives, [`Connection::on_timer`] when [`Connection::deadline`] has come,
//! and after either (and after writing) [`Connection::poll`] until there is nothing left to send.

mod arrive;
mod leave;
mod open;
mod timeout;

use lowtide_cc::{Controller, Snapshot};
use lowtide_units::{Span, Time};

use crate::config::Config;
use crate::delay::Delays;
use crate::header::Packet;
use crate::incoming::Incoming;
pub use crate::incoming::Placement;
use crate::loss::Repairs;
use crate::outgoing::Outgoing;
use crate::rto::Timer;
pub use open::Open;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The SYN is on its way.
    SynSent,
    /// A SYN was answered; nothing may be sent before the peer's first data.
    SynReceived,
    /// Both ends know of each other.
    Connected,
    /// Everything up to our FIN has been acknowledged.
    Closed,
    /// It came to a bad end.
    Failed(Failure),
}

/// Why a connection came to a bad end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Nothing was acknowledged through four back-offs (a SYN: two).
    #[error("the peer no longer answers")]
    TimedOut,
    /// The peer reset an established connection.
    #[error("reset by the peer")]
    Reset,
    /// The peer answered the SYN with a reset.
    #[error("refused by the peer")]
    Refused,
}

/// What became of a packet that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Its payload: to be delivered, to be kept, or to be thrown away.
    pub payload: Placement,
    /// So many packets kept before, numbered from the next one on, follow it in order.
    pub released: u16,
    /// The peer's FIN and everything before it has come.
    pub end: bool,
}

/// A packet to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The packet; the host encodes it.
    pub packet: Packet,
    /// Where in the stream of what was written its payload begins.
    pub offset: u64,
    /// It left before.
    pub again: bool,
}

/// Counters of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Numbered packets sent again.
    pub retransmits: u64,
    /// Timeouts that found something outstanding.
    pub timeouts: u64,
    /// Times the congestion control was told of losses, timeouts included.
    pub episodes: u64,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Connection {
    config: Config,
    cc: Box<dyn Controller>,
    state: State,
    /// The ids that we listen on and that we send to.
    ids: (u16, u16),
    out: Outgoing,
    incoming: Incoming,
    delays: Delays,
    timer: Timer,
    repairs: Repairs,
    /// After a timeout the oldest packet is sent again with each acknowledgement (`fast_timeout`).
    fast_timeout: bool,
    /// Episodes::PerWindow: the next one begins with the loss of this packet or a later one.
    recover: u16,
    /// A send was refused because a window was full since the congestion control was told last.
    limited: bool,
    /// When a send was refused last (`last_maxed_out_window`).
    limited_at: Option<Time>,
    peer_window: u64,
    zero_window_until: Time,
    /// Bytes that the host has received and not read; the window told last.
    unread: u32,
    told_window: u32,
    /// Bytes written, bytes put into packets; nothing more will be written.
    written: u64,
    cut: u64,
    closing: bool,
    fin_sent: bool,
    ack_due: bool,
    keep_alive_due: bool,
    opened: Time,
    checked: Time,
    woken: Time,
    last_sent: Time,
    latest_rtt: Option<Span>,
    stats: Stats,
}

impl Connection {
    /// Where it stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// The id that packets for this end carry (a SYN excepted).
    pub fn id(&self) -> u16 {
        self.ids.0
    }

    /// The host writes `bytes` more; `u64::MAX` for a transfer without end.
    pub fn write(&mut self, bytes: u64) {
        if !self.closing {
            self.written = self.written.saturating_add(bytes);
        }
    }

    /// The host takes back what is not in a packet yet.
    pub fn stop(&mut self) {
        self.written = self.cut;
    }

    /// Nothing more will be written: a FIN follows what is.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// The host holds `bytes` received and not read; a window that was closed and opens is told at once.
    pub fn set_unread(&mut self, bytes: u32) {
        self.unread = bytes;
        if self.window() > self.told_window {
            self.ack_due = true;
        }
    }

    /// Everything written has been acknowledged.
    pub fn is_idle(&self) -> bool {
        self.out.is_empty() && self.cut == self.written
    }

    /// Payload bytes received in order.
    pub fn received(&self) -> u64 {
        self.incoming.delivered()
    }

    /// Payload bytes acknowledged by the peer.
    pub fn delivered(&self) -> u64 {
        self.out.delivered()
    }

    /// Payload bytes in flight.
    pub fn in_flight(&self) -> u64 {
        self.out.in_flight()
    }

    /// The smoothed RTT, in whole milliseconds; zero before the first sample.
    pub fn srtt(&self) -> Span {
        self.timer.srtt()
    }

    /// The RTT sample that the last packet gave.
    pub fn take_rtt(&mut self) -> Option<Span> {
        self.latest_rtt.take()
    }

    /// The congestion control's state.
    pub fn snapshot(&self) -> Snapshot {
        self.cc.snapshot()
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    fn is_over(&self) -> bool {
        matches!(self.state, State::Closed | State::Failed(_))
    }

    fn window(&self) -> u32 {
        self.config.receive_buffer.saturating_sub(self.unread)
    }
}

#[cfg(test)]
mod tests;
