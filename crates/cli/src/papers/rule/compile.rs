//! Finds what a rule's names mean in an experiment: which metric of which flow, at which places of which sweeps, of which other
//! experiment. A name that means nothing is an error that lists what there is. Reads no result.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow, bail};

use super::{Argument, Body, Expr, Line, Order, Term, Value, What, Where};
use crate::papers::measure;

/// The sweep that an experiment's variants are.
pub const VARIANT: &str = "variant";

/// What rules may name of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The figure: `fig16`.
    pub figure: String,
    /// Its sweeps in their order, the variants first, each with its values.
    pub sweeps: Vec<(String, Vec<Value>)>,
    /// Variants that stand beside the paper's.
    pub companions: Vec<String>,
    /// Flows and groups.
    pub flows: Vec<String>,
    /// Its own metrics.
    pub metrics: Vec<String>,
    /// Metrics for which the paper prints values, and whether by variant.
    pub printed: Vec<(String, bool)>,
}

/// The experiment whose rule it is, among those of its paper.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    pub all: &'a [Names],
    pub own: usize,
}

/// A metric of one flow or of a whole run, somewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Which experiment of the scope.
    pub experiment: usize,
    /// Of a companion instead of the paper's variants.
    pub companion: Option<String>,
    /// `share.lbe`, `jain`.
    pub name: String,
    /// What the paper prints for it, instead of what was measured.
    pub printed: bool,
    /// Places in sweeps that the term itself names.
    pub fixed: Vec<(String, Value)>,
    /// Sweeps whose place is that of the point.
    pub open: Vec<String>,
}

/// An expression whose names are known.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    Number(f64),
    /// The place in a sweep.
    Place(String),
    Metric(Metric),
    Binary(char, Box<Known>, Box<Known>),
    Minus(Box<Known>),
    Of(String, Vec<Known>),
    Over(String, Box<KnownBody>, Over),
}

/// What stands before `over`.
#[derive(Clone, Debug, PartialEq)]
pub enum KnownBody {
    Number(Known),
    Truth(Vec<Known>, Vec<Order>),
}

/// The points after `over`: of an experiment, at the places of its sweeps that the conditions admit.
#[derive(Clone, Debug, PartialEq)]
pub struct Over {
    pub experiment: usize,
    pub conditions: Vec<Where>,
}

/// The comparison of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum KnownWhat {
    Chain(Vec<Known>, Vec<Order>),
    Near { got: Known, want: Known, part: f64, least: f64 },
    Trend { what: Known, rises: bool, with: String },
}

/// A line whose names are known.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    /// As it was written.
    pub text: String,
    pub what: KnownWhat,
    /// The sweeps at each place of which it must hold.
    pub open: Vec<String>,
    pub conditions: Vec<Where>,
}

/// The line with its names found.
///
/// # Errors
/// A name that means nothing, with those that do.
pub fn line(line: &Line, scope: Scope) -> Result<Compiled> {
    compile(line, scope).map_err(|e| anyhow!("`{}`: {e}", line.text))
}

/// An expression of one point of `scope`'s experiment, which leaves no place open.
///
/// # Errors
/// As [`line`].
pub fn expression(expr: &Expr, scope: Scope) -> Result<Known> {
    let known = known(expr, scope)?;
    if let Some(left) = open(&known).into_iter().next() {
        bail!("it does not say at which `{left}`: `name(…, {left} = VALUE)`");
    }
    Ok(known)
}

