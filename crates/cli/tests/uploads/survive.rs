//! What uploads survive: a kill, namespaces as containers have them, a crowd of connections, other runs, routes and defaults that name
//! a control.

use std::fs;
use std::process::{ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use lowtide_kernel::cgroup;
use lowtide_lab::site::SERVER;

use crate::common::{can_manage, lowtide};
use crate::ends::{BOTH_ENDS, ask, controls};
use crate::ground::{Ground, Shelf, noise, report};
use crate::line::wait;
use crate::running::Running;

/// What a control's name is to be, twice.
fn both(name: &str) -> String {
    format!("{name} {name}")
}

/// `BOTH_ENDS` under `lowtide run --cc`, its control's name, and a way to have more sent.
fn run_both_ends(cc: &str) -> (Running, String, ChildStdin) {
    let mut run = Running::of(lowtide(&["run", "--quiet", "--cc", cc, "--", "perl", "-e", BOTH_ENDS]).stdin(Stdio::piped()));
    let input = run.child.stdin.take().expect("piped");
    let name = format!("lowtide_{}", run.child.id());
    assert_eq!(run.line(), both(&name));
    (run, name, input)
}

#[test]
fn an_upload_whose_lowtide_is_killed_arrives_whole_and_the_next_run_leaves_nothing_of_it() {
    if !can_manage("an_upload_whose_lowtide_is_killed_arrives_whole_and_the_next_run_leaves_nothing_of_it") {
        return;
    }
    let ground = Ground::new();
    let shelf = Shelf::new(&ground.site.server, 8080);
    let file = ground.file("movie", 6_000_000);
    let mut run = lowtide(&["run", "--quiet", "--", "curl", "-sfT", &file.display().to_string(), &format!("http://{SERVER}:8080/movie")]);
    let mut run = ground.site.client.place(&mut run).spawn().expect("it starts");
    let name = format!("lowtide_{}", run.id());
    wait("the upload", || shelf.received() > 500_000);
    run.kill().expect("it lives");
    run.wait().expect("it ends");
    assert!(shelf.get("movie").is_none(), "it was killed in the middle");
    let got = || shelf.get("movie");
    wait("the rest of the upload", || got().is_some());
    assert!(got().is_some_and(|got| got == fs::read(&file).expect("sent")));
    assert_eq!(Running::of(&mut lowtide(&["run", "--quiet", "--", "true"])).code(), Some(0));
    assert!(!controls().contains(&name), "{}", controls());
}

#[test]
fn a_process_with_a_group_and_a_network_namespace_of_its_own_is_held_back() {
    if !can_manage("a_process_with_a_group_and_a_network_namespace_of_its_own_is_held_back") {
        return;
    }
    let root = cgroup::v2_root().expect("it can manage").display().to_string();
    let script = r#"set -e
        group="$0$(sed -n 's/^0:://p' /proc/self/cgroup)"
        mkdir "$group/inner"; echo $$ > "$group/inner/cgroup.procs"
        unshare --net --cgroup --mount --pid --fork sh -c 'ip link set lo up; exec perl -e "$0"' "$1"
        echo $$ > "$group/cgroup.procs"; rmdir "$group/inner""#;
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("run.json");
    let words = ["run", "--quiet", "--json", &json.display().to_string(), "--", "sh", "-c", script, &root, BOTH_ENDS];
    let mut run = Running::of(lowtide(&words).stdin(Stdio::piped()));
    let mut input = run.child.stdin.take().expect("piped");
    let name = format!("lowtide_{}", run.child.id());
    assert_eq!(run.line(), both(&name));
    assert_eq!(ask(&mut run, &mut input, ""), both(&name));
    drop(input);
    assert_eq!(run.code(), Some(0));
    let said = report(&json);
    assert!(said["sent"]["bytes"].as_u64() >= Some(100_000) && said["sent"]["connections_left_alone"] == 0, "{said:#}");
}

/// Opens 500 connections, prints how many have which control, then sends 10 kB over each.
const CROWD: &str = r#"
use Socket; use Fcntl; my (@s, %names);
for my $n (1 .. 500) {
    socket(my $c, AF_INET, SOCK_STREAM, 6) or die $!; fcntl($c, F_SETFL, O_NONBLOCK);
    connect($c, sockaddr_in(8080, inet_aton($ARGV[0]))); push @s, $c;
}
for (@s) {
    my $w = ''; vec($w, fileno($_), 1) = 1; select(undef, $w, undef, undef); getpeername($_) or die $!; fcntl($_, F_SETFL, 0);
    my $n = getsockopt($_, 6, 13); $n =~ s/\0.*//s; $names{$n}++;
}
print join(' ', map { "$_ $names{$_}" } sort keys %names), "\n";
my $n = 0; for (@s) { $n++; my $b = chr(65 + $n % 26) x 10000; syswrite($_, "PUT /$n HTTP/1.1\r\nContent-Length: 10000\r\n\r\n$b"); }
for (@s) { sysread($_, my $b, 1000) or die $!; }
"#;

#[test]
fn five_hundred_connections_at_once_are_all_held_back_served_and_counted() {
    if !can_manage("five_hundred_connections_at_once_are_all_held_back_served_and_counted") {
        return;
    }
    let ground = Ground::new();
    let shelf = Shelf::new(&ground.site.server, 8080);
    let json = ground.path("run.json");
    let mut run = lowtide(&["run", "--quiet", "--json", &json.display().to_string(), "--", "perl", "-e", CROWD, &SERVER.to_string()]);
    let run = ground.site.client.place(run.stdout(Stdio::piped()).stderr(Stdio::piped())).spawn().expect("it starts");
    let name = format!("lowtide_{}", run.id());
    let output = run.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), format!("{name} 500"));
    for n in 1..=500_u32 {
        let letter = b'A' + (n % 26) as u8;
        assert!(shelf.get(&n.to_string()).is_some_and(|got| got == [letter; 10_000]), "{n}");
    }
    let said = report(&json);
    assert!(said["sent"]["connections"] == 500 && said["sent"]["connections_left_alone"] == 0, "{said:#}");
}

