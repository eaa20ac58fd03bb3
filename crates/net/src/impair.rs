//! What happens to a packet after the queue: propagation, jitter, loss, reordering, duplication. Holds no packet: it says when.

use lowtide_units::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::random::{Random, Seed, unit};

/// The impairments of one direction. All zero is a perfect wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImpairConfig {
    /// Propagation delay.
    pub delay_ms: f64,
    /// Added to the delay: uniform between 0 and this.
    pub jitter_ms: f64,
    /// Let jitter overtake; without it a packet never arrives before one sent earlier.
    pub jitter_reorders: bool,
    /// Probability that a packet is lost, each on its own.
    pub loss: f64,
    /// Losses in bursts (Gilbert-Elliott), in addition.
    pub burst_loss: Option<BurstLoss>,
    /// Probability that a packet is held back by `reorder_ms` while others pass it.
    pub reorder: f64,
    /// How long it is held back.
    pub reorder_ms: f64,
    /// Probability that a packet arrives twice.
    pub duplicate: f64,
}

/// The Gilbert-Elliott model: a two-state chain, stepped once a packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BurstLoss {
    /// Probability of going from the good to the bad state.
    pub enter: f64,
    /// Probability of going back; the mean burst is 1/`leave` packets.
    pub leave: f64,
    /// Probability of loss in the bad state.
    #[serde(default = "always")]
    pub loss_bad: f64,
    /// Probability of loss in the good state.
    #[serde(default)]
    pub loss_good: f64,
}

fn always() -> f64 {
    1.0
}

/// An impairment that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("impairment `{key}` = {value}: must be {allowed}")]
pub struct ImpairError {
    key: &'static str,
    value: f64,
    allowed: &'static str,
}

impl ImpairError {
    /// The key, below the impairments.
    pub fn key(&self) -> &'static str {
        self.key
    }

    /// The rule.
    pub fn rule(&self) -> String {
        format!("must be {}", self.allowed)
    }
}

impl ImpairConfig {
    /// The same values, checked.
    ///
    /// # Errors
    /// A probability outside 0..1 or a time below zero.
    pub fn check(&self) -> Result<(), ImpairError> {
        let burst = self.burst_loss.unwrap_or(BurstLoss { enter: 0.0, leave: 0.0, loss_bad: 0.0, loss_good: 0.0 });
        let probabilities = [
            ("loss", self.loss),
            ("reorder", self.reorder),
            ("duplicate", self.duplicate),
            ("burst_loss.enter", burst.enter),
            ("burst_loss.leave", burst.leave),
            ("burst_loss.loss_bad", burst.loss_bad),
            ("burst_loss.loss_good", burst.loss_good),
        ];
        for (key, value) in probabilities {
            if !(0.0..=1.0).contains(&value) {
                return Err(ImpairError { key, value, allowed: "a probability between 0 and 1" });
            }
        }
        for (key, value) in [("delay_ms", self.delay_ms), ("jitter_ms", self.jitter_ms), ("reorder_ms", self.reorder_ms)] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(ImpairError { key, value, allowed: "a time in ms, not below 0" });
            }
        }
        Ok(())
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It does not arrive.
    Lost,
    /// It arrives.
    Arrives {
        /// When.
        at: Time,
        /// When its copy arrives, if it has one.
        duplicate_at: Option<Time>,
    },
}

/// The impairments of one direction of one link.
#[derive(Clone, Debug)]
pub struct Impairments {
    config: ImpairConfig,
    delay: Span,
    loss: Random,
    jitter: Random,
    reorder: Random,
    duplicate: Random,
    in_burst: bool,
    last_arrival: Time,
    /// Nothing but the delay.
    perfect: bool,
}

impl Impairments {
    /// Impairments that draw from `seed`, each from a stream of its own: which packets are lost is the same with and without
    /// jitter. The configuration is one that [`ImpairConfig::check`] accepts.
    pub fn new(config: &ImpairConfig, seed: Seed) -> Impairments {
        Impairments {
            config: *config,
            delay: Span::from_millis_f64(config.delay_ms),
            loss: seed.of("loss").generator(),
            jitter: seed.of("jitter").generator(),
            reorder: seed.of("reorder").generator(),
            duplicate: seed.of("duplicate").generator(),
            in_burst: false,
            last_arrival: Time::ZERO,
            perfect: ImpairConfig { delay_ms: 0.0, ..*config } == ImpairConfig::default(),
        }
    }

    /// The fate of a packet whose last bit left at `now`. A perfect wire draws no random number.
    #[inline]
    pub fn pass(&mut self, now: Time) -> Fate {
        if self.perfect { Fate::Arrives { at: now + self.delay, duplicate_at: None } } else { self.impair(now) }
    }

    fn impair(&mut self, now: Time) -> Fate {
        if self.loses() {
            return Fate::Lost;
        }
        let at = self.arrival(now);
        let duplicate_at = happens(self.config.duplicate, &mut self.duplicate).then(|| self.arrival(now));
        Fate::Arrives { at, duplicate_at }
    }

