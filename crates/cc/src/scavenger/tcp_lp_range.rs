//! The range of one-way delays as Linux's `tcp_lp.c` keeps it, and whoever copied it (ns-2, ns-3): whole milliseconds in 32 bits,
//! smoothed by eighths, forgotten at every indication. Knows no window; `tcp_lp` remembers the range instead.

/// The part of the range whose passing is an indication, in percent.
const THRESHOLD: u32 = 15;

/// Delays in ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DelayRange {
    /// The least delay of the range.
    pub min: u32,
    /// The largest.
    pub max: u32,
    /// The largest delay seen; it becomes the maximum when a larger one comes.
    reserve: u32,
    /// Eight times the smoothed delay; zero before the first sample.
    eighths: u32,
}

impl Default for DelayRange {
    fn default() -> DelayRange {
        DelayRange { min: u32::MAX, max: 0, reserve: 0, eighths: 0 }
    }
}

impl DelayRange {
    /// Takes a delay (`tcp_lp_rtt_sample`).
    pub fn sample(&mut self, delay: u32) {
        self.min = self.min.min(delay);
        if delay > self.max {
            let larger = delay > self.reserve;
            self.max = if larger && self.reserve > 0 { self.reserve } else { delay };
            self.reserve = self.reserve.max(delay);
        }
        self.eighths = if self.eighths == 0 { delay << 3 } else { (self.eighths - (self.eighths >> 3)).wrapping_add(delay) };
    }

    /// The smoothed delay.
    pub fn smoothed(&self) -> u32 {
        self.eighths >> 3
    }

    /// How far the smoothed delay is above the smallest; none before the first sample.
    pub fn queueing(&self) -> Option<u32> {
        (self.eighths > 0).then(|| self.smoothed().saturating_sub(self.min))
    }

    /// Where an indication begins; Linux counts the threshold itself as one, ns-3 does not.
    pub fn threshold(&self) -> u32 {
        self.min.wrapping_add(THRESHOLD.wrapping_mul(self.max.wrapping_sub(self.min)) / 100)
    }

    /// After an indication: from the smoothed delay to twice that (`tcp_lp_pkts_acked`).
    pub fn start_afresh(&mut self) {
        self.min = self.eighths >> 3;
        self.max = self.eighths >> 2;
        self.reserve = self.max;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 25 then 60: in eighths 200, 235, 266; the second largest is the maximum until a larger one comes.
    #[test]
    fn samples_are_smoothed_and_the_largest_waits() {
        let mut range = DelayRange::default();
        range.sample(25);
        assert_eq!((range.smoothed(), range.min, range.max, range.threshold()), (25, 25, 25, 25));
        range.sample(60);
        assert_eq!((range.eighths, range.smoothed(), range.max), (235, 29, 25));
        range.sample(61);
        assert_eq!((range.eighths, range.max, range.threshold()), (267, 60, 30));
        range.start_afresh();
        assert_eq!((range.min, range.max, range.reserve, range.threshold()), (33, 66, 66, 37));
    }

    #[test]
    fn before_a_sample_nothing_is_smoothed() {
        assert_eq!(DelayRange::default().smoothed(), 0);
    }
}
