//! What real transfers survive under `lowtide run`, across the laboratory's link: loss, reordering and duplication, crowds of
//! connections, a kill, a time without our programs. Needs root and BPF; says when it is skipped.

mod common;
#[path = "common/line.rs"]
mod line;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use common::{can_manage, lowtide, output};
use line::{site, wait};
use lowtide_kernel::other_program::{OtherProgram, Verdict};
use lowtide_lab::clock;
use lowtide_lab::netns::Namespace;
use lowtide_lab::server::Server;
use lowtide_lab::site::{SERVER, Site};
use lowtide_net::ImpairConfig;
use lowtide_testing::skip;
use lowtide_units::{Span, Time};

/// What the receiver lets a server have in flight on this line alone stays below it; the kernel's own window does not.
const MANAGED: u64 = 250_000;

fn within_a_minute() -> Range<Time> {
    let now = clock::now();
    now..now + Span::from_millis(60_000)
}

fn clean() -> Site {
    site(ImpairConfig::default(), ImpairConfig::default(), within_a_minute())
}

/// Answers every request on `port` with `body`, for as long as the test runs.
fn serve(space: &Namespace, port: u16, body: Vec<u8>) {
    let listener = space.enter(|| Ok(TcpListener::bind((SERVER, port))?)).expect("it can listen");
    thread::spawn(move || {
        while let Ok((mut peer, _)) = listener.accept() {
            let body = body.clone();
            thread::spawn(move || {
                let _request = peer.read(&mut [0; 4096]);
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                // A client that has gone has what it wanted.
                let _gone = peer.write_all(head.as_bytes()).and_then(|()| peer.write_all(&body));
            });
        }
    });
}

