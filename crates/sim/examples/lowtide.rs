//! The rows of docs/algorithms/lowtide.md: `cargo run --release -p lowtide-sim --example lowtide`. Of each row the mean and the range over
//! seeds, beside LEDBAT++.
#![expect(clippy::print_stdout, reason = "an example prints what it shows")]

use lowtide_scenario::{Scenario, Summary};

const SEEDS: u64 = 8;
/// Payload's part of the line, as `share` counts.
const PAYLOAD: f64 = 1448.0 / 1514.0;

/// A line, without its flows.
#[derive(Clone, Copy)]
struct Line<'a> {
    rate_mbps: u32,
    rtt_ms: u32,
    queue: &'a str,
    /// Further keys of the topology.
    more: &'a str,
}

impl Default for Line<'_> {
    fn default() -> Self {
        Line { rate_mbps: 20, rtt_ms: 20, queue: "kind = \"drop_tail\", ms = 250", more: "" }
    }
}

impl Line<'_> {
    /// `flows` are names of controls with their starts; each is drawn within half a second.
    fn run(&self, seed: u64, (duration_s, warmup_s): (u32, u32), flows: &[(&str, u32)]) -> Summary {
        let flow = |(n, (cc, start_s)): (usize, &(&str, u32))| {
            format!("[[flows]]\nname = \"f{n}\"\ncc = \"{cc}\"\nstart_s = {start_s}.0\nstart_jitter_s = 0.5\n")
        };
        let flows: String = flows.iter().enumerate().map(flow).collect();
        let text = format!(
            "duration_s = {duration_s}.0\nwarmup_s = {warmup_s}.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = {}.0\nrtt_ms = {}.0\n\
             queue = {{ {} }}\n{}\n{flows}",
            self.rate_mbps, self.rtt_ms, self.queue, self.more
        );
        let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        lowtide_sim::run(&scenario, seed, false).unwrap_or_else(|e| panic!("{e}")).summary
    }
}

/// Mean and range.
fn spread(values: impl Iterator<Item = f64>) -> (String, f64, f64) {
    let values: Vec<f64> = values.collect();
    let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(a, b), &x| (a.min(x), b.max(x)));
    (format!("{:.3} ({least:.3}–{most:.3})", values.iter().sum::<f64>() / values.len() as f64), least, most)
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "**missed**" }
}

fn alone() {
    println!("| alone, RTT | share ≥ 0.97 | p99 of the queue ≤ 15 ms | | LEDBAT++ |\n|---|---|---|---|---|");
    for rtt_ms in [10, 20, 60, 100, 200, 300, 400] {
        let line = Line { rtt_ms, ..Line::default() };
        let runs = |cc| (1..=SEEDS).map(|seed| line.run(seed, (60, 20), &[(cc, 0)])).collect::<Vec<_>>();
        let (ours, theirs) = (runs("lowtide"), runs("ledbat_pp"));
        let share = |runs: &[Summary]| spread(runs.iter().map(|s| s.flows[0].share / PAYLOAD));
        let (text, least, _) = share(&ours);
        let (p99, _, most) = spread(ours.iter().map(|s| s.bottlenecks[0].queue_delay_ms.p99));
        println!("| {rtt_ms} ms | {text} | {p99} | {} | {} |", verdict(least >= 0.97 && most <= 15.0), share(&theirs).0);
    }
}

/// `queues` with the most that we may have; `most_harm`: what the other may lose.
fn beside(rival: &str, queues: &[(&str, f64)], most_harm: f64, rtts: &[u32]) {
    println!(
        "\n| beside {rival}: queue, RTT, who is first | our share | bound | | {rival} loses | LEDBAT++'s share |\n|---|---|---|---|---|---|"
    );
    for &(queue, bound) in queues {
        for &rtt_ms in rtts {
            for (first, ours_at, theirs_at) in [("we", 0, 5), ("they", 11, 0)] {
                let line = Line { rtt_ms, queue, ..Line::default() };
                let run = |seed, flows: &[(&str, u32)]| line.run(seed, (60, 20), flows);
                let ours: Vec<_> = (1..=SEEDS).map(|seed| run(seed, &[(rival, theirs_at), ("lowtide", ours_at)])).collect();
                let (text, _, most) = spread(ours.iter().map(|s| s.flows[1].share / PAYLOAD));
                let lost = (1..=SEEDS).zip(&ours).map(|(seed, with)| {
                    let without = run(seed, &[(rival, theirs_at)]).flows[0].share;
                    (without - with.flows[0].share) / without
                });
                let other =
                    spread((1..=SEEDS).map(|seed| run(seed, &[(rival, theirs_at), ("ledbat_pp", ours_at)]).flows[1].share / PAYLOAD)).0;
                let lost: Vec<f64> = lost.collect();
                let harm = lost.iter().copied().fold(f64::MIN, f64::max);
                let name = queue.replace("kind = ", "").replace('"', "");
                println!(
                    "| {name}, {rtt_ms} ms, {first} | {text} | {bound} | {} | {} | {other} |",
                    verdict(most <= bound && harm <= most_harm),
                    spread(lost.into_iter()).0
                );
            }
        }
    }
}

