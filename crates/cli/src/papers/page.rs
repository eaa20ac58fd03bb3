//! The papers' report: a summary on top, then each figure's plots, numbers, claims and what the laboratory says. Each plot's data
//! lies beside it as CSV. Knows results only; how things are drawn is the report's own affair.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::experiment::{Axes, Experiment, Extent};
use super::figure;
use super::lab::Compared;
use super::outcome::{Outcome, Verdict};
use crate::report::{Cell, Page};

/// The report's name in the folder of results.
pub const PAGE: &str = "report.html";

/// Writes the report and the CSV files below `out`; returns the report's path.
///
/// # Errors
/// A folder that cannot be written.
pub fn write(out: &Path, outcomes: &[Outcome]) -> Result<PathBuf> {
    ensure_dir(&out.join("data"))?;
    let mut page = Page::new("lowtide: the papers, reproduced");
    summary(&mut page, outcomes);
    asked_again(&mut page, outcomes);
    for outcome in outcomes.iter().filter(|o| o.extent.is_some()) {
        chapter(&mut page, out, outcome)?;
    }
    let path = out.join(PAGE);
    page.write(&path).with_context(|| format!("{}: cannot be written", path.display()))?;
    Ok(path)
}

/// Refuses a report folder that is something else.
fn ensure_dir(dir: &Path) -> Result<()> {
    if dir.exists() && !dir.is_dir() {
        bail!("{}: is not a folder; name another with --out", dir.display());
    }
    fs::create_dir_all(dir).with_context(|| format!("{}: cannot be made; --out names another folder", dir.display()))
}

fn summary(page: &mut Page, outcomes: &[Outcome]) {
    let total = outcomes.iter().map(Outcome::counts).fold((0, 0, 0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2));
    page.paragraph(&format!(
        "{} of {} decided claims of the papers are met; of the others {} are not explained. Every number here was measured by \
         lowtide; what a paper prints stands in its claims and, marked as such, beside ours.",
        total.0, total.1, total.2
    ));
    if outcomes.iter().any(|o| o.experiment.lab.is_some()) {
        page.paragraph(
            "L marks what also runs in the laboratory, with real kernels as servers and `lowtide run` as rLEDBAT: shorter, and compared with \
             the simulator at the same length. LEDBAT++ as a sender has no laboratory run yet: that waits for it in a kernel sender.",
        );
    }
    let rows: Vec<Vec<Cell>> = outcomes.iter().map(summary_row).collect();
    page.cells(&["paper", "figure", "place in the paper", "claims met", "runs", "L: close to the simulator"], &rows);
}

/// Each claim of a paper beside the same of the other of what its authors describe and what they published: which of its conclusions
/// stand there.
fn asked_again(page: &mut Page, outcomes: &[Outcome]) {
    let mut rows = Vec::new();
    let run = outcomes.iter().filter(|o| o.extent.is_some());
    for (outcome, verdict) in run.flat_map(|o| o.verdicts.iter().map(move |v| (o, v))) {
        let Some(of) = &verdict.claim.again else { continue };
        let paper = outcome.experiment.paper();
        let mut all = outcomes.iter().filter(|o| o.experiment.paper() == paper).flat_map(|o| o.verdicts.iter().map(move |v| (o, v)));
        let Some((first, original)) = all.find(|(o, v)| o.experiment.asks(of) && of.ends_with(&format!("#{}", v.claim.id))) else {
            continue;
        };
        let mark = |v: &Verdict| v.met.map_or_else(|| Cell::Text(v.word().to_owned()), |met| Cell::Mark(met, v.word().to_owned()));
        let link = |o: &Outcome| match o.extent {
            Some(_) => Cell::Link(o.experiment.id.clone(), o.experiment.id.clone()),
            None => Cell::Text(o.experiment.id.clone()),
        };
        rows.push(vec![
            link(first),
            Cell::Text(original.claim.place.clone()),
            mark(original),
            link(outcome),
            Cell::Text(verdict.claim.says.clone()),
            mark(verdict),
        ]);
    }
    if rows.is_empty() {
        return;
    }
    page.paragraph(
        "Where the program that authors published is not what they describe, both run. What the paper claims is asked of one of them above; \
         below, beside each claim, whether it stands or falls for the other. These are not counted above.",
    );
    page.cells(&["figure", "place in the paper", "as above", "asked again in", "of what", "result"], &rows);
}

fn summary_row(outcome: &Outcome) -> Vec<Cell> {
    let experiment = outcome.experiment;
    let (paper, figure) = experiment.id.split_once('/').unwrap_or(("", &experiment.id));
    let (met, decided, unexplained) = outcome.counts();
    let open = outcome.verdicts.iter().filter(|v| v.met.is_none()).count();
    let (stand, asked) = outcome.again();
    let mut verdict = if decided > 0 { format!("{met} of {decided}") } else { String::new() };
    if asked > 0 {
        verdict += &format!("{}asked again: {stand} of {asked} stand", if decided > 0 { "; " } else { "" });
    }
    if met + stand + unexplained < decided + asked {
        verdict += ", the others explained";
    }
    if open > 0 {
        verdict += &format!(", {open} undecided");
    }
    let lab = match (&experiment.lab, outcome.lab.as_slice()) {
        (None, _) => Cell::Text(String::new()),
        (Some(_), []) => Cell::Text("L, not run".to_owned()),
        (Some(lab), all) => {
            let (close, apart) = (all.iter().filter(|c| c.close).count(), all.iter().filter(|c| c.is_apart()).count());
            let note = match (close < all.len(), apart > 0, lab.explained.is_some()) {
                (true, false, _) => ", the others no further apart than the runs among themselves",
                (true, true, true) => ", the others explained",
                _ => "",
            };
            Cell::Mark(apart == 0 || lab.explained.is_some(), format!("{close} of {}{note}", all.len()))
        }
    };
    let (link, verdict, runs) = match outcome.extent {
        Some(extent) => (
            Cell::Link(experiment.id.clone(), figure.to_owned()),
            Cell::Mark(unexplained == 0, verdict),
            format!(
                "{}{}",
                if extent == Extent::Full { "all" } else { "quick" },
                if outcome.stale > 0 { ", of another build" } else { "" }
            ),
        ),
        None => (Cell::Text(figure.to_owned()), Cell::Text("–".to_owned()), "none yet".to_owned()),
    };
    vec![Cell::Text(paper.to_owned()), link, Cell::Text(experiment.place.clone()), verdict, Cell::Text(runs), lab]
}

