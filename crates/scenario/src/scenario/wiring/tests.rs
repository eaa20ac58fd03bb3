//! Routes over small graphs, and what a file that names none is told.

use lowtide_units::Span;

use crate::Scenario;

const HEAD: &str = "duration_s = 10.0\n\n[topology]\nkind = \"graph\"\n";
const ROUTERS: &str = r#"
[[topology.links]]
name = "direct"
from = "a"
to = "d"
delay_ms = 50.0

[[topology.links]]
from = "a"
to = "b"
delay_ms = 10.0
reverse_delay_ms = 15.0

[[topology.links]]
from = "b"
to = "d"
rate_mbps = 8.0
delay_ms = 20.0
queue = { kind = "drop_tail", ms = 50 }

[[topology.links]]
from = "x"
to = "y"

[[flows]]
name = "bulk"
cc = "cubic"
"#;

fn parse(flow: &str) -> Result<Scenario, crate::ScenarioError> {
    Scenario::parse(&format!("{HEAD}{ROUTERS}{flow}\n"))
}

fn names(flow: &str) -> (Vec<String>, Vec<String>, Span) {
    let scenario = parse(flow).unwrap_or_else(|e| panic!("{e}"));
    let wiring = scenario.topology.wiring(&scenario.flows);
    let route = wiring.route(&scenario.flows[0]).unwrap_or_else(|e| panic!("{e}"));
    let named = |channels: &[usize]| channels.iter().map(|&c| wiring.channels[c].name.clone()).collect();
    (named(&route.there), named(&route.back), route.rest)
}

#[test]
fn the_way_is_the_one_with_the_least_delay_unless_the_flow_names_another() {
    let (there, back, rest) = names("from = \"a\"\nto = \"d\"");
    assert_eq!((there, back), (vec!["a-b".into(), "b-d".into()], vec!["b-d.reverse".into(), "a-b.reverse".into()]));
    assert_eq!(rest, Span::ZERO);
    assert_eq!(names("route = [\"a\", \"d\"]").0, ["direct"]);
    assert_eq!(names("from = \"d\"\nto = \"a\"").0, ["b-d.reverse", "a-b.reverse"]);
    assert_eq!(names("direction = \"reverse\"\nfrom = \"a\"\nto = \"d\"").0, ["b-d.reverse", "a-b.reverse"]);
    // 30 ms there and 35 back; the flow wants 100.
    assert_eq!(names("from = \"a\"\nto = \"d\"\nrtt_ms = 100.0").2, Span::from_millis(35));
}

#[test]
fn what_is_not_there_is_named_with_what_is() {
    let cases = [
        ("from = \"a\"\nto = \"e\"", "line 33 key flows.bulk.to: there is no node `e`; the nodes are a, d, b, x, y"),
        ("from = \"a\"\nto = \"x\"", "line 33 key flows.bulk.to: there is no way from `a` to `x`"),
        ("from = \"a\"\nto = \"a\"", "line 33 key flows.bulk.to: must be another node than `from`"),
        ("to = \"a\"", "key flows.bulk.from: is missing; the nodes are a, d, b, x, y"),
        ("route = [\"a\", \"b\", \"x\"]", "line 32 key flows.bulk.route: there is no link from `b` to `x`; it has to a, d"),
        ("route = [\"a\", \"b\"]\nto = \"d\"", "line 32 key flows.bulk.route: names the ends too"),
        ("route = [\"a\"]", "line 32 key flows.bulk.route: must name at least two nodes"),
        ("from = \"a\"\nto = \"d\"\nrtt_ms = 60.0", "line 34 key flows.bulk.rtt_ms: must be at least 65 ms"),
    ];
    for (flow, wanted) in cases {
        let message = parse(flow).expect_err(flow).to_string();
        assert!(message.contains(wanted) && !message.contains('\n'), "{flow}: {message}");
    }
}

#[test]
fn links_are_checked_where_they_stand() {
    let flow = "[[flows]]\nname = \"bulk\"\ncc = \"cubic\"\nfrom = \"a\"\nto = \"b\"\n";
    let cases = [
        ("from = \"a\"\nto = \"b\"\nrate_mbps = 8.0", "line 6 key topology.links.1.queue: is missing", "a link with a rate needs one"),
        ("from = \"a\"\nto = \"b\"\nimpair = { loss = 0.1 }", "line 6 key topology.links.1.rate_mbps: is missing", ""),
        ("from = \"a\"\nto = \"a\"", "line 8 key topology.links.1.to: must name another node", ""),
        ("name = \"l\"\nfrom = \"a\"\nto = \"b\"\nspeed = 8", "key topology.links", "`rate_mbps`"),
        ("from = \"a\"\nto = \"b\"\n[[topology.links]]\nfrom = \"a\"\nto = \"b\"", "key topology.links.2.name: two links", "parallel"),
    ];
    for (link, start, more) in cases {
        let message = Scenario::parse(&format!("{HEAD}\n[[topology.links]]\n{link}\n\n{flow}")).expect_err(link).to_string();
        assert!(message.contains(start) && message.contains(more), "{link}: {message}");
    }
}

#[test]
fn a_flow_of_a_parking_lot_crosses_what_lies_between_its_ends() {
    let text = "duration_s = 10.0\n[topology]\nkind = \"parking_lot\"\nhops = 3\nrate_mbps = 8.0\ndelay_ms = 50.0\naccess_ms = 10.0\n\
                queue = { kind = \"drop_tail\", ms = 50 }\n[[flows]]\nname = \"all\"\ncc = \"cubic\"\n\
                [[flows]]\nname = \"one\"\ncc = \"cubic\"\nfrom = \"1\"\nto = \"2\"\n\
                [[flows]]\nname = \"back\"\ncc = \"cubic\"\nfrom = \"3\"\nto = \"1\"\n";
    let scenario = Scenario::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let wiring = scenario.topology.wiring(&scenario.flows);
    let ways: Vec<Vec<usize>> = scenario.flows.iter().map(|f| wiring.route(f).unwrap_or_else(|e| panic!("{e}")).there).collect();
    assert_eq!(ways, [vec![0, 2, 4], vec![2], vec![5, 3]]);
    // Kapetanidou 2024: 340 ms over three links of 50 ms, 10 ms of access at each end.
    let route = wiring.route(&scenario.flows[0]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(route.rest, Span::from_millis(40));
    let refused = |with: &str| Scenario::parse(&text.replacen("hops = 3", with, 1)).expect_err(with).to_string();
    assert!(refused("hops = 0").contains("line 4 key topology.hops: must be between 1 and 100"));
    assert!(refused("hops = 2").contains("key flows.back.from: there is no node `3`; the nodes are 0, 1, 2"));
}

#[test]
fn a_dumbbell_has_no_nodes() {
    let text = "duration_s = 10.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 8.0\nrtt_ms = 50.0\n\
                queue = { kind = \"drop_tail\", ms = 50 }\n[[flows]]\nname = \"f\"\ncc = \"cubic\"\nfrom = \"a\"\n";
    let message = Scenario::parse(text).expect_err("from").to_string();
    assert!(message.contains("line 10 key flows.f.from: a dumbbell has no nodes; say `direction`"), "{message}");
}
