//! Mean, sample deviation and quantiles of a few values: one definition of each for everybody.

/// The arithmetic mean; NaN of nothing.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The sample standard deviation, over n − 1; NaN of fewer than two values.
pub fn deviation(values: &[f64]) -> f64 {
    let m = mean(values);
    (values.iter().map(|v| (v - m) * (v - m)).sum::<f64>() / (values.len() as f64 - 1.0)).sqrt()
}

/// The smallest value that a part `q` of all do not exceed (the nearest rank); NaN of nothing.
pub fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// The middle value, of an even number the mean of the two in the middle; NaN of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_textbooks_sample_has_its_statistics() {
        let sample = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!((mean(&sample), median(&sample)), (5.0, 4.5));
        assert!((deviation(&sample) - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!([0.0, 0.5, 0.51, 0.95, 1.0].map(|q| quantile(&sample, q)), [2.0, 4.0, 5.0, 9.0, 9.0]);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert!(mean(&[]).is_nan() && median(&[]).is_nan() && quantile(&[], 0.5).is_nan() && deviation(&[1.0]).is_nan());
    }
}
