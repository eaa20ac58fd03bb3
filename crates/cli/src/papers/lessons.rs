//! The report's page of lessons: which of a paper's conclusions stand, and how many claims hang on an implementation. Judges nothing.

use std::collections::BTreeMap;

use super::conclusions::Conclusion;
use super::outcome::{Outcome, Verdict};
use super::points::Profile;
use super::verdict::State;
use crate::report::{Cell, Page};

/// Each paper's conclusions.
pub type Conclusions = BTreeMap<String, Vec<Conclusion>>;

/// Writes the page.
pub fn write(page: &mut Page, outcomes: &[Outcome], conclusions: &Conclusions) {
    page.heading("lessons", "What a reader learns");
    page.paragraph("A conclusion stands where every claim that bears on it is met, and in part where some are. The claims are linked.");
    for (paper, conclusions) in conclusions {
        page.subheading(paper);
        let mine: Vec<&Outcome> = outcomes.iter().filter(|o| o.experiment.paper() == paper).collect();
        let row = |c: &Conclusion| vec![Cell::Text(c.says.clone()), cell(&mine, c, Profile::Described), cell(&mine, c, Profile::Run)];
        page.stacked(
            &["the paper concludes", Profile::Described.title(), Profile::Run.title()],
            &conclusions.iter().map(row).collect::<Vec<_>>(),
        );
    }
    page.subheading("How many claims");
    kinds(page, outcomes);
}

/// What became of a conclusion in a column.
fn cell(outcomes: &[&Outcome], conclusion: &Conclusion, profile: Profile) -> Cell {
    let verdicts = outcomes.iter().flat_map(|o| o.verdicts.iter().map(move |v| (*o, v)));
    let mine: Vec<(&Outcome, &Verdict)> = verdicts
        .filter(|(o, v)| conclusion.has(o.experiment.figure(), &v.claim.id))
        .filter(|(o, _)| o.experiment.column(profile).is_some_and(|c| c.none.is_none()))
        .collect();
    if mine.is_empty() {
        return Cell::Text("no such run".to_owned());
    }
    let with = |test: &dyn Fn(&Verdict) -> bool| mine.iter().filter(|(_, v)| test(v)).copied().collect::<Vec<_>>();
    let decided = |v: &Verdict| met(v, profile).is_some();
    let (all, not) = (with(&decided).len(), with(&|v| met(v, profile) == Some(false)));
    let open = with(&|v| !decided(v));
    let head = match (all, not.len()) {
        (0, _) => Cell::Text("undecided".to_owned()),
        (all, 0) if open.is_empty() => Cell::Mark(true, format!("stands: {all} of {all} claims")),
        (all, not) if all == not => Cell::Mark(false, format!("does not stand: none of {all} claims")),
        (all, not) => Cell::Text(format!("in part: {} of {all} claims", all - not)),
    };
    let fragile = with(&|v| v.fragility(profile).is_some_and(|f| f.is_fragile()));
    let list = |head: &str, some: &[(&Outcome, &Verdict)]| {
        let link = |(o, v): &(&Outcome, &Verdict)| {
            let claim = format!("{}\u{a0}{}", o.experiment.figure(), v.claim.id);
            // What was not run has no section of its own.
            if o.extent.is_some() { Cell::Link(o.experiment.id.clone(), claim) } else { Cell::Text(claim) }
        };
        Cell::Words([Cell::Text(head.to_owned())].into_iter().chain(some.iter().map(link)).collect())
    };
    let lists = [("not met:", not), ("fragile:", fragile), ("undecided:", if all == 0 { Vec::new() } else { open })];
    let lists = lists.iter().filter(|(_, some)| !some.is_empty()).map(|(head, some)| list(head, some));
    Cell::Lines([head].into_iter().chain(lists).collect())
}

/// Whether it is met in a column; none where that is undecided, or there is no such run.
fn met(verdict: &Verdict, profile: Profile) -> Option<bool> {
    let state = &verdict.of(profile)?.state;
    (!matches!(state, State::Undecided(_))).then_some(*state == State::Met)
}

const KINDS: [&str; 7] = [
    "stand as described, and as run where there is such a run",
    "stand as described, not as run",
    "hang on the implementation: met as run, not as described",
    "stand in neither",
    "only the authors' program could be asked, and it says so",
    "only the authors' program could be asked, and it does not say so",
    "could not be decided here",
];

fn kind(verdict: &Verdict) -> usize {
    match (met(verdict, Profile::Described), met(verdict, Profile::Run)) {
        (Some(true), Some(true) | None) => 0,
        (Some(true), Some(false)) => 1,
        (Some(false), Some(true)) => 2,
        (Some(false), Some(false) | None) => 3,
        (None, Some(true)) => 4,
        (None, Some(false)) => 5,
        (None, None) => 6,
    }
}

fn kinds(page: &mut Page, outcomes: &[Outcome]) {
    let mut papers: Vec<&str> = outcomes.iter().map(|o| o.experiment.paper()).collect();
    papers.dedup();
    let row = |(n, words): (usize, &&str)| {
        let of = |paper: &&str| {
            let verdicts = outcomes.iter().filter(|o| o.experiment.paper() == *paper && o.extent.is_some()).flat_map(|o| &o.verdicts);
            verdicts.filter(|v| kind(v) == n).count().to_string()
        };
        [(*words).to_owned()].into_iter().chain(papers.iter().map(of)).collect::<Vec<_>>()
    };
    let head: Vec<&str> = ["claims that"].into_iter().chain(papers.iter().copied()).collect();
    page.table(&head, &KINDS.iter().enumerate().map(row).collect::<Vec<_>>());
}
