//! Uploads by curl in the laboratory: what sends, by which control, and what is read off it. Needs root; without it each test says
//! that it was skipped.

mod common;

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use common::root;
use lowtide_lab::measure;
use lowtide_lab::netns::Namespace;
use lowtide_lab::run::{Options, run};
use lowtide_lab::tun::Tun;
use lowtide_scenario::Scenario;
use nix::sys::socket::sockopt::TcpCongestion;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, connect, getsockopt, socket};

#[test]
fn connections_to_a_port_begin_with_its_control_and_to_others_with_the_namespaces() {
    if !root() {
        return;
    }
    let (near, far) = (Ipv4Addr::new(10, 79, 0, 1), Ipv4Addr::new(10, 79, 0, 2));
    let space = Namespace::new().expect("a namespace");
    let _tun = Tun::new(&space, "tun0", &[near], 24, 1500).expect("a device");
    let default = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").expect("every Linux has it");
    let other = if default.trim() == "reno" { "cubic" } else { "reno" };
    space.control_by_port(other, 5001, "tun0", far).expect("a route and a rule");
    let begun = |port: u16| {
        let begin = || {
            let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_NONBLOCK, None)?;
            // Nobody answers; the control comes with the route, before the SYN leaves.
            let _in_progress = connect(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::from((far, port))));
            Ok(getsockopt(&socket, TcpCongestion)?)
        };
        space.enter(begin).expect("a socket").to_string_lossy().trim_end_matches('\0').to_owned()
    };
    assert_eq!((begun(5001).as_str(), begun(5002).as_str()), (other, default.trim()));
}

const SCENARIO: &str = r#"
duration_s = 5.0
warmup_s = 1.5
[topology]
kind = "dumbbell"
rate_mbps = 20.0
reverse_rate_mbps = 5.0
rtt_ms = 20.0
queue = { kind = "drop_tail", ms = 200 }
[[flows]]
name = "up"
cc = "cubic"
direction = "reverse"
[[flows]]
name = "page"
cc = "cubic"
direction = "reverse"
start_s = 2.0
traffic = { kind = "finite", bytes = 20000 }
"#;

#[test]
fn curl_fills_the_way_up_and_its_share_is_of_that() {
    if !root() {
        return;
    }
    let options = Options { lowtide: PathBuf::from("/nonexistent"), stop: Arc::new(AtomicBool::new(false)) };
    let outcome = run(&Scenario::parse(SCENARIO).expect("a scenario"), &options).expect("it runs");
    let summary = &outcome.summary;
    let [up, page] = summary.flows.as_slice() else { panic!("two flows: {summary:#?}") };
    // 1448 bytes of payload of 1514; how much of the line depends on the host, not which line.
    assert!(up.share > 0.5 && up.share < 0.96 && summary.bottlenecks[1].utilisation > 0.5, "{summary:#?}");
    assert!((up.goodput_bps / 5e6 - up.share).abs() < 1e-9, "{up:?}");
    assert!(summary.bottlenecks[0].utilisation < 0.1, "acknowledgements alone: {summary:#?}");
    assert!(page.completion_s.is_some_and(|s| s > 0.05), "{page:?}");
    let seen = measure::throughput(&outcome.traces[0], &outcome.link, outcome.zero);
    assert!(seen.iter().any(|(_, bps)| *bps > 4e6) && seen.iter().all(|(_, bps)| *bps < 5.5e6), "{seen:?}");
    // 220 ms at 5 Mbit/s are 137 kB; its window is the client's, whose program is not ours.
    let window = measure::window(&outcome.traces[0], outcome.zero);
    assert!(
        window.len() > 20 && window.iter().any(|(_, bytes)| *bytes > 40e3) && window.iter().all(|(_, bytes)| *bytes < 1e6),
        "{window:?}"
    );
}

#[test]
fn an_iperf3_whose_farewell_waits_in_a_long_queue_has_its_report_all_the_same() {
    if !root() {
        return;
    }
    // Six seconds of buffer: what iperf3 tells its server at the end, and the answer, take longer than it is left.
    let scenario = SCENARIO
        .replace("reverse_rate_mbps = 5.0", "reverse_rate_mbps = 0.5")
        .replace("ms = 200", "ms = 6000")
        .replacen("direction = \"reverse\"", "direction = \"reverse\"\nlab = { program = \"iperf3\" }", 1)
        .replace("[[flows]]\nname = \"page\"", "[[flows]]\nname = \"page\"\ncount = 0");
    let options = Options { lowtide: PathBuf::from("/nonexistent"), stop: Arc::new(AtomicBool::new(false)) };
    let outcome = run(&Scenario::parse(&scenario).expect("a scenario"), &options).expect("it runs");
    let up = &outcome.summary.flows[0];
    assert!(up.share > 0.1 && outcome.traces[0].said.iperf.is_some(), "{up:?}");
}
