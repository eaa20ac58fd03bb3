//! Where in a scenario's text something stands: from a reader's complaint or a key to the line and the full key.
//! Knows TOML, not scenarios.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A place in the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Counted from one.
    pub line: Option<usize>,
    /// The full key, `flows.bulk.cc`.
    pub key: Option<String>,
}

/// A key or value of the document.
struct Node<'a> {
    key: String,
    /// The last part of `key`.
    name: &'a str,
    key_span: Range<usize>,
    span: Range<usize>,
    /// What stands there, if it is a plain value.
    value: Option<&'a str>,
}

/// The place of what serde complained about. Tagged tables lose their positions on the way through serde: there the
/// complaint names a word in backticks or quotes, which is looked for below the place it was reported at.
pub(crate) fn complaint(text: &str, error: &toml::de::Error) -> Place {
    let offset = error.span().map_or(0, |s| s.start);
    let line = error.span().map(|_| line_of(text, offset));
    let Ok(document) = DeTable::parse(text) else { return Place { line, key: None } };
    let nodes = nodes(document.get_ref());
    let around = nodes.iter().filter(|n| n.span.contains(&offset) || n.key_span.contains(&offset)).max_by_key(|n| n.key.len());
    let above = around.map_or("", |n| n.key.as_str());
    let word = error.message().split(['`', '"']).nth(1).unwrap_or("");
    let named = |n: &&Node<'_>| below(&n.key, above) && (n.name == word || n.value == Some(word));
    let missing = error.message().starts_with("missing field");
    match nodes.iter().find(named).filter(|_| !missing).or(around) {
        Some(node) => Place { line: Some(line_of(text, node.key_span.start)), key: Some(node.key.clone()) },
        None => Place { line: line.filter(|_| offset > 0), key: None },
    }
}

/// The line of `key`, or of the nearest table around it that the text holds.
pub(crate) fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let nodes = nodes(document.get_ref());
    let nearest = nodes.iter().filter(|n| below(key, &n.key)).max_by_key(|n| n.key.len())?;
    Some(line_of(text, nearest.key_span.start))
}

/// Whether `key` is `above` or lies in it.
fn below(key: &str, above: &str) -> bool {
    above.is_empty() || key.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1
}

fn nodes<'a>(document: &'a DeTable<'_>) -> Vec<Node<'a>> {
    let mut nodes = Vec::new();
    table(document, "", &mut nodes);
    nodes.sort_by_key(|n| n.key_span.start);
    nodes
}

fn table<'a>(entries: &'a DeTable<'_>, above: &str, nodes: &mut Vec<Node<'a>>) {
    for (name, value) in entries {
        let key = if above.is_empty() { name.get_ref().to_string() } else { format!("{above}.{}", name.get_ref()) };
        node(name.get_ref(), key, name.span(), value, nodes);
    }
}

fn node<'a>(name: &'a str, key: String, key_span: Range<usize>, value: &'a Spanned<DeValue<'_>>, nodes: &mut Vec<Node<'a>>) {
    let plain = match value.get_ref() {
        DeValue::String(s) => Some(&**s),
        DeValue::Integer(i) => Some(i.as_str()),
        DeValue::Float(f) => Some(f.as_str()),
        DeValue::Boolean(b) => Some(if *b { "true" } else { "false" }),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    };
    match value.get_ref() {
        DeValue::Table(entries) => table(entries, &key, nodes),
        DeValue::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                let named = item.get_ref().get("name").and_then(|n| n.get_ref().as_str());
                let item_key = named.map_or_else(|| format!("{key}.{}", i + 1), |n| format!("{key}.{n}"));
                node(name, item_key, item.span(), item, nodes);
            }
        }
        _ => {}
    }
    nodes.push(Node { key, name, key_span, span: value.span(), value: plain });
}
