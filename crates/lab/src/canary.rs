//! Whether ordinary programs get the processor when they want it: a thread that asks for it at a steady beat and notes how late
//! it was served. The link runs before all programs and cannot tell. Knows nothing of links.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};
use lowtide_units::histogram::Histogram;
use lowtide_units::{Span, Time};

use crate::clock;

/// Rare enough to cost nothing, often enough for a 99th percentile of a run of seconds.
const BEAT: Span = Span::from_millis(5);

/// A running canary; it ends when dropped.
#[derive(Debug)]
pub struct Canary {
    thread: Option<JoinHandle<Histogram>>,
    stop: Arc<AtomicBool>,
}

impl Canary {
    /// Starts one that counts what it sees within `counted`.
    ///
    /// # Errors
    /// No thread to be had.
    pub fn new(counted: std::ops::Range<Time>) -> Result<Canary> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("canary".into()).spawn(move || watch(&counted, &stopped));
        Ok(Canary { thread: Some(thread.context("starting the canary's thread")?), stop })
    }

    /// Ends it; how late it was served.
    ///
    /// # Errors
    /// Its thread died.
    pub fn stop(mut self) -> Result<Histogram> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("the canary is already stopped")?;
        thread.join().map_err(|_| anyhow!("the canary's thread died"))
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn watch(counted: &std::ops::Range<Time>, stop: &AtomicBool) -> Histogram {
    let mut late = Histogram::default();
    while !stop.load(Ordering::Relaxed) {
        let due = clock::now() + BEAT;
        clock::wait_any(&mut [], BEAT);
        if counted.contains(&due) {
            late.add(clock::now().since(due));
        }
    }
    late
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_what_is_due_within_its_time_only() {
        let now = clock::now();
        let counted = now + Span::from_millis(20)..now + Span::from_millis(60);
        let canary = Canary::new(counted).expect("a thread");
        clock::wait_any(&mut [], Span::from_millis(120));
        let late = canary.stop().expect("it lives");
        // A beat is never early; forty milliseconds hold eight of them, fewer on a busy machine.
        assert!(late.max() > Span::ZERO && (1..=8).contains(&late.count()), "{late:?}");

        let never = Canary::new(now..now).expect("a thread");
        clock::wait_any(&mut [], Span::from_millis(20));
        assert_eq!(never.stop().expect("it lives").count(), 0);
    }
}
