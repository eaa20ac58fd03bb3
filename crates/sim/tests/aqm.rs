//! Queue disciplines under TCP: they hold the delays that their texts promise, fill the line, and mark where they may.

use lowtide_scenario::{Scenario, Summary};
use lowtide_sim::packet::{Kind, Packet};
use lowtide_sim::topology::lay_out;
use lowtide_units::{Span, Time};

/// 20 Mbit/s, 50 ms, a minute.
fn run(queue: &str, flows: &str) -> Summary {
    let text = format!(
        "duration_s = 60.0\nwarmup_s = 10.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 20.0\nrtt_ms = 50.0\nqueue = {queue}\n{flows}"
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    lowtide_sim::run(&scenario, 1, false).unwrap_or_else(|e| panic!("{e}")).summary
}

fn bulk(cc: &str, count: u32, ecn: bool) -> String {
    format!("[[flows]]\nname = \"bulk\"\ncc = \"{cc}\"\ncount = {count}\nstart_jitter_s = 1.0\ntcp = {{ ecn = {ecn} }}\n")
}

/// The mean delay, with what it must lie between, of a queue that several flows share.
///
/// CoDel lets the queue come back to 5 ms once an interval, so its mean grows with the flows' sawteeth (RFC 8289 §4.2); PIE's
/// integral term holds the mean itself (RFC 8033 §4.2). Linux's old PIE holds 23 ms for its 20: its first measurement sees
/// seven packets in six transmissions, and the smoothing of a whole number of rate steps keeps that overestimate.
#[test]
fn a_shared_queue_keeps_its_delay() {
    for (kind, count, mean) in [
        ("codel", 4, 2.5..7.5),
        ("codel", 10, 5.0..12.0),
        ("pie", 4, 13.5..16.5),
        ("pie", 10, 13.5..16.5),
        ("pie-linux-old", 10, 20.0..26.0),
        ("fq_codel", 4, 2.0..7.5),
        ("fq_pie", 4, 12.0..19.0),
        ("fq_pie-freebsd", 4, 12.0..19.0),
    ] {
        let s = run(&format!("{{ kind = \"{kind}\" }}"), &bulk("cubic", count, false));
        let delay = s.bottlenecks[0].queue_delay_ms.mean;
        assert!(mean.contains(&delay), "{kind}, {count} flows: {delay} ms is not in {mean:?}");
        assert!(s.bottlenecks[0].utilisation > 0.97 && s.jain > 0.97, "{kind}, {count} flows: {s:#?}");
    }
}

/// RFC 8290 §6.1: a flow that sends less than its share waits for the packet in service and no backlog.
#[test]
fn a_call_beside_downloads_waits_for_no_backlog() {
    let call = "[[flows]]\nname = \"call\"\nkind = \"udp\"\ntraffic = { kind = \"cbr\", rate_kbps = 64, packet_bytes = 160 }\n";
    for (kind, added) in [("fq_codel", 0.0..1.5), ("fq_pie", 0.0..1.5), ("fq_pie-freebsd", 0.0..1.5), ("pie", 5.0..40.0)] {
        let s = run(&format!("{{ kind = \"{kind}\" }}"), &(bulk("cubic", 4, false) + call));
        let call = s.flows.last().expect("the call");
        // One way: half the base round trip, and what the queue adds.
        assert!(added.contains(&(call.rtt_ms.p99 - 25.0)), "{kind}: {:?}", call.rtt_ms);
        assert_eq!(call.losses == 0, kind != "pie", "{kind}: {call:#?}");
    }
}

#[test]
fn ecn_flows_are_marked_and_lose_nothing() {
    for kind in ["codel", "fq_codel", "pie", "pie-linux-old", "fq_pie", "fq_pie-freebsd"] {
        let s = run(&format!("{{ kind = \"{kind}\", ecn = true }}"), &bulk("cubic", 4, true));
        let b = &s.bottlenecks[0];
        assert!(b.marks > 20 && b.drops == 0 && b.utilisation > 0.95, "{kind}: {b:#?}");
        assert!(s.flows.iter().all(|f| f.retransmits == 0), "{kind}: {:#?}", s.flows);
    }
}

/// How many of `flows` flows share a queue with an earlier one behind the first bottleneck, as a run with `seed` lays it out.
/// Each sends one packet of a whole quantum: the second flow of a queue has to wait for the queue's second turn.
fn collisions(kind: &str, flows: u32, seed: u64) -> usize {
    let text = format!(
        "duration_s = 1.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 20.0\nrtt_ms = 50.0\nlink_header_bytes = 0\n\
         queue = {{ kind = \"{kind}\", quantum = 1500 }}\n{}",
        bulk("cubic", flows, false)
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let mut layout = lay_out(&scenario, seed).unwrap_or_else(|e| panic!("{e}"));
    let stage = layout.bottlenecks[0].1;
    let link = layout.network.stages[usize::from(stage)].link.as_mut().expect("a bottleneck");
    let (mut dropped, mut now) = (Vec::new(), Time::ZERO);
    // The first packet of all keeps the transmitter busy while the others queue up.
    for flow in (flows..=flows).chain(0..flows) {
        link.enqueue(Packet::new(flow, Kind::Datagram, 1500, now), now, &mut dropped);
        if flow == flows {
            link.transmit(now, &mut dropped).expect("an idle link");
        }
    }
    let mut order = Vec::new();
    for _ in 0..flows {
        now += Span::from_millis(1);
        link.has_left(now);
        order.push(link.transmit(now, &mut dropped).expect("one waits").2.flow);
    }
    order.windows(2).position(|w| w[0] > w[1]).map_or(0, |at| order.len() - at - 1)
}

/// 64 flows in 1024 queues: 64 − 1024 (1 − (1 − 1/1024)^64) = 1.94 collisions expected, deviation 1.33; over 16 seeds 31 ± 5.3.
/// Three deviations are allowed. With the seeds 1 to 16 as they are, not mixed, there was none in any run.
#[test]
fn small_seeds_make_flows_collide_as_chance_has_it() {
    for kind in ["fq_codel", "fq_pie"] {
        let counts: Vec<usize> = (1..=16).map(|seed| collisions(kind, 64, seed)).collect();
        assert!((15..=47).contains(&counts.iter().sum::<usize>()), "{kind}: {counts:?}");
        assert!(counts.iter().any(|n| *n != counts[0]), "{kind}: {counts:?}");
    }
}
