//! What a paper concludes, and which of its claims bear on that: papers/<paper>/conclusions.toml. Judges nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::experiment::{CONCLUSIONS, Experiment};

/// One conclusion.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conclusion {
    /// In a sentence.
    pub says: String,
    /// `fig05` for all claims of a figure, `fig05#c2` for one.
    claims: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Conclusions {
    conclusions: Vec<Conclusion>,
}

impl Conclusion {
    /// Whether a claim of its paper bears on it.
    pub fn has(&self, figure: &str, claim: &str) -> bool {
        self.claims.iter().any(|name| match name.split_once('#') {
            None => name == figure,
            Some(one) => one == (figure, claim),
        })
    }
}

/// The conclusions of each paper that has some.
///
/// # Errors
/// A file that holds something else, a claim that belongs to no conclusion or to several, or a name of no claim.
pub fn load(root: &Path, experiments: &[Experiment]) -> Result<BTreeMap<String, Vec<Conclusion>>> {
    let mut all = BTreeMap::new();
    for experiment in experiments {
        let paper = experiment.paper();
        let file = root.join(paper).join(CONCLUSIONS).with_extension("toml");
        if all.contains_key(paper) || !file.exists() {
            continue;
        }
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let read: Conclusions = toml::from_str(&text).with_context(|| file.display().to_string())?;
        let mine: Vec<&Experiment> = experiments.iter().filter(|e| e.paper() == paper).collect();
        check(&read.conclusions, &mine).with_context(|| file.display().to_string())?;
        all.insert(paper.to_owned(), read.conclusions);
    }
    Ok(all)
}

fn check(conclusions: &[Conclusion], experiments: &[&Experiment]) -> Result<()> {
    for (figure, claim) in experiments.iter().flat_map(|e| e.claims.iter().map(|c| (e.figure(), c.id.as_str()))) {
        let count = conclusions.iter().filter(|c| c.has(figure, claim)).count();
        if count != 1 {
            bail!("{figure}#{claim} belongs to {count} conclusions; each claim belongs to one");
        }
    }
    for name in conclusions.iter().flat_map(|c| &c.claims) {
        let named = |e: &&&Experiment| match name.split_once('#') {
            None => e.figure() == name,
            Some((figure, claim)) => e.figure() == figure && e.claims.iter().any(|c| c.id == claim),
        };
        if !experiments.iter().any(|e| named(&e)) {
            bail!("`{name}` is no figure and no claim of this paper");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::experiment::load_all;
    use super::*;

    fn papers() -> (std::path::PathBuf, Vec<Experiment>) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers");
        let experiments = load_all(&root, &[]).unwrap_or_else(|e| panic!("{e:#}"));
        (root, experiments)
    }

    #[test]
    fn every_claim_of_every_paper_bears_on_one_conclusion() {
        let (root, experiments) = papers();
        let all = load(&root, &experiments).unwrap_or_else(|e| panic!("{e:#}"));
        assert_eq!(all.len(), 5);
    }

    #[test]
    fn a_claim_left_out_named_twice_or_misspelt_is_an_error() {
        let (_, experiments) = papers();
        let mine: Vec<&Experiment> = experiments.iter().filter(|e| e.id == "bagnulo2023/fig12").collect();
        let said = |claims: &[&str]| {
            let one = Conclusion { says: String::new(), claims: claims.iter().map(|c| (*c).to_owned()).collect() };
            check(&[one.clone(), Conclusion { claims: Vec::new(), ..one }], &mine).map_err(|e| e.to_string())
        };
        assert_eq!(said(&["fig12"]), Ok(()));
        assert_eq!(said(&["fig12#c1", "fig12#c2"]), Ok(()));
        assert_eq!(said(&["fig12#c1"]), Err("fig12#c2 belongs to 0 conclusions; each claim belongs to one".to_owned()));
        assert_eq!(said(&["fig12", "fig12#c9"]), Err("`fig12#c9` is no figure and no claim of this paper".to_owned()));
        let one = Conclusion { says: String::new(), claims: vec!["fig12".to_owned()] };
        assert!(check(&[one.clone(), one], &mine).is_err_and(|e| e.to_string().contains("belongs to 2 conclusions")));
    }
}
