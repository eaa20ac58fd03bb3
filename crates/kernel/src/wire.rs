//! The structs of bpf/intf.h as bytes from the kernel's maps. A test compares the layouts. Knows no map.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use lowtide_units::Span;
use lowtide_window::Phase;
use nix::time::{ClockId, clock_gettime};

use crate::config::Config;
use crate::stats::{FlowSnapshot, LeftAlone, Mode, Totals};

/// `struct flow_snapshot`: where each field begins.
pub(crate) mod flow_at {
    pub(crate) const LOCAL: usize = 0;
    pub(crate) const REMOTE: usize = 16;
    pub(crate) const LOCAL_PORT: usize = 32;
    pub(crate) const REMOTE_PORT: usize = 34;
    pub(crate) const TIMESTAMPS: usize = 36;
    pub(crate) const PHASE: usize = 37;
    pub(crate) const SCALE: usize = 38;
    pub(crate) const UNSEEN: usize = 39;
    pub(crate) const COUNTERS: usize = 40;
    pub(crate) const SIZE: usize = COUNTERS + 12 * 8;
}

/// `struct group_totals`: so many 64-bit counters.
#[cfg(test)]
pub(crate) const TOTALS: usize = 19;

/// `struct group_config`: the target, the control's number, its burst, the interval of reports, three flags, padding.
const GROUP_CONFIG: usize = 24;

/// `struct path_entry` begins with its lock.
pub(crate) const PATH_LOCK: usize = 8;
/// When a path last received payload, in `struct path_entry`.
pub(crate) const PATH_LAST_DATA: usize = PATH_LOCK + 8;

/// All ones: the kernel does not know.
const UNKNOWN: u64 = u64::MAX;

/// `struct group_config`.
pub(crate) fn group_config(config: &Config) -> [u8; GROUP_CONFIG] {
    let (target_ns, profile) = config.choice.receiving();
    let mut bytes = [0; GROUP_CONFIG];
    bytes[..8].copy_from_slice(&target_ns.to_ne_bytes());
    bytes[8..12].copy_from_slice(&profile.number.to_ne_bytes());
    bytes[12..16].copy_from_slice(&profile.burst.to_ne_bytes());
    bytes[16..20].copy_from_slice(&profile.report_ns.to_ne_bytes());
    bytes[20..23].copy_from_slice(&[profile.enhanced, config.dscp_le, profile.way_back].map(u8::from));
    bytes
}

/// The kernel's `bpf_ktime_get_ns`.
pub(crate) fn monotonic_now() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

pub(crate) fn known(ns: u64) -> Option<Span> {
    (ns != UNKNOWN).then(|| Span::from_nanos(ns))
}

pub(crate) fn address(bytes: &[u8], at: usize, port_at: usize) -> Option<SocketAddr> {
    let octets: [u8; 16] = bytes.get(at..at + 16)?.try_into().ok()?;
    let port = u16::from_ne_bytes(bytes.get(port_at..port_at + 2)?.try_into().ok()?);
    Some(SocketAddr::new(IpAddr::V6(Ipv6Addr::from(octets)).to_canonical(), port))
}

pub(crate) fn counter(bytes: &[u8], index: usize) -> u64 {
    bytes.get(index * 8..index * 8 + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

/// When the path of this `struct path_entry` last received payload.
pub(crate) fn path_last_data(bytes: &[u8]) -> u64 {
    bytes.get(PATH_LAST_DATA..).map_or(0, |rest| counter(rest, 0))
}

/// A `struct flow_snapshot`; none if it is too short to be one.
pub(crate) fn flow(cookie: u64, bytes: &[u8], now: u64) -> Option<FlowSnapshot> {
    use flow_at::*;
    let counters = bytes.get(COUNTERS..SIZE)?;
    let at = |index| counter(counters, index);
    Some(FlowSnapshot {
        cookie,
        local: address(bytes, LOCAL, LOCAL_PORT)?,
        remote: address(bytes, REMOTE, REMOTE_PORT)?,
        mode: if bytes[TIMESTAMPS] != 0 { Mode::Timestamps } else { Mode::Edge },
        phase: Phase::from_number(bytes[PHASE]),
        window_scale: bytes[SCALE],
        unseen: bytes[UNSEEN] != 0,
        bytes: at(0),
        segments: at(1),
        retransmissions: at(2),
        slowdowns: at(3),
        base_rtt: known(at(4)),
        rtt: known(at(5)),
        queueing_delay: known(at(6)),
        window: at(7),
        path_window: at(8),
        path_flows: at(9) as u32,
        idle: Span::from_nanos(now.saturating_sub(at(10))),
        age: Span::from_nanos(now.saturating_sub(at(11))),
    })
}

/// The sum of each processor's `struct group_totals`.
pub(crate) fn totals(per_cpu: &[Vec<u8>]) -> Totals {
    let sum = |index| per_cpu.iter().map(|one| counter(one, index)).sum::<u64>();
    Totals {
        bytes: sum(0),
        segments: sum(1),
        flows: sum(2),
        retransmissions: sum(3),
        losses: sum(4),
        slowdowns: sum(5),
        samples: sum(6),
        mean_queueing_delay: sum(7).checked_div(sum(8)).map(Span::from_nanos),
        yielded: Span::from_nanos(sum(9)),
        unparsed: sum(10),
        unparsed_sent: sum(11),
        lowered: sum(12),
        left_alone: LeftAlone {
            window_scale_unknown: sum(13),
            mptcp: sum(14),
            no_socket_storage: sum(15),
            paths_full: sum(16),
            acks_unseen: sum(17),
            made_elsewhere: sum(18),
        },
    }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "reads a constant of C")]
mod tests {
    use lowtide_window::{Ack, Congestion, In, Out, Report, Restart, Shown, Start};

    use super::*;

    unsafe extern "C" {
        static lowtide_layout: [u64; 17];
    }

    #[test]
    fn structs_are_laid_out_as_in_c() {
        use flow_at::{COUNTERS, LOCAL_PORT, SIZE};
        // SAFETY: a constant array of that length in native.c.
        let c = unsafe { lowtide_layout };
        let rust = [
            SIZE,
            LOCAL_PORT,
            COUNTERS,
            SIZE - 8,
            8 * TOTALS,
            8 * (TOTALS - 6),
            16,
            GROUP_CONFIG,
            size_of::<Ack>(),
            size_of::<Out>(),
            size_of::<In>(),
            size_of::<Report>(),
            PATH_LAST_DATA - PATH_LOCK,
            size_of::<Start>(),
            size_of::<Congestion>(),
            size_of::<Restart>(),
            size_of::<Shown>(),
        ];
        assert_eq!(c, rust.map(|n| n as u64));
    }
}
