//! rLEDBAT (RFC 9840, Bagnulo 2023): a TCP receiver that holds its sender back through the receive window. Sans I/O: the host
//! tells it of data that arrives and acknowledgements that leave, and writes the window field it returns. How large the window
//! shall be is the business of a [`WindowControl`]; no packet, no checksum, no clock is known here.

mod control;
mod flow;
mod group;
mod labels;
mod profile;
mod received;
mod records;

use lowtide_units::{Span, Time};
use serde::Deserialize;

pub use control::{Data, WindowControl};
pub use flow::{Flow, Report};
pub use group::Group;
use labels::Labels;
pub use labels::{RttRule, later};
pub use profile::{PROFILES, Profile, build};
use received::Received;

/// Parameters of the receiver itself; those of its window control are the control's own.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How RTTs are read off timestamps.
    pub rtt: RttRule,
}

/// A segment with payload that arrived; merged packets (GRO) as one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// When it arrived.
    pub now: Time,
    /// Its sequence number.
    pub seq: u32,
    /// Its payload in bytes.
    pub len: u32,
    /// The payload of one packet on the wire (`len` unless merged).
    pub wire: u32,
    /// TSval and TSecr, where the connection has timestamps.
    pub timestamps: Option<(u32, u32)>,
    /// It was marked CE.
    pub ce: bool,
}

/// A segment that leaves with an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outgoing {
    /// When it leaves.
    pub now: Time,
    /// Its acknowledgement number.
    pub ack: u32,
    /// The window field as the host's own flow control wrote it.
    pub field: u16,
    /// Its TSval.
    pub tsval: Option<u32>,
}

/// Windows stay below this, as TCP windows do (RFC 7323 §2.3).
const MAX_WINDOW: u64 = (1 << 30) - 1;
/// A pause is one round trip and at least this (RFC 6298's usual floor in practice, Linux TCP_RTO_MIN).
const MIN_PAUSE: Span = Span::from_millis(200);
/// Packet pairs that the time of a segment is averaged over.
const PAIR_MEMORY: u64 = 16;
/// Segments above a hole that make it a loss where there are no timestamps.
const DUPLICATES: u64 = 3;

/// One connection's receiver.
#[derive(Debug)]
pub struct Receiver<W> {
    config: Config,
    control: W,
    mss: u64,
    scale: u8,
    /// Unwrapping reference; none before the first packet.
    near: Option<u64>,
    received: Received,
    last_ack: u64,
    edge: u64,
    labels: Labels,
    /// TSval of the segment that carried the highest byte.
    highest_tsval: Option<u32>,
    recover: u64,
    /// Labels that left before this say nothing: a retransmission was seen.
    labels_from: Time,
    srtt: Span,
    /// The last segment, for packet pairs: when it came, where it ended, what it echoed.
    before: Option<(Time, u64, u32)>,
    segment_time: Span,
    round_edge: u64,
    round_bytes: u64,
    /// When a segment last used its permission to the end.
    used_at: Option<Time>,
    host_limits: bool,
    last_arrival: Option<Time>,
}

impl<W: WindowControl> Receiver<W> {
    /// A receiver for a connection whose windows are scaled by 2^`scale`.
    pub fn new(config: Config, control: W, mss: u32, scale: u8) -> Receiver<W> {
        Receiver {
            config,
            control,
            mss: u64::from(mss),
            scale: scale.min(14),
            near: None,
            received: Received::default(),
            last_ack: 0,
            edge: 0,
            labels: Labels::default(),
            highest_tsval: None,
            recover: 0,
            labels_from: Time::ZERO,
            srtt: Span::ZERO,
            before: None,
            segment_time: Span::ZERO,
            round_edge: 0,
            round_bytes: 0,
            used_at: None,
            host_limits: false,
            last_arrival: None,
        }
    }

    /// The window that is aimed at, in bytes.
    pub fn window(&self) -> u64 {
        self.control.window().min(MAX_WINDOW)
    }

    /// What computes the window.
    pub fn control(&self) -> &W {
        &self.control
    }

    /// The receiver's smoothed RTT; zero before the first sample.
    pub fn srtt(&self) -> Span {
        self.srtt
    }

    /// A window of `bytes` was shown beyond `ack` before this object saw the connection (its SYN): a debt, paid with data.
    pub fn already_shown(&mut self, ack: u32, bytes: u32) {
        let ack = self.unwrap(ack);
        self.edge = self.edge.max(ack + u64::from(bytes));
    }

    /// The position of a 32-bit sequence number nearest to the last one seen.
    fn unwrap(&mut self, seq: u32) -> u64 {
        let Some(near) = self.near else {
            let first = (1 << 32) + u64::from(seq);
            self.near = Some(first);
            self.received = Received::starting_at(first);
            (self.last_ack, self.edge, self.recover, self.round_edge) = (first, first, first, first);
            return first;
        };
        near.saturating_add_signed(i64::from(seq.wrapping_sub(near as u32) as i32))
    }

    /// An acknowledgement leaves: the window field to write (docs/algorithms/receiver.md). Never above the host's own, never moving the right edge to
    /// the left, zero only where the host's is.
    pub fn on_outgoing(&mut self, out: &Outgoing) -> u16 {
        let ack = self.unwrap(out.ack);
        let kernel = ack + (u64::from(out.field) << self.scale);
        let duplicate = ack == self.last_ack && self.received.something_missing();
        let want = if duplicate { self.edge } else { ack + self.window() };
        self.host_limits = kernel < want;
        let field = if kernel < self.edge {
            out.field
        } else {
            let edge = self.edge.max(want).min(kernel);
            let units = (edge - ack.min(edge)).div_ceil(1 << self.scale);
            units.max(u64::from(out.field > 0)).min(u64::from(out.field)) as u16
        };
        let shown = ack + (u64::from(field) << self.scale);
        let advanced = shown > self.edge;
        self.edge = self.edge.max(shown);
        self.last_ack = self.last_ack.max(ack);
        self.near = Some(self.last_ack);
        self.received.acknowledged(ack);
        self.labels.push(out.tsval, self.edge, out.now, advanced);
        field
    }