fn noise(bytes: u32) -> Vec<u8> {
    (0..bytes).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// What leaves and reaches the server's end of the link, into a file. There the checksums are those on the wire; at the client's
/// end the kernel leaves them to the device.
struct Capture {
    dumpcap: Child,
    file: PathBuf,
}

impl Capture {
    /// At the server's end of the link. None, said loudly, where there is no tshark.
    fn start(space: &Namespace, folder: &Path, test: &str) -> Option<Capture> {
        Capture::of(space, "tun0", folder, test)
    }

    fn of(space: &Namespace, interface: &str, folder: &Path, test: &str) -> Option<Capture> {
        if Command::new("tshark").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            skip(test, "no tshark");
            return None;
        }
        let file = folder.join("server.pcapng");
        let mut command = Command::new("dumpcap");
        command.args(["-q", "-i", interface, "-w"]).arg(&file).stderr(Stdio::null());
        let dumpcap = space.place(&mut command).spawn().expect("dumpcap starts");
        wait("dumpcap", || fs::metadata(&file).is_ok_and(|m| m.len() > 0));
        Some(Capture { dumpcap, file })
    }

    /// Ends it: `fields` of each packet that `filter` lets through.
    fn read(mut self, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
        Command::new("kill").args(["-INT", &self.dumpcap.id().to_string()]).status().expect("kill starts");
        self.dumpcap.wait().expect("it ends");
        let mut tshark = Command::new("tshark");
        tshark.args(["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-Y", filter, "-T", "fields", "-r"]).arg(&self.file);
        for field in fields {
            tshark.args(["-e", field]);
        }
        let output = tshark.output().expect("tshark starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().map(|l| l.split('\t').map(str::to_owned).collect()).collect()
    }
}

/// Of everything the client sent: checksums right, no window closed, no right edge ever left of one shown before.
fn check_what_was_sent(capture: Capture) {
    let fields =
        ["tcp.stream", "tcp.flags.syn", "tcp.ack", "tcp.window_size", "tcp.checksum.status", "tcp.checksum", "tcp.checksum_calculated"];
    let mut edges: BTreeMap<String, u64> = BTreeMap::new();
    let packets = capture.read("ip.src == 10.77.0.1 && tcp && tcp.flags.reset == 0", &fields);
    assert!(packets.len() > 100, "{} packets", packets.len());
    for packet in packets {
        let number = |at: usize| packet[at].parse::<u64>().unwrap_or_else(|_| panic!("{packet:?}"));
        // Linux writes a sum of zero as its other form, for TCP as well (CSUM_MANGLED_0), which tshark takes for wrong: one in 65,536.
        let zero = packet[5..] == ["0xffff", "0x0000"];
        assert!(packet[4] == "1" || zero, "a wrong checksum: {packet:?}");
        if packet[1] == "1" || packet[1] == "True" {
            continue;
        }
        assert!(number(3) > 0, "a closed window: {packet:?}");
        let edge = edges.entry(packet[0].clone()).or_default();
        assert!(number(2) + number(3) >= *edge, "the right edge moved left from {edge}: {packet:?}");
        *edge = number(2) + number(3);
    }
}

#[test]
fn what_curl_fetches_through_loss_reordering_and_duplication_is_whole_and_no_edge_moves_left() {
    let test = "what_curl_fetches_through_loss_reordering_and_duplication_is_whole_and_no_edge_moves_left";
    if !can_manage(test) {
        return;
    }
    // ACKs are lost too, but keep their order: the server's end sees edges as they were drawn.
    let up = ImpairConfig { loss: 0.05, ..ImpairConfig::default() };
    let site = site(up, ImpairConfig { reorder: 0.05, reorder_ms: 5.0, duplicate: 0.05, ..up }, within_a_minute());
    let (body, folder) = (noise(700_000), tempfile::tempdir().expect("a folder"));
    serve(&site.server, 5000, body.clone());
    let capture = Capture::start(&site.server, folder.path(), test);
    let file = folder.path().join("fetched");
    let mut command = lowtide(&["run", "--quiet", "--", "curl", "-s", "-o"]);
    let status = site.client.place(command.arg(&file).arg(format!("http://{SERVER}:5000/"))).status().expect("it starts");
    assert!(status.success());
    assert!(fs::read(&file).expect("it is there") == body, "what arrived is not what was sent");
    if let Some(capture) = capture {
        check_what_was_sent(capture);
    }
}

/// On a line that loses nothing tshark's own analysis finds nothing: no retransmission, no closed window, no duplicate.
#[test]
fn on_a_clean_line_tshark_finds_nothing_to_complain_of_and_the_marks_are_there() {
    let test = "on_a_clean_line_tshark_finds_nothing_to_complain_of_and_the_marks_are_there";
    if !can_manage(test) {
        return;
    }
    let (site, folder) = (clean(), tempfile::tempdir().expect("a folder"));
    serve(&site.server, 5000, noise(5_000_000));
    let Some(capture) = Capture::start(&site.server, folder.path(), test) else { return };
    let url = format!("http://{SERVER}:5000/");
    let mut command = lowtide(&["run", "--quiet", "--dscp", "le", "--", "curl", "-s", "-o", "/dev/null", &url]);
    assert!(site.client.place(&mut command).status().expect("it starts").success());
    let analysis =
        ["retransmission", "fast_retransmission", "zero_window", "zero_window_probe", "out_of_order", "lost_segment", "duplicate_ack"];
    let fields: Vec<String> = analysis.iter().map(|a| format!("tcp.analysis.{a}")).collect();
    let fields: Vec<&str> = ["ip.src", "ip.dsfield.dscp"].into_iter().chain(fields.iter().map(String::as_str)).collect();
    let again = Capture { dumpcap: Command::new("true").spawn().expect("it starts"), file: capture.file.clone() };
    let packets = capture.read("tcp", &fields);
    for packet in &packets {
        assert!(packet.iter().skip(2).all(String::is_empty), "{fields:?}: {packet:?}");
        assert_eq!(packet[1], if packet[0] == "10.77.0.1" { "1" } else { "0" }, "LE is what we send, and only that: {packet:?}");
    }
    check_what_was_sent(again);
}

#[test]
fn datagrams_of_the_group_are_marked_in_both_families_and_nobody_elses_are() {
    let test = "datagrams_of_the_group_are_marked_in_both_families_and_nobody_elses_are";
    if !can_manage(test) {
        return;
    }
    let (site, folder) = (clean(), tempfile::tempdir().expect("a folder"));
    let Some(capture) = Capture::of(&site.client, "lo", folder.path(), test) else { return };
    let empty = fs::metadata(&capture.file).expect("it is there").len();
    let (sent, done) = (folder.path().join("sent"), folder.path().join("done"));
    let script = format!(
        "echo a >/dev/udp/127.0.0.1/5009; echo a >/dev/udp/::1/5010; touch {}; until [ -e {} ]; do sleep 0.05; done",
        sent.display(),
        done.display()
    );
    let mut command = lowtide(&["run", "--quiet", "--dscp", "le", "--", "bash", "-c", &script]);
    let mut run = site.client.place(&mut command).spawn().expect("it starts");
    wait("the group's datagrams", || sent.exists());
    let other = "echo a >/dev/udp/127.0.0.1/5011; echo a >/dev/udp/::1/5012";
    assert!(site.client.place(Command::new("bash").args(["-c", other])).status().expect("it starts").success());
    fs::write(&done, "").expect("a file");
    assert!(run.wait().expect("it ends").success());
    // dumpcap takes packets from the kernel a few times a second; four of them take 344 bytes.
    wait("the captured datagrams", || fs::metadata(&capture.file).is_ok_and(|m| m.len() >= empty + 344));
    // Where a family has no such field, it is empty; 1 is a checksum that is right.
    let fields = ["udp.dstport", "ip.dsfield.dscp", "ip.checksum.status", "ipv6.tclass.dscp", "ipv6.version"];
    let mut packets = capture.read("udp && !icmp && !icmpv6", &fields);
    packets.sort();
    let expected = [["5009", "1", "1", "", ""], ["5010", "", "", "1", "6"], ["5011", "0", "1", "", ""], ["5012", "", "", "0", "6"]]
        .map(|p| p.map(str::to_owned).to_vec());
    assert_eq!(packets, expected);
}

#[test]
fn two_hundred_connections_opened_and_closed_at_once_are_all_served_and_counted() {
    if !can_manage("two_hundred_connections_opened_and_closed_at_once_are_all_served_and_counted") {
        return;
    }
    let (site, folder) = (clean(), tempfile::tempdir().expect("a folder"));
    serve(&site.server, 5000, noise(10_000));
    let (json, pattern) = (folder.path().join("run.json"), folder.path().join("got-#1"));
    let mut command = lowtide(&["run", "--quiet", "--json"]);
    command
        .arg(&json)
        .args(["--", "curl", "--no-progress-meter", "-sfZ", "--parallel-max", "200", "--parallel-immediate", "-o"])
        .arg(&pattern);
    let status = site.client.place(command.arg(format!("http://{SERVER}:5000/[1-200]"))).status().expect("it starts");
    assert!(status.success(), "{status}");
    assert!((1..=200).all(|n| fs::read(folder.path().join(format!("got-{n}"))).is_ok_and(|got| got == noise(10_000))));
    let summary: serde_json::Value = serde_json::from_slice(&fs::read(&json).expect("it is there")).expect("JSON");
    assert_eq!(summary["connections"], 200, "{summary:#}");
}

/// A download without end by `command`, in the client's namespace, from a cubic server.
fn bulk(site: &Site, mut command: Command) -> (Server, Child) {
    let server = Server::new(&site.server, SERVER, 5001, "cubic").expect("a server");
    // Where a test kills `lowtide`, curl outlives it: not for ever.
    command.args(["curl", "-s", "--max-time", "120", "-o", "/dev/null", &server.url(1 << 40)]);
    let child = site.client.place(&mut command).spawn().expect("it starts");
    (server, child)
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().expect("kill starts").success());
}

