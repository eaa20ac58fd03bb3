//! `lowtide utp send` and `recv`, two processes on loopback.
#![expect(clippy::disallowed_methods, reason = "how long a sender that has gone is in the way is what is tested")]

#[path = "common/utp_ends.rs"]
mod utp_ends;

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use utp_ends::{Listening, bytes, lowtide, send};

/// A receiver of one transfer.
fn recv(folder: &Path, more: &[&str]) -> Listening {
    let folder = folder.to_str().expect("a name");
    Listening::start(&[&["recv", "--listen", "127.0.0.1:0", "--once", "-o", folder], more].concat())
}

/// Whether it ended well, and what it said.
fn ended(mut it: Listening) -> (bool, String) {
    let success = it.child.wait().expect("it ends").success();
    let mut errors = String::new();
    it.child.stderr.take().expect("piped").read_to_string(&mut errors).expect("read");
    (success, errors)
}

#[test]
fn a_folder_arrives_encrypted_and_in_the_clear() {
    let from = tempfile::tempdir().expect("a folder");
    let whole = from.path().join("whole");
    std::fs::create_dir_all(whole.join("deep/er")).expect("made");
    let files = [("a", bytes(5_000_000, 1)), ("deep/er/b", bytes(70_000, 2)), ("empty", Vec::new()), ("a\\b\n\u{1b}[31m…", Vec::new())];
    for (name, content) in &files {
        std::fs::write(whole.join(name), content).expect("written");
    }
    let key = from.path().join("key");
    std::fs::write(&key, bytes(32, 3)).expect("written");
    let keyed = ["--key", key.to_str().expect("a name")];
    for more in [&[][..], &keyed] {
        let to = tempfile::tempdir().expect("a folder");
        let mut receiver = recv(to.path(), more);
        let sent = send(&whole, &receiver.address, &[&["--json"], more].concat());
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
        let summary: Value = serde_json::from_slice(&sent.stdout).expect("JSON");
        let received = receiver.line();
        assert_eq!(summary["files"], received["files"]);
        assert_eq!((&summary["bytes"], &summary["encrypted"]), (&5_070_000.into(), &(!more.is_empty()).into()));
        for (name, content) in &files {
            assert!(std::fs::read(to.path().join("whole").join(name)).expect("there") == *content, "{name}");
        }
        assert!(ended(receiver).0);
        assert!(
            std::fs::read_dir(to.path().join("whole")).expect("there").all(|f| !f
                .expect("f")
                .file_name()
                .to_string_lossy()
                .contains("part"))
        );
    }
}

#[test]
fn a_transfer_that_was_interrupted_goes_on() {
    let (from, to) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (file, content) = (from.path().join("f"), bytes(3_000_000, 4));
    std::fs::write(&file, &content).expect("written");
    std::fs::write(to.path().join(".f.lowtide-part"), &content[..1_234_567]).expect("written");
    let mut receiver = recv(to.path(), &[]);
    assert!(send(&file, &receiver.address, &[]).status.success());
    let summary = receiver.line();
    assert_eq!((&summary["files"][0]["resumed_at"], &summary["bytes"]), (&1_234_567.into(), &(3_000_000 - 1_234_567).into()));
    assert!(std::fs::read(to.path().join("f")).expect("there") == content);
}

