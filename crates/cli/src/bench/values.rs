//! The numbers of one result that a row may name. Knows results only.

use lowtide_scenario::result::FlowResult;
use lowtide_scenario::{ResultDir, Scenario};

/// The added delay above which a packet of a call comes too late (Bagnulo 2023 sec. 6.1: the target of LEDBAT++).
const TOO_LATE_MS: f64 = 60.0;

/// Where a result keeps the simulator's result of the same scenario, below its own folder.
pub const SIMULATED: &str = "simulated";
/// Names of its values, and of the laboratory's values as a part of them, begin so.
const OF_SIMULATED: &str = "simulated.";
const TO_SIMULATED: &str = "to_simulated.";
const APART: &str = "apart.";
/// How far a share may be from the simulated one: the larger of a fifth of that and a hundredth of the line.
const SHARE_APART: (f64, f64) = (0.2, 0.01);

/// Whether the value that `name` names needs the simulator's result.
pub fn needs_simulation(name: &str) -> bool {
    [OF_SIMULATED, TO_SIMULATED, APART].iter().any(|start| name.starts_with(start))
}

/// The value that `name` names: `share.bulk`, `jain`, …; none if the result has no such value.
///
/// With a flow or a group: `share`, `goodput` (Mbit/s), `frac` (its part of all goodput), `completion` (s), `loss`, `in_time` (the part of
/// a call's packets that the queue added less than 60 ms to), `stall` (s, the longest time after the warm-up in which nothing new of it
/// arrived). Of the whole: `jain`, `utilisation`, `queue_p95` (ms), the same of the way up (`up_utilisation`, `up_queue_p95`), `queue_max`
/// (bytes), `drops`, `late_p50`, `late_p99`, `late_max` (ms). Before any of these: `simulated.`, the simulator's value for the same
/// scenario; `to_simulated.`, this one divided by it; `apart.`, for shares: how far this one is from it as a part of what is allowed, the
/// larger of a fifth of it and 0.01 of the line.
pub fn named(result: &ResultDir, name: &str) -> Option<f64> {
    let simulated = || ResultDir::read(&result.path.join(SIMULATED)).ok();
    if let Some(rest) = name.strip_prefix(OF_SIMULATED) {
        return named(&simulated()?, rest);
    }
    if let Some(rest) = name.strip_prefix(TO_SIMULATED) {
        return Some(named(result, rest)? / named(&simulated()?, rest)?);
    }
    if let Some(rest) = name.strip_prefix(APART) {
        let (here, there) = (named(result, rest)?, named(&simulated()?, rest)?);
        return Some((here - there).abs() / (SHARE_APART.0 * there).max(SHARE_APART.1));
    }
    let summary = &result.summary;
    if let Some((what, who)) = name.split_once('.') {
        let flows: Vec<&FlowResult> = summary.flows.iter().filter(|f| f.name == who || f.group == who).collect();
        let sum = |value: fn(&FlowResult) -> f64| (!flows.is_empty()).then(|| flows.iter().map(|f| value(f)).sum::<f64>());
        return match what {
            "share" => sum(|f| f.share),
            "goodput" => sum(|f| f.goodput_bps / 1e6),
            "frac" => sum(|f| f.goodput_bps).map(|sum| sum / summary.flows.iter().map(|f| f.goodput_bps).sum::<f64>()),
            "completion" => flows.first()?.completion_s,
            "in_time" => in_time(result, who),
            "stall" => stall(result, who),
            _ => None,
        };
    }
    let forward = summary.bottlenecks.first()?;
    let late = summary.lateness_ms;
    let up = summary.bottlenecks.get(1);
    match name {
        "up_utilisation" => up.map(|b| b.utilisation),
        "up_queue_p95" => up.map(|b| b.queue_delay_ms.p95),
        "jain" => Some(summary.jain),
        "utilisation" => Some(forward.utilisation),
        "queue_p95" => Some(forward.queue_delay_ms.p95),
        "queue_max" => Some(forward.queue_bytes.max),
        "drops" => Some(forward.drops as f64),
        "late_p50" => late.map(|l| l.p50),
        "late_p99" => late.map(|l| l.p99),
        "late_max" => late.map(|l| l.max),
        _ => None,
    }
}

/// Against the call's own fastest packet; only after the warm-up.
fn in_time(result: &ResultDir, who: &str) -> Option<f64> {
    let warmup = Scenario::parse(&result.scenario).ok()?.warmup_s;
    let points = || result.series.iter().flat_map(|s| &s.flows).filter(|p| p.flow == who && !p.rtt_ms.is_nan());
    let base = points().map(|p| p.rtt_ms).min_by(f64::total_cmp)?;
    let measured: Vec<f64> = points().filter(|p| p.time_s >= warmup).map(|p| p.rtt_ms - base).collect();
    Some(measured.iter().filter(|added| **added < TOO_LATE_MS).count() as f64 / measured.len() as f64)
}