/// What `status` says of the group with that name. A run on a busy machine may take longer to answer than `status` waits.
fn managed(name: &str) -> serde_json::Value {
    let mut found = None;
    wait(name, || {
        let status = output(&["status", "--json"]);
        let groups: Vec<serde_json::Value> = serde_json::from_slice(&status.stdout).expect("a list");
        found = groups.into_iter().find(|g| g["name"] == name);
        found.is_some()
    });
    found.expect("waited for")
}

#[test]
fn when_lowtide_is_killed_the_transfer_has_the_kernels_own_window_again() {
    if !can_manage("when_lowtide_is_killed_the_transfer_has_the_kernels_own_window_again") {
        return;
    }
    let site = clean();
    let (server, mut run) = bulk(&site, lowtide(&["run", "--quiet", "--"]));
    wait("the download", || server.stats().acked > 5_000_000);
    assert!(server.stats().peer_window < MANAGED, "{:?}", server.stats());
    signal(run.id(), "-KILL"); // curl goes on until the server is gone
    run.wait().expect("it ends");
    let before = server.stats().acked;
    wait("the kernel's own window", || server.stats().peer_window > 2 * MANAGED && server.stats().acked > before + 5_000_000);
}

/// As while an interface that was made anew is not covered yet, or a clsact filter sleeps: what leaves then has the kernel's window.
#[test]
fn after_a_time_in_which_acknowledgements_were_not_seen_no_edge_moves_left() {
    let test = "after_a_time_in_which_acknowledgements_were_not_seen_no_edge_moves_left";
    if !can_manage(test) {
        return;
    }
    let (site, folder) = (clean(), tempfile::tempdir().expect("a folder"));
    let Some(capture) = Capture::start(&site.server, folder.path(), test) else { return };
    let (server, mut run) = bulk(&site, lowtide(&["run", "--quiet", "--name", "gap", "--"]));
    wait("the download", || server.stats().acked > 2_000_000);
    let before = managed("gap");
    let first = site.client.enter(|| OtherProgram::attach("tun0", Verdict::Pass)).expect("tcx");
    wait("the kernel's own window", || server.stats().peer_window > 2 * MANAGED);
    drop(first);
    let acked = server.stats().acked;
    wait("more of the download", || server.stats().acked > acked + 3_000_000);
    assert!(managed("gap")["acks_lowered"].as_u64() > before["acks_lowered"].as_u64(), "{before:#}");
    signal(run.id(), "-TERM");
    run.wait().expect("it ends");
    check_what_was_sent(capture);
}

