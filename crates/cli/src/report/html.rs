//! One self-contained HTML file, legible on a phone, in print and in the dark. Knows nothing of what it shows.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use super::escape::escape;
use super::plot::Plot;

/// What a table's cell holds.
#[derive(Clone, Debug)]
pub enum Cell {
    /// Plain text.
    Text(String),
    /// An expression, set as such.
    Code(String),
    /// A link within the page, by the id of its target.
    Link(String, String),
    /// Good or bad, in words: colour only supports them.
    Mark(bool, String),
    /// Several, one below the other.
    Lines(Vec<Cell>),
    /// Several, one beside the other.
    Words(Vec<Cell>),
}

impl Cell {
    fn html(&self) -> String {
        match self {
            Cell::Text(text) => escape(text),
            Cell::Code(text) => format!("<code>{}</code>", escape(text)),
            Cell::Link(id, text) => format!("<a href=\"#{}\">{}</a>", escape(id), escape(text)),
            Cell::Lines(lines) => lines.iter().map(|line| format!("<div>{}</div>", line.html())).collect(),
            Cell::Words(words) => {
                words.iter().map(|word| format!("<span class=\"word\">{}</span>", word.html())).collect::<Vec<_>>().join(" ")
            }
            Cell::Mark(good, text) => format!("<span class=\"{}\">{}</span>", if *good { "met" } else { "missed" }, escape(text)),
        }
    }
}

