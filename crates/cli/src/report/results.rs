//! A page from a folder of results: one run with its series and distributions, or a sweep with its curves and heat maps.
//! Reads results only; does not know who made them.

mod sweep;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use lowtide_scenario::{FlowPoint, ResultDir, Series, Summary};

use super::heat::short;
use super::setting::setting;
use super::{Curve, Form, Page, Plot};

/// The page's name in the folder.
pub const PAGE: &str = "index.html";

/// Writes `DIR/index.html` about the results in and below `dir`, with each plot's data in `DIR/plots/`.
///
/// # Errors
/// A folder without results or that cannot be written.
pub fn plot_dir(dir: &Path) -> Result<PathBuf> {
    let results: Vec<ResultDir> = ResultDir::under(dir)?.iter().map(|d| ResultDir::read(d)).collect::<std::io::Result<_>>()?;
    let mut sheet = Sheet { page: Page::new(&title(&results)), dir: dir.to_owned(), data: 0 };
    match results.as_slice() {
        [] => bail!("{}: no result here; `lowtide sim SCENARIO.toml --out DIR` writes one", dir.display()),
        [one] => run(&mut sheet, one)?,
        several => sweep::draw(&mut sheet, several)?,
    }
    let path = dir.join(PAGE);
    sheet.page.write(&path)?;
    Ok(path)
}

/// A page whose plots have their data beside it.
struct Sheet {
    page: Page,
    dir: PathBuf,
    data: usize,
}

impl Sheet {
    /// Writes the data of the next figure; returns its place beside the page.
    fn data(&mut self, csv: &str) -> Result<String> {
        self.data += 1;
        let href = format!("plots/{:02}.csv", self.data);
        fs::create_dir_all(self.dir.join("plots"))?;
        fs::write(self.dir.join(&href), csv)?;
        Ok(href)
    }

    fn plot(&mut self, plot: &Plot) -> Result<()> {
        if plot.curves.iter().all(|c| c.points.is_empty()) {
            return Ok(());
        }
        let href = self.data(&plot.csv())?;
        self.page.plot(plot, Some(&href));
        Ok(())
    }
}

fn title(results: &[ResultDir]) -> String {
    match results {
        [one] => format!("{}, {}, seed {}", one.summary.scenario, host(&one.summary), one.summary.seed),
        [first, ..] => format!("{}: {} runs", first.summary.scenario, results.len()),
        [] => String::new(),
    }
}

fn host(summary: &Summary) -> &str {
    match summary.host.as_str() {
        "sim" => "simulator",
        "lab" => "laboratory",
        other => other,
    }
}

/// A value of a flow at a time.
type Value = fn(&FlowPoint) -> f64;

fn run(sheet: &mut Sheet, result: &ResultDir) -> Result<()> {
    let summary = &result.summary;
    let setting = setting(&result.scenario, &[]);
    sheet.page.paragraph(&format!("{} s; {setting}.", summary.duration_s));
    tables(&mut sheet.page, summary);
    let Some(series) = &result.series else {
        sheet.page.paragraph("This result holds no series.");
        return Ok(());
    };
    let about = format!("{}, seed {}; {setting}", summary.scenario, summary.seed);
    let flows: [(&str, &str, Value); 4] = [
        ("Throughput of each flow", "Mbit/s", |p| p.goodput_bps / 1e6),
        ("Congestion window", "kB", |p| p.cwnd_bytes / 1e3),
        ("Window granted by the receiver", "kB", |p| p.rwnd_bytes / 1e3),
        ("Round-trip time", "ms", |p| p.rtt_ms),
    ];
    for (what, unit, value) in flows {
        let curves = by_name(series.flows.iter().map(|p| (&*p.flow, p.time_s, value(p))));
        sheet.plot(&Plot {
            title: format!("{what}. {about}"),
            x_label: "time (s)".into(),
            y_label: unit.into(),
            curves,
            form: Form::Lines,
            ..Plot::default()
        })?;
    }
    let delay = queueing(series);
    let waiting = delay.iter().map(|c| cumulative(&c.name, c.points.iter().map(|p| p.1))).collect();
    let throughput = by_name(series.flows.iter().map(|p| (&*p.flow, p.time_s, p.goodput_bps / 1e6)));
    let rates = throughput.iter().map(|c| cumulative(&c.name, c.points.iter().map(|p| p.1))).collect();
    for (what, x, y, curves) in [
        ("Queueing delay over time", "time (s)", "ms", delay),
        ("Queueing delay, cumulative distribution over time", "ms", "fraction of the time", waiting),
        ("Throughput, cumulative distribution over time", "Mbit/s", "fraction of the time", rates),
    ] {
        sheet.plot(&Plot {
            title: format!("{what}. {about}"),
            x_label: x.into(),
            y_label: y.into(),
            curves,
            form: Form::Lines,
            ..Plot::default()
        })?;
    }
    Ok(())
}

