// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// One flow of the control, and what all its states share; the twin of the structs of crates/cc/src/scavenger/lowtide.rs, lowtide/floor.rs and
// lowtide/probe.rs.
#ifndef LOWTIDE_LOWTIDE_STATE_H
#define LOWTIDE_LOWTIDE_STATE_H

#include "signals.h"

#define LOWTIDE_QUEUES 8                   // samples of a visit to the floor
#define LOWTIDE_LEAST 8                    // samples of a round that a receiver keeps, a quarter of those it takes

enum lowtide_state { LOWTIDE_START, LOWTIDE_LAW, LOWTIDE_DRAIN, LOWTIDE_FLOOR, LOWTIDE_PROBE };
enum lowtide_step { LOWTIDE_GROWING, LOWTIDE_JUDGING, LOWTIDE_FILLING, LOWTIDE_MEASURING, LOWTIDE_CALLING, LOWTIDE_LISTENING };

// What the visit to the floor has found.
struct lowtide_floor {
	u64 relapse_until, left_at, mark, hold_until;
	u64 doubt_at;                      // a floor that is uneven but has no queue is left from then on
	u64 listen_from, listen_again;     // the line is not listened to before, and after the next train in vain not for so long
	u64 arrived;                       // acknowledged since nothing was under way
	u64 noise;                         // by how much whole pairs differ that nobody delays
	u64 least, most, queues[LOWTIDE_QUEUES], random;
	u32 level, met, samples;
	u32 pairs;                         // samples that were whole pairs
	u32 busy, uneven;                  // one bit a sample
	u32 between;                       // the same for one that waited, but less than a queue that counts
	u32 trusted;                       // whoever left the visit took the waits for the line's own, and nothing has confirmed it
	u32 doubted;                       // the visit was left at doubt_at
	u32 noisy;                         // the path's own noise makes the floor uneven
};

// How far a probe is.
struct lowtide_probe {
	u64 step;                          // enum lowtide_step
	u64 mark, delivered, since;
};

// What only the form of a receive window knows; lowtide/receiver.h. Times in us.
struct lowtide_receiving {
	u64 least[LOWTIDE_LEAST];          // of the round's samples, the smallest first
	u64 taken, skip;                   // samples of the round, and how many follow that are none
	u64 gaps;                          // silences of the round that are longer than the line's own
	u64 last_arrival;
	u64 hole;                          // the usual longest silence of a round
	u64 quiet_from;                    // silences before this may be a rival's
	u64 pressed;                       // rounds in a row with more queue than ours at less than our rate
	u64 validate_from, validate_every, validating;
};

// Windows in bytes, times in us, rates in bytes a second.
struct lowtide {
	struct lowtide_signals signals;
	struct lowtide_floor floor;
	struct lowtide_probe probe;
	u64 window, no_alarm_before, calm_step, saved, drain_until;
	u32 state, calm, pauses;
	u32 yields;                        // visits to the floor, for people
	struct lowtide_receiving receiving;
};

INLINE void lowtide_set_window(struct lowtide *c, u64 bytes)
{
	c->window = lowtide_clamp(bytes, 2 * c->signals.mss, LOWTIDE_WINDOW_MAX);
}

#endif
