//! Numbers side by side, for the terminal or for a page of documentation. Knows what was measured, not how.

use std::fmt::Write as _;

use super::super::bound::Bound;
use super::results::{ControlResult, Results, RowResult};
use super::suite::{Suite, Table};
use super::values;

/// A number that is a part of something may be worse by so much in a control that takes another's place.
const WORSE: f64 = 0.05;

/// For the terminal: a line a cell, with the controls in columns.
pub fn text(suite: &Suite, results: &Results) -> String {
    let mut text = String::new();
    for table in &suite.tables {
        let _ = writeln!(text, "\n{}{}", table.title, if table.held_out { " (held out)" } else { "" });
        for row in rows(table, results) {
            let _ = writeln!(text, "  {}: {}", row.says, row.number);
            for cell in &row.cells {
                let numbers: Vec<String> = cell.controls.iter().map(|c| format!("{} {}{}", c.control, spread(c), verdict(c))).collect();
                let _ = writeln!(text, "    {:<44} {}", cell.says, numbers.join("   "));
            }
        }
    }
    text
}

/// For a page in `docs/`: what was asked in one table, then every cell.
pub fn markdown(suite: &Suite, results: &Results) -> String {
    let mut text = format!("# {}\n\n", suite.title);
    for note in &suite.notes {
        let _ = writeln!(text, "{note}\n");
    }
    let (part, option) = if results.quick { ("A fifth of each row's lines", "--quick ") } else { ("Every line", "") };
    let _ = writeln!(text, "{part} with each control, seeds 1 to {0} (`{option}--runs {0}`).\n", results.seeds);
    text.push_str("## What was asked, and the worst line of each row\n\n");
    summary(&mut text, suite, results, false);
    if suite.tables.iter().any(|table| table.held_out) {
        text.push_str("\n## The same on held-out lines, with which nothing was tuned\n\n");
        summary(&mut text, suite, results, true);
    }
    let missed: Vec<_> = suite.tables.iter().flat_map(|table| &table.rows).filter(|row| is_missed(&row.name, results)).collect();
    if !missed.is_empty() {
        text.push_str("\n## Missed, and why\n\n");
        for row in missed {
            let _ = writeln!(text, "- **{}** (`{}`): {}", row.says, row.name, row.explained.as_deref().unwrap_or("not explained yet."));
        }
    }
    instead(&mut text, suite, results);
    for table in &suite.tables {
        let _ = writeln!(text, "\n## {}{}\n", table.title, if table.held_out { " (held out)" } else { "" });
        for note in &table.notes {
            let _ = writeln!(text, "{note}\n");
        }
        for row in rows(table, results) {
            cells(&mut text, row);
        }
    }
    text
}

/// Where a control that would take another's place is the worse one.
fn instead(text: &mut String, suite: &Suite, results: &Results) {
    let place = |name: &str| suite.controls.iter().position(|control| control.name == name);
    for (n, control) in suite.controls.iter().enumerate() {
        let Some((old, was)) = control.instead_of.as_deref().and_then(|old| Some((old, place(old)?))) else { continue };
        let _ = writeln!(text, "\n## Where {} is worse than {old} by more than {WORSE}\n", control.name);
        let mut compared = 0;
        let mut worse = String::new();
        for row in &results.rows {
            let Some(less) = values::less_is_better(&row.value) else { continue };
            // Of a line that is shared, less is better of ours where that is asked.
            let less = less || row.cells.iter().flat_map(|cell| &cell.controls).any(|c| c.at_most.is_some());
            for cell in &row.cells {
                let (new, old) = (cell.controls[n].mean(), cell.controls[was].mean());
                compared += 1;
                if new.is_nan() || (if less { new - old } else { old - new }) > WORSE {
                    let _ = writeln!(worse, "| {}: {} | {} | {} | {} |", row.says, row.number, cell.says, figure(new), figure(old));
                }
            }
        }
        let _ = writeln!(text, "{} of {compared} numbers that are parts, means over the seeds.", worse.lines().count());
        if !worse.is_empty() {
            let _ = write!(text, "\n| number | line | {} | {old} |\n|---|---|---|---|\n{worse}", control.name);
        }
    }
}

fn rows<'a>(table: &'a Table, results: &'a Results) -> impl Iterator<Item = &'a RowResult> {
    results.rows.iter().filter(|result| table.rows.iter().any(|row| row.name == result.row))
}

