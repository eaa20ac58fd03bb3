//! The sending side of `lowtide run` from outside: which control connections get, and lose again. What needs root and BPF says when
//! it is skipped.

mod common;

use std::fs;
use std::io::Write;
use std::process::Stdio;

use common::{Running, can_manage, lowtide, output};

/// Both ends of a connection in one program: prints their control's name when it is open, then after each line it reads.
const BOTH_ENDS: &str = r#"
use Socket; $| = 1;
sub name { my $n = getsockopt($_[0], 6, 13); $n =~ s/\0.*//s; $n }
socket(my $l, AF_INET, SOCK_STREAM, 6); bind($l, sockaddr_in(0, INADDR_LOOPBACK)); listen($l, 1);
socket(my $c, AF_INET, SOCK_STREAM, 6);
setsockopt($c, 6, 13, $ARGV[0]) if $ARGV[0];
connect($c, getsockname($l)); accept(my $a, $l);
setsockopt($c, 6, 13, $ARGV[0]) if $ARGV[0];
print name($c), ' ', name($a), "\n";
while (<STDIN>) { syswrite($c, 'x' x 1000); sysread($a, my $b, 1000); print name($c), ' ', name($a), ' ', length($b), "\n"; }
"#;

fn controls() -> String {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("every Linux has it")
}

#[test]
fn connections_of_the_command_send_by_the_groups_control_and_it_is_gone_afterwards() {
    let test = "connections_of_the_command_send_by_the_groups_control_and_it_is_gone_afterwards";
    if !can_manage(test) {
        return;
    }
    let mut running = Running::start(&["run", "--", "perl", "-e", BOTH_ENDS]);
    let name = format!("lowtide_{}", running.child.id());
    assert_eq!(running.line(), format!("{name} {name}"));
    assert_eq!(running.code(), Some(0));
    assert!(!controls().contains(&name), "{}", controls());
}

#[test]
fn a_program_that_asks_for_a_control_of_its_own_does_not_escape() {
    if !can_manage("a_program_that_asks_for_a_control_of_its_own_does_not_escape") {
        return;
    }
    let output = output(&["run", "--", "perl", "-e", BOTH_ENDS, "reno"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.split_whitespace().all(|name| name.starts_with("lowtide_")) && text.lines().count() == 1, "{text}");
}

#[test]
fn connections_of_a_killed_run_go_on() {
    if !can_manage("connections_of_a_killed_run_go_on") {
        return;
    }
    let mut running = Running::of(lowtide(&["run", "--", "perl", "-e", BOTH_ENDS]).stdin(Stdio::piped()));
    let name = format!("lowtide_{}", running.child.id());
    assert_eq!(running.line(), format!("{name} {name}"));
    let mut input = running.child.stdin.take().expect("piped");
    running.kill("-KILL");
    running.child.wait().expect("it ends");
    for _ in 0..3 {
        input.write_all(b"\n").expect("it reads");
        assert!(running.line().ends_with(" 1000"));
    }
}

#[test]
fn an_upload_yields_to_another_and_fills_the_line_once_alone() {
    if !can_manage("an_upload_yields_to_another_and_fills_the_line_once_alone") {
        return;
    }
    let scenario = "duration_s = 10.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 20.0\nrtt_ms = 20.0\n\
                    queue = { kind = \"drop_tail\", ms = 500 }\n\
                    [[flows]]\nname = \"ours\"\ncc = \"cubic\"\ndirection = \"reverse\"\nlab = { lowtide = true, program = \"iperf3\" }\n\
                    [[flows]]\nname = \"theirs\"\ncc = \"cubic\"\ndirection = \"reverse\"\nstop_s = STOP\nlab = { program = \"iperf3\" }\n";
    let share = |stop: &str, warmup: &str| -> f64 {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("upload.toml").display().to_string();
        fs::write(&file, scenario.replace("STOP", stop)).expect("written");
        let output = output(&["lab", &file, "--json", "--set", &format!("warmup_s={warmup}"), "--out", &format!("{file}.out")]);
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let flows = result["flows"].as_array().or_else(|| result[0]["flows"].as_array()).expect("flows").clone();
        let ours = flows.iter().find(|f| f["name"] == "ours").expect("ours").clone();
        ours["share"].as_f64().expect("a number")
    };
    let beside = share("10.0", "4.0");
    assert!(beside < 0.1, "{beside}");
    let alone = share("0.1", "5.0");
    assert!(alone > 0.5, "{alone}");
}
