//! A packet's way from endpoint to endpoint: stages, queues, transmitters. Knows no transport.

use lowtide_net::Fate;
use lowtide_units::Time;

use super::World;
use crate::event::Event;
use crate::link::{Departure, Link, QueueState};
use crate::packet::Packet;
use crate::slab::Handle;
use crate::trace::Step;

impl World {
    /// `packet` leaves its endpoint.
    #[inline]
    pub(super) fn send(&mut self, packet: &Packet, now: Time) {
        *self.slab.vacancy() = *packet;
        self.send_written(now);
    }

    /// Sends the packet that an endpoint has written into the slab's vacant place.
    #[inline]
    pub(super) fn send_written(&mut self, now: Time) {
        let packet = self.slab.vacancy();
        self.sinks.packet(now, Step::Send, packet, None);
        let begin = self.paths.begin(packet);
        let handle = self.slab.keep(self.link_header, begin, now);
        self.forward(handle, now);
    }

    /// Moves `packet` into the next stage of its path, or to its endpoint.
    #[inline]
    fn forward(&mut self, packet: Handle, now: Time) {
        match self.paths.stage(packet.next_stage()) {
            Some(stage) => self.enter(stage, packet, now),
            None => self.deliver(packet, now),
        }
    }

    /// `packet` comes to `stage`.
    fn enter(&mut self, stage: u16, packet: Handle, now: Time) {
        let packet = packet.advanced();
        let at = &mut self.stages[usize::from(stage)];
        let Some(link) = &mut at.link else {
            let through = at.through(now);
            if let Some(due) = at.pipe.push(through, packet) {
                self.events.schedule(due, Event::Arrive(u32::from(stage)));
            }
            return;
        };
        if let Some(turn) = link.take_turn() {
            if self.events.has_passed(turn) {
                self.events.count(turn);
                link.was_free(turn.at(), &mut self.dropped);
            } else {
                self.events.schedule_reserved(turn);
            }
        }
        let marks = self.sinks.marks(link);
        let free = link.enqueue(packet, now, &mut self.dropped);
        if self.sinks.watch() {
            self.sinks.queued(now, (self.slab.get(&packet), &packet), (stage, link.state()), marks, &self.dropped);
        }
        if !self.dropped.is_empty() {
            self.count_dropped(stage, now);
        }
        if free {
            self.transmit(stage, now);
        }
    }

    /// The transmitter of `stage` is free.
    fn transmit(&mut self, stage: u16, now: Time) {
        let at = &mut self.stages[usize::from(stage)];
        let Some(link) = &mut at.link else { return };
        if link.is_served() {
            return self.serve(stage, now);
        }
        let marks = self.sinks.marks(link);
        if let Some(Departure { left, free, packet }) = link.transmit(now, &mut self.dropped) {
            if self.sinks.watch() {
                self.sinks.left(now, self.slab.get(&packet), (stage, link.state()), marks);
            }
            let turn = self.events.reserve(free, Event::Free(u32::from(stage)));
            if link.may_rest() {
                link.rest(turn);
            } else {
                self.events.schedule_reserved(turn);
            }
            if !link.own {
                self.flows[packet.flow() as usize].stats.add_wait(now.since(packet.at));
            }
            if link.varies() {
                link.hold(left, packet);
            } else {
                self.travel(stage, packet, left);
            }
        }
        if !self.dropped.is_empty() {
            self.count_dropped(stage, now);
        }
    }

    /// A link with a service of its own (Wi-Fi, cellular) serves its queue.
    #[cold]
    fn serve(&mut self, stage: u16, now: Time) {
        let Some(link) = &mut self.stages[usize::from(stage)].link else { return };
        let (mut leaving, mut taken) = (std::mem::take(&mut self.leaving), Vec::new());
        let mut marks = self.sinks.marks(link);
        let (flows, watched) = (&mut self.flows, self.sinks.watch());
        let mut note = |packet: &Handle, state: QueueState| {
            flows[packet.flow() as usize].stats.add_wait(now.since(packet.at));
            if watched {
                taken.push((*packet, state));
            }
        };
        let again = link.serve(now, &mut self.dropped, &mut note, &mut leaving);
        for (packet, state) in &taken {
            self.sinks.left(now, self.slab.get(packet), (stage, *state), marks);
            marks = state.marks;
        }
        if let Some(again) = again {
            self.events.schedule(again, Event::Free(u32::from(stage)));
        }
        for packet in leaving.drain(..) {
            self.travel(stage, packet, now);
        }
        self.leaving = leaving;
        if !self.dropped.is_empty() {
            self.count_dropped(stage, now);
        }
    }

    /// `packet` leaves `stage` at `left`, which is certain now.
    #[inline]
    fn travel(&mut self, stage: u16, packet: Handle, left: Time) {
        let at = &mut self.stages[usize::from(stage)];
        let Some(link) = &mut at.link else { return };
        let Fate::Arrives { at: due, duplicate_at } = link.pass(left, &packet, &mut self.dropped) else { return };
        if let Some(due) = at.pipe.push(due, packet) {
            self.events.schedule(due, Event::Arrive(u32::from(stage)));
        }
        if let Some(due) = duplicate_at
            && let Some(due) = at.pipe.push(due, self.slab.duplicate(&packet))
        {
            self.events.schedule(due, Event::Arrive(u32::from(stage)));
        }
    }

    /// The transmitter of `stage` should be free.
    #[inline]
    pub(super) fn free(&mut self, stage: u16, now: Time) {
        if self.stages[usize::from(stage)].link.as_ref().is_some_and(Link::varies) {
            return self.free_varying(stage, now);
        }
        self.transmit(stage, now);
    }

    /// Unless the rate has changed meanwhile, the packet that was being sent has left and the next one may.
    #[cold]
    fn free_varying(&mut self, stage: u16, now: Time) {
        let Some(link) = &mut self.stages[usize::from(stage)].link else { return };
        let (is_free, held) = link.has_left(now);
        if let Some(packet) = held {
            self.travel(stage, packet, now);
        }
        if is_free {
            self.transmit(stage, now);
        }
    }

    pub(super) fn change_rate(&mut self, stage: u16, now: Time) {
        let Some(link) = &mut self.stages[usize::from(stage)].link else { return };
        if let Some(end) = link.change_rate(now) {
            self.events.schedule(end, Event::Free(u32::from(stage)));
        }
        if let Some(next) = link.next_change(now) {
            self.events.schedule(next, Event::Rate(u32::from(stage)));
        }
    }

    #[cold]
    fn count_dropped(&mut self, stage: u16, now: Time) {
        for (packet, reason) in self.dropped.drain(..) {
            self.flows[packet.flow() as usize].stats.drops += 1;
            if self.sinks.watch() {
                let link = self.stages[usize::from(stage)].link.as_ref();
                let at = link.map(|link| (stage, link.state()));
                self.sinks.packet(now, Step::Drop(reason), self.slab.get(&packet), at);
            }
            self.slab.free(&packet);
        }
    }

    /// What is under way behind `stage` arrives there.
    pub(super) fn arrive(&mut self, stage: u16, now: Time) {
        while let Some(packet) = self.stages[usize::from(stage)].pipe.pop(now) {
            self.forward(packet, now);
        }
        if let Some(due) = self.stages[usize::from(stage)].pipe.rearm(now) {
            self.events.schedule(due, Event::Arrive(u32::from(stage)));
        }
    }
}
