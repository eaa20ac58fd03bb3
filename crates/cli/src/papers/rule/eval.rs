//! Decides rules: goes through the points that a line is about, and says where it holds by the least or fails by the most. Reads
//! values through [`Data`] only.

use anyhow::{Result, bail};

use super::compile::{self, Compiled, Known, KnownBody, KnownWhat, Metric};
use super::{Order, Value, Where, stats};

/// Where in the sweeps a point stands.
pub type Place = Vec<(String, Value)>;

/// What was measured.
pub trait Data {
    /// The values that `sweep` of an experiment takes in this run.
    fn values(&self, experiment: usize, sweep: &str) -> Vec<Value>;

    /// The metric's value at a place; not a number where a run did not have it (a transfer that did not end).
    ///
    /// # Errors
    /// No such point.
    fn value(&self, metric: &Metric, place: &Place) -> Result<f64>;
}

/// What became of a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    pub holds: bool,
    /// The points it was asked of, and of how many it is not true.
    pub asked: usize,
    pub failed: usize,
    /// The point where it is nearest to failing, or fails by the most: both sides there, and by how much it holds.
    pub worst: Seen,
}

/// A line at one point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    pub place: Place,
    /// The values of what is compared, in the order in which it is written.
    pub sides: Vec<f64>,
    /// Which of them is measured first, and which others are.
    pub measured: usize,
    pub against: Vec<usize>,
    pub holds: bool,
    /// Negative where it does not hold.
    pub margin: f64,
}

/// Decides a line.
///
/// # Errors
/// A line about no point, or about one that is not there.
pub fn decide(line: &Compiled, data: &dyn Data, own: usize) -> Result<Decided> {
    let all = everywhere(line, data, own)?;
    let key = |seen: &Seen| (u8::from(seen.holds), relative(seen));
    let worst = all.iter().min_by(|a, b| key(a).0.cmp(&key(b).0).then(key(a).1.total_cmp(&key(b).1)));
    let Some(worst) = worst else { bail!("`{}`: no point of this run falls under it", line.text) };
    let failed = all.iter().filter(|seen| !seen.holds).count();
    Ok(Decided { holds: failed == 0, asked: all.len(), failed, worst: worst.clone() })
}

/// A line at every place that it is about.
///
/// # Errors
/// A point that is not there.
pub fn everywhere(line: &Compiled, data: &dyn Data, own: usize) -> Result<Vec<Seen>> {
    places(own, &line.open, &line.conditions, data).iter().map(|place| at(line, data, own, place)).collect()
}

/// The margin in parts of what is compared, so that points of different sizes can be: what is not a number is worst of all.
fn relative(seen: &Seen) -> f64 {
    let size = seen.sides.iter().map(|s| s.abs()).filter(|s| s.is_finite()).fold(0.0, f64::max);
    if seen.margin.is_nan() { f64::NEG_INFINITY } else { seen.margin / size.max(1e-12) }
}

/// Every place of these sweeps that the conditions admit.
fn places(experiment: usize, sweeps: &[String], conditions: &[Where], data: &dyn Data) -> Vec<Place> {
    let admits = |name: &str, value: &Value| conditions.iter().filter(|c| c.name == name).all(|c| c.admits(value));
    sweeps.iter().fold(vec![Place::new()], |places, name| {
        let values: Vec<Value> = data.values(experiment, name).into_iter().filter(|v| admits(name, v)).collect();
        let with = |place: &Place, value: &Value| place.iter().cloned().chain([(name.clone(), value.clone())]).collect();
        places.iter().flat_map(|place| values.iter().map(move |value| with(place, value))).collect()
    })
}

