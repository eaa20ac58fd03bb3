//! Checks a paper's claims: a Rhai expression over the measured points. Knows neither paper nor simulator.
//!
//! `points` is an array of maps: the swept values by name (`p.rtt`), and per metric a map by flow group (`p.share.lbe`).
//! `beside` holds the points of companions by their names and of other experiments by their ids. Helpers: `mean([…])`,
//! `median([…])`, `sd([…])`, `largest([…])`, `smallest([…])`, `rising([…])` and `falling([…])` (strictly), `spearman(xs, ys)`,
//! `from_on(xs, conditions)`, the smallest x from which on the condition holds, `every(points, |p| …)`, which is `all` but an error
//! where there is no point, `near(got, want, part, least)`, and `at(points, "rtt", 20.0)`, the first point there.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use lowtide_units::statistics::{deviation, mean, median};
use rhai::{Array, Dynamic, Engine, Scope};

/// A claim about no point at all must not pass.
const PRELUDE: &str = "\
fn every(points, rule) { if points.is_empty() { throw \"no point of this run falls under the claim\"; } points.all(rule) }
fn near(got, want, part, least) { let slack = want * part; (got - want).abs() <= if slack > least { slack } else { least } }
fn at(points, key, value) { let i = points.index_of(|p| p[key] == value); if i < 0 { throw `no point with ${key} = ${value}`; } points[i] }
";

/// Evaluates claims over the points of one experiment.
pub struct Judge {
    engine: Engine,
    points: Array,
    beside: rhai::Map,
}

impl Judge {
    /// A judge over these points, each a map of values, and over others by name.
    pub fn new(points: Vec<rhai::Map>, beside: BTreeMap<String, Vec<rhai::Map>>) -> Judge {
        let mut engine = Engine::new();
        engine.set_max_expr_depths(128, 128);
        engine.register_fn("mean", |values: Array| mean(&numbers(&values)));
        engine.register_fn("largest", |values: Array| numbers(&values).into_iter().fold(f64::NAN, f64::max));
        engine.register_fn("smallest", |values: Array| numbers(&values).into_iter().fold(f64::NAN, f64::min));
        engine.register_fn("rising", |values: Array| numbers(&values).windows(2).all(|w| w[0] < w[1]));
        engine.register_fn("falling", |values: Array| numbers(&values).windows(2).all(|w| w[0] > w[1]));
        engine.register_fn("median", |values: Array| median(&numbers(&values)));
        engine.register_fn("sd", |values: Array| deviation(&numbers(&values)));
        engine.register_fn("from_on", |xs: Array, holds: Array| from_on(&numbers(&xs), &holds));
        engine.register_fn("spearman", |x: Array, y: Array| spearman(&numbers(&x), &numbers(&y)));
        let array = |points: Vec<rhai::Map>| points.into_iter().map(Dynamic::from_map).collect::<Array>();
        let beside = beside.into_iter().map(|(name, points)| (name.into(), array(points).into())).collect();
        Judge { engine, points: array(points), beside }
    }

    /// Whether `rule` holds.
    ///
    /// # Errors
    /// A rule that is no boolean expression or names a value that no point has.
    pub fn holds(&self, rule: &str) -> Result<bool> {
        let mut scope = Scope::new();
        scope.push("points", self.points.clone());
        scope.push_constant("beside", self.beside.clone());
        self.engine
            .eval_with_scope::<bool>(&mut scope, &format!("{PRELUDE}{rule}"))
            .map_err(|e| anyhow!("the rule `{rule}` cannot be decided: {e}"))
    }
}

fn numbers(values: &Array) -> Vec<f64> {
    values.iter().map(|v| v.as_float().or_else(|_| v.as_int().map(|i| i as f64)).unwrap_or(f64::NAN)).collect()
}

/// The smallest x from which on the condition holds at every one; beyond all numbers if it does not hold at the largest (and not
/// infinite: Rhai compares floats relatively, and nothing is above infinity's quotient).
fn from_on(xs: &[f64], holds: &Array) -> f64 {
    let fails = |i: usize| holds.get(i).is_none_or(|h| h.as_bool() != Ok(true));
    let last_failure = (0..xs.len()).filter(|&i| fails(i)).map(|i| xs[i]).fold(f64::NEG_INFINITY, f64::max);
    xs.iter().copied().filter(|x| *x > last_failure).fold(f64::MAX, f64::min)
}

