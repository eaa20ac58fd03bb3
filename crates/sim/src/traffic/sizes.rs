//! How large random transfers are: what a scenario says of their distribution, and a draw from it. Knows no flow.

use lowtide_net::random::{Random, unit};

/// A distribution of sizes in bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// With this mean.
    Exponential(f64),
    /// From `least` on, with the tail `(least / x)^shape`.
    Pareto {
        /// The smallest.
        least: f64,
        /// Above 1; the smaller, the heavier the tail.
        shape: f64,
    },
    /// Points of the cumulative distribution, `[bytes, part that is no larger]`, even in between.
    Points(Vec<[f64; 2]>),
}

impl Sizes {
    /// Pareto's distribution with this mean.
    pub fn pareto(mean: f64, shape: f64) -> Sizes {
        Sizes::Pareto { least: mean * (shape - 1.0) / shape, shape }
    }

    /// One size, at least a byte.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let part = unit(random);
        let bytes = match self {
            Sizes::Exponential(mean) => -libm::log(1.0 - part) * mean,
            Sizes::Pareto { least, shape } => least * libm::pow(1.0 - part, -1.0 / shape),
            Sizes::Points(points) => between(points, part),
        };
        bytes.ceil().max(1.0) as u64
    }
}

/// The size that `part` of all do not exceed. What the first point says is exactly of its size.
fn between(points: &[[f64; 2]], part: f64) -> f64 {
    let above = points.partition_point(|point| point[1] <= part);
    match (above.checked_sub(1).map(|below| points[below]), points.get(above)) {
        (Some(below), Some(above)) => below[0] + (above[0] - below[0]) * (part - below[1]) / (above[1] - below[1]),
        (None, Some(first)) => first[0],
        (Some(last), None) => last[0],
        (None, None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use lowtide_net::Seed;

    use super::*;

    fn drawn(sizes: &Sizes) -> Vec<u64> {
        let mut rng = Seed::new(1).generator();
        let mut all: Vec<u64> = (0..100_000).map(|_| sizes.draw(&mut rng)).collect();
        all.sort_unstable();
        all
    }

    fn mean(sizes: &[u64]) -> f64 {
        sizes.iter().sum::<u64>() as f64 / sizes.len() as f64
    }

    #[test]
    fn the_mean_is_what_was_asked_for() {
        for sizes in [Sizes::Exponential(50_000.0), Sizes::pareto(50_000.0, 2.5)] {
            let mean = mean(&drawn(&sizes));
            assert!((mean / 50_000.0 - 1.0).abs() < 0.02, "{sizes:?}: {mean}");
        }
    }

    /// Of shape 1.2 the median is least × 2^(1/1.2), and a part in a thousand exceeds least × 1000^(1/1.2).
    #[test]
    fn paretos_tail_is_heavy() {
        let all = drawn(&Sizes::pareto(60_000.0, 1.2));
        let quantile = |part: f64| all[(part * all.len() as f64) as usize] as f64 / 10_000.0;
        assert!((quantile(0.5) - 1.782).abs() < 0.02 && (quantile(0.999) / 316.2 - 1.0).abs() < 0.15, "{}", quantile(0.999));
        assert!((all[0] as f64 / 10_000.0 - 1.0).abs() < 0.01);
    }

    #[test]
    fn points_are_met_and_what_lies_between_is_even() {
        let all = drawn(&Sizes::Points(vec![[1000.0, 0.25], [2000.0, 0.5], [1e6, 1.0]]));
        let part = |bytes: u64| all.partition_point(|size| *size <= bytes) as f64 / all.len() as f64;
        for (bytes, expected) in [(999, 0.0), (1000, 0.25), (1500, 0.375), (2000, 0.5), (501_000, 0.75), (1_000_000, 1.0)] {
            assert!((part(bytes) - expected).abs() < 0.01, "{bytes}: {}", part(bytes));
        }
        assert!(drawn(&Sizes::Points(vec![[700.0, 1.0]])).iter().all(|size| *size == 700));
    }
}
