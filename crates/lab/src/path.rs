//! One direction of the link: queue, transmitter and impairments of `net`, told the time by the link's thread, and a record
//! of what passed. Reads no clock.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;

use anyhow::Result;
use lowtide_net::{Drop, Fate, ImpairConfig, Impairments, Packet as _, Queue, QueueConfig, RateTrace, Seed, Transmitter};
use lowtide_units::histogram::Histogram;
use lowtide_units::{Rate, Span, Time};

use crate::packet::{Packet, Pool};

/// The grain of the series.
pub const BIN: Span = Span::from_millis(100);

/// What one direction does to packets.
#[derive(Clone, Debug)]
pub struct PathConfig {
    /// The bottleneck's rate.
    pub rate: Rate,
    /// Its rate over time, where that is not constant, from the scenario's zero on; that lies so long before the measurement.
    pub trace: Option<(RateTrace, Span)>,
    /// More delay for the flows of a server's port: the flow's own way beyond the bottleneck.
    pub extra: BTreeMap<u16, Span>,
    /// The queue before the bottleneck.
    pub queue: QueueConfig,
    /// What befalls packets after it, the one-way delay included.
    pub impair: ImpairConfig,
    /// Bytes of link header that the bottleneck counts per packet.
    pub header: u32,
    /// Of everything random.
    pub seed: Seed,
}

/// What passed through one direction.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Bytes carried since the measurement began.
    pub carried: u64,
    /// Packets that its queue dropped since then.
    pub drops: u64,
    /// Packets dropped or lost since then, each server's port.
    pub losses: BTreeMap<u16, u64>,
    /// CE marks that its queue set.
    pub marks: u64,
    /// Time spent in the queue, each packet carried since then.
    pub queue_delay: Histogram,
    /// The longest queue since then, in bytes.
    pub queue_max: u64,
    /// The integral of the queue's length since then, in byte-seconds.
    pub queue_integral: f64,
    /// From the first packet on, one each [`BIN`].
    pub bins: Vec<Bin>,
}

/// A tenth of a second of one direction.
#[derive(Clone, Debug, Default)]
pub struct Bin {
    /// When it starts.
    pub start: Time,
    /// The longest time a packet that left in it had queued.
    pub queue_delay: Span,
    /// The longest queue that a packet found, itself included.
    pub queue_bytes: u64,
    /// The same in packets.
    pub queue_packets: u64,
    /// Bytes carried, each server's port.
    pub bytes: BTreeMap<u16, u64>,
}

/// A packet on the wire; ordered by due time, then by number.
#[derive(Debug)]
struct InFlight {
    due: Time,
    number: u64,
    packet: Packet,
}

/// One direction.
pub struct Path {
    config: PathConfig,
    measure: Range<Time>,
    queue: Box<dyn Queue<Packet>>,
    transmitter: Transmitter,
    impairments: Impairments,
    /// The packet being serialised and when its last bit leaves.
    sending: Option<(Time, Packet)>,
    /// The next change of the rate.
    change: Option<(Time, Rate)>,
    wire: BinaryHeap<Reverse<InFlight>>,
    number: u64,
    last: Time,
    dropped: Vec<(Packet, Drop)>,
    seen: Seen,
}

