//! `lowtide sim` from outside: results equal to the byte, sweeps that go on where they stopped, traces, the list.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SCENARIO: &str = "duration_s = 2.0
[topology]
kind = \"dumbbell\"
rate_mbps = 10.0
rtt_ms = 30.0
queue = { kind = \"drop_tail\", ms = 50 }
impair = { loss = 0.002 }
[[flows]]
name = \"bulk\"
cc = \"cubic\"
start_jitter_s = 0.5
[[flows]]
name = \"low\"
kind = \"rledbat\"
cc = \"cubic\"
receiver = { algorithm = \"ledbat_pp-enhanced-burst\" }
";
const SWEEP: [&str; 6] = ["--sweep", "topology.rtt_ms=30,60", "--sweep", "flows.bulk.cc=cubic,bbr1", "--repeat", "2"];

fn command(dir: &Path, scenario: &str, args: &[&str]) -> Output {
    fs::write(dir.join("s.toml"), scenario).expect("writable");
    Command::new(env!("CARGO_BIN_EXE_lowtide")).arg("sim").args(args).current_dir(dir).output().expect("lowtide starts")
}

fn sim(dir: &Path, args: &[&str]) -> Output {
    let output = command(dir, SCENARIO, args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Every file below `dir` by its path there.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(&next).expect("listable").map(|e| e.expect("readable").path()) {
            if entry.is_dir() {
                left.push(entry);
            } else {
                let name = entry.strip_prefix(dir).expect("below it").to_owned();
                found.insert(name, fs::read(&entry).expect("readable"));
            }
        }
    }
    found
}

#[test]
fn identical_runs_leave_identical_bytes_whatever_runs_beside_them() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let traced = ["--pcap", "--qlog", "--events"];
    let printed = [("one", "1"), ("two", "2")].map(|(out, jobs)| {
        let args = [&["s.toml", "--out", out, "--jobs", jobs], SWEEP.as_slice(), &traced].concat();
        sim(dir.path(), &args).stdout
    });
    assert_eq!(printed[0], printed[1]);
    let (one, two) = (files(&dir.path().join("one")), files(&dir.path().join("two")));
    // Eight runs of summary, scenario, two series, two captures, two logs, events.
    assert_eq!(one.len(), 8 * 9, "{:?}", one.keys());
    assert!(one == two, "some file differs between the runs");
}

#[test]
fn a_sweep_goes_on_where_it_stopped() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let args = [&["s.toml", "--out", "out"], SWEEP.as_slice()].concat();
    sim(dir.path(), &args);
    let out = dir.path().join("out");
    let before = files(&out);
    // One run was interrupted; another result is marked, to see that it is not made again.
    let runs: Vec<PathBuf> = fs::read_dir(&out).expect("listable").map(|e| e.expect("readable").path()).collect();
    assert_eq!(runs.len(), 8);
    fs::rename(&runs[0], runs[0].with_extension("part")).expect("movable");
    fs::write(runs[1].join("mark"), "untouched").expect("writable");
    sim(dir.path(), &args);
    assert!(runs[1].join("mark").exists(), "a finished run was repeated");
    fs::remove_file(runs[1].join("mark")).expect("removable");
    let _ = fs::remove_dir_all(runs[0].with_extension("part"));
    assert!(files(&out) == before);
}

#[test]
fn a_finished_run_is_repeated_for_traces_that_it_lacks() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    sim(dir.path(), &["s.toml", "--out", "out"]);
    assert!(!dir.path().join("out/server.pcap").exists());
    sim(dir.path(), &["s.toml", "--out", "out", "--pcap"]);
    assert!(dir.path().join("out/server.pcap").exists() && !dir.path().join("out/events.parquet").exists());
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_runs_in_one_line() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    fs::write(dir.path().join("file"), "").expect("writable");
    let edited = |good: &str, bad: &str| SCENARIO.replacen(good, bad, 1);
    for (scenario, args, expected) in [
        (
            edited("\"cubic\"", "\"cubik\""),
            vec![],
            "scenario s.toml line 10 key flows.bulk.cc: unknown congestion control `cubik`; known are",
        ),
        (edited("cc = \"cubic\"", "cc = \"cubic\"\nparams = { beta = 1 }"), vec![], "line 11 key flows.bulk.params: congestion control"),
        (edited("ms = 50", "target_ms = 5"), vec![], "line 6 key topology.queue.target_ms: unknown field"),
        (edited("ledbat_pp-enhanced-burst", "ledbat_pp-enhancd"), vec![], "line 16 key flows.low.receiver:"),
        (edited("start_jitter_s = 0.5", "start_s = 2.0"), vec![], "line 11 key flows.bulk.start_s: must be before the end"),
        (
            SCENARIO.to_owned(),
            vec!["--sweep", "flows.bulk.cc=cubic,cubik"],
            "scenario key flows.bulk.cc: unknown congestion control `cubik`",
        ),
        (SCENARIO.to_owned(), vec!["--sweep", "topology.rtt=1,2"], "scenario key topology.rtt: unknown field `rtt`"),
        (SCENARIO.to_owned(), vec!["--sweep", "flows.x.cc=reno"], "scenario: `flows.x.cc`: there is no `x` here"),
        (SCENARIO.to_owned(), vec!["--out", "file"], "--out file: must be a folder"),
    ] {
        let out: &[&str] = if args.contains(&"--out") { &[] } else { &["--out", "out"] };
        let args = [&["s.toml"], args.as_slice(), out].concat();
        let output = command(dir.path(), &scenario, &args);
        let message = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(expected) && message.lines().count() == 1, "{expected}: {message}");
        assert!(output.stdout.is_empty() && !dir.path().join("out").exists(), "{expected}: something ran");
    }
}

#[test]
fn the_list_names_what_scenarios_may_name() {
    let text = String::from_utf8(sim(tempfile::tempdir().expect("a temporary folder").path(), &["--list"]).stdout).expect("UTF-8");
    let line = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_else(|| panic!("no {name}: {text}"));
    for name in
        ["ledbat_pp ", "cubic ", "bbr1 ", "libutp ", "drop_tail ", "codel ", "fq_codel ", "pie ", "dumbbell ", "parking_lot ", "graph "]
    {
        assert!(line(name).len() > 30, "{name} is not explained");
    }
}

#[test]
fn what_would_take_all_memory_is_refused_before_it_is_begun() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let sweep = |key: &str| format!("{key}={}", (1..=1001).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    let (rtts, rates) = (sweep("topology.rtt_ms"), sweep("topology.rate_mbps"));
    for (args, word) in [
        (vec!["s.toml", "--sweep", &rtts, "--sweep", &rates, "--repeat", "1000"], "1002001000 runs"),
        (vec!["/dev/zero"], "larger than 16 MiB"),
    ] {
        let output = command(dir.path(), SCENARIO, &args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(word) && said.lines().count() == 1, "{word}: {said}");
    }
}
