//! Networks of more than one link, against what is known of them.

use lowtide_scenario::{Scenario, Summary};
use lowtide_units::{Span, Time};

use super::lay_out;
use crate::packet::{Kind, Packet};
use crate::run;
use crate::slab::Slab;

fn summary(text: &str) -> Summary {
    let scenario = Scenario::parse(text).unwrap_or_else(|e| panic!("{e}"));
    run(&scenario, 1, false).unwrap_or_else(|e| panic!("{e}")).summary
}

fn flow(name: &str, cc: &str, more: &str) -> String {
    format!("[[flows]]\nname = \"{name}\"\ncc = \"{cc}\"\n{more}\n")
}

fn parking_lot(hops: u32, queue: &str, more: &str, flows: &str) -> String {
    format!(
        "duration_s = 200.0\nwarmup_s = 20.0\n[topology]\nkind = \"parking_lot\"\nhops = {hops}\nrate_mbps = 10.0\ndelay_ms = 10.0\n\
         queue = {queue}\n{more}\n{flows}"
    )
}

fn goodputs(summary: &Summary) -> Vec<f64> {
    summary.flows.iter().map(|f| f.goodput_bps / 1e6).collect()
}

#[test]
fn a_graph_of_two_nodes_is_a_dumbbell_to_the_byte() {
    let head = "duration_s = 20.0\nwarmup_s = 2.0\n";
    let link = "rate_mbps = 20.0\nqueue = { kind = \"drop_tail\", ms = 60 }\nimpair = { loss = 0.001, jitter_ms = 2.0 }\n";
    let dumbbell = format!("{head}[topology]\nkind = \"dumbbell\"\nrtt_ms = 50.0\n{link}");
    let graph = format!("{head}[topology]\nkind = \"graph\"\n[[topology.links]]\nfrom = \"s\"\nto = \"c\"\ndelay_ms = 25.0\n{link}");
    let flows = |ends: &str| flow("a", "cubic", &format!("count = 2\nstart_jitter_s = 1.0\n{ends}")) + &flow("b", "ledbat_pp", ends);
    for up in ["", "direction = \"reverse\"\n"] {
        let in_dumbbell = dumbbell.clone() + &flows("") + &flow("up", "bbr1", up);
        let in_graph = graph.clone() + &flows("from = \"s\"\nto = \"c\"") + &flow("up", "bbr1", &format!("from = \"s\"\nto = \"c\"\n{up}"));
        let json = |text: &str| serde_json::to_string(&summary(text).flows).expect("serialisable");
        assert_eq!(json(&in_dumbbell), json(&in_graph));
    }
}

/// With a fair queue at each of two hops, rates are max-min fair: of the second hop each of three flows gets a third, and the
/// flow of the first hop what the long one leaves.
#[test]
fn fair_queues_share_a_parking_lot_max_min() {
    let flows = flow("long", "cubic", "") + &flow("first", "cubic", "to = \"1\"") + &flow("second", "cubic", "from = \"1\"\ncount = 2");
    let s = summary(&parking_lot(2, "{ kind = \"fq_codel\" }", "", &flows));
    let line = 10.0 * 1448.0 / 1514.0;
    for (got, share) in goodputs(&s).into_iter().zip([1.0 / 3.0, 2.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0]) {
        assert!((0.93..1.03).contains(&(got / (line * share))), "{got} of {}: {:?}", line * share, goodputs(&s));
    }
    let names: Vec<&str> = s.bottlenecks.iter().map(|b| b.name.as_str()).collect();
    assert_eq!(names, ["hop1", "hop2"], "acknowledgements alone are no bottleneck");
    assert!(s.bottlenecks.iter().all(|b| b.utilisation > 0.95), "{s:#?}");
}

