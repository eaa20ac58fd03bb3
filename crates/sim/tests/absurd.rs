//! Scenarios that cannot be: each is refused before it runs, in one line that names the key, at once and in little memory.

use lowtide_scenario::{Scenario, ScenarioError};
use proptest::prelude::*;

const GOOD: &str = r#"
duration_s = 10.0
warmup_s = 1.0
seed = 1

[topology]
kind = "dumbbell"
rate_mbps = 20.0
rtt_ms = 40.0
queue = { kind = "drop_tail", ms = 50 }
impair = { loss = 0.001 }

[[flows]]
name = "bulk"
cc = "cubic"
count = 2

[[flows]]
name = "short"
cc = "bbr1"
traffic = { kind = "poisson", arrivals_per_s = 2.0, mean_bytes = 1e5 }

[[flows]]
name = "call"
kind = "udp"
traffic = { kind = "cbr", rate_kbps = 64, packet_bytes = 160 }
"#;

/// Reads and checks, as `lowtide sim` does before it runs.
fn refusal(text: &str) -> Option<ScenarioError> {
    Scenario::parse(text).and_then(|scenario| lowtide_sim::check(&scenario)).err()
}

/// What stands in [`GOOD`], what is put in its place, and what the refusal must say.
const CASES: &[(&str, &str, &str)] = &[
    ("duration_s = 10.0", "duration_s = 0", "duration_s"),
    ("duration_s = 10.0", "duration_s = -1", "duration_s"),
    ("duration_s = 10.0", "duration_s = nan", "duration_s"),
    ("duration_s = 10.0", "duration_s = inf", "duration_s"),
    ("duration_s = 10.0", "duration_s = 1e300", "duration_s"),
    ("duration_s = 10.0", "duration_s = \"long\"", "duration_s"),
    ("duration_s = 10.0", "", "duration_s"),
    ("warmup_s = 1.0", "warmup_s = 10.0", "warmup_s"),
    ("warmup_s = 1.0", "warmup_s = -0.1", "warmup_s"),
    ("warmup_s = 1.0", "warmup_s = nan", "warmup_s"),
    ("seed = 1", "seed = -1", "seed"),
    ("seed = 1", "seed = 1.5", "seed"),
    ("seed = 1", "sede = 1", "sede"),
    ("rate_mbps = 20.0", "rate_mbps = 0", "topology.rate_mbps"),
    ("rate_mbps = 20.0", "rate_mbps = 1e-300", "topology.rate_mbps"),
    ("rate_mbps = 20.0", "rate_mbps = -20", "topology.rate_mbps"),
    ("rate_mbps = 20.0", "rate_mbps = 1e300", "topology.rate_mbps"),
    ("rate_mbps = 20.0", "rate_mbps = nan", "topology.rate_mbps"),
    ("rtt_ms = 40.0", "rtt_ms = -40", "topology.rtt_ms"),
    ("rtt_ms = 40.0", "rtt_ms = 1e300", "topology.rtt_ms"),
    ("rtt_ms = 40.0", "rtt_ms = nan", "topology.rtt_ms"),
    ("kind = \"dumbbell\"", "kind = \"star\"", "star"),
    ("impair = { loss = 0.001 }", "impair = { loss = 1.5 }", "impair.loss"),
    ("impair = { loss = 0.001 }", "impair = { loss = -0.1 }", "impair.loss"),
    ("impair = { loss = 0.001 }", "impair = { loss = nan }", "impair.loss"),
    ("impair = { loss = 0.001 }", "impair = { jitter_ms = inf }", "impair.jitter_ms"),
    ("impair = { loss = 0.001 }", "impair = { delay_ms = -1 }", "impair.delay_ms"),
    ("impair = { loss = 0.001 }", "impair = { reorder = 2 }", "impair.reorder"),
    ("impair = { loss = 0.001 }", "impair = { duplicate = 1e9 }", "impair.duplicate"),
    ("impair = { loss = 0.001 }", "impair = { burst_loss = { enter = 2, leave = 0.1 } }", "burst_loss.enter"),
    ("impair = { loss = 0.001 }", "impair = { burst_loss = { enter = 0.1 } }", "leave"),
    ("impair = { loss = 0.001 }", "rate_trace = \"0 0\\n1 0\\n\"", "0 throughout"),
    ("impair = { loss = 0.001 }", "rate_trace = \"0 1\\nend 0.000000001\\n\"", "end"),
    ("impair = { loss = 0.001 }", "rate_trace = \"0 1\\n0.00000001 2\\n\"", "rise by at least"),
    ("impair = { loss = 0.001 }", "rate_trace = \"0 1e300\\n1 1\\n\"", "rate_trace"),
    ("impair = { loss = 0.001 }", "rate_trace = \"/dev/zero\"", "16 MiB"),
    ("impair = { loss = 0.001 }", "rate_trace = \"/nowhere/at/all\"", "rate_trace"),
    ("impair = { loss = 0.001 }", "rate_trace = \"/\"", "rate_trace"),
    ("impair = { loss = 0.001 }", "wifi = { frames = 0 }", "topology.wifi.frames"),
    ("impair = { loss = 0.001 }", "wifi = { airtime_ms = nan }", "topology.wifi.airtime_ms"),
    ("impair = { loss = 0.001 }", "wifi = { contenders = 4294967295 }", "topology.wifi.contenders"),
    ("impair = { loss = 0.001 }", "cellular = { wander_pps = -1 }", "topology.cellular.wander_pps"),
    ("impair = { loss = 0.001 }", "cellular = { recovery_per_s = 0 }", "topology.cellular.recovery_per_s"),
    ("impair = { loss = 0.001 }", "wifi = {}\ncellular = {}", "does not go with `topology.wifi`"),
    ("impair = { loss = 0.001 }", "wifi = {}\ntoken_bucket_bytes = 3000", "does not go with"),
    ("impair = { loss = 0.001 }", "opportunities = \"1\\n\"\nrate_trace = \"0 1\\n\"", "does not go with"),
    ("impair = { loss = 0.001 }", "opportunities = \"5\\n4\\n\"", "line 2: must not be below"),
    ("impair = { loss = 0.001 }", "opportunities = \"0\\n\"", "lasts no time"),
    ("impair = { loss = 0.001 }", "opportunities = \"1.5\\n2\\n\"", "line 1: must be a whole number"),
    ("impair = { loss = 0.001 }", "opportunities = \"/nowhere/at/all\"", "topology.opportunities"),
    ("duration_s = 10.0", "duration_s = 10.0\nhost_jitter_us = -1", "host_jitter_us"),
    ("duration_s = 10.0", "duration_s = 10.0\nhost_jitter_us = 1e9", "host_jitter_us"),
    ("impair = { loss = 0.001 }", "link_header_bytes = -1", "link_header_bytes"),
    ("impair = { loss = 0.001 }", "link_header_bytes = 1e3", "without a point"),
    ("{ kind = \"drop_tail\", ms = 50 }", "{ kind = \"drop_tail\" }", "topology.queue"),
    ("{ kind = \"drop_tail\", ms = 50 }", "{ kind = \"drop_tail\", ms = -1 }", "topology.queue"),
    ("{ kind = \"drop_tail\", ms = 50 }", "{ kind = \"drop_tail\", ms = nan }", "topology.queue"),
    ("{ kind = \"drop_tail\", ms = 50 }", "{ kind = \"drop_tail\", packets = 0 }", "topology.queue"),
    ("{ kind = \"drop_tail\", ms = 50 }", "{ kind = \"drop_tail\", ms = 5, packets = 5 }", "exclude each other"),
    ("{ kind = \"drop_tail\", ms = 50 }", "{ kind = \"red\" }", "red"),
    ("{ kind = \"drop_tail\", ms = 50 }", "{ kind = \"codel\", target_ms = 0 }", "target_ms"),
    ("{ kind = \"drop_tail\", ms = 50 }", "{ kind = \"codel\", interval_ms = inf }", "interval_ms"),
    ("{ kind = \"drop_tail\", ms = 50 }", "{ kind = \"codel\", ce_threshold_ms = -1 }", "ce_threshold_ms"),
    ("{ kind = \"drop_tail\", ms = 50 }", "{ kind = \"fq_codel\", queues = 1000000000000 }", "65536"),
    ("{ kind = \"drop_tail\", ms = 50 }", "{ kind = \"fq_codel\", queues = 0 }", "queues"),
    ("{ kind = \"drop_tail\", ms = 50 }", "{ kind = \"fq_codel\", quantum = 0 }", "quantum"),
    ("{ kind = \"drop_tail\", ms = 50 }", "{ kind = \"fq_pie\", queues = 1000000000000 }", "65536"),
    ("{ kind = \"drop_tail\", ms = 50 }", "{ kind = \"fq_pie-freebsd\", queues = 70000 }", "65536"),
    ("{ kind = \"drop_tail\", ms = 50 }", "{ kind = \"pie\", update_ms = 0 }", "update_ms"),
    ("{ kind = \"drop_tail\", ms = 50 }", "{ kind = \"pie\", target_ms = nan }", "target_ms"),
    ("{ kind = \"drop_tail\", ms = 50 }", "{ kind = \"pie-linux-old\", packets = 0 }", "packets"),
    ("name = \"bulk\"", "name = \"\"", "flows.1.name"),
    ("name = \"bulk\"", "name = \"../../x\"", "`../../x`"),
    ("name = \"bulk\"", "name = \"a/b\"", "`a/b`"),
    ("name = \"bulk\"", "name = \"a\\nb\"", "control character"),
    ("name = \"bulk\"", "name = \"call\"", "two flows"),
    ("cc = \"cubic\"", "cc = \"cubik\"", "flows.bulk.cc"),
    ("cc = \"cubic\"", "cc = \"cubic\"\nparams = { beta = \"x\" }", "flows.bulk.params"),
    ("cc = \"cubic\"", "cc = \"cubic\"\nparams = { betta = 0.7 }", "betta"),
    ("count = 2", "count = -1", "flows.bulk.count"),
    ("count = 2", "count = 1e12", "without a point or an exponent"),
    ("count = 2", "count = 1000000000000", "0 to 4294967295"),
    ("count = 2", "count = 100000", "10000"),
    ("count = 2", "start_s = -1", "flows.bulk.start_s"),
    ("count = 2", "start_s = 1e300", "flows.bulk.start_s"),
    ("count = 2", "start_s = 10.0", "flows.bulk.start_s"),
    ("count = 2", "start_jitter_s = inf", "flows.bulk.start_jitter_s"),
    ("count = 2", "stagger_s = nan", "flows.bulk.stagger_s"),
    ("count = 2", "stop_s = 0", "flows.bulk.stop_s"),
    ("count = 2", "rtt_ms = 1e12", "flows.bulk.rtt_ms"),
    ("count = 2", "tcp = { mss = 0 }", "flows.bulk.tcp.mss"),
    ("count = 2", "tcp = { window_scale = 15 }", "flows.bulk.tcp.window_scale"),
    ("count = 2", "tcp = { window_scale = 300 }", "0 to 255"),
    ("count = 2", "tcp = { delayed_ack = 3 }", "flows.bulk.tcp.delayed_ack"),
    ("count = 2", "from = \"a\"", "flows.bulk.from"),
    ("count = 2", "receiver = { algorithm = \"rledbat\" }", "flows.bulk.receiver"),
    ("count = 2", "kind = \"sctp\"", "sctp"),
    ("count = 2", "traffic = { kind = \"finite\", bytes = 0 }", "flows.bulk.traffic"),
    ("count = 2", "traffic = { kind = \"repeat\", bytes = 1000, every_s = 0 }", "flows.bulk.traffic"),
    ("count = 2", "traffic = { kind = \"repeat\", bytes = 1000, every_s = 1e-12 }", "1000000 transfers"),
    ("count = 2", "traffic = { kind = \"on_off\", on_s = 1e-300, off_s = 0 }", "flows.bulk.traffic.on_s"),
    ("count = 2", "traffic = { kind = \"on_off\", on_s = 1.0, off_s = 1.0, rate_mbps = 1e300 }", "flows.bulk.traffic.rate_mbps"),
    ("arrivals_per_s = 2.0", "arrivals_per_s = 1e12", "1000000 transfers"),
    ("arrivals_per_s = 2.0", "arrivals_per_s = -2", "flows.short.traffic"),
    ("arrivals_per_s = 2.0", "arrivals_per_s = nan", "flows.short.traffic"),
    ("mean_bytes = 1e5", "mean_bytes = 1e5, pareto_shape = 1.0", "pareto_shape"),
    ("mean_bytes = 1e5", "sizes = [[5, 0.5], [4, 1]]", "flows.short.traffic.sizes"),
    ("mean_bytes = 1e5", "mean_bytes = 0", "flows.short.traffic"),
    ("rate_kbps = 64", "rate_kbps = 1e15", "flows.call.traffic.rate_kbps"),
    ("rate_kbps = 64", "rate_kbps = 1e9", "1000000000 packets"),
    ("rate_kbps = 64", "rate_kbps = 0", "flows.call.traffic"),
    ("packet_bytes = 160", "packet_bytes = 20", "28"),
    ("kind = \"udp\"", "kind = \"tcp\"\ncc = \"cubic\"", "flows.call.traffic"),
];

