//! The link with real stacks on it. Needs root; without it each test says that it was skipped.
#![expect(clippy::print_stderr, reason = "what was measured is shown where a test fails")]

mod common;
#[path = "common/line.rs"]
mod line;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::Duration;

use common::root;
use line::path;
use lowtide_lab::clock;
use lowtide_lab::probe::{CALL, Call, Reflector};
use lowtide_lab::server::Server;
use lowtide_lab::site::{SERVER, Site};
use lowtide_units::Span;

#[test]
fn one_cubic_download_fills_the_line_and_a_call_beside_it_sees_the_queue() {
    if !root() {
        return;
    }
    let begin = clock::now() + Span::from_millis(2500);
    let end = begin + Span::from_millis(3000);
    let site = Site::new(1500, path(10.0, 100.0), path(10.0, 100.0), begin..end).unwrap();
    let server = Server::new(&site.server, SERVER, 5000, "cubic").unwrap();
    let _reflector = Reflector::new(&site.server, SERVER, 5001).unwrap();
    let call = Call::new(&site.client, (SERVER, 5001).into(), CALL, begin, end, Arc::new(AtomicBool::new(false))).unwrap();
    let mut curl = site
        .client
        .place(Command::new("curl").args(["-s", "-o", "/dev/null", &server.url(1 << 40)]).stdout(Stdio::null()))
        .spawn()
        .unwrap();
    sleep(Duration::from_nanos(end.since(clock::now()).nanos()));
    let stats = server.stats();
    curl.kill().unwrap();
    curl.wait().unwrap();
    let echoes = call.join().unwrap();
    let record = site.stop().unwrap();
    let down = record.forward;
    let share = down.carried as f64 * 8.0 / 20e6 / 3.0;
    let rtt: Vec<f64> = echoes.echoes.iter().map(|e| e.rtt().millis_f64()).collect();
    eprintln!(
        "share {share:.4} late {:?} queue p50 {} max {} {stats:?} rtt {:?}",
        record.lateness,
        down.queue_delay.quantile(0.5),
        down.queue_delay.max(),
        &rtt[..5]
    );
    assert!(stats.acked > 4_000_000 && stats.open == 1, "{stats:?}");
    assert!(down.queue_max <= 250_000);
    assert!(rtt.iter().all(|ms| *ms >= 20.0));
}
