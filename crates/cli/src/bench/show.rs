//! Measured rows as a table for the terminal or for a page of documentation. Knows what was measured, not how.

use std::fmt::Write as _;

use super::measured::{Measured, Number};
use super::suite::{Measure, Table};

/// One table with its rows.
pub type Part<'a> = (&'a Table, Vec<Measured<'a>>);

/// For the terminal.
pub fn text(parts: &[Part]) -> String {
    let mut text = String::new();
    for (table, rows) in parts {
        let _ = writeln!(text, "\n{}", table.title);
        for (row, number) in numbers(rows) {
            let here = format!("{}{}", here(number), stalled(row));
            let verdict = number.met.map_or("", |met| if met { "met" } else { "NOT MET" });
            let paper = number.measure.paper.as_ref().map(|p| format!("paper {p}")).unwrap_or_default();
            let first = row.numbers.first().is_some_and(|n| std::ptr::eq(n, number));
            let (says, what) = (if first { row.says } else { "" }, &number.measure.says);
            let _ = writeln!(text, "  {says:<40} {what:<34} {here:<26} {:<10} {verdict:<8} {paper}", bound(number.measure));
        }
    }
    text
}

/// For a page in `docs/`.
pub fn markdown(parts: &[Part]) -> String {
    let mut text = String::new();
    for (table, rows) in parts {
        let _ = writeln!(text, "\n## {}\n", table.title);
        for note in &table.notes {
            let _ = writeln!(text, "{note}\n");
        }
        text.push_str("| | | here (each run) | must be | | paper | link late by p50 / p99 / max |\n|---|---|---|---|---|---|---|\n");
        for (row, number) in numbers(rows) {
            let verdict = number.met.map_or("", |met| if met { "met" } else { "**not met**" });
            let paper = number.measure.paper.as_deref().unwrap_or("–");
            let late = row.lateness_ms.map_or_else(String::new, |l| format!("{:.2} / {:.1} / {:.0} ms", l.p50, l.p99, l.max));
            let cells = [
                row.says,
                &number.measure.says,
                &format!("{}{}", here(number), stalled(row)),
                &bound(number.measure),
                verdict,
                paper,
                &late,
            ];
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        for (row, number) in numbers(rows).filter(|(_, n)| n.met == Some(false)) {
            let why = number.measure.explained.as_deref().unwrap_or("not explained yet.");
            let _ = writeln!(text, "\n{}, {}: {why}", row.says, number.measure.says);
        }
    }
    text
}

fn numbers<'a, 'b>(rows: &'b [Measured<'a>]) -> impl Iterator<Item = (&'b Measured<'a>, &'b Number<'a>)> {
    rows.iter().flat_map(|row| row.numbers.iter().map(move |number| (row, number)))
}

fn stalled(row: &Measured) -> String {
    if row.stalled == 0 { String::new() } else { format!("; {} runs that the host stalled left out", row.stalled) }
}

fn here(number: &Number) -> String {
    let unit = number.measure.unit.as_str();
    let Some(mean) = number.mean else { return "–".to_owned() };
    let each: Vec<String> = number.each.iter().map(|v| figure(*v, unit)).collect();
    let spaced = if unit.is_empty() { String::new() } else { format!(" {unit}") };
    format!("{}{spaced} ({})", figure(mean, unit), each.join(" "))
}

fn bound(measure: &Measure) -> String {
    let unit = measure.unit.as_str();
    let side = |sign: &str, value: Option<f64>| value.map(|v| format!("{sign} {}", trimmed(&figure(v, unit))));
    match (side("≥", measure.at_least), side("≤", measure.at_most)) {
        (Some(least), Some(_)) if measure.at_least == measure.at_most => least.replace('≥', "="),
        (Some(least), Some(most)) => format!("{least}, {most}"),
        (least, most) => least.or(most).unwrap_or_default(),
    }
}

/// As many digits as say something.
fn figure(value: f64, unit: &str) -> String {
    match unit {
        "%" => format!("{:.1}", value * 100.0),
        "ms" => format!("{value:.1}"),
        "µs" => format!("{:.0}", value * 1e3),
        "s" => format!("{value:.2}"),
        "B" => format!("{value:.0}"),
        _ => format!("{value:.3}"),
    }
}

/// A bound is a round number: 0.900 is 0.9.
fn trimmed(figure: &str) -> &str {
    if figure.contains('.') { figure.trim_end_matches('0').trim_end_matches('.') } else { figure }
}
