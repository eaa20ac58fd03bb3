//! Traces read back as they were written, and no text makes the parser panic.

use proptest::prelude::*;

use super::*;

const FADING: &str = "# a link that fades\n0.0 20\n\n4.5 2.5\n5.0 0 # outage\nend 6\n";

fn mbps(rate: f64) -> Rate {
    Rate::from_mbps_f64(rate)
}

#[test]
fn the_rate_follows_the_lines_and_starts_over() {
    let trace = RateTrace::parse(FADING).expect("a valid trace");
    for (s, rate) in [(0.0, 20.0), (4.499, 20.0), (4.5, 2.5), (5.999, 0.0), (6.0, 20.0), (64.6, 2.5)] {
        assert_eq!(trace.rate_at(Time::from_secs_f64(s)), mbps(rate), "at {s} s");
    }
    assert_eq!(trace.next_change(Time::ZERO), Some((Time::from_millis(4_500), mbps(2.5))));
    assert_eq!(trace.next_change(Time::from_millis(5_000)), Some((Time::from_millis(6_000), mbps(20.0))));
    assert_eq!(trace.next_change(Time::from_millis(6_000)), Some((Time::from_millis(10_500), mbps(2.5))));
    assert_eq!(trace.mean(), Rate::from_bps((20e6 * 4.5 + 2.5e6 * 0.5) as u64 / 6));
}

#[test]
fn without_an_end_the_last_rate_stays() {
    let trace = RateTrace::parse("0 1\n2 3").expect("a valid trace");
    assert_eq!(trace.rate_at(Time::from_millis(9_999_000)), mbps(3.0));
    assert_eq!(trace.next_change(Time::from_millis(2_000)), None);
}

#[test]
fn a_bad_line_is_named_with_the_rule() {
    for (text, line, rule) in [
        ("", 0, "no rate"),
        ("1 20", 1, "at 0 s"),
        ("0 20\n\n3 1\n3 2", 4, "must rise"),
        ("0 20\n1", 2, "two words"),
        ("0 fast", 1, "not a number"),
        ("0 -1", 1, "between 0 and"),
        ("0 NaN", 1, "between 0 and"),
        ("0 20\n5 1\nend 5", 3, "after the last change"),
        ("0 20\nend 5\n6 1", 3, "follow `end`"),
        ("end 0", 0, "no rate"),
        ("0 0\n1 0\nend 2", 0, "0 throughout"),
    ] {
        let e = RateTrace::parse(text).expect_err(text);
        assert_eq!(e.line, line, "{text:?}: {e}");
        assert!(e.to_string().contains(rule), "{text:?}: {e}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "(end|[0-9]{1,3}|[ \t#.\n-]|\\PC){0,60}") {
        if let Ok(trace) = RateTrace::parse(&text) {
            let _ = (trace.mean(), trace.next_change(Time::MAX), trace.rate_at(Time::MAX));
        }
    }

    /// Walking from change to change sees the rates that `rate_at` tells, and time always goes on.
    #[test]
    fn changes_and_rates_agree(gaps in prop::collection::vec((1u64..5_000, 0u64..1_000), 1..20), tail in prop::option::of(1u64..5_000)) {
        let mut text = String::new();
        let mut ms = 0;
        for (gap, rate) in &gaps {
            text += &format!("{} {rate}\n", ms as f64 / 1e3);
            ms += gap;
        }
        let last = ms - gaps[gaps.len() - 1].0;
        if let Some(tail) = tail {
            text += &format!("end {}\n", (last + tail) as f64 / 1e3);
        }
        let trace = RateTrace::parse(&text).expect("well formed");
        let mut now = Time::ZERO;
        for _ in 0..60 {
            let Some((at, rate)) = trace.next_change(now) else { break };
            prop_assert!(at > now);
            prop_assert_eq!(trace.rate_at(at), rate);
            prop_assert_eq!(trace.rate_at(at - Span::from_nanos(1)), trace.rate_at(now));
            now = at;
        }
        prop_assert_eq!(tail.is_some(), trace.next_change(Time::from_millis(100_000_000)).is_some());
    }
}

#[test]
fn the_mean_of_a_part_counts_each_rate_for_as_long_as_it_holds() {
    let trace = RateTrace::parse("0 20\n4 10\n5 0\nend 6").expect("valid");
    let mean = |from, to| trace.mean_between(Time::from_secs_f64(from), Time::from_secs_f64(to));
    assert_eq!(mean(0.0, 6.0), trace.mean());
    assert_eq!(mean(3.0, 5.0), Rate::from_mbps_f64(15.0));
    assert_eq!(mean(5.0, 7.0), Rate::from_mbps_f64(10.0), "it starts over");
    assert_eq!(mean(1.0, 1.0), Rate::from_bps(0));
}