impl PartialEq for InFlight {
    fn eq(&self, other: &InFlight) -> bool {
        (self.due, self.number) == (other.due, other.number)
    }
}
impl Eq for InFlight {}
impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &InFlight) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for InFlight {
    fn cmp(&self, other: &InFlight) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

impl Path {
    /// A path at rest that measures during `measure`.
    ///
    /// # Errors
    /// A queue that cannot be built as configured.
    pub fn new(config: PathConfig, measure: Range<Time>) -> Result<Path> {
        Ok(Path {
            queue: config.queue.build(config.rate, config.seed.of("queue"))?,
            transmitter: Transmitter::new(config.rate),
            impairments: Impairments::new(&config.impair, config.seed),
            sending: None,
            change: config.trace.as_ref().map(|(trace, before)| (measure.start - *before, trace.rate_at(Time::ZERO))),
            wire: BinaryHeap::new(),
            number: 0,
            last: measure.start,
            dropped: Vec::new(),
            seen: Seen::default(),
            measure,
            config,
        })
    }

    /// Lets everything happen that is due by `now`.
    pub fn advance(&mut self, now: Time, pool: &mut Pool) {
        loop {
            let change = self.change.filter(|change| change.0 <= now);
            let sent = self.sending.as_ref().map(|s| s.0).filter(|done| *done <= now);
            match (sent, change) {
                (sent, Some((at, rate))) if sent.is_none_or(|done| at < done) => self.set_rate(at, rate),
                (Some(_), _) => {
                    if let Some((done, packet)) = self.sending.take() {
                        self.depart(done, packet, pool);
                        self.start(done, pool);
                    }
                }
                (None, _) => return,
            }
        }
    }

    /// The rate changes at `at`, and with it the end of the packet being sent.
    fn set_rate(&mut self, at: Time, rate: Rate) {
        if let (Some(end), Some(sending)) = (self.transmitter.set_rate(rate, at), &mut self.sending) {
            sending.0 = end;
        }
        self.change = self.config.trace.as_ref().and_then(|(trace, before)| {
            let zero = (self.measure.start - *before).since(Time::ZERO);
            trace.next_change(at - zero).map(|(next, rate)| (next + zero, rate))
        });
    }

    /// A packet arrives at the queue. Call [`advance`](Path::advance) first.
    pub fn offer(&mut self, now: Time, ip: &[u8], pool: &mut Pool) {
        self.account(now);
        self.queue.enqueue(pool.packet(ip, self.config.header, now), now, &mut self.dropped);
        let (bytes, packets) = (self.queue.bytes(), self.queue.packets() as u64);
        if self.measure.contains(&now) {
            self.seen.queue_max = self.seen.queue_max.max(bytes);
        }
        let bin = self.bin(now);
        (bin.queue_bytes, bin.queue_packets) = (bin.queue_bytes.max(bytes), bin.queue_packets.max(packets));
        if self.sending.is_none() {
            self.start(now, pool);
        }
        self.bury(now, pool);
    }

    /// The next packet whose time has come by `now`, with that time.
    pub fn take_due(&mut self, now: Time) -> Option<(Time, Packet)> {
        if self.wire.peek()?.0.due > now {
            return None;
        }
        self.wire.pop().map(|Reverse(flying)| (flying.due, flying.packet))
    }

    /// When something is to be done next.
    pub fn next(&self) -> Time {
        let sent = self.sending.as_ref().map_or(Time::MAX, |s| s.0);
        self.wire.peek().map_or(Time::MAX, |w| w.0.due).min(sent).min(self.change.map_or(Time::MAX, |change| change.0))
    }

    /// Ends it: what was seen.
    pub fn seen(mut self) -> Seen {
        self.account(self.measure.end);
        self.seen.marks = self.queue.marks();
        self.seen
    }

    fn start(&mut self, now: Time, pool: &mut Pool) {
        self.account(now);
        if let Some(packet) = self.queue.dequeue(now, &mut self.dropped) {
            let waited = now.since(packet.since());
            if self.measure.contains(&now) {
                self.seen.queue_delay.add(waited);
            }
            let bin = self.bin(now);
            bin.queue_delay = bin.queue_delay.max(waited);
            self.sending = Some((self.transmitter.start(packet.bytes(), now), packet));
        }
        self.bury(now, pool);
    }

    fn depart(&mut self, done: Time, packet: Packet, pool: &mut Pool) {
        let (source, destination) = packet.ports();
        // The laboratory's servers listen below the ephemeral ports.
        let port = source.min(destination);
        let length = u64::from(packet.bytes());
        if self.measure.contains(&done) {
            self.seen.carried += length;
        }
        *self.bin(done).bytes.entry(port).or_default() += length;
        let extra = self.config.extra.get(&port).copied().unwrap_or(Span::ZERO);
        match self.impairments.pass(done) {
            Fate::Lost => {
                self.dropped.push((packet, Drop::Loss));
                self.bury(done, pool);
            }
            Fate::Arrives { at, duplicate_at } => {
                if let Some(again) = duplicate_at {
                    let twin = pool.packet(packet.ip(), self.config.header, packet.since());
                    self.fly(again + extra, twin);
                }
                self.fly(at + extra, packet);
            }
        }
    }

    fn fly(&mut self, due: Time, packet: Packet) {
        self.number += 1;
        self.wire.push(Reverse(InFlight { due, number: self.number, packet }));
    }

    /// Counts what was dropped.
    fn bury(&mut self, now: Time, pool: &mut Pool) {
        while let Some((packet, why)) = self.dropped.pop() {
            if self.measure.contains(&now) {
                self.seen.drops += u64::from(why != Drop::Loss);
                let (source, destination) = packet.ports();
                *self.seen.losses.entry(source.min(destination)).or_default() += 1;
            }
            pool.give_back(packet);
        }
    }

    /// The queue had its present length from the last event until `now`.
    fn account(&mut self, now: Time) {
        let until = now.min(self.measure.end);
        if until > self.last {
            self.seen.queue_integral += self.queue.bytes() as f64 * until.since(self.last).secs_f64();
            self.last = until;
        }
    }

    fn bin(&mut self, now: Time) -> &mut Bin {
        let bins = &mut self.seen.bins;
        let start = bins.last().map_or(now, |b| b.start);
        if bins.is_empty() {
            bins.push(Bin { start, ..Bin::default() });
        }
        let steps = now.since(start).nanos() / BIN.nanos();
        bins.extend((1..=steps).map(|n| Bin { start: start + BIN * n, ..Bin::default() }));
        let last = bins.len() - 1;
        &mut bins[last]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_follows_its_trace_by_the_scenarios_clock() {
        // Zero is at 1 s, the measurement begins at 2 s. A packet of 1500 bytes takes 1 ms at 12 Mbit/s.
        let zero = Time::from_millis(1000);
        let config = PathConfig {
            rate: Rate::from_mbps_f64(12.0),
            trace: Some((RateTrace::parse("0 12\n0.00025 6\n0.01 0\n0.05 12").expect("valid"), Span::from_secs(1))),
            extra: BTreeMap::new(),
            queue: QueueConfig::DropTail(lowtide_net::droptail::Config { packets: Some(9), ..Default::default() }),
            impair: ImpairConfig::default(),
            header: 0,
            seed: Seed::new(1),
        };
        let mut pool = Pool::default();
        let mut path = Path::new(config, Time::from_millis(2000)..Time::from_millis(3000)).expect("possible");
        let mut arrivals = Vec::new();
        for at in [zero, zero + Span::from_millis(9)] {
            while path.next() <= at {
                path.advance(path.next(), &mut pool);
                arrivals.extend(path.take_due(at));
            }
            path.offer(at, &[0; 1500], &mut pool);
        }
        while arrivals.len() < 2 && path.next() < Time::MAX {
            path.advance(path.next(), &mut pool);
            arrivals.extend(path.take_due(Time::MAX));
        }
        let due: Vec<Time> = arrivals.iter().map(|(at, _)| *at).collect();
        // A quarter at the full rate, the rest at half of it; then half of a packet before the outage, half after it.
        assert_eq!(due, [zero + Span::from_micros(1750), zero + Span::from_micros(50_500)]);
    }
}
