//! The papers' report in a real browser, opened from disk: silent, every plot drawn, legible on a phone. Skips loudly where there is
//! no Chromium; `scripts/check-report` installs one and checks a report that is there (LOWTIDE_REPORT).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const BROWSERS: [&str; 3] = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
/// CSS pixels of a common phone, and of a desk.
const WIDTHS: [u32; 2] = [390, 1200];
/// Between the margins of a printed page of A4.
const PRINTED: u32 = 718;

/// Shows the report in a frame of a given width (a frame, since browsers refuse narrow windows) and writes down what it sees.
const PROBE: &str = r#"<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><body style="margin:0">
<iframe id="f" style="border:0;width:WIDTHpx;height:900px" srcdoc="REPORT"></iframe><pre id="seen"></pre>
<script>
addEventListener("load", () => {
  const page = document.getElementById("f").contentDocument, root = page.documentElement;
  const drawings = [...page.querySelectorAll("figure > svg")];
  const drawn = svg => { const b = svg.getBoundingClientRect(); return b.width > 50 && b.height > 50; };
  const marked = svg => [...svg.querySelectorAll("polyline, circle, rect")].some(e => { const b = e.getBBox(); return b.width + b.height > 0; });
  const small = svg => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width * parseFloat(getComputedStyle(svg.querySelector("text")).fontSize);
  const wide = [...page.body.querySelectorAll("*")].filter(e => !e.closest("SCROLLED") && e.getBoundingClientRect().right > root.clientWidth + 1);
  const sentences = [...page.querySelectorAll("table.sentences td:nth-child(2)")].map(e => e.getBoundingClientRect().width);
  document.getElementById("seen").textContent = JSON.stringify({
    figures: drawings.length, drawn: drawings.filter(drawn).length, marked: drawings.filter(marked).length,
    text: Math.min(...drawings.map(small)), sentence: Math.min(...sentences), overflow: root.scrollWidth - root.clientWidth, wide: wide.slice(0, 5).map(e => e.outerHTML.slice(0, 200)),
    rows: Math.max(0, ...[...page.querySelectorAll("table.long")].map(t => [...t.rows].filter(r => r.offsetHeight > 0).length)),
    broken: [...page.querySelectorAll("a[href^='#']")].filter(a => !page.getElementById(a.getAttribute("href").slice(1))).length,
  });
});
</script>"#;

fn browser() -> Option<&'static str> {
    BROWSERS.into_iter().find(|path| Path::new(path).exists())
}

/// The report to look at: the one that LOWTIDE_REPORT names, or one of a few figures.
fn report(dir: &Path) -> PathBuf {
    if let Some(path) = std::env::var_os("LOWTIDE_REPORT") {
        return PathBuf::from(path);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers");
    let mut command = Command::new(env!("CARGO_BIN_EXE_lowtide"));
    command.arg("papers").arg("--experiments").arg(root).arg("--out").arg(dir).args(["run", "--quick"]);
    // Of alsaadi2018/fig06 a quick run has no points for some of the panels.
    let run =
        command.args(["bagnulo2023/fig05", "bagnulo2023/fig07", "bagnulo2023/tab1", "alsaadi2018/fig06"]).output().expect("lowtide starts");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    dir.join("report.html")
}

/// What the probe sees at `width`; nothing outside of what `scrolled` selects may be wider.
fn seen(browser: &str, dir: &Path, report: &str, width: u32, scrolled: &str) -> serde_json::Value {
    let quoted = report.replace('&', "&amp;").replace('"', "&quot;");
    let probe = dir.join(format!("probe-{width}.html"));
    let page = PROBE.replace("WIDTH", &width.to_string()).replace("SCROLLED", scrolled).replace("REPORT", &quoted);
    fs::write(&probe, page).expect("writable");
    let flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr", "--dump-dom"];
    let (profile, url) = (format!("--user-data-dir={}", dir.join("profile").display()), format!("file://{}", probe.display()));
    let output = Command::new(browser).args(flags).args([&profile, &url]).output().expect("the browser starts");
    let (dom, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!log.contains("CONSOLE"), "the browser complains: {log}");
    let said = dom.split_once("<pre id=\"seen\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let json = said.map(|(json, _)| json.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"));
    serde_json::from_str(&json.unwrap_or_else(|| panic!("the probe said nothing: {log}"))).expect("the probe speaks JSON")
}

#[test]
fn the_report_is_silent_drawn_and_legible_at_every_width() {
    let Some(browser) = browser() else {
        lowtide_testing::skip_in_ci_too(
            "the_report_is_silent_drawn_and_legible_at_every_width",
            "no Chromium here; scripts/check-report installs one",
        );
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let html = fs::read_to_string(report(dir.path())).expect("a report");
    for width in WIDTHS {
        let seen = seen(browser, dir.path(), &html, width, ".scroll, figure");
        assert!(seen["figures"].as_u64().is_some_and(|n| n > 0), "{seen}");
        assert_eq!((&seen["drawn"], &seen["marked"]), (&seen["figures"], &seen["figures"]), "at {width} px: {seen}");
        assert!(
            seen["overflow"] == 0 && seen["wide"].as_array().is_some_and(Vec::is_empty),
            "at {width} px the page is wider than the screen: {seen}"
        );
        assert!(seen["text"].as_f64().is_some_and(|px| px >= 9.0), "at {width} px the plots' text is too small: {seen}");
        assert!(
            seen["sentence"].as_f64().is_some_and(|px| px >= 250.0),
            "at {width} px the paper's sentences stand in a column too narrow: {seen}"
        );
        assert_eq!(seen["broken"], 0, "links that lead nowhere: {seen}");
    } // As printed: what is moved sideways on a screen would be cut off on paper.
    let seen = seen(browser, dir.path(), &html.replace("@media print", "@media all"), PRINTED, "figure");
    assert!(
        seen["overflow"] == 0 && seen["wide"].as_array().is_some_and(Vec::is_empty),
        "a printed page is narrower than what stands on it: {seen}"
    );
    assert!(seen["rows"].as_u64().is_some_and(|n| (2..=11).contains(&n)), "of a long table the head and ten rows are printed: {seen}");
}
