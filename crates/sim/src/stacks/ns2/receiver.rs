//! The receiving end of a connection: reassembly, when to acknowledge and what to say (RFC 2018, 2883). Knows no
//! congestion control; window policies other than a fixed buffer sit above it.

use lowtide_units::{Span, Time};

use crate::packet::{Kind, Packet, ack_size};

/// How a receiver acknowledges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceiverConfig {
    /// Segments per acknowledgement: 1 or 2.
    pub every: u32,
    /// The longest a single segment waits.
    pub delay: Span,
    /// Segments at the start that are acknowledged at once (Linux: 16).
    pub quick: u32,
    /// Report out-of-order data.
    pub sack: bool,
    /// Bytes of receive buffer; the application reads at once.
    pub buffer: u64,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// The window field counts in units of 2^scale bytes.
    pub scale: u8,
    /// Whose timestamp it echoes.
    pub echo: Echo,
    /// Where the marks change, what is held back is acknowledged one segment short, and an acknowledgement is marked or not as a whole
    /// (ns-3 3.37: `TcpDctcp::CeState0to1` reads the left edge before the segment is stored).
    pub short_of_change: bool,
}

/// Whose timestamp a receiver echoes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Echo {
    /// The first segment's since the last acknowledgement, in order or not, so that samples can be had from SACKs.
    #[default]
    First,
    /// The last one's that arrived in order and was not yet acknowledged (RFC 7323 §4.3, ns-3).
    InOrder,
    /// The last one's that began at or below the left edge, duplicates too (ns-2 `Acker::update_ts`).
    LeftEdge,
}

impl ReceiverConfig {
    /// Linux: every second segment, 40 ms, sixteen quick ones.
    pub fn linux(mss: u32) -> ReceiverConfig {
        ReceiverConfig {
            every: 2,
            delay: Span::from_millis(40),
            quick: 16,
            sack: true,
            buffer: 1 << 30,
            mss,
            scale: 14,
            echo: Echo::First,
            short_of_change: false,
        }
    }

    /// The window of an empty buffer, as far as the field can say it.
    pub fn window(&self) -> u32 {
        ((self.buffer >> self.scale).min(u64::from(u16::MAX)) << self.scale) as u32
    }
}

/// The state of one receiver.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    flow: u32,
    nxt: u32,
    /// Held out of order: runs `[from, to)` in ascending order, disjoint and not touching.
    runs: Vec<(u32, u32)>,
    /// Segments whose runs were reported most recently, newest first.
    recent: [u32; 3],
    duplicate: Option<u32>,
    /// Segments since the last acknowledgement.
    unacknowledged: u32,
    quick_left: u32,
    deadline: Option<Time>,
    /// TSval of the earliest segment not yet acknowledged: samples include the delay (RFC 7323 §4.3).
    echo: Option<Time>,
    owd: i64,
    ce: u32,
    last_marked: bool,
    /// The left edge when the last segment came, before it was stored; and as last told.
    prior: u32,
    told: u32,
    /// In-order payload bytes so far.
    delivered: u64,
}

impl Receiver {
    /// A receiver that has seen nothing.
    pub fn new(flow: u32, config: ReceiverConfig) -> Receiver {
        Receiver {
            config,
            flow,
            nxt: 0,
            runs: Vec::new(),
            recent: [0; 3],
            duplicate: None,
            unacknowledged: 0,
            quick_left: config.quick,
            deadline: None,
            echo: None,
            owd: 0,
            ce: 0,
            last_marked: false,
            prior: 0,
            told: 0,
            delivered: 0,
        }
    }

    /// In-order payload bytes handed to the application.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The next segment expected.
    pub fn next_expected(&self) -> u32 {
        self.nxt
    }

    /// Something is missing below what has arrived.
    pub fn has_hole(&self) -> bool {
        !self.runs.is_empty()
    }

