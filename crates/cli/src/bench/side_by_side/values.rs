//! The numbers of a run that a row may name, of two summaries: with ours, and the same run without. Knows no suite.

use lowtide_scenario::result::{FlowResult, jain};
use lowtide_scenario::{Scenario, Summary};

/// Bytes of headers in front of a segment's payload, and of Ethernet's.
const TCP_HEADER: f64 = 52.0;

/// What they are called; those with a dot are followed by a flow's or a group's name.
///
/// `part.X`: of what the line's payload can be, from the end of the warm-up on. `line`: that of all. `harm.X`: the part of its goodput that
/// X loses. `later.X`: by how much X's transfers take longer, as a part of what they take without ours. `completion.X`, `completion_p95.X`,
/// `stuck.X`: seconds a transfer takes, and the transfers that did not finish. `delay.X`: the 99th percentile of the delay of X's
/// datagrams above their least, in ms; `delayed.X` above what it is without ours. `rest.X`: of what the others leave. `of_server.X`: of what X's
/// servers get with nothing but their own control, a receiver's alone. `jain.X`: between the flows of X. `queue_p99`: in ms; `queue_packets`: in packets of 1514 bytes.
const NAMES: [&str; 14] = [
    "part.",
    "line",
    "harm.",
    "later.",
    "completion.",
    "completion_p95.",
    "stuck.",
    "delay.",
    "delayed.",
    "rest.",
    "of_server.",
    "jain.",
    "queue_p99",
    "queue_packets",
];

/// Whether `name` is one of them.
pub fn is_one(name: &str) -> bool {
    NAMES
        .iter()
        .any(|known| if known.ends_with('.') { name.strip_prefix(known).is_some_and(|who| !who.is_empty()) } else { name == *known })
}

/// Whether `name` needs the run without ours.
pub fn needs_without(name: &str) -> bool {
    ["harm.", "later.", "delayed.", "rest."].iter().any(|known| name.starts_with(known))
}

/// Whether `name` needs the run with the servers' own control alone.
pub fn needs_server(name: &str) -> bool {
    name.starts_with("of_server.")
}

/// Whether less of `name` is better; none of a number that is no part of anything.
pub fn less_is_better(name: &str) -> Option<bool> {
    match name.split_once('.').unwrap_or((name, "")).0 {
        "harm" | "later" => Some(true),
        "part" | "line" | "rest" | "of_server" | "jain" => Some(false),
        _ => None,
    }
}

/// The value `name` of a run; NaN where there is none, which meets no bound.
pub fn named(name: &str, scenario: &Scenario, with: &Summary, without: Option<&Summary>, server: Option<&Summary>) -> f64 {
    let (what, who) = name.split_once('.').unwrap_or((name, ""));
    let parts = Parts { scenario, summary: with };
    let without = without.map(|summary| Parts { scenario, summary });
    let was = |f: fn(&Parts, &str) -> f64| without.as_ref().map_or(f64::NAN, |parts| f(parts, who));
    match what {
        "part" => parts.part(who),
        "line" => parts.part_of(|_| true),
        "harm" => 1.0 - parts.goodput(who) / was(|parts, who| parts.goodput(who)),
        "later" => parts.completion(who) / was(|parts, who| parts.completion(who)) - 1.0,
        "completion" => parts.completion(who),
        "completion_p95" => parts.of(who).filter_map(|f| f.transfers?.times_s).map(|times| times.p95).fold(f64::NAN, f64::max),
        "stuck" => parts.of(who).filter_map(|f| f.transfers).map(|transfers| transfers.unfinished as f64).sum(),
        "delay" => parts.delay(who),
        "delayed" => parts.delay(who) - was(|parts, who| parts.delay(who)),
        "of_server" => parts.part(who) / server.map_or(f64::NAN, |summary| Parts { scenario, summary }.part(who)),
        "rest" => parts.part(who) / (1.0 - was(|parts, _| parts.used())),
        "jain" => jain(&parts.of(who).map(|f| f.goodput_bps).collect::<Vec<_>>()),
        "queue_p99" => parts.queue_ms(),
        "queue_packets" => parts.queue_ms() / 1e3 * parts.capacity() / (8.0 * 1514.0),
        _ => f64::NAN,
    }
}

struct Parts<'a> {
    scenario: &'a Scenario,
    summary: &'a Summary,
}

