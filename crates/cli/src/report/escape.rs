//! Text as HTML and SVG show it. Knows no page.

/// `text` as HTML text or attribute.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
