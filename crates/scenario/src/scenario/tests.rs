//! Reading, setting and refusing scenarios.

use super::*;

const DEMO: &str = r#"
duration_s = 60.0

[topology]
kind = "dumbbell"
rate_mbps = 20.0
rtt_ms = 20.0
queue = { kind = "drop_tail", ms = 500 }

[[flows]]
name = "bulk"
cc = "cubic"

[[flows]]
name = "call"
kind = "udp"
traffic = { kind = "cbr", rate_kbps = 64, packet_bytes = 160 }
"#;

#[test]
fn a_scenario_survives_being_written() {
    let scenario = Scenario::parse(DEMO).expect("valid");
    assert_eq!(Scenario::parse(&toml::to_string(&scenario).expect("writable")).expect("valid"), scenario);
    assert_eq!(scenario.flows[0].group, "bulk");
}

#[test]
fn keys_are_set_by_name() {
    let scenario = Scenario::parse(DEMO).expect("valid");
    let changed = scenario
        .with("topology.rtt_ms", toml::Value::Integer(100))
        .and_then(|s| s.with("flows.bulk.cc", "ledbat_pp".into()))
        .and_then(|s| s.with("flows.bulk.params.target_ms", toml::Value::Integer(25)))
        .expect("known keys");
    assert!(matches!(&changed.topology, Topology::Dumbbell(link) if link.rtt_ms == 100.0), "{changed:?}");
    assert_eq!(changed.flows[0].cc, "ledbat_pp");
    for (key, word) in [("topology.rtt", "rtt"), ("flows.blk.cc", "blk"), ("flows.bulk.ccc", "ccc")] {
        let message = scenario.with(key, toml::Value::Integer(1)).expect_err(key).to_string();
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn a_flow_made_plain_loses_its_receiver() {
    let held =
        DEMO.replacen("cc = \"cubic\"", "cc = \"cubic\"\nkind = \"rledbat\"\nreceiver = { algorithm = \"ledbat_pp-enhanced-burst\" }", 1);
    let plain = Scenario::parse(&held).and_then(|s| s.with("flows.bulk.kind", "tcp".into())).expect("valid");
    assert_eq!(plain.flows[0].receiver, None);
    assert_eq!(Scenario::parse(&toml::to_string(&plain).expect("writable")).expect("valid"), plain);
}

#[test]
fn errors_name_line_key_and_what_is_allowed() {
    let cases = [
        ("rtt_ms", "rtt_msec", "scenario line 7 key topology.rtt_msec: unknown field `rtt_msec`, expected one of", "`rtt_ms`"),
        ("ms = 500", "mss = 500", "scenario line 8 key topology.queue.mss: unknown field `mss`", "`ms`"),
        ("kind = \"dumbbell\"", "kind = \"dumbell\"", "scenario line 5 key topology.kind: unknown variant `dumbell`", "`dumbbell`"),
        (
            "rate_mbps = 20.0",
            "rate_mbps = \"fast\"",
            "scenario line 6 key topology.rate_mbps: invalid type: string \"fast\"",
            "expected a number",
        ),
        ("rate_mbps = 20.0", "rate_mbps = inf", "scenario line 6 key topology.rate_mbps: must be at most 1000000", "Tbit/s"),
        ("duration_s = 60.0", "duration_s = 1e18", "scenario line 2 key duration_s: must be at most", "days"),
        ("ms = 500", "ms = 500, packets = 5", "scenario line 8 key topology.queue: queue `drop_tail`:", "exclude each other"),
        ("kind = \"drop_tail\", ms = 500", "kind = \"codel\", target_ms = -5", "scenario line 8 key topology.queue: queue `codel`:", ""),
        ("cc = \"cubic\"", "cc = \"cubic\"\ncount = -1", "scenario line 13 key flows.bulk.count: invalid value", "a whole number"),
        ("cc = \"cubic\"", "cc = \"cubic\"\ncount = 1000000000", "key flows.bulk.count: must be at most", "10000"),
        ("cc = \"cubic\"", "cc = \"cubic\"\ntcp = { mss = 100000 }", "scenario line 13 key flows.bulk.tcp.mss: must be between", "65483"),
        ("rate_mbps = 20.0\n", "", "scenario line 4 key topology: missing field `rate_mbps`", ""),
        ("rtt_ms = 20.0", "rtt_ms = -1", "scenario line 7 key topology.rtt_ms: must not be negative", ""),
        ("cc = \"cubic\"\n", "", "scenario line 10 key flows.bulk.cc: is missing", "sim --list"),
        ("cc = \"cubic\"", "cc = \"cubic\"\ndirection = \"up\"", "scenario line 13 key flows.bulk.direction: unknown variant", "`reverse`"),
        (
            "cc = \"cubic\"",
            "cc = \"cubic\"\nreceiver = { algorithm = \"ledbat_pp-enhanced-burst\" }",
            "key flows.bulk.receiver: does nothing",
            "kind = \"rledbat\"",
        ),
        ("packet_bytes = 160", "packet_bytes = 0", "scenario line 17 key flows.call.traffic:", "above 0"),
        ("packet_bytes = 160", "bytes = 160", "scenario line 17 key flows.call.traffic.bytes: unknown field", "`packet_bytes`"),
        ("name = \"call\"", "name = \"bulk\"", "key flows.bulk.name: two flows have this name", "count"),
        ("duration_s = 60.0", "duration_s = ", "scenario line 2: ", ""),
    ];
    for (good, bad, start, allowed) in cases {
        let message = Scenario::parse(&DEMO.replacen(good, bad, 1)).expect_err(bad).to_string();
        assert!(message.contains(start) && message.contains(allowed) && !message.contains('\n'), "{bad}: {message}");
    }
}

#[test]
fn sizes_are_a_mean_or_a_distribution() {
    let traffic = |more: &str| format!("cc = \"cubic\"\ntraffic = {{ kind = \"poisson\", arrivals_per_s = 1.0, {more} }}");
    let parse = |more: &str| Scenario::parse(&DEMO.replacen("cc = \"cubic\"", &traffic(more), 1));
    for good in ["mean_bytes = 1e4", "mean_bytes = 1e4, pareto_shape = 1.2", "sizes = [[1000, 0.5], [1e6, 1]]", "sizes = [[700, 1]]"] {
        let scenario = parse(good).unwrap_or_else(|e| panic!("{good}: {e}"));
        assert_eq!(Scenario::parse(&scenario.to_toml().expect("writable")).expect("valid"), scenario);
    }
    for (bad, expected) in [
        ("mean_bytes = 0", "key flows.bulk.traffic: its sizes"),
        ("pareto_shape = 1.2", "key flows.bulk.traffic: wants one of `mean_bytes` and `sizes`"),
        ("mean_bytes = 1e4, sizes = [[700, 1]]", "key flows.bulk.traffic: wants one of"),
        ("mean_bytes = 1e4, pareto_shape = 1", "key flows.bulk.traffic.pareto_shape: must be above 1"),
        ("sizes = [[1000, 0.5], [500, 1]]", "key flows.bulk.traffic.sizes: must be points"),
        ("sizes = [[1000, 0.5], [1e6, 0.9]]", "the last part is 1"),
    ] {
        let message = parse(bad).expect_err(bad).to_string();
        assert!(message.contains(expected), "{bad}: {message}");
    }
}

#[test]
fn what_is_found_out_later_is_located_in_the_file() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("s.toml");
    fs::write(&file, DEMO).expect("writable");
    let message = ScenarioError::at("flows.bulk.cc", "is not known").in_file(&file).to_string();
    assert!(message.ends_with("s.toml line 12 key flows.bulk.cc: is not known"), "{message}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let message = Scenario::load(Path::new("/nowhere/x.toml")).expect_err("not there").to_string();
    assert!(message.starts_with("scenario /nowhere/x.toml: cannot be read"), "{message}");
}

#[test]
fn set_reads_values_as_toml_or_else_as_text() {
    assert_eq!(value("20"), toml::Value::Integer(20));
    assert_eq!(value("cubic"), "cubic".into());
    assert_eq!(value("a = 1\nb = 2"), "a = 1\nb = 2".into());
    assert!(value("{ kind = \"droptail\", ms = 5 }").is_table());
}

#[test]
fn impairments_that_cannot_be_are_refused_where_they_stand() {
    let cases = [
        ("impair = { loss = 1.5 }", "line 9 key topology.impair.loss: must be a probability between 0 and 1"),
        ("impair = { jitter_ms = -1.0 }", "line 9 key topology.impair.jitter_ms: must be a time in ms, not below 0"),
        ("impair = { reorder = 2.0 }", "key topology.impair.reorder: must be a probability"),
        ("reverse_impair = { duplicate = -0.1 }", "key topology.reverse_impair.duplicate: must be a probability"),
        ("impair = { burst_loss = { enter = 0.1, leave = 7.0 } }", "key topology.impair.burst_loss.leave: must be a probability"),
        ("impair = { burst_loss = { enter = 0.1 } }", "missing field `leave`"),
        ("impair = { lost = 0.1 }", "key topology.impair.lost: unknown field `lost`, expected one of"),
        ("rate_trace = \"0 20\\n0 30\"", "line 9 key topology.rate_trace: rate trace, line 2: times must rise"),
        ("rate_trace = \"no.trace\"", "line 9 key topology.rate_trace: `no.trace` cannot be read"),
    ];
    for (line, expected) in cases {
        let text = DEMO.replacen("\n\n[[flows]]", &format!("\n{line}\n\n[[flows]]"), 1);
        let message = Scenario::parse(&text).expect_err(line).to_string();
        assert!(message.contains(expected) && !message.contains('\n'), "{line}: {message}");
    }
}

#[test]
fn a_trace_beside_the_scenario_becomes_part_of_it() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let trace = "0 20\n1 5\nend 2\n";
    fs::write(dir.path().join("cell.trace"), trace).expect("writable");
    fs::write(dir.path().join("s.toml"), DEMO.replacen("rtt_ms", "rate_trace = \"cell.trace\"\nrtt_ms", 1)).expect("writable");
    let scenario = Scenario::load(&dir.path().join("s.toml")).expect("valid");
    let Topology::Dumbbell(line) = &scenario.topology else { panic!("{scenario:?}") };
    assert_eq!(line.rate_trace.as_deref(), Some(trace));
    let text = scenario.to_toml().expect("writable");
    fs::remove_file(dir.path().join("cell.trace")).expect("removable");
    assert_eq!(Scenario::parse(&text).expect("it stands alone"), scenario);
    fs::write(dir.path().join("cell.trace"), "0 fast").expect("writable");
    let message = Scenario::load(&dir.path().join("s.toml")).expect_err("no rate").to_string();
    assert!(message.contains("cell.trace: rate trace, line 1: `fast` is not a number") || message.contains("line 1:"), "{message}");
}
