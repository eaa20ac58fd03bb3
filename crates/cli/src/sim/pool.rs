//! Runs on several threads, with a progress line. Knows no simulator.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::progress::Progress;

/// What `run` returns for each of 0, 1, …, `runs` - 1, in this order, from `jobs` threads, as many as processors if absent. `run` tells how
/// far it is, from 0 to 1, and returns also whether the result was there already.
pub fn each<T: Send>(runs: usize, jobs: Option<usize>, run: impl Fn(usize, &dyn Fn(f64)) -> (T, bool) + Sync) -> Vec<T> {
    let threads = jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, Into::into)).clamp(1, runs.max(1));
    let (next, progress) = (AtomicUsize::new(0), Mutex::new(Progress::new(runs)));
    let line = || progress.lock().unwrap_or_else(PoisonError::into_inner);
    let some = || {
        let mut made = Vec::new();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= runs {
                return made;
            }
            let (result, found) = run(n, &|part| line().tell(n, part));
            line().done(n, found);
            made.push((n, result));
        }
    };
    let mut all: Vec<(usize, T)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(some)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    line().end();
    all.sort_by_key(|(n, _)| *n);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_runs_whoever_is_done_first() {
        let run = |n: usize, _: &dyn Fn(f64)| {
            thread::sleep(std::time::Duration::from_millis((7 * n as u64) % 5));
            (n * n, false)
        };
        let squares: Vec<usize> = (0..40).map(|n| n * n).collect();
        assert_eq!([Some(1), Some(3), None].map(|jobs| each(40, jobs, run)), [squares.clone(), squares.clone(), squares]);
        assert!(each(0, Some(3), run).is_empty());
    }
}