/// Between two of its points at which something had arrived since the point before.
fn stall(result: &ResultDir, who: &str) -> Option<f64> {
    let warmup = Scenario::parse(&result.scenario).ok()?.warmup_s;
    let points = result.series.iter().flat_map(|s| &s.flows).filter(|p| p.flow == who && p.time_s >= warmup);
    let (mut last, mut longest, mut end) = (None, 0.0_f64, 0.0);
    for point in points {
        end = point.time_s;
        if point.goodput_bps > 0.0 {
            longest = longest.max(end - last.unwrap_or(warmup));
            last = Some(end);
        }
    }
    last.map(|last| longest.max(end - last))
}

#[cfg(test)]
mod tests {
    use lowtide_scenario::{Bottleneck, FlowPoint, Series, Summary};

    use super::*;

    fn result() -> ResultDir {
        let flow = |name: &str, group: &str, share| FlowResult { name: name.into(), group: group.into(), share, ..FlowResult::default() };
        let point = |at, rtt_ms| FlowPoint { rtt_ms, ..FlowPoint::at(at, "call") };
        ResultDir {
            path: std::path::PathBuf::new(),
            scenario: "duration_s = 9.0\nwarmup_s = 1.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 1.0\nrtt_ms = 1.0\nqueue = { kind = \"drop_tail\", ms = 9 }".into(),
            summary: Summary {
                flows: vec![flow("low.1", "low", 0.1), flow("low.2", "low", 0.2), flow("call", "call", 0.3)],
                bottlenecks: vec![Bottleneck { utilisation: 0.7, ..Bottleneck::default() }],
                ..Summary::default()
            },
            series: Some(Series { flows: vec![point(0.5, 20.0), point(2.0, 79.9), point(3.0, 80.0), point(4.0, 200.0)], queues: Vec::new() }),
        }
    }

    #[test]
    fn a_group_is_summed_and_what_is_not_there_is_none() {
        let result = result();
        let value = |name| named(&result, name);
        assert!((value("share.low").expect("a group") - 0.3).abs() < 1e-12);
        assert_eq!((value("share.low.2"), value("utilisation")), (Some(0.2), Some(0.7)));
        assert_eq!((value("share.nobody"), value("late_p50"), value("nonsense")), (None, None, None));
    }

    #[test]
    fn a_stall_is_the_longest_time_without_anything_new_up_to_the_end() {
        let point = |time_s, goodput_bps| FlowPoint { goodput_bps, ..FlowPoint::at(time_s, "up") };
        let points = |last| vec![point(0.5, 0.0), point(1.2, 9.0), point(2.0, 0.0), point(2.2, 9.0), point(3.0, 0.0), point(last, 0.0)];
        let stalled = |last| {
            let series = Some(Series { flows: points(last), queues: Vec::new() });
            named(&ResultDir { series, ..result() }, "stall.up").expect("a value")
        };
        assert!((stalled(3.1) - 1.0).abs() < 1e-9 && (stalled(4.0) - 1.8).abs() < 1e-9);
        assert_eq!(named(&result(), "stall.call"), None, "nothing of it arrived");
    }

    #[test]
    fn the_simulators_result_is_read_from_below_the_laboratorys() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |path: &std::path::Path, utilisation| {
            let summary = Summary { bottlenecks: vec![Bottleneck { utilisation, ..Bottleneck::default() }], ..result().summary };
            ResultDir::write(path, &result().scenario, &summary, None).expect("written");
        };
        write(folder.path(), 0.6);
        write(&folder.path().join(SIMULATED), 0.8);
        let result = ResultDir::read(folder.path()).expect("read");
        let value = |name| named(&result, name).expect("a value");
        assert_eq!((value("utilisation"), value("simulated.utilisation"), value("to_simulated.utilisation")), (0.6, 0.8, 0.6 / 0.8));
        assert!((value("apart.utilisation") - 0.2 / 0.16).abs() < 1e-9);
        assert!(needs_simulation("to_simulated.utilisation") && !needs_simulation("utilisation"));
    }

    #[test]
    fn a_packet_is_in_time_below_sixty_ms_over_the_fastest_once_the_warmup_is_over() {
        assert_eq!(named(&result(), "in_time.call"), Some(1.0 / 3.0));
    }
}
