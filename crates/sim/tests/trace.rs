//! Captures, qlog and events of whole runs, read by tshark and as what they claim to be.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use lowtide_scenario::{Scenario, Summary, events};
use lowtide_sim::run_watched;
use lowtide_sim::trace::Request;

fn scenario(flows: &str, more: &str) -> Scenario {
    let text = format!(
        "duration_s = 6.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 10.0\nrtt_ms = 40.0\n\
         queue = {{ kind = \"drop_tail\", ms = 60 }}\n{more}\n{flows}"
    );
    Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}"))
}

fn watched(scenario: &Scenario, folder: &Path) -> Summary {
    let request = Request { folder: folder.to_owned(), pcap: Some(1 << 18), qlog: true, events: true };
    run_watched(scenario, 1, None, &request, &|_| ()).unwrap_or_else(|e| panic!("{e}")).summary
}

/// What tshark makes of a capture, all checksums verified: how often it said what. None without tshark.
fn tshark(capture: &Path) -> Option<BTreeMap<String, u64>> {
    let checks = ["ip.check_checksum:TRUE", "tcp.check_checksum:TRUE", "udp.check_checksum:TRUE"];
    let mut command = Command::new("tshark");
    command.arg("-r").arg(capture).args(["-n", "-T", "fields", "-E", "aggregator=;", "-e", "_ws.expert.message"]);
    for check in checks {
        command.args(["-o", check]);
    }
    let Ok(output) = command.output() else {
        lowtide_testing::skip("what Wireshark says", "no tshark here (make setup installs it)");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut said = BTreeMap::new();
    let text = String::from_utf8_lossy(&output.stdout);
    for word in text.lines().flat_map(|line| line.split(';')).filter(|word| !word.is_empty()) {
        // "Duplicate ACK (#3)" is a kind of remark, not a remark.
        *said.entry(word.split(" (#").next().unwrap_or(word).to_owned()).or_default() += 1;
    }
    Some(said)
}

const BULK: &str = "[[flows]]\nname = \"bulk\"\ncc = \"cubic\"\n";

#[test]
fn wireshark_has_nothing_to_say_about_a_clean_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let flows = format!(
        "{BULK}tcp = {{ rcvbuf_bytes = 60_000 }}\n\
         [[flows]]\nname = \"up\"\ncc = \"newreno\"\ndirection = \"reverse\"\ntraffic = {{ kind = \"finite\", bytes = 100_001 }}\n\
         [[flows]]\nname = \"call\"\nkind = \"udp\"\ntraffic = {{ kind = \"cbr\", rate_kbps = 64, packet_bytes = 160 }}\n\
         [[flows]]\nname = \"torrent\"\nkind = \"utp\"\ncc = \"libutp\"\ntraffic = {{ kind = \"finite\", bytes = 30_000 }}\n"
    );
    let summary = watched(&scenario(&flows, ""), folder.path());
    assert_eq!(summary.flows.iter().map(|f| f.retransmits).sum::<u64>(), 0);
    for file in ["server.pcap", "client.pcap"] {
        let Some(said) = tshark(&folder.path().join(file)) else { return };
        // How a connection opens and ends is a remark, not a complaint.
        let expected = ["Connection establish", "Connection finish", "This frame initiates the connection closing"];
        assert!(said.keys().all(|word| expected.iter().any(|e| word.starts_with(e))), "{file}: {said:#?}");
        assert_eq!(said.iter().filter(|(word, _)| word.starts_with("Connection establish")).map(|(_, n)| n).sum::<u64>(), 4);
    }
}

