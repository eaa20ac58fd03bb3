//! `lowtide run --pid` holds back what connections receive that their process had open before, whichever cgroup they were made in, and lets
//! go of them. Needs root and BPF; says when it is skipped.

mod common;
#[path = "common/line.rs"]
mod line;
#[path = "common/running.rs"]
mod running;

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use common::{can_manage, lowtide, output};
use line::{site, wait};
use lowtide_kernel::cgroup;
use lowtide_lab::clock;
use lowtide_lab::server::Server;
use lowtide_lab::site::SERVER;
use lowtide_net::ImpairConfig;
use lowtide_units::Span;
use running::Running;
use serde_json::Value;

/// What the receiver lets a server have in flight on the laboratory's line stays below it; the kernel's own window does not.
const MANAGED: u64 = 250_000;

/// What `status` says of the group with that name, once `ready` is true of it.
fn status(name: &str, ready: impl Fn(&Value) -> bool) -> Value {
    let mut found = Value::Null;
    wait(name, || {
        let groups: Vec<Value> = serde_json::from_slice(&output(&["status", "--json"]).stdout).unwrap_or_default();
        found = groups.into_iter().find(|g| g["name"] == name).unwrap_or_default();
        !found.is_null() && ready(&found)
    });
    found
}

/// Connections whose arriving bytes it sees.
fn downloads(group: &Value) -> usize {
    group["flows"].as_array().into_iter().flatten().filter(|f| f["direction"] == "down").count()
}

fn json(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).expect("`lowtide run --json` wrote it")).expect("JSON")
}

#[test]
fn a_download_that_was_open_before_gives_way_and_has_its_window_again_afterwards() {
    if !can_manage("a_download_that_was_open_before_gives_way_and_has_its_window_again_afterwards") {
        return;
    }
    let now = clock::now();
    let site = site(ImpairConfig::default(), ImpairConfig::default(), now..now + Span::from_millis(60_000));
    let server = Server::new(&site.server, SERVER, 5001, "cubic").expect("a server");
    let mut curl = Command::new("curl");
    curl.args(["-s", "--max-time", "120", "-o", "/dev/null", &server.url(1 << 40)]);
    let mut curl = site.client.place(&mut curl).spawn().expect("it starts");
    wait("a queue, and the kernel's own window", || server.stats().peer_window > 2 * MANAGED && server.stats().srtt_us > 200_000);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.json");
    let run = Running::of(&mut lowtide(&["run", "--pid", &curl.id().to_string(), "--json", &file.display().to_string()]));
    wait("the lower window", || server.stats().peer_window < MANAGED);
    // 20 ms, and as much again is the target; the smoothed RTT of a window that is probed is a little above at times.
    wait("the queue to go", || server.stats().srtt_us < 45_000);
    let before = server.stats();
    thread::sleep(Duration::from_secs(4));
    let after = server.stats();
    assert!(after.peer_window < MANAGED && after.srtt_us < 60_000, "{after:?}");
    assert!(after.acked > before.acked + 4_000_000, "of 10 MB that the line carries: {} bytes", after.acked - before.acked);
    run.kill("-INT");
    assert_eq!(run.code(), Some(0));
    wait("the kernel's own window again", || server.stats().peer_window > 2 * MANAGED);
    curl.kill().expect("it lives");
    curl.wait().expect("it ends");
    let told = json(&file);
    assert_eq!((&told["connections"], &told["connections_left_alone"]), (&1.into(), &0.into()), "{told:#}");
    assert_eq!((&told["sent"]["connections_open_before"], &told["open_before_not_held_back"]), (&1.into(), &Value::Null), "{told:#}");
    assert!(told["bytes"].as_u64() > Some(4_000_000) && told["acks_lowered"].as_u64() > Some(100), "{told:#}");
}

