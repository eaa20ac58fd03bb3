//! What a scenario file may do to a line: rates that change, losses alone and in bursts, jitter, reordering, duplicates.

use lowtide_scenario::{Scenario, Series, Summary};

/// 12 Mbit/s, 20 ms there and back, a second of buffer; `line` in the topology's table, then `flows`.
fn scenario(line: &str, flows: &str) -> Scenario {
    let text = format!(
        "duration_s = 60.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 12.0\nrtt_ms = 20.0\nlink_header_bytes = 0\n\
         queue = {{ kind = \"drop_tail\", ms = 1000 }}\n{line}\n{flows}"
    );
    Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}"))
}

fn run(line: &str, flows: &str) -> (Summary, Series) {
    let outcome = lowtide_sim::run(&scenario(line, flows), 1, true).unwrap_or_else(|e| panic!("{e}"));
    (outcome.summary, outcome.series)
}

/// A hundred datagrams a second of 1500 bytes.
const CBR: &str = "[[flows]]\nname = \"cbr\"\nkind = \"udp\"\ntraffic = { kind = \"cbr\", rate_kbps = 1200, packet_bytes = 1500 }\n";
const SENT: f64 = 6000.0;

#[test]
fn a_flow_gets_what_the_line_has_at_the_time() {
    let cubic = "[[flows]]\nname = \"bulk\"\ncc = \"cubic\"\ntcp = { rcvbuf_bytes = 150_000 }\n";
    let (summary, series) = run("rate_trace = \"0 12\\n20 3\\n40 24\\n\"", cubic);
    let mean = |from: f64, to: f64| {
        let points = series.flows.iter().filter(|p| p.time_s > from && p.time_s <= to).map(|p| p.goodput_bps / 1e6);
        points.clone().sum::<f64>() / points.count() as f64
    };
    for (from, rate) in [(0.0, 12.0), (20.0, 3.0), (40.0, 24.0)] {
        let used = mean(from + 2.0, from + 20.0) * 1500.0 / 1448.0 / rate;
        assert!((0.97..=1.001).contains(&used), "{used} of {rate} Mbit/s from {from} s on");
    }
    let line = &summary.bottlenecks[0];
    assert!((line.capacity_bps - 13e6).abs() < 1.0 && line.utilisation > 0.97, "{line:#?}");
}

#[test]
fn a_packet_under_way_is_stretched_and_an_outage_holds_it() {
    // A packet takes 1 ms at 12 Mbit/s. The tenth leaves at 90 ms and meets half the rate when a quarter of it has left; the
    // twentieth, at 190 ms, meets an outage of 100 ms after as long.
    let (summary, _) = run("rate_trace = \"0 12\\n0.09025 6\\n0.1 12\\n0.19025 0\\n0.29025 12\\n\"", CBR);
    let delays = &summary.bottlenecks[0].queue_delay_ms;
    let flow = &summary.flows[0];
    assert!((flow.rtt_ms.min - 11.0).abs() < 1e-9, "{flow:#?}");
    assert!((flow.rtt_ms.max - 111.0).abs() < 1e-9, "{flow:#?}");
    // Ten come during the outage; the one at 290 ms waits for what is left of all of them.
    assert!(delays.max < 100.0 && summary.flows[0].losses == 0, "{delays:?}");
    let half = scenario("rate_trace = \"0 12\\n0.09025 6\\n0.1 12\\n\"", CBR);
    let flow = &lowtide_sim::run(&half, 1, false).unwrap_or_else(|e| panic!("{e}")).summary.flows[0];
    assert!((flow.rtt_ms.max - 11.75).abs() < 1e-9, "{flow:#?}");
}

#[test]
fn a_period_of_outages_is_survived() {
    let cubic = "[[flows]]\nname = \"bulk\"\ncc = \"cubic\"\n";
    let (summary, _) = run("rate_trace = \"0 12\\n5 0\\nend 6\"", cubic);
    let line = &summary.bottlenecks[0];
    assert!((line.capacity_bps - 10e6).abs() < 1.0 && line.utilisation > 0.9, "{line:#?}");
}

#[test]
fn losses_have_their_rate_and_bursts_their_length() {
    let lost = |line: &str| run(line, CBR).0.flows[0].losses as f64 / SENT;
    assert_eq!(lost(""), 0.0);
    assert!((lost("impair = { loss = 0.1 }") - 0.1).abs() < 0.015);
    // Gilbert and Elliott: the bad state holds 1/11 of the time and loses half.
    let bursts = lost("impair = { burst_loss = { enter = 0.02, leave = 0.2, loss_bad = 0.5 } }");
    assert!((bursts - 0.5 / 11.0).abs() < 0.015, "{bursts}");
}

#[test]
fn jitter_delays_reordering_overtakes_and_duplicates_arrive_twice() {
    let flow = |line: &str| run(line, CBR).0.flows[0].clone();
    let (plain, jitter) = (flow(""), flow("impair = { jitter_ms = 8.0 }"));
    assert_eq!(plain.jitter_ms, Some(0.0));
    assert!((jitter.rtt_ms.mean - plain.rtt_ms.mean - 4.0).abs() < 0.2 && jitter.jitter_ms.is_some_and(|j| j > 1.0), "{jitter:#?}");
    let late = flow("impair = { reorder = 0.1, reorder_ms = 15.0 }");
    assert!((late.rtt_ms.mean - plain.rtt_ms.mean - 1.5).abs() < 0.2 && (late.rtt_ms.max - plain.rtt_ms.max - 15.0).abs() < 1e-6);
    let twice = flow("impair = { duplicate = 0.1 }");
    assert!((twice.goodput_bps / plain.goodput_bps - 1.1).abs() < 0.015, "{twice:#?}");
}
