//! The lines, who is on them, and what has to hold there.

/// What is measured of a run.
#[derive(Clone, Copy)]
pub enum What {
    /// Our part of what payload can have of the line.
    Ours,
    /// Our part of what datagrams at this many Mbit/s leave.
    OfTheRest(f64),
    /// Everybody's.
    Used,
    /// The 99th percentile of the queue's delay, ms.
    P99,
    /// Jain's index among ours.
    Jain,
    /// The part of its goodput that the other loses against the same run without us.
    Loses,
    /// The other's mean completion time, s.
    Completion,
    /// The same without us.
    CompletionAlone,
}

impl What {
    pub fn name(self) -> &'static str {
        match self {
            What::Ours => "ours",
            What::OfTheRest(_) => "ours of the rest",
            What::Used => "line",
            What::P99 => "p99 ms",
            What::Jain => "Jain",
            What::Loses => "the other loses",
            What::Completion => "completes in s",
            What::CompletionAlone => "alone in s",
        }
    }
}

/// A measure and its bound.
#[derive(Clone, Copy)]
pub struct Measure {
    pub what: What,
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
}

fn least(what: What, bound: f64) -> Measure {
    Measure { what, at_least: Some(bound), at_most: None }
}

fn most(what: What, bound: f64) -> Measure {
    Measure { what, at_least: None, at_most: Some(bound) }
}

fn see(what: What) -> Measure {
    Measure { what, at_least: None, at_most: None }
}

/// A line, without its flows.
#[derive(Clone)]
struct Line {
    rate_mbps: f64,
    rtt_ms: u32,
    queue: String,
    /// Further keys of the topology.
    more: String,
}

fn line(rate_mbps: f64, rtt_ms: u32) -> Line {
    Line { rate_mbps, rtt_ms, queue: fifo(250), more: String::new() }
}

fn fifo(ms: u32) -> String {
    format!("kind = \"drop_tail\", ms = {ms}")
}

impl Line {
    fn queue(self, queue: impl Into<String>) -> Line {
        Line { queue: queue.into(), ..self }
    }

    fn more(self, more: &str) -> Line {
        Line { more: more.to_owned(), ..self }
    }
}

/// One row. Starts are drawn within half a second by the seed.
pub struct Row {
    pub group: &'static str,
    pub name: String,
    line: Line,
    duration_s: u32,
    warmup_s: u32,
    /// Names and further keys; those whose names begin with `ours` are of the control that is measured.
    flows: Vec<(String, String)>,
    pub measures: Vec<Measure>,
}

impl Row {
    fn new(group: &'static str, name: String, line: Line) -> Row {
        Row { group, name, line, duration_s: 60, warmup_s: 20, flows: Vec::new(), measures: Vec::new() }
    }

    fn time(self, duration_s: u32, warmup_s: u32) -> Row {
        Row { duration_s, warmup_s, ..self }
    }

    fn ours(self, start_s: f64, more: &str) -> Row {
        let name = format!("ours{}", self.flows.len());
        self.flow(name, start_s, more)
    }

    fn other(self, start_s: f64, keys: &str) -> Row {
        self.flow("other".to_owned(), start_s, keys)
    }

    fn flow(mut self, name: String, start_s: f64, keys: &str) -> Row {
        self.flows.push((name, format!("start_s = {start_s:.1}\nstart_jitter_s = 0.5\n{keys}")));
        self
    }

    fn must(mut self, measures: &[Measure]) -> Row {
        self.measures.extend(measures);
        self
    }

    /// The scenario's TOML; `ours` is what a flow of ours is.
    pub fn text(&self, ours: &str, with_ours: bool) -> String {
        let Line { rate_mbps, rtt_ms, queue, more } = &self.line;
        let mut text = format!(
            "duration_s = {}.0\nwarmup_s = {}.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = {rate_mbps:.1}\nrtt_ms = {rtt_ms}.0\n\
             queue = {{ {queue} }}\n{more}\n",
            self.duration_s, self.warmup_s
        );
        for (name, keys) in &self.flows {
            let is_ours = name.starts_with("ours");
            if with_ours || !is_ours {
                text += &format!("[[flows]]\nname = \"{name}\"\n{keys}\n{}\n", if is_ours { ours } else { "" });
            }
        }
        text
    }
}

/// Every row.
pub fn all() -> Vec<Row> {
    let mut rows = alone();
    for rival in ["cubic", "bbr1", "bbr2"] {
        rows.extend(beside(rival));
        rows.extend(managed(rival));
    }
    rows.extend(several());
    rows.extend(elsewhere());
    rows.extend(short_flows());
    rows.extend(calls());
    rows
}

