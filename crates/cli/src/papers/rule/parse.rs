//! Reads rules: words, numbers and signs into the forms of `rule`. Knows no experiment: what a name means is found out later.

use anyhow::{Result, anyhow, bail};

use super::tokens::{Token, tokens};
use super::{Argument, Body, Expr, Line, Order, Term, Test, Value, What, Where};
use super::{OF, OVER};

/// The lines of `text`, of which each must hold. Empty lines and what follows a `#` are left out.
///
/// # Errors
/// With the line and what was expected there.
pub fn lines(text: &str) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for (nth, written) in text.lines().enumerate() {
        let line = written.split('#').next().unwrap_or("").trim();
        if !line.is_empty() {
            lines.push(Parser::new(line).and_then(Parser::line).map_err(|e| anyhow!("line {} `{line}`: {e}", nth + 1))?);
        }
    }
    if lines.is_empty() {
        bail!("a rule needs at least one line: `share(lbe) <= 0.10`");
    }
    Ok(lines)
}

/// One expression: what an explanation shows, or a metric made of others.
///
/// # Errors
/// With what was expected.
pub fn expression(text: &str) -> Result<Expr> {
    let mut parser = Parser::new(text)?;
    let expr = parser.sum()?;
    parser.done()?;
    Ok(expr)
}