fn compile(line: &Line, scope: Scope) -> Result<Compiled> {
    let mut free = BTreeSet::new();
    let mut side = |expr: &Expr| {
        let known = known(expr, scope)?;
        free.extend(open(&known));
        Ok::<_, anyhow::Error>(known)
    };
    let what = match &line.what {
        What::Chain(sides, orders) => KnownWhat::Chain(sides.iter().map(&mut side).collect::<Result<_>>()?, orders.clone()),
        What::Near { got, want, part, least } => KnownWhat::Near { got: side(got)?, want: side(want)?, part: *part, least: *least },
        What::Trend { what, rises, with } => KnownWhat::Trend { what: side(what)?, rises: *rises, with: with.clone() },
    };
    let own = &scope.all[scope.own];
    let sweeps: Vec<&str> = own.sweeps.iter().map(|s| s.0.as_str()).collect();
    if let Some(foreign) = free.iter().find(|name| !sweeps.contains(&name.as_str())) {
        bail!("it does not say at which `{foreign}`, and {} has no such sweep; it has {}", own.figure, listed(&sweeps));
    }
    for condition in &line.at {
        if !free.contains(&condition.name) {
            bail!(
                "nothing in it depends on `{}`; it depends on {}",
                condition.name,
                listed(&free.iter().map(String::as_str).collect::<Vec<_>>())
            );
        }
        check_values(condition, own)?;
    }
    if let KnownWhat::Trend { with, .. } = &what
        && !free.remove(with)
    {
        bail!("nothing in it depends on `{with}`; {} has {}", own.figure, listed(&sweeps));
    }
    let open = sweeps.iter().filter(|name| free.contains(**name)).map(|name| (*name).to_owned()).collect();
    Ok(Compiled { text: line.text.clone(), what, open, conditions: line.at.clone() })
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// A condition must name a sweep, and words that are among its values.
fn check_values(condition: &Where, names: &Names) -> Result<()> {
    let Some((_, values)) = names.sweeps.iter().find(|s| s.0 == condition.name) else {
        let sweeps: Vec<&str> = names.sweeps.iter().map(|s| s.0.as_str()).collect();
        bail!("{} has no sweep `{}`; it has {}", names.figure, condition.name, listed(&sweeps));
    };
    let named = condition.tests.iter().flat_map(|test| match test {
        super::Test::In(several) => several.clone(),
        super::Test::Is(Order::Equal | Order::Unequal, one) => vec![one.clone()],
        super::Test::Is(_, one) => Vec::from_iter(matches!(one, Value::Word(_)).then(|| one.clone())),
    });
    for value in named {
        check_value(&condition.name, &value, values)?;
    }
    Ok(())
}

fn check_value(sweep: &str, value: &Value, values: &[Value]) -> Result<()> {
    if !values.iter().any(|v| v.is(value)) {
        let all: Vec<String> = values.iter().map(Value::to_string).collect();
        bail!("`{sweep}` is never {value}; it is {}", all.join(", "));
    }
    Ok(())
}

fn known(expr: &Expr, scope: Scope) -> Result<Known> {
    Ok(match expr {
        Expr::Number(n) => Known::Number(*n),
        Expr::Minus(inner) => Known::Minus(Box::new(known(inner, scope)?)),
        Expr::Binary(sign, a, b) => Known::Binary(*sign, Box::new(known(a, scope)?), Box::new(known(b, scope)?)),
        Expr::Of(name, several) => Known::Of(name.clone(), several.iter().map(|e| known(e, scope)).collect::<Result<_>>()?),
        Expr::Term(term) => named(term, scope)?,
        Expr::Over(name, body, conditions) => {
            let body = match &**body {
                Body::Number(inner) => KnownBody::Number(known(inner, scope)?),
                Body::Truth(sides, orders) => {
                    KnownBody::Truth(sides.iter().map(|e| known(e, scope)).collect::<Result<_>>()?, orders.clone())
                }
            };
            let within: Vec<&Known> = match &body {
                KnownBody::Number(inner) => vec![inner],
                KnownBody::Truth(sides, _) => sides.iter().collect(),
            };
            let needs_truth = matches!(name.as_str(), "first" | "from_on" | "count" | "part" | "max_before" | "min_before");
            if needs_truth != matches!(body, KnownBody::Truth(..)) {
                bail!(
                    "`{name}` is asked of {}",
                    if needs_truth { "a comparison: `first(utilisation >= 0.85 over rate)`" } else { "a number" }
                );
            }
            let experiment = within.iter().find_map(|e| experiment_of(e)).unwrap_or(scope.own);
            for condition in conditions {
                if !within.iter().any(|e| open(e).contains(&condition.name)) {
                    bail!("nothing in `{name}(…)` depends on `{}`", condition.name);
                }
                check_values(condition, &scope.all[experiment])?;
            }
            Known::Over(name.clone(), Box::new(body), Over { experiment, conditions: conditions.clone() })
        }
    })
}

/// The experiment of the first metric in it.
fn experiment_of(expr: &Known) -> Option<usize> {
    match expr {
        Known::Number(_) | Known::Place(_) => None,
        Known::Metric(metric) => Some(metric.experiment),
        Known::Minus(inner) => experiment_of(inner),
        Known::Binary(_, a, b) => experiment_of(a).or_else(|| experiment_of(b)),
        Known::Of(_, several) => several.iter().find_map(experiment_of),
        Known::Over(_, _, over) => Some(over.experiment),
    }
}

/// The sweeps at whose places it must be computed.
pub fn open(expr: &Known) -> BTreeSet<String> {
    match expr {
        Known::Number(_) => BTreeSet::new(),
        Known::Place(name) => BTreeSet::from([name.clone()]),
        Known::Metric(metric) => metric.open.iter().cloned().collect(),
        Known::Minus(inner) => open(inner),
        Known::Binary(_, a, b) => open(a).union(&open(b)).cloned().collect(),
        Known::Of(_, several) => several.iter().flat_map(open).collect(),
        Known::Over(_, body, over) => {
            let within: BTreeSet<String> = match &**body {
                KnownBody::Number(inner) => open(inner),
                KnownBody::Truth(sides, _) => sides.iter().flat_map(open).collect(),
            };
            within.into_iter().filter(|name| over.conditions.iter().all(|c| c.name != *name)).collect()
        }
    }
}

impl Known {
    /// Every experiment whose points it looks at.
    pub fn experiments(&self) -> BTreeSet<usize> {
        match self {
            Known::Number(_) | Known::Place(_) => BTreeSet::new(),
            Known::Metric(metric) => BTreeSet::from([metric.experiment]),
            Known::Minus(inner) => inner.experiments(),
            Known::Binary(_, a, b) => a.experiments().union(&b.experiments()).copied().collect(),
            Known::Of(_, several) => several.iter().flat_map(Known::experiments).collect(),
            Known::Over(_, body, _) => match &**body {
                KnownBody::Number(inner) => inner.experiments(),
                KnownBody::Truth(sides, _) => sides.iter().flat_map(Known::experiments).collect(),
            },
        }
    }
}

impl Compiled {
    /// Every experiment whose points it looks at.
    pub fn experiments(&self) -> BTreeSet<usize> {
        match &self.what {
            KnownWhat::Chain(sides, _) => sides.iter().flat_map(Known::experiments).collect(),
            KnownWhat::Near { got, want, .. } => got.experiments().union(&want.experiments()).copied().collect(),
            KnownWhat::Trend { what, .. } => what.experiments(),
        }
    }
}

/// Whether anything measured or printed is in it.
pub fn is_constant(expr: &Known) -> bool {
    experiment_of(expr).is_none()
}

fn named(term: &Term, scope: Scope) -> Result<Known> {
    let own = &scope.all[scope.own];
    if term.args.is_empty() && own.sweeps.iter().any(|s| s.0 == term.name) {
        return Ok(Known::Place(term.name.clone()));
    }
    if term.name == "paper" {
        let of = match term.args.as_slice() {
            [Argument::Term(of)] => of.clone(),
            [Argument::Word(name)] => Term { name: name.clone(), args: Vec::new() },
            _ => bail!("`paper` is asked of one metric: `paper(fct(short))`"),
        };
        let Known::Metric(mut metric) = named(&of, scope)? else { bail!("the paper prints no `{}`", of.name) };
        let names = &scope.all[metric.experiment];
        let Some((_, by_variant)) = names.printed.iter().find(|p| p.0 == metric.name) else {
            let all: Vec<&str> = names.printed.iter().map(|p| p.0.as_str()).collect();
            bail!("the toml has no printed values of `{}` (`[reported]`); it has {}", metric.name, listed(&all));
        };
        let first = names.sweeps.iter().map(|s| s.0.as_str()).find(|s| *s != VARIANT);
        metric.open.retain(|name| Some(name.as_str()) == first || (*by_variant && name == VARIANT));
        metric.printed = true;
        return Ok(Known::Metric(metric));
    }
    Ok(Known::Metric(metric(term, scope)?))
}

fn metric(term: &Term, scope: Scope) -> Result<Metric> {
    let words = |a: &Argument| if let Argument::Word(word) = a { scope.all.iter().position(|n| n.figure == *word) } else { None };
    let experiment = term.args.iter().find_map(words).unwrap_or(scope.own);
    let names = &scope.all[experiment];
    let by_flow = measure::BY_FLOW.contains(&term.name.as_str());
    if !by_flow && !measure::WHOLE.contains(&term.name.as_str()) && !names.metrics.contains(&term.name) {
        let own: Vec<&str> = names.metrics.iter().map(String::as_str).collect();
        bail!(
            "no metric `{}`; of a flow: {}; of a run: {}; of {}: {}",
            term.name,
            measure::BY_FLOW.join(", "),
            measure::WHOLE.join(", "),
            names.figure,
            listed(&own)
        );
    }
    let (mut flow, mut companion, mut fixed) = (None, None, Vec::new());
    for argument in &term.args {
        match argument {
            Argument::Word(word) if scope.all[experiment].figure == *word && experiment != scope.own => {}
            Argument::Word(word) if by_flow && flow.is_none() && names.has_flow(word) => flow = Some(word.clone()),
            Argument::Word(word) if names.companions.contains(word) => companion = Some(word.clone()),
            Argument::Word(word) => {
                let value = Value::Word(word.clone());
                let Some((sweep, _)) = names.sweeps.iter().find(|s| s.1.iter().any(|v| v.is(&value))) else {
                    bail!("{}", names.unknown(word))
                };
                fixed.push((sweep.clone(), value));
            }
            Argument::At(sweep, value) => {
                let Some((_, values)) = names.sweeps.iter().find(|s| s.0 == *sweep) else { bail!("{}", names.unknown(sweep)) };
                check_value(sweep, value, values)?;
                fixed.push((sweep.clone(), value.clone()));
            }
            Argument::Term(inner) => bail!("`{}` is no argument of `{}`", inner.name, term.name),
        }
    }
    let name = match (by_flow, flow) {
        (true, None) => bail!("`{}` is a flow's: `{}(FLOW)`; there are {}", term.name, term.name, names.flows.join(", ")),
        (true, Some(flow)) => format!("{}.{flow}", term.name),
        (false, _) => term.name.clone(),
    };
    let is_open = |name: &str| !fixed.iter().any(|f| f.0 == name) && (companion.is_none() || name != VARIANT);
    let open = names.sweeps.iter().map(|s| s.0.clone()).filter(|name| is_open(name)).collect();
    Ok(Metric { experiment, companion, name, printed: false, fixed, open })
}

impl Names {
    fn has_flow(&self, word: &str) -> bool {
        let nth = |flow: &String| {
            word.strip_prefix(flow.as_str()).and_then(|rest| rest.strip_prefix('.')).is_some_and(|n| n.parse::<u32>().is_ok())
        };
        self.flows.iter().any(|flow| flow == word || nth(flow))
    }

    fn unknown(&self, word: &str) -> String {
        let sweeps: Vec<&str> = self.sweeps.iter().map(|s| s.0.as_str()).collect();
        let variants = self.sweeps.iter().filter(|s| s.0 == VARIANT).flat_map(|s| &s.1).map(Value::to_string).collect::<Vec<_>>();
        format!(
            "`{word}` means nothing in {}; flows: {}; sweeps: {}; variants: {}; beside them: {}",
            self.figure,
            self.flows.join(", "),
            listed(&sweeps),
            variants.join(", "),
            self.companions.join(", ")
        )
    }
}
