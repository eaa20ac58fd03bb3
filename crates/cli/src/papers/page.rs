//! The papers' report: what stands and what does not on top, then each figure's plots, claims, set-up and numbers. Each plot's data
//! lies beside it as CSV. Knows results only; how things are drawn is the report's own affair.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::axes::Axes;
use super::conclusions;
use super::experiment::Experiment;
use super::figure::{self, Palette};
use super::lab::{Compared, Laboratory};
use super::lessons::{self, Conclusions};
use super::outcome::{Outcome, Verdict};
use super::points::{Extent, Profile};
use super::units::{self, Row};
use super::verdict::State;
use super::words;
use crate::report::{self, Cell, Page};

/// The report's name in the folder of results.
pub const PAGE: &str = "report.html";

/// What a report shows beside the experiments.
pub struct Beside {
    /// Rows that tests check, by paper.
    pub rows: Vec<(String, Vec<Row>)>,
    /// What the papers conclude.
    pub conclusions: Conclusions,
}

impl Beside {
    /// As the folder of experiments has it.
    ///
    /// # Errors
    /// A file that holds something else.
    pub fn load(root: &Path, experiments: &[Experiment]) -> Result<Beside> {
        Ok(Beside { rows: units::load(root)?, conclusions: conclusions::load(root, experiments)? })
    }
}

