//! One flow seen by its receiver (RFC 9840): RTT and loss from what arrives, and the window field that never moves the right edge to the
//! left. The reference of crates/kernel/bpf/receiver.h; docs/algorithms/receiver.md has the order of events. Knows no window control.

use lowtide_units::{Span, Time};

use super::records::Records;
use super::{Outgoing, Segment, later, rto, since};

/// A smaller packet is serialised faster than a full one; twin of RX_SAMPLE_BYTES.
const SAMPLE_BYTES: u64 = 512;
/// Packet pairs that the time of a segment is averaged over; twin of RX_PAIRS.
const PAIRS: u64 = 16;
/// A pair further apart than this is none; twin of RX_LABEL_NS.
const PAIR_GAP: Span = Span::from_secs(2);
/// A flow's floor in segments; twin of RX_MIN_SEGMENTS.
const MIN_SEGMENTS: u64 = 2;
/// Segments above a hole that make it a loss where there are no timestamps.
const DUPLICATES: u64 = 3;

/// How an RTT is read off what was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RttRule {
    /// A segment cannot have left before the first acknowledgement that permitted it arrived, nor before the first with the
    /// TSval it echoes: exact while the window is the limit, one sample a segment.
    #[default]
    Edge,
    /// Bagnulo 2023, Fig. 2: from the first packet with a TSval to the first segment that echoes it, once a TSval; not of
    /// acknowledgements that moved no edge.
    FirstEcho,
}

/// What an incoming segment says, or several that are reported as one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// The RTT sample.
    pub rtt: Option<Span>,
    /// When the segment was permitted.
    pub sent: Option<Time>,
    /// Of the sample, the way of the data in ns, its zero the difference of the clocks; none without timestamps.
    pub there: Option<i64>,
    /// An RTT, or how long the peer had nothing to send; only where the way back is left out.
    pub paused: Span,
    /// New bytes.
    pub got: u64,
    /// A loss that begins an episode.
    pub lost: bool,
    /// A CE mark that begins one.
    pub marked: bool,
    /// Any CE mark.
    pub ce: bool,
    /// The window was used to its end, and it was ours.
    pub limited: bool,
    /// What was permitted before a reduction has arrived.
    pub drained: bool,
}

/// A connection's receiver.
#[derive(Debug)]
pub struct Flow {
    pub(super) mss: u64,
    most: u64,
    largest: u64,
    scale: u8,
    timestamps: bool,
    rule: RttRule,
    /// The newest TSval whose first echo has come (`FirstEcho`).
    echoed: Option<u32>,
    /// The unwrapped position of the last acknowledgement number, and its low 32 bits.
    near: u64,
    edge: Option<u64>,
    last_ack: Option<u64>,
    segments_out: u32,
    records: Records,
    highest: Option<(u64, u32)>,
    hole: Option<Time>,
    recover: Option<u64>,
    samples_after: Time,
    /// When the last silence ended.
    resumed: Time,
    last_data: Option<Time>,
    pair: Option<(u64, u32)>,
    pub(super) segment_time: Span,
    /// The group's, as of the last report.
    pub(super) srtt: Span,
    /// Bytes it may have in flight.
    pub(super) window: u64,
    pub(super) epoch: u32,
    pub(super) slowdown: u32,
    /// By how much more than what has arrived the edge may move on one acknowledgement, where the control says so; then also across holes.
    pub(super) step: Option<u64>,
    /// The group tells a server that stalls from a queue on the way back.
    pub(super) way_back: bool,
    /// New bytes since the last acknowledgement left, and in all, as a position.
    arrived: u64,
    received: Option<u64>,
    reported: Option<Time>,
    pending: (u64, Option<(Span, Option<i64>)>, bool, Span),
}