fn queueing(series: &Series) -> Vec<Curve> {
    by_name(series.queues.iter().map(|p| (&*p.bottleneck, p.time_s, p.queue_delay_ms)))
}

/// One curve a name, without the points at which nothing is known.
fn by_name<'a>(points: impl Iterator<Item = (&'a str, f64, f64)>) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for (name, x, y) in points.filter(|p| p.2.is_finite()) {
        match curves.iter_mut().find(|c| c.name == name) {
            Some(curve) => curve.points.push((x, y)),
            None => curves.push(Curve::line(name, vec![(x, y)])),
        }
    }
    curves
}

/// The fraction of `values` that is at most x.
fn cumulative(name: &str, values: impl Iterator<Item = f64>) -> Curve {
    let mut values: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    Curve::line(name, values.into_iter().enumerate().map(|(i, v)| (v, (i + 1) as f64 / n)).collect())
}

fn tables(page: &mut Page, summary: &Summary) {
    let flows: Vec<Vec<String>> = summary
        .flows
        .iter()
        .map(|f| {
            let optional = |v: Option<f64>| v.map_or_else(|| "–".to_owned(), short);
            vec![
                f.name.clone(),
                f.group.clone(),
                f.cc.clone(),
                short(f.goodput_bps / 1e6),
                short(f.share),
                f.retransmits.to_string(),
                short(f.rtt_ms.min),
                short(f.rtt_ms.p50),
                short(f.rtt_ms.p95),
                optional(f.completion_s),
                f.transfers.map_or_else(|| "–".to_owned(), |t| t.unfinished.to_string()),
                optional(f.jitter_ms),
            ]
        })
        .collect();
    let head = [
        "flow",
        "group",
        "control",
        "Mbit/s",
        "share",
        "sent again",
        "RTT min ms",
        "median",
        "p95",
        "completion s",
        "unfinished",
        "jitter ms",
    ];
    page.heading("flows", "Flows").table(&head, &flows);
    let bottlenecks: Vec<Vec<String>> = summary
        .bottlenecks
        .iter()
        .map(|b| {
            let delay = &b.queue_delay_ms;
            vec![
                b.name.clone(),
                short(b.capacity_bps / 1e6),
                short(b.utilisation),
                b.drops.to_string(),
                b.marks.to_string(),
                short(delay.mean),
                short(delay.p50),
                short(delay.p95),
                short(delay.p99),
                short(delay.max),
            ]
        })
        .collect();
    let head = ["bottleneck", "Mbit/s", "utilisation", "drops", "marks", "delay mean ms", "median", "p95", "p99", "max"];
    page.heading("bottlenecks", "Bottlenecks").table(&head, &bottlenecks);
    page.paragraph(&format!("Jain index {}, over windows of a second {}.", short(summary.jain), short(summary.jain_short)));
}

#[cfg(test)]
mod tests;