#[test]
fn every_absurd_value_is_refused_in_one_line_that_names_it() {
    assert!(refusal(GOOD).is_none() && CASES.len() >= 75, "{} cases", CASES.len());
    for (sane, absurd, word) in CASES {
        assert!(GOOD.contains(sane), "{sane}");
        let message = refusal(&GOOD.replacen(sane, absurd, 1)).unwrap_or_else(|| panic!("`{absurd}` is accepted")).to_string();
        assert!(message.contains(word) && message.lines().count() == 1 && message.len() < 700, "`{absurd}`: {message}");
    }
}

/// A thousand senders with a link of their own, each with the most flow queues: four gigabytes, were they built.
#[test]
fn many_large_queues_are_refused_before_they_are_built() {
    let access = "access = { rate_mbps = 10.0, queue = { kind = \"fq_codel\", queues = 65536 } }";
    let text = GOOD.replacen("impair = { loss = 0.001 }", access, 1).replacen("count = 2", "count = 1000", 1);
    assert!(refusal(&text).is_some_and(|e| e.to_string().contains("4,000,000 flow queues")));
}

#[test]
fn a_series_that_would_not_fit_in_memory_is_refused() {
    let text = GOOD.replacen("duration_s = 10.0", "duration_s = 1e7", 1).replacen("arrivals_per_s = 2.0", "arrivals_per_s = 0.01", 1);
    let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    assert!(lowtide_sim::run(&scenario, 1, true).is_err_and(|e| e.to_string().contains("20,000,000 points")));
}

