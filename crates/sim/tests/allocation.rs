//! The simulator allocates nothing per packet once a run is under way: twice the time costs no more than the odd buffer that
//! grows.

use lowtide_scenario::Scenario;

/// What a run allocates and how many packets reach the bottleneck.
fn cost(queue: &str, flow: &str, duration_s: u32) -> (u64, u64) {
    let text = format!(
        "duration_s = {duration_s}\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 50.0\nrtt_ms = 40.0\nqueue = {queue}\n[[flows]]\nname = \"bulk\"\n{flow}\n"
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let mut arrivals = 0;
    let counted = allocation_counter::measure(|| {
        arrivals = lowtide_sim::run(&scenario, 1, false).unwrap_or_else(|e| panic!("{e}")).summary.bottlenecks[0].arrivals;
    });
    (counted.count_total, arrivals)
}

#[test]
fn a_packet_of_a_run_under_way_allocates_nothing() {
    let long = "{ kind = \"drop_tail\", ms = 100.0 }";
    for (queue, flow) in [
        (long, "cc = \"cubic\"\ncount = 2"),
        (long, "cc = \"ledbat\"\ncount = 2"),
        (long, "cc = \"ledbat_pp\"\ncount = 2"),
        (long, "cc = \"bbr1\"\ncount = 2"),
        (long, "cc = \"bbr2\"\ncount = 2"),
        (long, "cc = \"cubic\"\nkind = \"rledbat\"\nreceiver = { algorithm = \"ledbat_pp-enhanced-burst\" }"),
        (long, "cc = \"libutp\"\nkind = \"utp\"\ncount = 2"),
        ("{ kind = \"codel\" }", "cc = \"cubic\"\ncount = 2"),
        ("{ kind = \"fq_codel\" }", "cc = \"cubic\"\ncount = 2"),
        ("{ kind = \"pie\" }", "cc = \"cubic\"\ncount = 2"),
        ("{ kind = \"fq_pie\" }", "cc = \"cubic\"\ncount = 2"),
    ] {
        let (short, long) = (cost(queue, flow, 20), cost(queue, flow, 40));
        let (allocations, packets) = (long.0.saturating_sub(short.0), long.1 - short.1);
        assert!(packets > 50_000, "{queue} {flow}: {packets} packets say little");
        // What is written down by the clock, whatever the rate, may: some fifty times a second.
        assert!(allocations < 20 * 60 + packets / 1000, "{queue} {flow}: {allocations} allocations for {packets} packets");
    }
}