/// Writes the report and the CSV files below `out`; returns the report's path.
///
/// # Errors
/// A folder that cannot be written.
pub fn write(out: &Path, outcomes: &[Outcome], beside: &Beside) -> Result<PathBuf> {
    ensure_dir(&out.join("data"))?;
    let mut page = Page::new("lowtide: the papers, reproduced");
    summary(&mut page, outcomes);
    lessons::write(&mut page, outcomes, &beside.conclusions);
    tested(&mut page, &beside.rows);
    let mut palettes: BTreeMap<&str, Palette> = BTreeMap::new();
    for outcome in outcomes.iter().filter(|o| o.extent.is_some()) {
        chapter(&mut page, out, outcome, palettes.entry(outcome.experiment.paper()).or_default())?;
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
    page.paragraph(
        "Each claim has one bound, set before it was measured, and two verdicts: as described (the algorithm of the paper's text, an RFC \
         or a draft, over today's TCP) and as run (a replica of the authors' module, simulator or program). ✓ is met, ✗ not met, ~ \
         fragile (other seeds or a change of 1 % say otherwise), ? undecided. Every number was measured by lowtide; what a paper prints \
         stands in its claims and, marked as such, beside ours. L marks what also runs in the laboratory, with real kernels.",
    );
    let rows: Vec<Vec<Cell>> = outcomes.iter().map(summary_row).collect();
    page.stacked(&["paper", "figure", "as described", "as run", "runs", "L: close to the simulator"], &rows);
    let total = |profile| outcomes.iter().map(|o| o.counts(profile)).fold([0; 3], |a, b| [a[0] + b[0], a[1] + b[1], a[2] + b[2]]);
    let row = |profile: Profile| {
        let [met, not, open] = total(profile);
        let count = |test: &dyn Fn(&Verdict) -> bool| outcomes.iter().flat_map(|o| &o.verdicts).filter(|v| test(v)).count();
        let fragile = count(&|v| v.fragility(profile).is_some_and(|f| f.is_fragile()));
        // Reruns are asked of the paper's columns.
        let untested = (profile != Profile::Ours).then(|| count(&|v| v.is_untested(profile)).to_string());
        let counts = [met, not, open, fragile].map(|n| n.to_string());
        [profile.title().to_owned()].into_iter().chain(counts).chain([untested.unwrap_or_else(|| "all".to_owned())]).collect()
    };
    let rows: Vec<Vec<String>> = Profile::ALL.map(row).to_vec();
    let cells = |row: &Vec<String>| row.iter().cloned().map(Cell::Text).collect();
    page.stacked(
        &["column", "met", "not met", "undecided", "of the decided, fragile", "not tested for that"],
        &rows.iter().map(cells).collect::<Vec<_>>(),
    );
}

/// `c1 ✓ c2 ✗`, each in its own colour; what is fragile or undecided has none.
fn marks(outcome: &Outcome, profile: Profile) -> Cell {
    if let Some(why) = outcome.experiment.column(profile).and_then(|c| c.none.as_ref()) {
        return Cell::Text(format!("none: {why}"));
    }
    let mark = |v: &Verdict| {
        let with = |sign: &str| format!("{}\u{a0}{sign}", v.claim.id);
        match v.of(profile).map(|j| &j.state) {
            _ if v.fragility(profile).is_some_and(|f| f.is_fragile()) => Cell::Text(with("~")),
            Some(State::Met) => Cell::Mark(true, with("✓")),
            Some(State::NotMet) => Cell::Mark(false, with("✗")),
            _ => Cell::Text(with("?")),
        }
    };
    Cell::Words(outcome.verdicts.iter().map(mark).collect())
}

fn summary_row(outcome: &Outcome) -> Vec<Cell> {
    let experiment = outcome.experiment;
    let lab = match (&experiment.lab, outcome.lab.values.as_slice()) {
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
    let figure = experiment.figure().to_owned();
    let (figure, runs) = match outcome.extent {
        Some(extent) => {
            let set = if extent == Extent::Full { "all" } else { "quick" };
            let stale = if outcome.stale > 0 { ", of another build" } else { "" };
            (Cell::Link(experiment.id.clone(), figure), format!("{set}{stale}"))
        }
        None => (Cell::Text(figure), "none yet".to_owned()),
    };
    let verdicts =
        [Profile::Described, Profile::Run].map(|p| if outcome.extent.is_some() { marks(outcome, p) } else { Cell::Text("–".to_owned()) });
    let [described, run] = verdicts;
    vec![Cell::Text(experiment.paper().to_owned()), figure, described, run, Cell::Text(runs), lab]
}

/// Rows that tests check.
fn tested(page: &mut Page, rows: &[(String, Vec<Row>)]) {
    if rows.is_empty() {
        return;
    }
    page.heading("tests", "Single steps of the algorithms, which tests of the repository check");
    let rows = rows.iter().flat_map(|(paper, rows)| rows.iter().map(move |row| (paper, row)));
    let rows = rows.map(|(paper, row)| {
        let tests = row.tests.iter().cloned().map(Cell::Code).collect();
        vec![Cell::Text(format!("{paper} {}", row.id)), Cell::Text(format!("{} ({})", row.says, row.place)), Cell::Lines(tests)]
    });
    page.sentences(&["row", "the paper says", "tests"], &rows.collect::<Vec<_>>());
}

fn chapter(page: &mut Page, out: &Path, outcome: &Outcome, palette: &mut Palette) -> Result<()> {
    let experiment = outcome.experiment;
    page.heading(&experiment.id, &format!("{}: {}", experiment.id, experiment.title));
    for (panel, axes) in experiment.plot.iter().enumerate() {
        let number = if experiment.plot.len() > 1 { format!("-{}", panel + 1) } else { String::new() };
        let csv = format!("data/{}{number}.csv", experiment.id.replace('/', "-"));
        let file = out.join(&csv);
        fs::write(&file, panel_of(page, outcome, axes, &csv, palette)).with_context(|| format!("{}: cannot be written", file.display()))?;
    }
    page.subheading("What the paper says");
    let profiles: Vec<Profile> = Profile::ALL.into_iter().filter(|p| experiment.column(*p).is_some()).collect();
    let mut head = vec!["claim", "the paper says; the bound"];
    head.extend(profiles.iter().map(|p| p.title()));
    page.sentences(&head, &outcome.verdicts.iter().map(|v| claim_row(outcome, v, &profiles)).collect::<Vec<_>>());
    page.subheading("How it was set up");
    page.paragraph(&format!("{}. {}", experiment.place, figure::setting_of(outcome)));
    for profile in profiles {
        if let Some(column) = experiment.column(profile) {
            page.paragraph(&format!("{}: {}", profile.title(), column.none.as_ref().unwrap_or(&column.is)));
        }
    }
    for note in &experiment.notes {
        page.paragraph(note);
    }
    page.subheading("Numbers");
    let (head, rows) = figure::numbers(outcome);
    let href = format!("data/{}-numbers.csv", experiment.id.replace('/', "-"));
    let file = out.join(&href);
    fs::write(&file, report::csv(&head, &rows)).with_context(|| format!("{}: cannot be written", file.display()))?;
    page.long_table(&head.iter().map(String::as_str).collect::<Vec<_>>(), &rows, &href);
    laboratory(page, experiment, &outcome.lab);
    Ok(())
}

/// Draws a panel, or says why there is nothing to draw; its data.
fn panel_of(page: &mut Page, outcome: &Outcome, axes: &Axes, csv: &str, palette: &mut Palette) -> String {
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
    if axes.x.is_none() {
        let Some(dots) = figure::dots_of(outcome, axes, palette) else {
            page.paragraph(&empty());
            return String::new();
        };
        page.figure(&format!("{}{}", dots.svg(), dots.legend()), &dots.title, Some(csv));
        return dots.csv();
    }
    let plots = figure::plots_of(outcome, axes, palette);
    if plots.iter().all(|p| p.curves.is_empty()) {
        page.paragraph(&empty());
    }
    for plot in plots.iter().filter(|p| !p.curves.is_empty()) {
        page.plot(plot, Some(csv));
    }
    plots
        .iter()
        .enumerate()
        .map(|(n, plot)| plot.csv().lines().skip(usize::from(n > 0)).map(|l| format!("{l}\n")).collect::<String>())
        .collect()
}

fn claim_row(outcome: &Outcome, verdict: &Verdict, profiles: &[Profile]) -> Vec<Cell> {
    let claim = verdict.claim;
    let mut says = vec![Cell::Text(format!("{} ({})", claim.says, claim.place))];
    says.extend(words::bound(claim).into_iter().map(Cell::Code));
    says.push(Cell::Text(format!("Why this bound: {}.", claim.tolerance.trim().trim_end_matches('.'))));
    if let Some(restated) = &claim.restated {
        says.push(Cell::Text(format!("Asked beside it, since {}; the paper: “{}”", restated.why, restated.sentence)));
        says.extend(restated.rule.0.iter().map(|l| Cell::Code(l.text.clone())));
    }
    let mut row = vec![Cell::Text(claim.id.clone()), Cell::Lines(says)];
    row.extend(profiles.iter().map(|p| verdict_cell(outcome, verdict, *p)));
    row
}

fn verdict_cell(outcome: &Outcome, verdict: &Verdict, profile: Profile) -> Cell {
    let Some(judged) = verdict.of(profile) else { return Cell::Text("–".to_owned()) };
    let mut lines = Vec::new();
    match words::undecided(judged) {
        Some(why) => lines.push(Cell::Text(format!("undecided: {why}"))),
        None => lines.push(Cell::Mark(judged.state == State::Met, verdict.word(profile))),
    }
    lines.extend(judged.lines.iter().map(|seen| Cell::Mark(seen.decided.holds, words::measured(seen, judged.seeds))));
    lines.extend(words::seeds(judged).map(Cell::Text));
    lines.extend(words::reruns(verdict, profile).map(Cell::Text));
    if judged.state == State::NotMet {
        let none = (profile != Profile::Ours).then(|| "No explanation yet.".to_owned());
        lines.extend(words::explanation(outcome, verdict, profile).or(none).map(Cell::Text));
    }
    if let Some((_, asked)) = verdict.restated.iter().find(|r| r.0 == profile).filter(|r| words::undecided(&r.1).is_none()) {
        lines.push(Cell::Mark(asked.state == State::Met, format!("as asked beside: {}", asked.word())));
        lines.extend(asked.lines.iter().map(|seen| Cell::Mark(seen.decided.holds, words::measured(seen, asked.seeds))));
    }
    Cell::Lines(lines)
}

fn laboratory(page: &mut Page, experiment: &Experiment, measured: &Laboratory) {
    let compared = &measured.values;
    let Some(lab) = &experiment.lab else { return };
    page.subheading("Simulator and laboratory");
    if compared.is_empty() {
        page.paragraph("Not run yet: `lowtide papers run --lab` as root does.");
        return;
    }
    page.paragraph(&format!(
        "{}: {} s instead of {} s, {} run(s) a point in both (of a companion no more than it has). Close: shares and indices within 10 % or 0.02, completion times within 15 % or 20 ms. The error is twice the standard error of the difference.",
        measured.made,
        lab.duration_s,
        experiment.scenario.get("duration_s").map(toml::Value::to_string).unwrap_or_default(),
        lab.repeat
    ));
    let row = |c: &Compared| {
        let word = match (c.close, c.is_apart(), c.value.stalled) {
            (true, ..) => "close".to_owned(),
            (_, false, _) => "no further apart than the runs among themselves".to_owned(),
            (_, true, true) => "apart; the host was late in this run".to_owned(),
            (_, true, false) => "apart".to_owned(),
        };
        let number = |v: f64| Cell::Text(format!("{v:.3}"));
        vec![
            Cell::Text(c.point.label()),
            Cell::Text(c.value.metric.clone()),
            number(c.value.sim),
            number(c.value.lab),
            Cell::Text(format!("{:+.0} %", 100.0 * (c.value.lab - c.value.sim) / c.value.sim)),
            Cell::Text(c.value.noise.map_or_else(String::new, |noise| format!("± {noise:.3}"))),
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
