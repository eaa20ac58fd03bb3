//! What is reported of transfers that end: which of them are counted, and that none of those that do not finish is lost.

use lowtide_scenario::Scenario;
use lowtide_scenario::result::{Summary, Transfers};

fn run(warmup_s: f64, flows: &str) -> Summary {
    let text = format!(
        "duration_s = 20.0\nwarmup_s = {warmup_s:?}\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 10.0\nrtt_ms = 40.0\n\
         queue = {{ kind = \"drop_tail\", ms = 300 }}\n{flows}"
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    lowtide_sim::run(&scenario, 1, false).unwrap_or_else(|e| panic!("{e}")).summary
}

fn transfers(summary: &Summary) -> Transfers {
    summary.flows[0].transfers.expect("the first flow is of transfers")
}

const PAGE: &str = "[[flows]]\nname = \"page\"\ncc = \"cubic\"\ntraffic = { kind = \"repeat\", bytes = 50_000, every_s = 1.0 }\n";

/// A rival that stops with the warm-up slows pages down only before it.
#[test]
fn transfers_of_the_warm_up_do_not_count() {
    let rival = format!("{PAGE}[[flows]]\nname = \"rival\"\ncc = \"cubic\"\nstop_s = 8.0\n");
    let (all, after) = (run(0.0, &rival), run(10.0, &rival));
    assert_eq!((transfers(&all).finished, transfers(&after).finished), (20, 10));
    let alone = run(0.0, PAGE).flows[0].completion_s.expect("pages finish");
    let [all, after] = [all, after].map(|summary| summary.flows[0].completion_s.expect("pages finish"));
    assert!((after / alone - 1.0).abs() < 0.01 && all > 1.3 * after, "{alone} alone, {after} after the rival, {all} of all");
}

/// Twice what the line carries: about half of them cannot have finished.
#[test]
fn what_has_not_finished_is_counted() {
    let flows =
        "[[flows]]\nname = \"short\"\ncc = \"cubic\"\ntraffic = { kind = \"poisson\", arrivals_per_s = 25.0, mean_bytes = 100_000.0 }\n";
    let s = run(5.0, flows);
    let t = transfers(&s);
    let expected = 25.0 * 15.0;
    assert!(((t.finished + t.unfinished) as f64 - expected).abs() < 4.0 * f64::sqrt(expected), "{t:?}");
    assert!(t.unfinished * 5 > t.finished, "{t:?}");
    let times = t.times_s.expect("some finish");
    assert!(times.p50 <= times.p95 && times.p95 <= times.p99 && times.p99 <= times.max && times.sd.is_some(), "{t:?}");
    assert_eq!(s.flows[0].completion_s, Some(times.mean));
}

#[test]
fn a_flow_without_an_end_has_no_transfers() {
    let flows = "[[flows]]\nname = \"bulk\"\ncc = \"cubic\"\n[[flows]]\nname = \"call\"\nkind = \"udp\"\ntraffic = { kind = \"cbr\", rate_kbps = 64, packet_bytes = 160 }\n";
    assert!(run(0.0, flows).flows.iter().all(|flow| flow.transfers.is_none() && flow.completion_s.is_none()));
}

/// One segment in twenty is lost, so that short last segments wait behind holes.
#[test]
fn every_stack_delivers_what_was_written_to_the_byte() {
    for (stack, cc) in [("linux", "cubic"), ("rfc", "cubic"), ("ns3", "newreno-ns3"), ("ns2", "reno-ns2")] {
        let flows = format!(
            "impair = {{ loss = 0.05 }}\n[[flows]]\nname = \"page\"\ncc = \"{cc}\"\ncount = 40\nstagger_s = 0.2\n\
             traffic = {{ kind = \"finite\", bytes = 8000 }}\ntcp = {{ stack = \"{stack}\" }}\n"
        );
        let summary = run(0.0, &flows);
        let finished: Vec<_> = summary.flows.iter().filter(|flow| flow.completion_s.is_some()).collect();
        assert!(finished.len() > 35, "{stack}: {} have finished", finished.len());
        for flow in finished {
            let bytes = flow.goodput_bps * (flow.stop_s - flow.start_s) / 8.0;
            assert!((bytes - 8000.0).abs() < 0.5, "{stack}: {} has delivered {bytes} bytes of 8000", flow.name);
        }
    }
}
