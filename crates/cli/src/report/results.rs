//! A page from a folder of results: one run with its series and distributions, or a sweep with its curves and heat maps.
//! Reads results only; does not know who made them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use lowtide_scenario::{FlowPoint, ResultDir, Series, Summary};

use super::heat::{HeatMap, short};
use super::{Curve, Page, Plot};

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
        several => sweep(&mut sheet, several)?,
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

/// The scenario's values under their full keys; flows by name.
fn parameters(text: &str) -> BTreeMap<String, String> {
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

/// The topology in words, without the keys of `varied` and without what is off.
pub fn setting(text: &str, varied: &[&str]) -> String {
    let off = |value: &str| matches!(value, "0" | "0.0" | "false");
    // A whole table may vary: `topology.queue` covers `topology.queue.kind`.
    let covers = |varied: &str, key: &str| key.strip_prefix(varied).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let varies = |key: &str| varied.iter().any(|v| covers(v, key));
    let fixed = parameters(text).into_iter().filter(|(key, value)| !varies(key) && !off(value));
    // A trace of many lines is named, not repeated.
    let short = |value: &str| value.split_once('\n').map_or_else(|| value.to_owned(), |(first, _)| format!("{first} …"));
    let words = fixed.filter_map(|(key, value)| Some(format!("{} {}", key.strip_prefix("topology.")?.replace('_', " "), short(&value))));
    words.collect::<Vec<_>>().join(", ")
}

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
    let flows: [(&str, &str, fn(&FlowPoint) -> f64); 4] = [
        ("Throughput of each flow", "Mbit/s", |p| p.goodput_bps / 1e6),
        ("Congestion window", "kB", |p| p.cwnd_bytes / 1e3),
        ("Window granted by the receiver", "kB", |p| p.rwnd_bytes / 1e3),
        ("Round-trip time", "ms", |p| p.rtt_ms),
    ];
    for (what, unit, value) in flows {
        let curves = by_name(series.flows.iter().map(|p| (&*p.flow, p.time_s, value(p))));
        sheet.plot(&Plot { title: format!("{what}. {about}"), x_label: "time (s)".into(), y_label: unit.into(), curves, marks: false })?;
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
        sheet.plot(&Plot { title: format!("{what}. {about}"), x_label: x.into(), y_label: y.into(), curves, marks: false })?;
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
                optional(f.jitter_ms),
            ]
        })
        .collect();
    let head = ["flow", "group", "control", "Mbit/s", "share", "sent again", "RTT min ms", "median", "p95", "completion s", "jitter ms"];
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

/// What sweeps are drawn by; a group's share is added by its name.
fn metrics(results: &[ResultDir]) -> Vec<(String, Box<dyn Fn(&Summary) -> f64>)> {
    fn first(s: &Summary, value: fn(&lowtide_scenario::Bottleneck) -> f64) -> f64 {
        s.bottlenecks.first().map_or(f64::NAN, value)
    }
    let mut metrics: Vec<(String, Box<dyn Fn(&Summary) -> f64>)> = vec![
        ("Utilisation".into(), Box::new(|s| first(s, |b| b.utilisation))),
        ("Queueing delay, 95th percentile (ms)".into(), Box::new(|s| first(s, |b| b.queue_delay_ms.p95))),
        ("Jain index".into(), Box::new(|s| s.jain)),
    ];
    let groups: BTreeSet<String> = results.iter().flat_map(|r| r.summary.flows.iter().map(|f| f.group.clone())).collect();
    for group in groups {
        let name = format!("Share of {group}");
        metrics.push((name, Box::new(move |s| s.flows.iter().filter(|f| f.group == group).map(|f| f.share).sum())));
    }
    metrics
}

