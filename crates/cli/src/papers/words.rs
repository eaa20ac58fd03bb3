//! Verdicts in words: what was measured, over which seeds, by how much it holds. Decides nothing.

use super::claim::{Claim, Explained};
use super::outcome::{Outcome, Verdict};
use super::points::Profile;
use super::verdict::{Judged, Seen, State};

/// A number with four digits that count; small ones as powers of ten.
pub fn number(value: f64) -> String {
    match value.abs() {
        _ if value.is_nan() => "never".to_owned(),
        v if v.is_infinite() => "nowhere".to_owned(),
        0.0 => "0".to_owned(),
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 10.0 => format!("{value:.2}"),
        v if v >= 1e-3 => format!("{value:.3}"),
        _ => format!("{value:.1e}"),
    }
}

/// What was measured where a line is nearest to failing, or fails by the most.
pub fn measured(seen: &Seen, seeds: usize) -> String {
    let worst = &seen.decided.worst;
    let side = |n: usize| worst.sides.get(n).copied().unwrap_or(f64::NAN);
    let mut text = number(side(worst.measured));
    if let Some((least, most)) = seen.spread.filter(|(least, most)| least < most) {
        text += &format!(" ({} to {} over {seeds} seeds)", number(least), number(most));
    }
    if !worst.against.is_empty() {
        let others: Vec<String> = worst.against.iter().map(|n| number(side(*n))).collect();
        text += &format!(" against {}", others.join(", "));
    }
    if !worst.place.is_empty() {
        let at: Vec<String> = worst.place.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        text += &format!(" at {}", at.join(", "));
    }
    let sign = if worst.margin > 0.0 { "+" } else { "" };
    text += &format!("; margin {sign}{}", number(worst.margin));
    if seen.decided.asked > 1 {
        text += &format!("; holds at {} of {} points", seen.decided.asked - seen.decided.failed, seen.decided.asked);
    }
    text
}

/// What several seeds say of a claim; nothing where there is one, or where all agree.
pub fn seeds(judged: &Judged) -> Option<String> {
    (judged.contradict > 0).then(|| format!("{} of {} seeds contradict", judged.contradict, judged.seeds))
}

/// What reruns said, or that nobody asked them.
pub fn reruns(verdict: &Verdict, profile: Profile) -> Option<String> {
    if verdict.is_untested(profile) {
        return Some("not tested with other seeds and changes of 1 %".to_owned());
    }
    let fragility = verdict.fragility(profile)?;
    let otherwise = fragility.otherwise();
    Some(match otherwise.as_slice() {
        [] => format!("stands with {} reruns (other seeds, changes of 1 %)", fragility.reruns.len()),
        some => format!("otherwise with {}", some.join(", ")),
    })
}

/// Why a claim is not met, with the numbers that show it and the command of their run.
pub fn explanation(outcome: &Outcome, verdict: &Verdict, profile: Profile) -> Option<String> {
    let explained: &Explained = verdict.claim.explained.of(profile)?;
    let shown = verdict.shown.iter().filter(|s| s.0 == profile);
    let shown: Vec<String> =
        shown.map(|(_, text, value)| format!("{text} = {}", value.map_or_else(|| "not run".to_owned(), number))).collect();
    let by = explained.by.clone().unwrap_or_else(|| format!("lowtide papers run {}", outcome.experiment.id));
    let numbers = if shown.is_empty() { String::new() } else { format!(" Measured: {}.", shown.join("; ")) };
    Some(format!("{}{numbers} Shown by: {by}", explained.why.trim()))
}

/// Why a claim is undecided in a column.
pub fn undecided(judged: &Judged) -> Option<&str> {
    if let State::Undecided(why) = &judged.state { Some(why) } else { None }
}

/// The bound as it stands in the toml.
pub fn bound(claim: &Claim) -> Vec<String> {
    claim.rule.0.iter().map(|line| line.text.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_count() {
        let shown: Vec<String> = [f64::NAN, 0.0, 0.1234, 1.5, 12.345, 123.45, 12345.6, -0.05, 1.2e-4].map(number).to_vec();
        assert_eq!(shown, ["never", "0", "0.123", "1.500", "12.35", "123.5", "12346", "-0.050", "1.2e-4"]);
    }
}
