//! docs/scenario.md against the schema: what the reader refuses a wrong key with is the list of right ones.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;

const BASE: &str =
    "duration_s = 9.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 1.0\nrtt_ms = 1.0\nqueue = { kind = \"drop_tail\", ms = 9 }\n";
const GRAPH: &str = "duration_s = 9.0\n[topology]\nkind = \"graph\"\n";
const LOT: &str = "duration_s = 9.0\n[topology]\nkind = \"parking_lot\"\n";
const FLOW: &str = "[[flows]]\nname = \"f\"\ncc = \"reno\"\n";

/// The keys that stand where `text` has a key `wrong`.
fn schema(text: &str) -> BTreeSet<String> {
    let message = Scenario::parse(text).expect_err("a wrong key").to_string();
    let (_, allowed) = message.split_once("expected").unwrap_or_else(|| panic!("{message}"));
    allowed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The keys of a section's table; `column` of them, what is in backticks there.
fn documented(section: &str, column: usize) -> BTreeSet<String> {
    let doc = include_str!("../../../../docs/scenario.md");
    let (_, rest) = doc.split_once(&format!("\n## {section}\n")).unwrap_or_else(|| panic!("docs/scenario.md has no section {section}"));
    let table = rest.split("\n## ").next().unwrap_or(rest).lines().filter(|line| line.starts_with("| `"));
    let cells = table.filter_map(|line| line.split('|').nth(column + 1)).flat_map(|cell| cell.split('`').skip(1).step_by(2));
    cells.map(str::to_owned).collect()
}

#[test]
fn the_document_has_every_key_and_no_other() {
    let with = |base: &str, more: &str| schema(&format!("{base}{more}\n"));
    let sections = [
        ("The scenario", schema("wrong = 1\n")),
        ("topology: dumbbell", with(BASE, "wrong = 1")),
        ("topology: parking_lot", with(LOT, "wrong = 1")),
        ("topology: graph", with(GRAPH, "wrong = 1")),
        ("topology.wifi", with(BASE, "wifi = { wrong = 1 }")),
        ("topology.cellular", with(BASE, "cellular = { wrong = 1 }")),
        ("topology.links", with(GRAPH, "[[topology.links]]\nwrong = 1")),
        ("impair", with(BASE, "impair = { wrong = 1 }")),
        ("flows", with(BASE, "[[flows]]\nwrong = 1")),
        ("flows.tcp", with(BASE, &format!("{FLOW}tcp = {{ wrong = 1 }}"))),
        ("flows.tcp.ns3", with(BASE, &format!("{FLOW}tcp = {{ stack = \"ns3\", ns3 = {{ wrong = 1 }} }}"))),
        ("flows.tcp.ns2", with(BASE, &format!("{FLOW}tcp = {{ stack = \"ns2\", ns2 = {{ wrong = 1 }} }}"))),
        ("flows.utp", with(BASE, &format!("{FLOW}utp = {{ wrong = 1 }}"))),
        ("flows.lab", with(BASE, &format!("{FLOW}lab = {{ wrong = 1 }}"))),
    ];
    for (section, keys) in sections {
        assert!(!keys.is_empty(), "{section}: no keys");
        assert_eq!(documented(section, 0), keys, "section {section} of docs/scenario.md (left), schema (right)");
    }
}

#[test]
fn the_document_has_every_kind_of_traffic_with_its_keys() {
    let traffic = |inside: &str| schema(&format!("{BASE}{FLOW}traffic = {{ {inside} }}\n"));
    let kinds = traffic("kind = \"wrong\"");
    assert_eq!(documented("flows.traffic", 0), kinds);
    let keys = kinds.iter().filter(|kind| *kind != "bulk").flat_map(|kind| traffic(&format!("kind = \"{kind}\", wrong = 1")));
    assert_eq!(documented("flows.traffic", 1), keys.collect());
}

/// Where a key takes one of a few words, the document has them all.
#[test]
fn the_document_has_every_word_that_a_key_takes() {
    let doc = include_str!("../../../../docs/scenario.md");
    let graph = format!("{GRAPH}[[topology.links]]\nfrom = \"a\"\nto = \"b\"\n");
    for (key, text) in [
        ("recovery", format!("{BASE}{FLOW}tcp = {{ stack = \"rfc\", recovery = \"wrong\" }}\n")),
        ("stack", format!("{BASE}{FLOW}tcp = {{ stack = \"wrong\" }}\n")),
        ("agent", format!("{BASE}{FLOW}tcp = {{ stack = \"ns2\", ns2 = {{ agent = \"wrong\" }} }}\n")),
        ("repair", format!("{BASE}{FLOW}utp = {{ repair = \"wrong\" }}\n")),
        ("direction", format!("{graph}{FLOW}direction = \"wrong\"\n")),
        ("kind", format!("{BASE}{FLOW}kind = \"wrong\"\n")),
    ] {
        let line = |word: &str| doc.lines().any(|l| l.starts_with(&format!("| `{key}` |")) && l.contains(&format!("`{word}`")));
        let words = schema(&text);
        assert!(words.len() > 1, "{key}: {words:?}");
        words.iter().for_each(|word| assert!(line(word), "docs/scenario.md: `{key}` may be `{word}` too"));
    }
}

#[test]
fn every_topology_has_a_section_and_every_example_is_valid() {
    for kind in schema("duration_s = 9.0\n[topology]\nkind = \"wrong\"\n") {
        assert!(!documented(&format!("topology: {kind}"), 0).is_empty());
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let files: Vec<_> = fs::read_dir(folder).expect("scenarios/").filter_map(|f| f.ok().map(|f| f.path())).collect();
    assert!(files.len() >= 2);
    for file in files {
        Scenario::load(&file).unwrap_or_else(|e| panic!("{e}"));
    }
    let doc = include_str!("../../../../docs/scenario.md");
    let example: String = doc.lines().filter_map(|line| line.strip_prefix("    ")).map(|line| format!("{line}\n")).collect();
    Scenario::parse(&example).unwrap_or_else(|e| panic!("{e}\n{example}"));
}
