//! The receiver of `cc` and the kernel's own code, each on the same lines: they must come to the same.

use lowtide_scenario::{Scenario, Summary};

fn run(target: &str, rtt_ms: f64, buffer_ms: f64, others: &str, seed: u64) -> Summary {
    let text = format!(
        "duration_s = 100.0\nwarmup_s = 20.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 20.0\nrtt_ms = {rtt_ms}\n\
         queue = {{ kind = \"drop_tail\", ms = {buffer_ms} }}\n\
         [[flows]]\nname = \"low\"\nkind = \"rledbat\"\ncc = \"cubic\"\nreceiver = {{ algorithm = \"{target}\" }}\n{others}"
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    lowtide_sim::run(&scenario, seed, false).unwrap_or_else(|e| panic!("{e}")).summary
}

/// Both targets on one line beside `others`, ours and the kernel's.
fn compare(rtt_ms: f64, buffer_ms: f64, others: &str, check: impl Fn(&Summary, &Summary, &str)) {
    for target in ["ledbat_pp-burst", "ledbat_pp-enhanced-burst"] {
        let kernel = format!("{target}:kernel");
        let [ours, theirs] = [target, &kernel].map(|target| run(target, rtt_ms, buffer_ms, &others.replace("TARGET", target), 1));
        check(&ours, &theirs, target);
    }
}

/// Shares and use of the line to 4 points, queueing delay to 5 ms. What differs between the two: integers, segments of a fast
/// flow told together (PATH_TELL_NS), the least target of 1 ms.
fn same(ours: &Summary, theirs: &Summary, target: &str) {
    let close = |what: &str, a: f64, b: f64, most: f64| assert!((a - b).abs() <= most, "{target}: {what} {a} here, {b} in the kernel");
    for (a, b) in ours.flows.iter().zip(&theirs.flows) {
        close(&a.name, a.share, b.share, 0.04);
    }
    let (a, b) = (&ours.bottlenecks[0], &theirs.bottlenecks[0]);
    close("use of the line", a.utilisation, b.utilisation, 0.04);
    close("median queue", a.queue_delay_ms.p50, b.queue_delay_ms.p50, 2.0);
    close("95 % of the queue", a.queue_delay_ms.p95, b.queue_delay_ms.p95, 5.0);
}

#[test]
fn alone_they_carry_and_queue_the_same() {
    compare(20.0, 500.0, "", same);
    compare(50.0, 30.0, "", same);
}

#[test]
fn beside_cubic_they_get_the_same_out_of_the_way() {
    compare(20.0, 500.0, "[[flows]]\nname = \"tcp\"\ncc = \"cubic\"\n", same);
}

/// Which of two flows loses a segment of a short buffer is chance: one run's share has a standard deviation of 0.04, the
/// difference of two means of sixteen one of 0.014. (Both targets are longer than this buffer: one is enough.)
#[test]
fn beside_cubic_in_a_short_buffer_they_get_the_same_in_the_mean() {
    let cubic = "[[flows]]\nname = \"tcp\"\ncc = \"cubic\"\nstart_jitter_s = 0.1\n";
    let mean = |target: &str| (1..=16).map(|seed| run(target, 50.0, 30.0, cubic, seed).flows[0].share).sum::<f64>() / 16.0;
    let (ours, theirs) = (mean("ledbat_pp-burst"), mean("ledbat_pp-burst:kernel"));
    assert!((ours - theirs).abs() <= 0.05, "{ours} here, {theirs} in the kernel");
}

#[test]
fn beside_page_loads_they_yield_and_come_back_the_same() {
    let page =
        "[[flows]]\nname = \"page\"\ncc = \"cubic\"\nstart_s = 1.0\ntraffic = { kind = \"repeat\", bytes = 262144, every_s = 2.5 }\n";
    compare(20.0, 500.0, page, same);
}

/// Which of two gets more depends on how their slowdowns fall; together they must use the same, and neither starves.
#[test]
fn two_of_them_share_what_there_is() {
    let late = "[[flows]]\nname = \"late\"\nkind = \"rledbat\"\ncc = \"cubic\"\nstart_s = 10.0\nreceiver = { algorithm = \"TARGET\" }\n";
    compare(50.0, 200.0, late, |ours, theirs, target| {
        let sum = |s: &Summary| s.flows.iter().map(|f| f.share).sum::<f64>();
        assert!((sum(ours) - sum(theirs)).abs() < 0.03, "{target}: {} here, {} in the kernel", sum(ours), sum(theirs));
        assert!(theirs.flows.iter().all(|f| f.share > 0.25), "{target}: {:#?}", theirs.flows);
    });
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
