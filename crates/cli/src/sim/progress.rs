//! How far runs are, as a line on a terminal. Knows no simulator.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::human;

/// A line is drawn so often, and none before so long: most scenarios are done by then.
const EVERY: Duration = Duration::from_millis(200);

/// The line, and what it says.
pub struct Progress {
    /// Of each run, how much is done.
    parts: Vec<f64>,
    /// Runs that are done.
    done: usize,
    /// Runs whose result was there already: they say nothing about how long the others take.
    found: usize,
    start: Instant,
    drawn: Option<Instant>,
    terminal: bool,
}

#[expect(clippy::disallowed_methods, reason = "the time left is for people")]
fn now() -> Instant {
    Instant::now()
}

impl Progress {
    /// Of so many runs, none begun.
    pub fn new(runs: usize) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        Progress { parts: vec![0.0; runs], done: 0, found: 0, start: now(), drawn: None, terminal }
    }

    /// Run `n` is so far, from 0 to 1.
    pub fn tell(&mut self, n: usize, part: f64) {
        self.parts[n] = part;
        let now = now();
        if !self.terminal || now - self.drawn.unwrap_or(self.start) < EVERY {
            return;
        }
        self.drawn = Some(now);
        eprint!("\r{:<50}", self.line((now - self.start).as_secs_f64()));
        // Nobody is harmed by a progress line that cannot be written.
        let _ = std::io::stderr().flush();
    }

    /// Run `n` is done; its result was `found` or made.
    pub fn done(&mut self, n: usize, found: bool) {
        self.done += 1;
        self.found += usize::from(found);
        self.tell(n, 1.0);
    }

    /// All are done: the line goes.
    pub fn end(&self) {
        if self.drawn.is_some() {
            eprintln!("\r{:<50}", format!("{} in {}", runs(self.parts.len()), human::span(self.start.elapsed().as_secs_f64())));
        }
    }

    fn line(&self, elapsed_s: f64) -> String {
        let (total, found) = (self.parts.len() as f64, self.found as f64);
        let made = self.parts.iter().sum::<f64>() - found;
        let left = if made > 0.0 { human::span(elapsed_s / made * (total - found - made)) } else { "–".to_owned() };
        match self.parts.len() {
            1 => format!("{:.0} %, about {left} left", 100.0 * self.parts[0]),
            total => format!("{} of {total} runs, about {left} left", self.done),
        }
    }
}

fn runs(n: usize) -> String {
    if n == 1 { "1 run".to_owned() } else { format!("{n} runs") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_goes_by_the_parts_that_were_made_here() {
        let mut one = Progress::new(1);
        one.tell(0, 0.25);
        assert_eq!(one.line(3.0), "25 %, about 9.0 s left");
        let mut four = Progress::new(4);
        four.done(0, true);
        four.done(1, false);
        four.tell(2, 0.5);
        assert_eq!(four.line(3.0), "2 of 4 runs, about 3.0 s left");
    }
}
