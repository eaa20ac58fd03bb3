//! A verdict with what it rests on, line by line of the rule. Knows no experiment.

use super::rule::eval::Decided;

/// What became of a claim in a column.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    Met,
    NotMet,
    /// Why it is neither.
    Undecided(String),
}

/// A verdict with what it rests on.
#[derive(Clone, Debug)]
pub struct Judged {
    pub state: State,
    /// Each line of the rule.
    pub lines: Vec<Seen>,
    /// Runs a point at most, and how many seeds contradict the rule or its strict form.
    pub seeds: usize,
    pub contradict: usize,
}

/// A line as it was found.
#[derive(Clone, Debug)]
pub struct Seen {
    pub text: String,
    pub decided: Decided,
    /// The least and the most of the measured side over the seeds, at the point shown.
    pub spread: Option<(f64, f64)>,
}

impl Judged {
    /// In a word or two.
    pub fn word(&self) -> &str {
        match &self.state {
            State::Met => "met",
            State::NotMet => "not met",
            State::Undecided(_) => "undecided",
        }
    }
}