/// Spearman's rank correlation: Pearson's over mean ranks.
fn spearman(x: &[f64], y: &[f64]) -> f64 {
    let (x, y) = (ranks(x), ranks(y));
    let (mx, my) = (mean(&x), mean(&y));
    let covariance: f64 = x.iter().zip(&y).map(|(a, b)| (a - mx) * (b - my)).sum();
    let spread = |v: &[f64], m: f64| v.iter().map(|a| (a - m) * (a - m)).sum::<f64>();
    covariance / (spread(&x, mx) * spread(&y, my)).sqrt()
}

fn ranks(values: &[f64]) -> Vec<f64> {
    values
        .iter()
        .map(|v| {
            let below = values.iter().filter(|w| *w < v).count() as f64;
            let equal = values.iter().filter(|w| *w == v).count() as f64;
            below + (equal + 1.0) / 2.0
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(rtt: f64, share: f64) -> rhai::Map {
        let shares = rhai::Map::from([("lbe".into(), Dynamic::from_float(share))]);
        rhai::Map::from([("rtt".into(), Dynamic::from_float(rtt)), ("share".into(), Dynamic::from_map(shares))])
    }

    #[test]
    fn rules_read_like_the_sheet() {
        let beside = BTreeMap::from([("other".to_owned(), vec![point(20.0, 0.5)])]);
        let judge = Judge::new(vec![point(20.0, 0.9), point(100.0, 0.88), point(300.0, 0.7)], beside);
        assert!(judge.holds("points.filter(|p| p.rtt < 200).all(|p| p.share.lbe >= 0.80)").expect("decidable"));
        assert!(!judge.holds("points.all(|p| p.share.lbe >= 0.80)").expect("decidable"));
        assert!(judge.holds("spearman(points.map(|p| p.rtt), points.map(|p| p.share.lbe)) <= -0.9").expect("decidable"));
        assert!(judge.holds("mean(points.map(|p| p.share.lbe)) < 0.83").expect("decidable"));
        assert!(judge.holds("falling(points.map(|p| p.share.lbe)) && rising(points.map(|p| p.rtt))").expect("decidable"));
        assert!(!judge.holds("rising([1.0, 2.0, 2.0]) || falling([1.0, 2.0])").expect("decidable"));
        assert!(judge.holds("largest([1.0, 3.0]) == 3.0 && smallest([2, 1.0]) == 1.0").expect("decidable"));
        assert!(judge.holds("at(points, \"rtt\", 300.0).share.lbe > beside[\"other\"][0].share.lbe").expect("decidable"));
        assert!(
            judge.holds("near(1.04, 1.0, 0.05, 0.0) && near(0.03, 0.0, 0.05, 0.03) && !near(1.06, 1.0, 0.05, 0.0)").expect("decidable")
        );
        let paired = "every(points.filter(|p| p.rtt < 50), |p| p.share.lbe > at(beside[\"other\"], \"rtt\", p.rtt).share.lbe)";
        assert!(judge.holds(paired).expect("decidable"));
        assert!(judge.holds("from_on(points.map(|p| p.rtt), points.map(|p| p.share.lbe < 0.9)) == 100.0").expect("decidable"));
        assert!(judge.holds("from_on([1.0, 2.0, 3.0], [true, true, false]) > 3.0").expect("decidable"));
        assert!(judge.holds("median([3, 1.0, 2.0]) == 2.0 && abs(sd([1.0, 3.0]) * sd([1.0, 3.0]) - 2.0) < 1e-9").expect("decidable"));
    }

    #[test]
    fn a_rule_about_nothing_is_an_error_not_a_pass() {
        let judge = Judge::new(vec![point(20.0, 0.9)], BTreeMap::new());
        assert!(judge.holds("points.all(|p| p.shaer.lbe >= 0.80)").is_err());
        assert!(judge.holds("1 + 1").is_err());
        assert!(judge.holds("every(points.filter(|p| p.rtt > 50), |p| p.share.lbe >= 0.80)").is_err());
        assert!(judge.holds("at(points, \"rtt\", 50.0).share.lbe >= 0.80").is_err());
        assert!(judge.holds("every(points, |p| p.share.lbe >= 0.80)").expect("decidable"));
    }
}
