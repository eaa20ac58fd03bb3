//! A stage of a path: a queue with a transmitter and a propagation delay behind it, or a delay alone. Keeps what is measured
//! at it. Knows packets, not flows or routes.

use std::collections::VecDeque;

use lowtide_net::{Drop, Fate, Impairments, Packet as _, Queue, RateTrace, Transmitter};
use lowtide_units::histogram::Histogram;
use lowtide_units::{Rate, Span, Time};

use crate::packet::Packet;
use crate::service::{HostJitter, Service};

/// Packets under way, by arrival; one event pends for the first of them.
#[derive(Debug, Default)]
pub struct Pipe {
    packets: VecDeque<(Time, Packet)>,
    pending: Option<Time>,
}

impl Pipe {
    /// `packet` arrives at `at`; the time to schedule, if no earlier event pends.
    pub fn push(&mut self, at: Time, packet: Packet) -> Option<Time> {
        let mut place = self.packets.len();
        // Only reordering links walk here.
        while place > 0 && self.packets[place - 1].0 > at {
            place -= 1;
        }
        if place == self.packets.len() {
            self.packets.push_back((at, packet));
        } else {
            self.packets.insert(place, (at, packet));
        }
        if self.pending.is_some_and(|pending| pending <= at) {
            return None;
        }
        self.pending = Some(at);
        Some(at)
    }

    /// The next packet that has arrived by `now`.
    pub fn pop(&mut self, now: Time) -> Option<Packet> {
        if self.packets.front()?.0 > now {
            return None;
        }
        self.packets.pop_front().map(|(_, packet)| packet)
    }

    /// After the arrivals of `now`: the time to schedule next.
    pub fn rearm(&mut self, now: Time) -> Option<Time> {
        if self.pending.is_some_and(|pending| pending > now) {
            return None;
        }
        self.pending = self.packets.front().map(|front| front.0);
        self.pending
    }
}

/// What is measured at a queue, from the end of the warm-up on.
#[derive(Clone, Debug, Default)]
pub struct QueueStats {
    /// Waiting times, transmission not included.
    pub delay: Histogram,
    /// Bytes that left.
    pub sent: u64,
    /// Packets dropped by the queue, and lost behind it.
    pub drops: u64,
    /// The most bytes that waited.
    pub max_bytes: u64,
    /// Bytes waiting, summed over the packets that came: the mean that an arrival sees.
    pub at_enqueue: u128,
    /// Packets that came.
    pub arrivals: u64,
    /// Byte × ns.
    integral: u128,
    since: Time,
    last: Time,
}

impl QueueStats {
    fn tick(&mut self, now: Time, bytes: u64) {
        self.integral += u128::from(bytes) * u128::from(now.since(self.last).nanos());
        self.last = now;
    }

    /// Bytes waiting, averaged over time up to the last change.
    pub fn mean_bytes(&self) -> f64 {
        let span = self.last.since(self.since).nanos();
        if span == 0 { 0.0 } else { self.integral as f64 / span as f64 }
    }
}

/// A queue, its transmitter and what lies behind.
pub struct Link {
    queue: Box<dyn Queue<Packet>>,
    transmitter: Transmitter,
    impairments: Impairments,
    /// The depth of a token bucket as time at the line rate; none: a wire, which serialises.
    bucket_depth: Option<Span>,
    busy: bool,
    /// One sender's own: waiting here is waiting in the host.
    pub own: bool,
    /// What is measured here.
    pub stats: QueueStats,
    marks_before: u64,
    /// Where the rate changes over time.
    varying: Option<Box<Varying>>,
    /// What serves the queue of a link that is no wire.
    service: Option<Box<Service>>,
}

/// A rate that changes, and the packet being sent, whose end moves with it.
struct Varying {
    trace: RateTrace,
    sending: Option<(Time, Packet)>,
}

impl Link {
    /// An idle link.
    pub fn new(queue: Box<dyn Queue<Packet>>, rate: Rate, impairments: Impairments) -> Link {
        Link {
            queue,
            transmitter: Transmitter::new(rate),
            impairments,
            busy: false,
            own: false,
            stats: QueueStats::default(),
            marks_before: 0,
            varying: None,
            service: None,
            bucket_depth: None,
        }
    }

