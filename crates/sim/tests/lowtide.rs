//! The control `lowtide` on lines where it keeps the bounds set for it; docs/algorithms/lowtide.md has those where it does not yet.

use lowtide_scenario::{Scenario, Summary};

const SEEDS: [u64; 3] = [1, 2, 3];
/// Payload's part of the line, as `share` counts.
const PAYLOAD: f64 = 1448.0 / 1514.0;
const CUBIC: &str = "cc = \"cubic\"\nstart_s = 5.0";

/// A sender of ours, and a receiver that holds a server with CUBIC back.
const SENDER: &str = "cc = \"lowtide\"";
const RECEIVER: &str = "kind = \"rledbat\"\ncc = \"cubic\"\nreceiver = { algorithm = \"lowtide\" }";

/// 20 Mbit/s; `ours` first, drawn within half a second, then another flow of `other`, if there is one. Counted from `warmup_s` on.
fn run_of(ours: &str, seed: u64, (duration_s, warmup_s): (u32, u32), rtt_ms: u32, queue: &str, other: &str) -> Summary {
    let ours = format!("[[flows]]\nname = \"ours\"\n{ours}\nstart_jitter_s = 0.5\n");
    let other = if other.is_empty() { String::new() } else { format!("[[flows]]\nname = \"other\"\n{other}\n") };
    let text = format!(
        "duration_s = {duration_s}.0\nwarmup_s = {warmup_s}.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 20.0\nrtt_ms = {rtt_ms}.0\n\
         queue = {{ {queue} }}\n{ours}{other}"
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    lowtide_sim::run(&scenario, seed, false).unwrap_or_else(|e| panic!("{e}")).summary
}

fn run(seed: u64, times: (u32, u32), rtt_ms: u32, queue: &str, other: &str) -> Summary {
    run_of(SENDER, seed, times, rtt_ms, queue, other)
}

fn download(seed: u64, rtt_ms: u32, queue: &str, other: &str) -> Summary {
    run_of(RECEIVER, seed, (60, 20), rtt_ms, queue, other)
}

/// Our part of what payload can have of the line.
fn share(summary: &Summary) -> f64 {
    summary.flows[0].share / PAYLOAD
}

#[test]
fn alone_it_fills_the_line_and_hardly_the_queue() {
    for (seed, rtt_ms) in SEEDS.into_iter().flat_map(|seed| [20, 60, 200].map(|rtt| (seed, rtt))) {
        let summary = run(seed, (60, 20), rtt_ms, "kind = \"drop_tail\", ms = 250", "");
        let p99 = summary.bottlenecks[0].queue_delay_ms.p99;
        assert!(share(&summary) >= 0.97 && p99 <= 15.0, "RTT {rtt_ms} ms, seed {seed}: {} of the line, {p99} ms", share(&summary));
    }
}

#[test]
fn beside_cubic_it_takes_next_to_nothing_in_small_and_large_buffers() {
    for (seed, rtt_ms) in SEEDS.into_iter().flat_map(|seed| [20, 60, 200, 300].map(|rtt| (seed, rtt))) {
        for (buffer_ms, bound) in [(30, 0.03), (200, 0.02)] {
            if (rtt_ms, buffer_ms) == (300, 30) {
                continue; // Not kept: scenarios/long-cubic.toml, docs/algorithms/lowtide.md.
            }
            let queue = format!("kind = \"drop_tail\", ms = {buffer_ms}");
            let ours = share(&run(seed, (60, 20), rtt_ms, &queue, CUBIC));
            assert!(ours <= bound, "RTT {rtt_ms} ms, buffer {buffer_ms} ms, seed {seed}: {ours}");
        }
    }
}

/// CoDel keeps the queue below what a delay-based control waits for; LEDBAT++ takes a quarter of the line here.
#[test]
fn behind_codel_it_yields_to_cubic() {
    for seed in SEEDS {
        let ours = share(&run(seed, (60, 20), 20, "kind = \"codel\"", CUBIC));
        assert!(ours <= 0.03, "seed {seed}: {ours}");
    }
}

#[test]
fn one_random_loss_in_a_hundred_costs_little() {
    for (seed, rtt_ms) in SEEDS.into_iter().flat_map(|seed| [20, 60].map(|rtt| (seed, rtt))) {
        let ours = share(&run(seed, (60, 20), rtt_ms, "kind = \"drop_tail\", ms = 250 }\nimpair = { loss = 0.01", ""));
        assert!(ours >= 0.9, "RTT {rtt_ms} ms, seed {seed}: {ours}");
    }
}

/// A fair queue shows each flow its own queue only: what gives the other away is a probe that gets half of the rate known.
#[test]
fn behind_a_fair_queue_it_leaves_its_half_to_cubic() {
    for (seed, kind) in SEEDS.into_iter().flat_map(|seed| ["fq_codel", "fq_pie"].map(|kind| (seed, kind))) {
        let ours = share(&run(seed, (60, 20), 20, &format!("kind = \"{kind}\""), CUBIC));
        assert!(ours <= 0.05, "{kind}, seed {seed}: {ours}");
    }
}

/// A probe that the peer's window ends says nothing of others.
#[test]
fn a_receiver_that_holds_back_too_costs_a_sender_nothing() {
    let both = "kind = \"rledbat\"\ncc = \"lowtide\"\nreceiver = { algorithm = \"ledbat_pp-enhanced-burst\" }";
    for (seed, rtt_ms) in SEEDS.into_iter().flat_map(|seed| [20, 100].map(|rtt| (seed, rtt))) {
        let ours = share(&run_of(both, seed, (60, 20), rtt_ms, "kind = \"drop_tail\", ms = 250", ""));
        assert!(ours >= 0.97, "RTT {rtt_ms} ms, seed {seed}: {ours}");
    }
}

/// Pages send it to the floor; a program that has less to send than the line carries does not stay there.
#[test]
fn a_program_with_a_rate_of_its_own_keeps_it_beside_pages() {
    let stream = "cc = \"lowtide\"\ntraffic = { kind = \"on_off\", on_s = 1000.0, off_s = 0.001, rate_mbps = 4.0 }";
    let pages = "cc = \"cubic\"\nstart_s = 8.0\ntraffic = { kind = \"repeat\", bytes = 262000, every_s = 10.0 }";
    for seed in SEEDS {
        let mbps = run_of(stream, seed, (60, 5), 20, "kind = \"drop_tail\", ms = 250", pages).flows[0].goodput_bps / 1e6;
        assert!(mbps >= 0.95 * 4.0, "seed {seed}: {mbps} Mbit/s");
    }
}

#[test]
fn two_that_start_together_share_the_line() {
    for (seed, rtt_ms) in SEEDS.into_iter().flat_map(|seed| [20, 100].map(|rtt| (seed, rtt))) {
        let two = "cc = \"lowtide\"\nstart_s = 1.0\nstart_jitter_s = 0.5";
        let summary = run(seed, (160, 80), rtt_ms, "kind = \"drop_tail\", ms = 200", two);
        let used = (summary.flows[0].share + summary.flows[1].share) / PAYLOAD;
        assert!(summary.jain >= 0.95 && used >= 0.95, "RTT {rtt_ms} ms, seed {seed}: Jain {}, {used} of the line", summary.jain);
    }
}

#[test]
fn a_receive_window_fills_the_line_alone_and_hardly_the_queue() {
    for (seed, rtt_ms) in SEEDS.into_iter().flat_map(|seed| [20, 60, 200, 300].map(|rtt| (seed, rtt))) {
        let summary = download(seed, rtt_ms, "kind = \"drop_tail\", ms = 250", "");
        let p99 = summary.bottlenecks[0].queue_delay_ms.p99;
        assert!(share(&summary) >= 0.97 && p99 <= 15.0, "RTT {rtt_ms} ms, seed {seed}: {} of the line, {p99} ms", share(&summary));
    }
}

#[test]
fn a_receive_window_leaves_the_line_to_cubic() {
    for (seed, rtt_ms) in SEEDS.into_iter().flat_map(|seed| [20, 60].map(|rtt| (seed, rtt))) {
        for (buffer_ms, bound) in [(30, 0.05), (200, 0.02)] {
            let ours = share(&download(seed, rtt_ms, &format!("kind = \"drop_tail\", ms = {buffer_ms}"), CUBIC));
            assert!(ours <= bound, "RTT {rtt_ms} ms, buffer {buffer_ms} ms, seed {seed}: {ours}");
        }
    }
}