    /// Data arrives (docs/algorithms/receiver.md).
    pub fn on_segment(&mut self, segment: &Segment) {
        if segment.len == 0 {
            return;
        }
        if u64::from(segment.wire) > self.mss {
            self.mss = u64::from(segment.wire);
            self.control.on_mss(segment.wire);
        }
        let start = self.unwrap(segment.seq);
        let end = start + u64::from(segment.len);
        if end <= self.received.next() {
            return; // Entirely old: a spurious timeout or a lost acknowledgement, no loss.
        }
        let lost = self.is_retransmission(segment, start);
        self.notice_pause(segment.now, lost);
        let rtt = if lost { None } else { self.sample(segment, end) };
        self.note_pair(segment, start, end);
        self.note_use(segment, end);
        let in_flight = self.edge.saturating_sub(self.received.next());
        self.note_highest(segment, end);
        let got = self.received.take(segment.now, start, end);
        self.next_round(segment.now, end, got);
        if lost {
            self.labels_from = segment.now;
        }
        if lost || segment.ce {
            if start >= self.recover {
                self.recover = self.edge;
                self.control.on_loss(segment.now, self.srtt, in_flight);
            }
            return;
        }
        if got > 0 {
            self.control.on_data(&Data {
                now: segment.now,
                got,
                rtt,
                srtt: self.srtt,
                segment_time: self.segment_time,
                in_flight,
                limited: !self.host_limits && self.used_at.is_some_and(|at| segment.now.since(at) <= self.srtt),
                drained: self.edge.saturating_sub(self.received.next()) <= 2 * self.mss,
                end,
                edge: self.edge,
            });
        }
    }

    /// RFC 9840 §4.3: below the highest byte and sent after it. Within one tick of the TSval clock, and without timestamps, the age of
    /// the hole decides.
    fn is_retransmission(&self, segment: &Segment, start: u64) -> bool {
        if start >= self.received.highest() {
            return false;
        }
        let hole = self.received.hole_at(start);
        let old = hole.is_some_and(|(since, _)| segment.now.since(since) > self.srtt / 2);
        match (segment.timestamps, self.highest_tsval) {
            (Some((tsval, _)), Some(highest)) => later(tsval, highest) || (tsval == highest && old),
            _ => old && hole.is_some_and(|(_, above)| above >= DUPLICATES * self.mss),
        }
    }

    /// Silence drains the queue. Silence before a retransmission was the sender's timeout: its labels are void.
    fn notice_pause(&mut self, now: Time, lost: bool) {
        let rto = self.srtt + self.srtt.max(MIN_PAUSE);
        let idle = self.last_arrival.map_or(Span::ZERO, |last| now.since(last));
        self.last_arrival = Some(now);
        // Before the first RTT nothing is a pause: on a long path the round trip itself would be, and void every label.
        if self.srtt == Span::ZERO || idle <= rto {
            return;
        }
        self.labels.clear();
        if !lost {
            self.control.on_pause(now, idle, rto);
        }
    }

    fn sample(&mut self, segment: &Segment, end: u64) -> Option<Span> {
        let rtt = self.labels.rtt(self.config.rtt, segment.now, end, segment.timestamps.map(|(_, tsecr)| tsecr))?;
        if segment.now - rtt < self.labels_from {
            return None;
        }
        self.srtt = if self.srtt == Span::ZERO { rtt } else { self.srtt - self.srtt / 8 + rtt / 8 };
        Some(rtt)
    }

    /// Two segments that one ACK released arrive as far apart as the bottleneck sent them.
    fn note_pair(&mut self, segment: &Segment, start: u64, end: u64) {
        let Some((_, tsecr)) = segment.timestamps else { return };
        let whole = segment.len == segment.wire && u64::from(segment.wire) >= self.mss - self.mss / 4;
        if let Some((at, ended, echoed)) = self.before.replace((segment.now, end, tsecr))
            && whole
            && (ended, echoed) == (start, tsecr)
        {
            let gap = segment.now.since(at);
            let old = self.segment_time;
            self.segment_time = if old == Span::ZERO { gap } else { old - old / PAIR_MEMORY + gap / PAIR_MEMORY };
        }
    }

    /// Whether the segment used the permission it had when it left to within a segment, give or take a tick of its label.
    fn note_use(&mut self, segment: &Segment, end: u64) {
        let used = segment.timestamps.is_some_and(|(_, tsecr)| self.labels.edge_of(tsecr).is_some_and(|edge| end + self.mss > edge));
        if used {
            self.used_at = Some(segment.now);
        }
    }

    fn note_highest(&mut self, segment: &Segment, end: u64) {
        if end > self.received.highest() {
            self.highest_tsval = segment.timestamps.map(|(tsval, _)| tsval);
        }
    }

    /// Without timestamps a round that used the window to within two segments counts as limited.
    fn next_round(&mut self, now: Time, end: u64, got: u64) {
        self.round_bytes += got;
        if end <= self.round_edge {
            return;
        }
        if self.highest_tsval.is_none() && self.round_bytes + 2 * self.mss >= self.window() {
            self.used_at = Some(now);
        }
        (self.round_edge, self.round_bytes) = (self.edge, 0);
    }
}

#[cfg(test)]
mod tests;
