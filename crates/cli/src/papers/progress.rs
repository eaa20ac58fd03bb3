//! How far many runs are, told while they run: the first word after two seconds, however long the first run takes.

use std::io::{IsTerminal, stderr};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Until the first word.
const FIRST: Duration = Duration::from_secs(2);
/// Between two words: on a terminal one line that changes, elsewhere lines.
const ON_TERMINAL: Duration = Duration::from_millis(500);
const ELSEWHERE: Duration = Duration::from_secs(20);

/// How far it is.
pub struct Progress {
    began: Instant,
    /// What all runs cost.
    all: f64,
    runs: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
struct State {
    runs: usize,
    spent: f64,
    over: bool,
}

impl Progress {
    /// Of so many runs, which cost `all` together, in any unit.
    #[expect(clippy::disallowed_methods, reason = "the time left is for people")]
    pub fn new(all: f64, runs: usize) -> Progress {
        Progress { began: Instant::now(), all, runs, state: Mutex::default(), changed: Condvar::new() }
    }

    /// One more is done.
    pub fn done(&self, cost: f64) {
        self.change(|state| {
            state.runs += 1;
            state.spent += cost;
        });
    }

    /// None will follow.
    pub fn over(&self) {
        self.change(|state| state.over = true);
        self.changed.notify_all();
    }

    fn change(&self, by: impl FnOnce(&mut State)) {
        by(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Tells people until it is over.
    pub fn tell(&self) {
        let terminal = stderr().is_terminal();
        let mut wait = FIRST;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            state = self.changed.wait_timeout_while(state, wait, |state| !state.over).unwrap_or_else(PoisonError::into_inner).0;
            let end = if terminal && !state.over { "\r" } else { "\n" };
            eprint!("{}   {end}", self.words(&state));
            if state.over {
                return;
            }
            wait = if terminal { ON_TERMINAL } else { ELSEWHERE };
        }
    }

    fn words(&self, state: &State) -> String {
        let elapsed = self.began.elapsed().as_secs_f64();
        let left = match state.runs {
            runs if runs == self.runs || state.over => format!("{elapsed:.0} s"),
            0 => format!("{elapsed:.0} s so far"),
            _ => format!("about {:.0} s left", elapsed / state.spent * (self.all - state.spent)),
        };
        format!("{} of {} runs, {left}", state.runs, self.runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_said_before_the_first_run_is_done() {
        let progress = Progress::new(10.0, 2);
        let words = |state: State| progress.words(&state);
        assert_eq!(words(State::default()), "0 of 2 runs, 0 s so far");
        assert_eq!(words(State { runs: 1, spent: 4.0, over: false }), "1 of 2 runs, about 0 s left");
        assert_eq!(words(State { runs: 2, spent: 10.0, over: true }), "2 of 2 runs, 0 s");
    }

    #[test]
    fn telling_ends_when_it_is_over() {
        let progress = Progress::new(1.0, 1);
        std::thread::scope(|scope| {
            let teller = scope.spawn(|| progress.tell());
            progress.done(1.0);
            progress.over();
            teller.join().expect("it ends");
        });
    }
}
