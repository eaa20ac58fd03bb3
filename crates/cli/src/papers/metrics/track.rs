//! A quantity over time (or over packets), and what can be taken from it as one number. Knows neither paper nor simulator.

use std::rc::Rc;

/// Values over time, without the times at which nothing is known.
#[derive(Clone, Debug, Default)]
pub struct Track(Rc<Vec<(f64, f64)>>);

impl Track {
    /// A track of `points`, in order.
    pub fn new(points: Vec<(f64, f64)>) -> Track {
        Track(Rc::new(points))
    }

    /// Its points in order of time.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.0
    }

    /// Its values in order.
    pub fn values(&self) -> impl Iterator<Item = f64> {
        self.0.iter().map(|p| p.1)
    }

    /// What lies from `from` to `to`, both included.
    pub fn between(&self, from: f64, to: f64) -> Track {
        Track(Rc::new(self.0.iter().copied().filter(|p| p.0 >= from && p.0 <= to).collect()))
    }

    /// The mean of its values.
    pub fn mean(&self) -> f64 {
        self.values().sum::<f64>() / self.0.len() as f64
    }

    /// Its integral since time zero; each value holds for the interval that ends at it.
    pub fn integral(&self) -> Track {
        let (mut sum, mut last) = (0.0, 0.0);
        let add = |&(t, v): &(f64, f64)| {
            sum += v * (t - last);
            last = t;
            (t, sum)
        };
        Track(Rc::new(self.0.iter().map(add).collect()))
    }

    /// The mean since time zero, which some programs show as throughput.
    pub fn running(&self) -> Track {
        Track(Rc::new(self.integral().0.iter().filter(|p| p.0 > 0.0).map(|p| (p.0, p.1 / p.0)).collect()))
    }

    /// Bytes so far, of a rate in Mbit/s.
    pub fn received(&self) -> Track {
        Track(Rc::new(self.integral().0.iter().map(|p| (p.0, p.1 * 1e6 / 8.0)).collect()))
    }

    /// Where the most of it is.
    pub fn peak_at(&self) -> f64 {
        self.0.iter().copied().reduce(|most, p| if p.1 > most.1 { p } else { most }).map_or(f64::NAN, |p| p.0)
    }

    /// The sum of its products with `other` where both have a value.
    pub fn dot(&self, other: &Track) -> f64 {
        let at = |t: f64| other.0.binary_search_by(|p| p.0.total_cmp(&t)).ok().map(|i| other.0[i].1);
        self.0.iter().filter_map(|&(t, v)| Some(v * at(t)?)).sum()
    }

    /// Where it was zero for longer than `least`, and for how long. The track counts from its first value above zero.
    pub fn pauses(&self, least: f64) -> Track {
        let busy: Vec<f64> = self.0.iter().filter(|p| p.1 > 0.0).map(|p| p.0).collect();
        let interval = self.0.windows(2).map(|w| w[1].0 - w[0].0).fold(f64::INFINITY, f64::min);
        // The interval that ends at a point is the one it speaks of.
        let pauses = busy.windows(2).map(|w| (w[1] - interval, w[1] - interval - w[0]));
        Track(Rc::new(pauses.filter(|p| p.1 > least).collect()))
    }

    /// The points after which the value falls below `part` of itself.
    pub fn peaks(&self, part: f64) -> Track {
        Track(Rc::new(self.0.windows(2).filter(|w| w[1].1 < part * w[0].1).map(|w| w[0]).collect()))
    }

    /// The root of the mean square distance from `x`.
    pub fn rms_from(&self, x: f64) -> f64 {
        (self.values().map(|v| (v - x) * (v - x)).sum::<f64>() / self.0.len() as f64).sqrt()
    }

    /// The sum with `other` where both have a value.
    pub fn plus(&self, other: &Track) -> Track {
        let at = |t: f64| other.0.binary_search_by(|p| p.0.total_cmp(&t)).ok().map(|i| other.0[i].1);
        Track(Rc::new(self.0.iter().filter_map(|&(t, v)| Some((t, v + at(t)?))).collect()))
    }

    /// The smallest value that a part `q` of the values does not exceed.
    pub fn quantile(&self, q: f64) -> f64 {
        let mut values: Vec<f64> = self.values().collect();
        values.sort_by(f64::total_cmp);
        let nth = (q * values.len() as f64).ceil() as usize;
        values.get(nth.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }

    /// The part of the values that do not exceed `x`.
    pub fn at_most(&self, x: f64) -> f64 {
        self.values().filter(|v| *v <= x).count() as f64 / self.0.len() as f64
    }

    /// The times at which it falls below `x`.
    pub fn falls_below(&self, x: f64) -> Vec<f64> {
        self.0.windows(2).filter(|pair| pair[0].1 >= x && pair[1].1 < x).map(|pair| pair[1].0).collect()
    }

    /// The value that holds at `time`.
    pub fn at(&self, time: f64) -> f64 {
        self.0.iter().take_while(|p| p.0 <= time).last().map_or(f64::NAN, |p| p.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_stretches_of_zeros_and_peaks_end_in_a_fall() {
        let track = Track::new(vec![(0.0, 0.0), (1.0, 8.0), (2.0, 0.0), (3.0, 0.0), (4.0, 4.0), (5.0, 3.0)]);
        assert_eq!(track.pauses(1.5).points(), [(3.0, 2.0)]);
        assert_eq!(track.pauses(2.0).points(), []);
        assert_eq!(track.peaks(0.7).points(), [(1.0, 8.0)]);
        assert_eq!(track.falls_below(1.0), [2.0]);
    }

    #[test]
    fn what_a_track_says_of_a_time_is_what_it_said_last() {
        let track = Track::new(vec![(1.0, 2.0), (3.0, 4.0)]);
        assert!(track.at(0.5).is_nan());
        assert_eq!((track.at(1.0), track.at(2.9), track.at(9.0)), (2.0, 2.0, 4.0));
        assert_eq!((track.between(1.0, 2.0).mean(), track.quantile(0.5), track.at_most(2.0)), (2.0, 2.0, 0.5));
        assert_eq!((track.running().at(3.0), track.received().at(3.0)), ((2.0 + 4.0 * 2.0) / 3.0, 1.25e6));
        assert_eq!((track.rms_from(3.0), track.peak_at(), track.dot(&track), track.plus(&track).mean()), (1.0, 3.0, 20.0, 6.0));
    }
}
