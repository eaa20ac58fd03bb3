//! One end of a connection: told the time, driven by packets in, asked for packets out. The order of its work per packet is
//! libutp's (`utp_process_incoming`). Knows numbers and lengths; payload bytes, addresses and clocks are its host's.
//!
//! A host calls [`Connection::on_packet`] for what arrives, [`Connection::on_timer`] when [`Connection::deadline`] has come,
//! and after either (and after writing) [`Connection::poll`] until there is nothing left to send.

mod arrive;
mod leave;
mod open;
mod report;
mod timeout;

use lowtide_cc::{Controller, Snapshot};
use lowtide_units::{Span, Time};

use crate::config::Config;
use crate::delay::Delays;
use crate::header::{HEADER_BYTES, Header, Kind, Packet};
use crate::incoming::Incoming;
pub use crate::incoming::Placement;
use crate::loss::Repairs;
use crate::mtu::Search;
use crate::outgoing::Outgoing;
use crate::pace::Pacer;
use crate::rto::Timer;
pub use open::Open;
pub use report::Report;

/// A retransmitted FIN comes after 1 s at the earliest and after 3 s again (the peer's timeout, and its tick of 500 ms).
const LINGER: Span = Span::from_secs(4);

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The SYN is on its way.
    SynSent,
    /// A SYN was answered; nothing may be sent before the peer's first data.
    SynReceived,
    /// Both ends know of each other.
    Connected,
    /// Everything up to our FIN has been acknowledged, and the peer's has come, unless the host wants to read no more.
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
    /// The peer answered the SYN with a reset, or the network with a report that nobody listens.
    #[error("refused by the peer")]
    Refused,
    /// The network, or this host, said of the SYN that no route leads to the peer.
    #[error("no route to the peer")]
    NoRoute,
    /// The network reported for a while that nobody listens on the peer's port any more.
    #[error("the peer's port is closed")]
    Unreachable,
    /// The host gave up.
    #[error("given up")]
    Aborted,
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
    /// It must not be fragmented: it asks what the path carries. Others may be, since a packet cannot be cut again.
    pub probe: bool,
    /// It asks whether the peer is there: its payload is a byte of no meaning, and none of the stream.
    pub question: bool,
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
    mtu: Option<Search>,
    /// After a timeout the oldest packet is sent again with each acknowledgement (`fast_timeout`).
    fast_timeout: bool,
    /// The next congestion episode begins with the loss of this packet or a later one.
    recover: u16,
    /// A send was refused because a window was full since the congestion control was told last.
    limited: bool,
    /// When a send was refused last (`last_maxed_out_window`).
    limited_at: Option<Time>,
    pacer: Pacer,
    /// A packet is ready and waits for its time.
    paced: bool,
    /// Bytes lost that the congestion control was not told of with an acknowledgement yet.
    lost: u64,
    peer_window: u64,
    zero_window_until: Time,
    /// Bytes that the host has received and not read; the window told last.
    unread: u32,
    told_window: u32,
    /// Bytes written, bytes put into packets; nothing more will be written.
    written: u64,
    cut: u64,
    closing: bool,
    /// The host reads no more: the peer's end is not waited for.
    deaf: bool,
    fin_sent: bool,
    ack_due: bool,
    keep_alive_due: bool,
    close_reason: Option<u16>,
    /// A packet of the peer's came last; since then it was asked so often whether it is there, last then.
    heard: Time,
    asked: u32,
    asked_at: Time,
    ask_due: bool,
    /// The timestamp of the last question.
    asked_stamp: u32,
    /// The network says since then that nobody listens on the peer's port.
    unreachable: Option<Time>,
    opened: Time,
    closed: Time,
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

    /// The id that packets to the peer carry.
    pub fn peer_id(&self) -> u16 {
        self.ids.1
    }

    /// Bytes in flight at most.
    pub fn send_buffer(&self) -> u64 {
        self.config.send_buffer
    }

    /// Nothing more may be written.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Where in the stream of what was written the oldest packet not acknowledged begins: what lies before is not needed any more.
    pub fn kept_from(&self) -> u64 {
        self.out.oldest_offset().unwrap_or(self.cut)
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

    /// Nothing more will be written: a FIN follows what is. What the peer sends is still received, to its own FIN.
    pub fn shutdown(&mut self) {
        self.closing = true;
    }

    /// Nothing more will be written or read: a FIN follows what is, and the peer's is not waited for.
    pub fn close(&mut self) {
        self.closing = true;
        self.deaf = true;
    }

    /// Gives up: the packet that tells the peer so.
    pub fn abort(&mut self, now: Time) -> Packet {
        let reset = self.unnumbered(self.incoming.last(), now).packet;
        self.state = State::Failed(Failure::Aborted);
        Packet { header: Header { kind: Kind::Reset, ..reset.header }, sack: None, ..reset }
    }

    /// The host holds `bytes` received and not read. A window that opens is told when it was too small for a packet, or when it has
    /// opened by half the buffer (RFC 9293, sec. 3.8.6.2.2). Whether something is to be told now.
    pub fn set_unread(&mut self, bytes: u32) -> bool {
        self.unread = bytes;
        let opened = self.window().saturating_sub(self.told_window);
        let was_shut = self.told_window < u32::from(self.config.packet) && opened > 0;
        if was_shut || opened >= self.config.receive_buffer / 2 {
            self.ack_due = true;
        }
        self.ack_due
    }

    /// Everything written and the FIN behind it have been acknowledged.
    pub fn is_flushed(&self) -> bool {
        self.fin_sent && self.out.is_empty()
    }

    /// Bytes written that are in no packet yet.
    pub fn unsent(&self) -> u64 {
        self.written - self.cut
    }

    /// Why the peer closed, if it said so (libtorrent's `close_reason_t`).
    pub fn close_reason(&self) -> Option<u16> {
        self.close_reason
    }

    /// Whether nothing that could still arrive needs an answer of this connection: the host may forget it. After a FIN each way it
    /// stays for a while, to acknowledge the peer's again.
    pub fn is_forgettable(&self, now: Time) -> bool {
        match self.state {
            State::Failed(_) => true,
            State::Closed => !self.incoming.is_finished() || now.since(self.closed) >= LINGER,
            _ => false,
        }
    }

    /// Payload of a full packet now.
    pub fn packet(&self) -> u16 {
        self.mtu.as_ref().map_or(self.config.packet, |mtu| mtu.bytes() - HEADER_BYTES as u16)
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

    /// Bytes that the peer has room for, as it said last.
    pub fn peer_window(&self) -> u64 {
        self.peer_window
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
