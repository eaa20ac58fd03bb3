//! A link: a queue and its transmitter. Keeps what is measured at it. Knows packets, not flows or routes.

use lowtide_net::{Drop, Fate, Impairments, Packet as _, Queue, RateTrace, Transmitter};
use lowtide_units::histogram::Histogram;
use lowtide_units::{Rate, Span, Time};

use crate::engine::Turn;
use crate::service::Service;
use crate::slab::Handle;

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
    #[inline]
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
    queue: Box<dyn Queue<Handle>>,
    /// Bytes in the queue.
    bytes: u64,
    transmitter: Transmitter,
    impairments: Impairments,
    /// The depth of a token bucket as time at the line rate; none: a wire, which serialises.
    bucket_depth: Option<Span>,
    busy: bool,
    /// With nothing waiting behind the packet being sent: the turn of the event that would find the transmitter free and the queue empty.
    unneeded: Option<Turn>,
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

/// A packet that leaves a queue.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// When it will have left.
    pub left: Time,
    /// When the transmitter will be free again.
    pub free: Time,
    /// The packet.
    pub packet: Handle,
}

/// What a queue holds, and the CE marks that it has set since the measurement began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueState {
    /// Bytes waiting.
    pub bytes: u64,
    /// Packets waiting.
    pub packets: usize,
    /// Marks.
    pub marks: u64,
}

/// A rate that changes, and the packet being sent, whose end moves with it.
struct Varying {
    trace: RateTrace,
    sending: Option<(Time, Handle)>,
}