fn is_missed(name: &str, results: &Results) -> bool {
    let numbers = results.rows.iter().filter(|row| row.row == name);
    let mut controls = numbers.flat_map(|row| (0..width(row)).filter_map(|n| row.met(n)));
    controls.any(|(met, of)| met < of)
}

fn width(row: &RowResult) -> usize {
    row.cells.first().map_or(0, |cell| cell.controls.len())
}

/// One line a number: each control's worst mean, and how many cells a judged one meets.
fn summary(text: &mut String, suite: &Suite, results: &Results, held_out: bool) {
    let names: Vec<&str> = suite.controls.iter().map(|control| control.name.as_str()).collect();
    let _ = writeln!(text, "| line | number | must be | {} |", names.join(" | "));
    let _ = writeln!(text, "|---|---|---|{}", "---|".repeat(names.len()));
    for row in suite.tables.iter().filter(|table| table.held_out == held_out).flat_map(|table| rows(table, results)) {
        let Some(first) = row.cells.first() else { continue };
        let column = |n: usize| {
            let Some((says, mean)) = row.worst(n) else { return String::new() };
            let met = row
                .met(n)
                .map_or_else(String::new, |(met, of)| if met == of { format!(", {of} of {of}") } else { format!(", **{met} of {of}**") });
            let place = if says.is_empty() { String::new() } else { format!(" ({says})") };
            format!("{}{place}{met}", figure(mean))
        };
        let columns: Vec<String> = (0..first.controls.len()).map(column).collect();
        let _ = writeln!(text, "| {} | {} | {} | {} |", row.says, row.number, bounds(&first.controls), columns.join(" | "));
    }
}

fn cells(text: &mut String, row: &RowResult) {
    let Some(first) = row.cells.first() else { return };
    let names: Vec<&str> = first.controls.iter().map(|c| c.control.as_str()).collect();
    let must = bounds(&first.controls);
    let _ = writeln!(text, "**{}: {}**{}\n", row.says, row.number, if must.is_empty() { must } else { format!(", {must}") });
    let _ = writeln!(text, "| | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
    for cell in &row.cells {
        let numbers: Vec<String> = cell.controls.iter().map(|c| format!("{}{}", spread(c), verdict(c))).collect();
        let _ = writeln!(text, "| {} | {} |", cell.says, numbers.join(" | "));
    }
    text.push('\n');
}

/// The judged controls' bounds, each once.
fn bounds(controls: &[ControlResult]) -> String {
    let mut all: Vec<String> = controls.iter().filter(|c| c.judged).map(|c| bound(c.bound())).filter(|b| !b.is_empty()).collect();
    all.dedup();
    all.join("; ")
}

fn bound(bound: Bound) -> String {
    let side = |sign: &str, value: Option<f64>| value.map(|v| format!("{sign} {v}"));
    let both = [side("≥", bound.at_least), side("≤", bound.at_most)];
    both.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn spread(control: &ControlResult) -> String {
    let (least, most) = control.range();
    let here = control.each.iter().flatten().count();
    match here {
        0 => "–".to_owned(),
        _ if here < control.each.len() => {
            format!("– in {} of {} runs ({}–{})", control.each.len() - here, control.each.len(), figure(least), figure(most))
        }
        1 => figure(control.mean()),
        _ => format!("{} ({}–{})", figure(control.mean()), figure(least), figure(most)),
    }
}

fn verdict(control: &ControlResult) -> String {
    match control.missed() {
        None => String::new(),
        Some(0) => " met".to_owned(),
        Some(seeds) => format!(" **missed** by {seeds} of {}", control.each.len()),
    }
}

/// As many digits as say something.
fn figure(value: f64) -> String {
    if value.is_nan() {
        "–".to_owned()
    } else if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else if value.abs() >= 10.0 {
        format!("{value:.1}")
    } else {
        let text = format!("{value:.3}");
        if text == "-0.000" { "0.000".to_owned() } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_digits_that_say_something() {
        assert_eq!([0.0123, -0.0001, 12.34, 512.3, f64::NAN].map(figure), ["0.012", "0.000", "12.3", "512", "–"]);
        assert_eq!(bound(Bound { at_least: Some(0.97), at_most: None }), "≥ 0.97");
    }
}