fn alone() -> Vec<Row> {
    let row = |rate: f64, rtt, ms| {
        Row::new("alone", format!("{rate} Mbit/s, RTT {rtt} ms"), line(rate, rtt))
            .ours(0.0, "")
            .must(&[least(What::Ours, 0.97), most(What::P99, ms)])
    };
    let mut rows: Vec<Row> = [10, 20, 60, 100, 200, 300, 400].map(|rtt| row(20.0, rtt, 15.0)).into();
    // Five packets' times at 1 Mbit/s.
    rows.extend(
        [(1.0, 20, 61.0), (1.0, 100, 61.0), (5.0, 20, 15.0), (5.0, 100, 15.0), (100.0, 20, 15.0), (100.0, 100, 15.0)]
            .map(|(m, rtt, ms)| row(m, rtt, ms)),
    );
    rows.extend([20, 60].map(|rtt| row(500.0, rtt, 15.0).time(30, 10)));
    rows
}

/// Who comes first, with the starts of ours and of the other.
const ORDERS: [(&str, f64, f64); 2] = [("we first", 0.0, 5.0), ("they first", 11.0, 0.0)];

fn beside(rival: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for ms in [30, 60, 200, 500] {
        for rtt in [10, 20, 60, 100, 200, 300] {
            for (order, ours, theirs) in ORDERS {
                let share = if rival == "cubic" && ms > 30 { 0.02 } else { 0.03 };
                rows.push(
                    Row::new(
                        "beside others in drop-tail",
                        format!("{rival}, buffer {ms} ms, RTT {rtt} ms, {order}"),
                        line(20.0, rtt).queue(fifo(ms)),
                    )
                    .ours(ours, "")
                    .other(theirs, &format!("cc = \"{rival}\""))
                    .must(&[most(What::Ours, share), most(What::Loses, 0.03)]),
                );
            }
        }
    }
    rows
}

fn managed(rival: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for kind in ["codel", "pie", "fq_codel", "fq_pie"] {
        let (bound, hash) = if kind.starts_with("fq") { (0.05, ", perfect_hash = true") } else { (0.03, "") };
        for (rtt, ecn) in [(20, false), (60, false), (20, true), (60, true)] {
            for (order, ours, theirs) in ORDERS {
                let tcp = if ecn { "tcp = { ecn = true }" } else { "" };
                let name = format!("{rival}, {kind}{}, RTT {rtt} ms, {order}", if ecn { " with ECN" } else { "" });
                rows.push(
                    Row::new("beside others behind AQM", name, line(20.0, rtt).queue(format!("kind = \"{kind}\"{hash}")))
                        .ours(ours, tcp)
                        .other(theirs, &format!("cc = \"{rival}\"\n{tcp}"))
                        .must(&[most(What::Ours, bound), most(What::Loses, 0.03)]),
                );
            }
        }
    }
    rows
}

fn several() -> Vec<Row> {
    let both = [least(What::Jain, 0.95), least(What::Used, 0.95)];
    let mut rows = Vec::new();
    for rtt in [20, 60, 100, 200] {
        for apart in [1.0, 40.0] {
            let row = Row::new("several of ours", format!("two, RTT {rtt} ms, {apart} s apart"), line(20.0, rtt).queue(fifo(200)));
            rows.push(row.time(160, 80).ours(0.0, "").ours(apart, "").must(&both));
        }
    }
    let three = Row::new("several of ours", "three, RTT 60, 20, 120 ms, 10 s apart".to_owned(), line(20.0, 60).queue(fifo(200)));
    let three = three.time(160, 80).ours(0.0, "").ours(10.0, "rtt_ms = 20.0").ours(20.0, "rtt_ms = 120.0");
    rows.push(three.must(&[least(What::Jain, 0.8), least(What::Used, 0.95)]));
    for rtt in [20, 60, 100] {
        let five = Row::new("several of ours", format!("five, RTT {rtt} ms, 5 s apart"), line(20.0, rtt).queue(fifo(200)));
        rows.push([0.0, 5.0, 10.0, 15.0, 20.0].iter().fold(five.time(160, 80), |row, &start| row.ours(start, "")).must(&both));
    }
    rows
}