impl Flow {
    /// A connection established `now`, whose peer was told to send at most `most` bytes a segment.
    pub fn new(now: Time, mss: u32, most: u32, scale: u8, timestamps: bool) -> Flow {
        Flow {
            mss: u64::from(mss),
            most: u64::from(most),
            largest: 0,
            scale,
            timestamps,
            rule: RttRule::Edge,
            echoed: None,
            near: 1 << 40,
            edge: None,
            last_ack: None,
            segments_out: 0,
            records: Records::default(),
            highest: None,
            hole: None,
            recover: None,
            samples_after: now,
            resumed: now,
            last_data: None,
            pair: None,
            segment_time: Span::ZERO,
            srtt: Span::ZERO,
            window: MIN_SEGMENTS * u64::from(mss),
            epoch: 0,
            slowdown: 0,
            step: None,
            way_back: false,
            arrived: 0,
            received: None,
            reported: None,
            pending: (0, None, false, Span::ZERO),
        }
    }

    /// The same with RTTs by `rule`.
    #[must_use]
    pub fn with_rtts_by(self, rule: RttRule) -> Flow {
        Flow { rule, ..self }
    }

    /// Bytes it may have in flight.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Sets them, for hosts that have them from elsewhere.
    pub fn set_window(&mut self, bytes: u64) {
        self.window = bytes;
    }

    pub(super) fn has_timestamps(&self) -> bool {
        self.timestamps
    }

    /// Its floor in bytes.
    pub fn floor(&self) -> u64 {
        MIN_SEGMENTS * self.mss
    }

    fn unwrap(&self, seq: u32) -> u64 {
        self.near.wrapping_add_signed(i64::from(seq.wrapping_sub(self.near as u32) as i32))
    }

    /// A segment leaves, after `before` others of the connection: the window field to show. Never above the host's, zero only where
    /// that is, and no edge to the left of one shown.
    pub fn on_outgoing(&mut self, out: &Outgoing, before: u32, data: bool) -> u16 {
        if self.last_ack.is_none() && self.highest.is_none() {
            self.near = (1 << 40) + u64::from(out.ack);
        }
        let ack = self.unwrap(out.ack);
        self.near = self.near.max(ack);
        let host = ack + (u64::from(out.field) << self.scale);
        let unseen = self.edge.is_some() && before.wrapping_sub(self.segments_out) as i32 > 0;
        if self.edge.is_none() || unseen {
            // What has left unseen may have shown as much as the host itself.
            self.records.restart(self.edge.is_none() && before <= 1);
            self.edge = Some(self.edge.map_or(host, |edge| edge.max(host)));
            self.segments_out = before;
        }
        if (before + 1).wrapping_sub(self.segments_out) as i32 > 0 {
            self.segments_out = before + 1;
        }
        let edge = self.edge.unwrap_or(host);
        let by_host = ack + self.window > host;
        let duplicate = self.last_ack == Some(ack) && self.highest.is_some_and(|(end, _)| end > ack);
        let field = if host < edge {
            out.field
        } else {
            let want = match self.step {
                Some(step) => self.step_to(ack, edge, step),
                None if duplicate => edge,
                None => ack + self.window,
            };
            let units = (want.max(edge).min(host) - ack).div_ceil(1 << self.scale);
            (units.min(u64::from(out.field)) as u16).max(u16::from(out.field > 0))
        };
        let edge = edge.max(ack + (u64::from(field) << self.scale));
        self.edge = Some(edge);
        self.last_ack = Some(ack);
        self.records.push(out.tsval.unwrap_or_default(), edge, out.now, by_host, data);
        field
    }

    /// What lies above a hole has left the path: the edge moves on, but never by a burst.
    fn step_to(&mut self, ack: u64, edge: u64, step: u64) -> u64 {
        let held = self.received.map_or(0, |received| received.saturating_sub(ack));
        (ack + held + self.window).min(edge.max(ack) + std::mem::take(&mut self.arrived) + step)
    }

