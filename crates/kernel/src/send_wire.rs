//! The structs of bpf/send_intf.h as bytes to and from the kernel. A test compares the layouts. Knows no map.

use lowtide_units::Span;
use lowtide_window::{Phase, Profile};

use crate::send_stats::{SendSnapshot, SendTotals};
use crate::wire::{address, counter, known};

/// `struct send_config`: where each field begins.
mod config_at {
    pub(super) const TARGET: usize = 0;
    pub(super) const CGROUP: usize = 8;
    pub(super) const NAME: usize = 16;
    pub(super) const ALGORITHM: usize = 32;
    pub(super) const ENHANCED: usize = 36;
    pub(super) const PACES: usize = 40;
    pub(super) const SIZE: usize = 48;
}

/// `struct send_snapshot`: where each field begins.
mod snapshot_at {
    pub(super) const COOKIE: usize = 0;
    pub(super) const LOCAL: usize = 8;
    pub(super) const REMOTE: usize = 24;
    pub(super) const LOCAL_PORT: usize = 40;
    pub(super) const REMOTE_PORT: usize = 42;
    pub(super) const PHASE: usize = 44;
    pub(super) const COUNTERS: usize = 48;
    pub(super) const SIZE: usize = COUNTERS + 11 * 8;
}

/// `TCP_CA_NAME_MAX`, its final zero included.
pub(crate) const NAME_BYTES: usize = 16;

/// `struct send_totals`: so many 64-bit counters.
#[cfg(test)]
const TOTALS: usize = 12;

/// What `struct send_config` says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings<'a> {
    /// The control's name in the kernel.
    pub(crate) name: &'a str,
    /// ns; zero: what its source says.
    pub(crate) target_ns: u64,
    pub(crate) profile: &'static Profile,
    /// The id of the cgroup whose open connections are taken over.
    pub(crate) cgroup: u64,
    /// Somebody renews the sign of life.
    pub(crate) owned: bool,
    /// Every connection for itself.
    pub(crate) alone: bool,
    /// The kernel is asked to pace.
    pub(crate) paces: bool,
}

/// `struct send_config`.
pub(crate) fn config(settings: &Settings) -> [u8; config_at::SIZE] {
    use config_at::{ALGORITHM, CGROUP, ENHANCED, NAME, PACES, SIZE, TARGET};
    let mut bytes = [0; SIZE];
    bytes[TARGET..TARGET + 8].copy_from_slice(&settings.target_ns.to_ne_bytes());
    bytes[CGROUP..CGROUP + 8].copy_from_slice(&settings.cgroup.to_ne_bytes());
    bytes[NAME..NAME + NAME_BYTES].copy_from_slice(&self::name(settings.name));
    bytes[ALGORITHM..ALGORITHM + 4].copy_from_slice(&settings.profile.number.to_ne_bytes());
    let flags = [settings.profile.enhanced, settings.owned, settings.alone, settings.profile.way_back].map(u8::from);
    bytes[ENHANCED..ENHANCED + 4].copy_from_slice(&flags);
    bytes[PACES] = u8::from(settings.paces);
    bytes
}

/// A control's name as the kernel keeps it: cut to what fits, filled with zeroes.
pub(crate) fn name(name: &str) -> [u8; NAME_BYTES] {
    let mut bytes = [0; NAME_BYTES];
    bytes.iter_mut().take(NAME_BYTES - 1).zip(name.bytes()).for_each(|(to, from)| *to = from);
    bytes
}

/// Whether the kernel's `struct tcp_congestion_ops` somewhere in `value` has that name: what is before it is no letter of a longer one.
pub(crate) fn has_name(value: &[u8], name: &str) -> bool {
    value.windows(NAME_BYTES + 1).any(|w| w[0] == 0 && w[1..] == self::name(name))
}

/// The process of the run whose control has that name, as the kernel keeps it.
pub(crate) fn owner(name: &[u8]) -> Option<u32> {
    std::str::from_utf8(name).ok()?.trim_end_matches('\0').strip_prefix("lowtide_")?.parse().ok()
}

/// `struct tx_entry` begins with its lock, `struct tx_path` with its smoothed RTT.
const PATH_LAST_ACK: usize = 16;

