//! Makes the reruns, as few as say for sure what all would: of each claim only the points that its verdict reads, and of one that is
//! not met the place where it fails by the most, as long as it fails there. Of a change of one per cent two runs a point suffice where
//! each margin is larger than what the runs scatter by; and where two seeds contradict a median claim, no others are asked.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::{Context, Result};

use super::{CHANGES, Change, Fragility};
use crate::papers::claim::Population;
use crate::papers::experiment::{self, Experiment};
use crate::papers::outcome::{self, Measured, Outcome};
use crate::papers::points::{Extent, Point, Profile};
use crate::papers::verdict::deciding::{self, Asked, Part};
use crate::papers::verdict::{Judge, Reads, State};
use crate::papers::{Folders, jobs};

/// So many runs a point are made before all are.
const FEW: u32 = 2;

/// What is asked of [`run`].
#[derive(Clone, Copy)]
pub struct How {
    pub extent: Extent,
    /// Simulations at a time; the machine's cores if none.
    pub threads: Option<usize>,
    /// Only the verdicts of which nothing is kept.
    pub left: bool,
    /// Record it beside the experiments too.
    pub record: bool,
}

/// A verdict under test.
pub(super) struct Open<'a> {
    pub(super) asked: Asked<'a>,
    /// Without a change.
    here: String,
    pub(super) part: Part,
    said: Vec<(String, String)>,
}

/// All experiments, and what they measured without a change.
pub(super) struct Reruns<'a> {
    pub(super) folders: &'a Folders,
    pub(super) here: &'a [Outcome<'a>],
    pub(super) how: How,
}

/// Makes the reruns of `wanted`, the cheapest experiment first, and keeps what they say after each.
///
/// # Errors
/// A run that failed, or a folder that cannot be written.
#[expect(clippy::disallowed_methods, reason = "the time left is for people")]
pub fn run(folders: &Folders, all: &[Experiment], wanted: &[String], how: How) -> Result<()> {
    let is_wanted = |e: &Experiment| experiment::is_wanted(e, wanted);
    let needed = |e: &Experiment| is_wanted(e) || all.iter().any(|w| is_wanted(w) && w.beside.contains(&e.id));
    let owed = |e| jobs::of(&folders.out, e, how.extent, Change::None);
    let owed = all.iter().map(|e| if needed(e) { owed(e) } else { Ok(Vec::new()) }).collect::<Result<Vec<_>>>()?;
    let costs: Vec<f64> = owed.iter().map(|jobs| jobs.iter().map(jobs::Job::cost).sum()).collect();
    eprintln!("the runs without a change that are not there yet, and then what all of them measured:");
    jobs::simulate(&owed.into_iter().flatten().collect::<Vec<_>>(), how.threads)?;
    let measured = |e| outcome::measured(&folders.out, e, needed(e).then_some(how.extent), Change::None);
    let here = all.iter().map(measured).collect::<Result<Vec<_>>>()?;
    let reruns = Reruns { folders, here: &here, how };

    let mut mine: Vec<(f64, &Outcome)> = costs.into_iter().zip(&here).filter(|(_, o)| is_wanted(o.experiment)).collect();
    mine.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (began, whole): (_, f64) = (Instant::now(), mine.iter().map(|m| m.0).sum());
    let mut done = 0.0;
    for (n, (cost, outcome)) in mine.iter().enumerate() {
        eprintln!("{} ({} of {})", outcome.experiment.id, n + 1, mine.len());
        let said = reruns.of(outcome).with_context(|| outcome.experiment.id.clone())?;
        super::keep(&folders.out, outcome.experiment, &said)?;
        if how.record {
            super::record(folders, outcome.experiment)?;
        }
        done += cost;
        let left = began.elapsed().as_secs_f64() / done.max(1e-9) * (whole - done);
        eprintln!("{} of {} figures, about {left:.0} s left for the others", n + 1, mine.len());
    }
    Ok(())
}

