//! Queue disciplines under TCP: they hold the delays that their texts promise, fill the line, and mark where they may.

use lowtide_scenario::{Scenario, Summary};

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