fn sweep(sheet: &mut Sheet, results: &[ResultDir]) -> Result<()> {
    let runs: Vec<BTreeMap<String, String>> = results.iter().map(|r| parameters(&r.scenario)).collect();
    let keys: BTreeSet<&String> = runs.iter().flat_map(BTreeMap::keys).filter(|k| !matches!(k.as_str(), "seed" | "name")).collect();
    let varied: Vec<&str> = keys.into_iter().filter(|k| runs.iter().any(|r| r.get(*k) != runs[0].get(*k))).map(String::as_str).collect();
    let number = |run: usize, key: &str| runs[run].get(key).and_then(|v| v.parse::<f64>().ok());
    let (real, other): (Vec<&str>, Vec<&str>) = varied.iter().partition(|k| (0..runs.len()).all(|r| number(r, k).is_some()));
    let setting = setting(&results[0].scenario, &varied);
    let seeds: BTreeSet<u64> = results.iter().map(|r| r.summary.seed).collect();
    let seeds = seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    sheet.page.paragraph(&format!("Varied: {}. Seeds {seeds}; points are means over them. Fixed: {setting}.", varied.join(", ")));
    let distinct = |key: &str| runs.iter().filter_map(|r| r.get(key)).collect::<BTreeSet<_>>().len();
    let x_key = real.iter().copied().max_by_key(|k| distinct(k));
    let metrics = metrics(results);
    for (what, value) in &metrics {
        let title = format!("{what}. {}, seeds {seeds}; {setting}", results[0].summary.scenario);
        let Some(x_key) = x_key else { break };
        if let ([_, _], []) = (real.as_slice(), other.as_slice()) {
            let y_key = if real[0] == x_key { real[1] } else { real[0] };
            let at = |r: usize| Some((number(r, x_key)?, number(r, y_key)?));
            let cells = means((0..runs.len()).filter_map(|r| Some((at(r)?, value(&results[r].summary)))));
            let cells = cells.into_iter().map(|((x, y), v)| (x, y, v)).collect();
            let map = HeatMap { title, x_label: x_key.to_owned(), y_label: y_key.to_owned(), cells, range: None };
            let href = sheet.data(&map.csv())?;
            sheet.page.figure(&map.svg(), &map.title, Some(&href));
            continue;
        }
        let curve = |r: usize| {
            varied
                .iter()
                .filter(|k| **k != x_key)
                .map(|k| format!("{k} {}", runs[r].get(*k).map_or("–", String::as_str)))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let mut curves: BTreeMap<String, Vec<((f64, f64), f64)>> = BTreeMap::new();
        for r in 0..runs.len() {
            let Some(x) = number(r, x_key) else { continue };
            curves.entry(curve(r)).or_default().push(((x, 0.0), value(&results[r].summary)));
        }
        let curves = curves.into_iter().map(|(name, points)| {
            let points = means(points.into_iter()).into_iter().map(|((x, _), y)| (x, y)).collect();
            Curve::line(if name.is_empty() { what } else { &name }, points)
        });
        sheet.plot(&Plot { title, x_label: x_key.to_owned(), y_label: what.clone(), curves: curves.collect(), marks: true })?;
    }
    let mut head = varied.clone();
    head.push("seed");
    head.extend(metrics.iter().map(|m| m.0.as_str()));
    let row = |(run, result): (&BTreeMap<String, String>, &ResultDir)| {
        let chosen = varied.iter().map(|k| run.get(*k).cloned().unwrap_or_default());
        chosen.chain([result.summary.seed.to_string()]).chain(metrics.iter().map(|m| short((m.1)(&result.summary)))).collect()
    };
    let rows: Vec<Vec<String>> = runs.iter().zip(results).map(row).collect();
    sheet.page.heading("runs", "Runs").table(&head, &rows);
    Ok(())
}

/// The mean of the values at each place, in the order of places.
fn means(points: impl Iterator<Item = ((f64, f64), f64)>) -> Vec<((f64, f64), f64)> {
    let mut sums: Vec<((f64, f64), f64, f64)> = Vec::new();
    for (at, value) in points.filter(|p| p.1.is_finite()) {
        match sums.iter_mut().find(|s| s.0 == at) {
            Some(sum) => (sum.1, sum.2) = (sum.1 + value, sum.2 + 1.0),
            None => sums.push((at, value, 1.0)),
        }
    }
    sums.sort_by(|a, b| a.0.0.total_cmp(&b.0.0).then(a.0.1.total_cmp(&b.0.1)));
    sums.into_iter().map(|(at, sum, n)| (at, sum / n)).collect()
}

#[cfg(test)]
mod tests;
