//! The words, numbers and signs of a rule's text. Knows no form of a rule.

use anyhow::{Result, anyhow};

/// What a rule is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A name, or a word of the rule's own.
    Word(String),
    /// A name in quotes.
    Quoted(String),
    /// A number, without its sign.
    Number(f64),
    /// An operator, a bracket, a comma.
    Sign(&'static str),
}

const SIGNS: [(&str, &str); 21] = [
    ("<=", "<="),
    (">=", ">="),
    ("!=", "!="),
    ("..", ".."),
    ("≤", "<="),
    ("≥", ">="),
    ("≠", "!="),
    ("<", "<"),
    (">", ">"),
    ("=", "="),
    ("±", "±"),
    ("(", "("),
    (")", ")"),
    ("{", "{"),
    ("}", "}"),
    (",", ","),
    ("+", "+"),
    ("-", "-"),
    ("*", "*"),
    ("/", "/"),
    ("%", "%"),
];

/// Words may hold hyphens and dots between letters or digits (`FQ-CoDel`, `fct.short`), so a minus stands between spaces.
pub fn tokens(text: &str) -> Result<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if first == '"' {
            let end = rest[1..].find('"').ok_or_else(|| anyhow!("a quote that does not end"))?;
            tokens.push(Token::Quoted(rest[1..=end].to_owned()));
            end + 2
        } else if first.is_ascii_digit() {
            let mut end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            end = rest[..end].find("..").unwrap_or(end);
            if rest[end..].starts_with("e-") {
                let digits = rest[end + 2..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - end - 2);
                end += if digits > 0 { 2 + digits } else { 0 };
            }
            tokens.push(Token::Number(rest[..end].parse().map_err(|_| anyhow!("`{}` is no number", &rest[..end]))?));
            end
        } else if first.is_alphabetic() || first == '_' {
            let end = word_end(rest);
            tokens.push(Token::Word(rest[..end].to_owned()));
            end
        } else {
            let (written, sign) = SIGNS.iter().find(|(w, _)| rest.starts_with(w)).ok_or_else(|| anyhow!("`{first}` means nothing here"))?;
            tokens.push(Token::Sign(sign));
            written.len()
        };
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn word_end(text: &str) -> usize {
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let inner = |n: usize| chars.get(n).is_some_and(|c| c.1.is_alphanumeric() || c.1 == '_' || c.1 == '+');
    let mut n = 0;
    while inner(n) || (matches!(chars.get(n), Some((_, '-' | '.'))) && inner(n + 1)) {
        n += 1;
    }
    chars.get(n).map_or(text.len(), |c| c.0)
}
