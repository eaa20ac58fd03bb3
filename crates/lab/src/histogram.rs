//! A histogram of spans with a relative error below 2 %: constant memory for a run of any length. Knows nothing of links.

use lowtide_units::Span;

/// Sub-buckets a power of two, as bits: a bucket is at most 1/64 wide.
const SUB_BITS: u32 = 6;
const SUB: usize = 1 << SUB_BITS;

/// Counts of spans.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    max: Span,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; SUB * (65 - SUB_BITS as usize)], total: 0, sum: 0, max: Span::ZERO }
    }
}

impl Histogram {
    /// Counts one span.
    pub fn add(&mut self, span: Span) {
        self.counts[bucket(span.nanos())] += 1;
        self.total += 1;
        self.sum += u128::from(span.nanos());
        self.max = self.max.max(span);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The largest span.
    pub fn max(&self) -> Span {
        self.max
    }

    /// The mean, zero where nothing was counted.
    pub fn mean(&self) -> Span {
        Span::from_nanos((self.sum / u128::from(self.total.max(1))) as u64)
    }

    /// The span that a part `q` of all spans does not exceed, zero where nothing was counted.
    pub fn quantile(&self, q: f64) -> Span {
        let rank = (q * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Span::from_nanos(lower_edge(index + 1) - 1).min(self.max);
            }
        }
        Span::ZERO
    }
}

fn bucket(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(SUB_BITS + 1);
    // From `SUB` on, each power of two has SUB buckets; below, a bucket is one nanosecond.
    SUB * shift as usize + (value >> shift) as usize
}

fn lower_edge(index: usize) -> u64 {
    let shift = (index / SUB).saturating_sub(1);
    ((index - SUB * shift) as u64) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_starts_at_its_lower_edge_and_is_at_most_a_64th_wide() {
        for value in (0..200_000).chain((1..40).map(|n| (1 << n) + n)) {
            let index = bucket(value);
            let (low, high) = (lower_edge(index), lower_edge(index + 1));
            assert!(low <= value && value < high && (high - low) * 64 <= value.max(64), "{value}: {low}..{high}");
        }
    }

    #[test]
    fn quantiles_of_one_to_a_thousand_microseconds() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|us| histogram.add(Span::from_micros(us)));
        assert_eq!(histogram.mean(), Span::from_nanos(500_500));
        assert_eq!(histogram.quantile(1.0), Span::from_millis(1));
        for q in [0.01, 0.5, 0.95, 0.99] {
            let exact = q * 1e6;
            assert!((histogram.quantile(q).nanos() as f64 - exact).abs() <= exact / 64.0, "{q}");
        }
        assert_eq!(Histogram::default().quantile(0.5), Span::ZERO);
    }
}
