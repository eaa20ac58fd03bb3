//! Links that are no wire, in whole runs: what they carry, and that a seed decides all of it.

use lowtide_scenario::{Scenario, Summary};

fn run(line: &str, flow: &str, seed: u64) -> Summary {
    let text = format!(
        "duration_s = 30.0\nwarmup_s = 5.0\n[topology]\nkind = \"dumbbell\"\nrtt_ms = 20.0\nlink_header_bytes = 14\n\
         queue = {{ kind = \"drop_tail\", packets = 400 }}\n{line}\n[[flows]]\nname = \"bulk\"\n{flow}\n"
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    lowtide_sim::run(&scenario, seed, false).unwrap_or_else(|e| panic!("{e}")).summary
}

const LINES: [&str; 5] = [
    "rate_mbps = 65.0\nwifi = {}",
    "rate_mbps = 65.0\nwifi = { contenders = 2 }",
    "rate_mbps = 20.0\ncellular = {}",
    "rate_mbps = 20.0\ncellular = { wander_pps = 800.0 }",
    "rate_mbps = 4.0\nopportunities = \"1\\n4\\n4\\n4\\n9\\n\"",
];

/// A link that a full queue keeps busy carries all that it can, and none more: what contention or opportunities leave to chance is in
/// the capacity, but for how often the others win the channel. Of two contenders two turns lie between ours on average, with a deviation of √6:
/// over the 2,000 turns of 25 s the whole deviates by √6/3/√2000 = 0.018, of which nearly three are allowed.
#[test]
fn a_saturated_link_carries_its_capacity_and_no_more() {
    for (line, slack) in LINES.iter().zip([0.002, 0.05, 0.0, 0.0, 0.0]) {
        for seed in 1..=3 {
            let summary = run(line, "cc = \"cubic\"", seed);
            let used = summary.bottlenecks[0].utilisation;
            assert!(used > 0.95 - slack && used <= 1.001 + slack, "{line}, seed {seed}: {used}");
        }
    }
}

#[test]
fn a_seed_decides_all_of_it() {
    for line in LINES {
        assert_eq!(run(line, "cc = \"bbr1\"", 7), run(line, "cc = \"bbr1\"", 7), "{line}");
    }
    for line in &LINES[..4] {
        assert_ne!(run(line, "cc = \"bbr1\"", 7), run(line, "cc = \"bbr1\"", 8), "{line}");
    }
}

/// The capacities that docs/scenario.md names. 20 packets of 1514 bytes in 43 + 67.5 + 36 + 3840 + 16 + 32 µs are 60.04 Mbit/s; each
/// contender takes 43 + 67.5 + 4000 + 16 + 32 µs between them.
#[test]
fn a_wifi_link_has_the_capacity_of_full_aggregates() {
    let capacity = |line| run(line, "cc = \"cubic\"", 1).bottlenecks[0].capacity_bps / 1e6;
    assert_eq!(format!("{:.1} {:.1}", capacity(LINES[0]), capacity(LINES[1])), "60.0 19.6");
    let doc = include_str!("../../../docs/scenario.md");
    assert!(doc.contains("60.0 Mbit/s of 65 without contenders, 19.6 with two"));
}

/// 5 opportunities of 1500 bytes in 9 ms.
#[test]
fn a_recorded_trace_has_the_capacity_of_its_opportunities() {
    let capacity = run(LINES[4], "cc = \"cubic\"", 1).bottlenecks[0].capacity_bps;
    assert!((capacity / (5.0 * 12_000.0 / 0.009) - 1.0).abs() < 1e-3, "{capacity}");
}

/// One flow whose packets keep step with themselves: with jitter, and only then, seeds differ.
#[test]
fn host_jitter_makes_seeds_differ_and_adds_no_more_than_it_may() {
    let with = |jitter: &str, seed| {
        let text = format!(
            "duration_s = 10.0\n{jitter}\n[topology]\nkind = \"dumbbell\"\nrtt_ms = 20.0\nrate_mbps = 20.0\n\
             queue = {{ kind = \"drop_tail\", ms = 50 }}\n[[flows]]\nname = \"bulk\"\ncc = \"cubic\"\n"
        );
        let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let summary = lowtide_sim::run(&scenario, seed, false).unwrap_or_else(|e| panic!("{e}")).summary;
        Summary { seed: 0, ..summary }
    };
    assert_eq!(with("", 1), with("", 2));
    assert_ne!(with("host_jitter_us = 100", 1), with("host_jitter_us = 100", 2));
    let (clean, held) = (with("", 1).flows[0].rtt_ms, with("host_jitter_us = 100", 1).flows[0].rtt_ms);
    assert!(held.min >= clean.min - 1e-3 && held.min < clean.min + 0.2, "{held:?} {clean:?}");
}
