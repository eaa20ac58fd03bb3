//! The only schema: a scenario is a TOML file, a result is a folder. The simulator and the laboratory read the one and
//! write the other; reports read results only.

pub mod events;
pub mod folder;
mod locate;
pub mod result;
pub mod scenario;
pub mod series;

pub use events::{EventWriter, PacketEvent};
pub use folder::{Part, ResultDir};
pub use result::{Bottleneck, FlowResult, Summary};
pub use scenario::{Flow, Scenario, ScenarioError, Topology, Traffic};
pub use series::{FlowPoint, QueuePoint, Series};