impl<'a> Parts<'a> {
    fn of(&self, who: &str) -> impl Iterator<Item = &'a FlowResult> {
        let who = who.to_owned();
        self.summary.flows.iter().filter(move |f| f.name == who || f.group == who)
    }

    fn capacity(&self) -> f64 {
        self.summary.bottlenecks.first().map_or(f64::NAN, |b| b.capacity_bps)
    }

    fn used(&self) -> f64 {
        self.summary.bottlenecks.first().map_or(f64::NAN, |b| b.utilisation)
    }

    fn queue_ms(&self) -> f64 {
        self.summary.bottlenecks.first().map_or(f64::NAN, |b| b.queue_delay_ms.p99)
    }

    fn goodput(&self, who: &str) -> f64 {
        // A flow that starts after the warm-up is counted over its own life; what it takes of the line is over all that is measured.
        self.over(|f| f.name == who || f.group == who)
    }

    fn over(&self, counts: impl Fn(&FlowResult) -> bool) -> f64 {
        let warmup = self.scenario.warmup_s;
        let life = |f: &FlowResult| (f.stop_s.min(self.summary.duration_s) - f.start_s.max(warmup)).max(0.0);
        let bits: f64 = self.summary.flows.iter().filter(|f| counts(f)).map(|f| f.goodput_bps * life(f)).sum();
        bits / (self.summary.duration_s - warmup)
    }

    fn part(&self, who: &str) -> f64 {
        self.part_of(|f| f.name == who || f.group == who)
    }

    /// Of the payload that full segments of TCP could bring over the line.
    fn part_of(&self, counts: impl Fn(&FlowResult) -> bool) -> f64 {
        let header = match &self.scenario.topology {
            lowtide_scenario::scenario::Topology::Dumbbell(d) => d.link_header_bytes,
            lowtide_scenario::scenario::Topology::ParkingLot(p) => p.link_header_bytes,
            lowtide_scenario::scenario::Topology::Graph(g) => g.link_header_bytes,
        };
        let mss = self.scenario.flows.first().map_or(1448.0, |f| f64::from(f.tcp.mss));
        self.over(counts) / (self.capacity() * mss / (mss + TCP_HEADER + f64::from(header)))
    }

    fn completion(&self, who: &str) -> f64 {
        self.of(who).find_map(|f| f.completion_s).unwrap_or(f64::NAN)
    }

    fn delay(&self, who: &str) -> f64 {
        self.of(who).next().map_or(f64::NAN, |f| f.rtt_ms.p99 - f.rtt_ms.min)
    }
}

#[cfg(test)]
mod tests {
    use lowtide_scenario::Bottleneck;
    use lowtide_scenario::result::Delays;

    use super::*;

    fn scenario() -> Scenario {
        Scenario::parse(
            "duration_s = 60.0\nwarmup_s = 20.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 15.14\nrtt_ms = 20.0\n\
             queue = { kind = \"drop_tail\", ms = 50 }\n[[flows]]\nname = \"ours\"\ncc = \"cubic\"\ncount = 2\n",
        )
        .expect("a scenario")
    }

    fn summary(flows: &[(&str, f64)]) -> Summary {
        let flow = |&(name, mbps): &(&str, f64)| FlowResult {
            name: name.to_owned(),
            group: name.split('.').next().unwrap_or_default().to_owned(),
            stop_s: 60.0,
            goodput_bps: mbps * 1e6,
            completion_s: Some(mbps),
            ..FlowResult::default()
        };
        let queue_delay_ms = Delays { p99: 8.0, ..Delays::default() };
        let line = Bottleneck { capacity_bps: 15.14e6, utilisation: 0.75, queue_delay_ms, ..Bottleneck::default() };
        Summary { duration_s: 60.0, bottlenecks: vec![line], flows: flows.iter().map(flow).collect(), ..Summary::default() }
    }

    fn value(name: &str) -> f64 {
        let (with, without) = (summary(&[("ours.1", 1.448), ("ours.2", 1.448), ("theirs", 9.0)]), summary(&[("theirs", 10.0)]));
        named(name, &scenario(), &with, Some(&without), Some(&summary(&[("ours.1", 2.896), ("theirs", 9.0)])))
    }

    #[test]
    fn parts_are_of_the_payload_and_harm_is_what_the_others_lose() {
        let near = |name: &str, expected: f64| assert!((value(name) - expected).abs() < 1e-9, "{name}: {} is not {expected}", value(name));
        near("part.ours", 0.2);
        near("harm.theirs", 0.1);
        near("jain.ours", 1.0);
        near("rest.ours", 0.8);
        near("later.theirs", -0.1);
        near("queue_packets", 10.0);
        near("of_server.ours", 1.0);
        assert!(value("completion.nobody").is_nan() && named("harm.theirs", &scenario(), &summary(&[]), None, None).is_nan());
    }

    /// It starts when half of what is measured is over: of the line it has half.
    #[test]
    fn a_flow_that_comes_late_has_less_of_the_line() {
        let mut late = summary(&[("ours", 14.48)]);
        late.flows[0].start_s = 40.0;
        assert!((named("part.ours", &scenario(), &late, None, None) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn what_needs_a_name_is_not_known_without() {
        assert!(is_one("part.ours") && is_one("line") && !is_one("part.") && !is_one("part") && !is_one("line.ours"));
    }
}