    fn loses(&mut self) -> bool {
        let burst_loss = match self.config.burst_loss {
            None => false,
            Some(model) => {
                let flip = if self.in_burst { model.leave } else { model.enter };
                self.in_burst ^= happens(flip, &mut self.loss);
                happens(if self.in_burst { model.loss_bad } else { model.loss_good }, &mut self.loss)
            }
        };
        happens(self.config.loss, &mut self.loss) || burst_loss
    }

    fn arrival(&mut self, now: Time) -> Time {
        let mut at = now + self.delay;
        if self.config.jitter_ms > 0.0 {
            at += Span::from_millis_f64(self.config.jitter_ms * unit(&mut self.jitter));
            if !self.config.jitter_reorders {
                at = at.max(self.last_arrival);
            }
        }
        self.last_arrival = self.last_arrival.max(at);
        if happens(self.config.reorder, &mut self.reorder) {
            at += Span::from_millis_f64(self.config.reorder_ms);
        }
        at
    }
}

/// Nothing is drawn for what never happens.
fn happens(probability: f64, random: &mut Random) -> bool {
    probability > 0.0 && unit(random) < probability
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKETS: u64 = 200_000;

    fn fates(config: ImpairConfig) -> Vec<Fate> {
        config.check().expect("a possible impairment");
        let mut path = Impairments::new(&config, Seed::new(7));
        (0..PACKETS).map(|i| path.pass(Time::from_nanos(i * 100_000))).collect()
    }

    fn share(fates: &[Fate], test: impl Fn(&Fate) -> bool) -> f64 {
        fates.iter().filter(|f| test(f)).count() as f64 / fates.len() as f64
    }

    fn arrivals(fates: &[Fate]) -> Vec<Time> {
        fates.iter().filter_map(|f| if let Fate::Arrives { at, .. } = f { Some(*at) } else { None }).collect()
    }

    #[test]
    fn a_perfect_wire_is_exactly_its_delay() {
        let fates = fates(ImpairConfig { delay_ms: 60.0, ..ImpairConfig::default() });
        for (i, at) in arrivals(&fates).iter().enumerate() {
            assert_eq!(at.nanos(), i as u64 * 100_000 + 60_000_000);
        }
        assert_eq!(arrivals(&fates).len() as u64, PACKETS);
    }

    #[test]
    fn loss_and_duplication_have_their_rates() {
        let fates = fates(ImpairConfig { loss: 0.03, duplicate: 0.1, ..ImpairConfig::default() });
        assert!((share(&fates, |f| *f == Fate::Lost) - 0.03).abs() < 0.002);
        let doubled = share(&fates, |f| matches!(f, Fate::Arrives { duplicate_at: Some(_), .. }));
        assert!((doubled - 0.1 * 0.97).abs() < 0.003, "{doubled}");
    }

    /// Stationary loss enter/(enter+leave), mean burst 1/leave.
    #[test]
    fn bursts_have_their_rate_and_length() {
        let model = BurstLoss { enter: 0.01, leave: 0.2, loss_bad: 1.0, loss_good: 0.0 };
        let fates = fates(ImpairConfig { burst_loss: Some(model), ..ImpairConfig::default() });
        let lost = share(&fates, |f| *f == Fate::Lost);
        assert!((lost - 0.01 / 0.21).abs() < 0.004, "{lost}");
        let bursts = fates.windows(2).filter(|w| w[0] != Fate::Lost && w[1] == Fate::Lost).count();
        let mean = lost * PACKETS as f64 / bursts as f64;
        assert!((mean - 5.0).abs() < 0.3, "{mean}");
    }

    #[test]
    fn jitter_keeps_the_order_unless_told_otherwise() {
        let jitter = ImpairConfig { delay_ms: 10.0, jitter_ms: 5.0, ..ImpairConfig::default() };
        assert!(arrivals(&fates(jitter)).is_sorted());
        let free = arrivals(&fates(ImpairConfig { jitter_reorders: true, ..jitter }));
        assert!(!free.is_sorted());
        let mean = free.iter().enumerate().map(|(i, at)| at.nanos() as f64 - i as f64 * 1e5).sum::<f64>() / free.len() as f64;
        assert!((mean - 12.5e6).abs() < 0.05e6, "{mean}");
    }

    #[test]
    fn a_reordered_packet_is_passed_by_others_and_holds_none_back() {
        let arrivals = arrivals(&fates(ImpairConfig { delay_ms: 10.0, reorder: 0.05, reorder_ms: 2.0, ..ImpairConfig::default() }));
        let late = arrivals.iter().enumerate().filter(|(i, at)| at.nanos() == *i as u64 * 100_000 + 12_000_000).count();
        let on_time = arrivals.iter().enumerate().filter(|(i, at)| at.nanos() == *i as u64 * 100_000 + 10_000_000).count();
        assert_eq!((late + on_time) as u64, PACKETS);
        assert!((late as f64 / PACKETS as f64 - 0.05).abs() < 0.003, "{late}");
    }

    #[test]
    fn an_impossible_impairment_is_named() {
        let e = ImpairConfig { loss: 1.5, ..ImpairConfig::default() }.check().expect_err("above one").to_string();
        assert_eq!(e, "impairment `loss` = 1.5: must be a probability between 0 and 1");
        assert!(ImpairConfig { delay_ms: f64::NAN, ..ImpairConfig::default() }.check().is_err());
    }
}