impl<'a> Reruns<'a> {
    /// What reruns say of the verdicts of an experiment in the paper's columns.
    fn of(&self, outcome: &'a Outcome<'a>) -> Result<Vec<(String, Profile, Fragility)>> {
        let mut open = self.open(outcome)?;
        for change in CHANGES.into_iter().filter(|_| !open.is_empty()).collect::<Vec<_>>() {
            eprintln!("{}:", change.name());
            let words = self.words(outcome, &open, change)?;
            open.iter_mut().zip(words).for_each(|(verdict, word)| verdict.said.push((change.name(), word)));
        }
        let extent = super::word_of(self.how.extent);
        let said = open.into_iter().map(|Open { asked, here, said: reruns, .. }| {
            let fragility = Fragility { rule: super::rule_of(asked.claim), extent: extent.to_owned(), here, reruns };
            (asked.claim.id.clone(), asked.profile, fragility)
        });
        Ok(said.collect())
    }

    /// Its decided verdicts in the paper's columns; with `left` those of which nothing is kept.
    pub(super) fn open(&self, outcome: &'a Outcome<'a>) -> Result<Vec<Open<'a>>> {
        let judge = Judge::new(outcome.experiment.paper(), self.here);
        let kept = super::read(self.folders)?;
        let mut open = Vec::new();
        for claim in &outcome.experiment.claims {
            for profile in [Profile::Described, Profile::Run] {
                let judged = judge.judge(outcome, claim, profile).with_context(|| claim.id.clone())?;
                let is_kept = || kept.of(outcome.experiment, outcome.extent, claim, profile, &judged).is_some_and(|f| f.is_whole());
                if matches!(judged.state, State::Undecided(_)) || self.how.left && is_kept() {
                    continue;
                }
                let asked = Asked { claim, profile };
                open.push(Open { asked, here: judged.word().to_owned(), part: judge.part(outcome, asked)?, said: Vec::new() });
            }
        }
        Ok(open)
    }

    /// The verdicts under a change: by few runs where they suffice, then by all of what fails, then by all that is read.
    fn words(&self, outcome: &'a Outcome<'a>, open: &[Open<'a>], change: Change) -> Result<Vec<String>> {
        let mut words: Vec<Option<String>> = vec![None; open.len()];
        for stage in [Stage::Few, Stage::Failing, Stage::Whole] {
            let parts: Vec<Option<Part>> = open.iter().zip(&words).map(|(v, word)| stage.part(v).filter(|_| word.is_none())).collect();
            let asked = || open.iter().zip(&parts).filter_map(|(v, part)| Some((v.asked, part.as_ref()?)));
            if asked().next().is_none() {
                continue;
            }
            let there = self.make(outcome, asked(), change, stage)?;
            let rerun = there.iter().find(|o| o.experiment.id == outcome.experiment.id).context("its own rerun")?;
            let judge = Judge::new(outcome.experiment.paper(), &there);
            for (n, part) in parts.iter().enumerate().filter_map(|(n, part)| Some((n, part.as_ref()?))) {
                words[n] = match stage {
                    Stage::Few if contradicted(&judge, rerun, &open[n])? => Some("not met".to_owned()),
                    Stage::Few => self.is_sure(outcome, &open[n], &there, change)?.then(|| open[n].here.clone()),
                    _ => judge.says(rerun, open[n].asked, part)?,
                };
            }
        }
        words.into_iter().map(|word| word.context("a verdict without a word")).collect()
    }

    /// Whether few runs say for sure what all would: of other seeds, that nothing in these scenarios is drawn.
    fn is_sure(&self, outcome: &Outcome, verdict: &Open, there: &[Outcome], change: Change) -> Result<bool> {
        let Open { asked, part, .. } = verdict;
        let (judge, again) = (Judge::new(outcome.experiment.paper(), self.here), Judge::new(outcome.experiment.paper(), there));
        let rerun = there.iter().find(|o| o.experiment.id == outcome.experiment.id).context("its own rerun")?;
        if change == Change::Seeds {
            let reads = judge.reads(outcome, *asked, part)?;
            let same = |(id, points): (&String, &BTreeSet<usize>)| {
                let (here, there) = (self.here.iter().find(|o| o.experiment.id == *id), there.iter().find(|o| o.experiment.id == *id));
                here.zip(there).is_some_and(|(here, there)| points.iter().all(|n| draws_nothing(&here.measured[*n], there)))
            };
            return Ok(reads.iter().all(same));
        }
        let runs = |o: &Outcome| o.measured.iter().map(|m| m.runs.len()).max().unwrap_or(0);
        if verdict.part == Part::Whole && verdict.here != "met" || runs(outcome) <= FEW as usize {
            return Ok(false);
        }
        let here = judge.scatter(outcome, *asked, part, runs(outcome))?;
        Ok(deciding::is_sure(&here, &again.scatter(rerun, *asked, part, runs(rerun))?))
    }

    /// Makes the runs that these parts read, and reads them.
    fn make<'p>(
        &self,
        outcome: &Outcome,
        parts: impl Iterator<Item = (Asked<'p>, &'p Part)>,
        change: Change,
        stage: Stage,
    ) -> Result<Vec<Outcome<'a>>> {
        let judge = Judge::new(outcome.experiment.paper(), self.here);
        let mut reads = Reads::new();
        for (asked, part) in parts {
            for (id, points) in judge.reads(outcome, asked, part)? {
                reads.entry(id).or_default().extend(points);
            }
        }
        let points = |here: &Outcome| -> Vec<Point> {
            let mine = reads.get(&here.experiment.id).into_iter().flatten();
            mine.map(|n| stage.of_point(change.of_point(here.measured[*n].point.clone()))).collect()
        };
        let out = change.folder(&self.folders.out);
        let owed = self.here.iter().map(|here| jobs::at(&out, here.experiment, self.how.extent, change, points(here).into_iter()));
        jobs::simulate(&owed.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect::<Vec<_>>(), self.how.threads)?;
        self.here.iter().map(|here| outcome::measured_at(&out, here.experiment, here.extent, points(here))).collect()
    }
}

