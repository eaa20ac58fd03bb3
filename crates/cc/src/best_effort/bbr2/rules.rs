//! In what BBR's versions 2 and 3 differ: constants and switches, each with its place in both sources. Knows no state.

use crate::best_effort::bbr::mode::CWND_GAIN;
use crate::best_effort::bbr::{STARTUP_GAIN, UNIT};

/// Version 2 is google/bbr `tcp_bbr2.c` (branch v2alpha), version 3 `tcp_bbr.c` (branch v3). What is not here is the same in both as
/// far as it shows without ECN, which version 3 too uses only where a route allows it and the RTT is below 5 ms (`bbr_can_use_ecn`,
/// `bbr_ecn_max_rtt_us`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::best_effort) struct Rules {
    /// STARTUP's pacing gain: 2/ln 2 in version 2 (`bbr_high_gain`), 4 ln 2 in version 3 (`bbr_startup_pacing_gain`).
    pub(super) startup_gain: u64,
    /// STARTUP's and DRAIN's window: the same in version 2, twice the pipe in version 3 (`bbr_startup_cwnd_gain`).
    pub(super) startup_cwnd_gain: u64,
    /// DOWN's pacing gain: 3/4, or 91/100 (`bbr_pacing_gain`).
    pub(super) down_gain: u64,
    /// UP's window: as the other phases', or a quarter of the pipe more (`bbr_bw_probe_cwnd_gain`).
    pub(super) up_cwnd_gain: u64,
    /// Losses in a round of STARTUP that end it: 8, or 6 (`bbr_full_loss_cnt`).
    pub(super) startup_losses: u32,
    /// STARTUP that ends by loss leaves no upper bound below what its last round delivered (`bbr_handle_queue_too_high_in_startup`).
    pub(super) startup_keeps_delivered: bool,
    /// A plateau is looked for in each sample, while probing too, where it ends UP (`bbr_check_full_bw_reached`); version 2 looks once a
    /// round at the filtered rate, in STARTUP alone.
    pub(super) plateau_by_sample: bool,
    /// UP does not start counting anew when the upper bound was not the limit (`bbr_probe_inflight_hi_upward`).
    pub(super) up_keeps_count: bool,
    /// An RTT equal to the minimum does not put PROBE_RTT off (`bbr_update_min_rtt`).
    pub(super) strict_minimum: bool,
}

impl Rules {
    /// Version 2.
    pub(in crate::best_effort) const V2: Rules = Rules {
        startup_gain: STARTUP_GAIN,
        startup_cwnd_gain: STARTUP_GAIN,
        down_gain: UNIT * 3 / 4,
        up_cwnd_gain: CWND_GAIN,
        startup_losses: 8,
        startup_keeps_delivered: false,
        plateau_by_sample: false,
        up_keeps_count: false,
        strict_minimum: false,
    };

    /// Version 3.
    pub(in crate::best_effort) const V3: Rules = Rules {
        startup_gain: UNIT * 277 / 100 + 1,
        startup_cwnd_gain: UNIT * 2,
        down_gain: UNIT * 91 / 100,
        up_cwnd_gain: CWND_GAIN + UNIT / 4,
        startup_losses: 6,
        startup_keeps_delivered: true,
        plateau_by_sample: true,
        up_keeps_count: true,
        strict_minimum: true,
    };
}
