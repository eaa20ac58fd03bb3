//! Text as HTML, SVG and CSV hold it. Knows no page.

/// `text` as HTML text or attribute.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// `text` as a cell of a CSV file.
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// A table as CSV.
pub fn csv(head: &[String], rows: &[Vec<String>]) -> String {
    let line = |row: &Vec<String>| row.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\n";
    std::iter::once(&head.to_vec()).chain(rows).map(line).collect()
}
