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
    use super::*;

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
