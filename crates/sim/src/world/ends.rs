//! The ends of flows: what a packet does where it arrives, and what leaves after it or after a timer. Knows no links.

use lowtide_units::Time;

use super::World;
use crate::endpoint::SendingEnd;
use crate::event::Event;
use crate::packet::{Kind, Packet, Utp};
use crate::slab::Handle;
use crate::trace::Step;

impl World {
    /// A packet has come to the end of its path.
    pub(super) fn deliver(&mut self, handle: Handle, now: Time) {
        let id = handle.flow();
        let (packet, room) = self.slab.get_and_vacancy(&handle);
        self.sinks.packet(now, Step::Deliver, packet, None);
        let flow = &mut self.flows[id as usize];
        match packet.kind {
            Kind::Data => {
                let answers = flow.on_data(packet, now, room);
                self.slab.free(&handle);
                self.acknowledge(id, answers, now);
            }
            Kind::Ack | Kind::Utp(Utp { back: true, .. }) => {
                if flow.sender_timer.is_at(now) && flow.sender.as_ref().is_some_and(SendingEnd::timer_goes_first) {
                    self.sender_timer(id, now);
                }
                self.on_answer(handle, now);
            }
            _ => {
                let packet = *packet;
                self.slab.free(&handle);
                self.deliver_other(&packet, now);
            }
        }
    }

    /// An acknowledgement, or whatever uTP sends to the end that connected.
    fn on_answer(&mut self, handle: Handle, now: Time) {
        let id = handle.flow();
        let flow = &mut self.flows[id as usize];
        if let Some(sender) = &mut flow.sender {
            sender.on_packet(self.slab.get(&handle), now);
            if let Some(rtt) = sender.take_rtt() {
                flow.stats.rtt.add(rtt);
                flow.stats.last_rtt = Some(rtt);
            }
        }
        let connected = flow.sender.is_some();
        self.slab.free(&handle);
        if connected {
            self.send_all(id, now);
        }
    }

    /// What is no data of TCP and no acknowledgement.
    fn deliver_other(&mut self, packet: &Packet, now: Time) {
        let id = packet.flow;
        let flow = &mut self.flows[id as usize];
        match packet.kind {
            Kind::Utp(_) => match flow.on_utp(packet, now, self.slab.vacancy()) {
                Ok(answers) => self.acknowledge(id, answers, now),
                Err(error) => self.error = Some(error),
            },
            Kind::Syn => match flow.syn_ack(id, now) {
                Ok(answer) => self.send(&answer, now),
                Err(error) => self.error = Some(error),
            },
            Kind::SynAck => {
                self.error = flow.establish(id, packet.window, now).err();
                self.send_all(id, now);
            }
            Kind::Datagram => flow.on_datagram(packet, now),
            Kind::Data | Kind::Ack => {}
        }
    }

    pub(super) fn send_all(&mut self, id: u32, now: Time) {
        let flow = &mut self.flows[id as usize];
        self.sinks.sender(now, id, flow);
        flow.check_done(now);
        while let Some(sender) = &mut self.flows[id as usize].sender
            && sender.poll(now, self.slab.vacancy())
        {
            self.send_written(now);
        }
        let flow = &mut self.flows[id as usize];
        self.sinks.sender(now, id, flow);
        let deadline = flow.sender.as_ref().and_then(|sender| sender.deadline());
        if let Some(due) = flow.sender_timer.set(deadline) {
            self.events.schedule(due, Event::Sender(id));
        }
    }

    pub(super) fn sender_timer(&mut self, id: u32, now: Time) {
        let flow = &mut self.flows[id as usize];
        if !flow.sender_timer.take(now) {
            return;
        }
        if let Some(sender) = flow.sender.as_mut().filter(|sender| sender.deadline().is_some_and(|due| due <= now)) {
            sender.on_timer(now);
        }
        self.send_all(id, now);
    }

    /// The receiving end of flow `id` has acted; `answers`: it has written a packet, which leaves.
    #[inline]
    fn acknowledge(&mut self, id: u32, answers: bool, now: Time) {
        if answers {
            self.send_written(now);
        }
        let flow = &mut self.flows[id as usize];
        let deadline = flow.receiver.as_ref().and_then(|receiver| receiver.deadline());
        if let Some(due) = flow.receiver_timer.set(deadline) {
            self.events.schedule(due, Event::Receiver(id));
        }
    }

    pub(super) fn receiver_timer(&mut self, id: u32, now: Time) {
        let flow = &mut self.flows[id as usize];
        if flow.receiver_timer.take(now) {
            let answers = flow.on_receiver_timer(now, self.slab.vacancy());
            self.acknowledge(id, answers, now);
        }
    }
}
