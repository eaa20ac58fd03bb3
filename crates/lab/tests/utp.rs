//! uTP between two namespaces of the laboratory. Needs root; without it each test says that it was skipped.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lowtide_lab::run::{Options, run};
use lowtide_lab::{series, site};
use lowtide_scenario::Scenario;

/// A bulk flow down, a transfer up.
const SCENARIO: &str = r#"
duration_s = 6.0
warmup_s = 1.0
[topology]
kind = "dumbbell"
rate_mbps = 5.0
rtt_ms = 20.0
queue = { kind = "fq_codel", packets = 1000 }
[[flows]]
name = "down"
kind = "utp"
cc = "libutp-mod"
[[flows]]
name = "up"
kind = "utp"
cc = "libutp-mod"
direction = "reverse"
start_s = 1.0
traffic = { kind = "finite", bytes = 300000 }
"#;

#[test]
fn a_scenarios_utp_flows_run_here_too_either_way() {
    if let Err(e) = site::ready() {
        lowtide_testing::skip("uTP in the laboratory", &format!("{e:#}"));
        return;
    }
    let scenario = Scenario::parse(SCENARIO).expect("valid");
    let options = Options { lowtide: "lowtide".into(), stop: Arc::new(AtomicBool::new(false)) };
    let outcome = run(&scenario, &options).expect("run");
    let [down, up] = &outcome.summary.flows[..] else { panic!("two flows") };
    // Bounds that a busy machine keeps: what is exact is measured by `lowtide bench utp`.
    assert!(down.goodput_bps > 2e6 && down.goodput_bps < 5e6, "{down:?}");
    let took = up.completion_s.expect("complete");
    assert!((0.4..4.9).contains(&took), "{took}");
    assert!((0.8e6..5e6).contains(&(up.goodput_bps * (scenario.duration_s - 1.0) / took)), "{up:?}");
    assert!(down.rtt_ms.min >= 20.0, "{:?}", down.rtt_ms);
    let series = series::of(&outcome);
    assert!(series.flows.iter().any(|point| point.flow == "down" && point.cwnd_bytes > 2000.0 && point.goodput_bps > 1e6));
}
