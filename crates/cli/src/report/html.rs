//! One self-contained HTML file, legible on a phone, in print and in the dark. Knows nothing of what it shows.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use super::plot::Plot;

/// A page under construction.
pub struct Page {
    title: String,
    body: String,
}

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--rule:#d0d7de;--soft:#57606a}\
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#0d1117;--rule:#30363d;--soft:#9198a1}}\
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;margin:auto;padding:1rem}\
table{border-collapse:collapse;display:block;overflow-x:auto;font-variant-numeric:tabular-nums}\
th,td{border-bottom:1px solid var(--rule);padding:.25rem .6rem;text-align:left;vertical-align:top}\
figure{margin:1.5rem 0;break-inside:avoid}figcaption{color:var(--soft);font-size:.9rem}\
svg{width:100%;height:auto}svg text{fill:var(--ink);font:13px system-ui,sans-serif}\
.met{color:#1a7f37}.missed{color:#cf222e}";

impl Page {
    /// An empty page.
    pub fn new(title: &str) -> Page {
        Page { title: title.to_owned(), body: String::new() }
    }

    /// A heading; `id` is what links within the page point at.
    pub fn heading(&mut self, id: &str, text: &str) -> &mut Page {
        let _ = write!(self.body, "<h2 id=\"{}\">{}</h2>", escape(id), escape(text));
        self
    }

    /// A paragraph of plain text.
    pub fn paragraph(&mut self, text: &str) -> &mut Page {
        let _ = write!(self.body, "<p>{}</p>", escape(text));
        self
    }

    /// A table of plain text.
    pub fn table(&mut self, head: &[&str], rows: &[Vec<String>]) -> &mut Page {
        let cells =
            |tag: &str, row: &mut dyn Iterator<Item = &str>| row.map(|c| format!("<{tag}>{}</{tag}>", escape(c))).collect::<String>();
        let _ = write!(self.body, "<table><tr>{}</tr>", cells("th", &mut head.iter().copied()));
        for row in rows {
            let _ = write!(self.body, "<tr>{}</tr>", cells("td", &mut row.iter().map(String::as_str)));
        }
        self.body.push_str("</table>");
        self
    }

    /// A plot with its caption and, where there is one, a link to its data.
    pub fn plot(&mut self, plot: &Plot, data: Option<&str>) -> &mut Page {
        self.figure(&plot.svg(), &plot.title, data)
    }

    /// An SVG element with its caption and, where there is one, a link to its data.
    pub fn figure(&mut self, svg: &str, caption: &str, data: Option<&str>) -> &mut Page {
        let link = data.map(|href| format!(" · <a href=\"{}\">data (CSV)</a>", escape(href))).unwrap_or_default();
        let _ = write!(self.body, "<figure>{svg}<figcaption>{}{link}</figcaption></figure>", escape(caption));
        self
    }

    /// The page as text.
    pub fn html(&self) -> String {
        let title = escape(&self.title);
        format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
             <link rel=\"icon\" href=\"data:,\"><title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>{}</body></html>\n",
            self.body
        )
    }

    /// Writes the page.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        fs::write(path, self.html())
    }
}

/// `text` as HTML text or attribute.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_cannot_break_the_page() {
        let mut page = Page::new("a <b> & \"c\"");
        page.paragraph("<script>alert(1)</script>").table(&["x<"], &[vec!["<td>".to_owned()]]);
        let html = page.html();
        assert!(!html.contains("<script>") && !html.contains("<b>") && !html.contains("<td><td>"), "{html}");
        assert!(!html.contains("http"), "nothing may be fetched: {html}");
    }
}