#[test]
fn of_two_runs_at_once_each_has_its_own_control_and_the_end_of_one_is_not_the_others() {
    if !can_manage("of_two_runs_at_once_each_has_its_own_control_and_the_end_of_one_is_not_the_others") {
        return;
    }
    for (of_first, of_second) in [("lowtide", "lowtide"), ("lowtide", "enhanced"), ("enhanced", "lowtide")] {
        let (mut first, one, mut to_first) = run_both_ends(of_first);
        let (second, two, _to_second) = run_both_ends(of_second);
        assert_ne!(one, two);
        assert_eq!(ask(&mut first, &mut to_first, ""), both(&one));
        second.kill("-TERM");
        assert_ne!(second.code(), Some(0));
        assert!(controls().contains(&one) && !controls().contains(&two), "{}", controls());
        assert_eq!(ask(&mut first, &mut to_first, ""), both(&one));
        drop(to_first);
        assert_eq!(first.code(), Some(0));
        assert!(!controls().contains(&one), "{}", controls());
    }
}

#[test]
fn a_run_inside_a_run_holds_its_connections_back_and_both_end_in_order() {
    if !can_manage("a_run_inside_a_run_holds_its_connections_back_and_both_end_in_order") {
        return;
    }
    for (of_outer, of_inner) in [("lowtide", "lowtide"), ("lowtide", "enhanced"), ("enhanced", "lowtide")] {
        let inner = [env!("CARGO_BIN_EXE_lowtide"), "run", "--quiet", "--cc", of_inner, "--", "perl", "-e", BOTH_ENDS];
        let mut run = Running::of(lowtide(&[&["run", "--quiet", "--cc", of_outer, "--"], &inner[..]].concat()).stdin(Stdio::piped()));
        let mut input = run.child.stdin.take().expect("piped");
        let outer = format!("lowtide_{}", run.child.id());
        let names = run.line();
        let name = names.split(' ').next().expect("two names").to_owned();
        assert!(name.starts_with("lowtide_") && name != outer && names == both(&name), "{names}; the outer run is {outer}");
        assert_eq!(ask(&mut run, &mut input, ""), both(&name));
        drop(input);
        assert_eq!(run.code(), Some(0));
        assert!(!controls().contains(&name) && !controls().contains(&outer), "{}", controls());
    }
}

