//! uTP in whole runs: what Al-Saadi 2018 found, and what must hold of any transport.

use lowtide_scenario::{Scenario, Summary};

use crate::run;

fn summary(rate_mbps: f64, rtt_ms: f64, queue: &str, duration_s: f64, flows: &str) -> Summary {
    let text = format!(
        "duration_s = {duration_s}\n[topology]\nkind = \"dumbbell\"\nrate_mbps = {rate_mbps}\nrtt_ms = {rtt_ms}\nqueue = {queue}\n{flows}"
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    run(&scenario, 1, false).unwrap_or_else(|e| panic!("{e}")).summary
}

fn flow(cc: &str, more: &str) -> String {
    format!("[[flows]]\nname = \"{cc}\"\nkind = \"utp\"\ncc = \"{cc}\"\n{more}\n")
}

const FIFO: &str = "{ kind = \"drop_tail\", packets = 1000 }";
const FQ_CODEL: &str = "{ kind = \"fq_codel\", packets = 1000 }";

#[test]
fn alone_it_fills_a_fifo_and_keeps_its_target() {
    let s = summary(5.0, 20.0, FIFO, 60.0, &flow("libutp", ""));
    let delay = s.bottlenecks[0].queue_delay_ms.p50;
    assert!(s.bottlenecks[0].utilisation > 0.97 && (85.0..110.0).contains(&delay), "{delay}");
    assert_eq!(s.flows[0].retransmits, 0);
}

/// Al-Saadi 2018, sec. IV-D: lost retransmissions stall libutp behind FQ-CoDel at short RTTs, and libutp-mod does not stall.
#[test]
fn short_paths_behind_fq_codel_stall_libutp_and_not_its_mod() {
    let used = |cc| summary(2.0, 2.0, FQ_CODEL, 60.0, &flow(cc, "")).bottlenecks[0].utilisation;
    let (libutp, modified) = (used("libutp"), used("libutp-mod"));
    assert!(libutp < 0.6 && modified > 0.95, "{libutp} {modified}");
}

#[test]
fn a_transfer_completes_either_way_under_loss() {
    let traffic = "traffic = { kind = \"finite\", bytes = 2000000 }";
    for direction in ["forward", "reverse"] {
        let flows = flow("libutp-mod", &format!("{traffic}\ndirection = \"{direction}\""));
        let s = summary(2.0, 20.0, "{ kind = \"drop_tail\", packets = 8 }", 60.0, &flows);
        let took = s.flows[0].completion_s.expect("complete");
        assert!((8.3..15.0).contains(&took) && s.flows[0].retransmits > 0, "{took} {:?}", s.flows[0]);
        assert!((s.flows[0].goodput_bps * took / 8.0 - 2e6).abs() < 1.0, "{:?}", s.flows[0]);
    }
}

/// A control made for TCP runs over uTP too: told once per window, it keeps what it keeps there.
#[test]
fn other_controls_run_over_it() {
    let s = summary(5.0, 50.0, "{ kind = \"drop_tail\", ms = 300 }", 120.0, &flow("ledbat_pp", ""));
    assert!((0.8..0.97).contains(&s.bottlenecks[0].utilisation), "{}", s.bottlenecks[0].utilisation);
    let s = summary(5.0, 50.0, "{ kind = \"drop_tail\", ms = 50 }", 60.0, &flow("newreno", ""));
    assert!(s.bottlenecks[0].utilisation > 0.9, "{}", s.bottlenecks[0].utilisation);
}
