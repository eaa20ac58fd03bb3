//! Functions of several numbers that rules name, each of the points `(x, y)` in the order of x. Knows no rule.

pub use lowtide_units::statistics::{mean, median};

/// The standard deviation of the values themselves (divided by their number).
pub fn sd(values: &[f64]) -> f64 {
    let m = mean(values);
    mean(&values.iter().map(|v| (v - m) * (v - m)).collect::<Vec<_>>()).sqrt()
}

/// The largest; not a number if one is not.
pub fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) })
}

/// The smallest; not a number if one is not.
pub fn smallest(values: &[f64]) -> f64 {
    -largest(&values.iter().map(|v| -v).collect::<Vec<_>>())
}

/// Spearman's rank correlation: Pearson's over mean ranks. 0 where one of both does not vary, for then there is no trend.
pub fn spearman(points: &[(f64, f64)]) -> f64 {
    let (x, y): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    if y.iter().any(|v| v.is_nan()) {
        return f64::NAN;
    }
    let (x, y) = (ranks(&x), ranks(&y));
    let (mx, my) = (mean(&x), mean(&y));
    let covariance: f64 = x.iter().zip(&y).map(|(a, b)| (a - mx) * (b - my)).sum();
    let spread = |v: &[f64], m: f64| v.iter().map(|a| (a - m) * (a - m)).sum::<f64>();
    let product = spread(&x, mx) * spread(&y, my);
    if product > 0.0 { covariance / product.sqrt() } else { 0.0 }
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |v: &f64| {
        let below = values.iter().filter(|w| *w < v).count() as f64;
        let equal = values.iter().filter(|w| *w == v).count() as f64;
        below + (equal + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

/// The x of the largest y, the first of equals.
pub fn argmax(points: &[(f64, f64)]) -> f64 {
    points.iter().copied().reduce(|most, p| if p.1 > most.1 { p } else { most }).map_or(f64::NAN, |p| p.0)
}

/// The smallest x at which the condition (1 or 0) holds; infinite if it holds nowhere.
pub fn first(points: &[(f64, f64)]) -> f64 {
    points.iter().find(|p| p.1 > 0.0).map_or(f64::INFINITY, |p| p.0)
}

/// The smallest x from which on the condition (1 or 0) holds at every one; infinite if it does not hold at the largest.
pub fn from_on(points: &[(f64, f64)]) -> f64 {
    let from = points.iter().rposition(|p| p.1 <= 0.0).map_or(0, |last| last + 1);
    points.get(from).map_or(f64::INFINITY, |p| p.0)
}

/// The most by which y grows from one x to the next; negative where it falls at each.
pub fn largest_rise(points: &[(f64, f64)]) -> f64 {
    largest(&points.windows(2).map(|w| w[1].1 - w[0].1).collect::<Vec<_>>())
}

/// The most by which a later y is above an earlier one, neighbours or not; negative where it falls at each.
pub fn largest_climb(points: &[(f64, f64)]) -> f64 {
    let pairs = points.iter().enumerate().flat_map(|(n, a)| points[n + 1..].iter().map(move |b| b.1 - a.1));
    largest(&pairs.collect::<Vec<_>>())
}

/// The most that a later y is in times of an earlier one, neighbours or not.
pub fn largest_ratio(points: &[(f64, f64)]) -> f64 {
    let pairs = points.iter().enumerate().flat_map(|(n, a)| points[n + 1..].iter().map(move |b| b.1 / a.1));
    largest(&pairs.collect::<Vec<_>>())
}

/// The most by which two neighbours differ.
pub fn largest_step(points: &[(f64, f64)]) -> f64 {
    largest(&steps(points))
}

/// By how much each y differs from the one before.
pub fn steps(points: &[(f64, f64)]) -> Vec<f64> {
    points.windows(2).map(|w| (w[1].1 - w[0].1).abs()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_extremes() {
        assert_eq!((mean(&[1.0, 2.0, 6.0]), median(&[6.0, 1.0, 2.0]), median(&[1.0, 2.0])), (3.0, 2.0, 1.5));
        assert_eq!((sd(&[1.0, 3.0]), largest(&[1.0, 3.0]), smallest(&[1.0, 3.0])), (1.0, 3.0, 1.0));
        assert!(median(&[]).is_nan() && largest(&[1.0, f64::NAN]).is_nan() && smallest(&[f64::NAN, 1.0]).is_nan());
    }

    #[test]
    fn rank_correlation_is_that_of_the_order_and_of_nothing_where_nothing_varies() {
        assert_eq!(spearman(&[(1.0, 1.0), (2.0, 10.0), (3.0, 100.0)]), 1.0);
        assert_eq!(spearman(&[(1.0, 5.0), (2.0, 4.0), (3.0, 1.0)]), -1.0);
        assert_eq!(spearman(&[(1.0, 5.0), (2.0, 5.0)]), 0.0);
        // Ranks 1, 2.5, 2.5, 4 against 1 to 4: 4.5 / √(4.5 · 5).
        let tied = spearman(&[(1.0, 1.0), (2.0, 3.0), (3.0, 3.0), (4.0, 9.0)]);
        assert!((tied - 4.5 / (4.5f64 * 5.0).sqrt()).abs() < 1e-12, "{tied}");
        assert!(spearman(&[(1.0, f64::NAN), (2.0, 1.0)]).is_nan());
    }

    #[test]
    fn thresholds_are_found_from_either_side() {
        let holds = [(1.0, 0.0), (2.0, 1.0), (3.0, 0.0), (4.0, 1.0), (5.0, 1.0)];
        assert_eq!((first(&holds), from_on(&holds)), (2.0, 4.0));
        assert_eq!((first(&holds[..1]), from_on(&holds[..3])), (f64::INFINITY, f64::INFINITY));
        assert_eq!(from_on(&[(7.0, 1.0)]), 7.0);
    }

    #[test]
    fn rises_count_neighbours_and_climbs_any_two() {
        let y = [(1.0, 5.0), (2.0, 3.0), (3.0, 4.0), (4.0, 4.5)];
        assert_eq!((largest_rise(&y), largest_climb(&y), largest_step(&y)), (1.0, 1.5, 2.0));
        assert_eq!((largest_climb(&[(1.0, 5.0), (2.0, 3.0)]), largest_ratio(&[(1.0, 5.0), (2.0, 2.0), (3.0, 4.0)])), (-2.0, 2.0));
        assert_eq!(argmax(&y), 1.0);
        assert!(largest_rise(&y[..1]).is_infinite());
    }
}