    /// This link as a token bucket (HTB, tbf, dummynet) that saves up `burst` bytes: what its packets owe to the rate, the next one waits for.
    #[must_use]
    pub fn into_token_bucket(self, burst: u32) -> Link {
        Link { bucket_depth: Some(self.rate().time_for(u64::from(burst))), ..self }
    }

    /// The link with a rate that follows `trace` from time zero on.
    pub fn following(mut self, trace: RateTrace) -> Link {
        self.transmitter = Transmitter::new(trace.rate_at(Time::ZERO));
        self.varying = Some(Box::new(Varying { trace, sending: None }));
        self
    }

    /// The link with `service` in the transmitter's place.
    #[must_use]
    pub fn served_by(self, service: Service) -> Link {
        Link { service: Some(Box::new(service)), ..self }
    }

    /// Whether it is no wire: it is then [served](Self::serve) instead of transmitting.
    #[inline]
    pub fn is_served(&self) -> bool {
        self.service.is_some()
    }

    /// The mean of the rate from `from` to `to`.
    pub fn capacity(&self, from: Time, to: Time) -> Rate {
        if let Some(service) = &self.service {
            return service.capacity(from, to);
        }
        self.varying.as_ref().map_or(self.rate(), |varying| varying.trace.mean_between(from, to))
    }

    /// When the rate changes next, if ever.
    pub fn next_change(&self, now: Time) -> Option<Time> {
        self.varying.as_ref()?.trace.next_change(now).map(|(at, _)| at)
    }

    /// The rate changes now. The new end of the packet being sent, if there is one.
    pub fn change_rate(&mut self, now: Time) -> Option<Time> {
        let varying = self.varying.as_mut()?;
        let end = self.transmitter.set_rate(varying.trace.rate_at(now), now)?;
        varying.sending.as_mut().map(|sending| sending.0 = end)?;
        Some(end)
    }

    /// Where the rate may change before a packet has left at `left`, keeps it; otherwise gives it back.
    pub fn hold(&mut self, left: Time, packet: Packet) -> Option<Packet> {
        let Some(varying) = &mut self.varying else { return Some(packet) };
        varying.sending = Some((left, packet));
        None
    }

    /// A packet should have left by `now`: gives back one that was held until now. False: its end has moved.
    pub fn has_left(&mut self, now: Time) -> (bool, Option<Packet>) {
        let Some(varying) = &mut self.varying else { return (true, None) };
        match varying.sending {
            Some((left, _)) if left != now => (false, None),
            _ => (true, varying.sending.take().map(|sending| sending.1)),
        }
    }

    /// The rate in force.
    pub fn rate(&self) -> Rate {
        self.transmitter.rate()
    }

    /// Bytes waiting.
    pub fn bytes(&self) -> u64 {
        self.queue.bytes()
    }

    /// Packets waiting.
    pub fn packets(&self) -> usize {
        self.queue.packets()
    }

    /// CE marks since the measurement began.
    pub fn marks(&self) -> u64 {
        self.queue.marks() - self.marks_before
    }

    /// Forgets what was measured: the warm-up is over.
    pub fn start_measuring(&mut self, now: Time) {
        self.stats = QueueStats { since: now, last: now, ..QueueStats::default() };
        self.marks_before = self.queue.marks();
    }

    /// Brings the averages up to `now`.
    pub fn finish(&mut self, now: Time) {
        self.stats.tick(now, self.queue.bytes());
    }

    /// `packet` comes; whether the transmitter is free to [`transmit`](Self::transmit).
    pub fn enqueue(&mut self, mut packet: Packet, now: Time, dropped: &mut Vec<(Packet, Drop)>) -> bool {
        let before = self.queue.bytes();
        self.stats.tick(now, before);
        self.stats.at_enqueue += u128::from(before);
        self.stats.arrivals += 1;
        packet.queued = now;
        let drops = dropped.len();
        self.queue.enqueue(packet, now, dropped);
        self.stats.drops += (dropped.len() - drops) as u64;
        self.stats.max_bytes = self.stats.max_bytes.max(self.queue.bytes());
        !self.busy
    }

