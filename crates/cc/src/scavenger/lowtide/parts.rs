//! The mechanisms that can be left out, one at a time, to measure what each is worth (the ablation of docs/algorithms/lowtide.md).

use serde::Deserialize;

/// A mechanism; in parameters by its name in lower case with dashes: `without = ["even-floor"]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The floor takes uneven delays for somebody who sends.
    EvenFloor,
    /// A floor that was even for long enough is left before its hold ends.
    EarlyLeave,
    /// After a relapse a probe grows slowly in its upper half.
    CarefulProbe,
    /// A probe of a line that was found empty begins with a quarter of its window.
    QuickProbe,
    /// LAW is left within a round, on six samples in a row.
    QuickAlarm,
    /// LAW is left on a loss with more queue than is ours, and on a mark.
    LossAlarm,
    /// Growth becomes faster when there is hardly any queue.
    CalmGrowth,
    /// The empty line is looked for every ten seconds.
    Drain,
    /// A small steady queue at the floor is joined without a probe.
    Friend,
    /// Holds double from relapse to relapse.
    Relapse,
    /// A line that became slower is told from one that is shared.
    SlowerLine,
    /// A receiver's LAW goes on where a line has become slower little by little.
    Follow,
    /// Samples that waited for a pause of the line are left out.
    Stall,
    /// The jitter of lines that aggregate is learned.
    Jitter,
    /// How unevenly the line delivers is learned.
    UnevenLine,
    /// A floor whose samples come and go is left for a train that shows whether the line sends in bunches; a receiver takes their waits for the
    /// line's jitter.
    Listen,
    /// Where a round is a train, three of them make a receiver's alarm.
    Trains,
}

/// The mechanisms in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts(u32);

impl Parts {
    /// All of them; the alternative is for experiments.
    #[cfg(test)]
    pub const ALL: Parts = Parts(u32::MAX);

    /// All but some.
    pub fn without(parts: &[Part]) -> Parts {
        Parts(parts.iter().fold(u32::MAX, |mask, &part| mask & !(1 << part as u32)))
    }

    /// Whether `part` is in use.
    pub const fn has(self, part: Part) -> bool {
        self.0 & (1 << part as u32) != 0
    }
}