/// The line at one place.
///
/// # Errors
/// A point that is not there.
pub fn at(line: &Compiled, data: &dyn Data, own: usize, place: &Place) -> Result<Seen> {
    let number = |expr: &Known| number(expr, data, place);
    let (sides, measured, against, holds, margin) = match &line.what {
        KnownWhat::Chain(exprs, orders) => {
            let sides = exprs.iter().map(number).collect::<Result<Vec<_>>>()?;
            let pairs = || orders.iter().zip(sides.windows(2));
            let holds = pairs().all(|(order, pair)| order.holds(pair[0], pair[1]));
            let margin = stats::smallest(&pairs().map(|(order, pair)| order.margin(pair[0], pair[1])).collect::<Vec<_>>());
            let measured: Vec<usize> = (0..exprs.len()).filter(|n| !compile::is_constant(&exprs[*n])).collect();
            let (first, others) = measured.split_first().map_or((0, Vec::new()), |(first, others)| (*first, others.to_vec()));
            (sides, first, others, holds, margin)
        }
        KnownWhat::Near { got, want, part, least } => {
            let against = Vec::from_iter((!compile::is_constant(want)).then_some(1));
            let (got, want) = (number(got)?, number(want)?);
            let margin = (want.abs() * part).max(*least) - (got - want).abs();
            (vec![got, want], 0, against, margin >= 0.0, margin)
        }
        KnownWhat::Trend { what, rises, with } => {
            let values = places(own, std::slice::from_ref(with), &line.conditions, data);
            if values.len() < 2 {
                bail!("`{}`: {} value(s) of `{with}` in this run are no trend", line.text, values.len());
            }
            let ys =
                values.iter().map(|v| self::number(what, data, &place.iter().chain(v).cloned().collect())).collect::<Result<Vec<_>>>()?;
            let step = stats::smallest(&ys.windows(2).map(|w| if *rises { w[1] - w[0] } else { w[0] - w[1] }).collect::<Vec<_>>());
            let others = (1..ys.len()).collect();
            (ys, 0, others, step > 0.0, step)
        }
    };
    Ok(Seen { place: place.clone(), sides, measured, against, holds, margin })
}

/// The value of an expression at a place.
///
/// # Errors
/// A point that is not there.
pub fn number(expr: &Known, data: &dyn Data, place: &Place) -> Result<f64> {
    Ok(match expr {
        Known::Number(n) => *n,
        Known::Minus(inner) => -number(inner, data, place)?,
        Known::Place(name) => match place.iter().rev().find(|p| p.0 == *name) {
            Some((_, Value::Number(n))) => *n,
            _ => bail!("`{name}` is no number here"),
        },
        Known::Metric(metric) => {
            let open = metric.open.iter().filter_map(|name| place.iter().rev().find(|p| p.0 == *name)).cloned();
            data.value(metric, &metric.fixed.iter().cloned().chain(open).collect())?
        }
        Known::Binary(sign, a, b) => {
            let (a, b) = (number(a, data, place)?, number(b, data, place)?);
            match sign {
                '+' => a + b,
                '-' => a - b,
                '*' => a * b,
                _ => a / b,
            }
        }
        Known::Of(name, several) => {
            let values = several.iter().map(|e| number(e, data, place)).collect::<Result<Vec<_>>>()?;
            if name == "abs" { values.first().map_or(f64::NAN, |v| v.abs()) } else { of_values(name, &values) }
        }
        Known::Over(name, body, over) => {
            let sweeps: Vec<String> = over.conditions.iter().map(|c| c.name.clone()).fold(Vec::new(), |mut all, name| {
                if !all.contains(&name) {
                    all.push(name);
                }
                all
            });
            let inner = places(over.experiment, &sweeps, &over.conditions, data);
            if inner.is_empty() {
                bail!("no point of this run falls under `{name}(… over {} …)`", sweeps.join(", "));
            }
            let one = |more: &Place| {
                let x = match more.first() {
                    Some((_, Value::Number(n))) => *n,
                    _ => f64::NAN,
                };
                let within: Place = place.iter().chain(more).cloned().collect();
                Ok((x, body_at(body, data, &within)?))
            };
            let points = inner.iter().map(one).collect::<Result<Vec<_>>>()?;
            if matches!(name.as_str(), "max_before" | "min_before") {
                return before(name, body, &points, &inner, data, place);
            }
            of_points(name, &points)
        }
    })
}

/// The largest or the smallest of a comparison's first side where x is below that from which on the comparison holds; not a number if
/// there is no such x.
fn before(name: &str, body: &KnownBody, points: &[(f64, f64)], inner: &[Place], data: &dyn Data, place: &Place) -> Result<f64> {
    let KnownBody::Truth(sides, _) = body else { return Ok(f64::NAN) };
    let from = stats::from_on(points);
    let below = points.iter().zip(inner).filter(|(point, _)| point.0 < from);
    let values =
        below.map(|(_, more)| number(&sides[0], data, &place.iter().chain(more).cloned().collect())).collect::<Result<Vec<_>>>()?;
    Ok(if values.is_empty() { f64::NAN } else { of_values(if name == "max_before" { "max" } else { "min" }, &values) })
}