struct Parser {
    text: String,
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn new(text: &str) -> Result<Parser> {
        Ok(Parser { text: text.to_owned(), tokens: tokens(text)?, at: 0 })
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Sign(s)) if *s == sign);
        self.at += usize::from(found);
        found
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(w)) if w == word);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &str) -> Result<()> {
        if self.takes(sign) { Ok(()) } else { Err(self.unexpected(&format!("`{sign}`"))) }
    }

    fn unexpected(&self, wanted: &str) -> anyhow::Error {
        let got = match self.peek() {
            None => "the end".to_owned(),
            Some(Token::Number(n)) => format!("`{n}`"),
            Some(Token::Word(w) | Token::Quoted(w)) => format!("`{w}`"),
            Some(Token::Sign(s)) => format!("`{s}`"),
        };
        anyhow!("expected {wanted}, found {got}")
    }

    fn done(&self) -> Result<()> {
        if self.at == self.tokens.len() { Ok(()) } else { Err(self.unexpected("the end")) }
    }

    fn line(mut self) -> Result<Line> {
        let first = self.sum()?;
        let what = if let Some(rises) = self.trend() {
            let with = self.name("the name of a sweep")?;
            What::Trend { what: first, rises, with }
        } else if matches!(self.peek(), Some(Token::Sign("="))) {
            self.near_or_equal(first)?
        } else {
            let (sides, orders) = self.chain(first)?;
            What::Chain(sides, orders)
        };
        let at = if self.takes_word("for") || self.takes_word("at") { self.conditions()? } else { Vec::new() };
        self.done()?;
        Ok(Line { text: self.text, what, at })
    }

    fn trend(&mut self) -> Option<bool> {
        let rises = match self.peek() {
            Some(Token::Word(w)) if w == "rises" => true,
            Some(Token::Word(w)) if w == "falls" => false,
            _ => return None,
        };
        self.at += 1;
        self.takes_word("with");
        Some(rises)
    }

    fn near_or_equal(&mut self, got: Expr) -> Result<What> {
        self.expect("=")?;
        let want = self.sum()?;
        if !self.takes("±") {
            return Ok(What::Chain(vec![got, want], vec![Order::Equal]));
        }
        let mut slack = (0.0, 0.0);
        loop {
            let amount = self.number()?;
            if self.takes("%") {
                slack.0 = amount / 100.0
            } else {
                slack.1 = amount
            }
            if !self.takes_word("or") {
                return Ok(What::Near { got, want, part: slack.0, least: slack.1 });
            }
        }
    }

    fn chain(&mut self, first: Expr) -> Result<(Vec<Expr>, Vec<Order>)> {
        let (mut sides, mut orders) = (vec![first], Vec::new());
        while let Some(order) = self.order() {
            orders.push(order);
            sides.push(self.sum()?);
        }
        if orders.is_empty() {
            return Err(self.unexpected("a comparison (<, <=, >, >=, = … ±, `rises with`, `falls with`)"));
        }
        Ok((sides, orders))
    }

    fn order(&mut self) -> Option<Order> {
        let order = match self.peek()? {
            Token::Sign("<") => Order::Less,
            Token::Sign("<=") => Order::AtMost,
            Token::Sign(">") => Order::More,
            Token::Sign(">=") => Order::AtLeast,
            Token::Sign("=") => Order::Equal,
            Token::Sign("!=") => Order::Unequal,
            _ => return None,
        };
        self.at += 1;
        Some(order)
    }

    fn sum(&mut self) -> Result<Expr> {
        let mut sum = self.product()?;
        loop {
            let sign = if self.takes("+") {
                '+'
            } else if self.takes("-") {
                '-'
            } else {
                return Ok(sum);
            };
            sum = Expr::Binary(sign, Box::new(sum), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Expr> {
        let mut product = self.factor()?;
        loop {
            let sign = if self.takes("*") {
                '*'
            } else if self.takes("/") {
                '/'
            } else {
                return Ok(product);
            };
            product = Expr::Binary(sign, Box::new(product), Box::new(self.factor()?));
        }
    }

    fn factor(&mut self) -> Result<Expr> {
        if self.takes("-") {
            return Ok(Expr::Minus(Box::new(self.factor()?)));
        }
        if self.takes("(") {
            let inner = self.sum()?;
            self.expect(")")?;
            return Ok(inner);
        }
        if let Some(Token::Number(n)) = self.peek() {
            let n = *n;
            self.at += 1;
            return Ok(Expr::Number(n));
        }
        let name = self.name("a number, a metric or a function")?;
        let function = OVER.contains(&name.as_str()) || OF.contains(&name.as_str());
        if function && self.takes("(") {
            return self.function(name);
        }
        let args = if self.takes("(") { self.arguments()? } else { Vec::new() };
        Ok(Expr::Term(Term { name, args }))
    }

    fn function(&mut self, name: String) -> Result<Expr> {
        let first = self.sum()?;
        let body = if self.order().is_some() {
            self.at -= 1;
            let (sides, orders) = self.chain(first)?;
            Body::Truth(sides, orders)
        } else {
            Body::Number(first)
        };
        if self.takes_word("over") {
            if !OVER.contains(&name.as_str()) {
                bail!("`{name}` takes no `over`; these do: {}", OVER.join(", "));
            }
            let over = self.conditions()?;
            self.expect(")")?;
            return Ok(Expr::Over(name, Box::new(body), over));
        }
        let Body::Number(first) = body else { return Err(self.unexpected("`over`")) };
        if !OF.contains(&name.as_str()) {
            return Err(self.unexpected(&format!("`over`, which `{name}` needs")));
        }
        let mut several = vec![first];
        while self.takes(",") {
            several.push(self.sum()?);
        }
        self.expect(")")?;
        Ok(Expr::Of(name, several))
    }

    fn arguments(&mut self) -> Result<Vec<Argument>> {
        let mut args = Vec::new();
        while !self.takes(")") {
            let name = self.name("a flow, a variant, or `sweep = value`")?;
            args.push(if self.takes("=") {
                Argument::At(name, self.value()?)
            } else if self.takes("(") {
                Argument::Term(Term { name, args: self.arguments()? })
            } else {
                Argument::Word(name)
            });
            if !self.takes(",") && !matches!(self.peek(), Some(Token::Sign(")"))) {
                return Err(self.unexpected("`,` or `)`"));
            }
        }
        Ok(args)
    }

    fn conditions(&mut self) -> Result<Vec<Where>> {
        let mut all = vec![self.condition()?];
        while self.takes(",") || self.takes_word("and") {
            all.push(self.condition()?);
        }
        Ok(all)
    }

    /// `rtt`, `rtt < 200`, `1 < rate <= 5`, `rate in 1..5`, `queue in {PIE, FQ-PIE}`, `variant = LP`.
    fn condition(&mut self) -> Result<Where> {
        let mut tests = Vec::new();
        if let Some(Token::Number(low)) = self.peek() {
            let low = *low;
            self.at += 1;
            let mirrored = match self.order() {
                Some(Order::Less) => Order::More,
                Some(Order::AtMost) => Order::AtLeast,
                _ => return Err(self.unexpected("`<` or `<=`")),
            };
            tests.push(Test::Is(mirrored, Value::Number(low)));
        }
        let name = self.name("the name of a sweep")?;
        if self.takes_word("in") {
            tests.push(self.set()?);
        } else if let Some(order) = self.order() {
            tests.push(Test::Is(order, self.value()?));
        }
        Ok(Where { name, tests })
    }

    fn set(&mut self) -> Result<Test> {
        if self.takes("{") {
            let mut several = vec![self.value()?];
            while self.takes(",") {
                several.push(self.value()?);
            }
            self.expect("}")?;
            return Ok(Test::In(several));
        }
        bail!("`in` is followed by a list in braces: `queue in {{PIE, FQ-PIE}}`")
    }

    fn name(&mut self, wanted: &str) -> Result<String> {
        match self.peek() {
            Some(Token::Word(w) | Token::Quoted(w)) => {
                let word = w.clone();
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.unexpected(wanted)),
        }
    }

    fn number(&mut self) -> Result<f64> {
        match self.peek() {
            Some(Token::Number(n)) => {
                let n = *n;
                self.at += 1;
                Ok(n)
            }
            _ => Err(self.unexpected("a number")),
        }
    }

    fn value(&mut self) -> Result<Value> {
        if let Some(Token::Number(_)) = self.peek() { self.number().map(Value::Number) } else { self.name("a value").map(Value::Word) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Line {
        lines(text).unwrap_or_else(|e| panic!("{text}: {e:#}")).remove(0)
    }

    #[test]
    fn the_forms_of_a_rule_are_read() {
        for text in [
            "jain >= 0.95 for rate_mbps <= 20",
            "0.35 <= frac(lbe) <= 0.65 for rtt <= 20",
            "share(ledbat_pp) rises with rtt_ms",
            "goodput(a) > goodput(b) for 1.45 <= ratio < 4.95",
            "eta(LEDBAT) - eta(Reno) >= 0.02 at n = 10",
            "spearman(share(lbe) over rtt) <= -0.9",
            "ratio = 3.2 ± 15 % at n = 1",
            "fct(short, alone) = paper(fct(short, alone)) ± 10 % or 0.03",
            "mean(share(lbe) over rtt >= 250) <= mean(share(lbe) over rtt <= 150) - 0.03",
            "first(utilisation < 0.97 * max(utilisation over rate) over rate >= 1) <= 5",
            "abs(mean(x(PIE) over rate, rtt) - mean(x(FQ-PIE) over rate, rtt)) <= 0.06 for flows in {1, 3, 5}",
            "loss <= 1e-4 for variant = \"fixed, alone\" and gain <= 80",
        ] {
            assert_eq!(one(text).text, text);
        }
        assert!(matches!(one("a = b ± 10 % or 0.03").what, What::Near { part: 0.1, least: 0.03, .. }));
        assert!(matches!(one("a falls with n").what, What::Trend { rises: false, .. }));
        assert_eq!(lines("a < 1\n\n  # why\nb < 2 for n >= 3").expect("two lines").len(), 2);
    }

    #[test]
    fn operators_bind_as_in_arithmetic() {
        assert_eq!(expression("1 + 2 * 3").expect("a sum"), expression("1 + (2 * 3)").expect("a sum"));
        assert_ne!(expression("1 - 2 - 3").expect("a sum"), expression("1 - (2 - 3)").expect("a sum"));
        assert!(matches!(expression("FQ-CoDel").expect("a word"), Expr::Term(Term { name, .. }) if name == "FQ-CoDel"));
        assert!(matches!(expression("a - 0.02").expect("a difference"), Expr::Binary('-', ..)));
    }

    #[test]
    fn a_condition_admits_what_it_says() {
        let admits = |text: &str, value: f64| one(&format!("x > 0 for {text}")).at[0].admits(&Value::Number(value));
        assert!(admits("1 <= r < 5", 1.0) && !admits("1 <= r < 5", 5.0) && !admits("1 < r", 1.0) && admits("r in {1, 3}", 3.0));
        assert!(admits("r <= 0.3", 0.1 + 0.2) && !admits("r < 0.3", 0.1 + 0.2) && admits("r != 2", 3.0) && !admits("r = 2", 3.0));
        let word = |text: &str| one(&format!("x > 0 for {text}")).at[0].admits(&Value::Word("LP".to_owned()));
        assert!(word("v = LP") && word("v in {LP, NICE}") && !word("v != LP") && !word("v = NICE"));
    }

    #[test]
    fn what_is_no_rule_is_refused_with_its_line_and_what_was_expected() {
        for (text, part) in [
            ("", "at least one line"),
            ("a < 1\nshare(lbe)", "line 2 `share(lbe)`: expected a comparison"),
            ("share(lbe <= 1", "expected `,` or `)`"),
            ("a < 1 for rtt in 5", "list in braces"),
            ("a < ", "found the end"),
            ("spearman(a) < 0", "`spearman` needs"),
            ("abs(a over n) < 0", "takes no `over`"),
            ("a ! b", "means nothing"),
            ("a < 1 2", "found `2`"),
        ] {
            let error = format!("{:#}", lines(text).expect_err(text));
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