#[test]
fn without_timestamps_it_still_gives_way_and_says_how_it_measures() {
    if !can_manage("without_timestamps_it_still_gives_way_and_says_how_it_measures") {
        return;
    }
    let site = clean();
    site.client.enter(|| Ok(fs::write("/proc/sys/net/ipv4/tcp_timestamps", "0")?)).expect("a setting of the namespace");
    let (server, mut run) = bulk(&site, lowtide(&["run", "--quiet", "--name", "no-timestamps", "--"]));
    wait("the download", || server.stats().acked > 8_000_000);
    assert!(server.stats().peer_window < MANAGED, "{:?}", server.stats());
    let group = managed("no-timestamps");
    assert_ne!(group["flows"][0]["mode"], "timestamps", "{group:#}");
    signal(run.id(), "-TERM");
    run.wait().expect("it ends");
}

#[test]
fn a_connection_open_before_its_group_is_managed_gives_way_too() {
    if !can_manage("a_connection_open_before_its_group_is_managed_gives_way_too") {
        return;
    }
    let site = clean();
    let folder = lowtide_kernel::cgroup::v2_root().expect("it managed").join(format!("survive-{}", std::process::id()));
    fs::create_dir(&folder).expect("a group");
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo $$ > \"$0\"; exec \"$@\""]).arg(folder.join("cgroup.procs"));
    let (server, mut curl) = bulk(&site, shell);
    wait("the kernel's own window", || server.stats().peer_window > 2 * MANAGED);
    let words = ["run", "--quiet", "--name", "open", "--cgroup", &folder.display().to_string()];
    let mut run = lowtide(&words).spawn().expect("it starts");
    managed("open"); // On a busy machine curl reads slowly, and the kernel's own window is small for a time too.
    wait("the lower window", || server.stats().peer_window < MANAGED);
    signal(run.id(), "-INT");
    assert_eq!(run.wait().expect("it ends").code(), Some(0));
    wait("the kernel's own window again", || server.stats().peer_window > 2 * MANAGED);
    curl.kill().expect("it lives");
    curl.wait().expect("it ends");
    fs::remove_dir(&folder).expect("the group is left as it was, and empty");
}
