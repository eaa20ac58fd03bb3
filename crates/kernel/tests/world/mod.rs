//! A small world around the receiver as it runs in the kernel: one server that sends all it may, one line of 20 Mbit/s and 20 ms with a queue
//! without end, one receiver whose program reads as fast as it likes. Checks at each event what holds in every world.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lowtide_kernel::native::{self, Flow, In, Out, Path};

pub const MS: u64 = 1_000_000;
pub const MSS: u32 = 1448;
pub const SCALE: u8 = 7;
/// One segment at 20 Mbit/s.
pub const SERVICE: u64 = 579_200;
pub const ONE_WAY: u64 = 10 * MS;
/// The RTT of an empty line.
pub const BASE: u64 = 2 * ONE_WAY + SERVICE;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
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
    /// It reads so many bytes each ms, from now on.
    Take(u32),
    /// A ms has passed for it.
    Tick,
    /// It sends a request, which the server answers with so many segments after so many ms.
    Ask(u32, u64),
    /// From now on lowtide's program does (not) see what leaves.
    Seen(bool),
    /// Somebody else's segment, or a broken one, reaches the receiver; the kernel drops it.
    Forged(u32, u32, u32, u32, bool),
}

/// One server, one line, one receiver.
pub struct World {
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    count: u64,
    pub flow: Flow,
    pub path: Path,
    timestamps: bool,
    /// The kernel's receive buffer in bytes, the edge it has shown, the segments it has sent.
    pub buffer: u32,
    kernel_edge: u32,
    segs_out: u32,
    seen: bool,
    pub rcv_nxt: u32,
    pub unread: u32,
    reading: bool,
    /// Bytes read each ms; zero: all or nothing.
    pace: u32,
    /// The server's: next byte to send, bytes it has, the right edge, what it echoes.
    next: u32,
    have: u32,
    edge: u32,
    echo: u32,
    line_free: u64,
    /// How long ACKs wait on the way back, in ns; it may only rise.
    pub back: u64,
    /// The largest since `forget`: the line's queue, the queue the path believes in, the path's window.
    pub queued: u64,
    pub believed: u64,
    pub widest: f64,
    pub losses: u32,
}

impl World {
    pub fn new(buffer: u32) -> World {
        World::with(buffer, true)
    }

    pub fn with(buffer: u32, timestamps: bool) -> World {
        let mut world = World {
            events: BinaryHeap::new(),
            count: 0,
            flow: Flow::bounded(0, MSS, MSS + 12, SCALE, timestamps),
            path: Path::new(native::by_name("ledbat_pp-enhanced-burst").expect("a profile")),
            timestamps,
            buffer,
            kernel_edge: 0,
            segs_out: 1,
            seen: true,
            rcv_nxt: 0,
            unread: 0,
            reading: true,
            pace: 0,
            next: 0,
            have: 0,
            edge: 0,
            echo: 0,
            line_free: 0,
            back: 0,
            queued: 0,
            believed: 0,
            widest: 0.0,
            losses: 0,
        };
        // What the handshake permitted: two segments.
        world.segment_leaves(1, 23, false);
        world
    }

