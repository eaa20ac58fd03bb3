//! Pages from results, and the same opened in a browser.

use std::process::Command;

use lowtide_scenario::result::SCHEMA;
use lowtide_scenario::{Bottleneck, FlowResult, QueuePoint};

use super::*;

fn result(dir: &Path, rtt: u32, rate: u32, seed: u64, series: bool) {
    let flow = FlowResult { name: "bulk".into(), group: "lbe".into(), share: f64::from(rtt) / 100.0, ..FlowResult::default() };
    let summary = Summary {
        schema: SCHEMA,
        scenario: "demo <1>".into(),
        host: "sim".into(),
        seed,
        flows: vec![flow],
        bottlenecks: vec![Bottleneck { name: "forward".into(), utilisation: f64::from(rate) / 100.0, ..Bottleneck::default() }],
        ..Summary::default()
    };
    let scenario = format!("seed = {seed}\n[topology]\nrtt_ms = {rtt}\nrate_mbps = {rate}\n[[flows]]\nname = \"bulk\"\ncc = \"cubic\"\n");
    let points = (0..100).map(|i| {
        let time_s = f64::from(i) / 10.0;
        let queue = QueuePoint {
            time_s,
            bottleneck: "forward".into(),
            queue_bytes: 1500.0,
            queue_packets: 1.0,
            queue_delay_ms: f64::from(i % 7),
            drops: 0.0,
        };
        (FlowPoint { goodput_bps: 1e6 * f64::from(i), cwnd_bytes: 3e4, rtt_ms: 20.0, ..FlowPoint::at(time_s, "bulk") }, queue)
    });
    let (flows, queues) = points.unzip();
    ResultDir::write(dir, &scenario, &summary, series.then_some(&Series { flows, queues })).unwrap_or_else(|e| panic!("{e}"));
}

fn page(dir: &Path) -> String {
    let path = plot_dir(dir).unwrap_or_else(|e| panic!("{e:#}"));
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn one_run_shows_its_series_distributions_and_data() {
    let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    let run = dir.path().join("run");
    result(&run, 20, 50, 7, true);
    let html = page(&run);
    for word in ["seed 7", "RTT 20 ms", "Throughput of each flow", "Congestion window", "cumulative distribution", "demo &lt;1&gt;"] {
        assert!(html.contains(word), "{word}");
    }
    assert!(!html.contains("Window granted"), "a plot without data is not drawn");
    assert_eq!(html.matches("<svg class=\"plot\"").count(), html.matches("plots/").count());
    assert!(fs::read_to_string(run.join("plots/01.csv")).unwrap_or_default().lines().count() > 100);
}

#[test]
fn a_sweep_of_two_parameters_is_a_heat_map_and_seeds_are_averaged() {
    let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    for (n, (rtt, rate, seed)) in [(10, 40, 1), (10, 40, 2), (20, 40, 1), (10, 80, 1), (20, 80, 1), (40, 40, 1)].into_iter().enumerate() {
        result(&dir.path().join(n.to_string()), rtt, rate, seed, false);
    }
    let html = page(dir.path());
    assert!(html.contains("topology.rtt_ms") && html.contains("<rect") && html.contains("Seeds 1, 2"), "{html}");
    let csv = fs::read_to_string(dir.path().join("plots/01.csv")).unwrap_or_default();
    assert_eq!(csv.lines().count(), 1 + 5, "{csv}");
    assert!(csv.contains("10,40,0.4\n"), "{csv}");
}

#[test]
fn a_sweep_of_one_parameter_is_a_curve() {
    let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    for rtt in [10, 20, 40] {
        result(&dir.path().join(rtt.to_string()), rtt, 40, 1, false);
    }
    let html = page(dir.path());
    assert!(html.contains("<polyline") && html.contains("seeds 1; rate 40 Mbit/s ·"), "the fixed parameters stand in the title");
    let share = fs::read_to_string(dir.path().join("plots/04.csv")).unwrap_or_default();
    assert!(share.contains("\"Share of lbe\",10,0.1\n\"Share of lbe\",20,0.2\n\"Share of lbe\",40,0.4"), "{share}");
}

#[test]
fn an_empty_folder_says_how_to_fill_it() {
    let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    let error = plot_dir(dir.path()).expect_err("nothing to plot").to_string();
    assert!(error.contains("--out"), "{error}");
}

/// Opened from disk: no console message, every plot in the document.
#[test]
fn chromium_opens_the_page_without_complaint() {
    let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    let run = dir.path().join("run");
    result(&run, 20, 50, 1, true);
    let wanted = page(&run).matches("<svg class=\"plot\"").count();
    let profile = format!("--user-data-dir={}", dir.path().join("profile").display());
    let url = format!("file://{}", run.join(PAGE).display());
    let flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"];
    let Ok(output) = Command::new("/usr/bin/chromium").args(flags).args([&profile, &url]).output() else {
        lowtide_testing::skip_in_ci_too("chromium_opens_the_page_without_complaint", "no /usr/bin/chromium here");
        return;
    };
    let (dom, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(dom.matches("<polyline").count(), wanted, "{log}");
    assert!(!log.contains("CONSOLE"), "{log}");
}

#[test]
fn a_trace_does_not_fill_the_caption() {
    let text = "[topology]\nkind = \"dumbbell\"\nrate_trace = \"\"\"\n0 20\n5 10\n\"\"\"\n";
    assert_eq!(setting(text, &[]), "dumbbell, rate trace 0 20 …");
}

#[test]
fn a_caption_has_words_and_units_and_no_keys() {
    let text = r#"
        [topology]
        kind = "dumbbell"
        rate_mbps = 20.0
        rtt_ms = 61.5
        queue = { kind = "drop_tail", packets = 250 }
        access = { rate_mbps = 200.0, queue = { kind = "fq_codel" } }
        impair = { loss = 0.01, jitter_ms = 3.0 }
    "#;
    let words = "access queue fq-codel, access rate 200 Mbit/s, jitter 3 ms, loss 0.01, dumbbell, queue drop-tail, queue 250 packets, \
                 rate 20 Mbit/s, RTT 61.5 ms";
    assert_eq!(setting(text, &[]), words);
}
