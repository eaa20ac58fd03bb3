//! `lowtide run` holds back what comes over IPv4, over IPv6, and over IPv6 with extension headers in both directions: over a
//! veth pair, seen from the server's kernel. Needs root and BPF; says when it is skipped.

mod common;
#[path = "common/running.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod running;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{can_manage, lowtide};
use lowtide_lab::netns::Namespace;
use running::Running;

/// The kernel's own first window is 64 kB; ours has grown from two segments by a part of what arrived.
const MANAGED: u64 = 30_000;

/// A socket with, where asked, a destination options header of six bytes of padding (RFC 8200 §4.6) in all it sends.
const SOCKET: &str = r#"
use Socket qw(:all); my ($address, $options) = @ARGV; my $six = $address =~ /:/;
my $place = $six ? pack_sockaddr_in6(5001, inet_pton(AF_INET6, $address)) : pack_sockaddr_in(5001, inet_aton($address));
socket(my $s, $six ? AF_INET6 : AF_INET, SOCK_STREAM, 0) or die "socket: $!"; $| = 1;
setsockopt($s, 41, 59, pack("C*", 0, 0, 1, 4, 0, 0, 0, 0)) or die "IPV6_DSTOPTS: $!" if $options;
"#;
/// Sends as much as arrives at once, and waits.
const SERVE: &str = r#"
bind($s, $place) && listen($s, 1) or die "listen: $!"; print "listening\n";
accept(my $peer, $s) or die "accept: $!"; syswrite($peer, "~" x 15000) or die "write: $!"; sysread(STDIN, my $end, 1);
"#;
/// Receives it, says so, and waits.
const FETCH: &str = r#"
connect($s, $place) or die "connect: $!"; my $left = 15000;
while ($left > 0) { my $n = sysread($s, my $got, $left) or die "read: $!"; $left -= $n; }
print "held\n"; sysread(STDIN, my $end, 1);
"#;

/// The server's address, and whether options stand between the headers.
const CASES: [(&str, bool); 3] = [("10.78.0.2", false), ("fd78::2", false), ("fd78::2", true)];

fn perl(command: &mut Command, script: &str, address: &str, options: bool) {
    command.args(["perl", "-e", &format!("{SOCKET}{script}"), address]).args(options.then_some("1"));
    command.stdin(Stdio::piped());
}