/// A sender that goes on for ever, slowly.
fn slow_sender(to: &str) -> Child {
    let mut child = lowtide(&["send", "-", to, "--name", "slow"]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts");
    // More than a frame, so that some of it arrives.
    child.stdin.as_mut().expect("piped").write_all(&bytes(200_000, 7)).expect("written");
    child
}

/// Waits until part of `slow` has arrived in `folder`.
fn part_arrives(folder: &Path) {
    let part = folder.join(".slow.lowtide-part");
    while !part.metadata().is_ok_and(|part| part.len() > 0) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ctrl-C tells the receiver, which lets the same file come again at once; so does the receiver's host when the sender was killed.
#[test]
fn a_sender_that_has_gone_is_not_in_the_way_of_the_next() {
    for (signal, most) in [(Signal::SIGINT, 5), (Signal::SIGINT, 5), (Signal::SIGINT, 5), (Signal::SIGKILL, 60)] {
        let to = tempfile::tempdir().expect("a folder");
        let folder = to.path().to_str().expect("a name");
        let receiver = Listening::start(&["recv", "--listen", "127.0.0.1:0", "-o", folder]);
        let mut sender = slow_sender(&receiver.address);
        part_arrives(to.path());
        kill(Pid::from_raw(sender.id() as i32), signal).expect("it runs");
        // Ctrl-C ends what writes to its standard input as well: that is no end of the file.
        drop(sender.stdin.take());
        let status = sender.wait().expect("it ends");
        assert!(signal == Signal::SIGKILL || status.code() == Some(130), "{status}");
        assert!(!to.path().join("slow").exists(), "{signal}: half a file");
        let began = Instant::now();
        let mut again = lowtide(&["send", "-", &receiver.address, "--name", "slow"]).stdin(Stdio::piped()).spawn().expect("starts");
        again.stdin.take().expect("piped").write_all(b"whole").expect("written");
        assert!(again.wait().expect("ends").success(), "{signal}");
        assert!(began.elapsed() < Duration::from_secs(most), "{signal}: {:?}", began.elapsed());
        assert_eq!(std::fs::read(to.path().join("slow")).expect("there"), b"whole");
    }
}

/// The memory of a process is a file that cannot be read from its beginning.
#[test]
fn a_sender_that_fails_says_why_to_the_receiver() {
    let to = tempfile::tempdir().expect("a folder");
    let receiver = recv(to.path(), &[]);
    let sent = send(Path::new("/proc/self/mem"), &receiver.address, &[]);
    let (success, errors) = ended(receiver);
    assert!(!sent.status.success() && !success && errors.contains("os error 5") && errors.contains("mem: "), "{errors}");
}

#[test]
fn links_in_a_folder_are_named_as_left_out_and_a_link_itself_keeps_its_name() {
    let (from, to) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let whole = from.path().join("v1.2");
    std::fs::create_dir(&whole).expect("made");
    std::fs::write(whole.join("f"), "here").expect("written");
    std::os::unix::fs::symlink("/etc/passwd", whole.join("link")).expect("made");
    std::os::unix::fs::symlink("v1.2", from.path().join("latest")).expect("made");
    let receiver = recv(to.path(), &[]);
    let sent = send(&from.path().join("latest"), &receiver.address, &[]);
    let said = String::from_utf8_lossy(&sent.stderr).into_owned();
    assert!(sent.status.success() && ended(receiver).0 && said.contains("link") && said.contains("not sent"), "{said}");
    assert_eq!(std::fs::read(to.path().join("latest/f")).expect("there"), b"here");
}

/// A name may hold what a terminal obeys: it is shown, not obeyed, in what was sent and in what went wrong.
#[test]
fn names_are_no_commands_to_a_terminal() {
    let (from, to) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let file = from.path().join("\u{1b}]0;mine\u{7}");
    std::fs::write(&file, "x").expect("written");
    let receiver = recv(to.path(), &[]);
    let sent = send(&file, &receiver.address, &[]);
    assert!(sent.status.success() && ended(receiver).0);
    let again = recv(to.path(), &[]);
    let refused = send(&file, &again.address, &[]);
    let said = [sent.stdout, refused.stderr, ended(again).1.into_bytes()].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(said.iter().all(|text| text.contains("mine") && !text.contains('\u{1b}')), "{said:?}");
}

#[test]
fn what_is_there_is_not_replaced_and_both_ends_say_why() {
    let (from, to) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let file = from.path().join("f");
    std::fs::write(&file, "new").expect("written");
    std::fs::write(to.path().join("f"), "mine").expect("written");
    let receiver = recv(to.path(), &[]);
    let sent = send(&file, &receiver.address, &[]);
    let (success, errors) = ended(receiver);
    let said = String::from_utf8_lossy(&sent.stderr);
    assert!(!sent.status.success() && !success);
    assert!(said.contains("--overwrite") && errors.contains("--overwrite"), "{said}{errors}");
    assert_eq!(std::fs::read(to.path().join("f")).expect("there"), b"mine");
    let receiver = recv(to.path(), &["--overwrite"]);
    assert!(send(&file, &receiver.address, &[]).status.success() && ended(receiver).0);
    assert_eq!(std::fs::read(to.path().join("f")).expect("there"), b"new");
}

#[test]
fn a_key_on_one_end_only_is_told_on_both() {
    let (from, to) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let file = from.path().join("f");
    std::fs::write(&file, bytes(32, 5)).expect("written");
    let mut receiver = recv(to.path(), &["--key", file.to_str().expect("a name")]);
    let sent = send(&file, &receiver.address, &[]);
    let said = String::from_utf8_lossy(&sent.stderr).into_owned();
    assert!(!sent.status.success() && said.contains("wants a --key"), "{said}");
    let told = receiver.line();
    assert!(told["error"].as_str().is_some_and(|error| error.contains("the other has none")), "{told}");
    assert!(told["from"].as_str().is_some_and(|from| from.starts_with("127.0.0.1:")), "{told}");
}

/// Who has no key must not be able to end what those with one are about, nor to be the one transfer before they come.
#[test]
fn a_stranger_is_not_the_one_transfer_nor_ends_it() {
    let (from, to) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let key = from.path().join("key");
    std::fs::write(&key, bytes(32, 8)).expect("written");
    let keyed = ["--key", key.to_str().expect("a name")];
    let mut receiver = recv(to.path(), &keyed);
    assert!(!send(&key, &receiver.address, &[]).status.success(), "it has no key");
    assert!(receiver.line()["error"].is_string());
    let args = [&["send", "-", &receiver.address, "--name", "slow"][..], &keyed].concat();
    let mut sender = lowtide(&args).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("starts");
    let mut input = sender.stdin.take().expect("piped");
    input.write_all(&bytes(200_000, 7)).expect("written");
    part_arrives(to.path());
    assert!(!send(&key, &receiver.address, &[]).status.success(), "it has no key");
    input.write_all(b"and its end").expect("written");
    drop(input);
    assert!(sender.wait().expect("ends").success());
    assert!(ended(receiver).0);
    assert_eq!(std::fs::metadata(to.path().join("slow")).expect("there").len(), 200_011);
}

/// `tail -f log | lowtide utp send -`: a pipe that is silent keeps nobody from hearing that the receiver has gone.
#[test]
fn a_sender_whose_input_is_silent_hears_that_its_receiver_has_gone() {
    let to = tempfile::tempdir().expect("a folder");
    let receiver = recv(to.path(), &[]);
    let mut sender = slow_sender(&receiver.address);
    part_arrives(to.path());
    kill(Pid::from_raw(receiver.child.id() as i32), Signal::SIGINT).expect("it runs");
    let began = Instant::now();
    let ended = std::iter::repeat_with(|| {
        std::thread::sleep(Duration::from_millis(50));
        sender.try_wait().expect("a child")
    });
    let mut ended = ended.take_while(|_| began.elapsed() < Duration::from_secs(10)).flatten();
    let status = ended.next();
    let _gone = sender.kill();
    sender.wait().expect("it ends");
    assert_eq!(status.and_then(|status| status.code()), Some(1));
}

/// Neither end's transfer fails because what is said of it cannot be written; both say that it has arrived.
#[test]
fn a_summary_that_cannot_be_written_is_told_apart_from_a_transfer_that_failed() {
    let (from, to) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let file = from.path().join("f");
    std::fs::write(&file, "whole").expect("written");
    let receiver = recv(to.path(), &[]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    let args = ["send", file.to_str().expect("a name"), &receiver.address];
    let sent = lowtide(&args).stdout(full).stderr(Stdio::piped()).spawn().and_then(Child::wait_with_output).expect("it ends");
    let said = String::from_utf8_lossy(&sent.stderr).into_owned();
    assert!(sent.status.code() == Some(1) && said.contains("everything has arrived") && said.contains("standard output"), "{said}");
    assert!(ended(receiver).0);
    assert_eq!(std::fs::read(to.path().join("f")).expect("there"), b"whole");
}

#[test]
fn standard_input_arrives_under_a_name() {
    let to = tempfile::tempdir().expect("a folder");
    let receiver = recv(to.path(), &[]);
    let mut child = lowtide(&["send", "-", &receiver.address, "--name", "logs/today"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    child.stdin.take().expect("piped").write_all(b"from a pipe").expect("written");
    assert!(child.wait().expect("ends").success() && ended(receiver).0);
    assert_eq!(std::fs::read(to.path().join("logs/today")).expect("there"), b"from a pipe");
}

/// Its own words as well as the other end's, and on standard error too.
#[test]
fn a_sender_that_fails_says_why_as_json() {
    let (from, to) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let file = from.path().join("f");
    std::fs::write(&file, "new").expect("written");
    std::fs::write(to.path().join("f"), "mine").expect("written");
    let receiver = recv(to.path(), &[]);
    for (what, to, why) in [(&*file, &*receiver.address, "--overwrite"), (Path::new("/no/such"), "127.0.0.1:1", "/no/such")] {
        let sent = send(what, to, &["--json"]);
        let said: Value = serde_json::from_slice(&sent.stdout).unwrap_or_else(|e| panic!("{e}: {sent:?}"));
        assert!(said["to"] == to && said["error"].as_str().is_some_and(|error| error.contains(why)), "{said}");
        assert!(sent.status.code() == Some(1) && String::from_utf8_lossy(&sent.stderr).contains(why));
    }
}

#[test]
fn wrong_words_are_told_in_one_line() {
    let error = |args: &[&str]| {
        let output = lowtide(args).output().expect("lowtide runs");
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    assert!(error(&["send", "/no/such", "127.0.0.1:1"]).contains("/no/such"));
    assert!(error(&["send", "/etc/hostname", "127.0.0.1"]).contains("HOST:PORT"));
    assert!(error(&["send", "/etc/hostname", "127.0.0.1:0"]).contains("127.0.0.1:0: nobody listens on port 0"));
    assert!(error(&["proxy", "127.0.0.1:0", "127.0.0.1:0"]).contains("127.0.0.1:0: nobody listens on port 0"));
    assert!(error(&["send", "/dev/null", "127.0.0.1:1"]).contains("/dev/null: is neither a file nor a folder"));
    let unknown = error(&["send", "/etc/hostname", "127.0.0.1:1", "--cc", "ledbatt"]);
    assert!(unknown.contains("--cc ledbatt: ") && unknown.contains("ledbat_pp") && !unknown.contains("UDP"), "{unknown}");
    let params = error(&["recv", "--cc", "ledbat", "--cc-params", "tarket_ms = 25"]);
    assert!(params.contains("--cc ledbat --cc-params") && params.contains("tarket_ms") && !params.contains("UDP"), "{params}");
    assert!(error(&["recv", "-o", "/no/such"]).contains("no folder"));
    assert!(error(&["recv", "--key", "/dev/null"]).contains("16"));
    assert!(error(&["proxy", "tcp:127.0.0.1:0", "tcp:127.0.0.1:1"]).contains("uTP"));
}
