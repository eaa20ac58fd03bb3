//! What the running round has seen: the least RTT, losses, marks, the longest silence. Knows no law.

/// What the running round has seen.
#[derive(Clone, Copy, Debug)]
pub struct RoundSoFar {
    pub since: u64,
    pub delivered: u64,
    /// Bytes that had arrived when it began.
    pub total: u64,
    pub least_rtt: u64,
    pub lost: u64,
    pub marked: bool,
    pub longest_gap: u64,
}

impl RoundSoFar {
    pub fn new(since: u64, delivered: u64, total: u64) -> RoundSoFar {
        RoundSoFar { since, delivered, total, least_rtt: u64::MAX, lost: 0, marked: false, longest_gap: 0 }
    }
}
