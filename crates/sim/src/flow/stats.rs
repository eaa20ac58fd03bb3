//! What is measured of a flow. Knows no packet and no end.

use lowtide_units::histogram::Histogram;
use lowtide_units::{Span, Time};

use crate::sender_stats::SenderStats;

/// What is measured of a flow.
#[derive(Clone, Debug, Default)]
pub struct FlowStats {
    /// RTT samples.
    pub rtt: Histogram,
    /// The last of them.
    pub last_rtt: Option<Span>,
    /// Packets dropped on the way.
    pub drops: u64,
    /// Time its packets have waited in queues that flows share, summed, and over how many of them.
    pub waited: (Span, u64),
    /// In-order payload bytes when the measurement began.
    pub delivered_before: u64,
    /// Segments sent again when the measurement began.
    pub retransmits_before: u64,
    /// When everything was acknowledged.
    pub completed: Option<Time>,
    /// Smoothed difference of successive transit times (RFC 3550 §6.4.1), ns.
    pub jitter: f64,
    last_transit: Option<i64>,
    /// Datagram bytes received, and their delays.
    pub datagram_bytes: u64,
    /// Payload bytes in order, kept when the endpoints are gone.
    pub delivered: u64,
    /// Counters of the sender, kept likewise.
    pub sender: SenderStats,
}

impl FlowStats {
    /// One of its packets has waited so long in a queue that flows share.
    #[inline]
    pub fn add_wait(&mut self, wait: Span) {
        self.waited = (self.waited.0 + wait, self.waited.1 + 1);
    }

    /// A datagram has been under way so long: the jitter of RFC 3550 §6.4.1.
    pub(super) fn add_transit(&mut self, transit: Span) {
        let transit = transit.nanos() as i64;
        if let Some(last) = self.last_transit {
            self.jitter += ((transit - last).abs() as f64 - self.jitter) / 16.0;
        }
        self.last_transit = Some(transit);
    }

    /// One-way delay of the datagram that arrived last.
    pub fn last_transit(&self) -> Option<Span> {
        self.last_transit.map(|ns| Span::from_nanos(ns as u64))
    }
}
