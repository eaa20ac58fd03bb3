//! The verdicts as they were last looked at: papers/verdicts.toml, written by a command and compared in CI, so that a change of a
//! verdict is a change in review. Judges nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::outcome::Outcome;
use super::points::Extent;

/// The file's name in the folder of experiments.
pub const FILE: &str = "verdicts.toml";

type Columns = BTreeMap<String, String>;
type Claims = BTreeMap<String, Columns>;

/// Verdicts by experiment, claim and column: those of the full set and those of the quick one, which has fewer points.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    #[serde(default)]
    full: BTreeMap<String, Claims>,
    #[serde(default)]
    quick: BTreeMap<String, Claims>,
}

impl Recorded {
    /// What is recorded in `folder`; nothing if there is none.
    ///
    /// # Errors
    /// A file that holds something else.
    pub fn read(folder: &Path) -> Result<Recorded> {
        let file = folder.join(FILE);
        match fs::read_to_string(&file) {
            Ok(text) => {
                toml::from_str(&text).with_context(|| format!("{}: no verdicts; `lowtide papers run --record` writes it", file.display()))
            }
            Err(_) => Ok(Recorded::default()),
        }
    }

    fn of(&mut self, extent: Extent) -> &mut BTreeMap<String, Claims> {
        if extent == Extent::Full { &mut self.full } else { &mut self.quick }
    }

    /// Takes the verdicts of these outcomes for the recorded ones.
    pub fn take(&mut self, outcomes: &[&Outcome]) {
        for outcome in outcomes {
            if let Some(extent) = outcome.extent {
                self.of(extent).insert(outcome.experiment.id.clone(), claims(outcome));
            }
        }
    }

    /// Where outcomes differ from what is recorded, a line each.
    pub fn differences(&mut self, outcomes: &[&Outcome]) -> Vec<String> {
        let mut lines = Vec::new();
        for outcome in outcomes {
            let Some(extent) = outcome.extent else { continue };
            let id = &outcome.experiment.id;
            let recorded = self.of(extent).get(id).cloned().unwrap_or_default();
            for (claim, columns) in claims(outcome) {
                for (column, word) in columns {
                    let had = recorded.get(&claim).and_then(|c| c.get(&column)).map_or("nothing", String::as_str);
                    if had != word {
                        lines.push(format!("{id}#{claim} {column}: {word}, recorded is {had}"));
                    }
                }
            }
        }
        lines
    }

    /// Writes it to `folder`.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let mut text =
            "# Written by `lowtide papers run --record`, compared by `--check`: what each claim came to when somebody last looked.\n"
                .to_owned();
        for (extent, experiments) in [("full", &self.full), ("quick", &self.quick)] {
            for (id, claims) in experiments {
                let _ = writeln!(text, "\n[{extent}.\"{id}\"]");
                for (claim, columns) in claims {
                    let columns: Vec<String> = columns.iter().map(|(column, word)| format!("{column} = \"{word}\"")).collect();
                    let _ = writeln!(text, "\"{claim}\" = {{ {} }}", columns.join(", "));
                }
            }
        }
        let file = folder.join(FILE);
        fs::write(&file, text).with_context(|| format!("{}: cannot be written", file.display()))
    }
}

fn claims(outcome: &Outcome) -> Claims {
    let columns =
        |v: &super::outcome::Verdict| v.columns.iter().map(|(p, judged)| (p.key().to_owned(), judged.word().to_owned())).collect();
    outcome.verdicts.iter().map(|v| (v.claim.id.clone(), columns(v))).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::claim::{Claim, Explained};
    use super::super::experiment::{Experiment, load_all};
    use super::super::fragile::Change;
    use super::super::jobs;
    use super::super::points::Profile;
    use super::*;

    /// What an explanation lacks: its mechanism, the numbers that show it, or a command of a run that is there.
    fn lacks(experiment: &Experiment, claim: &Claim, explained: &Explained, runs: &[PathBuf]) -> Option<String> {
        // "As c7." and "As described." stand for what is said there.
        let elsewhere = explained.why.trim().strip_prefix("As ").and_then(|rest| rest.strip_suffix('.')).filter(|id| !id.contains(' '));
        let is_there = |id: &str| match id {
            "described" => claim.explained.described.is_some(),
            id => experiment.claims.iter().any(|c| c.id == id && Profile::ALL.iter().any(|p| c.explained.of(*p).is_some())),
        };
        if !elsewhere.map_or(explained.why.len() > 40, is_there) {
            return Some(format!("no mechanism: {}", explained.why));
        }
        if explained.shown.is_empty() {
            return Some("no number from the results".to_owned());
        }
        let by = explained.by.as_deref().unwrap_or("lowtide papers run");
        let told = by.split('\'').nth(1);
        let is_run = told.is_none_or(|file| runs.iter().any(|dir| Path::new(file) == dir.join("scenario.toml")));
        (!by.starts_with("lowtide ") || !is_run).then(|| format!("no run of this experiment: {by}"))
    }

    /// As the issue has it: a claim that is not met in one of the paper's columns, of the full set or of the quick one, says why, with
    /// numbers and a command; and nothing is explained that is met in both.
    #[test]
    fn every_claim_that_is_not_met_has_its_mechanism_and_command_and_no_other_has() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers");
        let mut recorded = Recorded::read(&root).expect("verdicts");
        let (mut counted, mut wrong) = (0, Vec::new());
        for experiment in load_all(&root, &[]).unwrap_or_else(|e| panic!("{e:#}")) {
            let jobs = jobs::of(Path::new("results/papers"), &experiment, Extent::Full, Change::None).expect("jobs");
            let runs: Vec<PathBuf> = jobs.into_iter().map(|job| job.dir).collect();
            for claim in &experiment.claims {
                for profile in Profile::ALL {
                    let mut is_not_met = |extent| {
                        let columns = recorded.of(extent).get(&experiment.id).and_then(|claims| claims.get(&claim.id));
                        columns.and_then(|columns| columns.get(profile.key())).is_some_and(|word| word == "not met")
                    };
                    let asked = is_not_met(Extent::Full) | is_not_met(Extent::Quick);
                    let said = match (asked, claim.explained.of(profile)) {
                        (false, None) => continue,
                        (true, None) if profile == Profile::Ours => continue,
                        (true, None) => Some("not met, and nobody says why".to_owned()),
                        (false, Some(_)) => Some("met, and explained as if it were not".to_owned()),
                        (true, Some(explained)) => lacks(&experiment, claim, explained, &runs),
                    };
                    counted += 1;
                    wrong.extend(said.map(|said| format!("{}#{} {}: {said}", experiment.id, claim.id, profile.key())));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(counted >= 100, "only {counted} explanations");
    }

    #[test]
    fn what_is_written_is_read_back() {
        let columns = BTreeMap::from([("described".to_owned(), "not met".to_owned()), ("run".to_owned(), "met".to_owned())]);
        let claims = BTreeMap::from([("ab-c1".to_owned(), columns)]);
        let recorded = Recorded { full: BTreeMap::new(), quick: BTreeMap::from([("abu2010/fig03".to_owned(), claims)]) };
        let dir = tempfile::tempdir().expect("a temporary folder");
        recorded.write(dir.path()).expect("written");
        assert_eq!(Recorded::read(dir.path()).expect("read"), recorded);
        assert_eq!(Recorded::read(&dir.path().join("none")).expect("nothing"), Recorded::default());
    }
}
