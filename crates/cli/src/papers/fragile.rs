//! Which verdicts hang on a hair: the same experiments with eight other seeds and with four changes of one per cent, judged again.
//! What was found is kept beside the results; [`rerun`] finds it.

pub mod plan;
pub mod rerun;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use lowtide_scenario::{Scenario, Topology};
use serde::{Deserialize, Serialize};

use super::Folders;
use super::claim::Claim;
use super::experiment::Experiment;
use super::judged::Judged;
use super::points::{Extent, Point, Profile};

/// How a rerun differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Not at all.
    None,
    /// Eight other seeds, or as many others as a point has runs.
    Seeds,
    /// Every bottleneck by this many per cent faster.
    Rate(i32),
    /// Every base RTT by this many per cent longer.
    Rtt(i32),
    /// Each flow but the first by one per cent of an RTT later than the one before.
    Start,
}

/// The reruns.
pub const CHANGES: [Change; 5] = [Change::Seeds, Change::Rate(1), Change::Rate(-1), Change::Rtt(1), Change::Start];

/// The first of the other seeds is the one after this.
const OTHER_SEEDS: u32 = 100;
/// So many of them at least.
const SEEDS: u32 = 8;

impl Change {
    /// In words, and as a folder's name with `_` for spaces.
    pub fn name(self) -> String {
        match self {
            Change::None => "unchanged".to_owned(),
            Change::Seeds => "other seeds".to_owned(),
            Change::Rate(percent) => format!("rate {percent:+} %"),
            Change::Rtt(percent) => format!("RTT {percent:+} %"),
            Change::Start => "starts 1 % of an RTT apart".to_owned(),
        }
    }

    /// Where its results lie below the others'.
    fn folder(self, out: &Path) -> std::path::PathBuf {
        out.join("fragile").join(self.name().replace([' ', '%'], "_"))
    }

    /// A point's seeds.
    pub fn of_point(self, point: Point) -> Point {
        if self == Change::Seeds { Point { repeat: point.repeat.max(SEEDS), seeds_after: OTHER_SEEDS, ..point } } else { point }
    }

    /// The scenario that is run instead.
    pub fn of_scenario(self, mut scenario: Scenario) -> Scenario {
        match self {
            Change::None | Change::Seeds => {}
            Change::Rate(percent) => scale_rates(&mut scenario.topology, factor(percent)),
            Change::Rtt(percent) => {
                scale_delays(&mut scenario.topology, factor(percent));
                scenario.flows.iter_mut().filter_map(|f| f.rtt_ms.as_mut()).for_each(|rtt| *rtt *= factor(percent));
            }
            Change::Start => {
                let hundredth_s = base_rtt_ms(&scenario.topology) / 100.0 / 1e3;
                for (n, flow) in scenario.flows.iter_mut().enumerate() {
                    flow.start_s += hundredth_s * n as f64;
                    flow.stagger_s += hundredth_s;
                }
            }
        }
        scenario
    }
}

fn factor(percent: i32) -> f64 {
    1.0 + f64::from(percent) / 100.0
}

fn scale_rates(topology: &mut Topology, by: f64) {
    match topology {
        Topology::Dumbbell(link) => {
            link.rate_mbps *= by;
            link.reverse_rate_mbps.iter_mut().for_each(|r| *r *= by);
        }
        Topology::ParkingLot(lot) => lot.rate_mbps *= by,
        Topology::Graph(graph) => graph.links.iter_mut().filter_map(|l| l.rate_mbps.as_mut()).for_each(|r| *r *= by),
    }
}

fn scale_delays(topology: &mut Topology, by: f64) {
    match topology {
        Topology::Dumbbell(link) => link.rtt_ms *= by,
        Topology::ParkingLot(lot) => lot.delay_ms *= by,
        Topology::Graph(graph) => graph.links.iter_mut().for_each(|l| l.delay_ms *= by),
    }
}

fn base_rtt_ms(topology: &Topology) -> f64 {
    match topology {
        Topology::Dumbbell(link) => link.rtt_ms,
        Topology::ParkingLot(lot) => 2.0 * lot.delay_ms,
        Topology::Graph(graph) => 2.0 * graph.links.iter().map(|l| l.delay_ms).fold(0.0, f64::max),
    }
}

/// What the reruns of a claim said in one column.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fragility {
    /// The rule that was asked.
    rule: String,
    /// Of which points: all, or those of the quick set.
    extent: String,
    /// The verdict without a change.
    here: String,
    /// The verdict of each rerun.
    pub reruns: Vec<(String, String)>,
}

impl Fragility {
    /// Whether all of the reruns were made.
    fn is_whole(&self) -> bool {
        CHANGES.iter().all(|change| self.reruns.iter().any(|(name, _)| *name == change.name()))
    }

    /// Whether a rerun says otherwise.
    pub fn is_fragile(&self) -> bool {
        self.reruns.iter().any(|(_, word)| *word != self.here)
    }

    /// The reruns that say otherwise.
    pub fn otherwise(&self) -> Vec<&str> {
        self.reruns.iter().filter(|(_, word)| *word != self.here).map(|(name, _)| name.as_str()).collect()
    }
}

/// All that reruns said, by `id#claim`, then by column.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Kept(BTreeMap<String, BTreeMap<String, Fragility>>);

const FILE: &str = "fragile.json";

fn word_of(extent: Extent) -> &'static str {
    if extent == Extent::Full { "full" } else { "quick" }
}

fn rule_of(claim: &Claim) -> String {
    claim.rule.0.iter().map(|l| l.text.as_str()).collect::<Vec<_>>().join("\n")
}

