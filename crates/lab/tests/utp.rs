//! uTP between two namespaces of the laboratory. Needs root; without it each test says that it was skipped.

mod common;
#[path = "common/line.rs"]
mod line;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use common::root;
use line::path;
use lowtide_lab::netns::Namespace;
use lowtide_lab::run::{Options, run};
use lowtide_lab::series;
use lowtide_lab::site::{CLIENT, SERVER, Site};
use lowtide_scenario::Scenario;
use lowtide_units::Time;
use lowtide_utp_tokio::UtpSocket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A bulk flow down, a transfer up.
const SCENARIO: &str = r#"
duration_s = 6.0
warmup_s = 1.0
[topology]
kind = "dumbbell"
rate_mbps = 5.0
rtt_ms = 20.0
queue = { kind = "fq_codel", packets = 1000 }
[[flows]]
name = "down"
kind = "utp"
cc = "libutp-mod"
[[flows]]
name = "up"
kind = "utp"
cc = "libutp-mod"
direction = "reverse"
start_s = 1.0
traffic = { kind = "finite", bytes = 300000 }
"#;

#[test]
fn a_scenarios_utp_flows_run_here_too_either_way() {
    if !root() {
        return;
    }
    let scenario = Scenario::parse(SCENARIO).expect("valid");
    let options = Options { lowtide: "lowtide".into(), stop: Arc::new(AtomicBool::new(false)) };
    let outcome = run(&scenario, &options).expect("run");
    let [down, up] = &outcome.summary.flows[..] else { panic!("two flows") };
    // Bounds that a busy machine keeps: what is exact is measured by `lowtide bench utp`.
    assert!(down.goodput_bps > 2e6 && down.goodput_bps < 5e6, "{down:?}");
    let took = up.completion_s.expect("complete");
    assert!((0.4..4.9).contains(&took), "{took}");
    assert!((0.8e6..5e6).contains(&(up.goodput_bps * (scenario.duration_s - 1.0) / took)), "{up:?}");
    assert!(down.rtt_ms.min >= 20.0, "{:?}", down.rtt_ms);
    let series = series::of(&outcome);
    assert!(series.flows.iter().any(|point| point.flow == "down" && point.cwnd_bytes > 2000.0 && point.goodput_bps > 1e6));
}

/// Devices that carry 1300 bytes: the kernel says so of the first probe, and 1300 less the headers of IP, UDP and uTP are found, where
/// the search by losses ends at 1250.
#[test]
fn a_device_that_names_its_mtu_is_filled_to_the_byte() {
    if !root() {
        return;
    }
    let site = Site::new(1300, path(5.0, 300.0), path(5.0, 300.0), Time::ZERO..Time::MAX).expect("a path");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let bind = |space: &Namespace, address: Ipv4Addr| {
        let inside = || {
            let _runtime = runtime.enter();
            Ok(UtpSocket::bind((address, 0).into(), lowtide_utp_tokio::Options::default())?)
        };
        space.enter(inside).expect("bound")
    };
    let (ours, theirs) = (bind(&site.client, CLIENT), bind(&site.server, SERVER));
    let info = runtime.block_on(async {
        let mut listener = theirs.listen();
        let (stream, accepted) = tokio::join!(ours.connect(theirs.local_addr().expect("bound")), listener.accept());
        let (mut stream, mut accepted) = (stream.expect("connected"), accepted.expect("accepted"));
        let mut received = Vec::new();
        let send = async {
            stream.write_all(&[7; 200_000]).await?;
            stream.shutdown().await
        };
        let (sent, read) = tokio::join!(send, accepted.read_to_end(&mut received));
        sent.and(read.map(drop)).expect("carried");
        assert_eq!(received.len(), 200_000);
        stream.info()
    });
    assert_eq!((info.packet, info.stats.episodes), (1300 - 48, info.stats.timeouts), "no loss is told: {info:?}");
}
