// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// What user space and the sending programs share. Mirrored by src/send_wire.rs, which a test compares with these sizes and
// offsets. Knows no kernel type.
#ifndef LOWTIDE_SEND_INTF_H
#define LOWTIDE_SEND_INTF_H

#include "types.h"

#define SEND_MAX_PATHS 4096
#define SEND_NAME_BYTES 16                 // TCP_CA_NAME_MAX

struct send_config {
	u64 target;                        // ns: T; 0: what the control's source says
	u64 cgroup;                        // the group's id: whose open connections are taken over
	char name[SEND_NAME_BYTES];        // of the control that the group's connections get
	u32 algorithm;                     // the control's number in control.h; the kernel's programs have it compiled in
	u8 enhanced;                       // min(T, base RTT)
	u8 owned;                          // somebody renews the sign of life; without it the control goes back to Reno
	u8 alone;                          // every connection for itself: no window for all of a path
	u8 way_back;                       // as in struct group_config
	u8 paces;                          // the kernel is asked to pace: before Linux 6.0 it lets no program ask
	u8 pad[7];
};

// An open connection, as the snapshot iterator writes it. Addresses as in struct flow_snapshot.
struct send_snapshot {
	u64 cookie;
	u32 local[4], remote[4];
	u16 local_port, remote_port;       // host order
	u8 phase, pad[3];
	u64 bytes, retransmissions, slowdowns;
	u64 base_rtt, rtt, queueing;       // ns; all ones: unknown
	u64 window, path_window;           // bytes
	u64 path_flows;
	u64 last, born;                    // CLOCK_MONOTONIC ns
};

// What is over, or counted at each acknowledgement; `bytes` and `retransmissions` of connections still open are in their snapshots.
struct send_totals {
	u64 bytes, retransmissions, flows, losses, slowdowns, undone;
	u64 queueing_sum, queueing_count;  // ns and acknowledgements
	u64 yielded;                       // ns
	u64 refused;                       // the program asked for a control of its own
	u64 unmanaged;                     // connections that the kernel did not let have ours
	u64 joined;                        // connections made in another group, whose process has joined this one
};

#endif
