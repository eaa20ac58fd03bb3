// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// What a host tells a congestion control (cc::events and cc::Start in crates/cc, in C). Knows no control.
#ifndef LOWTIDE_CONTROL_EVENTS_H
#define LOWTIDE_CONTROL_EVENTS_H

#include "types.h"

#define CONTROL_NONE (~0ULL)               // a time or delay that is not known
#define CONTROL_ONE 16                     // controls keep their windows in 2^-16 bytes
#define CONTROL_MAX_WINDOW (1ULL << 30)    // bytes
#define CONTROL_MAX_ACKED (1ULL << 20)     // bytes that one event may acknowledge

// The states that a control may show; twin of `Phase` in crates/window/src/phase.rs.
enum control_phase {
	CONTROL_SLOW_START,
	CONTROL_AVOIDANCE,
	CONTROL_DRAIN,                     // receiver: a slowdown has begun, what was permitted before is still arriving
	CONTROL_FREEZE,
	CONTROL_RAMP,
	CONTROL_SLOW_START_AFTER_TIMEOUT,
	CONTROL_INFERENCE,                 // TCP-LP: it has withdrawn and waits for the effect
	CONTROL_ALONE,                     // lowtide: nobody but its kind is on the line
	CONTROL_YIELDING,                  // lowtide: somebody else is
	CONTROL_PROBING,                   // lowtide: it looks whether somebody still is
};

enum control_cause { CONTROL_LOSS, CONTROL_ECN, CONTROL_TIMEOUT };

// How a control begins. A control ignores what it has no use for.
struct control_start {
	u64 now;                           // ns
	u64 window;                        // bytes; 0: what the control's source says
	u64 target;                        // ns of queueing delay; 0: what the control's source says
	u64 least_target;                  // ns: what the host cannot tell from noise
	u64 seed;                          // of what it draws at random
	u32 mss;                           // bytes
	u32 burst;                         // segments that one acknowledgement releases, their time kept free below the target; 0: none is
	u8 enhanced;                       // the target is min(target, base RTT) (Bagnulo 2023, section 7)
	u8 receiver;                       // reductions are paid with received bytes: a slowdown begins with a drain
	u8 pad[6];
};

// One acknowledgement that delivers something new; at a receiver one data segment, or several that are reported together.
struct control_ack {
	u64 now;                           // ns
	u64 acked, lost, ce;               // bytes delivered, declared lost, reported as CE-marked
	u64 in_flight;                     // bytes, before this acknowledgement
	u64 rtt;                           // ns, the raw sample; CONTROL_NONE: none
	u64 owd;                           // ns, the one-way delay, its zero point arbitrary; 0: none
	u64 srtt;                          // ns; 0 before the first sample
	u64 way_back;                      // ns of srtt: a queue on the way of the acknowledgements, where the host leaves that out of rtt; else 0
	u64 waited;                        // ns that this acknowledgement waited in such a queue, whosever it is, where a sender's host can tell; else 0
	u64 segment;                       // ns that a segment takes at the bottleneck; 0: unknown
	u64 delivered, prior_delivered;    // any count that rises with delivery, now and when this was sent: the clock of rounds
	u64 rate_delivered, rate_interval; // bytes, ns: a sample of the delivery rate; 0: none
	u8 limited;                        // the window was what limited the sender
	u8 in_recovery;                    // the host sends by its own rule until the loss is repaired
	u8 drained;                        // receiver: what was permitted before a reduction has arrived
	u8 pad[5];
};

// The start of a congestion episode: at most one in a window of data. Told before the acknowledgement that showed it.
struct control_congestion {
	u64 now;                           // ns
	u64 in_flight, lost;               // bytes, before anything was declared lost; declared lost
	u64 srtt;                          // ns
	u32 cause;                         // enum control_cause
	u32 pad;
};

// The first segment after a pause with nothing in flight.
struct control_restart {
	u64 now, idle, rto;                // ns: how long nothing was in flight, the host's retransmission timeout
};

#endif