fn elsewhere() -> Vec<Row> {
    let steps = "rate_trace = \"0 20\\n20 10\\nend 40\"";
    let mut rows = Vec::new();
    for (name, more, bound) in [
        ("jitter 1 ms", "impair = { jitter_ms = 1.0 }", 0.97),
        ("jitter 4 ms", "impair = { jitter_ms = 4.0 }", 0.95),
        ("1 % random loss", "impair = { loss = 0.01 }", 0.9),
        ("steps 20 and 10 Mbit/s", steps, 0.93),
        ("LTE-like", "lte", 0.85),
    ] {
        for rtt in [20, 60, 100] {
            let trace = if more == "lte" { lte_like() } else { more.to_owned() };
            let row = Row::new("elsewhere", format!("alone, {name}, RTT {rtt} ms"), line(20.0, rtt).more(&trace));
            rows.push(row.ours(0.0, "").must(&[least(What::Ours, bound), see(What::P99)]));
        }
    }
    for contenders in [0, 1, 2] {
        for rtt in [20, 60] {
            let wifi = format!("wifi = {{ contenders = {contenders} }}");
            let row =
                Row::new("elsewhere", format!("alone, Wi-Fi-like, {contenders} contenders, RTT {rtt} ms"), line(65.0, rtt).more(&wifi));
            rows.push(row.ours(0.0, "").must(&[least(What::Ours, 0.95), see(What::P99)]));
        }
    }
    for contenders in [0, 2] {
        for (order, ours, theirs) in ORDERS {
            let wifi = format!("wifi = {{ contenders = {contenders} }}");
            let name = format!("cubic, Wi-Fi-like, {contenders} contenders, RTT 20 ms, {order}");
            let row = Row::new("elsewhere", name, line(65.0, 20).more(&wifi)).ours(ours, "").other(theirs, "cc = \"cubic\"");
            rows.push(row.must(&[most(What::Ours, 0.03), most(What::Loses, 0.03)]));
        }
    }
    for rtt in [20, 60, 100] {
        let row = Row::new("elsewhere", format!("alone, cellular, RTT {rtt} ms"), line(20.0, rtt).more("cellular = { wander_pps = 200 }"));
        rows.push(row.ours(0.0, "").must(&[least(What::Ours, 0.85), see(What::P99)]));
    }
    for rtt in [20, 60] {
        for (order, ours, theirs) in ORDERS {
            let name = format!("cubic, cellular, RTT {rtt} ms, {order}");
            let row = Row::new("elsewhere", name, line(20.0, rtt).more("cellular = { wander_pps = 200 }"));
            rows.push(row.ours(ours, "").other(theirs, "cc = \"cubic\"").must(&[most(What::Ours, 0.03), most(What::Loses, 0.03)]));
        }
    }
    for kind in ["codel", "pie", "fq_codel", "fq_pie"] {
        for rtt in [20, 100] {
            let row = Row::new("elsewhere", format!("alone, {kind}, RTT {rtt} ms"), line(20.0, rtt).queue(format!("kind = \"{kind}\"")));
            rows.push(row.ours(0.0, "").must(&[least(What::Ours, 0.97)]));
        }
    }
    rows
}

/// A rate that moves by up to 15 % each 100 ms and back to its mean by 3 %, from 4 to 40 Mbit/s.
fn lte_like() -> String {
    let (mut x, mut rate, mut trace) = (0x9E37_79B9_7F4A_7C15_u64, 20.0_f64, String::from("rate_trace = \"\"\"\n"));
    for step in 0..600 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        let drawn = (x >> 11) as f64 / (1_u64 << 53) as f64;
        rate = (rate * (0.85 + 0.3 * drawn) * 0.97 + 0.03 * 20.0).clamp(4.0, 40.0);
        trace += &format!("{:.1} {rate:.2}\n", f64::from(step) / 10.0);
    }
    trace + "end 60.0\n\"\"\""
}

fn short_flows() -> Vec<Row> {
    let flow = "cc = \"cubic\"\ntraffic = { kind = \"finite\", bytes = 262144 }";
    let mut rows = Vec::new();
    for (rtt, bound) in [(20, 0.20), (100, 0.65)] {
        let row = Row::new("short flows", format!("one of 262 KB, RTT {rtt} ms"), line(20.0, rtt).queue(fifo(200))).time(30, 9);
        rows.push(row.ours(0.0, "").other(10.0, flow).must(&[most(What::Completion, bound), see(What::CompletionAlone)]));
    }
    for rate in [5.0, 10.0, 20.0, 50.0] {
        for (rtt, bound) in [(10, 0.88), (40, 0.88), (80, 0.80), (160, 0.80)] {
            let row =
                Row::new("short flows", format!("one of 262 KB every 3 s, {rate} Mbit/s, RTT {rtt} ms"), line(rate, rtt).queue(fifo(200)));
            let every = "cc = \"cubic\"\ntraffic = { kind = \"repeat\", bytes = 262144, every_s = 3.0 }";
            rows.push(row.ours(0.0, "").other(5.0, every).must(&[
                least(What::Used, bound),
                see(What::Completion),
                see(What::CompletionAlone),
            ]));
        }
    }
    rows
}

fn calls() -> Vec<Row> {
    let call = "kind = \"udp\"\ntraffic = { kind = \"cbr\", rate_kbps = 100.0, packet_bytes = 200 }";
    let video = "kind = \"udp\"\ntraffic = { kind = \"cbr\", rate_kbps = 5000.0, packet_bytes = 1200 }";
    [20, 60]
        .map(|rtt| {
            let row = Row::new("call", format!("a call and 5 Mbit/s of UDP, RTT {rtt} ms"), line(20.0, rtt).queue(fifo(200)));
            let row = row.ours(0.0, "").other(3.0, call).flow("video".to_owned(), 10.0, video);
            row.must(&[least(What::OfTheRest(5.1), 0.95), most(What::P99, 8.0)])
        })
        .into()
}
