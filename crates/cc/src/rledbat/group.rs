//! The flows of one group to one remote address: one window control for all of them, each active flow an equal part of its window
//! (docs/group-window.md). The reference of crates/kernel/bpf/path.h; docs/algorithms/receiver.md has the order of events. Knows no segment.

use lowtide_units::{Span, Time};

use super::flow::{Flow, Report};
use super::rto;
use super::way_back::WayBack;
use crate::controller::Controller;
use crate::events::{Ack, Cause, Congestion, Restart, Snapshot};

/// A flow that received nothing for this many RTTs has no part of the window; twin of PATH_EPOCH_RTTS.
const EPOCH_RTTS: u64 = 2;
/// Twin of PATH_MIN_EPOCH_NS.
const MIN_EPOCH: Span = Span::from_millis(10);
/// A window of a path that makes no queue; twin of PATH_FLOOR_SEGMENTS.
const FLOOR_SEGMENTS: u64 = 8;
/// Bytes that one event may acknowledge; twin of CONTROL_MAX_ACKED.
const MAX_ACKED: u64 = 1 << 20;

/// Flows that share a window.
#[derive(Debug)]
pub struct Group {
    control: Box<dyn Controller>,
    /// How far apart a flow's reports are at least.
    interval: Span,
    mss: u64,
    srtt: Span,
    last_data: Option<Time>,
    last_loss: Option<Time>,
    round_end: Time,
    used: [u64; 2],
    limited: [bool; 2],
    epoch: u32,
    epoch_end: Time,
    active: [u32; 2],
    drained: u32,
    slowdowns: u32,
    /// Where a queue on the way back is no part of the delays that the control is told.
    way_back: Option<WayBack>,
    /// How much of the smoothed RTT is that queue.
    behind: Span,
}

impl Group {
    /// A group whose flows report at most once an `interval`.
    pub fn new(control: Box<dyn Controller>, mss: u32, interval: Span) -> Group {
        Group {
            control,
            interval,
            mss: u64::from(mss),
            srtt: Span::ZERO,
            last_data: None,
            last_loss: None,
            round_end: Time::ZERO,
            used: [0; 2],
            limited: [false; 2],
            epoch: 0,
            epoch_end: Time::ZERO,
            active: [0; 2],
            drained: 0,
            slowdowns: 0,
            way_back: None,
            behind: Span::ZERO,
        }
    }

    /// The same; a queue on the way back is no part of the delays that the control is told.
    #[must_use]
    pub fn without_the_way_back(self) -> Group {
        Group { way_back: Some(WayBack::default()), ..self }
    }

    /// The window of all flows together, bytes.
    pub fn window(&self) -> u64 {
        self.control.cwnd()
    }

    /// What the control shows.
    pub fn snapshot(&self) -> Snapshot {
        self.control.snapshot()
    }

    /// The smoothed RTT.
    pub fn srtt(&self) -> Span {
        self.srtt
    }

    /// Flows that share the window.
    pub fn flows(&self) -> u32 {
        self.active[0].max(self.active[1]).max(1)
    }

    /// A segment of `flow` said `report`. True unless it is kept for the next one.
    pub fn on_report(&mut self, flow: &mut Flow, report: Report, now: Time) -> bool {
        let Some(report) = flow.collect(report, now, self.interval) else { return false };
        if flow.mss > self.mss {
            self.mss = flow.mss;
            self.control.on_mss(self.mss as u32);
        }
        self.notice_pause(now);
        self.count(flow, now);
        self.follow(report.paused);
        let rtt = report.rtt.map(|rtt| {
            self.srtt = if self.srtt == Span::ZERO { rtt } else { self.srtt - self.srtt / 8 + rtt / 8 };
            let behind = self.queue_on_the_way_back(now, rtt, report.there);
            self.behind = self.behind - self.behind / 8 + behind / 8;
            rtt - behind
        });
        let sent = report.sent.unwrap_or(if now.nanos() > 2 * self.srtt.nanos() { now - self.srtt * 2 } else { Time::ZERO });
        self.next_round(flow, &report, now, sent);
        let in_flight = self.used[0].max(self.used[1]);
        let stepping = self.control.edge_step().is_some();
        let avoiding = stepping || self.control.snapshot().phase == "avoidance";
        let ack = Ack {
            now,
            acked: report.got.min(MAX_ACKED),
            lost: if stepping && report.lost { report.got.min(MAX_ACKED) } else { 0 },
            ce: if report.ce { report.got.min(MAX_ACKED) } else { 0 },
            in_flight,
            rtt,
            srtt: self.srtt,
            way_back: self.behind,
            segment_time: flow.segment_time,
            delivered: now.nanos(),
            prior_delivered: sent.nanos(),
            // Slow start would overshoot an unused window by two rounds' growth: there the last round does not count.
            cwnd_limited: self.limited[0] || (self.limited[1] && avoiding),
            drained: self.is_drained(flow, report.drained),
            ..Ack::default()
        };
        self.congestion(&report, now, in_flight);
        // What a reduction begins with.
        let reduced = if stepping { "floor" } else { "drain" };
        let before = self.control.snapshot().phase;
        self.control.on_ack(&ack);
        if before != reduced && self.control.snapshot().phase == reduced {
            self.slowdowns += 1;
            self.drained = 0;
        }
        self.last_data = Some(self.last_data.map_or(now, |at| at.max(now)));
        flow.window = (self.control.cwnd() / u64::from(self.flows())).max(flow.mss);
        flow.srtt = self.srtt;
        flow.step = self.control.edge_step();
        flow.way_back = self.way_back.is_some();
        true
    }

