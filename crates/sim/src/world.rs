//! The event loop: moves packets along their stages and wakes the endpoints. Knows no scenario, only stages and flows.

mod ends;
mod path;

use lowtide_cc::ParamError;
use lowtide_net::Drop;
use lowtide_units::{Span, Time};

use crate::engine::Events;
use crate::event::Event;
use crate::flow::{App, Flow, FlowSpec};
use crate::paths::Paths;
use crate::slab::{Handle, Slab};
use crate::stage::Stage;
use crate::trace::TraceSinks;

/// Who looks at the world at even intervals.
pub trait Observer {
    /// It is `now`; everything up to now has happened.
    fn sample(&mut self, now: Time, flows: &[Flow], stages: &[Stage]);
}

/// What carries the packets.
pub struct Network {
    /// Stages of all paths.
    pub stages: Vec<Stage>,
    /// Bytes of link header that queues count per packet.
    pub link_header: u32,
}

/// A network and its flows.
pub struct World {
    events: Events<Event>,
    paths: Paths,
    /// Stages of all paths.
    pub stages: Vec<Stage>,
    /// All flows.
    pub flows: Vec<Flow>,
    slab: Slab,
    link_header: u32,
    dropped: Vec<(Handle, Drop)>,
    /// Room for what leaves a link at once.
    leaving: Vec<Handle>,
    error: Option<ParamError>,
    /// Who is shown every packet.
    pub sinks: TraceSinks,
}

impl World {
    /// A world at time zero.
    pub fn new(network: Network, flows: Vec<FlowSpec>) -> World {
        let Network { stages, link_header } = network;
        let mut events = Events::new();
        for (n, flow) in flows.iter().enumerate() {
            events.schedule(flow.start, Event::Begin(n as u32));
        }
        let paths = Paths::of(&flows);
        let flows = flows.into_iter().map(Flow::new).collect();
        World {
            events,
            paths,
            stages,
            flows,
            slab: Slab::default(),
            link_header,
            dropped: Vec::new(),
            leaving: Vec::new(),
            error: None,
            sinks: TraceSinks::default(),
        }
    }

    /// Events so far, those too that were left out because they would have changed nothing.
    pub fn events(&self) -> u64 {
        self.events.handled()
    }

    /// Runs from the beginning to `end`; `observer` looks every `interval`, and at `measure_from` the measurement starts afresh.
    ///
    /// # Errors
    /// Parameters that an algorithm refuses.
    pub fn run(&mut self, end: Time, measure_from: Time, interval: Span, observer: &mut dyn Observer) -> Result<(), ParamError> {
        if interval > Span::ZERO {
            self.events.schedule(Time::ZERO + interval, Event::Sample);
        }
        for (stage, at) in self.stages.iter().enumerate() {
            if let Some(change) = at.link.as_ref().and_then(|link| link.next_change(Time::ZERO)) {
                self.events.schedule(change, Event::Rate(stage as u32));
            }
        }
        self.advance(measure_from.min(end), interval, observer)?;
        if measure_from > Time::ZERO {
            self.start_measuring(measure_from);
        }
        self.advance(end, interval, observer)?;
        for link in self.stages.iter_mut().filter_map(|stage| stage.link.as_mut()) {
            link.finish(end);
            if let Some(turn) = link.turn().filter(|turn| turn.at() <= end) {
                self.events.count(turn);
            }
        }
        Ok(())
    }

    fn advance(&mut self, end: Time, interval: Span, observer: &mut dyn Observer) -> Result<(), ParamError> {
        while let Some(event) = self.events.next(end) {
            let now = self.events.now();
            match event {
                Event::Sample => {
                    observer.sample(now, &self.flows, &self.stages);
                    self.events.schedule(now + interval, Event::Sample);
                }
                other => self.handle(other, now),
            }
            if let Some(error) = self.error.take() {
                return Err(error);
            }
        }
        Ok(())
    }

    fn start_measuring(&mut self, now: Time) {
        for link in self.stages.iter_mut().filter_map(|stage| stage.link.as_mut()) {
            link.start_measuring(now);
        }
        for flow in &mut self.flows {
            flow.stats.delivered_before = flow.delivered();
            flow.stats.retransmits_before = flow.sender_stats().retransmits;
            flow.stats.drops = 0;
            flow.stats.rtt = Default::default();
        }
    }

    fn handle(&mut self, event: Event, now: Time) {
        match event {
            Event::Free(stage) => self.free(stage as u16, now),
            Event::Rate(stage) => self.change_rate(stage as u16, now),
            Event::Arrive(stage) => self.arrive(stage as u16, now),
            Event::Begin(flow) => self.begin(flow, now),
            Event::End(flow) => {
                if let Some(sender) = &mut self.flows[flow as usize].sender {
                    sender.stop();
                }
            }
            Event::App(flow) => self.application(flow, now),
            Event::Syn(flow) => self.handshake(flow, now),
            Event::Sender(flow) => self.sender_timer(flow, now),
            Event::Receiver(flow) => self.receiver_timer(flow, now),
            Event::Sample => {}
        }
    }

    fn begin(&mut self, id: u32, now: Time) {
        let flow = &mut self.flows[id as usize];
        if flow.spec.stop < Time::MAX {
            self.events.schedule(flow.spec.stop, Event::End(id));
        }
        match flow.spec.app {
            App::Datagrams { .. } => return self.application(id, now),
            App::OnOff { .. } => self.application(id, now),
            App::Bulk | App::Bytes(_) => {}
        }
        self.handshake(id, now);
    }

    fn handshake(&mut self, id: u32, now: Time) {
        let flow = &mut self.flows[id as usize];
        if flow.sender.is_some() || flow.stats.completed.is_some() || now >= flow.spec.stop {
            return;
        }
        if let Some(config) = flow.spec.utp {
            self.error = flow.connect(id, config, now).err();
            return self.send_all(id, now);
        }
        if !flow.spec.wire.handshake {
            self.error = flow.open(id, now).err();
            return self.send_all(id, now);
        }
        let (syn, again) = flow.syn(id, now);
        self.events.schedule(again, Event::Syn(id));
        self.send(&syn, now);
    }

    fn application(&mut self, id: u32, now: Time) {
        let flow = &mut self.flows[id as usize];
        if now >= flow.spec.stop {
            return;
        }
        if let Some((packet, next)) = flow.datagram(id, now) {
            self.events.schedule(next, Event::App(id));
            return self.send(&packet, now);
        }
        if let Some(next) = flow.act(now) {
            self.events.schedule(next, Event::App(id));
            self.send_all(id, now);
        }
    }
}

#[cfg(test)]
mod tests;
