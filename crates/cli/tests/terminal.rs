//! Pipes and terminals: a reader that closes early, a screen that is given back.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

const LOWTIDE: &str = env!("CARGO_BIN_EXE_lowtide");

#[test]
fn a_reader_that_closes_early_ends_the_command_without_a_word() {
    for (args, lines) in [("sim --list", "head -n 1"), ("doctor", "true"), ("status", "true")] {
        // Time for the reader to be gone before anything is printed.
        let script = format!("(sleep 0.3; exec {LOWTIDE} {args}) | {lines} >/dev/null");
        let output = Command::new("sh").args(["-c", &script]).output().expect("sh starts");
        assert!(output.stderr.is_empty(), "{args} | {lines}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_full_disk_is_one_line_and_no_panic() {
    for args in [&["sim", "--list"] as &[_], &["doctor", "--json"], &["status"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let output = Command::new(LOWTIDE).args(args).stdout(full).output().expect("lowtide starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{args:?}: {said}");
        assert!(said.contains("standard output cannot be written"), "{args:?}: {said}");
    }
}

#[test]
fn a_terminated_top_gives_the_screen_back() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pid = folder.path().join("pid");
    // `script` lends a terminal; `echo` tells which process is to be signalled.
    let inner = format!("stty rows 24 cols 80; echo $$ > {}; exec {LOWTIDE} top", pid.display());
    let script = Command::new("script").args(["-qfec", &inner, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut script) = script else {
        lowtide_testing::skip("a_terminated_top_gives_the_screen_back", "no `script` here");
        return;
    };
    let mut output = script.stdout.take().expect("piped");
    let (mut screen, mut bytes) = (String::new(), [0; 4096]);
    while !screen.contains("\x1b[?1049h") {
        let n = output.read(&mut bytes).expect("readable");
        assert!(n > 0, "top ended: {screen:?}");
        screen.push_str(&String::from_utf8_lossy(&bytes[..n]));
    }
    thread::sleep(Duration::from_millis(300));
    let pid = fs::read_to_string(pid).expect("written");
    Command::new("kill").args(["-TERM", pid.trim()]).status().expect("kill starts");
    output.read_to_string(&mut screen).expect("readable");
    script.wait().expect("it ends");
    assert!(screen.contains("\x1b[?1049l"), "the alternate screen was not left: {screen:?}");
}
