//! The receiver as it runs in production (bpf/receiver.h, path.h, control.h with ledbat_pp.h, lowtide.h: receiver mode, bursts, reports, groups)
//! against the reference in `cc::rledbat`, event by event, on random streams: slow readers, ACKs that no program saw, reordering, loss, CE marks,
//! connections that join and leave a group, forged segments. What each segment says, and phase, base, queueing delay: equal. Windows: to one
//! byte, which is the rounding of 2^-16 bytes in C and of f64 here; the field is then computed from the same window and is equal.

mod shared {
    pub mod phase;
}
mod streams {
    mod compare;
}

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use lowtide_cc::Time;
use lowtide_cc::rledbat::{self, Group};
use lowtide_kernel::Phase;
use lowtide_kernel::native::{self, Out, Path, Profile};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const MS: u64 = 1_000_000;
/// The kernel's clock does not begin at zero, which its code takes for "never".
const BOOTED: u64 = 1_000 * MS;
const LOWTIDE: &str = "lowtide";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A segment of a connection arrives: where it begins, its TSval, its TSecr, whether it is CE-marked.
    Segment(usize, u32, u32, u32, bool),
    /// The sender gets an ACK: its right edge and TSval.
    Ack(usize, u32, u32),
    /// The sender sends a lost segment again.
    Again(usize, u32),
    /// The receiver's program reads so much.
    Read(usize, u32),
    /// Something that the sender did not send arrives.
    Forged(usize),
    /// A connection begins.
    Join(usize),
}

/// One connection: both receivers, the kernel's socket, the sender.
struct Connection {
    c: native::Flow,
    reference: rledbat::Flow,
    timestamps: bool,
    /// That of its peer's clock.
    offset: u32,
    slow: bool,
    rcv_nxt: u32,
    beyond: BTreeMap<u32, u32>,
    unread: u32,
    kernel_edge: u32,
    sent_segments: u32,
    next: u32,
    edge: u32,
    echo: u32,
    limit: u32,
    ends: u32,
    first: u32,
}

struct Stream {
    rng: SmallRng,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    count: u64,
    profile: &'static Profile,
    path: Path,
    /// From the first segment on, as in the kernel.
    group: Option<Group>,
    mss: u32,
    scale: u8,
    buffer: u32,
    base: u64,
    service: u64,
    line_free: u64,
    /// The way back: what is queued there, as others fill and leave it.
    back: u64,
    back_free: u64,
    /// The peer's clock less ours, in ms.
    offset: u32,
    trouble: u32,
    connections: Vec<Connection>,
    /// Segments that were compared, and how often each thing happened.
    seen: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    segments: u64,
    ignored: u64,
    losses: u64,
    marks: u64,
    unseen: u64,
    slow: u64,
    slowdowns: u64,
    /// Streams that end because a window met its threshold to the last bits, which 2^-16 bytes and f64 break an ACK apart.
    ties: u64,
    phases: [u64; 10],
}

impl Stream {
    fn new(seed: u64, profiles: &[&'static Profile]) -> Stream {
        let mut rng = SmallRng::seed_from_u64(seed);
        let profile = profiles[rng.random_range(0..profiles.len())];
        let mss = rng.random_range(500..1461);
        let mut stream = Stream {
            events: BinaryHeap::new(),
            count: 0,
            profile,
            path: Path::new(profile),
            group: None,
            mss,
            scale: rng.random_range(0..=12),
            buffer: rng.random_range(8..400) * mss,
            base: rng.random_range(MS / 2..120 * MS),
            service: rng.random_range(50_000..4 * MS),
            line_free: BOOTED,
            back: 0,
            back_free: BOOTED,
            offset: rng.random(),
            trouble: [0, 4, 40][rng.random_range(0..3)],
            connections: Vec::new(),
            seen: Counts::default(),
            rng,
        };
        for i in 0..stream.rng.random_range(1..5) {
            let at = if i == 0 { 0 } else { stream.rng.random_range(0..8 * stream.base) };
            stream.at(BOOTED + at, Event::Join(i));
        }
        for _ in 0..stream.rng.random_range(0..20) {
            let at = stream.rng.random_range(0..20 * stream.base);
            stream.at(BOOTED + at, Event::Forged(0));
        }
        stream
    }

    fn at(&mut self, time: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((time, self.count, event)));
    }

    fn chance(&mut self, per_mille: u32) -> bool {
        self.rng.random_range(0..1000) < per_mille
    }

