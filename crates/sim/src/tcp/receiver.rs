//! The receiving end of a connection: reassembly, when to acknowledge (Linux `__tcp_ack_snd_check`, `tcp_event_data_recv`) and what
//! to say (RFC 2018, 2883, 3168, 7323). Knows no congestion control; window policies other than a fixed buffer sit above it.

mod quick;
mod reassembly;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;

use lowtide_net::Ecn;
use lowtide_units::{Span, Time};

use crate::packet::{Kind, Packet, ack_size, window_of};
use crate::received::Stored;
use quick::Quick;
use reassembly::Reassembly;

/// Acknowledgements that leave at once after a CE mark, or a retransmission of an ECN-capable connection (`__tcp_ecn_check_ce`).
const QUICK_AFTER_MARK: u32 = 2;
/// Segments of fewer bytes let no window grow (`tcp_event_data_recv`).
const SMALL: u32 = 128;

/// How CE marks are echoed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MarkEcho {
    /// ECE from the first mark until the sender answers with CWR (RFC 3168 §6.1.3).
    #[default]
    UntilAnswered,
    /// ECE where the newest segment was marked; a change acknowledges at once what came before it (RFC 8257 §3.2, Linux
    /// `dctcp_ece_ack_update`).
    EachChange,
}

/// How a receiver acknowledges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceiverConfig {
    /// Segments per acknowledgement: 1 or 2.
    pub every: u32,
    /// The longest a single segment waits.
    pub delay: Span,
    /// Segments at the start that are acknowledged at once (Linux: 16).
    pub quick: u32,
    /// So are those that let the window of Linux grow.
    pub grows: bool,
    /// Report out-of-order data.
    pub sack: bool,
    /// How marks are echoed.
    pub marks: MarkEcho,
    /// Bytes of receive buffer; the application reads at once.
    pub buffer: u64,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// The window field counts in units of 2^scale bytes.
    pub scale: u8,
}

impl ReceiverConfig {
    /// Linux: every second segment, 40 ms, sixteen quick ones and those of a growing window.
    pub fn linux(mss: u32) -> ReceiverConfig {
        ReceiverConfig {
            every: 2,
            delay: Span::from_millis(40),
            quick: quick::MOST,
            grows: true,
            sack: true,
            marks: MarkEcho::UntilAnswered,
            buffer: 1 << 30,
            mss,
            scale: 14,
        }
    }

    /// The window of an empty buffer, as far as the field can say it.
    pub fn window(&self) -> u32 {
        window_of(self.buffer, self.scale)
    }
}

/// The state of one receiver.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    flow: u32,
    data: Reassembly,
    duplicate: Option<u32>,
    /// Segments since the last acknowledgement.
    unacknowledged: u32,
    quick: Quick,
    deadline: Option<Time>,
    /// The next segment expected as last told (`rcv_wup`), and the TSval to echo (TS.Recent, RFC 7323 §4.3).
    told: u32,
    echo: Time,
    owd: i64,
    /// The congestion experienced: latched, or that of the newest segment.
    ece: bool,
    /// An ECN-capable segment has arrived (`TCP_ECN_SEEN`).
    ecn_seen: bool,
}

impl Receiver {
    /// A receiver that has seen nothing.
    pub fn new(flow: u32, config: ReceiverConfig) -> Receiver {
        Receiver {
            config,
            flow,
            data: Reassembly::default(),
            duplicate: None,
            unacknowledged: 0,
            quick: Quick::new(config.quick, config.mss, config.buffer, config.grows),
            deadline: None,
            told: 0,
            echo: Time::ZERO,
            owd: 0,
            ece: false,
            ecn_seen: false,
        }
    }

    /// In-order payload bytes handed to the application.
    pub fn delivered(&self) -> u64 {
        self.data.received.delivered()
    }

    /// The next segment expected.
    pub fn next_expected(&self) -> u32 {
        self.data.received.next()
    }

    /// Something is missing below what has arrived.
    pub fn has_hole(&self) -> bool {
        self.data.received.has_hole()
    }