    pub fn at(&mut self, time: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((time, self.count, event)));
    }

    pub fn run(&mut self, until: u64) {
        while self.events.peek().is_some_and(|e| e.0.0 <= until) {
            let Some(Reverse((now, _, event))) = self.events.pop() else { break };
            match event {
                Event::Segment(seq, tsval, tsecr) => self.receive(now, seq, tsval, tsecr),
                Event::Ack(_, edge, tsval) => {
                    assert!(
                        edge.wrapping_sub(self.edge) as i32 >= 0,
                        "the right edge moved left by {} at {now}",
                        self.edge.wrapping_sub(edge)
                    );
                    self.edge = edge;
                    self.echo = tsval;
                    self.release(now);
                }
                Event::Write(segments) => {
                    self.have += segments * MSS;
                    self.release(now);
                }
                Event::Read => {
                    (self.reading, self.pace, self.unread) = (true, 0, 0);
                    self.acknowledge(now, false);
                }
                Event::Stop => (self.reading, self.pace) = (false, 0),
                Event::Take(bytes) => {
                    (self.reading, self.pace) = (false, bytes);
                    self.take(now);
                }
                Event::Tick => self.take(now),
                Event::Ask(segments, thinks) => {
                    self.acknowledge(now, true);
                    self.at(now + ONE_WAY + thinks * MS, Event::Write(segments));
                }
                Event::Seen(seen) => self.seen = seen,
                Event::Forged(seq, len, tsval, tsecr, ce) => self.judge(now, seq, len, tsval, tsecr, ce),
            }
        }
    }

    fn take(&mut self, now: u64) {
        if self.pace == 0 {
            return;
        }
        self.unread -= self.pace.min(self.unread);
        // Linux tells of a window that has room for two more segments (tcp_cleanup_rbuf).
        if (self.rcv_nxt + self.buffer - self.unread.min(self.buffer)).wrapping_sub(self.kernel_edge) as i32 >= 2 * MSS as i32 {
            self.acknowledge(now, false);
        }
        self.at(now + MS, Event::Tick);
    }

    fn judge(&mut self, now: u64, seq: u32, len: u32, tsval: u32, tsecr: u32, ce: bool) {
        let input = In { now, seq, len, wire: len.min(65_535), tsval, tsecr, rcv_nxt: self.rcv_nxt, ce };
        let report = self.flow.receive(&input);
        self.path.receive(&mut self.flow, &report, now);
        self.losses += u32::from(report.lost);
        self.believed = self.believed.max(self.path.queueing().unwrap_or(0));
        self.widest = self.widest.max(self.path.window());
    }

    fn receive(&mut self, now: u64, seq: u32, tsval: u32, tsecr: u32) {
        self.judge(now, seq, MSS, tsval, tsecr, false);
        self.rcv_nxt = seq + MSS;
        self.unread += if self.reading { 0 } else { MSS };
        self.acknowledge(now, false);
    }

    /// The kernel's segment with its own window, whose edge it does not move left either, and which the receiver may lower.
    fn acknowledge(&mut self, now: u64, data: bool) {
        let edge = (self.rcv_nxt + self.buffer - self.unread.min(self.buffer)).max(self.kernel_edge);
        self.segment_leaves(now, (edge - self.rcv_nxt).div_ceil(1 << SCALE) as u16, data);
    }

    fn segment_leaves(&mut self, now: u64, own: u16, data: bool) {
        let tsval = if self.timestamps { (now / MS) as u32 } else { 0 };
        let ack = self.rcv_nxt;
        self.kernel_edge = self.kernel_edge.max(ack + (u32::from(own) << SCALE));
        let out = Out { now, ack, tsval, before: self.segs_out, segs: 1, field: own, data };
        self.segs_out += 1;
        let field = if self.seen { self.flow.send(&out) } else { own };
        assert!(field > 0 || own == 0, "a zero window that the kernel did not want");
        assert!(field <= own, "a window above the kernel's");
        self.at(now + ONE_WAY + self.back, Event::Ack(ack, ack + (u32::from(field) << SCALE), tsval));
    }

    fn release(&mut self, now: u64) {
        while self.next + MSS <= self.edge.min(self.have) {
            self.line_free = self.line_free.max(now) + SERVICE;
            self.queued = self.queued.max(self.line_free - now);
            let tsval = if self.timestamps { (now / MS) as u32 } else { 0 };
            self.at(self.line_free + ONE_WAY, Event::Segment(self.next, tsval, self.echo));
            self.next += MSS;
        }
    }

    /// What is the largest from now on.
    pub fn forget(&mut self) {
        (self.queued, self.believed, self.widest) = (0, 0, 0.0);
    }

    /// What holds in every world: no queue is believed in that was not there, and the base is the path's.
    pub fn check(&self) {
        assert!(self.believed <= self.queued + 2 * MS, "{} ms believed, {} ms there", self.believed / MS, self.queued / MS);
        let base = self.path.base().expect("there were samples");
        assert!(base.abs_diff(BASE) < 2 * MS, "base {} ms", base / MS);
    }

    pub fn widest_segments(&self) -> f64 {
        self.widest / f64::from(MSS)
    }
}