    /// A segment arrives where `expected` is the next byte in order. None if it is old, or nothing that the peer may have sent.
    pub fn on_segment(&mut self, segment: &Segment, expected: u32) -> Option<Report> {
        if self.last_ack.is_none() && self.highest.is_none() {
            self.near = (1 << 40) + u64::from(expected);
        }
        let expected = self.unwrap(expected);
        self.near = self.near.max(expected);
        let start = expected.wrapping_add_signed(i64::from(segment.seq.wrapping_sub(expected as u32) as i32));
        let end = start + u64::from(segment.len);
        let (tsval, tsecr) = segment.timestamps.unwrap_or_default();
        let echoed = if self.timestamps { self.records.echoed(tsecr) } else { None };
        if end <= expected || !self.is_plausible(start, end, expected, echoed.is_some()) {
            return None;
        }
        let now = segment.now;
        if u64::from(segment.wire) <= self.most {
            self.largest = self.largest.max(u64::from(segment.wire));
        }
        self.mss = self.mss.max(self.largest);
        self.recover = self.recover.filter(|recover| expected < *recover);
        if self.srtt > Span::ZERO && self.last_data.is_some_and(|at| now.since(at) > self.srtt * 2) && !self.was_held_back(end, now) {
            self.resumed = now;
        }
        let mut report = Report { ce: segment.ce && (!self.timestamps || echoed.is_some()), ..Report::default() };
        let retransmitted = self.is_retransmission(now, start, tsval, echoed.is_some());
        if retransmitted {
            self.samples_after = now;
        } else {
            self.measure(segment, start, end, expected, echoed, &mut report);
            self.note_pair(segment, start, end, tsecr);
        }
        // Before the first segment of ours there is no edge to tell a window of data by, nor what has been drained.
        if let Some(edge) = self.edge
            && (retransmitted || report.ce)
            && self.recover.is_none_or(|recover| start >= recover)
        {
            self.recover = Some(edge);
            (report.lost, report.marked) = (retransmitted, !retransmitted);
        }
        report.got = self.advance(now, start, end, expected, tsval);
        report.drained = self.edge.is_some_and(|edge| edge <= end + self.floor() + (1 << self.scale));
        self.last_data = Some(now);
        Some(report)
    }

    /// Whether the silence before a segment was ours: it was permitted after the last one had arrived. At a floor of one segment each waits for a
    /// delayed acknowledgement. A silence longer than the sender's timer is a pause all the same.
    fn was_held_back(&self, end: u64, now: Time) -> bool {
        let age = self.records.permitting(end).and_then(|at| self.records.age(at, now));
        self.step.is_some() && age.zip(self.last_data).is_some_and(|(age, last)| age < now.since(last) && age <= rto(self.srtt))
    }

    fn highest_or(&self, expected: u64) -> u64 {
        self.highest.map_or(expected, |(end, _)| end.max(expected))
    }

    fn is_plausible(&self, start: u64, end: u64, expected: u64, echoed: bool) -> bool {
        let edge = self.edge.unwrap_or(expected + (u64::from(u16::MAX) << self.scale));
        end <= edge && (!self.timestamps || echoed || start <= self.highest_or(expected))
    }

    /// RFC 9840 §4.3, and within a tick of the TSval clock, or without timestamps, by the age of the hole.
    fn is_retransmission(&self, now: Time, start: u64, tsval: u32, echoed: bool) -> bool {
        let Some((highest, highest_tsval)) = self.highest.filter(|(end, _)| start < *end) else { return false };
        let ripe = self.hole.is_some_and(|since| now.since(since) > self.srtt / 2);
        if !self.timestamps {
            return ripe && highest - start > DUPLICATES * self.mss;
        }
        echoed && (later(tsval, highest_tsval) || (tsval == highest_tsval && ripe))
    }