impl Kept {
    /// What was said of a claim with this rule, these points and this verdict.
    pub fn of(
        &self,
        experiment: &Experiment,
        extent: Option<Extent>,
        claim: &Claim,
        profile: Profile,
        judged: &Judged,
    ) -> Option<Fragility> {
        let kept = self.0.get(&format!("{}#{}", experiment.id, claim.id))?.get(profile.key())?;
        let same = kept.rule == rule_of(claim) && kept.here == judged.word() && Some(kept.extent.as_str()) == extent.map(word_of);
        same.then(|| kept.clone())
    }
}

/// What is recorded beside the experiments, and over it what is kept beside the results.
///
/// # Errors
/// A file that is something else.
pub fn read(folders: &Folders) -> Result<Kept> {
    let mut kept = read_from(&folders.experiments)?;
    kept.0.extend(read_from(&folders.out)?.0);
    Ok(kept)
}

fn read_from(folder: &Path) -> Result<Kept> {
    let file = folder.join(FILE);
    match fs::read(&file) {
        Ok(text) => serde_json::from_slice(&text).with_context(|| format!("{}: no verdicts of reruns; remove it", file.display())),
        Err(_) => Ok(Kept::default()),
    }
}

/// Adds what reruns said of an experiment's claims to what is kept in `folder`.
///
/// # Errors
/// A file that is something else, or cannot be written.
fn keep(folder: &Path, experiment: &Experiment, said: &[(String, Profile, Fragility)]) -> Result<()> {
    let mut kept = read_from(folder)?;
    for (claim, profile, fragility) in said {
        let columns = kept.0.entry(format!("{}#{claim}", experiment.id)).or_default();
        columns.insert(profile.key().to_owned(), fragility.clone());
    }
    write_to(folder, &kept)
}

/// Records beside the experiments what is kept of one beside the results.
///
/// # Errors
/// A file that is something else, or cannot be written.
fn record(folders: &Folders, experiment: &Experiment) -> Result<()> {
    let mut recorded = read_from(&folders.experiments)?;
    for (name, columns) in read_from(&folders.out)?.0.into_iter().filter(|(name, _)| name.split('#').next() == Some(&experiment.id)) {
        recorded.0.entry(name).or_default().extend(columns);
    }
    write_to(&folders.experiments, &recorded)
}

fn write_to(folder: &Path, kept: &Kept) -> Result<()> {
    let file = folder.join(FILE);
    let text = serde_json::to_string_pretty(kept)? + "\n";
    fs::write(&file, text).with_context(|| format!("{}: cannot be written", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "duration_s = 2.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 10.0\nrtt_ms = 200.0\nqueue = { kind = \"drop_tail\", ms = 50 }\n\
                        [[flows]]\nname = \"a\"\ncc = \"cubic\"\n[[flows]]\nname = \"b\"\ncc = \"cubic\"\nrtt_ms = 50.0\nstart_s = 1.0\n";

    #[test]
    fn what_is_kept_is_read_back_and_newer_results_go_before_what_is_recorded() {
        let (out, papers) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let folders = Folders { out: out.path().to_owned(), experiments: papers.path().to_owned() };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers");
        let all = super::super::experiment::load_all(&root, &[]).unwrap_or_else(|e| panic!("{e:#}"));
        let figure = all.iter().find(|e| e.id == "bagnulo2023/fig12").expect("a figure");
        let said = |here: &str| Fragility { rule: String::new(), extent: "full".to_owned(), here: here.to_owned(), reruns: Vec::new() };
        let keep = |folder: &Path, claim: &str, here: &str| {
            keep(folder, figure, &[(claim.to_owned(), Profile::Run, said(here))]).expect("written");
        };
        let word = |claim: &str| read(&folders).expect("read").0.get(claim).map(|c| c["run"].here.clone());

        keep(papers.path(), "c1", "met");
        keep(papers.path(), "c2", "met");
        keep(out.path(), "c1", "not met");
        assert_eq!((word("bagnulo2023/fig12#c1").as_deref(), word("bagnulo2023/fig12#c2").as_deref()), (Some("not met"), Some("met")));
        // What an earlier command kept is recorded too, by one that has nothing left to do.
        record(&folders, figure).expect("recorded");
        fs::remove_file(out.path().join(FILE)).expect("removed");
        assert_eq!((word("bagnulo2023/fig12#c1").as_deref(), word("bagnulo2023/fig12#c2").as_deref()), (Some("not met"), Some("met")));
    }

    #[test]
    fn each_change_is_of_one_per_cent_and_leaves_the_rest() {
        let scenario = Scenario::parse(TEXT).unwrap_or_else(|e| panic!("{e}"));
        let dumbbell = |s: &Scenario| match &s.topology {
            Topology::Dumbbell(link) => (link.rate_mbps, link.rtt_ms),
            other => panic!("{other:?}"),
        };
        let changed = |change: Change| change.of_scenario(scenario.clone());
        assert_eq!(changed(Change::Seeds), scenario);
        assert_eq!(dumbbell(&changed(Change::Rate(1))), (10.1, 200.0));
        assert_eq!(dumbbell(&changed(Change::Rate(-1))), (9.9, 200.0));
        let longer = changed(Change::Rtt(1));
        assert_eq!((dumbbell(&longer), longer.flows[1].rtt_ms), ((10.0, 202.0), Some(50.5)));
        let later = changed(Change::Start);
        assert_eq!((later.flows[0].start_s, later.flows[1].start_s), (0.0, 1.002));
        let point = Change::Seeds.of_point(Point { repeat: 5, ..Point::default() });
        assert_eq!((point.repeat, point.seeds_after), (8, 100));
        assert_eq!(Change::Seeds.of_point(Point { repeat: 30, ..Point::default() }).repeat, 30);
    }
}