#[test]
fn wireshark_sees_the_losses_that_happened_and_no_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let summary = watched(&scenario(BULK, "impair = { loss = 0.04 }"), folder.path());
    let flow = &summary.flows[0];
    // The run may end before its last loss is repaired.
    assert!(flow.losses > 20 && flow.retransmits + 1 >= flow.losses, "{summary:#?}");
    let Some(said) = tshark(&folder.path().join("server.pcap")) else { return };
    let count = |said: &BTreeMap<String, u64>, part: &str| said.iter().filter(|(word, _)| word.contains(part)).map(|(_, n)| n).sum::<u64>();
    for complaint in ["hecksum", "not captured", "unseen", "alformed"] {
        assert_eq!(count(&said, complaint), 0, "{said:#?}");
    }
    // Where segments are sent, tshark calls one below the highest a retransmission (of which some are fast), or out of order if it
    // comes soon after.
    let again = count(&said, "(suspected) retransmission") + count(&said, "out-of-order");
    assert_eq!(again, flow.retransmits, "{said:#?}");
    let Some(said) = tshark(&folder.path().join("client.pcap")) else { return };
    let gaps = count(&said, "Previous segment");
    assert!(gaps > 0 && gaps <= flow.losses, "{said:#?}");
}

#[test]
fn events_and_qlog_tell_the_same_as_the_summary() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let page = "traffic = { kind = \"repeat\", bytes = 50_000, every_s = 2.0 }";
    let flows = format!("{BULK}[[flows]]\nname = \"page\"\ncc = \"bbr1\"\n{page}\n");
    let network = "reverse_rate_mbps = 10.0\nimpair = { loss = 0.005, duplicate = 0.01 }";
    let summary = watched(&scenario(&flows, network), folder.path());
    let counts = count_events(folder.path());
    let count = |key: &str| counts.get(key).copied().unwrap_or(0);
    let drops: u64 = summary.bottlenecks.iter().map(|b| b.drops).sum();
    assert_eq!(count("drop-overflow") + count("drop-loss"), drops, "{counts:#?}");
    let resent: u64 = summary.flows.iter().map(|f| f.retransmits).sum();
    assert_eq!(count("send bulk resent") + count("send page resent"), resent);

    let log = fs::read_to_string(folder.path().join("qlog/bulk.sqlog")).expect("a log");
    let records: Vec<serde_json::Value> = log.split('\u{1e}').skip(1).map(|r| serde_json::from_str(r).expect("JSON")).collect();
    assert_eq!((&records[0]["qlog_version"], &records[0]["qlog_format"]), (&"0.3".into(), &"JSON-SEQ".into()));
    check_schema(&records);
    let named = |name: &'static str| records.iter().filter(move |r| r["name"] == name);
    assert_eq!(named("transport:packet_sent").count() as u64, count("send bulk data") + count("send bulk resent"));
    assert_eq!(named("transport:packet_received").count() as u64, count("deliver bulk ack"));
    assert!(named("recovery:packet_lost").count() as u64 >= summary.flows[0].losses / 2);
    let last = |key: &'static str| named("recovery:metrics_updated").filter_map(move |r| r["data"][key].as_f64()).next_back();
    assert!(last("congestion_window").is_some_and(|w| w > 2896.0) && last("bytes_in_flight").is_some() && last("ssthresh").is_some());
    assert!(last("smoothed_rtt").is_some_and(|ms| (40.0..120.0).contains(&ms)), "{:?}", last("smoothed_rtt"));
    let numbers: Vec<u64> = named("transport:packet_sent").filter_map(|r| r["data"]["header"]["packet_number"].as_u64()).collect();
    assert!(numbers.windows(2).all(|w| w[1] == w[0] + 1), "a number is a transmission");
    assert!(folder.path().join("qlog/page-3.sqlog").exists() && !folder.path().join("qlog/page-4.sqlog").exists());
}

