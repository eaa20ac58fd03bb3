//! An upload by our own control on a line that loses packets. Needs root and BPF; says when it is skipped.

mod common;
#[path = "common/line.rs"]
mod line;

use std::fs;
use std::process::Command;

use common::{can_manage, lowtide, output};
use lowtide_lab::clock;
use lowtide_lab::server::Server;
use lowtide_lab::site::SERVER;
use lowtide_net::ImpairConfig;
use lowtide_units::Span;
use serde_json::Value;

/// The upload of the group as `lowtide status` has it.
fn upload(group: &str) -> Option<Value> {
    let groups: Vec<Value> = serde_json::from_slice(&output(&["status", "--json"]).stdout).ok()?;
    let group = groups.into_iter().find(|g| g["name"] == group)?;
    group["flows"].as_array()?.iter().find(|f| f["direction"] == "up").cloned()
}

/// The kernel takes the RTT of a retransmission by timestamps, in whole milliseconds: the line's 20 ms and the 0.6 ms of a full segment are 20 then
/// now and again, and a pair of segments has met a queue ever after.
#[test]
fn retransmissions_do_not_lower_the_base_delay() {
    let test = "retransmissions_do_not_lower_the_base_delay";
    if !can_manage(test) {
        return;
    }
    let now = clock::now();
    let lossy = ImpairConfig { loss: 0.03, ..ImpairConfig::default() };
    let site = line::site(lossy, ImpairConfig::default(), now..now + Span::from_millis(60_000));
    let server = Server::new(&site.server, SERVER, 5001, "cubic").expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    fs::File::create(&data).and_then(|file| file.set_len(1 << 30)).expect("a file");
    let name = format!("lossy-{}", std::process::id());
    let mut command = lowtide(&["run", "--quiet", "--cc", "lowtide", "--name", &name, "--", "curl", "-s", "-o", "/dev/null", "-T"]);
    let mut run = site.client.place(command.arg(&data).arg(server.url(0))).spawn().expect("it starts");
    let mut flow = Value::Null;
    line::wait("a hundred retransmissions", || {
        flow = upload(&name).unwrap_or_default();
        flow["retransmissions"].as_u64() >= Some(100)
    });
    let killed = Command::new("kill").arg(run.id().to_string()).status().expect("kill starts");
    assert!(killed.success() && run.wait().is_ok());
    assert!(flow["base_rtt_ms"].as_f64().is_some_and(|ms| (20.5..30.0).contains(&ms)), "{flow:#}");
}
