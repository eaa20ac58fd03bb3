//! How a connection begins (BEP 29; libutp `utp_connect`, `utp_process_udp`): numbers, ids, and the states before data flows.

use lowtide_cc::Controller;
use lowtide_units::{Span, Time};

use super::{Connection, State, Stats};
use crate::config::Config;
use crate::delay::Delays;
use crate::header::{Kind, Packet};
use crate::incoming::Incoming;
use crate::loss::Repairs;
use crate::mtu::Search;
use crate::outgoing::Outgoing;
use crate::pace::Pacer;
use crate::rto::Timer;

/// The peer's window before it has told one: 255 packets of 1435 bytes.
const FIRST_PEER_WINDOW: u64 = 255 * 1435;

/// The numbers of a new connection, drawn at random by the host: they are what protects against blind injection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// The initiator's id, unused with this peer.
    pub id: u16,
    /// The first packet number.
    pub seq: u16,
}

impl Connection {
    /// Connects: the SYN is the first packet that [`poll`](Connection::poll) gives.
    pub fn connect(config: Config, cc: Box<dyn Controller>, open: Open, now: Time) -> Connection {
        let ids = (open.id, open.id.wrapping_add(1));
        let mut connection = Connection::new(config, cc, ids, open.seq, State::SynSent, now);
        connection.timer.start(now);
        connection.out.push(Kind::Syn, 0, 0);
        connection
    }

    /// Accepts the connection that `syn` opens; the answer is the first packet that [`poll`](Connection::poll) gives.
    pub fn accept(config: Config, cc: Box<dyn Controller>, syn: &Packet, seq: u16, now: Time) -> Connection {
        let header = &syn.header;
        let ids = (header.connection_id.wrapping_add(1), header.connection_id);
        let mut connection = Connection::new(config, cc, ids, seq, State::SynReceived, now);
        connection.incoming = Incoming::new(header.seq);
        connection.delays.on_packet(now, header.timestamp, header.timestamp_difference);
        connection.peer_window = u64::from(header.window);
        connection.ack_due = true;
        connection
    }

    fn new(config: Config, cc: Box<dyn Controller>, ids: (u16, u16), seq: u16, state: State, now: Time) -> Connection {
        Connection {
            config,
            cc,
            state,
            ids,
            out: Outgoing::new(seq),
            incoming: Incoming::new(0),
            delays: Delays::default(),
            timer: Timer::new(config.min_rto),
            repairs: Repairs::new(config.repair, seq),
            mtu: config.path_mtu.map(Search::new),
            fast_timeout: false,
            recover: seq,
            limited: false,
            limited_at: None,
            pacer: Pacer::default(),
            paced: false,
            lost: 0,
            peer_window: FIRST_PEER_WINDOW,
            zero_window_until: now,
            unread: 0,
            told_window: config.receive_buffer,
            written: 0,
            cut: 0,
            closing: false,
            deaf: false,
            fin_sent: false,
            ack_due: false,
            keep_alive_due: false,
            close_reason: None,
            heard: now,
            asked: 0,
            asked_at: now,
            ask_due: false,
            asked_stamp: 0,
            unreachable: None,
            opened: now,
            closed: now,
            checked: now,
            woken: now,
            last_sent: now,
            latest_rtt: None,
            stats: Stats::default(),
        }
    }

    /// How long it has existed.
    pub(super) fn age(&self, now: Time) -> Span {
        now.since(self.opened)
    }
}
