//! A program that reads slowly does not pump its window: once it reads as fast as it can, no queue stands beyond twice the target. On the
//! laboratory's line, with the kernel's own buffers. Needs root and BPF; says when it is skipped.

mod common;
#[path = "common/line.rs"]
mod line;

use common::{can_manage, lowtide};
use lowtide_lab::canary::Canary;
use lowtide_lab::clock;
use lowtide_lab::server::Server;
use lowtide_lab::site::SERVER;
use lowtide_net::ImpairConfig;
use lowtide_units::Span;

/// Reads for ARGV[0] seconds as the others say, then for ARGV[1] as fast as it can. A chunk of ARGV[2] bytes, then a pause of ARGV[3] seconds; with
/// no chunk it reads as fast as it can for as long as it then pauses.
const READER: &str = r#"
use IO::Socket::INET; use Time::HiRes qw(time sleep);
my ($slow, $fast, $chunk, $pause) = @ARGV;
my $peer = IO::Socket::INET->new(PeerAddr => 'ADDRESS:5001') or die; my $bytes;
print $peer "GET /1000000000000 HTTP/1.1\r\n\r\n"; $peer->flush;
my $end = time + $slow;
while (time < $end) {
    if ($chunk) { sysread($peer, $bytes, $chunk) or die }
    else { my $stop = time + $pause; while (time < $stop) { sysread($peer, $bytes, 65536) or die } }
    sleep $pause;
}
$end = time + $fast;
while (time < $end) { sysread($peer, $bytes, 65536) or die }
"#;

/// Milliseconds: the reader is slow; it is fast before the queue is looked at; it is looked at.
const SLOW: u64 = 6000;
const AFTER: u64 = 100;
const LOOK: u64 = 4000;
/// The base RTT is 20 ms, and so is the target.
const TARGET: Span = Span::from_millis(20);

fn slow_reader(test: &str, chunk: &str, pause: &str) {
    if !can_manage(test) {
        return;
    }
    // `run` and perl take about half a second to start; a queue that stands is there for seconds.
    let begin = clock::now() + Span::from_millis(500 + SLOW + AFTER);
    let measure = begin..begin + Span::from_millis(LOOK);
    let site = line::site(ImpairConfig::default(), ImpairConfig::default(), measure.clone());
    let server = Server::new(&site.server, SERVER, 5001, "cubic").expect("a server");
    let canary = Canary::new(measure).expect("a thread");
    let (slow, fast) = ((SLOW / 1000).to_string(), ((AFTER + LOOK) / 1000 + 1).to_string());
    let script = READER.replace("ADDRESS", &SERVER.to_string());
    let mut command = lowtide(&["run", "--quiet", "--", "perl", "-e", &script, &slow, &fast, chunk, pause]);
    let mut run = site.client.place(&mut command).spawn().expect("it starts");
    line::wait("the fast half", || clock::now() > begin);
    let slowly = server.stats().acked;
    assert!(run.wait().expect("it ends").success());
    let carried = server.stats().acked - slowly;
    let late = canary.stop().expect("it counts").quantile(0.99);
    let queue = site.stop().expect("a record").forward.queue_delay;
    // A machine that is busy delays acknowledgements, and so do programs.
    let bound = TARGET + TARGET + late + late;
    assert!(
        queue.quantile(0.95) <= bound,
        "{chunk} bytes each {pause} s: queue {} ms, at most {} ms",
        queue.quantile(0.95).millis_f64(),
        bound.millis_f64()
    );
    assert!(carried > 2_000_000, "after it the line is used: {carried} bytes");
}

#[test]
fn a_reader_of_250_kilobytes_a_second_leaves_no_window_behind() {
    slow_reader("a_reader_of_250_kilobytes_a_second_leaves_no_window_behind", "5000", "0.02");
}

#[test]
fn a_reader_of_a_megabyte_a_second_leaves_no_window_behind() {
    slow_reader("a_reader_of_a_megabyte_a_second_leaves_no_window_behind", "20000", "0.02");
}

#[test]
fn a_reader_that_stops_and_goes_leaves_no_window_behind() {
    slow_reader("a_reader_that_stops_and_goes_leaves_no_window_behind", "0", "0.4");
}
