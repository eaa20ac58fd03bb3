//! What a group is told at birth. Knows no kernel.

use crate::choice::Choice;

/// What a group is told at birth.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The control, and the queueing delay that it aims at.
    pub choice: Choice,
    /// Mark outgoing packets DSCP LE, 000001 (RFC 8622).
    pub dscp_le: bool,
    /// Processes that have connections open will join the group.
    pub joins: bool,
    /// A name for people.
    pub name: String,
}
