//! Whoever is the bottleneck, if it is not the line: a server that stalls, one that thinks before it answers, a program that
//! stops reading. The window does not grow without limit, and no pause is taken for a queue (spec F.4, F.6).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lowtide_kernel::native::{self, Flow, In, Out, Path};

const MS: u64 = 1_000_000;
const MSS: u32 = 1448;
const SCALE: u8 = 7;
/// One segment at 20 Mbit/s.
const SERVICE: u64 = 579_200;
const ONE_WAY: u64 = 10 * MS;
const BASE: u64 = 2 * ONE_WAY;
/// What the kernel lets the program leave unread.
const BUFFER: u32 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A segment reaches the receiver: where it begins, its TSval and TSecr.
    Segment(u32, u32, u32),
    /// An ACK reaches the server: what it acknowledges, its right edge, its TSval.
    Ack(u32, u32, u32),
    /// The server's program has so many more segments to send.
    Write(u32),
    /// The receiver's program reads all there is, and from now on whatever comes.
    Read,
    /// It stops reading.
    Stop,
    /// It sends a request, which the server answers with so many segments after so many ms.
    Ask(u32, u64),
}

/// One server, one line, one receiver.
struct World {
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    count: u64,
    flow: Flow,
    path: Path,
    rcv_nxt: u32,
    unread: u32,
    reading: bool,
    /// The server's: next byte to send, bytes it has, the right edge, what it echoes.
    next: u32,
    have: u32,
    edge: u32,
    echo: u32,
    line_free: u64,
    /// The largest so far: the line's queue, the queue the path believes in, the path's window.
    queued: u64,
    believed: u64,
    widest: f64,
}

impl World {
    fn new() -> World {
        let mut world = World {
            events: BinaryHeap::new(),
            count: 0,
            flow: Flow::new(0, MSS, SCALE, true),
            path: Path::new(native::by_name("ledbat_pp-enhanced").expect("a profile")),
            rcv_nxt: 0,
            unread: 0,
            reading: true,
            next: 0,
            have: 0,
            edge: 0,
            echo: 0,
            line_free: 0,
            queued: 0,
            believed: 0,
            widest: 0.0,
        };
        // What the handshake permitted: two segments.
        let field = world.flow.send(&Out { now: 1, ack: 0, tsval: 0, field: 23, data: false });
        world.at(ONE_WAY, Event::Ack(0, u32::from(field) << SCALE, 0));
        world
    }

