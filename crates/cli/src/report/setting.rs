//! A scenario's topology in words, for captions. Knows no result and draws nothing.

use std::collections::BTreeMap;

/// The scenario's values under their full keys; flows by name.
pub(super) fn parameters(text: &str) -> BTreeMap<String, String> {
    fn walk(value: &toml::Value, key: String, into: &mut BTreeMap<String, String>) {
        let join = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
        match value {
            toml::Value::Table(table) => table.iter().for_each(|(name, value)| walk(value, join(name), into)),
            toml::Value::Array(items) if items.iter().all(toml::Value::is_table) => {
                for (i, item) in items.iter().enumerate() {
                    let name = item.get("name").and_then(toml::Value::as_str).map_or_else(|| (i + 1).to_string(), str::to_owned);
                    walk(item, join(&name), into);
                }
            }
            toml::Value::String(s) => drop(into.insert(key, s.clone())),
            other => drop(into.insert(key, other.to_string())),
        }
    }
    let mut found = BTreeMap::new();
    if let Ok(table) = text.parse::<toml::Table>() {
        walk(&toml::Value::Table(table), String::new(), &mut found);
    }
    found
}

/// The topology in words, without the keys of `varied` and without what is off. Of a graph the links that are alike stand together.
pub fn setting(text: &str, varied: &[&str]) -> String {
    let off = |value: &str| matches!(value, "0" | "0.0" | "false");
    // A whole table may vary: `topology.queue` covers `topology.queue.kind`.
    let covers = |varied: &str, key: &str| key.strip_prefix(varied).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let varies = |key: &str| varied.iter().any(|v| covers(v, key));
    // A trace of many lines is named, not repeated.
    let short = |value: &str| value.split_once('\n').map_or_else(|| value.to_owned(), |(first, _)| format!("{first} …"));
    let (mut words, mut links) = (Vec::new(), BTreeMap::<String, Link>::new());
    for (key, value) in parameters(text).into_iter().filter(|(key, value)| !varies(key) && !off(value)) {
        let Some(key) = key.strip_prefix("topology.") else { continue };
        match key.strip_prefix("links.").and_then(|rest| rest.split_once('.')) {
            Some((link, "from")) => links.entry(link.to_owned()).or_default().from = value,
            Some((link, "to")) => links.entry(link.to_owned()).or_default().to = value,
            Some((link, of)) => links.entry(link.to_owned()).or_default().words.push(in_words(of, &short(&value))),
            None => words.push(in_words(key, &short(&value))),
        }
    }
    std::iter::once(words.join(", ")).chain(alike(links)).collect::<Vec<_>>().join("; ")
}

/// One link of a graph.
#[derive(Default)]
struct Link {
    from: String,
    to: String,
    words: Vec<String>,
}

/// `links a–b, b–c: delay 50 ms, rate 20 Mbit/s` for all that are so, in the order in which the scenario has them.
fn alike(links: BTreeMap<String, Link>) -> Vec<String> {
    let mut links: Vec<(String, Link)> = links.into_iter().collect();
    links.sort_by_key(|(number, _)| number.parse::<usize>().unwrap_or(usize::MAX));
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for (_, link) in links {
        let (words, ends) = (link.words.join(", "), format!("{}–{}", link.from, link.to));
        match groups.iter_mut().find(|group| group.0 == words) {
            Some(group) => group.1.push(ends),
            None => groups.push((words, vec![ends])),
        }
    }
    groups
        .into_iter()
        .map(|(words, ends)| format!("{} {}: {words}", if ends.len() > 1 { "links" } else { "link" }, ends.join(", ")))
        .collect()
}

/// What the ends of keys say of their values.
const UNITS: [(&str, &str); 7] =
    [("ms", "ms"), ("us", "µs"), ("s", "s"), ("mbps", "Mbit/s"), ("kbps", "kbit/s"), ("bytes", "bytes"), ("packets", "packets")];

/// `access.queue.kind` `drop_tail` as `access queue drop-tail`, `rtt_ms` `61.5` as `RTT 61.5 ms`.
fn in_words(key: &str, value: &str) -> String {
    // A kind is said by its name, and what impairs a link by what it does.
    let mut words: Vec<&str> = key.split(['.', '_']).filter(|word| !matches!(*word, "kind" | "impair")).collect();
    let unit = words.last().and_then(|last| UNITS.iter().find(|unit| unit.0 == *last));
    words.truncate(words.len() - usize::from(unit.is_some()));
    words.iter_mut().filter(|word| **word == "rtt").for_each(|word| *word = "RTT");
    let value = if key.ends_with("kind") { value.replace('_', "-") } else { value.strip_suffix(".0").unwrap_or(value).to_owned() };
    words.into_iter().chain([value.as_str()]).chain(unit.map(|unit| unit.1)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_a_graph_that_are_alike_stand_together_without_their_numbers() {
        let text = "[topology]\nkind = \"graph\"\nlinks = [\n\
                    { from = \"a\", to = \"b\", rate_mbps = 20.0, delay_ms = 50.0, queue = { kind = \"drop_tail\", packets = 250 } },\n\
                    { from = \"b\", to = \"c\", rate_mbps = 200.0, delay_ms = 10.0 },\n\
                    { from = \"c\", to = \"d\", rate_mbps = 20.0, delay_ms = 50.0, queue = { kind = \"drop_tail\", packets = 250 } },\n]";
        let words = "graph; links a–b, c–d: delay 50 ms, queue drop-tail, queue 250 packets, rate 20 Mbit/s; link b–c: delay 10 ms, rate 200 Mbit/s";
        assert_eq!(setting(text, &[]), words);
    }
}
