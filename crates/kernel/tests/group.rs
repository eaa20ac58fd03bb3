//! bpf/path.h in a toy world: flows of one group share one window, and a window that is not used does not grow.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lowtide_kernel::Phase;
use lowtide_kernel::native::{self, Flow, In, Out, Path};

const MS: u64 = 1_000_000;
const MSS: u32 = 1448;
const SCALE: u8 = 7;
/// One segment at 20 Mbit/s.
const SERVICE: u64 = 579_200;
/// All of the base delay lies on the way to the receiver.
const BASE: u64 = 20 * MS;

/// A segment on its way: when it arrives, whose, where it begins, and its timestamps.
type Arrival = Reverse<(u64, usize, u32, u32, u32)>;

struct Peer {
    receiver: Flow,
    rcv_nxt: u32,
    next: u32,
    edge: u32,
    /// What the sender echoes.
    echo: u32,
}

/// Senders that use what they are permitted, up to a window of their own, one queue, one path.
struct World {
    peers: Vec<Peer>,
    path: Path,
    wire: BinaryHeap<Arrival>,
    link_free: u64,
    /// Each sender's own window, bytes.
    own: u32,
    /// The largest path window and queue (ms) in the second half.
    widest: f64,
    longest: u64,
}

impl World {
    fn run(count: usize, own_segments: u32, seconds: u64, enhanced: bool) -> World {
        let mut world = World {
            peers: Vec::new(),
            path: Path::new(native::by_name(if enhanced { "ledbat_pp-enhanced-burst" } else { "ledbat_pp-burst" }).expect("a profile")),
            wire: BinaryHeap::new(),
            link_free: 0,
            own: own_segments * MSS,
            widest: 0.0,
            longest: 0,
        };
        for i in 0..count {
            let mut receiver = Flow::new(0, MSS, SCALE, true);
            let field = receiver.send(&Out { now: 1, ack: 0, tsval: 0, field: 23, data: false, ..Out::default() });
            world.peers.push(Peer { receiver, rcv_nxt: 0, next: 0, edge: u32::from(field) << SCALE, echo: 0 });
            world.release(i, 2);
        }
        let end = seconds * 1000 * MS;
        while let Some(Reverse((now, i, seq, tsval, tsecr))) = world.wire.pop() {
            if now > end {
                break;
            }
            world.arrive(now, i, seq, tsval, tsecr);
            if now > end / 2 {
                world.widest = world.widest.max(world.path.window());
                world.longest = world.longest.max(world.link_free.saturating_sub(now) / MS);
            }
        }
        world
    }

    fn arrive(&mut self, now: u64, i: usize, seq: u32, tsval: u32, tsecr: u32) {
        let peer = &mut self.peers[i];
        let input = In { now, seq, len: MSS, wire: MSS, tsval, tsecr, rcv_nxt: peer.rcv_nxt, ce: false };
        let seen = peer.receiver.receive(&input);
        self.path.receive(&mut peer.receiver, &seen, now);
        peer.rcv_nxt = seq + MSS;
        peer.echo = (now / MS) as u32;
        let field = peer.receiver.send(&Out { now, ack: peer.rcv_nxt, tsval: peer.echo, field: 40_000, data: false, ..Out::default() });
        peer.edge = peer.rcv_nxt + (u32::from(field) << SCALE);
        self.release(i, now);
    }

    fn release(&mut self, i: usize, now: u64) {
        let peer = &mut self.peers[i];
        while peer.next + MSS <= peer.edge && peer.next + MSS - peer.rcv_nxt <= self.own {
            self.link_free = self.link_free.max(now) + SERVICE;
            self.wire.push(Reverse((self.link_free + BASE, i, peer.next, (now / MS) as u32, peer.echo)));
            peer.next += MSS;
        }
    }

    fn received(&self) -> f64 {
        self.peers.iter().map(|p| f64::from(p.rcv_nxt)).sum()
    }
}

/// A sender held at 10 segments by its own window for 60 s must not make ours grow. 12 segments (one tick of data is
/// slack), and the one round of slow start, a seventh, that passes before it shows.
#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let segments = |enhanced| World::run(1, 10, 60, enhanced).widest / f64::from(MSS);
    let (run, draft) = (segments(true), segments(false));
    assert!((8.0..=14.0).contains(&run), "{run} segments");
    // Told of each segment by itself it may grow by all of that round: a sixth, from 10 and the last one and 1.7 of a tick of 1 ms.
    assert!((8.0..=14.9).contains(&draft), "{draft} segments");
}

/// One, four and twenty flows of one group share one window: the queue stays about the target whatever their number.
#[test]
fn a_group_queues_as_one_flow() {
    for (count, enhanced, most) in [(1, false, 75), (4, false, 75), (20, false, 85), (1, true, 32), (4, true, 32), (20, true, 48)] {
        let world = World::run(count, 1_000_000, 60, enhanced);
        assert!(world.longest <= most, "{count} flows, enhanced {enhanced}: {} ms", world.longest);
        assert_eq!(world.path.flows(), count as u32);
        let share = world.received() / (60.0 * 2_500_000.0);
        assert!(share > 0.85, "{count} flows, enhanced {enhanced}: {share} of the line");
        assert!(world.path.base().is_some_and(|b| b.abs_diff(BASE) < 2 * MS), "base {:?}", world.path.base());
        assert_ne!(world.path.phase(), Phase::SlowStart);
    }
}

/// Flows of one group get equal parts, also those that join later than the others by their number.
#[test]
fn flows_of_a_group_are_equal() {
    let world = World::run(4, 1_000_000, 60, true);
    let received: Vec<f64> = world.peers.iter().map(|p| f64::from(p.rcv_nxt)).collect();
    let jain = world.received().powi(2) / (4.0 * received.iter().map(|r| r * r).sum::<f64>());
    assert!(jain > 0.95, "Jain {jain}: {received:?}");
}
