//! Which stages a packet crosses, by its flow and direction. Knows no stage.

use crate::flow::FlowSpec;
use crate::packet::Packet;

/// The stages of all flows' paths one after the other, each path ended by [`END`]: a packet under way looks its next stage up without
/// touching its flow.
pub(crate) struct Paths {
    stages: Vec<u16>,
    /// Where each flow's path there begins, and then its path back.
    begins: Vec<u32>,
}

/// Ends a path. No stage has this number: `topology::Builder` numbers fewer.
const END: u16 = u16::MAX;

impl Paths {
    /// The paths of `flows`.
    pub fn of(flows: &[FlowSpec]) -> Paths {
        let mut paths = Paths { stages: Vec::new(), begins: Vec::with_capacity(2 * flows.len()) };
        for path in flows.iter().flat_map(|flow| [&flow.forward, &flow.reverse]) {
            paths.begins.push(paths.stages.len() as u32);
            paths.stages.extend(path);
            paths.stages.push(END);
        }
        paths
    }

    /// Where the path of `packet` begins.
    #[inline]
    pub fn begin(&self, packet: &Packet) -> u32 {
        self.begins[2 * packet.flow as usize + usize::from(packet.kind.goes_back())]
    }

    /// The stage at `at`; none: the path's end.
    #[inline]
    pub fn stage(&self, at: u32) -> Option<u16> {
        let stage = self.stages[at as usize];
        (stage != END).then_some(stage)
    }
}
