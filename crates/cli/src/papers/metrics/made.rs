//! Metrics that are arithmetic with others of the same run. Reads no track.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

use super::Metric;
use crate::papers::measure::Values;
use crate::papers::rule::{Argument, Expr};

/// Adds the metrics that are made of others to a run's values.
///
/// # Errors
/// A name that is none of them.
pub fn make(metrics: &BTreeMap<String, Metric>, values: &mut Values) -> Result<()> {
    // Each round adds those whose parts are there by now.
    for _ in 0..metrics.len() {
        for (name, metric) in metrics {
            if let (Metric::Made(expr), false) = (metric, values.whole.contains_key(name)) {
                let waits = |part: &String| metrics.contains_key(part) && !values.whole.contains_key(part);
                if !names_in(expr).iter().any(waits) {
                    let value = arithmetic(expr, values).with_context(|| format!("metric `{name}`"))?;
                    values.whole.insert(name.clone(), value);
                }
            }
        }
    }
    match metrics.keys().find(|name| !values.whole.contains_key(*name)) {
        Some(name) => bail!("metric `{name}` is made of itself"),
        None => Ok(()),
    }
}

fn names_in(expr: &Expr) -> Vec<String> {
    match expr {
        Expr::Number(_) | Expr::Over(..) => Vec::new(),
        Expr::Term(term) => vec![term.name.clone()],
        Expr::Minus(inner) => names_in(inner),
        Expr::Binary(_, a, b) => names_in(a).into_iter().chain(names_in(b)).collect(),
        Expr::Of(_, several) => several.iter().flat_map(names_in).collect(),
    }
}

fn arithmetic(expr: &Expr, values: &Values) -> Result<f64> {
    Ok(match expr {
        Expr::Number(n) => *n,
        Expr::Minus(inner) => -arithmetic(inner, values)?,
        Expr::Binary(sign, a, b) => {
            let (a, b) = (arithmetic(a, values)?, arithmetic(b, values)?);
            match sign {
                '+' => a + b,
                '-' => a - b,
                '*' => a * b,
                _ => a / b,
            }
        }
        Expr::Term(term) => {
            let name = match term.args.as_slice() {
                [] => term.name.clone(),
                [Argument::Word(flow)] => format!("{}.{flow}", term.name),
                _ => bail!("`{}` names one flow at most here", term.name),
            };
            // What a run does not have (a flow that is not in it) is not a number; a metric that is none is refused when it is read.
            values.named(&name).unwrap_or(f64::NAN)
        }
        Expr::Of(..) | Expr::Over(..) => bail!("a metric is made of others by + - * / alone"),
    })
}
