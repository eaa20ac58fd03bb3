//! A log histogram of spans: fixed memory, one addition a sample, quantiles within 0.8 %. Knows nothing of what it counts.

use crate::Span;

/// Buckets per doubling: a relative width of 1/64.
const BITS: u32 = 6;
/// Spans up to 2^40 ns (18 minutes) have buckets of their own.
const BUCKETS: usize = ((40 - BITS as usize) << BITS) + (1 << BITS);

/// Counts of spans by magnitude, with an exact sum, minimum and maximum.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u32>,
    count: u64,
    sum: u128,
    min: Span,
    max: Span,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: Vec::new(), count: 0, sum: 0, min: Span::MAX, max: Span::ZERO }
    }
}

impl Histogram {
    /// Adds one sample.
    #[inline]
    pub fn add(&mut self, span: Span) {
        let bucket = bucket_of(span.nanos());
        match self.counts.get_mut(bucket) {
            Some(count) => *count += 1,
            None => self.add_first_of(bucket),
        }
        self.count += 1;
        self.sum += u128::from(span.nanos());
        self.min = self.min.min(span);
        self.max = self.max.max(span);
    }

    #[cold]
    fn add_first_of(&mut self, bucket: usize) {
        self.counts.resize(bucket + 1, 0);
        self.counts[bucket] = 1;
    }

    /// Adds all of `other`'s samples.
    pub fn merge(&mut self, other: &Histogram) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Samples so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The exact mean; zero without samples.
    pub fn mean(&self) -> Span {
        Span::from_nanos(self.sum.checked_div(u128::from(self.count)).unwrap_or(0) as u64)
    }

    /// The exact minimum; zero without samples.
    pub fn min(&self) -> Span {
        if self.count == 0 { Span::ZERO } else { self.min }
    }

    /// The exact maximum.
    pub fn max(&self) -> Span {
        self.max
    }

    /// The value that a part `q` of the samples do not exceed, to half a bucket; zero without samples.
    pub fn quantile(&self, q: f64) -> Span {
        let rank = (q * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += u64::from(count);
            if seen >= rank {
                let middle = (lower(bucket) + lower(bucket + 1)) / 2;
                return Span::from_nanos(middle).clamp(self.min, self.max);
            }
        }
        self.max
    }
}

#[inline]
fn bucket_of(ns: u64) -> usize {
    if ns < 1 << BITS {
        return ns as usize;
    }
    let exponent = 63 - ns.leading_zeros() - BITS;
    (((exponent as usize) << BITS) + (ns >> exponent) as usize).min(BUCKETS - 1)
}

fn lower(bucket: usize) -> u64 {
    if bucket < 2 << BITS {
        return bucket as u64;
    }
    let exponent = (bucket >> BITS) - 1;
    ((bucket & ((1 << BITS) - 1)) as u64 + (1 << BITS)) << exponent
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_even_spread_gives_its_quantiles() {
        let mut h = Histogram::default();
        (1..=1000).for_each(|ms| h.add(Span::from_millis(ms)));
        for (q, ms) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0)] {
            let got = h.quantile(q).millis_f64();
            assert!((got - ms).abs() < 0.009 * ms, "{q}: {got}");
        }
        assert_eq!((h.min(), h.max(), h.mean()), (Span::from_millis(1), Span::from_millis(1000), Span::from_millis_f64(500.5)));
        assert_eq!(Histogram::default().quantile(0.5), Span::ZERO);
    }

    proptest! {
        #[test]
        fn every_value_lies_in_its_bucket(ns in 0u64..1 << 40) {
            let bucket = bucket_of(ns);
            prop_assert!(lower(bucket) <= ns && (ns < lower(bucket + 1) || bucket == BUCKETS - 1));
        }
    }
}
