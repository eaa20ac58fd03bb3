//! Numbers as people read them, in few characters. Knows no unit but bytes, bits a second and milliseconds.

/// Three significant digits and an SI prefix, at most five characters: `0`, `999`, `1.20k`, `12.3M`.
pub fn short(n: u64) -> String {
    let mut value = n as f64;
    for prefix in ["", "k", "M", "G", "T", "P"] {
        // 999.5 would round up to four digits.
        if value < 999.5 {
            let digits = match value {
                _ if prefix.is_empty() => 0,
                v if v < 9.995 => 2,
                v if v < 99.95 => 1,
                _ => 0,
            };
            return format!("{value:.digits$}{prefix}");
        }
        value /= 1000.0;
    }
    format!("{value:.0}E")
}

/// `12.3 MB`.
pub fn bytes(n: u64) -> String {
    spaced(&short(n), "B")
}

/// `12.3 Mbit/s`.
pub fn rate(bps: u64) -> String {
    spaced(&short(bps), "bit/s")
}

fn spaced(short: &str, unit: &str) -> String {
    let digits = short.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    format!("{digits} {}{unit}", &short[digits.len()..])
}

/// `12.3`, or `–` for what is not known (yet).
pub fn ms(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |v| format!("{v:.1}"))
}

/// `9.8 s`, `3 min 20 s`.
pub fn span(seconds: f64) -> String {
    if seconds < 59.95 {
        return format!("{:.1} s", seconds + 0.0); // the sum of no spans is -0.0
    }
    let whole = seconds.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// At most `width` characters, the end kept: the port of an IPv6 address matters more than its prefix.
pub fn tail(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().skip(length - width.saturating_sub(1)).collect();
    format!("…{kept}")
}

/// On one line, and harmless to a terminal: command lines hold scripts, and names what anybody wished.
pub fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// At most `width` characters, the beginning kept.
pub fn head(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_keep_three_digits() {
        let all = [0, 999, 1_000, 1_234, 99_949, 99_950, 999_499, 999_500, 12_345_678].map(short);
        assert_eq!(all, ["0", "999", "1.00k", "1.23k", "99.9k", "100k", "999k", "1.00M", "12.3M"]);
        assert_eq!((bytes(512), rate(19_300_000)), ("512 B".into(), "19.3 Mbit/s".into()));
        assert_eq!([-0.0, 59.94, 59.96, 200.0, 7300.0].map(span), ["0.0 s", "59.9 s", "1 min 0 s", "3 min 20 s", "2 h 1 min"]);
    }

    proptest! {
        #[test]
        fn a_number_never_takes_more_than_its_column(n: u64) {
            prop_assert!(short(n).len() <= 5, "{}", short(n));
        }

        #[test]
        fn cut_text_has_the_width_asked_for(text in "\\PC{0,40}", width in 1usize..40) {
            let wanted = text.chars().count().min(width);
            prop_assert_eq!(tail(&text, width).chars().count(), wanted);
            prop_assert_eq!(head(&text, width).chars().count(), wanted);
        }
    }
}