    /// When [`on_timer`](Self::on_timer) is due.
    pub fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// A data segment arrives; the acknowledgement to send, if one is due.
    pub fn on_data(&mut self, packet: &Packet, now: Time) -> Option<Packet> {
        let had_hole = self.has_hole();
        self.owd = now.nanos() as i64 - packet.sent.nanos() as i64;
        if packet.is_marked() {
            self.ce += packet.payload();
        }
        let changed = packet.is_marked() != self.last_marked;
        let short = self.config.short_of_change.then(|| self.before_change(changed, now)).flatten();
        let (next, edge) = (packet.seq == self.nxt, packet.seq <= self.nxt);
        let anomaly = self.store(packet) || had_hole || (changed && !self.config.short_of_change);
        self.last_marked = packet.is_marked();
        match self.config.echo {
            Echo::First => {
                self.echo.get_or_insert(packet.sent);
            }
            // TS.Recent: of what begins at or before the last acknowledgement.
            Echo::InOrder if next && self.unacknowledged == 0 => self.echo = Some(packet.sent),
            Echo::LeftEdge if edge => self.echo = Some(packet.sent),
            Echo::InOrder | Echo::LeftEdge => {}
        }
        self.unacknowledged += 1;
        let quick = self.quick_left > 0;
        self.quick_left = self.quick_left.saturating_sub(1);
        // At the end of the transfer the application closes too: its FIN carries the acknowledgement, no timer is waited for.
        if anomaly || quick || packet.fin || self.unacknowledged >= self.config.every {
            return Some(self.acknowledge(now));
        }
        self.deadline.get_or_insert(now + self.config.delay);
        short
    }

    /// The acknowledgement of what came before a change of marks, if any is held back.
    fn before_change(&mut self, changed: bool, now: Time) -> Option<Packet> {
        let prior = std::mem::replace(&mut self.prior, self.nxt);
        (changed && self.unacknowledged > 0).then(|| {
            let stored = std::mem::replace(&mut self.nxt, prior.max(self.told));
            let ack = self.acknowledge(now);
            self.nxt = stored;
            ack
        })
    }

    /// The delayed-acknowledgement timer.
    pub fn on_timer(&mut self, now: Time) -> Option<Packet> {
        (self.deadline? <= now).then(|| self.acknowledge(now))
    }

    /// Files the segment; whether it was a duplicate or out of order.
    fn store(&mut self, packet: &Packet) -> bool {
        let seq = packet.seq;
        if seq == self.nxt {
            self.nxt += 1;
            // Every segment but the last is full, so the held ones are too, unless the last one is among them.
            self.delivered += u64::from(packet.payload());
            if let Some(&(from, to)) = self.runs.first().filter(|run| run.0 == self.nxt) {
                self.delivered += u64::from(to - from) * u64::from(self.config.mss);
                self.nxt = to;
                self.runs.remove(0);
            }
            return false;
        }
        let at = self.runs.partition_point(|run| run.1 < seq);
        let held = self.runs.get(at).is_some_and(|run| run.0 <= seq && seq < run.1);
        if seq < self.nxt || held {
            self.duplicate = Some(seq);
            return true;
        }
        self.insert(at, seq);
        let place = self.recent.iter().position(|&r| self.same_run(r, seq)).unwrap_or(2);
        self.recent.copy_within(0..place, 1);
        self.recent[0] = seq;
        true
    }

    fn insert(&mut self, at: usize, seq: u32) {
        let touches_next = |run: &(u32, u32)| run.0 == seq + 1;
        match self.runs.get_mut(at) {
            Some(run) if run.1 == seq => {
                run.1 += 1;
                let end = run.1;
                if let Some(&(_, to)) = self.runs.get(at + 1).filter(|next| next.0 == end) {
                    self.runs[at].1 = to;
                    self.runs.remove(at + 1);
                }
            }
            Some(run) if touches_next(run) => run.0 = seq,
            _ => self.runs.insert(at, (seq, seq + 1)),
        }
    }

