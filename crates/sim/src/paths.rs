//! Which stages a packet crosses, by its flow and direction. Knows no stage.

use crate::flow::FlowSpec;
use crate::packet::Packet;

/// The stages of all flows' paths one after the other: a packet under way looks its next one up without touching its flow.
pub(crate) struct Paths {
    stages: Vec<u16>,
    /// Where each flow's path there begins, and then its path back.
    begins: Vec<u32>,
}

impl Paths {
    /// The paths of `flows`.
    pub fn of(flows: &[FlowSpec]) -> Paths {
        let mut paths = Paths { stages: Vec::new(), begins: vec![0] };
        for path in flows.iter().flat_map(|flow| [&flow.forward, &flow.reverse]) {
            paths.stages.extend(path);
            paths.begins.push(paths.stages.len() as u32);
        }
        paths
    }

    /// The next stage of `packet`; none: its endpoint.
    pub fn stage(&self, packet: &Packet) -> Option<u16> {
        let path = 2 * packet.flow as usize + usize::from(packet.kind.goes_back());
        let at = self.begins[path] + u32::from(packet.hop);
        (at < self.begins[path + 1]).then(|| self.stages[at as usize])
    }
}
