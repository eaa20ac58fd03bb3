//! What a paper reports, as its toml holds it: the paper's sentence, the rule with the bound of the claims' sheet, and what is said
//! beside a verdict. Judges nothing.

use anyhow::Result;
use serde::{Deserialize, Deserializer};

use super::point::Profile;
use super::rule::{Expr, Line, parse};

/// Lines of which each must hold.
#[derive(Clone, Debug)]
pub struct Rule(pub Vec<Line>);

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Rule, D::Error> {
        parse::lines(&String::deserialize(from)?).map(Rule).map_err(serde::de::Error::custom)
    }
}

/// A number that an explanation shows.
#[derive(Clone, Debug)]
pub struct Shown {
    /// As it was written.
    pub text: String,
    pub expr: Expr,
}

impl<'de> Deserialize<'de> for Shown {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Shown, D::Error> {
        let text = String::deserialize(from)?;
        let expr = parse::expression(&text).map_err(serde::de::Error::custom)?;
        Ok(Shown { text, expr })
    }
}

/// Which one number stands for the runs of a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Population {
    /// The mean of the runs is judged.
    #[default]
    Mean,
    /// The median of the runs is judged, and at most one seed may contradict.
    Median,
}

/// Something a paper reports.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// `c1`, ….
    pub id: String,
    /// Where in the paper it stands.
    pub place: String,
    /// What the paper says, in our words with its numbers.
    pub says: String,
    /// The bound, set once.
    pub rule: Rule,
    /// What each seed must not contradict; the rule itself if absent.
    #[serde(default)]
    pub strict: Option<Rule>,
    /// Why the bound is where it is.
    pub tolerance: String,
    /// Whether a quick run has the points that the rule needs.
    #[serde(default = "yes")]
    pub quick: bool,
    /// Where the bound misreads the paper or asks the impossible: what is asked beside it.
    #[serde(default)]
    pub restated: Option<Restated>,
    /// Why it cannot be decided, by column.
    #[serde(default)]
    pub undecided: ByColumn<String>,
    /// Where it is not met: the cause, by column.
    #[serde(default)]
    pub explained: ByColumn<Explained>,
}

/// What is asked beside a bound that is wrong. The first verdict is the bound's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restated {
    pub rule: Rule,
    /// What is wrong with the bound.
    pub why: String,
    /// The paper's own words.
    pub sentence: String,
}

/// Why a claim is not met.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explained {
    /// The mechanism.
    pub why: String,
    /// The numbers that show it, from the results of `by`.
    #[serde(default)]
    pub shown: Vec<Shown>,
    /// The command of the run that shows it; the experiment's own run if absent.
    #[serde(default)]
    pub by: Option<String>,
}

/// Something of each column.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByColumn<T> {
    pub described: Option<T>,
    pub run: Option<T>,
    pub ours: Option<T>,
}

impl<T> Default for ByColumn<T> {
    fn default() -> ByColumn<T> {
        ByColumn { described: None, run: None, ours: None }
    }
}

impl<T> ByColumn<T> {
    /// That of one column.
    pub fn of(&self, profile: Profile) -> Option<&T> {
        match profile {
            Profile::Described => self.described.as_ref(),
            Profile::Run => self.run.as_ref(),
            Profile::Ours => self.ours.as_ref(),
        }
    }
}

fn yes() -> bool {
    true
}

impl Claim {
    /// Every line that its verdicts hang on.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        let more = self.strict.iter().chain(self.restated.iter().map(|r| &r.rule));
        self.rule.0.iter().chain(more.flat_map(|rule| &rule.0))
    }

    /// Every number that its explanations show.
    pub fn shown(&self) -> impl Iterator<Item = &Shown> {
        Profile::ALL.into_iter().filter_map(|p| self.explained.of(p)).flat_map(|e| &e.shown)
    }
}