fn chapter(page: &mut Page, out: &Path, outcome: &Outcome) -> Result<()> {
    let experiment = outcome.experiment;
    page.heading(&experiment.id, &format!("{}: {}", experiment.id, experiment.title));
    page.paragraph(&format!("{}. {}", experiment.place, figure::setting_of(outcome)));
    for note in &experiment.notes {
        page.paragraph(note);
    }
    for (panel, axes) in experiment.plot.iter().enumerate() {
        let number = if experiment.plot.len() > 1 { format!("-{}", panel + 1) } else { String::new() };
        let csv = format!("data/{}{number}.csv", experiment.id.replace('/', "-"));
        let file = out.join(&csv);
        fs::write(&file, panel_of(page, outcome, axes, &csv)).with_context(|| format!("{}: cannot be written", file.display()))?;
    }
    page.subheading("What the paper says");
    page.cells(&["claim", "the paper says", "as a rule", "result"], &outcome.verdicts.iter().map(claim_row).collect::<Vec<_>>());
    page.subheading("Numbers");
    let (head, rows) = figure::numbers(outcome);
    page.table(&head.iter().map(String::as_str).collect::<Vec<_>>(), &rows);
    laboratory(page, experiment, &outcome.lab);
    Ok(())
}

/// Draws a panel, or says why there is nothing to draw; its data.
fn panel_of(page: &mut Page, outcome: &Outcome, axes: &Axes, csv: &str) -> String {
    let empty = || {
        let title = axes.title.as_ref().unwrap_or(&outcome.experiment.title);
        format!("{}: {title}. The points of this plot are in a full run only.", outcome.experiment.place)
    };
    if let Some(map) = figure::map_of(outcome, axes) {
        if map.cells.is_empty() {
            page.paragraph(&empty());
            return map.csv();
        }
        page.figure(&map.svg(), &map.title, Some(csv));
        return map.csv();
    }
    let plot = figure::plot_of(outcome, axes);
    if axes.x.is_some() && plot.curves.is_empty() {
        page.paragraph(&empty());
    } else if axes.x.is_some() {
        page.plot(&plot, Some(csv));
    }
    plot.csv()
}

fn claim_row(verdict: &Verdict) -> Vec<Cell> {
    let claim = verdict.claim;
    let no = if claim.again.is_some() { "falls" } else { "not met" };
    let result = match (verdict.met, &claim.explained) {
        (None, _) => Cell::Text(verdict.word().to_owned()),
        (Some(false), Some(reason)) => Cell::Mark(false, format!("{no}. {reason}")),
        (Some(false), None) => Cell::Mark(false, format!("{no}. No explanation yet.")),
        (Some(true), _) => Cell::Mark(true, verdict.word().to_owned()),
    };
    let says = format!("{} ({}). Tolerance: {}.", claim.says, claim.place, claim.tolerance);
    vec![Cell::Text(claim.id.clone()), Cell::Text(says), Cell::Code(claim.rule.trim().to_owned()), result]
}

fn laboratory(page: &mut Page, experiment: &Experiment, compared: &[Compared]) {
    let Some(lab) = &experiment.lab else { return };
    page.subheading("Simulator and laboratory");
    if compared.is_empty() {
        page.paragraph("Not run yet: `lowtide papers run --lab` as root does.");
        return;
    }
    page.paragraph(&format!(
        "{} s instead of {} s, {} run(s) a point in both. Close: shares and indices within 10 % or 0.02, completion times within 15 % or 20 ms. The error is twice the standard error of the difference.",
        lab.duration_s,
        experiment.scenario.get("duration_s").map(toml::Value::to_string).unwrap_or_default(),
        lab.repeat
    ));
    let row = |c: &Compared| {
        let word = match (c.close, c.is_apart(), c.stalled) {
            (true, ..) => "close".to_owned(),
            (_, false, _) => "no further apart than the runs among themselves".to_owned(),
            (_, true, true) => "apart; the host was late in this run".to_owned(),
            (_, true, false) => "apart".to_owned(),
        };
        let number = |v: f64| Cell::Text(format!("{v:.3}"));
        vec![
            Cell::Text(c.point.label()),
            Cell::Text(c.metric.clone()),
            number(c.sim),
            number(c.lab),
            Cell::Text(format!("{:+.0} %", 100.0 * (c.lab - c.sim) / c.sim)),
            Cell::Text(c.noise.map_or_else(String::new, |noise| format!("± {noise:.3}"))),
            Cell::Mark(!c.is_apart(), word),
        ]
    };
    page.cells(
        &["point", "value", "simulator", "laboratory", "difference", "error of it", ""],
        &compared.iter().map(row).collect::<Vec<_>>(),
    );
    if let Some(reason) = lab.explained.as_ref().filter(|_| compared.iter().any(Compared::is_apart)) {
        page.paragraph(reason);
    }
}