/// In which order a change is asked about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Few runs of the part that the verdict hangs on.
    Few,
    /// All runs of the place where it fails.
    Failing,
    /// All that it reads.
    Whole,
}

impl Stage {
    fn part(self, verdict: &Open) -> Option<Part> {
        match self {
            Stage::Few => Some(verdict.part.clone()),
            Stage::Failing => Some(verdict.part.clone()).filter(|part| *part != Part::Whole),
            Stage::Whole => Some(Part::Whole),
        }
    }

    pub(super) fn of_point(self, point: Point) -> Point {
        if self == Stage::Few { Point { repeat: point.repeat.min(FEW), ..point } } else { point }
    }
}

/// Whether few runs contradict what is met so often that no others can mend it: of a median claim one seed may.
fn contradicted(judge: &Judge, rerun: &Outcome, verdict: &Open) -> Result<bool> {
    if verdict.part != Part::Whole || rerun.experiment.population != Population::Median {
        return Ok(false);
    }
    Ok(judge.judge(rerun, verdict.asked.claim, verdict.asked.profile)?.contradict > 1)
}

/// Whether a point's runs without a change and with other seeds measured the very same.
fn draws_nothing(here: &Measured, there: &Outcome) -> bool {
    let again = there.measured.iter().find(|m| m.point.label() == here.point.label());
    let each = || here.runs.iter().chain(again.into_iter().flat_map(|m| &m.runs));
    again.is_some() && each().all(|run| *run == here.runs[0])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Two flows from 0 s over 1 Mbit/s; `start_jitter_s` is what seeds may change.
    fn figure(jitter: f64, claims: &str) -> String {
        format!(
            "title = \"t\"\nplace = \"p\"\nrepeat = 4\n[described]\nis = \"d\"\n[run]\nnone = \"no program\"\n\
             [scenario]\nduration_s = 2.0\n[scenario.topology]\nkind = \"dumbbell\"\nrate_mbps = 1.0\nrtt_ms = 20.0\n\
             queue = {{ kind = \"drop_tail\", ms = 100.0 }}\n[[scenario.flows]]\nname = \"a\"\ncc = \"cubic\"\nstart_jitter_s = {jitter:?}\n\
             [[sweep]]\nname = \"rtt\"\nkey = \"topology.rtt_ms\"\nvalues = [20, 40, 60]\nquick = [20]\n\
             [plot]\nx = \"rtt\"\ny = [\"share.a\"]\nx_label = \"x\"\ny_label = \"y\"\n{claims}"
        )
    }

    fn claim(id: &str, rule: &str) -> String {
        format!("[[claims]]\nid = \"{id}\"\nplace = \"p\"\nsays = \"s\"\nrule = '{rule}'\ntolerance = \"t\"\n")
    }

    /// The runs that a change took.
    fn runs(out: &Path, change: Change) -> usize {
        let point = |dir: fs::DirEntry| fs::read_dir(dir.path()).map_or(0, Iterator::count);
        fs::read_dir(change.folder(out).join("paper/fig")).map_or(0, |points| points.flatten().map(point).sum())
    }

    /// What reruns of such a figure said, and how many runs they took by change.
    fn rerun(text: &str) -> (BTreeMap<String, Vec<String>>, [usize; 5]) {
        let (papers, out) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        fs::create_dir(papers.path().join("paper")).expect("made");
        fs::write(papers.path().join("paper/fig.toml"), text).expect("written");
        let folders = Folders { out: out.path().to_owned(), experiments: papers.path().to_owned() };
        let all = experiment::load_all(papers.path(), &[]).unwrap_or_else(|e| panic!("{e:#}"));
        let how = |left| How { extent: Extent::Full, threads: Some(1), left, record: true };
        run(&folders, &all, &[], how(false)).unwrap_or_else(|e| panic!("{e:#}"));
        let kept = super::super::read(&folders).expect("kept");
        let said = |f: &Fragility| f.reruns.iter().map(|(_, word)| word.clone()).collect();
        let took = CHANGES.map(|change| runs(out.path(), change));

        fs::remove_dir_all(out.path().join("fragile")).expect("removed");
        run(&folders, &all, &[], how(true)).unwrap_or_else(|e| panic!("{e:#}"));
        assert_eq!(CHANGES.map(|change| runs(out.path(), change)), [0; 5], "all is kept");
        (kept.0.iter().map(|(name, columns)| (name.clone(), said(&columns["described"]))).collect(), took)
    }

    #[test]
    fn a_wide_margin_takes_two_runs_a_point_of_each_change_and_eight_other_seeds() {
        let (said, took) = rerun(&figure(0.2, &claim("c1", "share(a) <= 2")));
        assert_eq!(said["paper/fig#c1"], ["met"; 5]);
        assert_eq!(took, [3 * 8, 3 * 2, 3 * 2, 3 * 2, 3 * 2]);
    }

    #[test]
    fn of_what_is_not_met_only_the_place_is_run_where_it_fails() {
        let (said, took) = rerun(&figure(0.2, &claim("c1", "share(a) >= rtt / 10")));
        assert_eq!(said["paper/fig#c1"], ["not met"; 5]);
        assert_eq!(took, [8, 2, 2, 2, 2]);
    }

    /// A figure whose claim holds by 0.2 %.
    fn on_a_hair() -> String {
        figure(0.2, &claim("c1", "goodput(a, rtt = 20) <= GOODPUT")).replace("GOODPUT", &{
            let (papers, out) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
            fs::create_dir(papers.path().join("paper")).expect("made");
            fs::write(papers.path().join("paper/fig.toml"), figure(0.2, &claim("c1", "share(a) <= 2"))).expect("written");
            let all = experiment::load_all(papers.path(), &[]).unwrap_or_else(|e| panic!("{e:#}"));
            jobs::simulate(&jobs::of(out.path(), &all[0], Extent::Full, Change::None).expect("jobs"), Some(1)).expect("run");
            let measured = outcome::measured(out.path(), &all[0], Some(Extent::Full), Change::None).expect("results");
            format!("{:.9}", measured.measured[0].mean("goodput.a").expect("goodput") * 1.002)
        })
    }

    #[test]
    fn what_hangs_on_a_hair_is_asked_of_every_run_and_said() {
        let (said, took) = rerun(&on_a_hair());
        assert_eq!(said["paper/fig#c1"][1], "not met", "1 % more of the line: {said:?}");
        assert_eq!(took[1], 4);
    }

    #[test]
    fn two_seeds_that_contradict_a_median_claim_are_enough() {
        let (said, took) = rerun(&on_a_hair().replace("repeat = 4", "repeat = 4\npopulation = \"median\""));
        assert_eq!(said["paper/fig#c1"][1], "not met", "1 % more of the line: {said:?}");
        assert_eq!(took[1], 2);
    }

    #[test]
    fn where_nothing_is_drawn_two_other_seeds_suffice() {
        let (said, took) = rerun(&figure(0.0, &claim("c1", "share(a) <= 2")));
        assert_eq!((said["paper/fig#c1"][0].as_str(), took[0]), ("met", 3 * 2));
    }
}