fn inside(space: &Namespace, words: &str) -> String {
    let mut words = words.split(' ');
    let output = space.place(Command::new(words.next().expect("a word")).args(words)).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A client's and a server's namespace, joined by a veth pair with addresses of both families.
fn ground() -> (Namespace, Namespace) {
    let (client, server) = (Namespace::new().expect("a namespace"), Namespace::new().expect("a namespace"));
    let mut holder: Child = server.place(Command::new("sleep").arg("60")).spawn().expect("sleep starts");
    inside(&client, &format!("ip link add near type veth peer name far netns {}", holder.id()));
    holder.kill().expect("it lives");
    holder.wait().expect("it ends");
    for (space, device, last) in [(&client, "near", 1), (&server, "far", 2)] {
        inside(space, &format!("ip addr add 10.78.0.{last}/24 dev {device}"));
        inside(space, &format!("ip addr add fd78::{last}/64 dev {device} nodad"));
        inside(space, &format!("ip link set {device} up"));
    }
    (client, server)
}

/// The window that the one client of the server shows it, as the server's kernel has it.
fn shown_window(server: &Namespace) -> u64 {
    let said = inside(server, "ss -tinH state established");
    let window = said.split_whitespace().find_map(|word| word.strip_prefix("snd_wnd:"));
    window.and_then(|w| w.parse().ok()).unwrap_or_else(|| panic!("no snd_wnd in {said}"))
}

/// Sends as much as is asked for, says so, and waits.
const SEND: &str = r#"
connect($s, $place) or die "connect: $!"; my $n = 0;
while ($n < 300000) { $n += syswrite($s, "~" x 15000) or die "write: $!" }
print "sent\n"; sysread(STDIN, my $end, 1);
"#;
/// Receives it, and waits.
const TAKE: &str = r#"
bind($s, $place) && listen($s, 1) or die "listen: $!"; print "listening\n"; accept(my $peer, $s) or die "accept: $!";
my $left = 300000; while ($left > 0) { my $n = sysread($peer, my $got, $left) or die "read: $!"; $left -= $n; }
print "taken\n"; sysread(STDIN, my $end, 1);
"#;

#[test]
fn uploads_of_every_family_send_by_the_groups_control_and_are_shown_and_counted() {
    if !can_manage("uploads_of_every_family_send_by_the_groups_control_and_are_shown_and_counted") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("run.json").display().to_string();
    for (cc, address, options) in ["lowtide", "enhanced"].iter().flat_map(|cc| CASES.map(|(address, options)| (cc, address, options))) {
        let (client, server) = ground();
        let mut taking = Command::new("env");
        perl(&mut taking, TAKE, address, options);
        let mut taking = Running::of(server.place(&mut taking));
        assert_eq!(taking.line(), "listening");
        let mut sending = lowtide(&["run", "--quiet", "--cc", cc, "--name", "of-test-families", "--json", &json, "--"]);
        perl(&mut sending, SEND, address, options);
        let mut sending = Running::of(client.place(&mut sending));
        let name = format!("lowtide_{}", sending.child.id());
        assert_eq!((sending.line(), taking.line()), ("sent".to_owned(), "taken".to_owned()), "{cc}: {address}, options {options}");
        let said = inside(&client, "ss -tinH state established");
        assert!(said.contains(&name), "{cc}: {address}, options {options}: {said}");
        let remote = if address.contains(':') { format!("[{address}]:5001") } else { format!("{address}:5001") };
        let is_shown = || {
            std::thread::sleep(Duration::from_millis(100)); // a run does not look anew at once
            let groups: Vec<serde_json::Value> = serde_json::from_slice(&common::output(&["status", "--json"]).stdout).unwrap_or_default();
            let flows = groups.iter().filter(|g| g["name"] == "of-test-families").flat_map(|g| g["flows"].as_array().expect("a list"));
            let shown = flows.filter(|f| f["direction"] == "up" && f["remote"] == remote.as_str() && f["base_rtt_ms"].is_f64());
            shown.count() == 1
        };
        assert!((0..100).any(|_| is_shown()), "{cc}: {address}, options {options}: `status` does not show it");
        drop((sending.child.stdin.take(), taking.child.stdin.take()));
        assert_eq!((sending.code(), taking.code()), (Some(0), Some(0)));
        let told: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("JSON");
        // Linux's bytes_acked has the FIN in it.
        let bytes = told["sent"]["bytes"].as_u64().expect("a number");
        assert!((300_000..=300_001).contains(&bytes) && told["sent"]["connections"] == 1, "{told:#}");
    }
}

/// The window after a transfer to `address` by a client under `lowtide`, or by one of its own.
fn window_of(address: &str, options: bool, managed: bool) -> u64 {
    let (client, server) = ground();
    let mut serving = Command::new("env");
    perl(&mut serving, SERVE, address, options);
    let mut serving = Running::of(server.place(&mut serving));
    assert_eq!(serving.line(), "listening");
    let mut fetching = if managed { lowtide(&["run", "--quiet", "--"]) } else { Command::new("env") };
    perl(&mut fetching, FETCH, address, options);
    let mut fetching = Running::of(client.place(&mut fetching));
    assert_eq!(fetching.line(), "held");
    std::thread::sleep(Duration::from_millis(100)); // the last acknowledgement may be a delayed one
    let window = shown_window(&server);
    drop((fetching.child.stdin.take(), serving.child.stdin.take()));
    assert_eq!((fetching.code(), serving.code()), (Some(0), Some(0)));
    window
}

#[test]
fn every_family_and_what_stands_between_its_headers_is_held_back() {
    if !can_manage("every_family_and_what_stands_between_its_headers_is_held_back") {
        return;
    }
    for (address, options) in CASES {
        let (managed, free) = (window_of(address, options, true), window_of(address, options, false));
        assert!(managed < MANAGED && free > 2 * MANAGED, "{address}, options {options}: {managed} of {free} bytes");
    }
}
