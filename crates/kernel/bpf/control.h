// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// The layer between a host (path.h for a receiver, the sender's programs) and the congestion controls: each event goes to the
// control of that number. A number that is a constant to the compiler (a sender's struct_ops) or to the verifier (.rodata, a
// receiver) leaves the code of that control alone: the layer costs nothing per packet.
//
// To add a control NAME: its header NAME.h with the operations below, its reference in crates/cc/src, its line in CONTROLS, its line in
// crates/window/src/registry.rs.
#ifndef LOWTIDE_CONTROL_H
#define LOWTIDE_CONTROL_H

#include "control_events.h"
#include "ledbat.h"
#include "ledbat_pp.h"
#include "lowtide.h"
#include "tcp_lp.h"
#include "tcp_nice.h"

// Number and name of each control. Twin of `CONTROLS` in crates/window/src/registry.rs, which a test compares.
#define CONTROLS(X, op) \
	X(1, ledbat_pp, op) \
	X(2, ledbat, op) \
	X(3, tcp_lp, op) \
	X(4, tcp_nice, op) \
	X(5, lowtide, op)

// An object of the kernel's has one control (-DALGORITHM=NUMBER, build.rs), and room for no other.
#ifdef ALGORITHM
#define CONTROL_IS_HERE(number) ((number) == ALGORITHM)
#else
#define CONTROL_IS_HERE(number) 1
#endif

#define CONTROL_STATE(number, name, op) struct name name[CONTROL_IS_HERE(number)];
union control {
	CONTROLS(CONTROL_STATE, )
};

#define CONTROL_TELL(number, name, op) if (algorithm == (number)) { name##_##op(c->name, event); return; }
#define CONTROL_EVENT(op, type) \
	INLINE void control_##op(u32 algorithm, union control *c, type event) { CONTROLS(CONTROL_TELL, op) }

CONTROL_EVENT(init, const struct control_start *)
CONTROL_EVENT(on_ack, const struct control_ack *)
CONTROL_EVENT(on_congestion, const struct control_congestion *)
CONTROL_EVENT(on_restart, const struct control_restart *)
CONTROL_EVENT(on_undo, u64)                // ns: the last episode was spurious, the window of before it comes back
CONTROL_EVENT(on_mss, u32)                 // bytes: segments have another size, windows keep their bytes

#define CONTROL_ASK(number, name, op) if (algorithm == (number)) return name##_##op(c->name);
#define CONTROL_ANSWER(op, none) \
	INLINE u64 control_##op(u32 algorithm, const union control *c) { CONTROLS(CONTROL_ASK, op) return none; }

CONTROL_ANSWER(cwnd, 0)                    // the window in 2^-16 bytes
CONTROL_ANSWER(ssthresh, CONTROL_NONE)     // the same; CONTROL_NONE: not set
CONTROL_ANSWER(pacing_rate, 0)             // bytes/s; 0: pacing is the host's affair
CONTROL_ANSWER(edge_step, 0)               // receiver: bytes by which the edge may outrun what arrives; 0: by what the window says
CONTROL_ANSWER(phase, CONTROL_SLOW_START)  // enum control_phase
CONTROL_ANSWER(base, CONTROL_NONE)         // ns: the delay of the path without queues
CONTROL_ANSWER(queueing, CONTROL_NONE)     // ns
CONTROL_ANSWER(target, CONTROL_NONE)       // ns of queueing delay above which it yields
CONTROL_ANSWER(slowdowns, 0)               // how many it has begun

#define CONTROL_HEARS(number, name, op) if (algorithm == (number)) return name##_hears_owd;
// Whether it has use for one-way delays: a host need not measure them for the others.
INLINE int control_hears_owd(u32 algorithm) { CONTROLS(CONTROL_HEARS, ) return 0; }

#define CONTROL_YIELDS(number, name, op) if (algorithm == (number)) return name##_yields_to_others_only;
// 1: only others make it stand back to its floor, never the clock, as in LEDBAT++'s slowdowns.
INLINE u64 control_yields_to_others_only(u32 algorithm) { CONTROLS(CONTROL_YIELDS, ) return 0; }

// Bytes.
INLINE u64 control_window(u32 algorithm, const union control *c) { return control_cwnd(algorithm, c) >> CONTROL_ONE; }

#endif