fn body_at(body: &KnownBody, data: &dyn Data, place: &Place) -> Result<f64> {
    match body {
        KnownBody::Number(expr) => number(expr, data, place),
        KnownBody::Truth(sides, orders) => {
            let sides = sides.iter().map(|e| number(e, data, place)).collect::<Result<Vec<_>>>()?;
            let holds = |(order, pair): (&Order, &[f64])| order.holds(pair[0], pair[1]);
            Ok(f64::from(u8::from(orders.iter().zip(sides.windows(2)).all(holds))))
        }
    }
}

fn of_values(name: &str, values: &[f64]) -> f64 {
    match name {
        "mean" | "part" => stats::mean(values),
        "median" => stats::median(values),
        "max" => stats::largest(values),
        "min" => stats::smallest(values),
        "sd" => stats::sd(values),
        "range" => stats::largest(values) - stats::smallest(values),
        "sum" | "count" => values.iter().sum(),
        _ => f64::NAN,
    }
}

fn of_points(name: &str, points: &[(f64, f64)]) -> f64 {
    let values: Vec<f64> = points.iter().map(|p| p.1).collect();
    match name {
        "spearman" => stats::spearman(points),
        "argmax" => stats::argmax(points),
        "argmin" => stats::argmax(&points.iter().map(|p| (p.0, -p.1)).collect::<Vec<_>>()),
        "first" => stats::first(points),
        "from_on" => stats::from_on(points),
        "largest_rise" => stats::largest_rise(points),
        "largest_climb" => stats::largest_climb(points),
        "largest_ratio" => stats::largest_ratio(points),
        "largest_step" => stats::largest_step(points),
        "mean_step" => stats::mean(&stats::steps(points)),
        _ => of_values(name, &values),
    }
}

#[cfg(test)]
mod tests {
    use super::super::compile::{Names, Scope};
    use super::super::parse;
    use super::*;

    /// share(lbe) = rtt / 100 in fig07, twice that in fig16, 0.5 of its companion `sender`; the paper prints 0.2.
    struct Ramp;

    impl Data for Ramp {
        fn values(&self, _: usize, sweep: &str) -> Vec<Value> {
            match sweep {
                "rtt" => [20.0, 60.0, 100.0].map(Value::Number).to_vec(),
                _ => ["PIE", "FQ-PIE"].map(|w| Value::Word(w.to_owned())).to_vec(),
            }
        }

        fn value(&self, metric: &Metric, place: &Place) -> Result<f64> {
            let Some((_, Value::Number(rtt))) = place.iter().find(|p| p.0 == "rtt") else { bail!("no rtt in {place:?}") };
            let queue = f64::from(u8::from(place.iter().any(|p| p.1 == Value::Word("FQ-PIE".to_owned()))));
            Ok(match (metric.printed, &metric.companion, metric.experiment) {
                (true, ..) => 0.2,
                (_, Some(_), _) => 0.5,
                (.., experiment) => rtt / 100.0 * (experiment + 1) as f64 + queue,
            })
        }
    }

    fn names() -> Vec<Names> {
        let sweeps = vec![("variant".to_owned(), Ramp.values(0, "variant")), ("rtt".to_owned(), Ramp.values(0, "rtt"))];
        let one = |figure: &str| Names {
            figure: figure.to_owned(),
            sweeps: sweeps.clone(),
            companions: vec!["sender".to_owned()],
            flows: vec!["lbe".to_owned()],
            metrics: vec!["within".to_owned()],
            printed: vec![("share.lbe".to_owned(), false)],
        };
        vec![one("fig07"), one("fig16")]
    }

    fn decided(text: &str) -> Result<Decided> {
        let names = names();
        let line = parse::lines(text)?.remove(0);
        decide(&compile::line(&line, Scope { all: &names, own: 0 })?, &Ramp, 0)
    }

    fn holds(text: &str) -> bool {
        decided(text).unwrap_or_else(|e| panic!("{text}: {e:#}")).holds
    }