    /// A round trip that may have been a pause of the peer: at most twice the smoothed RTT of it counts, so that one pause moves that by an
    /// eighth, and a rise that lasts is followed within some tens of samples. Only where the filter knows the peer's clock: it takes a pause
    /// out of the samples that a longer smoothed RTT lets pass.
    fn follow(&mut self, paused: Span) {
        if self.way_back.as_ref().is_some_and(WayBack::knows_the_clock) {
            self.srtt = self.srtt + (paused - paused.min(self.srtt)).min(self.srtt) / 8;
        }
    }

    fn queue_on_the_way_back(&mut self, now: Time, rtt: Span, there: Option<i64>) -> Span {
        let at_the_floor = self.control.cwnd() <= FLOOR_SEGMENTS * self.mss;
        let (srtt, doubts) = (self.srtt, self.control.yields_to_others_only());
        self.way_back.as_mut().map_or(Span::ZERO, |way_back| {
            let queue = way_back.queue(now, rtt, there);
            way_back.of_others(now, queue, at_the_floor, srtt, doubts)
        })
    }

    fn notice_pause(&mut self, now: Time) {
        let (idle, rto) = (self.last_data.map_or(Span::ZERO, |at| now.since(at)), rto(self.srtt));
        if self.srtt > Span::ZERO && idle > rto {
            self.control.on_restart(&Restart { now, idle, rto });
        }
    }

    /// Counts the flows that receive: those of the last whole epoch, or of this one if they are more by now.
    fn count(&mut self, flow: &mut Flow, now: Time) {
        let length = (self.srtt * EPOCH_RTTS).max(MIN_EPOCH);
        if now >= self.epoch_end {
            self.active = [0, if now < self.epoch_end + length { self.active[0] } else { 0 }];
            self.epoch += 1;
            self.epoch_end = now + length;
        }
        if flow.epoch != self.epoch {
            flow.epoch = self.epoch;
            self.active[0] += 1;
        }
    }

    /// A round ends with the first segment that was permitted after it began. Without timestamps one that used the window to within two
    /// segments counts as limited.
    fn next_round(&mut self, flow: &Flow, report: &Report, now: Time, sent: Time) {
        if sent >= self.round_end {
            self.round_end = now;
            self.used = [0, self.used[0]];
            self.limited = [false, self.limited[0]];
        }
        self.used[0] += report.got;
        self.limited[0] |=
            if flow.has_timestamps() { report.limited } else { self.used[0].max(self.used[1]) + 2 * self.mss >= self.control.cwnd() };
    }

    /// A flow whose data of before the reduction has arrived counts once per slowdown; the group has drained when all flows have.
    fn is_drained(&mut self, flow: &mut Flow, drained: bool) -> bool {
        if drained && flow.slowdown != self.slowdowns {
            flow.slowdown = self.slowdowns;
            self.drained += 1;
        }
        self.drained >= self.flows()
    }

    /// At most one reaction an RTT for all flows together.
    fn congestion(&mut self, report: &Report, now: Time, in_flight: u64) {
        if !(report.lost || report.marked) || self.last_loss.is_some_and(|at| now < at + self.srtt) {
            return;
        }
        self.last_loss = Some(now);
        let cause = if report.lost { Cause::Loss } else { Cause::Ecn };
        self.control.on_congestion(&Congestion { now, cause, lost: 0, in_flight, srtt: self.srtt });
    }
}
