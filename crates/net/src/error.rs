//! A queue that cannot be. Knows no discipline.

/// A value that a discipline cannot take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("queue `{queue}`: {reason}")]
pub struct ConfigError {
    /// The discipline, by its `kind`.
    pub queue: &'static str,
    /// What is wrong, and what is allowed.
    pub reason: &'static str,
}

/// `reason`, unless `ok`.
pub(crate) fn require(ok: bool, queue: &'static str, reason: &'static str) -> Result<(), ConfigError> {
    if ok { Ok(()) } else { Err(ConfigError { queue, reason }) }
}
