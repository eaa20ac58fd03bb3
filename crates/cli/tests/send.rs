//! The sending side of `lowtide run` from outside: which control connections get, and lose again. What needs root and BPF says when
//! it is skipped.

mod common;
#[path = "common/ends.rs"]
mod ends;
#[path = "common/running.rs"]
mod running;

use std::fs;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use common::{can_manage, lowtide, output};
use ends::{BOTH_ENDS, ask, controls};
use running::Running;

#[test]
fn connections_of_the_command_send_by_the_groups_control_and_it_is_gone_afterwards() {
    let test = "connections_of_the_command_send_by_the_groups_control_and_it_is_gone_afterwards";
    if !can_manage(test) {
        return;
    }
    let mut running = Running::of(&mut lowtide(&["run", "--", "perl", "-e", BOTH_ENDS]));
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

/// `BOTH_ENDS` under `wrapper`, and a way to have it say its controls' names again.
fn both_ends(wrapper: &[&str]) -> (Running, ChildStdin) {
    let words = [wrapper, &["perl", "-e", BOTH_ENDS]].concat();
    let mut running = Running::of(Command::new(words[0]).args(&words[1..]).stdin(Stdio::piped()));
    let input = running.child.stdin.take().expect("piped");
    (running, input)
}

#[test]
fn a_connection_that_is_open_is_taken_over_with_its_process_and_given_back() {
    if !can_manage("a_connection_that_is_open_is_taken_over_with_its_process_and_given_back") {
        return;
    }
    let (mut ends, mut input) = both_ends(&["env"]);
    let before = ends.line();
    let run = Running::of(&mut lowtide(&["run", "--pid", &ends.child.id().to_string()]));
    let name = format!("lowtide_{}", run.child.id());
    let taken = |ends: &mut Running, input: &mut ChildStdin| {
        (0..500).any(|_| {
            thread::sleep(Duration::from_millis(20));
            ask(ends, input, "") == format!("{name} {name}")
        })
    };
    assert!(taken(&mut ends, &mut input), "{}", ask(&mut ends, &mut input, ""));
    // Its socket belongs to the group it was made in: there it may ask, and is taken over again within a second.
    ask(&mut ends, &mut input, "reno");
    assert!(taken(&mut ends, &mut input), "it escaped: {}", ask(&mut ends, &mut input, ""));
    run.kill("-INT");
    assert_eq!(run.code(), Some(0));
    let other = before.split(' ').next_back().expect("two names");
    assert_eq!(ask(&mut ends, &mut input, ""), format!("reno {other}"), "what it asked for, and what it had");
}

/// Whether the group of that name has seen bytes arrive: the programs of the two directions are attached one after the other.
fn receives(name: &str) -> bool {
    let groups: Vec<serde_json::Value> = serde_json::from_slice(&output(&["status", "--json"]).stdout).unwrap_or_default();
    groups.iter().any(|g| g["name"] == name && g["bytes"].as_u64() > Some(0))
}

#[test]
fn a_joined_connection_is_held_back_in_both_directions_and_counted() {
    if !can_manage("a_joined_connection_is_held_back_in_both_directions_and_counted") {
        return;
    }
    let (mut ends, mut input) = both_ends(&["env"]);
    ends.line();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("told.json").display().to_string();
    let run = Running::of(&mut lowtide(&["run", "--pid", &ends.child.id().to_string(), "--name", "of-test-joined", "--json", &file]));
    let name = format!("lowtide_{}", run.child.id());
    let taken = |ends: &mut Running, input: &mut ChildStdin| ask(ends, input, "").starts_with(&name) && receives("of-test-joined");
    assert!((0..500).any(|_| (thread::sleep(Duration::from_millis(20)), taken(&mut ends, &mut input)).1));
    ask(&mut ends, &mut input, "");
    run.kill("-INT");
    assert_eq!(run.code(), Some(0));
    let told: serde_json::Value = serde_json::from_slice(&fs::read(&file).expect("written")).expect("JSON");
    assert_eq!((&told["sent"]["connections_open_before"], &told["connections"]), (&2.into(), &2.into()), "both ends: {told:#}");
    assert!(told["bytes"].as_u64() > Some(0) && told["sent"]["bytes"].as_u64() >= Some(100_000), "{told:#}");
}

/// A connection that is open in the group before it is managed, named by its path or as systemd names a unit: no systemd is needed for the group
/// to have such a name.
#[test]
fn open_connections_of_a_cgroup_or_a_unit_are_held_back_both_ways_and_given_back() {
    if !can_manage("open_connections_of_a_cgroup_or_a_unit_are_held_back_both_ways_and_given_back") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("told.json").display().to_string();
    for option in ["--cgroup", "--unit"] {
        let group = Group::new(if option == "--unit" { ".service" } else { "-taken" });
        let path = group.0.display().to_string();
        let named = if option == "--unit" { group.0.file_name().expect("a name").to_string_lossy().into_owned() } else { path.clone() };
        let (mut ends, mut input) = both_ends(&["sh", "-c", "echo $$ > \"$0\" && exec \"$@\"", &format!("{path}/cgroup.procs")]);
        let before = ends.line();
        let run = Running::of(&mut lowtide(&["run", option, &named, "--name", "of-test-taken", "--json", &file]));
        let name = format!("lowtide_{}", run.child.id());
        let both = format!("{name} {name}");
        let taken = |ends: &mut Running, input: &mut ChildStdin| ask(ends, input, "") == both && receives("of-test-taken");
        assert!((0..500).any(|_| (thread::sleep(Duration::from_millis(20)), taken(&mut ends, &mut input)).1));
        ask(&mut ends, &mut input, ""); // Of what came within the last milliseconds some is not counted while the connection is open.
        run.kill("-INT");
        assert_eq!(run.code(), Some(0));
        assert_eq!(ask(&mut ends, &mut input, ""), before, "{option}");
        let told: serde_json::Value = serde_json::from_slice(&fs::read(&file).expect("written")).expect("JSON");
        assert_eq!((&told["connections"], &told["sent"]["connections"]), (&2.into(), &2.into()), "{option}: {told:#}");
        assert!(told["bytes"].as_u64() > Some(0) && told["sent"]["bytes"].as_u64() >= Some(100_000), "{option}: {told:#}");
        assert_eq!((&told["connections_left_alone"], &told["lacking"]), (&0.into(), &serde_json::json!([])), "{option}: {told:#}");
        drop(input);
        assert_eq!(ends.code(), Some(0));
    }
}

/// Both ends of a connection; after a line on its input it sends 300 kB and prints the congestion window in segments (tcp_info).
const WINDOW: &str = r#"
use Socket; $| = 1;
socket(my $l, AF_INET, SOCK_STREAM, 6); bind($l, sockaddr_in(0, INADDR_LOOPBACK)); listen($l, 1);
socket(my $c, AF_INET, SOCK_STREAM, 6); connect($c, getsockname($l)); accept(my $a, $l);
print "open\n";
while (<STDIN>) {
    if (!fork) { my ($got, $b) = 0; while ($got < 300000) { $got += sysread($a, $b, 65536) } exit }
    syswrite($c, 'x' x 100000) for 1 .. 3; wait;
    print unpack('x80 L', getsockopt($c, 6, 11)), "\n";
}
"#;

/// LEDBAT++ widens its window on loopback by a sixteenth of what is acknowledged, here 200 segments; Reno by all of it.
#[test]
fn a_control_whose_owner_was_killed_acts_as_reno_after_five_seconds() {
    if !can_manage("a_control_whose_owner_was_killed_acts_as_reno_after_five_seconds") {
        return;
    }
    let window = |kill: bool| -> u32 {
        let script = "ip link set lo mtu 1500 up && exec \"$0\" run --cc enhanced -- perl -e \"$1\"";
        let words = ["unshare", "-n", "sh", "-c", script, env!("CARGO_BIN_EXE_lowtide"), WINDOW];
        let mut running = Running::of(Command::new(words[0]).args(&words[1..]).stdin(Stdio::piped()));
        let mut input = running.child.stdin.take().expect("piped");
        assert_eq!(running.line(), "open");
        if kill {
            running.kill("-KILL");
            running.child.wait().expect("it ends");
            thread::sleep(Duration::from_millis(5_500));
        }
        ask(&mut running, &mut input, "go").parse().expect("a number")
    };
    let (owned, orphaned) = (window(false), window(true));
    assert!(orphaned > 40 && owned < 20, "{owned} segments with an owner, {orphaned} without");
}

/// The names of controls for the machine are the whole kernel's: what loads some does so alone.
fn machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `dist/lowtide-cc.service`: systemd takes it, and what it runs does what it says.
#[test]
fn the_unit_that_loads_the_controls_at_boot_is_right() {
    let test = "the_unit_that_loads_the_controls_at_boot_is_right";
    if !can_manage(test) {
        return;
    }
    let _alone = machine();
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return lowtide_testing::skip(test, "there is no systemd-analyze: apt-get install systemd");
    }
    let unit = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist/lowtide-cc.service")).expect("it is there");
    let unit = unit.replace("/usr/local/bin/lowtide", env!("CARGO_BIN_EXE_lowtide"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("lowtide-cc.service");
    fs::write(&file, &unit).expect("written");
    let verdict = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output().expect("it starts");
    assert!(verdict.status.success() && verdict.stderr.is_empty(), "{}", String::from_utf8_lossy(&verdict.stderr));
    let line = |key: &str| unit.lines().find_map(|l| l.strip_prefix(key)).expect("a line").to_owned();
    let script = format!(
        "mount -t bpf bpf /sys/fs/bpf && {} >/dev/null && cat /proc/sys/net/ipv4/tcp_available_congestion_control && {} >/dev/null && \
         cat /proc/sys/net/ipv4/tcp_available_congestion_control",
        line("ExecStart="),
        line("ExecStop=")
    );
    let done = Command::new("unshare").args(["-m", "sh", "-c", &script]).output().expect("unshare starts");
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let [loaded, unloaded] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}{}", String::from_utf8_lossy(&done.stderr)) };
    for known in lowtide_kernel::controls::KNOWN {
        let has = |all: &str| all.split(' ').any(|name| name == known.name);
        assert!(has(loaded) && !has(unloaded), "{}: {said}", known.name);
    }
}

/// A group that outlives the run.
struct Group(std::path::PathBuf);

impl Group {
    fn new(last: &str) -> Group {
        let root = lowtide_kernel::cgroup::v2_root().expect("it can manage");
        let group = Group(root.join(format!("of-test-send-{}{last}", std::process::id())));
        fs::create_dir(&group.0).expect("a group");
        group
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It is empty only when its processes are gone.
        (0..100).any(|_| fs::remove_dir(&self.0).is_ok() || (thread::sleep(Duration::from_millis(20)), false).1);
    }
}

#[test]
fn a_control_that_was_asked_for_under_lowtide_comes_when_the_run_ends() {
    if !can_manage("a_control_that_was_asked_for_under_lowtide_comes_when_the_run_ends") {
        return;
    }
    let group = Group::new("");
    let run = Running::of(&mut lowtide(&["run", "--cgroup", &group.0.display().to_string()]));
    let name = format!("lowtide_{}", run.child.id());
    let is_managed = || String::from_utf8_lossy(&output(&["status", "--json"]).stdout).contains("of-test-send");
    assert!((0..250).any(|_| (thread::sleep(Duration::from_millis(20)), is_managed()).1), "it does not begin");
    let procs = group.0.join("cgroup.procs").display().to_string();
    let (mut ends, mut input) = both_ends(&["sh", "-c", "echo $$ > \"$0\" && exec \"$@\"", &procs]);
    let default = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").expect("every Linux has it");
    assert_eq!(ends.line(), format!("{name} {name}"));
    assert_eq!(ask(&mut ends, &mut input, "reno"), format!("{name} {name}"));
    run.kill("-INT");
    assert_eq!(run.code(), Some(0));
    assert_eq!(ask(&mut ends, &mut input, ""), format!("reno {}", default.trim()));
    drop(input);
    assert_eq!(ends.code(), Some(0));
}

#[test]
fn connections_of_a_killed_run_go_on_and_the_next_run_gives_them_the_default() {
    if !can_manage("connections_of_a_killed_run_go_on_and_the_next_run_gives_them_the_default") {
        return;
    }
    let (mut running, mut input) = both_ends(&[env!("CARGO_BIN_EXE_lowtide"), "run", "--"]);
    let name = format!("lowtide_{}", running.child.id());
    assert_eq!(running.line(), format!("{name} {name}"));
    running.kill("-KILL");
    running.child.wait().expect("it ends");
    assert_eq!(ask(&mut running, &mut input, ""), format!("{name} {name}"));
    assert!(output(&["run", "--", "true"]).status.success());
    let default = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").expect("every Linux has it");
    let default = default.trim();
    assert_eq!(ask(&mut running, &mut input, ""), format!("{default} {default}"));
    assert!(!controls().contains(&name), "{}", controls());
}

/// In a mount namespace of its own, whose BPF file system takes the pins away with it.
#[test]
fn controls_for_the_machine_outlive_the_command_and_are_not_unloaded_while_in_use() {
    if !can_manage("controls_for_the_machine_outlive_the_command_and_are_not_unloaded_while_in_use") {
        return;
    }
    let _alone = machine();
    let script = r#"mount -t bpf bpf /sys/fs/bpf || exit 9
        "$0" cc load lt_enhanced; "$0" cc load lt_enhanced; "$0" cc load nosuch
        perl -e "$1" lt_enhanced <&3 & sleep 0.5; "$0" cc unload lt_enhanced || echo refused
        exec 3<&-; kill $!; wait; "$0" cc unload lt_enhanced"#;
    let folder = tempfile::tempdir().expect("a folder");
    let said = folder.path().join("said").display().to_string();
    let words = ["-m", "sh", "-c", &format!("mkfifo {said}; exec 3<>{said}; {script}")];
    let output = Command::new("unshare").args(words).args([env!("CARGO_BIN_EXE_lowtide"), BOTH_ENDS]).output().expect("unshare starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned());
    let lines: Vec<&str> = out.lines().filter(|l| !l.contains(' ') || l.starts_with("lt_enhanced ")).collect();
    assert_eq!(lines[..2], ["lt_enhanced is loaded", "lt_enhanced was loaded already"], "{out}{err}");
    assert!(out.contains("refused") && err.contains("in use by") && err.contains("no control `nosuch`"), "{out}{err}");
    assert_eq!(lines.last(), Some(&"lt_enhanced is unloaded"), "{out}{err}");
}

/// Sends four megabytes over loopback by the controls named, one after the other: prints the name that the kernel says, and what arrived.
const TRANSFERS: &str = r#"
use Socket; $| = 1;
for my $name (@ARGV) {
    socket(my $l, AF_INET, SOCK_STREAM, 6); bind($l, sockaddr_in(0, INADDR_LOOPBACK)); listen($l, 1);
    socket(my $c, AF_INET, SOCK_STREAM, 6); setsockopt($c, 6, 13, $name) or die "$name: $!";
    connect($c, getsockname($l)); accept(my $a, $l);
    if (!fork) { syswrite($c, 'x' x 100000) for 1 .. 40; my $n = getsockopt($c, 6, 13); $n =~ s/\0.*//s; print "$n "; exit }
    close $c; my ($got, $buffer) = (0); while (my $n = sysread($a, $buffer, 65536)) { $got += $n }
    wait; print "$got\n";
}
"#;

/// In mount and network namespaces of its own.
#[test]
fn every_control_loads_carries_a_transfer_and_unloads() {
    if !can_manage("every_control_loads_carries_a_transfer_and_unloads") {
        return;
    }
    let _alone = machine();
    let names: Vec<&str> = lowtide_kernel::controls::KNOWN.iter().map(|known| known.name).collect();
    let script = r#"mount -t bpf bpf /sys/fs/bpf && ip link set lo up || exit 9
        lowtide=$0 transfers=$1; shift
        "$lowtide" cc load >/dev/null && perl -e "$transfers" "$@"
        for closing in 1 2 3 4 5 6 7 8 9; do "$lowtide" cc unload >/dev/null && echo unloaded && break; sleep 0.2; done"#;
    let words = ["-m", "-n", "sh", "-c", script, env!("CARGO_BIN_EXE_lowtide"), TRANSFERS];
    let output = Command::new("unshare").args(words).args(&names).output().expect("unshare starts");
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let wanted: String = names.iter().map(|name| format!("{name} 4000000\n")).collect();
    assert_eq!(out, wanted + "unloaded\n", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_control_that_is_named_sends_and_is_told_of_and_one_that_does_not_fit_is_refused() {
    if !can_manage("a_control_that_is_named_sends_and_is_told_of_and_one_that_does_not_fit_is_refused") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (name, receives) in [("ledbat_pp", "ledbat_pp"), ("ledbat", "ledbat_pp-enhanced-burst"), ("tcp_lp", "ledbat_pp-enhanced-burst")] {
        let file = folder.path().join("told.json").display().to_string();
        let done = output(&["run", "--cc", name, "--json", &file, "--", "perl", "-e", BOTH_ENDS]);
        assert!(done.status.success());
        let told: serde_json::Value = serde_json::from_slice(&fs::read(&file).expect("written")).expect("JSON");
        assert_eq!((&told["sends_by"], &told["receives_by"]), (&name.into(), &receives.into()));
        assert_eq!(told["sent"]["connections"], 2, "{told}");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(said.contains(&format!("received yields by {receives}")), name != receives, "{said}");
    }
    for (wrong, why) in [
        (["--cc", "cubic"], "tcp_nice"),
        (["--cc=tcp_nice", "--target=25ms"], "no queueing delay"),
        (["--cc=ledbat", "--target=200ms"], "5ms to 100ms"),
    ] {
        let refused = output(&[&["run"], &wrong[..], &["--", "true"]].concat());
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains(why), "{}", String::from_utf8_lossy(&refused.stderr));
    }
}

#[test]
fn an_upload_yields_to_another_and_fills_the_line_once_alone() {
    if !can_manage("an_upload_yields_to_another_and_fills_the_line_once_alone") {
        return;
    }
    let scenario = "duration_s = 10.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 20.0\nrtt_ms = 20.0\n\
                    queue = { kind = \"drop_tail\", ms = 500 }\n\
                    [[flows]]\nname = \"ours\"\ncc = \"cubic\"\ndirection = \"reverse\"\nlab = { lowtide = true, target = \"CONTROL\", program = \"iperf3\" }\n\
                    [[flows]]\nname = \"theirs\"\ncc = \"cubic\"\ndirection = \"reverse\"\nstop_s = STOP\nlab = { program = \"iperf3\" }\n";
    let share = |control: &str, stop: &str, warmup: &str| -> f64 {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("upload.toml").display().to_string();
        fs::write(&file, scenario.replace("STOP", stop).replace("CONTROL", control)).expect("written");
        let output = output(&["lab", &file, "--json", "--set", &format!("warmup_s={warmup}"), "--out", &format!("{file}.out")]);
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let flows = result["flows"].as_array().or_else(|| result[0]["flows"].as_array()).expect("flows").clone();
        let ours = flows.iter().find(|f| f["name"] == "ours").expect("ours").clone();
        ours["share"].as_f64().expect("a number")
    };
    for control in ["ledbat_pp-enhanced-burst", "lowtide"] {
        let beside = share(control, "10.0", "4.0");
        assert!(beside < 0.1, "{control}: {beside}");
        let alone = share(control, "0.1", "5.0");
        assert!(alone > 0.5, "{control}: {alone}");
    }
}