    fn measure(&mut self, segment: &Segment, start: u64, end: u64, expected: u64, echoed: Option<usize>, report: &mut Report) {
        let permitted = self.records.permitting(end);
        let at = if self.timestamps {
            let Some((index, label)) = echoed.and_then(|index| Some((index, self.records.first_with_its_tsval(index)?))) else { return };
            report.limited = end + self.mss > label.edge && !label.by_host;
            if label.data && !report.limited {
                return;
            }
            permitted.map(|permitted| permitted.max(index))
        } else if start > self.highest_or(expected) {
            return;
        } else {
            permitted.filter(|permitted| *permitted > 0)
        };
        let Some(age) = at.and_then(|at| self.records.age(at, segment.now)) else { return };
        let sent = segment.now - age;
        report.sent = Some(sent);
        let wire = u64::from(segment.wire);
        if sent <= self.samples_after || wire < SAMPLE_BYTES || wire < self.largest - self.largest / 4 {
            return;
        }
        if sent <= self.resumed {
            if self.way_back && self.timestamps && report.limited {
                report.paused = age;
            }
        } else {
            report.rtt = match self.rule {
                RttRule::Edge => Some(age),
                RttRule::FirstEcho => echoed.and_then(|index| self.first_echo(index, segment)),
            };
            if report.rtt.is_some() {
                report.there = segment.timestamps.filter(|_| self.timestamps).map(|(tsval, _)| since(segment.now, tsval));
            }
        }
    }

    /// The RTT that the first echo of a TSval gives, whose first record is at `index`.
    fn first_echo(&mut self, index: usize, segment: &Segment) -> Option<Span> {
        let (_, tsecr) = segment.timestamps?;
        if self.echoed.is_some_and(|before| !later(tsecr, before)) {
            return None;
        }
        self.echoed = Some(tsecr);
        self.records.moved_edge(index).then(|| self.records.age(index, segment.now)).flatten()
    }

    fn note_pair(&mut self, segment: &Segment, start: u64, end: u64, tsecr: u32) {
        let whole = segment.len == segment.wire && u64::from(segment.wire) >= self.largest - self.largest / 4;
        if let Some(at) = self.last_data
            && self.timestamps
            && whole
            && self.pair == Some((start, tsecr))
            && segment.now.since(at) < PAIR_GAP
        {
            let (gap, old) = (segment.now.since(at), self.segment_time);
            self.segment_time = if old == Span::ZERO { gap } else { old - old / PAIRS + gap / PAIRS };
        }
        self.pair = Some((end, tsecr));
    }

    /// The bytes that are new, as far as that is known without a list of what arrived above a hole.
    fn advance(&mut self, now: Time, start: u64, end: u64, expected: u64, tsval: u32) -> u64 {
        let (mut highest, mut highest_tsval) = self.highest.unwrap_or((expected, 0));
        if self.highest.is_none() || expected >= highest {
            (highest, self.hole) = (expected, None);
        }
        if start > highest {
            self.hole.get_or_insert(now);
        }
        let from = start.max(if end >= highest { highest } else { expected });
        self.arrived += end - from;
        self.received = Some(self.received.unwrap_or(expected).max(expected) + (end - from));
        if end >= highest {
            (highest, highest_tsval) = (end, tsval);
        }
        self.highest = Some((highest, highest_tsval));
        end - from
    }

    /// Adds to what is pending; gives all of it if a report is due: after `interval`, at once with a loss or a mark.
    pub(super) fn collect(&mut self, mut report: Report, now: Time, interval: Span) -> Option<Report> {
        let (got, rtt, limited, paused) = &mut self.pending; // Of the samples the least counts.
        *got += report.got;
        if let Some(new) = report.rtt.filter(|new| rtt.is_none_or(|(least, _)| *new < least)) {
            *rtt = Some((new, report.there));
        }
        *limited |= report.limited;
        *paused = report.paused.max(*paused);
        if self.reported.is_some_and(|at| now.since(at) < interval) && !report.lost && !report.marked {
            return None;
        }
        let (got, sample, limited, paused) = std::mem::take(&mut self.pending);
        (report.got, report.rtt, report.there) = (got, sample.map(|s| s.0), sample.and_then(|s| s.1));
        (report.limited, report.paused) = (limited, paused);
        self.reported = Some(now);
        Some(report)
    }
}