/// The CDDL of draft-ietf-quic-qlog-main-schema-02 and -quic-events-01, of what is used of them: CDDL tells 0 from 0.0.
fn check_schema(records: &[serde_json::Value]) {
    let trace = &records[0]["trace"];
    let common = &trace["common_fields"];
    assert!(common["reference_time"].is_f64() && common["time_format"] == "relative", "{trace}");
    assert!(common["protocol_type"].as_array().is_some_and(|all| all.iter().all(serde_json::Value::is_string)), "{trace}");
    assert!(["client", "server"].iter().any(|end| trace["vantage_point"]["type"] == *end), "{trace}");
    let mut last = 0.0;
    for record in &records[1..] {
        let (time, data) = (record["time"].as_f64().filter(|_| record["time"].is_f64()), &record["data"]);
        assert!(time.is_some_and(|t| t >= last), "{record}");
        last = time.unwrap_or(last);
        let header = &data["header"];
        let has_header = header["packet_type"] == "1RTT" && header["packet_number"].is_u64();
        let frame = |f: &serde_json::Value| match f["frame_type"].as_str() {
            Some("stream") => ["stream_id", "offset", "length"].iter().all(|key| f[key].is_u64()),
            Some("ack") => f["acked_ranges"].as_array().is_some_and(|all| !all.is_empty() && all.iter().all(|r| r[0].is_u64())),
            _ => false,
        };
        let metric = |(key, value): (&String, &serde_json::Value)| match key.as_str() {
            "min_rtt" | "smoothed_rtt" | "latest_rtt" => value.is_f64(),
            "congestion_window" | "bytes_in_flight" | "ssthresh" | "pacing_rate" => value.is_u64(),
            _ => false,
        };
        let fits = match record["name"].as_str() {
            Some("transport:packet_sent" | "transport:packet_received") => {
                has_header && data["raw"]["length"].is_u64() && data["frames"].as_array().is_none_or(|all| all.iter().all(frame))
            }
            Some("recovery:packet_lost") => has_header,
            Some("recovery:metrics_updated") => data.as_object().is_some_and(|all| all.iter().all(metric)),
            Some("recovery:congestion_state_updated") => data["new"].is_string(),
            _ => false,
        };
        assert!(fits, "{record}");
    }
}

/// How often each event came, and by flow and packet; checks on the way that the queue's length is what came less what went.
fn count_events(folder: &Path) -> BTreeMap<String, u64> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut waiting: BTreeMap<String, u64> = BTreeMap::new();
    events::read(folder, |_, [event, link, flow, packet], [_, _, bytes, queue_bytes, queue_packets]| {
        *counts.entry(event.to_owned()).or_default() += 1;
        *counts.entry(format!("{event} {flow} {packet}")).or_default() += 1;
        let packets = waiting.entry(link.to_owned()).or_default();
        match event {
            "enqueue" => *packets += 1,
            "dequeue" => *packets -= 1,
            _ => return,
        }
        assert_eq!(*packets, queue_packets, "{link}");
        assert!(event == "dequeue" || queue_bytes >= bytes, "{queue_bytes} waiting with {bytes}");
    })
    .expect("readable");
    counts
}

/// A Wi-Fi station takes several packets from its queue at once: each event tells of the queue after its own packet.
#[test]
fn events_tell_of_each_packet_of_an_aggregate() {
    for kind in ["codel", "fq_codel", "pie"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let text = format!(
            "duration_s = 6.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 20.0\nrtt_ms = 40.0\nwifi = {{}}\n\
             queue = {{ kind = \"{kind}\", ecn = true }}\n{BULK}count = 4\ntcp = {{ ecn = true }}\n"
        );
        let summary = watched(&Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}")), folder.path());
        let (counts, marks) = (count_events(folder.path()), summary.bottlenecks[0].marks);
        assert!(marks > 5 && counts["mark"] == marks, "{kind}: {} told of {marks}", counts["mark"]);
    }
}

#[test]
fn watching_changes_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let scenario = scenario(BULK, "impair = { loss = 0.01 }");
    let alone = lowtide_sim::run(&scenario, 1, false).unwrap_or_else(|e| panic!("{e}")).summary;
    assert_eq!(watched(&scenario, folder.path()), alone);
}