    /// The transmitter is free: takes the next packet. Returns when it will have left, when the transmitter will be free again, and it.
    pub fn transmit(&mut self, now: Time, dropped: &mut Vec<(Packet, Drop)>) -> Option<(Time, Time, Packet)> {
        let next = take(&mut *self.queue, &mut self.stats, now, dropped);
        self.busy = next.is_some();
        let packet = next?;
        let paid = self.transmitter.start(packet.bytes(), now);
        let (left, free) = self.bucket_depth.map_or((paid, paid), |bucket_depth| (now, now.max(paid - bucket_depth)));
        Some((left, free, packet))
    }

    /// A link that is no wire has its turn: `taken` is told of each packet that leaves the queue, those that leave the link go to `leaving`.
    /// When its next turn is, if it is not for the next packet to say.
    pub fn serve(
        &mut self,
        now: Time,
        dropped: &mut Vec<(Packet, Drop)>,
        taken: &mut dyn FnMut(&Packet),
        leaving: &mut Vec<Packet>,
    ) -> Option<Time> {
        let service = self.service.as_mut()?;
        let (queue, stats) = (&mut *self.queue, &mut self.stats);
        let mut next = || take(queue, stats, now, dropped).inspect(&mut *taken);
        let again = service.serve(now, &mut next, leaving);
        self.busy = again.is_some();
        again
    }

    /// What becomes of a packet that leaves at `left`.
    pub fn pass(&mut self, left: Time, packet: &Packet, dropped: &mut Vec<(Packet, Drop)>) -> Fate {
        let fate = self.impairments.pass(left);
        if fate == Fate::Lost {
            self.stats.drops += 1;
            dropped.push((*packet, Drop::Loss));
        }
        fate
    }
}

/// The next packet of `queue`, counted in `stats`.
#[inline]
fn take(queue: &mut dyn Queue<Packet>, stats: &mut QueueStats, now: Time, dropped: &mut Vec<(Packet, Drop)>) -> Option<Packet> {
    stats.tick(now, queue.bytes());
    let drops = dropped.len();
    let next = queue.dequeue(now, dropped);
    stats.drops += (dropped.len() - drops) as u64;
    let packet = next?;
    stats.delay.add(now.since(packet.queued));
    stats.sent += u64::from(packet.bytes());
    Some(packet)
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

#[cfg(test)]
mod tests {
    use lowtide_net::{ImpairConfig, QueueConfig};

    use super::*;
    use crate::packet::Kind;

    fn link() -> Link {
        let rate = Rate::from_mbps_f64(12.0);
        let queue = QueueConfig::CoDel(Default::default()).build(rate, lowtide_net::Seed::new(1)).expect("sound");
        Link::new(queue, rate, Impairments::new(&ImpairConfig::default(), lowtide_net::Seed::new(1)))
    }

    /// When five packets of 1 ms each arrive that came at once, each taken as soon as the link is free.
    fn arrivals(mut link: Link) -> Vec<u64> {
        let mut now = Time::from_millis(10);
        for _ in 0..5 {
            link.enqueue(Packet::new(0, Kind::Data, 1500, now), now, &mut Vec::new());
        }
        let mut arrived = Vec::new();
        while let Some((left, free, packet)) = link.transmit(now, &mut Vec::new()) {
            if let Fate::Arrives { at, .. } = link.pass(left, &packet, &mut Vec::new()) {
                arrived.push(at.nanos() / 1000);
            }
            now = free;
        }
        arrived
    }

    #[test]
    fn a_wire_delivers_the_last_bit_and_a_token_bucket_lets_go_at_once() {
        assert_eq!(arrivals(link()), [11_000, 12_000, 13_000, 14_000, 15_000]);
        assert_eq!(arrivals(link().into_token_bucket(0)), [10_000, 11_000, 12_000, 13_000, 14_000]);
        // HTB: 1600 bytes saved pay for the first packet and a bit of the second, whose rest the third waits for.
        assert_eq!(arrivals(link().into_token_bucket(1600)), [10_000, 10_000, 10_933, 11_933, 12_933]);
    }
}
