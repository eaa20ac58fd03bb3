//! The stack `ns2` beside ns-2.35 itself: one flow, 10 Mbit/s, 40 ms, 60 s, a FIFO of 50 packets, which in ns-2 holds 49 beside the one
//! being sent (`queue/drop-tail.cc`, `DropTail::enque`). `tests/ns2/*.csv` are ns-2's runs,
//! recorded by `scripts/record-ns2` from `bench/ns2/single.tcl`; their first lines are the command and the program's hash.

use std::fs;

use lowtide_scenario::Scenario;

/// A record, our agent, its control, the segment: ns-2's packet is 1500 bytes, with timestamps (`ts_option_size_`) 1510; ours has
/// 52 bytes of headers.
const RUNS: [(&str, &str, &str, u32); 3] = [
    ("Linux-0", "agent = \"linux\"", "reno-ns2", 1448),
    ("Linux-1", "agent = \"linux\", timestamps = true", "reno-ns2", 1458),
    ("Reno-0", "agent = \"reno\"", "tcp_agent-ns2", 1448),
];

/// What a run came to.
#[derive(Debug)]
struct Run {
    /// Packets acknowledged, and sent again.
    acked: f64,
    resent: f64,
    /// The mean of samples every 0.2 s, in packets.
    window: f64,
}

fn record(name: &str) -> Run {
    let path = format!("tests/ns2/{name}.csv");
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let value = |key: &str| -> f64 {
        let found = text.lines().find_map(|line| line.strip_prefix(&format!("# {key} ")));
        found.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{path} has no {key}"))
    };
    let windows: Vec<f64> = text.lines().filter_map(|line| line.split(',').nth(1)?.parse().ok()).collect();
    Run { acked: value("acked"), resent: value("resent"), window: windows.iter().sum::<f64>() / windows.len() as f64 }
}

fn ours(ns2: &str, cc: &str, mss: u32) -> Run {
    let text = format!(
        "duration_s = 60.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 10.0\nrtt_ms = 40.0\nlink_header_bytes = 0\n\
         queue = {{ kind = \"drop_tail\", packets = 49 }}\n[[flows]]\nname = \"a\"\ncc = \"{cc}\"\n\
         tcp = {{ stack = \"ns2\", mss = {mss}, delayed_ack = 1, min_rto_ms = 200.0, initial_window = 2, ns2 = {{ {ns2} }} }}\n"
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let outcome = lowtide_sim::run(&scenario, 1, true).unwrap_or_else(|e| panic!("{e}"));
    let flow = &outcome.summary.flows[0];
    let windows: Vec<f64> = outcome.series.flows.iter().step_by(2).map(|p| p.cwnd_bytes / f64::from(mss)).collect();
    Run {
        acked: flow.goodput_bps * 60.0 / 8.0 / f64::from(mss),
        resent: flow.retransmits as f64,
        window: windows.iter().sum::<f64>() / windows.len() as f64,
    }
}

/// The same packets are sent again. Ours counts what has arrived, ns-2 what its agent knows of: 20 ms of acknowledgements are under way, 17 of
/// them at 10 Mbit/s, and the SYN is none. Windows are sampled every 0.2 s, a hair apart.
#[test]
fn agents_carry_lose_and_repair_as_ns2s_do() {
    for (name, ns2, cc, mss) in RUNS {
        let (theirs, ours) = (record(name), ours(ns2, cc, mss));
        assert_eq!(ours.resent, theirs.resent, "{name}: {ours:?} of {theirs:?}");
        assert!((15.0..=20.0).contains(&(ours.acked - theirs.acked).round()), "{name}: {ours:?} of {theirs:?}");
        assert!((ours.window / theirs.window - 1.0).abs() < 0.002, "{name}: {ours:?} of {theirs:?}");
    }
}