/// Alone where the line is not so clean.
fn elsewhere() {
    println!("\n| alone, elsewhere | share | bound | p99 of the queue, ms | |\n|---|---|---|---|---|");
    let row = |name: &str, line: Line, least_share: f64, most_ms: f64| {
        let runs: Vec<_> = (1..=SEEDS).map(|seed| line.run(seed, (60, 20), &[("lowtide", 0)])).collect();
        // Shares are of the mean rate of the line.
        let (share, least, _) = spread(runs.iter().map(|s| s.flows[0].goodput_bps / PAYLOAD / s.bottlenecks[0].capacity_bps));
        let (p99, _, most) = spread(runs.iter().map(|s| s.bottlenecks[0].queue_delay_ms.p99));
        println!("| {name}, {} ms | {share} | {least_share} | {p99} | {} |", line.rtt_ms, verdict(least >= least_share && most <= most_ms));
    };
    for (rate_mbps, most_ms) in [(1, 61.0), (5, 15.0), (100, 15.0)] {
        for rtt_ms in [20, 100] {
            row(&format!("{rate_mbps} Mbit/s"), Line { rate_mbps, rtt_ms, ..Line::default() }, 0.97, most_ms);
        }
    }
    let steps = "rate_trace = \"0 20\\n20 10\\nend 40\"";
    for (name, more, least) in [
        ("jitter 1 ms", "impair = { jitter_ms = 1.0 }", 0.97),
        ("1 % random loss", "impair = { loss = 0.01 }", 0.9),
        ("steps 20 and 10 Mbit/s, 20 s each", steps, 0.93),
    ] {
        for rtt_ms in [20, 60, 100] {
            row(name, Line { rtt_ms, more, ..Line::default() }, least, f64::MAX);
        }
    }
}

fn two() {
    println!("\n| two of ours, RTT | Jain ≥ 0.95 | line ≥ 0.95 | |\n|---|---|---|---|");
    for rtt_ms in [20, 60, 100, 200] {
        for apart in [1, 40] {
            let line = Line { rtt_ms, queue: "kind = \"drop_tail\", ms = 200", ..Line::default() };
            let runs: Vec<_> = (1..=SEEDS).map(|seed| line.run(seed, (160, 80), &[("lowtide", 0), ("lowtide", apart)])).collect();
            let (jain, least, _) = spread(runs.iter().map(|s| s.jain));
            let (used, least_used, _) = spread(runs.iter().map(|s| (s.flows[0].share + s.flows[1].share) / PAYLOAD));
            println!("| {rtt_ms} ms, {apart} s apart | {jain} | {used} | {} |", verdict(least >= 0.95 && least_used >= 0.95));
        }
    }
}

fn main() {
    alone();
    let fifo = [("kind = \"drop_tail\", ms = 30", 0.03), ("kind = \"drop_tail\", ms = 200", 0.02)];
    beside("cubic", &fifo, 0.03, &[20, 60, 100, 200]);
    beside("bbr1", &fifo.map(|(queue, _)| (queue, 0.03)), f64::MAX, &[20, 60, 200]);
    beside("bbr2", &fifo.map(|(queue, _)| (queue, 0.03)), f64::MAX, &[20, 60, 200]);
    let managed = [("kind = \"codel\"", 0.03), ("kind = \"pie\"", 0.03), ("kind = \"fq_codel\"", 0.05), ("kind = \"fq_pie\"", 0.05)];
    beside("cubic", &managed, f64::MAX, &[20, 60]);
    elsewhere();
    two();
}
