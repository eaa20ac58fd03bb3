//! BBR version 3 (google/bbr `tcp_bbr.c`, branch v3) without ECN: [version 2](super::bbr2)'s machine by version 3's rules. Not here: the
//! bound computed for the very segment whose loss was too much (`bbr_inflight_hi_from_lost_skb`; ours is the flight of the sample that
//! tells of it), the tail loss probe that repaired a loss (`bbr_run_loss_probe_recovery`), and the fast path, which changes no decision.

use crate::best_effort::bbr2::{self, Rules};
use crate::controller::{Controller, Start};
use crate::params::{ParamError, Params};

/// The registry's constructor.
///
/// # Errors
/// Unknown or impossible parameters.
pub fn build(params: &Params, start: &Start) -> Result<Box<dyn Controller>, ParamError> {
    bbr2::build_as(Rules::V3, "bbr3", params, start)
}
