//! The largest rate of the last rounds as ns-3.37's `WindowedFilter` finds it: three candidates. Knows rounds and rates.

/// `BwWindowLength`, in rounds.
const ROUNDS: u64 = 10;

/// `MaxBandwidthFilter_t`. Candidates are (round, bit/s), from the best down.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateMax {
    /// `m_zeroValue`: where the best is this, whatever comes takes its place.
    first: u64,
    best: [(u64, u64); 3],
}

impl RateMax {
    /// A filter that holds the guess that a flow starts with.
    pub(super) fn new(first: u64) -> RateMax {
        RateMax { first, best: [(0, first); 3] }
    }

    pub(super) fn max(&self) -> u64 {
        self.best[0].1
    }

    /// `Update`.
    pub(super) fn update(&mut self, round: u64, bps: u64) {
        let new = (round, bps);
        let [first, second, third] = &mut self.best;
        if first.1 == self.first || bps >= first.1 || round - third.0 > ROUNDS {
            self.best = [new; 3];
            return;
        }
        if bps >= second.1 {
            (*second, *third) = (new, new);
        } else if bps >= third.1 {
            *third = new;
        }
        if round - first.0 > ROUNDS {
            (*first, *second, *third) = (*second, *third, new);
            if round - first.0 > ROUNDS {
                (*first, *second) = (*second, *third);
            }
        } else if second.1 == first.1 && round - second.0 > ROUNDS / 4 {
            (*second, *third) = (new, new);
        } else if third.1 == second.1 && round - third.0 > ROUNDS / 2 {
            *third = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_guess_gives_way_to_whatever_comes() {
        let mut rate = RateMax::new(2_896_000);
        rate.update(1, 142_500);
        assert_eq!(rate.max(), 142_500);
        rate.update(1, 100_000);
        assert_eq!(rate.max(), 142_500);
    }

    /// 50 of round 1 lasts to round 11. Of what fell from 49 to 40 since, three candidates are kept: at the end of a quarter and of half
    /// of the window, not each round's.
    #[test]
    fn a_maximum_lasts_ten_rounds_and_what_follows_is_one_of_three() {
        let mut rate = RateMax::new(1);
        rate.update(1, 50);
        for round in 2..=11 {
            rate.update(round, 51 - round);
            assert_eq!(rate.max(), 50, "round {round}");
        }
        rate.update(12, 39);
        assert_eq!(rate.max(), 47);
    }
}
