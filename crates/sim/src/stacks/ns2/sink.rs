//! `TcpSink` and `DelAckSink` of ns-2.35 (`tcp-sink.cc`): every segment is acknowledged, or every second one and what is out of order.

use lowtide_units::{Span, Time};

use crate::packet::{Kind, Packet, ack_size, window_of};
use crate::received::{Received, Stored};

/// How a sink is set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SinkConfig {
    /// Payload bytes of a segment.
    pub size: u32,
    /// One: `TcpSink`; two: `DelAckSink`.
    pub every: u32,
    /// `interval_`: how long `DelAckSink` holds an acknowledgement back.
    pub interval: Span,
    /// Bytes that the sender may have out (its `window_`).
    pub buffer: u64,
    /// The shift of the window field that says so.
    pub scale: u8,
}

impl SinkConfig {
    /// The window that acknowledgements carry.
    pub fn window(&self) -> u32 {
        window_of(self.buffer, self.scale)
    }
}

/// A sink.
#[derive(Debug)]
pub struct Sink {
    config: SinkConfig,
    flow: u32,
    /// `next_`, `seen_`.
    received: Received,
    /// `ts_to_echo_`, `last_ack_sent_` + 1.
    ts_to_echo: Time,
    last_ack: u32,
    /// `save_` and when its timer is due.
    saved: Option<Time>,
    owd: i64,
}

impl Sink {
    /// A sink that has seen nothing.
    pub fn new(flow: u32, config: SinkConfig) -> Sink {
        Sink { config, flow, received: Received::default(), ts_to_echo: Time::ZERO, last_ack: 0, saved: None, owd: 0 }
    }

    /// Payload bytes in order.
    pub fn delivered(&self) -> u64 {
        self.received.delivered()
    }

    /// `next_`.
    pub fn next_expected(&self) -> u32 {
        self.received.next()
    }

    /// When [`on_timer`](Self::on_timer) is due.
    pub fn deadline(&self) -> Option<Time> {
        self.saved
    }

    /// `recv`: a segment arrives; whether an acknowledgement is due, which is then written to `room`.
    pub fn on_data(&mut self, packet: &Packet, now: Time, room: &mut Packet) -> bool {
        self.owd = now.nanos() as i64 - packet.sent.nanos() as i64;
        // `Acker::update_ts`: of what begins at or below the left edge last told, duplicates too.
        if packet.sent >= self.ts_to_echo && packet.seq <= self.last_ack {
            self.ts_to_echo = packet.sent;
        }
        let had_gap = self.received.has_hole();
        // `Acker::update`.
        let in_order = self.received.store(packet.seq, packet.payload(), self.config.size) == Stored::InOrder;
        // `DelAckSink::recv`: in order and nothing saved waits; the SYN does not (`SYN_immediate_ack_`).
        let waits = self.config.every > 1 && in_order && !had_gap && packet.seq > 0 && !packet.fin && self.saved.is_none();
        if waits {
            self.saved = Some(now + self.config.interval);
        } else {
            self.ack(now, room);
        }
        !waits
    }

    /// Whether the delayed acknowledgement is due, which is then written to `room`.
    pub fn on_timer(&mut self, now: Time, room: &mut Packet) -> bool {
        let due = self.saved.is_some_and(|due| due <= now);
        if due {
            self.ack(now, room);
        }
        due
    }

    fn ack(&mut self, now: Time, ack: &mut Packet) {
        self.saved = None;
        self.last_ack = self.received.next();
        *ack = Packet::new(self.flow, Kind::Ack, ack_size(0), now);
        ack.seq = self.last_ack;
        ack.owd = self.owd;
        ack.echo = self.ts_to_echo;
        ack.window = self.config.window();
    }
}