impl Link {
    /// An idle link.
    pub fn new(queue: Box<dyn Queue<Handle>>, rate: Rate, impairments: Impairments) -> Link {
        Link {
            bytes: queue.bytes(),
            queue,
            transmitter: Transmitter::new(rate),
            impairments,
            busy: false,
            unneeded: None,
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

    /// Whether its rate may change while a packet leaves: then such a packet is [held](Self::hold).
    #[inline]
    pub fn varies(&self) -> bool {
        self.varying.is_some()
    }

    /// Keeps `packet`, which leaves at `left` unless the rate changes before.
    pub fn hold(&mut self, left: Time, packet: Handle) {
        if let Some(varying) = &mut self.varying {
            varying.sending = Some((left, packet));
        }
    }

    /// The packet held should have left by `now`: gives it back. False: its end has moved.
    pub fn has_left(&mut self, now: Time) -> (bool, Option<Handle>) {
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
        self.bytes
    }

    /// Packets waiting.
    pub fn packets(&self) -> usize {
        self.queue.packets()
    }

    /// Packets waiting and being sent.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        let sending = self.varying.as_ref().is_some_and(|varying| varying.sending.is_some());
        self.packets() + usize::from(sending) + self.service.as_ref().map_or(0, |service| service.packets())
    }

    /// CE marks since the measurement began.
    pub fn marks(&self) -> u64 {
        self.queue.marks() - self.marks_before
    }

    /// What is in the queue now.
    pub fn state(&self) -> QueueState {
        QueueState { bytes: self.bytes, packets: self.packets(), marks: self.marks() }
    }

    /// Forgets what was measured: the warm-up is over.
    pub fn start_measuring(&mut self, now: Time) {
        self.stats = QueueStats { since: now, last: now, ..QueueStats::default() };
        self.marks_before = self.queue.marks();
    }

    /// Brings the averages up to `now`.
    pub fn finish(&mut self, now: Time) {
        self.stats.tick(now, self.bytes);
    }

    /// Whether the event that tells of the free transmitter can do without being scheduled as long as nothing comes: nothing waits, and the
    /// end of the packet being sent is certain.
    #[inline]
    pub fn may_rest(&self) -> bool {
        self.bytes == 0 && !self.varies()
    }

    /// Keeps the turn of that event.
    #[inline]
    pub fn rest(&mut self, turn: Turn) {
        self.unneeded = Some(turn);
    }

    /// Something comes: that event's turn, if it was not scheduled.
    #[inline]
    pub fn take_turn(&mut self) -> Option<Turn> {
        self.unneeded.take()
    }

    /// The turn of that event, if it was not scheduled.
    pub fn turn(&self) -> Option<Turn> {
        self.unneeded
    }

    /// The transmitter was free at `then`, before now, and found nothing in the queue.
    #[inline]
    pub fn was_free(&mut self, then: Time, dropped: &mut Vec<(Handle, Drop)>) {
        let none = self.queue.dequeue(then, dropped);
        debug_assert!(none.is_none(), "nothing has come since");
        self.busy = false;
    }

    /// `packet` comes; whether the transmitter is free to [`transmit`](Self::transmit).
    #[inline]
    pub fn enqueue(&mut self, packet: Handle, now: Time, dropped: &mut Vec<(Handle, Drop)>) -> bool {
        self.stats.tick(now, self.bytes);
        self.stats.at_enqueue += u128::from(self.bytes);
        self.stats.arrivals += 1;
        let drops = dropped.len();
        let bytes = self.bytes + u64::from(packet.bytes());
        self.queue.enqueue(packet.timed(now), now, dropped);
        self.bytes = if dropped.len() == drops { bytes } else { self.queue.bytes() };
        self.stats.drops += (dropped.len() - drops) as u64;
        self.stats.max_bytes = self.stats.max_bytes.max(self.bytes);
        !self.busy
    }

    /// The transmitter is free: takes the next packet.
    #[inline]
    pub fn transmit(&mut self, now: Time, dropped: &mut Vec<(Handle, Drop)>) -> Option<Departure> {
        let next = take(&mut *self.queue, &mut self.bytes, &mut self.stats, now, dropped);
        self.busy = next.is_some();
        let packet = next?;
        let paid = self.transmitter.start(packet.bytes(), now);
        let (left, free) = self.bucket_depth.map_or((paid, paid), |bucket_depth| (now, now.max(paid - bucket_depth)));
        Some(Departure { left, free, packet })
    }

    /// A link that is no wire has its turn: `taken` is told of each packet that leaves the queue and what stays in it, those that leave the
    /// link go to `leaving`. When its next turn is, if it is not for the next packet to say.
    pub fn serve(
        &mut self,
        now: Time,
        dropped: &mut Vec<(Handle, Drop)>,
        taken: &mut dyn FnMut(&Handle, QueueState),
        leaving: &mut Vec<Handle>,
    ) -> Option<Time> {
        let service = self.service.as_mut()?;
        let (queue, bytes, stats) = (&mut *self.queue, &mut self.bytes, &mut self.stats);
        let marks_before = self.marks_before;
        let mut next = || {
            let packet = take(queue, bytes, stats, now, dropped)?;
            taken(&packet, QueueState { bytes: *bytes, packets: queue.packets(), marks: queue.marks() - marks_before });
            Some(packet)
        };
        let again = service.serve(now, &mut next, leaving);
        self.busy = again.is_some();
        again
    }

    /// What becomes of a packet that leaves at `left`.
    #[inline]
    pub fn pass(&mut self, left: Time, packet: &Handle, dropped: &mut Vec<(Handle, Drop)>) -> Fate {
        let fate = self.impairments.pass(left);
        if fate == Fate::Lost {
            self.stats.drops += 1;
            dropped.push((*packet, Drop::Loss));
        }
        fate
    }
}

/// The next packet of `queue`, which holds `bytes`, counted in `stats`.
#[inline]
fn take(
    queue: &mut dyn Queue<Handle>,
    bytes: &mut u64,
    stats: &mut QueueStats,
    now: Time,
    dropped: &mut Vec<(Handle, Drop)>,
) -> Option<Handle> {
    stats.tick(now, *bytes);
    let drops = dropped.len();
    let next = queue.dequeue(now, dropped);
    let dropped = dropped.len() - drops;
    stats.drops += dropped as u64;
    let Some(packet) = next else {
        *bytes = queue.bytes();
        return None;
    };
    *bytes = if dropped == 0 { *bytes - u64::from(packet.bytes()) } else { queue.bytes() };
    stats.delay.add(now.since(packet.at));
    stats.sent += u64::from(packet.bytes());
    Some(packet)
}

#[cfg(test)]
mod tests {
    use lowtide_net::{ImpairConfig, QueueConfig};

    use super::*;
    use crate::packet::{Kind, Packet};
    use crate::slab::Slab;

    fn link() -> Link {
        let rate = Rate::from_mbps_f64(12.0);
        let queue = QueueConfig::CoDel(Default::default()).build(rate, lowtide_net::Seed::new(1)).expect("sound");
        Link::new(queue, rate, Impairments::new(&ImpairConfig::default(), lowtide_net::Seed::new(1)))
    }

    /// When five packets of 1 ms each arrive that came at once, each taken as soon as the link is free.
    fn arrivals(mut link: Link) -> Vec<u64> {
        let (mut now, mut slab) = (Time::from_millis(10), Slab::default());
        for _ in 0..5 {
            let packet = slab.put(&Packet::new(0, Kind::Data, 1500, now), 0, 0, now);
            link.enqueue(packet, now, &mut Vec::new());
        }
        let mut arrived = Vec::new();
        while let Some(Departure { left, free, packet }) = link.transmit(now, &mut Vec::new()) {
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
