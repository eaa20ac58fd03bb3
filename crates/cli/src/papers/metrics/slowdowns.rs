//! What happens after the slow-downs of a window: does it grow exponentially, does it end above the target, is it as large as before
//! some seconds later? Bagnulo 2023 asks it in sec. 6.2.1. Knows neither paper nor simulator.

use serde::{Deserialize, Serialize};

use super::track::Track;

/// One of the three questions, of the part of the slow-downs for which it is so; or how many there are.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Slowdowns {
    /// A slow-down is where the window falls below this, bytes.
    floor: f64,
    /// One round trip while it grows again.
    rtt_s: f64,
    what: Asked,
}

/// What is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// How many there are.
    Count,
    /// After how many of them `rounds` round trips in a row multiply the window by at least `factor`.
    Exponential { rounds: usize, factor: f64 },
    /// After how many of them `queue` exceeds `above_ms` when the window is at its most, and a decrease follows within three round
    /// trips.
    Overshoot { queue: String, above_ms: f64 },
    /// After how many of them the window is below `part` of what it was before, `after_s` later.
    Lost { part: f64, after_s: f64 },
}

/// Round trips in which the growth must show.
const ROUNDS: usize = 12;
/// Within this many round trips the window is at its most.
const RAMP_ROUNDS: f64 = 20.0;

impl Slowdowns {
    /// The track of the queue that is looked at.
    pub fn queue(&self) -> Option<&str> {
        if let Asked::Overshoot { queue, .. } = &self.what { Some(queue) } else { None }
    }

    /// The number, of a window's track; not one where there is no slow-down.
    pub fn of(&self, window: &Track, queue: Option<&Track>) -> f64 {
        let falls = window.falls_below(self.floor);
        if matches!(self.what, Asked::Count) {
            return falls.len() as f64;
        }
        falls.iter().filter(|fall| self.is_so(window, queue, **fall)).count() as f64 / falls.len() as f64
    }

    fn is_so(&self, window: &Track, queue: Option<&Track>, fall: f64) -> bool {
        let rise = window.between(fall, f64::INFINITY).points().iter().find(|p| p.1 >= self.floor).map_or(f64::NAN, |p| p.0);
        match &self.what {
            Asked::Count => true,
            Asked::Exponential { rounds, factor } => {
                let at = |round: usize| window.at(rise + self.rtt_s * round as f64);
                let mut in_a_row = 0;
                (0..ROUNDS).any(|round| {
                    in_a_row = if at(round + 1) >= factor * at(round) { in_a_row + 1 } else { 0 };
                    in_a_row >= *rounds
                })
            }
            Asked::Overshoot { above_ms, .. } => {
                let ramp = window.between(rise, rise + RAMP_ROUNDS * self.rtt_s);
                let (end, top) = (ramp.peak_at(), ramp.values().fold(f64::NAN, f64::max));
                let most = queue.map_or(f64::NAN, |q| q.between(rise, end + self.rtt_s).values().fold(f64::NAN, f64::max));
                let least = window.between(end, end + 3.0 * self.rtt_s).values().fold(f64::NAN, f64::min);
                most > *above_ms && least < top
            }
            Asked::Lost { part, after_s } => {
                let before = window.between(fall - 1.0, fall - 0.2).values().fold(f64::NAN, f64::max);
                window.at(fall + after_s) < part * before
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 for two seconds, 2 for one, then doubling each second up to `end`, which holds.
    fn window(end: f64) -> Track {
        let at = |second: usize| match second {
            0..=1 => 100.0,
            2 => 2.0,
            n => 2f64.powi(n as i32 - 1).min(end),
        };
        Track::new((0..20).map(|second| (second as f64, at(second))).collect())
    }

    fn asked(what: Asked, window: &Track, queue: Option<&Track>) -> f64 {
        Slowdowns { floor: 3.0, rtt_s: 1.0, what }.of(window, queue)
    }

    #[test]
    fn growth_overshoot_and_loss_are_told_apart() {
        let steady = window(64.0);
        assert_eq!(asked(Asked::Count, &steady, None), 1.0);
        assert_eq!(asked(Asked::Exponential { rounds: 3, factor: 1.4 }, &steady, None), 1.0);
        assert_eq!(asked(Asked::Exponential { rounds: 6, factor: 1.4 }, &steady, None), 0.0);
        assert_eq!(asked(Asked::Lost { part: 0.95, after_s: 5.0 }, &steady, None), 1.0);
        assert_eq!(asked(Asked::Lost { part: 0.5, after_s: 9.0 }, &steady, None), 0.0);
        let queue = Track::new((0..20).map(|s| (f64::from(s), 70.0)).collect());
        let overshoot = || Asked::Overshoot { queue: "queue.forward".to_owned(), above_ms: 60.0 };
        assert_eq!(asked(overshoot(), &steady, Some(&queue)), 0.0, "no decrease follows");
        let mut points = steady.points().to_vec();
        points[9].1 = 50.0;
        assert_eq!(asked(overshoot(), &Track::new(points), Some(&queue)), 1.0);
        assert!(asked(overshoot(), &Track::new(vec![(0.0, 9.0)]), None).is_nan(), "no slow-down");
    }
}
