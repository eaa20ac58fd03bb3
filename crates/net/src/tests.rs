//! What holds for every discipline: worked sizes, conservation, and configurations that read back or are refused.

use proptest::prelude::*;

use crate::*;

/// A packet of the tests.
#[derive(Clone, Debug)]
pub(crate) struct Pkt {
    pub flow: u64,
    pub bytes: u32,
    pub ecn: Ecn,
}

/// A packet that cannot be marked.
pub(crate) fn pkt(flow: u64, bytes: u32) -> Pkt {
    Pkt { flow, bytes, ecn: Ecn::NotEct }
}

/// A packet that can.
pub(crate) fn ect(flow: u64, bytes: u32) -> Pkt {
    Pkt { flow, bytes, ecn: Ecn::Ect0 }
}

impl Packet for Pkt {
    fn bytes(&self) -> u32 {
        self.bytes
    }
    fn flow(&self) -> u64 {
        self.flow
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn mark_ce(&mut self) {
        assert!(self.ecn.capable(), "marked a packet that is not ECT");
        self.ecn = Ecn::Ce;
    }
}

fn build(toml: &str) -> Result<Box<dyn Queue<Pkt>>, String> {
    let config: QueueConfig = toml::from_str(toml).map_err(|e| e.to_string())?;
    config.build(Rate::from_mbps_f64(10.0), Seed::new(1)).map_err(|e| e.to_string())
}

/// 10 Mbit/s for 50 ms are 62,500 bytes: 41 frames of 1500, and a smaller one still fits.
#[test]
fn fifty_milliseconds_hold_forty_one_frames() {
    for (size, small_fits) in [("ms = 50", true), ("bytes = 62500", true), ("packets = 41", false)] {
        let (mut queue, mut dropped) = (build(&format!("kind = \"drop_tail\"\n{size}")).expect(size), Vec::new());
        for _ in 0..42 {
            queue.enqueue(pkt(1, 1500), Time::ZERO, &mut dropped);
        }
        assert_eq!((queue.packets(), dropped.len()), (41, 1), "{size}");
        queue.enqueue(pkt(1, 1000), Time::ZERO, &mut dropped);
        assert_eq!(dropped.len() == 1, small_fits, "{size}");
    }
}

#[test]
fn a_device_queue_adds_to_the_discipline() {
    let mut queue = build("kind = \"drop_tail\"\npackets = 250\ndevice_queue_packets = 100").expect("a queue");
    let mut dropped = Vec::new();
    for _ in 0..351 {
        queue.enqueue(pkt(1, 1500), Time::ZERO, &mut dropped);
    }
    assert_eq!((queue.packets(), dropped.len()), (350, 1));
}

#[test]
fn an_impossible_queue_is_refused_with_the_rule() {
    for (toml, rule) in [
        ("kind = \"drop_tail\"", "one of `packets`"),
        ("kind = \"drop_tail\"\nms = 3\npackets = 4", "exclude each other"),
        ("kind = \"drop_tail\"\nms = -3", "above 0"),
        ("kind = \"drop_tail\"\nmilliseconds = 3", "milliseconds"),
        ("kind = \"codell\"", "codell"),
        ("kind = \"codel\"\ntarget_ms = 0", "target_ms"),
        ("kind = \"fq_codel\"\nqueues = 0", "queues"),
        ("kind = \"pie\"\nupdate_ms = 0", "update_ms"),
        ("kind = \"pie-freebsd\"\npackets = 0", "packets"),
        ("kind = \"pie-linux-old\"\nderandomize = true", "derandomize"),
        ("kind = \"fq_pie\"\nquantum = 0", "quantum"),
        ("kind = \"fq_pie-freebsd\"\ntarget_ms = -1", "target_ms"),
    ] {
        let message = build(toml).err().expect(toml);
        assert!(message.contains(rule), "{toml}: {message}");
    }
}

/// Overflow drops an ECT packet: a mark makes no room.
#[test]
fn a_full_queue_drops_what_it_could_mark() {
    for d in DISCIPLINES {
        let (mut queue, mut dropped) = (build(&format!("kind = \"{}\"\npackets = 10", d.name)).expect(d.name), Vec::new());
        for _ in 0..12 {
            queue.enqueue(ect(1, 1500), Time::ZERO, &mut dropped);
        }
        // FQ-CoDel drops half of the longest queue at once.
        let kept = if d.name == "fq_codel" { 6 } else { 10 };
        assert_eq!((queue.packets(), dropped.len(), queue.marks()), (kept, 12 - kept, 0), "{}", d.name);
        assert!(dropped.iter().all(|(_, why)| *why == Drop::Overflow), "{}", d.name);
    }
}

proptest! {
    /// In = out + dropped + waiting, in packets and bytes, after every call; an empty answer means an empty queue.
    #[test]
    fn what_goes_in_comes_out_or_is_dropped(
        steps in prop::collection::vec((0u8..5, 0u64..6, 40u32..1600, any::<bool>(), 0u64..30_000), 1..600),
        device in 0usize..3,
    ) {
        for d in DISCIPLINES {
            let mut queue = build(&format!("kind = \"{}\"\npackets = 40\ndevice_queue_packets = {device}", d.name)).expect(d.name);
            let (mut dropped, mut now) = (Vec::new(), Time::ZERO);
            let (mut entered, mut left, mut ce) = ((0, 0u64), (0, 0u64), 0);
            for &(kind, flow, bytes, capable, us) in &steps {
                now += Span::from_micros(us);
                if kind < 3 {
                    entered = (entered.0 + 1, entered.1 + u64::from(bytes));
                    queue.enqueue(if capable { ect(flow, bytes) } else { pkt(flow, bytes) }, now, &mut dropped);
                } else if let Some(packet) = queue.dequeue(now, &mut dropped) {
                    left = (left.0 + 1, left.1 + u64::from(packet.bytes));
                    ce += u64::from(packet.ecn == Ecn::Ce);
                } else {
                    prop_assert_eq!(queue.packets(), 0);
                }
                let lost: u64 = dropped.iter().map(|(p, _)| u64::from(p.bytes)).sum();
                prop_assert_eq!(entered.0, left.0 + dropped.len() + queue.packets(), "{}", d.name);
                prop_assert_eq!(entered.1, left.1 + lost + queue.bytes(), "{}", d.name);
                prop_assert!(queue.packets() <= 40 + device);
                prop_assert!(ce <= queue.marks());
            }
        }
    }
}
