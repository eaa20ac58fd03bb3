//! `lowtide run` and `lowtide doctor` from outside, as a shell sees them: exit codes, signals, messages, what arrives. What needs root and
//! BPF says when it is skipped.

mod common;
#[path = "common/running.rs"]
mod running;

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::thread;

use common::{can_manage, lowtide, output};
use running::Running;

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn code(args: &[&str]) -> i32 {
    output(args).status.code().expect("it ends by itself")
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}

#[test]
fn wrong_usage_is_two_and_says_what_is_right() {
    for args in [&["run"] as &[_], &["run", "--target", "fast", "--", "true"], &["run", "--pid", "1", "--", "true"], &["walk"]] {
        let output = output(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains("Usage:") || stderr(&output).contains("--help"), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_command_that_does_not_exist_is_127_and_named() {
    let output = output(&["run", "--best-effort", "--", "no-such-command"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(stderr(&output).contains("no command `no-such-command`"), "{}", stderr(&output));
}

#[test]
fn a_file_that_cannot_be_executed_is_126() {
    assert_eq!(code(&["run", "--best-effort", "--", "/etc/passwd"]), 126);
}

#[test]
fn the_commands_exit_code_is_ours() {
    assert_eq!(code(&["run", "--best-effort", "--", "sh", "-c", "exit 0"]), 0);
    assert_eq!(code(&["run", "--best-effort", "--", "sh", "-c", "exit 77"]), 77);
}

#[test]
fn the_signal_that_ended_the_command_shows_as_128_and_its_number() {
    assert_eq!(code(&["run", "--best-effort", "--", "sh", "-c", "kill -SEGV $$"]), 128 + 11);
}

#[test]
fn a_signal_sent_to_lowtide_reaches_the_command() {
    let script = "trap 'echo got; exit 5' TERM; echo ready; while :; do sleep 0.02; done";
    let mut running = Running::of(&mut lowtide(&["run", "--best-effort", "--", "sh", "-c", script]));
    assert_eq!(running.line(), "ready");
    running.kill("-TERM");
    assert_eq!(running.line(), "got");
    assert_eq!(running.code(), Some(5));
}

#[test]
fn a_control_c_before_the_command_has_started_keeps_it_from_starting() {
    // Pending at exec(2), as one that came while the programs were being loaded.
    let script = "use POSIX; sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGINT)); kill INT => $$; exec @ARGV";
    let words = [script, env!("CARGO_BIN_EXE_lowtide"), "run", "--best-effort", "--", "echo", "started"];
    let output = Command::new("perl").arg("-e").args(words).output().expect("perl starts");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(128 + 2), 0), "{}", stderr(&output));
    assert!(stderr(&output).contains("SIGINT"), "{}", stderr(&output));
}

#[test]
fn the_command_has_our_input_output_and_arguments() {
    let output = output(&["run", "--best-effort", "--", "printf", "%s|", "a b", "--quiet", "-x"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "a b|--quiet|-x|");
}

#[test]
fn a_json_file_that_cannot_be_written_is_said_before_the_command_starts() {
    let output = output(&["run", "--best-effort", "--json", "/no/such/folder/x", "--", "echo", "started"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(stderr(&output).contains("/no/such/folder/x"), "{}", stderr(&output));
}

/// As user 65534 (nobody), the binary copied to where that user may read it. A root that may not change its user (a container
/// without CAP_SETUID) has no more rights than nobody: then as it is.
fn as_nobody(args: &[&str]) -> Output {
    if !is_root() {
        return output(args);
    }
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    let folder = tempfile::Builder::new().permissions(readable).tempdir().expect("a folder can be made");
    let copy = folder.path().join("lowtide");
    fs::copy(env!("CARGO_BIN_EXE_lowtide"), &copy).expect("it can be copied");
    match Command::new(&copy).args(args).current_dir("/").uid(65534).gid(65534).output() {
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => output(args),
        run => run.expect("it starts"),
    }
}

#[test]
fn without_root_the_remedy_is_named_and_the_command_is_not_started() {
    let output = as_nobody(&["run", "--", "echo", "started"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(stderr(&output).contains("sudo") && stderr(&output).contains("CAP_BPF"), "{}", stderr(&output));
}

#[test]
fn without_root_best_effort_runs_the_command_and_says_that_it_is_not_managed() {
    let output = as_nobody(&["run", "--best-effort", "--", "echo", "started"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), b"started\n" as &[u8]));
    assert!(stderr(&output).contains("NOT managed"), "{}", stderr(&output));
}

#[test]
fn doctor_agrees_with_itself_in_text_json_and_exit_code() {
    let (text, json) = (output(&["doctor"]), output(&["doctor", "--json"]));
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!((text.status.success(), report["ready"].as_bool()), (json.status.success(), Some(json.status.success())));
    assert!(report["features"].as_array().is_some_and(|f| f.len() > 4));
}

#[test]
fn doctor_is_not_deceived_by_root_in_a_user_namespace() {
    let lowtide = env!("CARGO_BIN_EXE_lowtide");
    let Ok(inside) = Command::new("unshare").args(["--user", "--map-root-user", lowtide, "doctor"]).output() else { return };
    let text = String::from_utf8_lossy(&inside.stdout).into_owned();
    // Where user namespaces are forbidden unshare itself fails, and says nothing there.
    assert!(text.is_empty() || (inside.status.code() == Some(1) && text.contains("user namespace")), "{text}");
}

#[test]
fn doctor_says_the_same_inside_a_network_namespace() {
    if !can_manage("doctor_says_the_same_inside_a_network_namespace") {
        return;
    }
    let inside = Command::new("unshare").args(["--net", env!("CARGO_BIN_EXE_lowtide"), "doctor"]).output().expect("unshare starts");
    assert!(inside.status.success(), "{}", String::from_utf8_lossy(&inside.stdout));
}

/// Sends `text` to the first who connects; the port.
fn serve_once(text: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is up");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || listener.accept().and_then(|(mut peer, _)| peer.write_all(&text)));
    port
}

#[test]
fn what_the_command_receives_arrives_whole_and_is_counted_to_the_byte() {
    if !can_manage("what_the_command_receives_arrives_whole_and_is_counted_to_the_byte") {
        return;
    }
    let text: Vec<u8> = (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let file = tempfile::NamedTempFile::new().expect("a file");
    let (port, path) = (serve_once(text.clone()), file.path().display().to_string());
    let output = output(&["run", "--json", &path, "--", "bash", "-c", &format!("cat < /dev/tcp/127.0.0.1/{port}")]);
    assert!(output.status.success() && output.stdout == text, "{}", stderr(&output));
    let summary: serde_json::Value = serde_json::from_slice(&fs::read(file.path()).expect("it is there")).expect("JSON");
    assert_eq!((&summary["bytes"], &summary["connections"]), (&3_000_000.into(), &1.into()), "{summary}");
    assert!(stderr(&output).contains("received 3.00 MB"), "{}", stderr(&output));
}

#[test]
fn a_transfer_whose_lowtide_is_killed_arrives_whole() {
    if !can_manage("a_transfer_whose_lowtide_is_killed_arrives_whole") {
        return;
    }
    let port = serve_once(vec![b'x'; 50_000_000]);
    let script = format!("exec < /dev/tcp/127.0.0.1/{port}; head -c 1000000 | wc -c; cat | wc -c");
    let mut running = Running::of(&mut lowtide(&["run", "--", "bash", "-c", &script]));
    let first: usize = running.line().parse().expect("a number"); // head may have read more than it passed on
    running.kill("-KILL");
    let rest: usize = running.line().parse().expect("a number");
    assert!(first == 1_000_000 && rest > 48_900_000, "{first} and {rest}");
    assert_eq!(running.code(), None);
}