    /// Runs `most` events; none where both agree throughout, else the first difference.
    fn run(&mut self, most: usize) -> Result<(), String> {
        for _ in 0..most {
            let Some(Reverse((now, _, event))) = self.events.pop() else { break };
            match event {
                Event::Join(_) => self.join(now)?,
                Event::Segment(i, seq, tsval, tsecr, ce) => self.arrive(now, i, seq, tsval, tsecr, ce)?,
                Event::Ack(i, edge, tsval) => {
                    let connection = &mut self.connections[i];
                    if edge.wrapping_sub(connection.edge) as i32 > 0 {
                        connection.edge = edge;
                    }
                    connection.echo = tsval;
                    self.release(now, i);
                }
                Event::Again(i, seq) => self.transmit(now, i, seq),
                Event::Read(i, bytes) => {
                    let connection = &mut self.connections[i];
                    connection.unread -= bytes.min(connection.unread);
                    self.acknowledge(now, i, false)?;
                }
                Event::Forged(i) if i < self.connections.len() => self.forge(now, i)?,
                Event::Forged(_) => {}
            }
        }
        Ok(())
    }

    fn join(&mut self, now: u64) -> Result<(), String> {
        let (timestamps, slow, first) = (!self.chance(200), self.chance(300), self.rng.random());
        let limit = if self.chance(300) { self.rng.random_range(1..20) * self.mss } else { 1 << 28 };
        let ends = if self.chance(400) { self.rng.random_range(4..200) * self.mss } else { 1 << 28 };
        let offset = if self.chance(100) { self.rng.random() } else { self.offset };
        let (most, before) = (self.mss + 12, if self.chance(200) { 50 } else { 1 });
        self.connections.push(Connection {
            c: native::Flow::bounded(now, self.mss, most, self.scale, timestamps),
            reference: rledbat::Flow::new(Time::from_nanos(now), self.mss, most, self.scale, timestamps),
            timestamps,
            offset,
            slow,
            rcv_nxt: first,
            beyond: BTreeMap::new(),
            unread: 0,
            kernel_edge: first,
            sent_segments: before,
            next: first,
            edge: first,
            echo: 0,
            limit,
            ends,
            first,
        });
        self.acknowledge(now, self.connections.len() - 1, false)
    }

    /// The sender's clock ticks each ms.
    fn release(&mut self, now: u64, i: usize) {
        loop {
            let c = &self.connections[i];
            let after = c.next.wrapping_add(self.mss);
            if (c.edge.wrapping_sub(after) as i32) < 0 || after.wrapping_sub(c.rcv_nxt) > c.limit || after.wrapping_sub(c.first) > c.ends {
                return;
            }
            let seq = c.next;
            self.connections[i].next = after;
            self.transmit(now, i, seq);
        }
    }

    fn transmit(&mut self, now: u64, i: usize, seq: u32) {
        self.line_free = self.line_free.max(now) + self.service;
        let arrives = self.line_free + self.base;
        if self.chance(self.trouble) {
            let again = arrives + self.rng.random_range(self.base / 2..2 * self.base);
            return self.at(again, Event::Again(i, seq));
        }
        let late = if self.chance(self.trouble) { self.rng.random_range(0..self.base) } else { 0 };
        let ce = self.chance(self.trouble / 4);
        let connection = &self.connections[i];
        let tsval = ((now / MS) as u32).wrapping_add(connection.offset);
        let (tsval, tsecr) = if connection.timestamps { (tsval, connection.echo) } else { (0, 0) };
        self.at(arrives + late, Event::Segment(i, seq, tsval, tsecr, ce));
    }

    fn arrive(&mut self, now: u64, i: usize, seq: u32, tsval: u32, tsecr: u32, ce: bool) -> Result<(), String> {
        self.compare(now, i, seq, self.mss, tsval, tsecr, ce)?;
        let mss = self.mss;
        let connection = &mut self.connections[i];
        let (end, before) = (seq.wrapping_add(mss), connection.rcv_nxt);
        if end.wrapping_sub(connection.rcv_nxt) as i32 > 0 {
            connection.beyond.insert(seq, end);
        }
        while let Some(end) = connection.beyond.remove(&connection.rcv_nxt) {
            connection.rcv_nxt = end;
        }
        if connection.slow {
            connection.unread += connection.rcv_nxt.wrapping_sub(before);
            let (wait, bytes) = (self.rng.random_range(0..self.base), self.rng.random_range(0..4 * mss));
            self.at(now + wait, Event::Read(i, bytes));
        }
        // Every second segment, and at once where something is missing.
        if self.connections[i].beyond.is_empty() && self.chance(300) {
            return Ok(());
        }
        let data = self.chance(20);
        self.acknowledge(now, i, data)
    }