/// A page under construction.
pub struct Page {
    title: String,
    body: String,
}

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--rule:#d0d7de;--soft:#57606a}\
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#0d1117;--rule:#30363d;--soft:#9198a1}}\
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;margin:auto;padding:1rem}\
p,h1,h2,h3,li,figcaption{overflow-wrap:anywhere}code{font-size:.85em;overflow-wrap:anywhere}\
.scroll{overflow-x:auto;margin:1rem 0}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
th,td{border-bottom:1px solid var(--rule);padding:.25rem .6rem;text-align:left;vertical-align:top}\
figure{margin:1.5rem 0;overflow-x:auto;break-inside:avoid}figcaption{color:var(--soft);font-size:.9rem}\
svg{width:100%;min-width:34rem;height:auto}svg.plot{min-width:0}svg text{fill:var(--ink);font:13px system-ui,sans-serif}\
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1rem;list-style:none;margin:.3rem 0;padding:0;font-size:.9rem}\
svg.key{width:1.75rem;min-width:0;height:.75rem;margin-right:.4rem}\
.word,td a{white-space:nowrap}.met{color:#1a7f37}.missed{color:#cf222e}\
td div+div{margin-top:.3rem}table.stacked td{overflow-wrap:anywhere}.printed{display:none}\
table.stacked td:first-child{overflow-wrap:normal}table.sentences td:nth-child(2){min-width:17rem}\
@media(max-width:40rem){svg.plot text{font-size:23px}\
table.stacked,table.stacked tbody,table.stacked tr,table.stacked td{display:block}table.stacked tr:first-child{display:none}\
table.stacked tr{border-bottom:1px solid var(--rule);padding:.5rem 0}table.stacked td{border:0;padding:.1rem 0}\
table.sentences td:nth-child(2){min-width:0}table.stacked td:empty{display:none}\
table.stacked td::before{content:attr(data-head);display:block;color:var(--soft);font-size:.8rem}}\
@media print{:root{color-scheme:light;--ink:#000;--paper:#fff;--rule:#999;--soft:#333}\
body{max-width:none;padding:0;font-size:10pt}.scroll,figure{overflow:visible}table{font-size:8pt}td{overflow-wrap:break-word}table.long{font-size:7pt}table.long th{overflow-wrap:anywhere}\
table.long tr:nth-child(n+PRINTED){display:none}.printed{display:block}\
tr,figure{break-inside:avoid}h2,h3{break-after:avoid}svg.plot{max-width:16cm}}";

/// So many rows of a long table are printed; its CSV has all.
const PRINTED: usize = 10;

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

    /// A smaller heading.
    pub fn subheading(&mut self, text: &str) -> &mut Page {
        let _ = write!(self.body, "<h3>{}</h3>", escape(text));
        self
    }

    /// A table of plain text.
    pub fn table(&mut self, head: &[&str], rows: &[Vec<String>]) -> &mut Page {
        let cells = |row: &Vec<String>| row.iter().cloned().map(Cell::Text).collect();
        self.cells(head, &rows.iter().map(cells).collect::<Vec<_>>())
    }

    /// A table. Where it is wider than the page, it is moved sideways on its own.
    pub fn cells(&mut self, head: &[&str], rows: &[Vec<Cell>]) -> &mut Page {
        self.scrolled("", head, rows)
    }

    fn scrolled(&mut self, class: &str, head: &[&str], rows: &[Vec<Cell>]) -> &mut Page {
        let head: String = head.iter().map(|c| format!("<th>{}</th>", escape(c))).collect();
        let _ = write!(self.body, "<div class=\"scroll\"><table class=\"{class}\"><tr>{head}</tr>");
        for row in rows {
            let row: String = row.iter().map(|c| format!("<td>{}</td>", c.html())).collect();
            let _ = write!(self.body, "<tr>{row}</tr>");
        }
        self.body.push_str("</table></div>");
        self
    }

    /// A table of which only the first rows are printed; `data` is the CSV that has all.
    pub fn long_table(&mut self, head: &[&str], rows: &[Vec<String>], data: &str) -> &mut Page {
        let all = rows.len();
        let _ = write!(self.body, "<p><a href=\"{0}\">data (CSV)</a>", escape(data));
        if all > PRINTED {
            let _ = write!(self.body, "<span class=\"printed\">The first {PRINTED} of {all} rows; all are in {}.</span>", escape(data));
        }
        self.body.push_str("</p>");
        let cells = |row: &Vec<String>| row.iter().cloned().map(Cell::Text).collect();
        self.scrolled("long", head, &rows.iter().map(cells).collect::<Vec<_>>())
    }

    /// A table whose rows are blocks where the page is narrow, each cell under its column's head.
    pub fn stacked(&mut self, head: &[&str], rows: &[Vec<Cell>]) -> &mut Page {
        self.blocks("stacked", head, rows)
    }

    /// Such a table, with whole sentences in its second column.
    pub fn sentences(&mut self, head: &[&str], rows: &[Vec<Cell>]) -> &mut Page {
        self.blocks("stacked sentences", head, rows)
    }

    fn blocks(&mut self, class: &str, head: &[&str], rows: &[Vec<Cell>]) -> &mut Page {
        let heads: String = head.iter().map(|c| format!("<th>{}</th>", escape(c))).collect();
        let _ = write!(self.body, "<table class=\"{class}\"><tr>{heads}</tr>");
        for row in rows {
            let cell = |(cell, head): (&Cell, &&str)| format!("<td data-head=\"{}\">{}</td>", escape(head), cell.html());
            let row: String = row.iter().zip(head).map(cell).collect();
            let _ = write!(self.body, "<tr>{row}</tr>");
        }
        self.body.push_str("</table>");
        self
    }

    /// A plot with its caption and, where there is one, a link to its data.
    pub fn plot(&mut self, plot: &Plot, data: Option<&str>) -> &mut Page {
        self.figure(&format!("{}{}", plot.svg(), plot.legend()), &plot.title, data)
    }

    /// A drawing (SVG elements, a legend) with its caption and, where there is one, a link to its data.
    pub fn figure(&mut self, svg: &str, caption: &str, data: Option<&str>) -> &mut Page {
        let link = data.map(|href| format!(" · <a href=\"{}\">data (CSV)</a>", escape(href))).unwrap_or_default();
        let _ = write!(self.body, "<figure>{svg}<figcaption>{}{link}</figcaption></figure>", escape(caption));
        self
    }

    /// The page as text.
    pub fn html(&self) -> String {
        let title = escape(&self.title);
        // Its head is a row too.
        let style = STYLE.replace("PRINTED", &(PRINTED + 2).to_string());
        format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <link rel=\"icon\" href=\"data:,\"><title>{title}</title><style>{style}</style></head><body><h1>{title}</h1>{}</body></html>\n",
            self.body
        )
    }

    /// Writes the page.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        fs::write(path, self.html())
    }
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
