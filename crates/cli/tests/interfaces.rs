//! Where `lowtide run` attaches: interfaces that are up, those that come up later, namespaces that the command enters later. Needs root
//! and BPF; says when it is skipped.

mod common;
#[path = "common/running.rs"]
mod running;

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::{can_manage, lowtide, output};
use lowtide_kernel::cgroup::Group;
use lowtide_kernel::{Config, Receiver};
use lowtide_lab::netns::Namespace;
use lowtide_lab::server::Server;
use running::Running;

/// Waits until `ready`; what it waits for is named.
fn wait(what: &str, mut ready: impl FnMut() -> bool) {
    assert!((0..3000).any(|_| ready() || (thread::sleep(Duration::from_millis(20)), false).1), "{what}: not within a minute");
}

/// Of how many interfaces `status` says that they are covered by the group with that name.
fn covered(name: &str) -> Option<u64> {
    let groups: Vec<serde_json::Value> = serde_json::from_slice(&output(&["status", "--json"]).stdout).expect("a list");
    groups.into_iter().find(|g| g["name"] == name)?["interfaces"].as_u64()
}

/// Interfaces of our own namespace that are up.
fn own() -> u64 {
    let flags = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("flags")).unwrap_or_default();
    let is_up = |flags: String| u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).is_ok_and(|flags| flags & 1 == 1);
    fs::read_dir("/sys/class/net").expect("/sys").flatten().map(flags).filter(|f| is_up(f.clone())).count() as u64
}

fn ip(space: &Namespace, words: &str) {
    let status = space.place(Command::new("ip").args(words.split(' '))).status().expect("ip starts");
    assert!(status.success(), "ip {words}");
}

/// To attach to an interface and to detach from it takes a grace period of RCU each.
#[test]
fn an_interface_that_is_down_is_left_out_until_word_comes_that_it_is_up() {
    if !can_manage("an_interface_that_is_down_is_left_out_until_word_comes_that_it_is_up") {
        return;
    }
    let space = Namespace::new().expect("a namespace"); // its loopback interface is up
    ip(&space, "link add down0 type veth peer name down1");
    let mut member = space.place(Command::new("sleep").arg("60")).spawn().expect("sleep starts");
    let group = Group::create("interfaces").expect("a group");
    group.join(member.id()).expect("it lives");
    let mut receiver = Receiver::attach(group.path(), &Config::default()).expect("it attaches");
    assert_eq!(receiver.interfaces() as u64, own() + 1);
    wait("silence", || !receiver.has_news());
    for end in ["down0", "down1"] {
        ip(&space, &format!("link set {end} up"));
    }
    assert!(receiver.has_news(), "word comes before the command that changes the interface ends");
    receiver.poll_interfaces().expect("it attaches");
    assert_eq!(receiver.interfaces() as u64, own() + 3);
    member.kill().expect("it lives");
    member.wait().expect("it ends");
}

fn say(run: &mut Running, text: &str) {
    run.child.stdin.as_mut().expect("piped").write_all(text.as_bytes()).expect("it reads");
}

/// Fetches `bytes` from `address`, says so, and keeps the connection open until its input ends.
fn fetch_and_hold(address: &str, bytes: u32) -> String {
    format!(
        "exec 3<>/dev/tcp/{address}/5001; printf 'GET /{bytes} HTTP/1.1\\r\\n\\r\\n' >&3; head -c {bytes} <&3 > /dev/null; echo held; read end"
    )
}

#[test]
fn an_interface_added_after_the_start_and_a_namespace_entered_later_are_covered() {
    if !can_manage("an_interface_added_after_the_start_and_a_namespace_entered_later_are_covered") {
        return;
    }
    let (client, server) = (Namespace::new().expect("a namespace"), Namespace::new().expect("a namespace"));
    let holder = |space: &Namespace| space.place(Command::new("sleep").arg("60")).spawn().expect("sleep starts");
    let (mut near, mut far) = (holder(&client), holder(&server));
    // In our own namespace, with a command that enters the client's; the interface comes while it waits.
    let inner = format!("read go; {}", fetch_and_hold("10.78.0.2", 15_000));
    let enter = format!("nsenter --net=/proc/{}/ns/net bash -c \"echo ready; $0\"", near.id());
    let mut command = lowtide(&["run", "--quiet", "--name", "late", "--", "sh", "-c", &enter, &inner]);
    let mut run = Running::of(command.stdin(Stdio::piped()));
    assert_eq!(run.line(), "ready");
    ip(&client, &format!("link add late0 type veth peer name late1 netns {}", far.id()));
    for (space, device, address) in [(&client, "late0", "10.78.0.1/24"), (&server, "late1", "10.78.0.2/24")] {
        ip(space, &format!("addr add {address} dev {device}"));
        ip(space, &format!("link set {device} up"));
    }
    // Ours, and the client's lo and late0; found although somebody looks all the time.
    let all = own() + 2;
    wait("the new interface", || covered("late") == Some(all));
    let sender = Server::new(&server, "10.78.0.2".parse().expect("an address"), 5001, "cubic").expect("a server");
    say(&mut run, "go\n");
    assert_eq!(run.line(), "held");
    // The kernel's own first window is 64 kB; ours has grown from two segments by a part of what arrived.
    let stats = sender.stats();
    assert!(stats.open == 1 && stats.acked > 15_000 && stats.peer_window < 30_000, "{stats:?}");
    say(&mut run, "end\n");
    assert_eq!(run.code(), Some(0));
    for holder in [&mut near, &mut far] {
        holder.kill().expect("it lives");
        holder.wait().expect("it ends");
    }
}

/// Linux gives a namespace the number of one that is gone, and its loopback always has index 1.
#[test]
fn a_namespace_with_the_number_of_an_earlier_one_is_covered() {
    if !can_manage("a_namespace_with_the_number_of_an_earlier_one_is_covered") {
        return;
    }
    let inside = "unshare --net sh -c 'ip link set lo up; readlink /proc/self/ns/net; read go'";
    let mut command = lowtide(&["run", "--quiet", "--name", "again", "--", "sh", "-c", &format!("while {inside}; do read next; done")]);
    let mut run = Running::of(command.stdin(Stdio::piped()));
    let all = own() + 1;
    let mut numbers: Vec<String> = Vec::new();
    // Until a number comes again, whichever: other programs take and free numbers meanwhile. Half a minute has always been enough.
    while numbers.len() < 60 && !numbers.split_last().is_some_and(|(last, before)| before.contains(last)) {
        numbers.push(run.line());
        wait("its loopback", || covered("again") == Some(all));
        say(&mut run, "go\n");
        wait("the end of it", || covered("again") == Some(all - 1));
        say(&mut run, "next\n");
    }
    assert!(numbers.len() < 60, "no number came again: {numbers:?}");
    run.kill("-TERM");
    run.code();
}
