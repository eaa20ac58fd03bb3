// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// What user space and the programs share: the group's configuration, its counters, a flow's snapshot. Mirrored by
// src/wire.rs, which a test compares with these sizes and offsets. Knows no kernel type.
#ifndef LOWTIDE_INTF_H
#define LOWTIDE_INTF_H

#include "types.h"

#define MAX_FLOWS 16384
#define MAX_PATHS 4096

struct group_config {
	u64 target;                        // ns: T; 0: what the control's source says
	u32 algorithm;                     // the control's number in control.h
	u32 burst;                         // control_start's
	u32 report;                        // ns: segments of a flow that come closer together are reported as one; 0: none are
	u8 enhanced, dscp_le;              // enhanced: min(T, base RTT)
	u8 way_back;                       // a queue on the way back is no part of the delays that the control is told (way_back.h)
	u8 pad;
};

// Addresses are four words in network order, IPv4 as ::ffff:a.b.c.d.
struct path_key {
	u32 remote[4];
};

// Why a connection does not yield.
enum left_alone {
	LEFT_SCALE,                        // the kernel does not tell its window scale
	LEFT_MPTCP,                        // RFC 8684 section 3.3.1: its windows belong to the connection, not to the subflow
	LEFT_STORAGE,                      // the kernel gives the socket no more storage (net.core.optmem_max)
	LEFT_PATHS,                        // more than MAX_PATHS remote addresses
	LEFT_UNSEEN,                       // segments leave that the outgoing program does not see, or cannot parse
	LEFT_ELSEWHERE,                    // open when its process joined, made in a cgroup that cannot be attached to
	LEFT_KINDS,
};

struct flow_snapshot {
	u32 local[4], remote[4];
	u16 local_port, remote_port;       // host order
	u8 timestamps, phase, window_scale;
	u8 unseen;                         // its latest segments left unseen
	u64 bytes, segments, retransmissions, slowdowns;
	u64 base_rtt, rtt, queueing;       // ns; all ones: unknown
	u64 window, path_window;           // bytes
	u64 path_flows;
	u64 last, born;                    // CLOCK_MONOTONIC ns
};

struct group_totals {
	u64 bytes, segments, flows, retransmissions, losses, slowdowns, samples;
	u64 queueing_sum, queueing_count;  // ns and segments
	u64 yielded;                       // ns
	u64 unparsed, unparsed_sent;       // packets of managed connections that passed as they were
	u64 lowered;                       // segments sent with a smaller window than the kernel's
	u64 left_alone[LEFT_KINDS];        // connections
};

#endif
