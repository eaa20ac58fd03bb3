//! A stage of a path: a link with a propagation delay behind it, or a delay alone. Knows packets, not flows or routes.

use std::collections::VecDeque;

use lowtide_net::queue::restart_if_empty;
use lowtide_units::{Span, Time};

use crate::link::Link;
use crate::service::HostJitter;
use crate::slab::Handle;

/// Packets under way, by arrival ([`Handle::at`]); one event pends for the first of them.
#[derive(Debug)]
pub struct Pipe {
    packets: VecDeque<Handle>,
    /// When that event comes; [`Time::MAX`]: none pends.
    pending: Time,
}

impl Default for Pipe {
    fn default() -> Pipe {
        Pipe { packets: VecDeque::new(), pending: Time::MAX }
    }
}

impl Pipe {
    /// `packet` arrives at `at`; the time to schedule, if no earlier event pends.
    #[inline]
    pub fn push(&mut self, at: Time, packet: Handle) -> Option<Time> {
        let packet = packet.timed(at);
        if self.packets.back().is_some_and(|last| last.at > at) {
            self.insert(packet);
        } else {
            self.packets.push_back(packet);
        }
        if self.pending <= at {
            return None;
        }
        self.pending = at;
        Some(at)
    }

    /// Puts `packet` before those that arrive later: reordering links only.
    #[cold]
    fn insert(&mut self, packet: Handle) {
        let place = self.packets.partition_point(|waiting| waiting.at <= packet.at);
        self.packets.insert(place, packet);
    }

    /// The next packet that has arrived by `now`.
    #[inline]
    pub fn pop(&mut self, now: Time) -> Option<Handle> {
        if self.packets.front()?.at > now {
            return None;
        }
        let packet = self.packets.pop_front();
        restart_if_empty(&mut self.packets);
        packet
    }

    /// After the arrivals of `now`: the time to schedule next.
    #[inline]
    pub fn rearm(&mut self, now: Time) -> Option<Time> {
        if self.pending > now {
            return None;
        }
        let next = self.packets.front().map(|front| front.at);
        self.pending = next.unwrap_or(Time::MAX);
        next
    }
}

/// One stage of a path.
pub struct Stage {
    /// The queue in front; none for a delay alone.
    pub link: Option<Link>,
    /// The delay of a stage without a link; a link's own delay is in its impairments.
    pub delay: Span,
    /// A host's jitter instead of that delay.
    jitter: Option<Box<HostJitter>>,
    /// What is under way behind it.
    pub pipe: Pipe,
}

impl Stage {
    /// A delay that holds any number of packets.
    pub fn delay(delay: Span) -> Stage {
        Stage { link: None, delay, jitter: None, pipe: Pipe::default() }
    }

    /// Packets waiting, being sent and under way.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.link.as_ref().map_or(0, Link::held) + self.pipe.packets.len()
    }

    /// A link.
    pub fn link(link: Link) -> Stage {
        Stage { link: Some(link), delay: Span::ZERO, jitter: None, pipe: Pipe::default() }
    }

    /// A host that holds each packet back a little.
    pub fn host(jitter: HostJitter) -> Stage {
        Stage { jitter: Some(Box::new(jitter)), ..Stage::delay(Span::ZERO) }
    }

    /// Whether it is the same delay for every packet.
    pub fn is_delay(&self) -> bool {
        self.link.is_none() && self.jitter.is_none()
    }

    /// When a packet that comes now is through a stage without a link.
    #[inline]
    pub fn through(&mut self, now: Time) -> Time {
        match &mut self.jitter {
            None => now + self.delay,
            Some(jitter) => jitter.leaves(now),
        }
    }
}