    /// When [`on_timer`](Self::on_timer) is due.
    pub fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// A data segment arrives; whether an acknowledgement is due, which is then written to `room`.
    pub fn on_data(&mut self, packet: &Packet, now: Time, room: &mut Packet) -> bool {
        let answers = self.answer(packet, now, room);
        let held = u64::from(self.data.received.extent()) * u64::from(self.config.mss);
        self.quick.on_read(now, self.delivered(), held);
        answers
    }

    fn answer(&mut self, packet: &Packet, now: Time, room: &mut Packet) -> bool {
        self.owd = now.nanos() as i64 - packet.sent.nanos() as i64;
        if packet.payload() == 0 {
            // A window probe (RFC 9293 §3.8.6.1) is answered, whatever waits.
            self.acknowledge(now, room);
            return true;
        }
        let tells_before = self.note_marks(packet, now, room);
        // Linux tcp_replace_ts_recent: what begins at or before the last acknowledgement, unless all of it is older.
        if packet.seq <= self.told && self.told <= packet.seq + 1 {
            self.echo = packet.sent;
        }
        let had_hole = self.has_hole();
        let stored = self.data.store(packet.seq, packet.payload(), self.config.mss);
        self.unacknowledged += 1;
        self.quick.on_segment(now, packet.echo, stored == Stored::InOrder);
        if stored == Stored::Duplicate {
            self.duplicate = Some(packet.seq);
            self.quick.enter(quick::MOST);
        } else if packet.payload() >= SMALL {
            self.quick.on_stored();
        }
        let anomaly = stored != Stored::InOrder || had_hole;
        // At the end of the transfer the application closes too: its FIN carries the acknowledgement, no timer is waited for.
        let now_due = anomaly || self.quick.is_due() || packet.cwr || packet.fin || self.unacknowledged >= self.config.every;
        if tells_before {
            // What follows the change of marks is acknowledged at once, too: by the timer, for only one can be returned here.
            self.unacknowledged = 1;
            self.deadline = Some(now);
        } else if now_due {
            self.acknowledge(now, room);
        } else {
            self.deadline.get_or_insert(now + self.config.delay);
        }
        tells_before || now_due
    }

    /// Notes what `packet` says of congestion, before its data is stored; whether a change of marks releases an acknowledgement.
    fn note_marks(&mut self, packet: &Packet, now: Time, room: &mut Packet) -> bool {
        let marked = packet.is_marked();
        if self.config.marks == MarkEcho::EachChange {
            let changed = marked != self.ece;
            let releases = changed && self.unacknowledged > 0;
            if releases {
                self.acknowledge(now, room);
            }
            self.ece = marked;
            if changed && !releases {
                self.quick.enter(1);
            }
            return releases;
        }
        if packet.cwr {
            self.ece = false;
        }
        if packet.ecn == Ecn::NotEct && self.ecn_seen {
            // Probably a retransmission: those are not ECN-capable (RFC 3168 §6.1.5).
            self.quick.enter(QUICK_AFTER_MARK);
        }
        self.ecn_seen |= packet.ecn != Ecn::NotEct;
        if marked && !self.ece {
            self.ece = true;
            self.quick.enter(QUICK_AFTER_MARK);
        }
        false
    }

    /// The delayed-acknowledgement timer; whether an acknowledgement is due, which is then written to `room`.
    pub fn on_timer(&mut self, now: Time, room: &mut Packet) -> bool {
        let due = self.deadline.is_some_and(|due| due <= now);
        if due {
            self.acknowledge(now, room);
        }
        due
    }

    fn acknowledge(&mut self, now: Time, ack: &mut Packet) {
        *ack = Packet::new(self.flow, Kind::Ack, 0, now);
        ack.seq = self.next_expected();
        ack.owd = self.owd;
        ack.ece = self.ece;
        ack.echo = self.echo;
        ack.window = self.config.window();
        let blocks = if self.config.sack { self.data.blocks(self.duplicate, &mut ack.sack) } else { 0 };
        ack.size = ack_size(blocks);
        self.told = ack.seq;
        self.duplicate = None;
        if self.unacknowledged > 0 {
            self.quick.on_acknowledged();
        }
        self.unacknowledged = 0;
        self.deadline = None;
    }
}