    fn acknowledge(&mut self, now: u64, i: usize, data: bool) -> Result<(), String> {
        let unseen = self.chance(self.trouble / 4);
        let (scale, buffer) = (self.scale, self.buffer);
        let connection = &mut self.connections[i];
        let mut edge = connection.rcv_nxt.wrapping_add(buffer - connection.unread.min(buffer));
        if connection.kernel_edge.wrapping_sub(edge) as i32 > 0 {
            edge = connection.kernel_edge;
        }
        let field = edge.wrapping_sub(connection.rcv_nxt).div_ceil(1 << scale).min(65_535) as u16;
        connection.kernel_edge = connection.rcv_nxt.wrapping_add(u32::from(field) << scale);
        let tsval = if connection.timestamps { (now / MS) as u32 } else { 0 };
        let (ack, before) = (connection.rcv_nxt, connection.sent_segments);
        connection.sent_segments += 1;
        let shown = if unseen {
            self.seen.unseen += 1;
            field
        } else {
            let ours = connection.c.send(&Out { now, ack, tsval, before, segs: 1, field, data });
            let out = rledbat::Outgoing { now: Time::from_nanos(now), ack, field, tsval: Some(tsval) };
            let theirs = connection.reference.on_outgoing(&out, before, data);
            if ours != theirs {
                return Err(format!("field {ours} in C, {theirs} in the reference, of {field} at {ack}"));
            }
            ours
        };
        let edge = ack.wrapping_add(u32::from(shown) << scale);
        match self.rng.random_range(0..100) {
            0 => self.back = self.rng.random_range(0..400 * MS),
            1..3 => self.back = 0,
            _ => self.back = self.back * self.rng.random_range(95..105) / 100,
        }
        self.back_free = self.back_free.max(now + self.base / 4 + self.back);
        let window = self.connections[i].c.window();
        self.seen.slow += u64::from(u32::from(field) << scale < window);
        self.at(self.back_free, Event::Ack(i, edge, tsval));
        Ok(())
    }

    /// Anywhere, or near what is expected; any timestamp, or one that was sent; any length and mark.
    fn forge(&mut self, now: u64, i: usize) -> Result<(), String> {
        let near = self.connections[i].rcv_nxt;
        let seq = match self.rng.random_range(0..3) {
            0 => self.rng.random(),
            1 => near.wrapping_add(self.rng.random_range(0..400_000)),
            _ => near.wrapping_sub(self.rng.random_range(0..100_000)),
        };
        let tsecr = if self.rng.random() { self.rng.random() } else { ((now - self.rng.random_range(0..100 * MS)) / MS) as u32 };
        let (len, tsval, ce) = (self.rng.random_range(1..65_536), self.rng.random(), self.rng.random());
        self.compare(now, i, seq, len, tsval, tsecr, ce)
    }
}

/// What ten thousand streams of `events` events each met, by one of the profiles each.
fn agree(profiles: &[&'static Profile], events: usize) -> Counts {
    let mut all = Counts::default();
    let mut bad = Vec::new();
    for seed in 0..10_000 {
        let mut stream = Stream::new(seed, profiles);
        if let Err(difference) = stream.run(events) {
            bad.push((seed, stream.seen.segments, difference));
        }
        let seen = stream.seen;
        all.segments += seen.segments;
        all.ignored += seen.ignored;
        all.losses += seen.losses;
        all.marks += seen.marks;
        all.unseen += seen.unseen;
        all.slow += seen.slow;
        all.slowdowns += seen.slowdowns;
        all.ties += seen.ties;
        all.phases.iter_mut().zip(seen.phases).for_each(|(all, one)| *all += one);
    }
    assert!(bad.is_empty(), "{} streams differ ({all:?}):\n{:#?}", bad.len(), &bad[..bad.len().min(5)]);
    all
}

#[test]
fn ten_thousand_random_streams_agree_event_by_event() {
    let profiles = native::PROFILES.iter().filter(|profile| profile.name != LOWTIDE).collect::<Vec<_>>();
    let all = agree(&profiles, 600);
    assert!(all.ties <= 3, "{all:?}");
    // The streams are worth comparing: each thing happens often, and each state of a receiver is reached.
    assert!(all.segments > 1_000_000 && all.ignored > 10_000 && all.losses > 5_000 && all.marks > 1_000, "{all:?}");
    assert!(all.unseen > 1_000 && all.slow > 10_000 && all.slowdowns > 1_000, "{all:?}");
    assert!(all.phases[..5].iter().all(|n| *n > 1_000), "{all:?}");
}

/// Longer, because it is at its floor only after others have come, and counts in integers: nothing is left to rounding.
#[test]
fn ten_thousand_random_streams_of_lowtide_agree_event_by_event() {
    let profiles = native::PROFILES.iter().filter(|profile| profile.name == LOWTIDE).collect::<Vec<_>>();
    let all = agree(&profiles, 1_200);
    assert!(all.ties == 0 && all.segments > 1_000_000 && all.losses > 5_000 && all.marks > 1_000 && all.unseen > 1_000, "{all:?}");
    let reached = |phase: Phase| all.phases[phase as usize];
    // Drains, ten seconds apart, are for tests/lowtide.rs.
    let all_reached = [Phase::SlowStart, Phase::Alone, Phase::Yielding, Phase::Probing].map(reached);
    assert!(all_reached.iter().all(|n| *n > 1_000), "{all_reached:?}");
}
