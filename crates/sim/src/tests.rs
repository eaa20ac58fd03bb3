//! Whole runs: what anyone in the field would check first (issue 4).

use lowtide_scenario::{Scenario, Summary};

use crate::run;

/// 20 Mbit/s with a drop-tail queue of `buffer_ms`; `flows` in TOML.
fn scenario(rtt_ms: f64, buffer_ms: f64, duration_s: f64, flows: &str) -> Scenario {
    let text = format!(
        "duration_s = {duration_s}\nwarmup_s = {}\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 20.0\nrtt_ms = {rtt_ms}\n\
         queue = {{ kind = \"drop_tail\", ms = {buffer_ms} }}\n{flows}",
        duration_s / 5.0
    );
    Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}"))
}

fn flow(name: &str, cc: &str, more: &str) -> String {
    format!("[[flows]]\nname = \"{name}\"\ncc = \"{cc}\"\n{more}\n")
}

fn summary(scenario: &Scenario) -> Summary {
    run(scenario, 1, false).unwrap_or_else(|e| panic!("{e}")).summary
}

#[test]
fn one_cubic_flow_fills_the_line() {
    let s = summary(&scenario(120.0, 120.0, 100.0, &flow("bulk", "cubic", "")));
    assert!(s.bottlenecks[0].utilisation >= 0.97, "{s:#?}");
    assert_eq!(s.flows.len(), 1);
}

#[test]
fn two_identical_runs_are_identical_to_the_byte() {
    let flows = flow("bulk", "cubic", "count = 2\nstart_jitter_s = 1.0") + &flow("low", "ledbat_pp", "");
    let scenario = scenario(50.0, 100.0, 20.0, &flows);
    let json = |seed| serde_json::to_string(&run(&scenario, seed, true).unwrap_or_else(|e| panic!("{e}")).summary).expect("serialisable");
    assert_eq!(json(7), json(7));
    assert_ne!(json(7), json(8), "the seed moves the starts");
}

#[test]
fn ledbat_pp_alone_carries_nine_tenths() {
    let s = summary(&scenario(50.0, 500.0, 300.0, &flow("low", "ledbat_pp", "")));
    let used = s.bottlenecks[0].utilisation;
    assert!((0.85..0.97).contains(&used), "{used}");
}

#[test]
fn the_late_comer_of_ledbat_pp_does_not_take_over() {
    let flows = flow("first", "ledbat_pp", "") + &flow("second", "ledbat_pp", "start_s = 30.0");
    let s = summary(&scenario(50.0, 500.0, 300.0, &flows));
    let ratio = s.flows[1].goodput_bps / s.flows[0].goodput_bps;
    assert!((0.7..1.4).contains(&ratio), "{ratio}");
}
