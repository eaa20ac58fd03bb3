//! `lowtide lab` from outside: what it writes, and that nothing of it is left after an end, an error or Ctrl-C. Needs root;
//! without it each test says that it was skipped.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const HEAD: &str = "duration_s = 2.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 20.0\nrtt_ms = 20.0\n";
const QUEUES: [&str; 3] = ["drop_tail\", ms = 100", "codel\"", "fq_codel\""];
const FLOWS: &str = "[[flows]]\nname = \"bulk\"\ncc = \"cubic\"\n[[flows]]\nname = \"call\"\nkind = \"udp\"\ntraffic = { kind = \"cbr\", rate_kbps = 75.2, packet_bytes = 188 }\n";

/// Marked in its environment, which everything that it starts inherits.
fn lowtide(mark: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lowtide"));
    command.env("LOWTIDE_TEST", mark).args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn scenario(dir: &Path, queue: &str, flows: &str) -> String {
    let path = dir.join("scenario.toml");
    fs::write(&path, format!("{HEAD}queue = {{ kind = \"{queue} }}\n{flows}")).expect("writable");
    path.display().to_string()
}

fn root(test: &str) -> bool {
    let ready = lowtide_lab::site::ready();
    if let Err(e) = &ready {
        lowtide_testing::skip(test, &format!("{e:#}"));
    }
    ready.is_ok()
}

/// The command lines of the processes with that mark.
fn marked(mark: &Path) -> Vec<String> {
    let mark = format!("LOWTIDE_TEST={}", mark.display());
    let of = |process: fs::DirEntry| {
        let read = |what: &str| fs::read(process.path().join(what)).map(|text| String::from_utf8_lossy(&text).replace('\0', " "));
        read("environ").ok()?.contains(&mark).then(|| read("cmdline").unwrap_or_default())
    };
    fs::read_dir("/proc").expect("/proc").flatten().filter_map(of).collect()
}

/// A namespace without a name lives as long as a process holds it, and a device as long as its namespace: with the processes all
/// is gone.
fn assert_nothing_left(mark: &Path) {
    for _ in 0..50 {
        if marked(mark).is_empty() {
            return;
        }
        sleep(Duration::from_millis(100));
    }
    panic!("still there: {:?}", marked(mark));
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_discipline_runs_and_its_result_is_a_folder() {
    if !root("every_discipline_runs_and_its_result_is_a_folder") {
        return;
    }
    for queue in QUEUES {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (file, out) = (scenario(dir.path(), queue, FLOWS), dir.path().join("result"));
        let output = lowtide(dir.path(), &["lab", &file, "--json", "--out", &out.display().to_string()]).output().expect("lowtide starts");
        assert!(output.status.success(), "{queue}: {}", text(&output));
        let result = lowtide_scenario::ResultDir::read(&out).expect("a result");
        let series = result.series.expect("series");
        assert!(result.summary.flows[0].goodput_bps > 5e6 && result.summary.lateness_ms.is_some(), "{queue}: {:?}", result.summary);
        assert!(series.flows.iter().any(|p| p.flow == "bulk" && p.cwnd_bytes > 0.0), "{queue}");
        assert!(series.flows.iter().any(|p| p.flow == "call" && p.rtt_ms >= 20.0), "{queue}");
        assert!(series.queues.iter().any(|p| p.bottleneck == "forward" && p.queue_bytes > 0.0), "{queue}");
        assert_nothing_left(dir.path());
    }
}

#[test]
fn a_transfer_that_the_end_of_the_run_cuts_off_is_neither_a_failure_nor_a_completion() {
    if !root("a_transfer_that_the_end_of_the_run_cuts_off_is_neither_a_failure_nor_a_completion") {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let page = "[[flows]]\nname = \"page\"\ncc = \"cubic\"\ntraffic = { kind = \"repeat\", bytes = 100000000, every_s = 1.0 }\n";
    let (file, out) = (scenario(dir.path(), QUEUES[0], page), dir.path().join("result"));
    let output = lowtide(dir.path(), &["lab", &file, "--out", &out.display().to_string()]).output().expect("lowtide starts");
    assert!(output.status.success(), "{}", text(&output));
    let flow = &lowtide_scenario::ResultDir::read(&out).expect("a result").summary.flows[0];
    assert!(flow.goodput_bps > 5e6 && flow.completion_s.is_none(), "{flow:?}");
}

/// A run of ten minutes whose programs run and that then gets `signal`, looked at after its end.
fn ended_by(signal: Signal) -> Output {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = scenario(dir.path(), QUEUES[0], FLOWS);
    let out = dir.path().join("result").display().to_string();
    let child = lowtide(dir.path(), &["lab", &file, "--out", &out, "--set", "duration_s=600"]).spawn().expect("lowtide starts");
    let runs = || marked(dir.path()).iter().any(|line| line.starts_with("curl"));
    let soon = (0..200).any(|_| {
        sleep(Duration::from_millis(50));
        runs()
    });
    assert!(soon, "its programs do not run: {:?}", marked(dir.path()));
    kill(Pid::from_raw(child.id() as i32), signal).expect("it can be ended");
    let output = child.wait_with_output().expect("it ends");
    assert_nothing_left(dir.path());
    assert!(!Path::new(&out).exists(), "half a result is none");
    output
}

#[test]
fn nothing_is_left_after_ctrl_c() {
    if root("nothing_is_left_after_ctrl_c") {
        let output = ended_by(Signal::SIGINT);
        assert!(output.status.code() == Some(1) && text(&output).contains("interrupted"), "{}: {}", output.status, text(&output));
    }
}

#[test]
fn nothing_is_left_after_a_kill() {
    if root("nothing_is_left_after_a_kill") {
        let output = ended_by(Signal::SIGKILL);
        assert_eq!(output.status.signal(), Some(Signal::SIGKILL as i32), "{}", text(&output));
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_known_before_the_run() {
    if !root("a_folder_that_cannot_be_written_is_known_before_the_run") {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = scenario(dir.path(), QUEUES[0], FLOWS);
    let output = lowtide(dir.path(), &["lab", &file, "--out", "/proc/result", "--set", "duration_s=600"]).output().expect("lowtide starts");
    assert!(output.status.code() == Some(1) && text(&output).contains("--out /proc/result: cannot be written"), "{}", text(&output));
}

#[test]
fn nothing_is_left_after_an_error() {
    if !root("nothing_is_left_after_an_error") {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = scenario(dir.path(), QUEUES[0], &format!("{FLOWS}[[flows]]\nname = \"odd\"\ncc = \"no_such_control\"\n"));
    let out = dir.path().join("result").display().to_string();
    let output = lowtide(dir.path(), &["lab", &file, "--out", &out, "--set", "duration_s=600"]).output().expect("lowtide starts");
    assert!(output.status.code() == Some(1) && text(&output).contains("no_such_control"), "{}", text(&output));
    assert_nothing_left(dir.path());
}