/// Listens on an address of either family, and says at which port. Does what each line says that it reads: accepts a connection, opens one to
/// a port, by a socket that it was told to make before if there is one, or drinks so many bytes from each that it has.
const DRINK: &str = r#"
use Socket qw(:all); $| = 1; my ($address) = @ARGV; my $six = $address =~ /:/;
sub place { $six ? pack_sockaddr_in6($_[0], inet_pton(AF_INET6, $address)) : pack_sockaddr_in($_[0], inet_aton($address)) }
sub made { socket(my $s, $six ? AF_INET6 : AF_INET, SOCK_STREAM, 0) or die $!; $s }
my $l = made(); bind($l, place(0)) && listen($l, 9) or die $!;
print +($six ? unpack_sockaddr_in6(getsockname($l)) : unpack_sockaddr_in(getsockname($l)))[0], "\n";
my (@open, @made);
while (<STDIN>) {
    if (/accept/) { accept(my $a, $l) or die $!; push @open, $a }
    elsif (/make/) { push @made, made() }
    elsif (/connect (.*)/) { my $c = shift(@made) // made(); connect($c, place($1)) or die $!; push @open, $c }
    else { for my $a (@open) { my $n = $_; while ($n > 0) { $n -= sysread($a, my $b, $n) || die } } }
    print "done\n";
}
"#;

/// A process of `DRINK`, by `wrapper`.
struct Drinker {
    running: Running,
    input: ChildStdin,
    port: u16,
}

impl Drinker {
    fn new(wrapper: &[&str], address: &str) -> Drinker {
        let words = [wrapper, &["perl", "-e", DRINK, address]].concat();
        let mut running = Running::of(Command::new(words[0]).args(&words[1..]).stdin(Stdio::piped()));
        let input = running.child.stdin.take().expect("piped");
        let port = running.line().parse().expect("a port");
        Drinker { running, input, port }
    }

    fn pid(&self) -> String {
        self.running.child.id().to_string()
    }

    fn told(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("it reads");
        assert_eq!(self.running.line(), "done");
    }
}

#[test]
fn what_a_listener_of_before_accepts_later_is_managed_too_in_both_families() {
    if !can_manage("what_a_listener_of_before_accepts_later_is_managed_too_in_both_families") {
        return;
    }
    for address in ["127.0.0.1", "::1"] {
        let mut drinker = Drinker::new(&["env"], address);
        let name = format!("listener-{}", drinker.port);
        let run = Running::of(&mut lowtide(&["run", "--name", &name, "--pid", &drinker.pid()]));
        status(&name, |_| true);
        let mut peer = TcpStream::connect((address, drinker.port)).expect("it listens");
        drinker.told("accept");
        let mut received = 0;
        while received == 0 {
            peer.write_all(&[7; 20_000]).expect("it is open");
            drinker.told("20000");
            let group = status(&name, |_| true);
            assert_eq!(group["connections_left_alone"], 0, "{group:#}");
            received = downloads(&group);
        }
        run.kill("-INT");
        assert_eq!(run.code(), Some(0));
        drop(drinker.input);
        assert_eq!(drinker.running.code(), Some(0));
    }
}

/// Groups, each in the one before, that are gone with the test.
struct Groups(Vec<PathBuf>);

impl Groups {
    fn new(names: &[&str]) -> Groups {
        let mut groups = vec![cgroup::v2_root().expect("it can manage").join(format!("of-test-open-{}", std::process::id()))];
        groups.extend(names.iter().scan(groups[0].clone(), |at, name| {
            at.push(name);
            Some(at.clone())
        }));
        groups.iter().for_each(|group| fs::create_dir(group).expect("a group"));
        Groups(groups)
    }

    fn enter(&self, at: usize, pid: u32) {
        fs::write(self.0[at].join("cgroup.procs"), pid.to_string()).expect("it can be entered");
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for group in self.0.iter().rev() {
            (0..100).any(|_| !group.exists() || fs::remove_dir(group).is_ok() || (thread::sleep(Duration::from_millis(20)), false).1);
        }
    }
}

/// Sockets of a cgroup that is no more, of the one above it, and in the end of the one above that.
#[test]
fn what_sockets_of_nested_and_of_removed_groups_receive_is_counted() {
    if !can_manage("what_sockets_of_nested_and_of_removed_groups_receive_is_counted") {
        return;
    }
    let groups = Groups::new(&["inner", "removed"]);
    let procs = groups.0[0].join("cgroup.procs").display().to_string();
    let mut drinker = Drinker::new(&["sh", "-c", "echo $$ > \"$0\" && exec \"$@\"", &procs], "127.0.0.1");
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is up");
    let port = listener.local_addr().expect("it is bound").port();
    let mut peers = Vec::new();
    for at in [2, 1] {
        groups.enter(at, drinker.running.child.id());
        drinker.told(&format!("connect {port}"));
        peers.push(listener.accept().expect("it connects").0);
    }
    fs::remove_dir(&groups.0[2]).expect("it is empty");
    groups.enter(0, drinker.running.child.id());
    drinker.told("make");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.json");
    let words = ["run", "--name", "nested", "--json", &file.display().to_string(), "--pid", &drinker.pid()];
    let run = Running::of(&mut lowtide(&words));
    status("nested", |_| true);
    let mut drunk = 0;
    let mut drink = |drinker: &mut Drinker, peers: &mut [TcpStream]| {
        peers.iter_mut().for_each(|peer| peer.write_all(&[7; 20_000]).expect("it is open"));
        drinker.told("20000");
        drunk += 20_000 * peers.len() as u64;
        drunk
    };
    drink(&mut drinker, &mut peers);
    status("nested", |group| downloads(group) == 2);
    drinker.told(&format!("connect {port}"));
    peers.push(listener.accept().expect("it connects").0);
    // Within a second it is found; what it receives before does not count.
    thread::sleep(Duration::from_millis(2500));
    let drunk = drink(&mut drinker, &mut peers);
    status("nested", |group| downloads(group) == 3);
    run.kill("-INT");
    assert_eq!(run.code(), Some(0));
    drop(drinker.input);
    assert_eq!(drinker.running.code(), Some(0));
    let told = json(&file);
    assert_eq!((&told["connections"], &told["connections_left_alone"]), (&3.into(), &0.into()), "{told:#}");
    assert_eq!(told["bytes"], drunk, "{told:#}");
}

/// A process that another run manages is not taken over, neither by its number nor as a descendant: its connections would be held back twice.
#[test]
fn what_another_run_manages_stays_with_that_run() {
    if !can_manage("what_another_run_manages_stays_with_that_run") {
        return;
    }
    let mut drinker = Drinker::new(&[env!("CARGO_BIN_EXE_lowtide"), "run", "--quiet", "--name", "first", "--"], "127.0.0.1");
    let mut peer = TcpStream::connect(("127.0.0.1", drinker.port)).expect("it listens");
    drinker.told("accept");
    let outer = drinker.running.child.id();
    let inner = fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).expect("it lives");
    let inner = inner.trim();
    let refused =
        Command::new("timeout").args(["10", env!("CARGO_BIN_EXE_lowtide"), "run", "--quiet", "--pid", inner]).output().expect("it starts");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(
        said.contains(&format!("--pid {inner}: another run manages it already (process {outer})")) && said.lines().count() == 1,
        "{said}"
    );

    let second = Running::of(&mut lowtide(&["run", "--quiet", "--name", "second", "--pid", &outer.to_string()]));
    status("second", |_| true);
    peer.write_all(&[7; 20_000]).expect("it is open");
    drinker.told("20000");
    status("first", |group| downloads(group) == 1);
    let group = status("second", |_| true);
    assert_eq!((downloads(&group), &group["connections_left_alone"]), (0, &0.into()), "{group:#}");
    second.kill("-INT");
    assert_eq!(second.code(), Some(0));
    drop(drinker.input);
    assert_eq!(drinker.running.code(), Some(0));
}