/// A rival fills the line's queue, so that ours is at its floor when its lowtide is killed: two segments a second by its own pace. That must not outlive the
/// five seconds after which it acts as Reno, or the next run, which gives it the machine's default: once the rival has gone the line is ours.
#[test]
fn an_upload_at_its_floor_whose_lowtide_is_killed_takes_the_line_when_its_rival_has_gone() {
    if !can_manage("an_upload_at_its_floor_whose_lowtide_is_killed_takes_the_line_when_its_rival_has_gone") {
        return;
    }
    for is_reclaimed in [false, true] {
        let ground = Ground::new();
        // A namespace may choose only what is allowed in the first one; Reno, as CUBIC, fills the queue.
        ground
            .site
            .client
            .enter(|| Ok(fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno")?))
            .expect("a setting of the namespace");
        let (shelf, rivals) = (Shelf::new(&ground.site.server, 8080), Shelf::new(&ground.site.server, 8081));
        let file = ground.file("movie", 60_000_000).display().to_string();
        let url = |port: u16| format!("http://{SERVER}:{port}/movie");
        let mut ours = lowtide(&["run", "--quiet", "--cc", "lowtide", "--", "curl", "-sfm", "60", "-T", &file, &url(8080)]);
        let mut ours = ground.site.client.place(&mut ours).spawn().expect("it starts");
        wait("our upload", || shelf.received() > 1_000_000);
        let mut rival =
            ground.site.client.place(Command::new("curl").args(["-sfm", "60", "-T", &file, &url(8081)])).spawn().expect("it starts");
        thread::sleep(Duration::from_secs(4));
        let (before, theirs) = (shelf.received(), rivals.received());
        thread::sleep(Duration::from_secs(1));
        let (floor, theirs) = (shelf.received() - before, rivals.received() - theirs);
        ours.kill().expect("it lives");
        ours.wait().expect("it ends");
        thread::sleep(Duration::from_millis(5_500));
        if is_reclaimed {
            let mut next = lowtide(&["run", "--quiet", "--", "true"]);
            assert!(ground.site.client.place(&mut next).status().expect("it starts").success());
        }
        rival.kill().expect("it lives");
        rival.wait().expect("it ends");
        // The rival's half second of queue, and the time in which Reno's window opens again.
        thread::sleep(Duration::from_secs(3));
        let before = shelf.received();
        thread::sleep(Duration::from_secs(2));
        let share = (shelf.received() - before) as f64 * 8.0 / (2.0 * 20e6);
        let said = format!("reclaimed {is_reclaimed}: {floor} and the rival's {theirs} bytes in a second, then {share:.2} of the line");
        eprintln!("{said}");
        assert!(floor * 5 < theirs, "it was not at its floor: {said}");
        assert!(share > 0.7, "{said}");
        drop(ground); // curl has nobody to talk to any more
    }
}

/// In a mount namespace of its own, whose BPF file system takes the pins away with it, and a network namespace of its own. There a
/// route to itself names the control: only the first network namespace may have it for its default. `lowtide` is also how the names of runs' controls
/// begin.
#[test]
fn a_connection_that_begins_with_the_machines_lowtide_is_taken_over_and_gets_it_back() {
    if !can_manage("a_connection_that_begins_with_the_machines_lowtide_is_taken_over_and_gets_it_back") {
        return;
    }
    let script = r#"mount -t bpf bpf /sys/fs/bpf && "$0" cc load $3 >&2 && ip link set lo up || exit 9
        ip route replace local 127.0.0.1 dev lo table local congctl $3 || exit 8
        mkfifo "$2/to" "$2/from"; perl -e "$1" < "$2/to" > "$2/from" & perl=$!
        exec 3> "$2/to" 4< "$2/from"; say() { read -r names <&4; echo "$names"; }
        say; "$0" run --quiet --pid $perl & run=$!
        for n in $(seq 200); do echo >&3; say > "$2/now"; case "$(cat "$2/now")" in lowtide_*) break;; esac; sleep 0.05; done
        cat "$2/now"; echo "lowtide_$run lowtide_$run"; kill -INT $run; wait $run; echo >&3; say
        "$0" run --quiet -- perl -e "$1" < /dev/null & run=$!; wait $run; echo "lowtide_$run lowtide_$run"
        "$0" cc unload $3 2>/dev/null || echo in use
        exec 3>&-; wait $perl; "$0" cc unload $3 >&2 && echo unloaded"#;
    for control in ["lt_enhanced", "lowtide"] {
        let folder = tempfile::tempdir().expect("a folder");
        let words = ["--mount", "--net", "sh", "-c", script, env!("CARGO_BIN_EXE_lowtide"), BOTH_ENDS];
        let output =
            Command::new("unshare").args(words).arg(folder.path()).arg(control).stdin(Stdio::null()).output().expect("unshare starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let before = both(control);
        assert!(lines.len() == 8 && lines[1] == lines[2] && lines[4] == lines[5], "{text}{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!([lines[0], lines[3], lines[6], lines[7]], [&before, &before, "in use", "unloaded"], "{text}");
    }
}

/// In a network namespace of its own: runs give connections of runs that died the default, and other tests run some.
#[test]
fn doctor_changes_no_connection_of_a_run_that_was_killed_and_the_next_run_does() {
    if !can_manage("doctor_changes_no_connection_of_a_run_that_was_killed_and_the_next_run_does") {
        return;
    }
    let script = r#"ip link set lo up; mkfifo "$2/to" "$2/from"
        "$0" run --quiet -- perl -e "$1" < "$2/to" > "$2/from" & run=$!
        exec 3> "$2/to" 4< "$2/from"; say() { read -r names <&4; echo "$names"; }
        say; kill -KILL $run; "$0" doctor >&2 || exit 9; echo >&3; say; "$0" run --quiet -- true; echo >&3; say"#;
    let folder = tempfile::tempdir().expect("a folder");
    let words = ["--net", "sh", "-c", script, env!("CARGO_BIN_EXE_lowtide"), BOTH_ENDS];
    let output = Command::new("unshare").args(words).arg(folder.path()).stdin(Stdio::null()).output().expect("unshare starts");
    let (text, said) = (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned());
    let [first, after_doctor, after_run] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}{said}") };
    assert!(first.starts_with("lowtide_") && after_doctor == first, "{text}{said}");
    assert!(!after_run.contains("lowtide_"), "{text}{said}");
}

/// `ip route … congctl lock NAME`: the kernel lets nobody change it, the group neither.
#[test]
fn a_connection_whose_route_locks_its_control_is_left_alone_and_told_of() {
    if !can_manage("a_connection_whose_route_locks_its_control_is_left_alone_and_told_of") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("run.json");
    let script = r#"ip link set lo up; ip route replace local 127.0.0.1 dev lo table local congctl lock reno || exit 8
        "$0" run --json "$2" -- perl -e "$1" < /dev/null"#;
    let words = ["--net", "sh", "-c", script, env!("CARGO_BIN_EXE_lowtide"), BOTH_ENDS];
    let output = Command::new("unshare").args(words).arg(&json).stdin(Stdio::null()).output().expect("unshare starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "reno reno", "{said}");
    assert!(report(&json)["sent"]["connections_left_alone"].as_u64() > Some(0) && said.contains("kept their own"), "{said}");
}

#[test]
fn noise_differs_by_seed_and_has_every_byte() {
    let (one, other) = (noise(1, 10_000), noise(2, 10_000));
    assert_ne!(one, other);
    assert_eq!((0..=255u8).filter(|byte| one.contains(byte)).count(), 256);
}