    fn at(&mut self, time: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((time, self.count, event)));
    }

    fn run(&mut self, until: u64) {
        while self.events.peek().is_some_and(|e| e.0.0 <= until) {
            let Some(Reverse((now, _, event))) = self.events.pop() else { break };
            match event {
                Event::Segment(seq, tsval, tsecr) => self.receive(now, seq, tsval, tsecr),
                Event::Ack(_, edge, tsval) => {
                    self.edge = edge;
                    self.echo = tsval;
                    self.release(now);
                }
                Event::Write(segments) => {
                    self.have += segments * MSS;
                    self.release(now);
                }
                Event::Read => {
                    (self.reading, self.unread) = (true, 0);
                    self.acknowledge(now, false);
                }
                Event::Stop => self.reading = false,
                Event::Ask(segments, thinks) => {
                    self.acknowledge(now, true);
                    self.at(now + ONE_WAY + thinks * MS, Event::Write(segments));
                }
            }
        }
    }

    fn receive(&mut self, now: u64, seq: u32, tsval: u32, tsecr: u32) {
        let input = In { now, srtt: self.path.srtt(), seq, len: MSS, wire: MSS, tsval, tsecr, rcv_nxt: self.rcv_nxt, ce: false };
        let seen = self.flow.receive(&input);
        self.path.receive(&mut self.flow, &seen, now);
        self.believed = self.believed.max(self.path.queueing().unwrap_or(0));
        self.widest = self.widest.max(self.path.window());
        self.rcv_nxt = seq + MSS;
        self.unread += if self.reading { 0 } else { MSS };
        self.acknowledge(now, false);
    }

    /// The kernel's segment with its own window, which the receiver may lower.
    fn acknowledge(&mut self, now: u64, data: bool) {
        let (tsval, own) = ((now / MS) as u32, ((BUFFER - self.unread.min(BUFFER)) >> SCALE) as u16);
        let field = self.flow.send(&Out { now, ack: self.rcv_nxt, tsval, field: own, data });
        assert!(field > 0 || own == 0, "a zero window that the kernel did not want");
        self.at(now + ONE_WAY, Event::Ack(self.rcv_nxt, self.rcv_nxt + (u32::from(field) << SCALE), tsval));
    }

    fn release(&mut self, now: u64) {
        while self.next + MSS <= self.edge.min(self.have) {
            self.line_free = self.line_free.max(now) + SERVICE;
            self.queued = self.queued.max(self.line_free - now);
            self.at(self.line_free + ONE_WAY, Event::Segment(self.next, (now / MS) as u32, self.echo));
            self.next += MSS;
        }
    }

    /// What holds in every world: no queue is believed in that was not there, and the base is the path's.
    fn check(&self) {
        assert!(self.believed <= self.queued + 2 * MS, "{} ms believed, {} ms there", self.believed / MS, self.queued / MS);
        let base = self.path.base().expect("there were samples");
        assert!(base.abs_diff(BASE) < 2 * MS, "base {} ms", base / MS);
    }

    fn widest_segments(&self) -> f64 {
        self.widest / f64::from(MSS)
    }
}

#[test]
fn a_server_that_stalls_is_not_a_queue() {
    let mut world = World::new();
    let (burst, seconds) = (3000, 40);
    for second in (0..seconds).step_by(4) {
        world.at(second * 1000 * MS, Event::Write(burst));
    }
    world.run(seconds * 1000 * MS);
    world.check();
    assert_eq!(world.rcv_nxt, 10 * burst * MSS, "all arrived");
    // 20 ms of line and 20 ms of queue, with slow start's overshoot.
    assert!(world.widest_segments() < 120.0, "{} segments", world.widest_segments());
}

#[test]
fn an_answer_that_takes_time_to_think_of_is_not_a_queue() {
    for thinks in [0, 5, 40, 150] {
        let mut world = World::new();
        for round in 0..200 {
            world.at((10 + round * 250) * MS, Event::Ask(10, thinks));
        }
        world.run(60_000 * MS);
        world.check();
        assert_eq!(world.rcv_nxt, 2000 * MSS, "every answer arrived, thinking {thinks} ms");
        // Ten segments are all it uses: one round of slow start beyond, at most.
        assert!(world.widest_segments() < 16.0, "{} segments, thinking {thinks} ms", world.widest_segments());
    }
}

#[test]
fn a_program_that_stops_reading_stops_the_window_and_only_that() {
    let mut world = World::new();
    world.at(0, Event::Write(100_000));
    for pause in 0..4 {
        world.at((5_000 + pause * 5_000) * MS, Event::Stop);
        world.at((8_000 + pause * 5_000) * MS, Event::Read);
    }
    world.run(5_000 * MS);
    let before = (world.rcv_nxt, world.widest_segments());
    world.run(6_500 * MS);
    assert!(world.unread <= BUFFER && world.unread + 2 * MSS > BUFFER, "{} bytes unread: the window closed", world.unread);
    world.run(8_000 * MS);
    let stopped = world.rcv_nxt;
    world.run(10_000 * MS);
    assert!(world.rcv_nxt - stopped > (before.0 / 5) * 3 / 2, "after the pause it goes on as before");
    world.run(30_000 * MS);
    world.check();
    assert!(world.widest_segments() < before.1 * 1.3, "{} segments, {} before any pause", world.widest_segments(), before.1);
}
