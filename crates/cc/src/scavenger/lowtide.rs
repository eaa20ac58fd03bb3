//! Our own control: it holds a small queue, takes any larger one for somebody else's, leaves at once and comes back when a few packets have
//! found the line free. docs/algorithms/lowtide.md is its specification. Two forms: of a sender that paces, and of a receive window.

mod arithmetic;
mod bunches;
mod floor;
mod law;
mod parts;
mod probe;
mod receiver;
mod round_so_far;
mod signals;
mod spacing;
#[cfg(test)]
mod tests;
mod unevenness;

use lowtide_units::{Rate, Span};
use serde::Deserialize;

use crate::controller::{Controller, Recovery, Start};
use crate::events::{Ack, Cause, Congestion, Restart, Snapshot};
use crate::params::{ParamError, Params};
use arithmetic::{TIME_MAX, WINDOW_MAX, rate_of};
use floor::Floor;
use parts::{Part, Parts};
use probe::Probe;
use receiver::Receiving;
use signals::Signals;

/// There is nothing to set; mechanisms may be left out to measure what each is worth.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// The form of a receive window.
    receiver: bool,
    without: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    Law,
    Drain,
    Floor,
    Probe,
}

/// One flow. Windows in bytes, times in µs, rates in bytes a second.
#[derive(Debug)]
pub struct Lowtide {
    signals: Signals,
    state: State,
    window: u64,
    floor: Floor,
    probe: Probe,
    /// Our own growth may have built a queue that is seen before this.
    no_alarm_before: u64,
    calm: u32,
    calm_step: u64,
    /// Rounds in a row with a pause of the line.
    pauses: u32,
    saved: u64,
    drain_until: u64,
    parts: Parts,
    /// What only the form of a receive window knows.
    receiving: Option<Box<Receiving>>,
}

/// The registry's constructor.
///
/// # Errors
/// A parameter other than `without`, or a mechanism that it does not have.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    let Config { receiver, without } = params.read("lowtide")?;
    let mut flow = Lowtide::new(start, Parts::without(&without));
    if receiver {
        flow.become_receiver(start);
    }
    Ok(Box::new(flow))
}

impl Lowtide {
    fn new(start: &Start, parts: Parts) -> Lowtide {
        let signals = Signals::new(start);
        Lowtide {
            state: State::Start,
            // Two segments: ten at once would be a queue of 1.2 ms at 100 Mbit/s, which START would take for the line's end.
            window: 2 * signals.mss,
            floor: Floor::new(start.seed),
            probe: Probe::default(),
            no_alarm_before: 0,
            calm: 0,
            calm_step: 0,
            pauses: 0,
            saved: 0,
            drain_until: 0,
            parts,
            receiving: None,
            signals,
        }
    }

    fn has(&self, part: Part) -> bool {
        self.parts.has(part)
    }

    fn set_window(&mut self, bytes: u64) {
        self.window = bytes.clamp(2 * self.signals.mss, WINDOW_MAX);
    }

    /// Whether the RTT of `ack` is one of the queue. In the small windows of growth a lone segment's acknowledgement may have waited for a second.
    fn is_sample(&self, ack: &Ack) -> bool {
        let lone = ack.acked <= self.signals.mss && self.window < 24 * self.signals.mss;
        match self.state {
            State::Start | State::Probe => !lone || self.receiving.is_some(),
            State::Law => !self.has(Part::Stall) || !self.signals.met_a_stall(ack),
            State::Drain | State::Floor => true,
        }
    }

    fn act(&mut self, ack: &Ack, rtt: Option<u64>) {
        match (self.state, rtt) {
            (State::Start | State::Probe, _) => self.grow(ack),
            (State::Floor, Some(rtt)) => self.in_floor(ack, rtt),
            (State::Floor, None) => {}
            (State::Law, _) => self.watch(ack),
            (State::Drain, _) => self.in_drain(),
        }
    }
}

impl Controller for Lowtide {
    fn on_ack(&mut self, ack: &Ack) {
        self.note_arrival(ack);
        self.signals.observe(ack, self.state == State::Law && self.window > 8 * self.signals.mss);
        let rtt = ack.rtt.map(|rtt| (rtt.nanos() / 1000).clamp(1, TIME_MAX));
        if let Some(rtt) = rtt {
            self.signals.take_base(rtt);
            if self.is_sample(ack) {
                self.signals.take_rtt(rtt, self.window);
                let steady = matches!(self.state, State::Start | State::Law | State::Probe);
                if steady && self.receiving.is_none() && self.has(Part::Jitter) {
                    self.signals.watch_bunches(rtt);
                }
            }
        }
        if self.signals.base == 0 {
            return;
        }
        if matches!(self.state, State::Floor | State::Probe) && (ack.lost > 0 || ack.ce > 0) {
            self.floor.refuse_to_listen(self.signals.now);
        }
        if self.receiving.is_none() && (ack.lost > 0 || ack.ce > 0) {
            self.signals.forget_unevenness();
        }
        self.signals.measure_line(self.state == State::Law);
        self.act(ack, rtt);
        if self.signals.round_over(ack) {
            self.on_round(ack);
        }
        self.keep_to_what_is_used(ack);
    }

    /// A loss alone says nothing here: `Ack::lost` counts them by round. A timeout leaves one segment (RFC 5681 §3.1, RFC 6817 §2.4.2), from
    /// which it grows anew; FLOOR sends less than that already.
    fn on_congestion(&mut self, event: &Congestion) {
        if event.cause != Cause::Timeout || self.state == State::Floor {
            return;
        }
        if self.state != State::Start {
            self.begin_probe();
        }
        self.window = self.signals.mss;
    }

    fn on_mss(&mut self, mss: u32) {
        self.signals.on_mss(u64::from(mss).max(1));
    }

    fn on_restart(&mut self, _: &Restart) {
        self.after_a_pause();
    }

    fn edge_step(&self) -> Option<u64> {
        self.receiving.as_ref()?;
        // Growth by doubling needs two segments for one that arrived.
        Some(self.signals.mss * if matches!(self.state, State::Start | State::Probe) { 2 } else { 1 })
    }

    fn cwnd(&self) -> u64 {
        if self.state == State::Floor { self.floor_window().max(1) } else { self.window }
    }

    fn yields_to_others_only(&self) -> bool {
        true
    }

    /// Pairs at the floor are the host's to space.
    fn pacing_rate(&self) -> Option<Rate> {
        let s = &self.signals;
        let round_trip = if s.base == 0 { s.srtt } else { s.round_trip() + s.queue };
        // Growth must outrun the window's own round trip; beyond it a tenth lets the window, not the pace, decide.
        let percent = match self.state {
            State::Floor => return None,
            State::Start | State::Probe => 130,
            State::Law | State::Drain => 110,
        };
        Some(Rate::from_bps(rate_of(self.window, round_trip) * 8 / 100 * percent))
    }

    fn recovery(&self) -> Recovery {
        Recovery::Own
    }

    fn snapshot(&self) -> Snapshot {
        let span = |us: u64| Span::from_micros(us);
        let phase = match self.state {
            State::Start => "start",
            State::Law => "law",
            State::Drain => "drain",
            State::Floor => "floor",
            State::Probe => "probe",
        };
        Snapshot {
            cwnd: self.cwnd(),
            ssthresh: None,
            base_delay: (self.signals.base > 0).then(|| span(self.signals.base)),
            queueing_delay: (self.signals.base > 0).then(|| span(self.signals.queue)),
            phase,
        }
    }
}