/// Mathis et al. 1997: over two hops a NewReno flow has twice the round trip and twice the losses, so 1/(2√2) of the rate.
#[test]
fn newreno_over_two_lossy_hops_gets_what_its_law_says() {
    let cross =
        |name: &str, from: u32| flow(name, "newreno", &format!("from = \"{from}\"\nto = \"{}\"\ntcp = {{ delayed_ack = 1 }}", from + 1));
    let flows = flow("long", "newreno", "tcp = { delayed_ack = 1 }") + &cross("first", 0) + &cross("second", 1);
    let text = parking_lot(2, "{ kind = \"drop_tail\", ms = 500 }", "impair = { loss = 0.01 }", &flows);
    let s = summary(&text.replace("duration_s = 200.0", "duration_s = 1000.0").replace("delay_ms = 10.0", "delay_ms = 25.0"));
    let got = goodputs(&s);
    let ratio = 2.0 * got[0] / (got[1] + got[2]);
    assert!((0.85..1.15).contains(&(ratio * 8f64.sqrt())), "{ratio}: {got:?}");
}

#[test]
fn flows_in_both_directions_of_a_hop_share_it_with_each_others_acknowledgements() {
    let flows = flow("long", "cubic", "") + &flow("back", "cubic", "from = \"2\"\nto = \"1\"");
    let s = summary(&parking_lot(3, "{ kind = \"drop_tail\", ms = 100 }", "", &flows));
    let names: Vec<&str> = s.bottlenecks.iter().map(|b| b.name.as_str()).collect();
    assert_eq!(names, ["hop1", "hop2", "hop3", "hop2.reverse"]);
    let delay = |name: &str| s.bottlenecks.iter().find(|b| b.name == name).expect("named").queue_delay_ms.mean;
    // The long flow's round trip: its path, the queue where it is held up, and its acknowledgements' queue.
    let expected = 60.0 + delay("hop1") + delay("hop2") + delay("hop3") + delay("hop2.reverse");
    let ratio = s.flows[0].rtt_ms.mean / expected;
    assert!(delay("hop2.reverse") > 20.0 && (0.85..1.15).contains(&ratio), "{ratio}: {s:#?}");
}

#[test]
fn a_senders_own_link_limits_it_and_is_no_bottleneck_of_the_others() {
    let access = "access = { rate_mbps = 4.0, queue = { kind = \"drop_tail\", packets = 100 } }\n";
    let text = format!(
        "duration_s = 60.0\nwarmup_s = 10.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 20.0\nrtt_ms = 40.0\n\
         queue = {{ kind = \"drop_tail\", ms = 50 }}\n{access}{}",
        flow("f", "cubic", "count = 3")
    );
    let s = summary(&text);
    let alone = 4.0 * 1448.0 / 1514.0;
    assert!(goodputs(&s).iter().all(|g| (0.97..1.01).contains(&(g / alone))), "{:?}", goodputs(&s));
    assert_eq!(s.bottlenecks.len(), 1);
    assert!(s.bottlenecks[0].queue_delay_ms.max < 3.0, "{s:#?}");
    assert!((s.flows[0].share - s.flows[0].goodput_bps / 20e6).abs() < 1e-9);
}

/// How many of `flows` flows share a queue with an earlier one behind the first bottleneck, as a run with `seed` lays it out.
/// Each sends one packet of a whole quantum: the second flow of a queue has to wait for the queue's second turn.
fn collisions(kind: &str, flows: u32, seed: u64) -> usize {
    let text = format!(
        "duration_s = 1.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 20.0\nrtt_ms = 50.0\nlink_header_bytes = 0\n\
         queue = {{ kind = \"{kind}\", quantum = 1500 }}\n\
         [[flows]]\nname = \"bulk\"\ncc = \"cubic\"\ncount = {flows}\n"
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let mut layout = lay_out(&scenario, seed).unwrap_or_else(|e| panic!("{e}"));
    let stage = layout.bottlenecks[0].1;
    let link = layout.network.stages[usize::from(stage)].link.as_mut().expect("a bottleneck");
    let (mut slab, mut dropped, mut now) = (Slab::default(), Vec::new(), Time::ZERO);
    // The first packet of all keeps the transmitter busy while the others queue up.
    for flow in (flows..=flows).chain(0..flows) {
        let packet = slab.put(&Packet::new(flow, Kind::Datagram, 1500, now), 0, 0, now);
        link.enqueue(packet, now, &mut dropped);
        if flow == flows {
            link.transmit(now, &mut dropped).expect("an idle link");
        }
    }
    let mut order = Vec::new();
    for _ in 0..flows {
        now += Span::from_millis(1);
        link.has_left(now);
        order.push(link.transmit(now, &mut dropped).expect("one waits").packet.flow());
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
