//! A download held back by our receiver on a line of 20 Mbit/s down and 1 Mbit/s up, RTT 20 ms, half a second of buffer, beside transfers that fill
//! the way up: their queue is in the round trips of the download, and is not its own (docs/algorithms/way-back.md).

use lowtide_scenario::{Scenario, Summary};

const CUBIC_UP: &str = "[[flows]]\nname = \"up\"\ncc = \"cubic\"\ndirection = \"reverse\"\n";
const CUBIC_UP_LATER: &str = "[[flows]]\nname = \"up\"\ncc = \"cubic\"\ndirection = \"reverse\"\nstart_s = 20.0\n";
const OUR_UP: &str = "[[flows]]\nname = \"up\"\ncc = \"ledbat_pp-enhanced\"\ndirection = \"reverse\"\n";
const CUBIC_DOWN: &str = "[[flows]]\nname = \"rival\"\ncc = \"cubic\"\n";

fn run(target: &str, others: &str, duration_s: u32) -> Summary {
    run_on(1.0, target, others, duration_s)
}

fn run_on(up_mbps: f64, target: &str, others: &str, duration_s: u32) -> Summary {
    let text = format!(
        "duration_s = {duration_s}\nwarmup_s = {}\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 20.0\nreverse_rate_mbps = {up_mbps}\nrtt_ms = 20.0\n\
         queue = {{ kind = \"drop_tail\", ms = 500.0 }}\n\
         [[flows]]\nname = \"down\"\nkind = \"rledbat\"\ncc = \"cubic\"\nreceiver = {{ algorithm = \"{target}\" }}\n{others}",
        duration_s / 3
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    lowtide_sim::run(&scenario, 1, false).unwrap_or_else(|e| panic!("{e}")).summary
}

/// By round trips, as RFC 9840 measures, it keeps less than a hundredth beside CUBIC. What it does not reach here is no error of the filter: the
/// page names both reasons.
#[test]
fn a_queue_on_the_way_up_does_not_starve_a_download() {
    for (others, least) in [(CUBIC_UP, 0.55), (CUBIC_UP_LATER, 0.65), (OUR_UP, 0.65)] {
        for target in ["ledbat_pp-enhanced-burst", "ledbat_pp-enhanced-burst:kernel"] {
            let goodput = |others| run(target, others, 300).flows[0].goodput_bps;
            let kept = goodput(others) / goodput("");
            assert!(kept > least, "{target} keeps {kept} of itself alone beside{others}");
        }
    }
    let as_published = run("ledbat_pp-enhanced", CUBIC_UP, 300).flows[0].share;
    assert!(as_published < 0.01, "the paper's receiver measures round trips: {as_published}");
}

/// Our own control holds a queue of milliseconds, so that the bunches cost it more. By round trips it kept 0.03 Mbit/s beside CUBIC and 0.12 beside
/// ours, two segments a round trip.
#[test]
fn a_queue_on_the_way_up_does_not_starve_a_download_by_our_own_control() {
    for (others, least) in [(CUBIC_UP, 0.05), (CUBIC_UP_LATER, 0.05), (OUR_UP, 0.03)] {
        for target in ["lowtide", "lowtide:kernel"] {
            let share = run(target, others, 300).flows[0].share;
            assert!(share > least, "{target} takes {share} of the line beside{others}");
        }
    }
}

/// The acknowledgements of 20 Mbit/s need 0.41 Mbit/s here. Where there is less they fill the way up, everybody's, and no queue would tell on
/// the way down.
#[test]
fn a_download_whose_own_acknowledgements_fill_the_way_up_yields_to_that() {
    for up_mbps in [0.4, 0.2] {
        for target in ["ledbat_pp-enhanced-burst", "ledbat_pp-enhanced-burst:kernel", "lowtide", "lowtide:kernel"] {
            let summary = run_on(up_mbps, target, "", 300);
            let up = summary.bottlenecks.iter().find(|b| b.name == "reverse").expect("there is a way up");
            let (mean, used) = (up.queue_delay_ms.mean, up.utilisation);
            assert!(mean < 60.0, "{target}: {mean} ms of acknowledgements wait on {up_mbps} Mbit/s");
            // Two segments a round trip are more acknowledgements than 0.2 Mbit/s carry without a queue: our own control stays below that.
            let least = if target.starts_with("lowtide") { 0.4 } else { 0.7 };
            assert!(used > least, "{target}: {used} of {up_mbps} Mbit/s in use");
        }
    }
}

/// Our own control as a sender: downloads fill the way of its acknowledgements, and theirs take 0.41 Mbit/s of the way up. By round trips it sent
/// 0.011 Mbit/s beside CUBIC, 0.029 beside CUBIC that comes later, and 0.45 beside our download.
#[test]
fn a_queue_on_the_way_down_does_not_starve_an_upload_by_our_own_control() {
    const OURS: &str = "kind = \"rledbat\"\nreceiver = { algorithm = \"ledbat_pp-enhanced-burst\" }\n";
    for (down, least) in [("", 0.1), ("start_s = 20.0\n", 0.1), (OURS, 0.55)] {
        let text = format!(
            "duration_s = 300.0\nwarmup_s = 100.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 20.0\nreverse_rate_mbps = 1.0\nrtt_ms = 20.0\n\
             queue = {{ kind = \"drop_tail\", ms = 500.0 }}\n\
             [[flows]]\nname = \"up\"\ncc = \"lowtide\"\ndirection = \"reverse\"\n[[flows]]\nname = \"down\"\ncc = \"cubic\"\n{down}"
        );
        let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let summary = lowtide_sim::run(&scenario, 1, false).unwrap_or_else(|e| panic!("{e}")).summary;
        let up_mbps = summary.flows[0].goodput_bps / 1e6;
        assert!(up_mbps > least, "{up_mbps} Mbit/s beside a download: {down}");
        let down_mbps = summary.flows[1].goodput_bps / 1e6;
        assert!(down == OURS || down_mbps > 18.9, "CUBIC's download has {down_mbps} of 19.1 Mbit/s");
    }
}

#[test]
fn beside_a_download_that_fills_the_way_down_it_yields_whatever_is_on_the_way_up() {
    for up in ["", CUBIC_UP, CUBIC_UP_LATER, OUR_UP] {
        for target in ["ledbat_pp-enhanced-burst", "ledbat_pp-burst", "ledbat_pp-enhanced-burst:kernel", "lowtide"] {
            let share = run(target, &format!("{CUBIC_DOWN}{up}"), 300).flows[0].share;
            assert!(share < 0.02, "{target} takes {share} beside CUBIC and{up}");
        }
    }
}
