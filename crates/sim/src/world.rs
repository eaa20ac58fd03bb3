//! The event loop: moves packets along their stages and wakes the endpoints. Knows no scenario, only stages and flows.

use lowtide_cc::ParamError;
use lowtide_net::{Drop, Fate};
use lowtide_units::{Span, Time};

use crate::endpoint::SendingEnd;
use crate::engine::Events;
use crate::event::Event;
use crate::flow::{App, Flow, FlowSpec};
use crate::link::Stage;
use crate::packet::{Kind, Packet};
use crate::paths::Paths;
use crate::trace::{Step, TraceSinks};

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
    link_header: u32,
    dropped: Vec<(Packet, Drop)>,
    /// Room for what leaves a link at once.
    leaving: Vec<Packet>,
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
            link_header,
            dropped: Vec::new(),
            leaving: Vec::new(),
            error: None,
            sinks: TraceSinks::default(),
        }
    }

    /// Events handled so far.
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
            Event::Free(stage) => self.free(stage, now),
            Event::Rate(stage) => self.change_rate(stage, now),
            Event::Arrive(stage) => self.arrive(stage, now),
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
        self.forward(syn, now);
    }

    fn application(&mut self, id: u32, now: Time) {
        let flow = &mut self.flows[id as usize];
        if now >= flow.spec.stop {
            return;
        }
        if let Some((packet, next)) = flow.datagram(id, now) {
            self.events.schedule(next, Event::App(id));
            return self.forward(packet, now);
        }
        if let Some(next) = flow.act(now) {
            self.events.schedule(next, Event::App(id));
            self.send_all(id, now);
        }
    }

    /// Moves `packet` into the next stage of its path, or to its endpoint.
    fn forward(&mut self, mut packet: Packet, now: Time) {
        if packet.hop == 0 {
            self.sinks.packet(now, Step::Send, &packet, None);
        }
        let Some(stage) = self.paths.stage(&packet) else { return self.deliver(packet, now) };
        packet.hop += 1;
        packet.link_header = self.link_header;
        let at = &mut self.stages[usize::from(stage)];
        match &mut at.link {
            Some(link) => {
                let before = self.sinks.before(&packet, link);
                let free = link.enqueue(packet, now, &mut self.dropped);
                if let Some(before) = before {
                    self.sinks.queued(now, before, (stage, link), &self.dropped);
                }
                self.count_drops(stage, now);
                if free {
                    self.transmit(u32::from(stage), now);
                }
            }
            None => {
                let through = at.through(now);
                if let Some(due) = at.pipe.push(through, packet) {
                    self.events.schedule(due, Event::Arrive(u32::from(stage)));
                }
            }
        }
    }

    fn transmit(&mut self, stage: u32, now: Time) {
        let at = &mut self.stages[stage as usize];
        let Some(link) = &mut at.link else { return };
        if link.is_served() {
            return self.serve(stage, now);
        }
        let marks = self.sinks.marks(link);
        if let Some((left, free, packet)) = link.transmit(now, &mut self.dropped) {
            self.sinks.left(now, &packet, (stage as u16, link), marks);
            self.events.schedule(free, Event::Free(stage));
            if !link.own {
                let waited = &mut self.flows[packet.flow as usize].stats.waited;
                *waited = (waited.0 + now.since(packet.queued), waited.1 + 1);
            }
            if let Some(packet) = link.hold(left, packet) {
                self.travel(stage, packet, left);
            }
        }
        self.count_drops(stage as u16, now);
    }

    /// A link that is no wire has its turn.
    fn serve(&mut self, stage: u32, now: Time) {
        let Some(link) = &mut self.stages[stage as usize].link else { return };
        let (mut leaving, mut taken) = (std::mem::take(&mut self.leaving), Vec::new());
        let marks = self.sinks.marks(link);
        let (flows, watched) = (&mut self.flows, !self.sinks.0.is_empty());
        let mut note = |packet: &Packet| {
            let waited = &mut flows[packet.flow as usize].stats.waited;
            *waited = (waited.0 + now.since(packet.queued), waited.1 + 1);
            if watched {
                taken.push(*packet);
            }
        };
        let again = link.serve(now, &mut self.dropped, &mut note, &mut leaving);
        for packet in &taken {
            self.sinks.left(now, packet, (stage as u16, link), marks);
        }
        if let Some(again) = again {
            self.events.schedule(again, Event::Free(stage));
        }
        for packet in leaving.drain(..) {
            self.travel(stage, packet, now);
        }
        self.leaving = leaving;
        self.count_drops(stage as u16, now);
    }

    /// `packet` leaves `stage` at `left`, which is certain now.
    fn travel(&mut self, stage: u32, packet: Packet, left: Time) {
        let at = &mut self.stages[stage as usize];
        let Some(link) = &mut at.link else { return };
        if let Fate::Arrives { at: due, duplicate_at } = link.pass(left, &packet, &mut self.dropped) {
            for due in [Some(due), duplicate_at].into_iter().flatten() {
                if let Some(due) = at.pipe.push(due, packet) {
                    self.events.schedule(due, Event::Arrive(stage));
                }
            }
        }
    }

    /// A transmitter should be free: unless its rate has changed meanwhile, it goes on.
    fn free(&mut self, stage: u32, now: Time) {
        let Some(link) = &mut self.stages[stage as usize].link else { return };
        let (is_free, held) = link.has_left(now);
        if let Some(packet) = held {
            self.travel(stage, packet, now);
        }
        if is_free {
            self.transmit(stage, now);
        }
    }

    fn change_rate(&mut self, stage: u32, now: Time) {
        let Some(link) = &mut self.stages[stage as usize].link else { return };
        if let Some(end) = link.change_rate(now) {
            self.events.schedule(end, Event::Free(stage));
        }
        if let Some(next) = link.next_change(now) {
            self.events.schedule(next, Event::Rate(stage));
        }
    }

    fn count_drops(&mut self, stage: u16, now: Time) {
        if !self.dropped.is_empty() {
            self.count_dropped(stage, now);
        }
    }

    #[cold]
    fn count_dropped(&mut self, stage: u16, now: Time) {
        for (packet, reason) in self.dropped.drain(..) {
            self.flows[packet.flow as usize].stats.drops += 1;
            let link = self.stages[usize::from(stage)].link.as_ref();
            self.sinks.packet(now, Step::Drop(reason), &packet, link.map(|link| (stage, link)));
        }
    }

    fn arrive(&mut self, stage: u32, now: Time) {
        while let Some(packet) = self.stages[stage as usize].pipe.pop(now) {
            self.forward(packet, now);
        }
        if let Some(due) = self.stages[stage as usize].pipe.rearm(now) {
            self.events.schedule(due, Event::Arrive(stage));
        }
    }

    fn deliver(&mut self, packet: Packet, now: Time) {
        let id = packet.flow;
        self.sinks.packet(now, Step::Deliver, &packet, None);
        let flow = &mut self.flows[id as usize];
        match packet.kind {
            Kind::Data => {
                let ack = flow.on_data(&packet, now);
                self.acknowledge(id, ack, now);
            }
            Kind::Utp(utp) if !utp.back => match flow.on_utp(&packet, now) {
                Ok(answer) => self.acknowledge(id, answer, now),
                Err(error) => self.error = Some(error),
            },
            Kind::Ack | Kind::Utp(_) => {
                if flow.timers[0] == now && flow.sender.as_ref().is_some_and(SendingEnd::timer_goes_first) {
                    self.sender_timer(id, now);
                }
                let flow = &mut self.flows[id as usize];
                let Some(sender) = &mut flow.sender else { return };
                sender.on_packet(&packet, now);
                if let Some(rtt) = sender.take_rtt() {
                    flow.stats.rtt.add(rtt);
                    flow.stats.last_rtt = Some(rtt);
                }
                self.send_all(id, now);
            }
            Kind::Syn => match flow.syn_ack(id, now) {
                Ok(answer) => self.forward(answer, now),
                Err(error) => self.error = Some(error),
            },
            Kind::SynAck => {
                self.error = flow.establish(id, packet.window, now).err();
                self.send_all(id, now);
            }
            Kind::Datagram => flow.on_datagram(&packet, now),
        }
    }

    fn send_all(&mut self, id: u32, now: Time) {
        let flow = &mut self.flows[id as usize];
        self.sinks.sender(now, id, flow);
        flow.check_done(now);
        while let Some(packet) = self.flows[id as usize].sender.as_mut().and_then(|sender| sender.poll(now)) {
            self.forward(packet, now);
        }
        let flow = &mut self.flows[id as usize];
        self.sinks.sender(now, id, flow);
        let due = flow.sender.as_ref().and_then(|sender| sender.deadline());
        if let Some(due) = due.filter(|&due| due < flow.timers[0]) {
            flow.timers[0] = due;
            self.events.schedule(due, Event::Sender(id));
        }
    }

    fn sender_timer(&mut self, id: u32, now: Time) {
        let flow = &mut self.flows[id as usize];
        if flow.timers[0] != now {
            return;
        }
        flow.timers[0] = Time::MAX;
        if let Some(sender) = flow.sender.as_mut().filter(|sender| sender.deadline().is_some_and(|due| due <= now)) {
            sender.on_timer(now);
        }
        self.send_all(id, now);
    }

    fn acknowledge(&mut self, id: u32, ack: Option<Packet>, now: Time) {
        if let Some(ack) = ack {
            self.forward(ack, now);
        }
        let flow = &mut self.flows[id as usize];
        let due = flow.receiver.as_ref().and_then(|receiver| receiver.deadline());
        if let Some(due) = due.filter(|&due| due < flow.timers[1]) {
            flow.timers[1] = due;
            self.events.schedule(due, Event::Receiver(id));
        }
    }

    fn receiver_timer(&mut self, id: u32, now: Time) {
        let flow = &mut self.flows[id as usize];
        if flow.timers[1] != now {
            return;
        }
        flow.timers[1] = Time::MAX;
        let ack = flow.on_receiver_timer(now);
        self.acknowledge(id, ack, now);
    }
}
