//! What keeps a managed connection from yielding: other programs at an interface's outgoing side, Multipath TCP. Either it yields all
//! the same, or `run` and `status` say that it does not. Needs root and BPF; says when it is skipped.

mod common;
#[path = "common/running.rs"]
mod running;

use std::fs;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::{can_manage, lowtide, output};
use lowtide_kernel::other_program::{OtherProgram, Verdict};
use lowtide_lab::netns::Namespace;
use lowtide_lab::server::Server;
use lowtide_testing::skip;
use nix::net::if_::if_nametoindex;
use running::Running;

const SERVER: &str = "10.78.0.2";
/// Of the client's ends of both cables, and of the server's.
const MACS: [&str; 2] = ["02:00:00:00:00:01", "02:00:00:00:00:02"];
/// The kernel's own window after the first 15,000 bytes is 64 kB; ours has grown from two segments by a part of what arrived.
const MANAGED: u64 = 30_000;

/// Two hosts with two cables between them: `one`, which their addresses belong to, and `two`, which looks the same to the server.
struct Cables {
    client: Namespace,
    server: Namespace,
}

impl Cables {
    fn new() -> Cables {
        let cables = Cables { client: Namespace::new().expect("a namespace"), server: Namespace::new().expect("a namespace") };
        let mut holder = cables.server.place(Command::new("sleep").arg("60")).spawn().expect("sleep starts");
        for name in ["one", "two"] {
            let cable = format!("link add {name} address {} type veth peer name {name} address {} netns {}", MACS[0], MACS[1], holder.id());
            ip(&cables.client, &cable);
            ip(&cables.client, &format!("link set {name} up"));
            ip(&cables.server, &format!("link set {name} up"));
        }
        ip(&cables.client, "addr add 10.78.0.1/24 dev one");
        ip(&cables.server, &format!("addr add {SERVER}/24 dev one"));
        // An answer to an ARP request might come by the other cable.
        ip(&cables.client, &format!("neigh add {SERVER} lladdr {} dev one", MACS[1]));
        ip(&cables.server, &format!("neigh add 10.78.0.1 lladdr {} dev one", MACS[0]));
        holder.kill().expect("it lives");
        holder.wait().expect("it ends");
        cables
    }

    /// Somebody else's program where the client's packets leave.
    fn intrude(&self, verdict: Verdict) -> OtherProgram {
        self.client.enter(|| OtherProgram::attach("one", verdict)).expect("tcx")
    }
}

fn ip(space: &Namespace, words: &str) {
    let status = space.place(Command::new("ip").args(words.split(' '))).status().expect("ip starts");
    assert!(status.success(), "ip {words}");
}

/// Fetches so many bytes, says so, and keeps the connection open until its input ends.
fn fetch_and_hold(bytes: u32) -> String {
    format!(
        "exec 3<>/dev/tcp/{SERVER}/5001; printf 'GET /{bytes} HTTP/1.1\\r\\n\\r\\n' >&3; head -c {bytes} <&3 > /dev/null; echo held; read end"
    )
}

fn serve(cables: &Cables) -> Server {
    Server::new(&cables.server, SERVER.parse::<Ipv4Addr>().expect("an address"), 5001, "cubic").expect("a server")
}

/// A managed bash that waits for a line, then does `script`; the summary goes to `json`.
fn start(cables: &Cables, json: &Path, script: &str) -> Running {
    let mut command = lowtide(&["run", "--name", "not-yielding", "--json"]);
    command.arg(json).args(["--", "bash", "-c", &format!("echo ready; read go; {script}")]);
    let mut run = Running::of(cables.client.place(&mut command).stdin(Stdio::piped()));
    assert_eq!(run.line(), "ready");
    run
}

fn say(run: &mut Running, text: &str) {
    run.child.stdin.as_mut().expect("piped").write_all(text.as_bytes()).expect("it reads");
}

/// Ends it: the closing line and the JSON.
fn end(mut run: Running, json: &Path) -> (String, serde_json::Value) {
    let mut said = String::new();
    run.child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    run.code();
    (said, serde_json::from_slice(&fs::read(json).expect("it is there")).expect("JSON"))
}

