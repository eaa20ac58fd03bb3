//! rLEDBAT (RFC 9840, Bagnulo 2023): a TCP receiver that holds its sender back through the receive window. Sans I/O: the host
//! tells it of data that arrives and of segments that leave, and writes the window field it returns. The reference of what
//! `lowtide run` puts into the kernel (crates/kernel/bpf/receiver.h and path.h), and what the simulator runs.
//! docs/algorithms/receiver.md has the order of events.

mod flow;
mod group;
mod profile;
mod records;
mod way_back;

use lowtide_units::{Span, Time};

use crate::events::Snapshot;

pub use flow::{Flow, Report, RttRule};
pub use group::Group;
pub use profile::{PROFILES, Profile, build};
pub use way_back::{WayBack, since};

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

/// Whether `a` is later than `b` in the serial arithmetic of timestamps (RFC 7323 §5.2).
pub fn later(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// Linux TCP_RTO_MIN; twin of PATH_MIN_RTO_NS.
const MIN_RTO: Span = Span::from_millis(200);

/// The sender's retransmission timeout, 4 RTTVAR (RFC 6298 §2.3) taken for the RTT; twin of path_rto.
fn rto(srtt: Span) -> Span {
    srtt + srtt.max(MIN_RTO)
}

/// The receiver of a connection that shares its window with no other.
#[derive(Debug)]
pub struct Receiver {
    flow: Flow,
    group: Group,
}

impl Receiver {
    /// A connection and the group that it is alone in.
    pub fn new(flow: Flow, group: Group) -> Receiver {
        Receiver { flow, group }
    }

    /// A segment leaves that carries no data: the window field to show.
    pub fn on_outgoing(&mut self, out: &Outgoing) -> u16 {
        // Every segment is seen here: none needs counting.
        self.flow.on_outgoing(out, 0, false)
    }

    /// A segment arrives where `expected` is the next byte in order.
    pub fn on_segment(&mut self, segment: &Segment, expected: u32) {
        if let Some(report) = self.flow.on_segment(segment, expected) {
            self.group.on_report(&mut self.flow, report, segment.now);
        }
    }

    /// The window that is aimed at, in bytes.
    pub fn window(&self) -> u64 {
        self.group.window()
    }

    /// The smoothed RTT; zero before the first sample.
    pub fn srtt(&self) -> Span {
        self.group.srtt()
    }

    /// What the control shows.
    pub fn snapshot(&self) -> Snapshot {
        self.group.snapshot()
    }
}

#[cfg(test)]
mod tests;
