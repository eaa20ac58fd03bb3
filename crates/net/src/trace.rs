//! A rate that changes over time, from a trace file. Opens no file: it is given the text.
//!
//! One line a change, `seconds Mbit/s`, times rising; `#` starts a comment. A last line `end seconds` makes the trace start
//! over from its first line at that time, for ever; without it the last rate stays.
//!
//! ```text
//! # a link that fades
//! 0.0   20
//! 4.5   2.5
//! 5.0   0     # outage
//! end   6
//! ```

use lowtide_units::{Rate, Span, Time};

/// The rate of a link as a function of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateTrace {
    /// Rising; the first at zero.
    changes: Vec<(Span, Rate)>,
    period: Option<Span>,
}

/// A trace that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rate trace, line {line}: {reason}")]
pub struct TraceError {
    /// Counted from one; zero if the whole text is meant.
    pub line: usize,
    /// What is wrong, and what is allowed.
    pub reason: String,
}

/// Ten years: beyond that, nanoseconds in 64 bits get close to their end.
const LONGEST_S: f64 = 10.0 * 366.0 * 86_400.0;
const FASTEST_MBPS: f64 = 1e6;
/// What follows one another faster than this would take a run for ever.
const SHORTEST: Span = Span::from_micros(1);
const SHORTEST_PERIOD: Span = Span::from_millis(1);

impl RateTrace {
    /// A trace from its changes and the period after which it starts over.
    ///
    /// # Errors
    /// No change at all, the first not at zero, times that do not rise, a period that ends before the last change.
    pub fn new(changes: Vec<(Span, Rate)>, period: Option<Span>) -> Result<RateTrace, TraceError> {
        let wrong = |line, reason: &str| Err(TraceError { line, reason: reason.to_owned() });
        match changes.first() {
            None => return wrong(0, "it has no rate; the first line is `0 MBIT_PER_S`"),
            Some((first, _)) if *first != Span::ZERO => return wrong(1, "the first rate must be at 0 s"),
            Some(_) => {}
        }
        if let Some(i) = changes.windows(2).position(|w| w[1].0 <= w[0].0) {
            return wrong(i + 2, "times must rise");
        }
        if let Some(i) = changes.windows(2).position(|w| w[1].0 - w[0].0 < SHORTEST) {
            return wrong(i + 2, "times must rise by at least 0.000001 s");
        }
        if period.is_some_and(|p| p < SHORTEST_PERIOD) {
            return wrong(changes.len() + 1, "`end` must be at least 0.001");
        }
        if changes.iter().all(|(_, rate)| rate.bps() == 0) {
            return wrong(0, "its rate is 0 throughout; a link must carry something at some time");
        }
        if period.is_some_and(|p| changes.last().is_some_and(|(last, _)| p <= *last)) {
            return wrong(changes.len() + 1, "`end` must lie after the last change");
        }
        Ok(RateTrace { changes, period })
    }

    /// Reads the text of a trace file.
    ///
    /// # Errors
    /// The first line that breaks the format, with the rule.
    pub fn parse(text: &str) -> Result<RateTrace, TraceError> {
        let mut changes: Vec<(Span, Rate)> = Vec::new();
        let mut period = None;
        for (i, line) in text.lines().enumerate() {
            let wrong = |reason: &str| TraceError { line: i + 1, reason: reason.to_owned() };
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(first) = words.next() else { continue };
            if period.is_some() {
                return Err(wrong("nothing may follow `end`"));
            }
            let (Some(second), None) = (words.next(), words.next()) else {
                return Err(wrong("expected two words: `SECONDS MBIT_PER_S` or `end SECONDS`"));
            };
            if first == "end" {
                let end = number(second, LONGEST_S).map(Span::from_secs_f64).map_err(|e| wrong(&e))?;
                if changes.last().is_some_and(|(last, _)| end <= *last) {
                    return Err(wrong("`end` must lie after the last change"));
                }
                period = Some(end);
                continue;
            }
            let at = number(first, LONGEST_S).map(Span::from_secs_f64).map_err(|e| wrong(&e))?;
            let rate = number(second, FASTEST_MBPS).map(Rate::from_mbps_f64).map_err(|e| wrong(&e))?;
            match changes.last() {
                None if at != Span::ZERO => return Err(wrong("the first rate must be at 0 s")),
                Some((last, _)) if at <= *last => return Err(wrong("times must rise")),
                _ => changes.push((at, rate)),
            }
        }
        RateTrace::new(changes, period)
    }

    /// The rate in force at `now`, time counted from the epoch.
    pub fn rate_at(&self, now: Time) -> Rate {
        self.changes[self.index_at(self.offset(now))].1
    }

    /// The next change after `now`: when, and to what. None if the rate stays for ever.
    pub fn next_change(&self, now: Time) -> Option<(Time, Rate)> {
        let offset = self.offset(now);
        match (self.changes.get(self.index_at(offset) + 1), self.period) {
            (Some((at, rate)), _) => Some((now + (*at - offset), *rate)),
            (None, Some(period)) => Some((now + (period - offset), self.changes[0].1)),
            (None, None) => None,
        }
    }

    /// The mean rate over one period, or of the last rate if it stays for ever.
    pub fn mean(&self) -> Rate {
        let last = self.changes[self.changes.len() - 1];
        let Some(period) = self.period else { return last.1 };
        Rate::from_bps((self.bits_ns_in(period) / u128::from(period.nanos())) as u64)
    }

    /// Bits × ns/s of the first `period`.
    fn bits_ns_in(&self, period: Span) -> u128 {
        let ends = self.changes.iter().skip(1).map(|c| c.0).chain([period]);
        self.changes.iter().zip(ends).map(|((at, rate), end)| u128::from((end - *at).nanos()) * u128::from(rate.bps())).sum()
    }

    /// The mean rate from `from` to `to`.
    pub fn mean_between(&self, from: Time, to: Time) -> Rate {
        let (mut at, mut bits_ns) = (from, 0);
        // Whole periods at once: there may be millions.
        if let Some(period) = self.period {
            let whole = to.since(from).nanos() / period.nanos();
            bits_ns = self.bits_ns_in(period) * u128::from(whole);
            at += period * whole;
        }
        while at < to {
            let until = self.next_change(at).map_or(to, |(change, _)| change.min(to));
            bits_ns += u128::from(until.since(at).nanos()) * u128::from(self.rate_at(at).bps());
            at = until;
        }
        let span = u128::from(to.since(from).nanos());
        Rate::from_bps(bits_ns.checked_div(span).unwrap_or(0) as u64)
    }

    fn offset(&self, now: Time) -> Span {
        let since = now.since(Time::ZERO);
        self.period.map_or(since, |period| Span::from_nanos(since.nanos() % period.nanos()))
    }

    fn index_at(&self, offset: Span) -> usize {
        // The first change lies at zero, so at least one is not after the offset.
        self.changes.partition_point(|(at, _)| *at <= offset) - 1
    }
}

fn number(word: &str, most: f64) -> Result<f64, String> {
    match word.parse::<f64>() {
        Ok(value) if (0.0..=most).contains(&value) => Ok(value),
        Ok(_) => Err(format!("`{word}` must lie between 0 and {most}")),
        Err(_) => Err(format!("`{word}` is not a number")),
    }
}

#[cfg(test)]
mod tests;