/// When something of the path of this `struct tx_entry` was last acknowledged.
pub(crate) fn path_last_ack(bytes: &[u8]) -> u64 {
    bytes.get(PATH_LAST_ACK..).map_or(0, |rest| counter(rest, 0))
}

/// The `struct send_snapshot`s in what the iterator wrote.
pub(crate) fn snapshots(bytes: &[u8], now: u64) -> Vec<SendSnapshot> {
    bytes.chunks_exact(snapshot_at::SIZE).filter_map(|one| snapshot(one, now)).collect()
}

fn snapshot(bytes: &[u8], now: u64) -> Option<SendSnapshot> {
    use snapshot_at::{COOKIE, COUNTERS, LOCAL, LOCAL_PORT, PHASE, REMOTE, REMOTE_PORT};
    let at = |index| counter(&bytes[COUNTERS..], index);
    Some(SendSnapshot {
        cookie: counter(&bytes[COOKIE..], 0),
        local: address(bytes, LOCAL, LOCAL_PORT)?,
        remote: address(bytes, REMOTE, REMOTE_PORT)?,
        phase: Phase::from_number(bytes[PHASE]),
        bytes: at(0),
        retransmissions: at(1),
        slowdowns: at(2),
        base_rtt: known(at(3)),
        rtt: known(at(4)),
        queueing_delay: known(at(5)),
        window: at(6),
        path_window: at(7),
        path_flows: at(8) as u32,
        idle: Span::from_nanos(now.saturating_sub(at(9))),
        age: Span::from_nanos(now.saturating_sub(at(10))),
    })
}

/// The sum of each processor's `struct send_totals`, with what connections that are open have done so far.
pub(crate) fn totals(per_cpu: &[Vec<u8>], open: &[SendSnapshot]) -> SendTotals {
    let sum = |index| per_cpu.iter().map(|one| counter(one, index)).sum::<u64>();
    SendTotals {
        bytes: sum(0) + open.iter().map(|f| f.bytes).sum::<u64>(),
        retransmissions: sum(1) + open.iter().map(|f| f.retransmissions).sum::<u64>(),
        flows: sum(2),
        losses: sum(3),
        slowdowns: sum(4),
        undone: sum(5),
        mean_queueing_delay: sum(6).checked_div(sum(7)).map(Span::from_nanos),
        yielded: Span::from_nanos(sum(8)),
        refused: sum(9),
        unmanaged: sum(10),
        joined: sum(11),
    }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "reads a constant of C")]
mod tests {
    use lowtide_window::{Paced, Sent};

    use super::*;

    unsafe extern "C" {
        static lowtide_send_layout: [u64; 14];
    }

    #[test]
    fn structs_are_laid_out_as_in_c() {
        // SAFETY: a constant array of that length in native_sender.c.
        let c = unsafe { lowtide_send_layout };
        let rust = [
            config_at::SIZE,
            config_at::CGROUP,
            config_at::NAME,
            config_at::ALGORITHM,
            config_at::ENHANCED + 1,
            config_at::ENHANCED + 2,
            config_at::PACES,
            snapshot_at::SIZE,
            snapshot_at::LOCAL_PORT,
            snapshot_at::COUNTERS,
            8 * TOTALS,
            PATH_LAST_ACK - 8,
            size_of::<Sent>(),
            size_of::<Paced>(),
        ];
        assert_eq!(c, rust.map(|n| n as u64));
    }

    /// Before Linux 6.4 unloading `lowtide` took `lt_lowtide` with it.
    #[test]
    fn a_name_that_ends_like_another_is_not_the_other() {
        let value = [&[0u8; 9][..], &name("lt_lowtide"), &[0; 40]].concat();
        assert!(has_name(&value, "lt_lowtide") && !has_name(&value, "lowtide"));
    }

    #[test]
    fn a_runs_control_names_its_process_and_others_do_not() {
        assert_eq!(owner(&name("lowtide_417")), Some(417));
        assert_eq!((owner(&name("lowtide")), owner(&name("bbr")), owner(&name("lowtide_x"))), (None, None, None));
        assert_eq!(name("a-name-that-is-too-long")[14..], [b'-', 0]);
    }
}