    #[test]
    fn a_line_holds_where_it_holds_at_every_point_it_is_about() {
        assert!(holds("share(lbe) >= 0.2") && !holds("share(lbe) >= 0.21") && holds("share(lbe) >= 0.6 for rtt >= 60"));
        assert!(holds("share(lbe, PIE) <= 1") && holds("share(lbe, FQ-PIE) > 1") && holds("share(lbe) > 1 for variant = FQ-PIE"));
        assert!(holds("share(lbe, PIE, rtt = 60) = 0.6") && holds("share(lbe, PIE) < share(lbe, PIE, fig16)"));
        assert!(holds("share(lbe, PIE) = rtt / 100") && holds("share(lbe, sender) = 0.5") && holds("0.2 <= share(lbe, PIE) <= 1"));
        assert!(holds("share(lbe, PIE) = paper(share(lbe)) ± 10 % or 0.4 for rtt <= 60"));
        assert!(!holds("share(lbe, PIE) = paper(share(lbe)) ± 10 % or 0.39 for rtt <= 60"));
        assert!(holds("share(lbe) rises with rtt") && !holds("share(lbe) falls with rtt for rtt >= 60"));
    }

    #[test]
    fn functions_of_several_points_leave_the_other_sweeps_open() {
        assert!(holds("mean(share(lbe) over rtt >= 60) - mean(share(lbe) over rtt < 60) = 0.6"));
        assert!(holds("mean(share(lbe) over rtt, variant) = 1.1") && holds("spearman(share(lbe) over rtt) = 1"));
        assert!(holds("from_on(share(lbe) >= 0.5 over rtt) = 60 for variant = PIE") && holds("argmax(share(lbe) over rtt) = 100"));
        assert!(holds("count(share(lbe) > 0.5 over rtt, variant) = 5") && holds("part(share(lbe, PIE) > 0.5 over rtt) = 2 / 3"));
        assert!(holds("mean(share(lbe, fig16, PIE) over rtt) = 1.2") && holds("max(share(lbe), 3) = 3") && holds("abs(-2) = 2"));
        assert!(
            holds("max_before(share(lbe) >= 0.7 over rtt) = 0.6 for variant = PIE")
                && holds("min_before(share(lbe, PIE) >= 0.7 over rtt) = 0.2")
        );
        assert!(holds("first(share(lbe) < 0.5 * max(share(lbe) over rtt) over rtt) = 20 for variant = PIE"));
    }

    #[test]
    fn the_point_nearest_to_failing_is_named_with_its_margin() {
        let seen = decided("share(lbe) <= 1 for variant = PIE").expect("decidable");
        assert_eq!((seen.asked, seen.failed, seen.worst.sides[0], seen.worst.margin), (3, 0, 1.0, 0.0));
        assert_eq!(seen.worst.place[1], ("rtt".to_owned(), Value::Number(100.0)));
        let seen = decided("share(lbe) <= 1").expect("decidable");
        assert_eq!((seen.asked, seen.failed, seen.worst.sides[0]), (6, 3, 2.0));
    }

    #[test]
    fn names_that_mean_nothing_and_lines_about_nothing_are_errors_that_say_what_there_is() {
        for (text, part) in [
            ("shaer(lbe) > 0", "no metric `shaer`; of a flow: goodput"),
            ("share > 0", "`share` is a flow's: `share(FLOW)`; there are lbe"),
            ("share(lbd) > 0", "`lbd` means nothing in fig07; flows: lbe"),
            ("share(lbe) > 0 for rtt > 100", "no point of this run"),
            ("share(lbe) > 0 for rtt = 50", "`rtt` is never 50; it is 20, 60, 100"),
            ("share(lbe) > 0 for rate > 1", "nothing in it depends on `rate`"),
            ("share(lbe, rtt = 20) > 0 for rtt > 1", "nothing in it depends on `rtt`; it depends on variant"),
            ("mean(share(lbe) over n) > 0", "depends on `n`"),
            ("share(lbe) rises with rtt for rtt = 20", "no trend"),
            ("from_on(share(lbe) over rtt) > 0", "asked of a comparison"),
            ("paper(within) > 0", "no printed values of `within`"),
        ] {
            let error = format!("{:#}", decided(text).expect_err(text));
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_not_a_number_holds_nothing() {
        for order in [Order::Less, Order::AtMost, Order::More, Order::AtLeast, Order::Equal, Order::Unequal] {
            assert!(!order.holds(f64::NAN, 1.0) && !order.holds(1.0, f64::NAN), "{order:?}");
        }
    }
}
