//! What a claim asks of the measured points, as comparisons over named metrics: `share(lbe) >= 0.80 for rtt < 200`. This file holds
//! the form of a rule; `parse` reads it, `compile` finds what its names mean, `eval` decides it. docs/papers.md is for who writes one.
//! Knows neither paper nor simulator.

pub mod compile;
pub mod eval;
pub mod parse;
pub mod stats;
mod tokens;

/// Functions of several points, written with `over`.
pub const OVER: [&str; 21] = [
    "mean",
    "median",
    "min",
    "max",
    "sd",
    "range",
    "count",
    "sum",
    "part",
    "spearman",
    "argmax",
    "argmin",
    "first",
    "from_on",
    "largest_rise",
    "largest_climb",
    "largest_step",
    "mean_step",
    "largest_ratio",
    "max_before",
    "min_before",
];
/// Functions of one point's numbers.
pub const OF: [&str; 5] = ["abs", "mean", "median", "min", "max"];

/// A value at which a point stands in a sweep: a number, or the name of a variant.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Number(f64),
    /// A name.
    Word(String),
}

impl Value {
    /// Whether both mean the same place in a sweep: sums such as 0.1 + 0.2 count as what they are printed as.
    pub fn is(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Number(a), Value::Number(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
            (Value::Word(a), Value::Word(b)) => a == b,
            _ => false,
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Number(n) => write!(f, "{n}"),
            Value::Word(w) => f.write_str(w),
        }
    }
}

/// How two numbers compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
    Unequal,
}

impl Order {
    /// Whether `a` and `b` stand so. Nothing stands so to what is not a number.
    pub fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Order::Less => a < b,
            Order::AtMost => a <= b,
            Order::More => a > b,
            Order::AtLeast => a >= b,
            Order::Equal => Value::Number(a).is(&Value::Number(b)),
            Order::Unequal => !a.is_nan() && !b.is_nan() && !Value::Number(a).is(&Value::Number(b)),
        }
    }

    /// By how much it holds: negative where it does not.
    pub fn margin(self, a: f64, b: f64) -> f64 {
        match self {
            Order::Less | Order::AtMost => b - a,
            Order::More | Order::AtLeast => a - b,
            Order::Equal => -(a - b).abs(),
            Order::Unequal => (a - b).abs(),
        }
    }
}

/// Something computed from one point or from several.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A number.
    Number(f64),
    /// A metric or a swept value.
    Term(Term),
    /// `+`, `-`, `*` or `/` of two.
    Binary(char, Box<Expr>, Box<Expr>),
    /// The other sign.
    Minus(Box<Expr>),
    /// A function of its arguments at one point: `abs`, `max`, `min`, `mean`, `median`.
    Of(String, Vec<Expr>),
    /// A function of an expression at several points: `mean(share(lbe) over rtt >= 250)`.
    Over(String, Box<Body>, Vec<Where>),
}

/// What stands before `over`.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A number at each point.
    Number(Expr),
    /// Whether something holds at each point: `first(utilisation >= 0.85 over rate)`.
    Truth(Vec<Expr>, Vec<Order>),
}

/// A name with what it is asked of: `share(lbe)`, `frac(lbe, fig16)`, `eta(Reno, n = 10)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// The metric's or the sweep's.
    pub name: String,
    /// Flow, variant, experiment, or a place in a sweep.
    pub args: Vec<Argument>,
}

/// One of a term's arguments.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// A name, the meaning of which the experiment decides.
    Word(String),
    /// A place in a sweep.
    At(String, Value),
    /// A term: what `paper(…)` is asked of.
    Term(Term),
}

/// A condition on a swept value.
#[derive(Clone, Debug, PartialEq)]
pub struct Where {
    /// The sweep's name.
    pub name: String,
    /// All of these must hold.
    pub tests: Vec<Test>,
}

/// What a swept value is compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// Its order to a number, or its being a word or not.
    Is(Order, Value),
    /// One of several.
    In(Vec<Value>),
}

impl Where {
    /// Whether `value` fits.
    pub fn admits(&self, value: &Value) -> bool {
        self.tests.iter().all(|test| match test {
            Test::In(several) => several.iter().any(|v| v.is(value)),
            Test::Is(order, wanted) => match (value, wanted) {
                (Value::Number(a), Value::Number(b)) => {
                    let equal = value.is(wanted);
                    match order {
                        Order::Less | Order::More => !equal && order.holds(*a, *b),
                        _ => (equal && *order != Order::Unequal) || order.holds(*a, *b),
                    }
                }
                _ => value.is(wanted) == (*order != Order::Unequal),
            },
        })
    }
}

/// One line of a rule: a comparison, and where it must hold (at every point, where nothing is said).
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// As it was written.
    pub text: String,
    /// What is compared.
    pub what: What,
    /// For which points.
    pub at: Vec<Where>,
}

/// The forms of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// `a <= b < c`: one expression more than orders.
    Chain(Vec<Expr>, Vec<Order>),
    /// `a = b ± 10 % or 0.03`: within that part of b, or within that number, whichever is more.
    Near { got: Expr, want: Expr, part: f64, least: f64 },
    /// `share(lbe) falls with rtt`: strictly, from each value of the sweep to the next.
    Trend { what: Expr, rises: bool, with: String },
}
