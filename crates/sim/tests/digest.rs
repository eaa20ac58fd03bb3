//! The same scenario and seed give the same result on every machine: digests of ten summaries, which every build must reproduce, debug and
//! release. A change that is meant to move results renews them: `LOWTIDE_RENEW=1 cargo test -p lowtide-sim --test digest`, and says so.

use std::fs;

use lowtide_scenario::Scenario;

const FILE: &str = "tests/digests.txt";

fn flow(name: &str, more: &str) -> String {
    format!("[[flows]]\nname = \"{name}\"\n{more}\n")
}

/// A name, the queue, what else the link has, and the flows.
fn scenarios() -> Vec<(&'static str, String)> {
    let two =
        |a: &str, b: &str| flow("a", &format!("cc = \"{a}\"\nstart_jitter_s = 1.0")) + &flow("b", &format!("cc = \"{b}\"\nstart_s = 2.0"));
    let poisson = "traffic = { kind = \"poisson\", arrivals_per_s = 4.0, mean_bytes = 5e4, pareto_shape = 1.5 }";
    let exponential = "traffic = { kind = \"poisson\", arrivals_per_s = 4.0, mean_bytes = 5e4 }";
    let held = "kind = \"rledbat\"\ncc = \"cubic\"\nreceiver = { algorithm = \"ledbat_pp\" }";
    let call = flow("call", "kind = \"udp\"\ntraffic = { kind = \"cbr\", rate_kbps = 64, packet_bytes = 160 }");
    let case = |queue: &str, more: &str, flows: String| {
        format!(
            "duration_s = 15.0\nwarmup_s = 3.0\nseed = 7\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 10.0\nrtt_ms = 40.0\n\
             queue = {{ {queue} }}\n{more}\n{flows}"
        )
    };
    vec![
        ("drop-tail", case("kind = \"drop_tail\", ms = 100", "", two("cubic", "ledbat_pp"))),
        ("codel", case("kind = \"codel\"", "", two("reno", "cubic"))),
        ("fq-codel", case("kind = \"fq_codel\", queues = 16", "", flow("a", "cc = \"cubic\"\ncount = 8\nstart_jitter_s = 0.5") + &call)),
        ("pie", case("kind = \"pie\"", "", two("cubic", "bbr1"))),
        ("fq-pie", case("kind = \"fq_pie\"", "", two("bbr2", "ledbat"))),
        ("losses", case("kind = \"drop_tail\", ms = 60", "impair = { loss = 0.01, duplicate = 0.002 }", two("cubic", "reno"))),
        (
            "disorder",
            case("kind = \"drop_tail\", ms = 60", "impair = { jitter_ms = 3.0, reorder = 0.01, reorder_ms = 4.0 }", two("cubic", "bbr1")),
        ),
        (
            "arrivals",
            case(
                "kind = \"drop_tail\", ms = 60",
                "",
                flow("short", &format!("cc = \"cubic\"\n{poisson}")) + &flow("page", &format!("cc = \"reno\"\n{exponential}")),
            ),
        ),
        ("receiver", case("kind = \"drop_tail\", ms = 200", "", flow("low", held) + &flow("tcp", "cc = \"cubic\"\nstart_s = 5.0"))),
        (
            "utp",
            case(
                "kind = \"drop_tail\", ms = 200",
                "",
                flow("low", "kind = \"utp\"\ncc = \"libutp\"") + &flow("tcp", "cc = \"cubic\"\nstart_s = 5.0"),
            ),
        ),
    ]
}

/// FNV-1a, 64 bits.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn ten_results_are_the_same_on_every_machine() {
    let mut lines = String::new();
    for (name, text) in scenarios() {
        let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let summary = lowtide_sim::run(&scenario, scenario.seed, false).unwrap_or_else(|e| panic!("{name}: {e}")).summary;
        let json = serde_json::to_string(&summary).expect("serialisable");
        lines += &format!("{name} {} {:016x}\n", summary.events, digest(&json));
    }
    if std::env::var_os("LOWTIDE_RENEW").is_some() {
        fs::write(FILE, &lines).expect("writable");
    }
    let known = fs::read_to_string(FILE).unwrap_or_default();
    assert!(
        known == lines,
        "results have moved; if they were meant to: LOWTIDE_RENEW=1 cargo test -p lowtide-sim --test digest\n{lines}\nbefore:\n{known}"
    );
}