/// Words that stand for values in a fuzzed scenario.
const WORDS: [&str; 22] = [
    "0",
    "1",
    "-1",
    "2.5",
    "1e-300",
    "1e300",
    "nan",
    "inf",
    "-inf",
    "18446744073709551615",
    "9223372036854775807",
    "true",
    "\"\"",
    "\"cubic\"",
    "\"udp\"",
    "\"../x\"",
    "[]",
    "{}",
    "[[1, 1]]",
    "{ kind = \"pie\" }",
    "{ kind = \"bulk\" }",
    "1979-05-27",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Any value in any place of a scenario is taken or refused in one line; a short one that is taken runs.
    #[test]
    fn no_value_in_any_place_makes_it_panic(changes in prop::collection::vec((0usize..40, 0usize..WORDS.len()), 1..4), cut in prop::option::of(0usize..700)) {
        let mut text = GOOD.to_owned();
        for (place, word) in changes {
            let values: Vec<usize> = text.match_indices("= ").map(|(at, _)| at + 2).collect();
            let from = values[place % values.len()];
            let to = from + text[from..].find([',', '\n', '}']).unwrap_or(text.len() - from);
            text.replace_range(from..to, WORDS[word]);
        }
        if let Some(cut) = cut.filter(|cut| text.is_char_boundary(*cut)) {
            text.truncate(cut.min(text.len()));
        }
        match Scenario::parse(&text).and_then(|scenario| lowtide_sim::check(&scenario).map(|()| scenario)) {
            Err(e) => prop_assert!(e.to_string().lines().count() == 1, "{}", e),
            Ok(scenario) if scenario.duration_s <= 10.0 => {
                let brief = Scenario { duration_s: scenario.duration_s.min(0.2), warmup_s: 0.0, flows: scenario.flows.into_iter().filter(|f| f.start_s < 0.1).collect(), ..scenario };
                if let Ok(outcome) = lowtide_sim::run(&brief, 1, false) {
                    prop_assert!(outcome.summary.bottlenecks.iter().all(|b| b.utilisation.is_finite()));
                }
            }
            Ok(_) => {}
        }
    }
}
