//! The receiver of `cc` and the kernel's own code, each on the same lines. Their windows are equal to a byte, by which 2^-16 bytes and
//! f64 round them apart (crates/kernel/tests/reference.rs); the field rounds to units of 1024 bytes. So a run is the same to the packet
//! until a window lies within that byte of a unit.

use lowtide_scenario::{Scenario, Summary};

const CUBIC: &str = "[[flows]]\nname = \"tcp\"\ncc = \"cubic\"\n";
const PAGES: &str =
    "[[flows]]\nname = \"page\"\ncc = \"cubic\"\nstart_s = 1.0\ntraffic = { kind = \"repeat\", bytes = 262144, every_s = 2.5 }\n";
/// RTT, buffer and what is beside: long and short buffers, alone and not.
const LINES: [(f64, f64, &str); 5] = [(20.0, 500.0, ""), (50.0, 30.0, ""), (20.0, 500.0, CUBIC), (50.0, 30.0, CUBIC), (20.0, 500.0, PAGES)];

fn run(target: &str, rtt_ms: f64, buffer_ms: f64, others: &str, seed: u64) -> Summary {
    let text = format!(
        "duration_s = 100.0\nwarmup_s = 20.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 20.0\nrtt_ms = {rtt_ms}\n\
         queue = {{ kind = \"drop_tail\", ms = {buffer_ms} }}\n\
         [[flows]]\nname = \"low\"\nkind = \"rledbat\"\ncc = \"cubic\"\nreceiver = {{ algorithm = \"{target}\" }}\n{others}"
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    lowtide_sim::run(&scenario, seed, false).unwrap_or_else(|e| panic!("{e}")).summary
}

/// The reference's run and the kernel's.
fn both(target: &str, (rtt_ms, buffer_ms, others): (f64, f64, &str), seed: u64) -> [Summary; 2] {
    let kernel = format!("{target}:kernel");
    [target, &kernel].map(|target| run(target, rtt_ms, buffer_ms, &others.replace("TARGET", target), seed))
}

/// The target does not hang on what is measured, and windows seldom meet a unit's border: a segment leaves an acknowledgement earlier now
/// and then. (Beside CUBIC in a short buffer one such segment decides who loses one: see below.)
#[test]
fn without_room_for_bursts_they_are_the_same_to_a_thousandth() {
    for target in ["ledbat_pp", "ledbat_pp-enhanced"] {
        for line in LINES.into_iter().filter(|line| line.1 > 100.0 || line.2.is_empty()) {
            let [ours, theirs] = both(target, line, 1);
            let pairs = ours.flows.iter().zip(&theirs.flows).map(|(a, b)| (a.share, b.share));
            let (a, b) = (&ours.bottlenecks[0], &theirs.bottlenecks[0]);
            for (a, b) in pairs.chain([(a.utilisation, b.utilisation), (a.queue_delay_ms.mean, b.queue_delay_ms.mean)]) {
                assert!((a - b).abs() <= a / 1000.0, "{target}, {line:?}: {ours:#?} here, {theirs:#?} in the kernel");
            }
        }
    }
}

/// With room for bursts a window meets a unit's border sooner (alone after 6 s), and a segment more or less moves the slowdowns: shares
/// alone and beside pages to 0.005 of the line (the most seen is 0.002), beside CUBIC to a tenth of what is little.
#[test]
fn with_room_for_bursts_they_come_to_the_same() {
    for target in ["ledbat_pp-burst", "ledbat_pp-enhanced-burst"] {
        for line in LINES {
            if line.1 < 100.0 && !line.2.is_empty() {
                continue; // Who loses a segment of a short buffer is chance: see below.
            }
            let [ours, theirs] = both(target, line, 1);
            for (a, b) in ours.flows.iter().zip(&theirs.flows) {
                let most = (a.share / 10.0).min(0.005);
                assert!((a.share - b.share).abs() <= most, "{target}, {line:?}, {}: {} here, {} in the kernel", a.name, a.share, b.share);
            }
            let (a, b) = (&ours.bottlenecks[0], &theirs.bottlenecks[0]);
            assert!((a.utilisation - b.utilisation).abs() <= 0.005, "{target}, {line:?}: {a:?} here, {b:?} in the kernel");
            for (a, b) in [(a.queue_delay_ms.p50, b.queue_delay_ms.p50), (a.queue_delay_ms.p95, b.queue_delay_ms.p95)] {
                assert!((a - b).abs() <= 1.0, "{target}, {line:?}: queueing delay {a} ms here, {b} in the kernel");
            }
        }
    }
}

/// Which of two flows loses a segment of a short buffer is chance: one run's share has a standard deviation of 0.04, the
/// difference of two means of sixteen one of 0.014. Without room for bursts nearly all runs are the same to a thousandth: of 17 one was
/// not (seed 1, `ledbat_pp`: the same packets for 59.58 s, then the field says 52 units in one and 53 in the other, and a segment is
/// lost), so that two of sixteen may part. (The targets are longer than this buffer: one of
/// each kind is enough.)
#[test]
fn beside_cubic_in_a_short_buffer_they_get_the_same_in_the_mean() {
    let cubic = "[[flows]]\nname = \"tcp\"\ncc = \"cubic\"\nstart_jitter_s = 0.1\n";
    let shares = |target: &str| (1..=16).map(|seed| run(target, 50.0, 30.0, cubic, seed).flows[0].share).collect::<Vec<_>>();
    for target in ["ledbat_pp", "ledbat_pp-burst"] {
        let (ours, theirs) = (shares(target), shares(&format!("{target}:kernel")));
        let apart = ours.iter().zip(&theirs).map(|(a, b)| a - b).sum::<f64>() / 16.0;
        assert!(apart.abs() <= 0.042, "{target}: {ours:?} here, {theirs:?} in the kernel");
        let same = ours.iter().zip(&theirs).filter(|(a, b)| (*a - *b).abs() <= *a / 1000.0).count();
        assert!(same >= 14 || target != "ledbat_pp", "{target}: {ours:?} here, {theirs:?} in the kernel");
    }
}

/// Which of two gets more depends on how their slowdowns fall; together they must use the same, and neither starves. The use of the line
/// in one run deviates by 0.012 with where the slowdowns fall: the means of eight by 0.006.
#[test]
fn two_of_them_share_what_there_is() {
    let late = "[[flows]]\nname = \"late\"\nkind = \"rledbat\"\ncc = \"cubic\"\nstart_s = 10.0\nstart_jitter_s = 1.0\nreceiver = { algorithm = \"TARGET\" }\n";
    for target in ["ledbat_pp-burst", "ledbat_pp-enhanced-burst"] {
        let runs: Vec<[Summary; 2]> = (1..=8).map(|seed| both(target, (50.0, 200.0, late), seed)).collect();
        let [ours, theirs] = [0, 1].map(|side| {
            let used: Vec<f64> = runs.iter().map(|run| run[side].flows.iter().map(|f| f.share).sum()).collect();
            used.iter().sum::<f64>() / 8.0
        });
        assert!((ours - theirs).abs() <= 0.018, "{target}: {ours} here, {theirs} in the kernel");
        for flow in runs.iter().flat_map(|run| &run[1].flows) {
            assert!(flow.share > 0.2, "{target}: {flow:#?}");
        }
    }
}

#[test]
fn what_the_kernel_does_not_have_is_refused() {
    let text = |target: &str| {
        format!(
            "duration_s = 1.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 20.0\nrtt_ms = 20.0\nqueue = {{ kind = \"drop_tail\", ms = 50 }}\n\
         [[flows]]\nname = \"low\"\nkind = \"rledbat\"\ncc = \"cubic\"\nreceiver = {{ algorithm = \"{target}\" }}\n"
        )
    };
    for target in ["rledbat-s0:kernel", "ledbat_pp:kernal", "ledbat_pp-enhanced-burst:"] {
        let scenario = Scenario::parse(&text(target)).unwrap_or_else(|e| panic!("{e}"));
        let message = lowtide_sim::run(&scenario, 1, false).expect_err(target).to_string();
        assert!(message.contains("low") && message.contains("ledbat_pp"), "{target}: {message}");
    }
}
