//! `lowtide demo --sim` from outside: the table, the page and the JSON, as anybody without root sees them.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

fn demo(folder: &std::path::Path, args: &[&str]) -> Output {
    let page = folder.join("page.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_lowtide"));
    command.arg("demo").args(args).arg("--html").arg(&page).output().expect("lowtide starts")
}

#[test]
fn simulated_it_shows_a_download_that_gets_out_of_the_way() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = demo(folder.path(), &["--sim", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let value = |act: usize, key: &str| said["acts"][act][key].as_f64().unwrap_or_else(|| panic!("{key} of act {act}: {said:#}"));
    assert!(said["summaries"].as_array().is_some_and(|s| s.len() == 4 && s.iter().all(|s| s["host"] == "sim")));
    // The line is 20 Mbit/s with 500 ms of buffer: plain curl fills both, lowtide neither delays the call nor leaves the line idle.
    assert!(value(1, "call_added_delay_ms_p95") > 300.0 && value(1, "utilisation") > 0.95);
    assert!(value(2, "call_added_delay_ms_p95") < value(1, "call_added_delay_ms_p95") / 4.0, "{said:#}");
    assert!(value(2, "page_load_s") < value(1, "page_load_s") / 2.0, "{said:#}");
    assert!(value(3, "utilisation") > 0.85, "{said:#}");
    assert!(said["acts"][3]["call_loss"].is_null(), "nobody calls in the last act");
    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("the page");
    assert!(page.contains("lowtide run -- curl, alone") && page.matches("<svg").count() >= 8, "{page}");
}

#[test]
fn simulated_it_shows_an_upload_that_gets_out_of_the_way() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = demo(folder.path(), &["--upload", "--sim", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let value = |act: usize, key: &str| said["acts"][act][key].as_f64().unwrap_or_else(|| panic!("{key} of act {act}: {said:#}"));
    // The way up is 5 Mbit/s with 500 ms of buffer: plain curl fills both, and the pages' acknowledgements wait in it.
    assert!(value(1, "call_added_delay_ms_p95") > 300.0 && value(1, "utilisation") > 0.95, "{said:#}");
    assert!(value(2, "call_added_delay_ms_p95") < value(1, "call_added_delay_ms_p95") / 4.0, "{said:#}");
    assert!(value(2, "page_load_s") < value(1, "page_load_s") / 2.0, "{said:#}");
    assert!(value(3, "utilisation") > 0.85 && value(3, "upload_mbps") > 4.0 && value(3, "upload_mbps") < 5.0, "{said:#}");
    assert!(said["acts"][3]["download_mbps"].is_null() && said["acts"][0]["upload_mbps"].is_null(), "{said:#}");
    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("the page");
    assert!(page.contains("lowtide run -- curl -T, alone") && page.contains("an upload that gets out of the way"), "{page}");
}

#[test]
fn the_table_says_that_it_was_simulated_and_repeats_itself() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [first, second] = [(), ()].map(|()| demo(folder.path(), &["--sim"]).stdout);
    assert_eq!(first, second);
    let text = String::from_utf8_lossy(&first);
    assert!(text.starts_with("simulated: 20 Mbit/s") && text.contains("lowtide run -- curl, alone"), "{text}");
}

#[test]
fn a_page_that_cannot_be_written_is_known_before_the_acts() {
    let output = demo(std::path::Path::new("/no/such/folder"), &["--sim"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(message.contains("--html /no/such/folder/page.html") && message.lines().count() == 1, "{message}");
}

#[test]
fn who_cannot_run_it_for_real_is_offered_the_simulation() {
    let folder = tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o755)).tempdir().expect("a folder can be made");
    let copy = folder.path().join("lowtide");
    std::fs::copy(env!("CARGO_BIN_EXE_lowtide"), &copy).expect("it can be copied");
    let mut command = Command::new(&copy);
    command.arg("demo").current_dir("/");
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    // A root that may not change its user has no more rights than nobody.
    let output = match root {
        true => command.uid(65534).gid(65534).output().or_else(|_| Command::new(&copy).arg("demo").current_dir("/").output()),
        false => command.output(),
    };
    let output = output.expect("lowtide starts");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("lowtide demo --sim") && message.contains("root"), "{message}");
}
