//! Recorded opportunities exactly as mahimahi gives them; drawn ones by their distribution.

use proptest::prelude::*;

use super::*;

fn times(mut source: Opportunities, until: Time) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let mut now = Time::ZERO;
    loop {
        let (at, bytes) = source.after(now);
        if at >= until {
            return found;
        }
        found.push((at.nanos(), bytes));
        now = at;
    }
}

fn recorded(text: &str) -> Opportunities {
    Opportunities::recorded(Recording::parse(text).expect("a trace"))
}

/// `link_queue.cc`: after the last line the base moves by its time, so that an opportunity at 0 follows at the same millisecond.
#[test]
fn a_recorded_trace_gives_its_opportunities_and_starts_over() {
    let ms = |list: &[(u64, u64)]| list.iter().map(|&(ms, n)| (ms * 1_000_000, n * 1500)).collect::<Vec<_>>();
    assert_eq!(times(recorded("1\n3\n3\n5\n"), Time::from_millis(12)), ms(&[(1, 1), (3, 2), (5, 1), (6, 1), (8, 2), (10, 1), (11, 1)]));
    let mut with_zero = recorded("0\n2\n");
    assert_eq!(with_zero.after(Time::from_millis(1)), (Time::from_millis(2), 1500));
}

#[test]
fn what_mahimahi_refuses_is_refused_with_its_line() {
    let refused = |text: &str| Recording::parse(text).expect_err("no trace").line;
    assert_eq!(
        [refused("1\nx\n"), refused("1\n\n2\n"), refused("5\n4\n"), refused(""), refused("0\n0\n"), refused("-1\n")],
        [2, 2, 2, 0, 0, 1]
    );
    assert_eq!(refused("99999999999999\n"), 1);
}

proptest! {
    /// The mean counts what `after` gives, over any interval of whole milliseconds.
    #[test]
    fn the_mean_is_what_the_opportunities_carry(mut lines in proptest::collection::vec(1_u64..200, 1..40), from in 0_u64..500, len in 1_u64..900) {
        lines.sort_unstable();
        let text: String = lines.iter().map(|ms| format!("{ms}\n")).collect();
        let (start, end) = (Time::from_millis(from), Time::from_millis(from + len));
        let carried: u64 = times(recorded(&text), end).iter().filter(|(at, _)| *at >= start.nanos()).map(|(_, bytes)| bytes).sum();
        prop_assert_eq!(recorded(&text).mean_between(start, end), Rate::from_bytes_over(carried, end.since(start)));
    }

    /// Any seed: drawn opportunities rise, are the same again, and the mean counts them.
    #[test]
    fn drawn_opportunities_rise_and_their_mean_counts_them(seed in 0_u64..10_000, mbps in 0.5..60.0_f64) {
        let source = || Opportunities::drawn(CellularConfig::default(), Rate::from_mbps_f64(mbps), Seed::new(seed));
        let end = Time::from_millis(3000);
        let drawn = times(source(), end);
        prop_assert!(drawn.windows(2).all(|pair| pair[0].0 < pair[1].0));
        prop_assert_eq!(&drawn, &times(source(), end));
        let carried = drawn.len() as u64 * OPPORTUNITY_BYTES;
        prop_assert_eq!(source().mean_between(Time::ZERO, end), Rate::from_bytes_over(carried, end.since(Time::ZERO)));
    }
}

/// With σ = 0 it is a Poisson process: mean and variance of counts are the same, λ times the time.
#[test]
fn without_wander_it_is_a_poisson_process_of_the_links_rate() {
    let config = CellularConfig { wander_pps: 0.0, ..CellularConfig::default() };
    let drawn = times(Opportunities::drawn(config, Rate::from_mbps_f64(12.0), Seed::new(3)), Time::from_millis(200_000));
    let mut counts = vec![0.0; 2000];
    drawn.iter().for_each(|(at, _)| counts[(at / 100_000_000) as usize] += 1.0);
    let mean = counts.iter().sum::<f64>() / 2000.0;
    let variance = counts.iter().map(|n| (n - mean) * (n - mean)).sum::<f64>() / 2000.0;
    assert!((mean / 100.0 - 1.0).abs() < 0.01 && (variance / 100.0 - 1.0).abs() < 0.1, "{mean}, {variance}");
}

/// Far from its ends, λ after a second differs from where it began by σ, over many seeds; the mean stays.
#[test]
fn the_rate_wanders_by_sigma_in_a_second() {
    let lambda = |seed| {
        let mut drawn = Drawn::new(CellularConfig::default(), Rate::from_mbps_f64(24.0), Seed::new(seed));
        while drawn.next() < Time::from_millis(1000) {}
        drawn.rate - 2000.0
    };
    let moved: Vec<f64> = (0..2000).map(lambda).collect();
    let mean = moved.iter().sum::<f64>() / 2000.0;
    let deviation = (moved.iter().map(|x| x * x).sum::<f64>() / 2000.0).sqrt();
    assert!(mean.abs() < 15.0 && (deviation / 200.0 - 1.0).abs() < 0.05, "{mean}, {deviation}");
}

/// On a slow link λ comes to zero: outages last a second on average (λ_z = 1), and the link comes back.
#[test]
fn outages_end_once_a_second() {
    let mut drawn = Drawn::new(CellularConfig::default(), Rate::from_mbps_f64(1.0), Seed::new(5));
    let (mut ticks, mut outages, mut out) = (0_u32, 0_u32, false);
    for _ in 0..200_000 {
        drawn.wander();
        let now_out = drawn.rate <= 0.0;
        ticks += u32::from(now_out);
        outages += u32::from(now_out && !out);
        out = now_out;
    }
    let mean_s = f64::from(ticks) * TICK.secs_f64() / f64::from(outages);
    assert!(outages > 500 && (mean_s - 1.0).abs() < 0.1, "{outages} outages of {mean_s} s");
}

#[test]
fn what_no_network_can_be_is_refused_by_its_key() {
    let refused = |wander_pps, recovery_per_s| CellularConfig { wander_pps, recovery_per_s }.check().expect_err("impossible").0;
    assert_eq!([refused(-1.0, 1.0), refused(f64::NAN, 1.0), refused(200.0, 0.0)], ["wander_pps", "wander_pps", "recovery_per_s"]);
}
