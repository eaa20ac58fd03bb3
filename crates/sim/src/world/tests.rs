//! What the world keeps of packets.

use lowtide_scenario::Scenario;
use lowtide_units::{Span, Time};

use super::{Observer, World};
use crate::flow::Flow;
use crate::stage::Stage;
use crate::topology::lay_out;
use crate::traffic::plan;

struct Nobody;

impl Observer for Nobody {
    fn sample(&mut self, _now: Time, _flows: &[Flow], _stages: &[Stage]) {}
}

/// Losses, duplicates, drops of the queue, delayed and overtaking packets, rates that change, uTP: whatever becomes of packets, those
/// that are kept are those that some queue or pipe still holds.
#[test]
fn packets_that_arrived_or_were_dropped_are_not_kept() {
    for queue in ["{ kind = \"drop_tail\", ms = 20 }", "{ kind = \"fq_codel\" }", "{ kind = \"pie\" }"] {
        for line in [
            "impair = { loss = 0.02, duplicate = 0.05, jitter_ms = 3.0, reorder = 0.05, reorder_ms = 5.0 }",
            "rate_trace = \"0 10\\n1 0\\n2 4\\nend 3\"",
            "wifi = { contenders = 2 }",
            "cellular = {}",
        ] {
            let text = format!(
                "duration_s = 10.0\n[topology]\nkind = \"dumbbell\"\nrate_mbps = 10.0\nrtt_ms = 40.0\nqueue = {queue}\n{line}\n\
                 [[flows]]\nname = \"tcp\"\ncc = \"cubic\"\n[[flows]]\nname = \"utp\"\nkind = \"utp\"\ncc = \"libutp\"\n\
                 [[flows]]\nname = \"call\"\nkind = \"udp\"\ntraffic = {{ kind = \"cbr\", rate_kbps = 100, packet_bytes = 200 }}\n\
                 [[flows]]\nname = \"page\"\ncc = \"reno\"\ntraffic = {{ kind = \"repeat\", bytes = 50_000, every_s = 1.0 }}\n"
            );
            let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}"));
            let layout = lay_out(&scenario, 1).unwrap_or_else(|e| panic!("{e}"));
            let flows = plan(&scenario, &layout.paths, 1).unwrap_or_else(|e| panic!("{e}")).flows;
            let mut world = World::new(layout.network, flows);
            world.run(Time::from_millis(10_000), Time::ZERO, Span::ZERO, &mut Nobody).expect("sound parameters");
            let held: usize = world.stages.iter().map(Stage::held).sum();
            assert_eq!(world.slab.len(), held, "{queue} {line}");
            let drops: u64 = world.flows.iter().map(|flow| flow.stats.drops).sum();
            assert!(held > 0 && drops > 0, "{queue} {line}: {held} held, {drops} dropped");
        }
    }
}