fn yields_behind(test: &str, verdict: impl Fn(&Cables) -> Verdict) {
    if !can_manage(test) {
        return;
    }
    let (cables, folder) = (Cables::new(), tempfile::tempdir().expect("a folder"));
    let json = folder.path().join("run.json");
    let (server, _intruder) = (serve(&cables), cables.intrude(verdict(&cables)));
    let mut run = start(&cables, &json, &fetch_and_hold(15_000));
    say(&mut run, "go\n");
    assert_eq!(run.line(), "held");
    let stats = server.stats();
    assert!(stats.open == 1 && stats.acked > 15_000 && stats.peer_window < MANAGED, "{stats:?}");
    run.kill("-TERM");
    let (said, summary) = end(run, &json);
    assert!(summary["acks_lowered"].as_u64() > Some(0) && summary["connections_left_alone"] == 0, "{said}{summary:#}");
}

#[test]
fn a_connection_yields_although_a_program_that_was_there_first_ends_the_chain() {
    yields_behind("a_connection_yields_although_a_program_that_was_there_first_ends_the_chain", |_| Verdict::Pass);
}

#[test]
fn a_connection_yields_although_a_program_that_was_there_first_sends_its_packets_elsewhere() {
    let test = "a_connection_yields_although_a_program_that_was_there_first_sends_its_packets_elsewhere";
    yields_behind(test, |cables| {
        // The other cable's packets are not from where the server would answer to.
        let filter = "/proc/sys/net/ipv4/conf";
        let lax = || Ok(["all", "two"].iter().try_for_each(|name| fs::write(format!("{filter}/{name}/rp_filter"), "0"))?);
        cables.server.enter(lax).expect("settings of the namespace");
        Verdict::Redirect(cables.client.enter(|| Ok(if_nametoindex("two")?)).expect("it is there"))
    });
}

#[test]
fn a_connection_whose_acknowledgements_a_later_program_takes_is_told_as_one_that_does_not_yield() {
    let test = "a_connection_whose_acknowledgements_a_later_program_takes_is_told_as_one_that_does_not_yield";
    if !can_manage(test) {
        return;
    }
    let (cables, folder) = (Cables::new(), tempfile::tempdir().expect("a folder"));
    let json = folder.path().join("run.json");
    let server = serve(&cables);
    // Far more than sixteen acknowledgements, however large the pieces are in which the data comes.
    let mut run = start(&cables, &json, &fetch_and_hold(50_000_000));
    let _intruder = cables.intrude(Verdict::Pass); // now the first of the chain
    say(&mut run, "go\n");
    assert_eq!(run.line(), "held");
    assert!(server.stats().peer_window > MANAGED, "the program is in nobody's way: {:?}", server.stats());
    let mut status = String::new();
    // Counters are read at most four times a second.
    let told = (0..500).any(|_| {
        thread::sleep(Duration::from_millis(20));
        status = String::from_utf8_lossy(&output(&["status"]).stdout).into_owned();
        status.contains("NOT YIELDING") && status.contains("1 connection(s) did NOT yield: 1 acknowledgements leave")
    });
    assert!(told, "{status}");
    run.kill("-TERM");
    let (said, summary) = end(run, &json);
    assert!(said.contains("1 connection(s) did NOT yield: 1 acknowledgements leave where lowtide does not see"), "{said}");
    assert_eq!((&summary["connections_left_alone"], &summary["left_alone"]["acks_unseen"]), (&1.into(), &1.into()), "{summary:#}");
}