    fn run_of(&self, seq: u32) -> Option<(u32, u32)> {
        let at = self.runs.partition_point(|run| run.1 <= seq);
        self.runs.get(at).copied().filter(|run| run.0 <= seq)
    }

    fn same_run(&self, a: u32, b: u32) -> bool {
        self.run_of(a).is_some_and(|run| run.0 <= b && b < run.1)
    }

    fn acknowledge(&mut self, now: Time) -> Packet {
        let mut ack = Packet::new(self.flow, Kind::Ack, 0, now);
        ack.seq = self.nxt;
        ack.owd = self.owd;
        ack.ce = std::mem::take(&mut self.ce);
        if self.config.short_of_change {
            ack.ce = if self.last_marked { (self.nxt - self.told) * self.config.mss } else { 0 };
        }
        self.told = self.nxt;
        ack.echo = self.echo.unwrap_or(now);
        self.echo = self.echo.filter(|_| self.config.echo != Echo::First);
        ack.window = self.config.window();
        let blocks = if self.config.sack { self.blocks(&mut ack.sack) } else { 0 };
        ack.size = ack_size(blocks);
        self.duplicate = None;
        self.unacknowledged = 0;
        self.deadline = None;
        ack
    }

    /// The duplicate first (RFC 2883), then the runs reported most recently.
    fn blocks(&self, blocks: &mut [(u32, u32); 3]) -> u32 {
        let mut n = 0;
        if let Some(seq) = self.duplicate {
            blocks[0] = (seq, seq + 1);
            n = 1;
        }
        if self.runs.is_empty() {
            return n;
        }
        let first = n as usize;
        for run in self.recent.iter().filter_map(|&seq| self.run_of(seq)) {
            if (n as usize) < blocks.len() && !blocks[first..n as usize].contains(&run) {
                blocks[n as usize] = run;
                n += 1;
            }
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use lowtide_net::Ecn;

    use super::*;
    use crate::packet::TCP_HEADER;

    fn segment(seq: u32) -> Packet {
        Packet { seq, ..Packet::new(0, Kind::Data, 1448 + TCP_HEADER, Time::ZERO) }
    }

    fn receiver(every: u32, quick: u32) -> Receiver {
        Receiver::new(0, ReceiverConfig { every, quick, ..ReceiverConfig::linux(1448) })
    }

    #[test]
    fn every_second_segment_or_the_timer() {
        let mut r = receiver(2, 0);
        assert!(r.on_data(&segment(0), Time::from_millis(1)).is_none());
        assert_eq!(r.deadline(), Some(Time::from_millis(41)));
        assert_eq!(r.on_data(&segment(1), Time::from_millis(2)).map(|a| a.seq), Some(2));
        assert_eq!(r.deadline(), None);
        r.on_data(&segment(2), Time::from_millis(3));
        assert!(r.on_timer(Time::from_millis(42)).is_none());
        assert_eq!(r.on_timer(Time::from_millis(43)).map(|a| a.seq), Some(3));
    }

    #[test]
    fn the_end_of_a_transfer_waits_for_no_timer() {
        let mut r = receiver(2, 0);
        assert_eq!(r.on_data(&Packet { fin: true, ..segment(0) }, Time::ZERO).map(|a| a.seq), Some(1));
    }

    #[test]
    fn the_first_segments_are_acknowledged_at_once() {
        let mut r = receiver(2, 16);
        let acks = (0..32).filter(|&n| r.on_data(&segment(n), Time::ZERO).is_some()).count();
        assert_eq!(acks, 16 + 8);
    }

    #[test]
    fn the_newest_run_comes_first_and_a_filled_hole_is_told_at_once() {
        let mut r = receiver(2, 0);
        let sack = |r: &mut Receiver, n| r.on_data(&segment(n), Time::ZERO).expect("out of order").sack;
        assert_eq!(sack(&mut r, 1)[0], (1, 2));
        assert_eq!(sack(&mut r, 5)[..2], [(5, 6), (1, 2)]);
        assert_eq!(sack(&mut r, 2)[..2], [(1, 3), (5, 6)]);
        assert_eq!(sack(&mut r, 9), [(9, 10), (1, 3), (5, 6)]);
        assert_eq!(sack(&mut r, 5)[..2], [(5, 6), (9, 10)], "duplicate first, then the newest run");
        assert_eq!(r.on_data(&segment(0), Time::ZERO).map(|a| a.seq), Some(3));
        assert_eq!(r.delivered(), 3 * 1448);
    }

    /// Of segments that left at 1, 2, …: RFC 7323 §4.3's cases (A), (B) and (C).
    #[test]
    fn the_echo_in_order_is_that_of_the_first_segment_not_yet_acknowledged() {
        let config = ReceiverConfig { quick: 0, echo: Echo::InOrder, ..ReceiverConfig::linux(1448) };
        let mut r = Receiver::new(0, config);
        let at = |seq, ms| Packet { sent: Time::from_millis(ms), ..segment(seq) };
        assert!(r.on_data(&at(0, 1), Time::from_millis(9)).is_none());
        let echo = |r: &mut Receiver, seq, ms| r.on_data(&at(seq, ms), Time::from_millis(9)).map(|a| a.echo.nanos() / 1_000_000);
        assert_eq!(echo(&mut r, 1, 2), Some(1), "a delayed acknowledgement answers the earlier");
        assert_eq!(echo(&mut r, 3, 4), Some(1), "above a hole: the last in order");
        assert_eq!(echo(&mut r, 4, 5), Some(1));
        assert_eq!(echo(&mut r, 2, 8), Some(8), "what fills the hole");
    }

    /// As ns-2's sink: nothing above a hole is echoed, a duplicate below it is.
    #[test]
    fn the_echo_at_the_left_edge_takes_duplicates_too() {
        let config = ReceiverConfig { every: 1, echo: Echo::LeftEdge, ..ReceiverConfig::linux(1448) };
        let mut r = Receiver::new(0, config);
        let mut echo = |seq, ms| {
            let packet = Packet { sent: Time::from_millis(ms), ..segment(seq) };
            r.on_data(&packet, Time::from_millis(99)).map(|a| a.echo.nanos() / 1_000_000)
        };
        assert_eq!([echo(0, 1), echo(2, 3), echo(3, 4), echo(0, 7), echo(1, 9)], [1, 1, 1, 7, 9].map(Some));
    }

    /// A change of marks acknowledges at once, all marks by the byte; in ns-3 one segment short, and marked or not as a whole.
    #[test]
    fn a_change_of_marks_is_told_at_once_and_one_segment_short_in_ns3() {
        let acks = |short_of_change| {
            let mut r = Receiver::new(0, ReceiverConfig { quick: 0, short_of_change, ..ReceiverConfig::linux(1448) });
            let mut on = |seq, ce| {
                let ecn = if ce { Ecn::Ce } else { Ecn::Ect0 };
                r.on_data(&Packet { ecn, ..segment(seq) }, Time::ZERO).map(|a| (a.seq, a.ce / 1448))
            };
            [on(0, false), on(1, true), on(2, false), on(3, true), on(4, true)]
        };
        assert_eq!(acks(false), [None, Some((2, 1)), Some((3, 0)), Some((4, 1)), None]);
        assert_eq!(acks(true), [None, Some((0, 0)), Some((1, 1)), Some((2, 0)), Some((5, 3))]);
    }

    #[test]
    fn the_window_field_is_rounded_down_to_its_unit() {
        let config = ReceiverConfig { buffer: 100_000, scale: 14, ..ReceiverConfig::linux(1448) };
        let ack = Receiver::new(0, config).on_data(&segment(0), Time::ZERO).expect("quick");
        assert_eq!(ack.window, 6 * 16384);
    }
}
