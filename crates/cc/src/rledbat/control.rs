//! What computes the window of a receiver: told of data, losses and pauses, it answers with bytes. Knows no sequence numbers
//! but those of [`Data`], no labels and no window field.

use lowtide_units::{Span, Time};

use crate::controller::Controller;
use crate::events::{Ack, Cause, Congestion, Restart};

/// What computes the window: LEDBAT++ of this crate, or the kernel's C code under test.
pub trait WindowControl: std::fmt::Debug {
    /// A segment with new data, after its RTT was taken.
    fn on_data(&mut self, data: &Data);
    /// A loss or a CE mark, at most one a window.
    fn on_loss(&mut self, now: Time, srtt: Span, in_flight: u64);
    /// Data again after a pause longer than `rto`.
    fn on_pause(&mut self, now: Time, idle: Span, rto: Span);
    /// The peer's segments are larger than thought.
    fn on_mss(&mut self, mss: u32);
    /// The window in bytes.
    fn window(&self) -> u64;
}

/// A segment with new data, as a window control sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Data {
    /// When it arrived.
    pub now: Time,
    /// Its bytes that are new.
    pub got: u64,
    /// Its RTT, if it gave one.
    pub rtt: Option<Span>,
    /// The receiver's own smoothed RTT; zero before the first sample.
    pub srtt: Span,
    /// How long a segment takes at the bottleneck; zero before the first pair.
    pub segment_time: Span,
    /// Bytes that were permitted and had not arrived before it.
    pub in_flight: u64,
    /// The window was the limit within the last RTT.
    pub limited: bool,
    /// No more than two segments of permission are left: the flight of before a reduction has arrived.
    pub drained: bool,
    /// Where it ends, and the right edge on the wire: a round ends when a segment passes the edge of its start.
    pub end: u64,
    /// The largest edge shown.
    pub edge: u64,
}

/// Any congestion control can drive a receive window.
impl<C: Controller + ?Sized> WindowControl for Box<C> {
    fn on_data(&mut self, data: &Data) {
        // Growth asks for a limiting window here also in slow start.
        let flight = if data.limited { data.in_flight } else { data.in_flight.min(self.cwnd() / 2) };
        self.on_ack(&Ack {
            now: data.now,
            acked: data.got,
            in_flight: flight,
            rtt: data.rtt,
            srtt: data.srtt,
            segment_time: data.segment_time,
            delivered: data.edge,
            prior_delivered: data.end,
            cwnd_limited: data.limited,
            drained: data.drained,
            ..Ack::default()
        });
    }

    fn on_loss(&mut self, now: Time, srtt: Span, in_flight: u64) {
        self.on_congestion(&Congestion { now, cause: Cause::Loss, lost: 0, in_flight, srtt });
    }

    fn on_pause(&mut self, now: Time, idle: Span, rto: Span) {
        self.on_restart(&Restart { now, idle, rto });
    }

    fn on_mss(&mut self, mss: u32) {
        Controller::on_mss(&mut **self, mss);
    }

    fn window(&self) -> u64 {
        self.cwnd()
    }
}