#[test]
fn doctor_names_other_programs_at_the_outgoing_side() {
    if !can_manage("doctor_names_other_programs_at_the_outgoing_side") {
        return;
    }
    let cables = Cables::new();
    let doctor = || {
        let output = cables.client.place(&mut lowtide(&["doctor"])).output().expect("it starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(!doctor().contains("other programs"), "{}", doctor());
    let _intruder = cables.intrude(Verdict::Next);
    assert!(doctor().contains("other programs   nothing on one\n"), "{}", doctor());
}

/// A client that asks for Multipath TCP, and a server on the loopback interface whose protocol is the argument.
const MPTCP: &str = "
import socket, sys, threading
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, int(sys.argv[1]))
listener.bind(('127.0.0.1', 0))
listener.listen()
def serve():
    peer = listener.accept()[0]
    peer.sendall(bytes(1000000))
    peer.close()
threading.Thread(target=serve).start()
client = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
client.connect(listener.getsockname())
got = 0
while data := client.recv(65536):
    got += len(data)
print(got)
";

/// The closing line and the JSON of `MPTCP` with a server of that protocol; none where it cannot be run.
fn multipath(test: &str, server: &str) -> Option<(String, serde_json::Value)> {
    if !can_manage(test) {
        return None;
    }
    if !Path::new("/proc/sys/net/mptcp/enabled").exists() || Command::new("python3").arg("-V").output().is_err() {
        skip(test, "no Multipath TCP in this kernel, or no python3");
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("run.json");
    let mut run = Running::of(&mut lowtide(&["run", "--json", &json.display().to_string(), "--", "python3", "-c", MPTCP, server]));
    assert_eq!(run.line(), "1000000");
    Some(end(run, &json))
}

#[test]
fn a_multipath_connection_is_left_alone_and_counted_once_an_end() {
    let test = "a_multipath_connection_is_left_alone_and_counted_once_an_end";
    let Some((said, summary)) = multipath(test, "262") else { return };
    // Both ends are in the group.
    assert_eq!((&summary["left_alone"]["mptcp"], &summary["connections"]), (&2.into(), &0.into()), "{summary:#}");
    assert!(said.contains("2 connection(s) did NOT yield: 2 Multipath TCP"), "{said}");
}

#[test]
fn a_client_that_fell_back_to_plain_tcp_is_managed() {
    let Some((said, summary)) = multipath("a_client_that_fell_back_to_plain_tcp_is_managed", "6") else { return };
    assert_eq!((&summary["connections_left_alone"], &summary["connections"]), (&0.into(), &2.into()), "{said}{summary:#}");
    assert!(summary["acks_lowered"].as_u64() > Some(0), "{summary:#}");
}

/// Two segments at a time, which are acknowledged at once, for two seconds; each line says that it goes on.
const TRICKLE: &str = r#"
use IO::Socket::INET; use Time::HiRes 'sleep';
my $l = IO::Socket::INET->new(LocalPort => 5001, Listen => 1) or die; $| = 1; print "ready\n";
my $c = $l->accept; for (1 .. 400) { syswrite $c, 'x' x 2896; sleep 0.005 }
"#;

/// What a filter drops in the output hook the kernel has counted as sent: it might have left by a way that lowtide does not see. Each time
/// the window is the kernel's own.
#[test]
fn a_connection_whose_acknowledgements_a_filter_drops_time_and_again_is_told() {
    let test = "a_connection_whose_acknowledgements_a_filter_drops_time_and_again_is_told";
    if !can_manage(test) {
        return;
    }
    let (cables, folder) = (Cables::new(), tempfile::tempdir().expect("a folder"));
    let rules = "add table ip t; add chain ip t o { type filter hook output priority 0; }; add rule ip t o tcp dport 5001 numgen inc mod 4 == 3 drop";
    if !cables.client.place(Command::new("nft").arg(rules)).status().is_ok_and(|s| s.success()) {
        skip(test, "no nft, or no nf_tables in this kernel");
        return;
    }
    let json = folder.path().join("run.json");
    let mut server = Running::of(cables.server.place(Command::new("perl").args(["-e", TRICKLE])));
    assert_eq!(server.line(), "ready");
    let mut run = start(&cables, &json, &format!("cat < /dev/tcp/{SERVER}/5001 | wc -c; read end"));
    say(&mut run, "go\n");
    assert_eq!(run.line(), (400 * 2896).to_string());
    assert_eq!(server.code(), Some(0));
    run.kill("-TERM");
    let (said, summary) = end(run, &json);
    assert_eq!(summary["left_alone"]["acks_unseen"], 1, "{said}{summary:#}");
    assert!(said.contains("1 connection(s) did NOT yield"), "{said}");
}

/// Three megabytes to who comes.
const GIVE: &str = r#"
use IO::Socket::IP; my $l = IO::Socket::IP->new(LocalHost => 'fd79::2', LocalPort => 5001, Listen => 1) or die $@; $| = 1; print "ready\n";
my $c = $l->accept; syswrite $c, 'x' x 1000000 for 1 .. 3; sysread $c, my $end, 1;
"#;

/// Segment routing (RFC 8754, RFC 8986 section 5.1) puts each IPv6 packet into another one: where packets leave, the outgoing program finds no TCP
/// header where it looks for one.
#[test]
fn a_connection_whose_segments_leave_inside_other_packets_is_told_and_they_are_counted() {
    let test = "a_connection_whose_segments_leave_inside_other_packets_is_told_and_they_are_counted";
    if !can_manage(test) {
        return;
    }
    let (cables, folder) = (Cables::new(), tempfile::tempdir().expect("a folder"));
    ip(&cables.client, "addr add fd78::1/64 dev one nodad");
    ip(&cables.server, "addr add fd78::2/64 dev one nodad");
    ip(&cables.server, "addr add fd79::2/128 dev lo");
    let wrap = "-6 route add fd79::2/128 encap seg6 mode encap segs fd78::2 dev one src fd78::1";
    if !cables.client.place(Command::new("ip").args(wrap.split(' '))).status().is_ok_and(|s| s.success()) {
        skip(test, "no segment routing in this kernel");
        return;
    }
    let unwrap =
        || Ok(["all", "one"].iter().try_for_each(|name| fs::write(format!("/proc/sys/net/ipv6/conf/{name}/seg6_enabled"), "1"))?);
    cables.server.enter(unwrap).expect("settings of the namespace");
    let mut server = Running::of(cables.server.place(Command::new("perl").args(["-e", GIVE])));
    assert_eq!(server.line(), "ready");
    let json = folder.path().join("run.json");
    let mut run = start(&cables, &json, "head -c 3000000 < /dev/tcp/fd79::2/5001 | wc -c; read end");
    say(&mut run, "go\n");
    assert_eq!(run.line(), "3000000");
    run.kill("-TERM");
    let (said, summary) = end(run, &json);
    assert_eq!((&summary["acks_lowered"], &summary["left_alone"]["acks_unseen"]), (&0.into(), &1.into()), "{said}{summary:#}");
    assert!(summary["packets_unparsed"].as_u64() > Some(0), "{summary:#}");
    assert!(
        said.contains("1 connection(s) did NOT yield: 1 acknowledgements leave where lowtide does not see or cannot read them"),
        "{said}"
    );
}

/// From one address after the other, from each a few bytes.
const MANY: &str = r#"
use Socket; socket(my $l, AF_INET, SOCK_STREAM, 6); bind($l, sockaddr_in(5001, INADDR_ANY)); listen($l, 9);
for my $n (0 .. 4099) {
    socket(my $c, AF_INET, SOCK_STREAM, 6);
    connect($c, sockaddr_in(5001, inet_aton('127.1.' . int($n / 250) . '.' . ($n % 250 + 1)))) or die $!;
    accept(my $a, $l); syswrite($a, 'x' x 100); sysread($c, my $b, 100);
}
print "done
";
"#;

#[test]
fn connections_to_more_addresses_than_lowtide_keeps_are_told() {
    if !can_manage("connections_to_more_addresses_than_lowtide_keeps_are_told") {
        return;
    }
    let (space, folder) = (Namespace::new().expect("a namespace"), tempfile::tempdir().expect("a folder"));
    let json = folder.path().join("run.json");
    let mut command = lowtide(&["run", "--json", &json.display().to_string(), "--", "perl", "-e", MANY]);
    let mut run = Running::of(space.place(&mut command));
    assert_eq!(run.line(), "done");
    let (said, summary) = end(run, &json);
    // 4,096 are kept; one of them may be the listener's end's.
    let left = summary["left_alone"]["paths_full"].as_u64().unwrap_or_default();
    assert!((4..=5).contains(&left), "{said}{summary:#}");
    assert!(said.contains("more remote addresses than lowtide keeps"), "{said}");
}
