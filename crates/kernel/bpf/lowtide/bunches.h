// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Whether the line sends what waits in bunches, as Wi-Fi's aggregates do, and how high the delay's teeth then are; the twin of
// crates/cc/src/scavenger/lowtide/bunches.rs, which says why.
#ifndef LOWTIDE_LOWTIDE_BUNCHES_H
#define LOWTIDE_LOWTIDE_BUNCHES_H

#include "arithmetic.h"

#define LOWTIDE_FALL_LEAST 1000            // us: less, besides two packets' times, is hosts' jitter
#define LOWTIDE_TOOTH_MOST 100000          // us
#define LOWTIDE_BUNCHES_WINDOW 100000      // us: the part of the time is measured over this, and two round trips
#define LOWTIDE_BUNCHES_PART 64            // of 256, from which on a line sends in bunches
#define LOWTIDE_TURN_MOST 50000            // us: teeth are at least this frequent

// Times in us.
struct lowtide_bunches {
	u64 high, low, falling;            // the turning points of the delay
	u64 fallen, teeth, since, last;
	u64 part;                          // of 256, smoothed over two windows
	u64 first;                         // the window is the first since the flow began or came back
	u64 tooth;                         // the highest since it was last asked for
};

INLINE void lowtide_bunches_init(struct lowtide_bunches *b)
{
	b->high = b->low = b->falling = b->fallen = b->teeth = b->since = b->last = b->part = b->first = b->tooth = 0;
}

INLINE int lowtide_bunches_often(const struct lowtide_bunches *b, u64 now)
{
	return (b->teeth + b->falling) * LOWTIDE_TURN_MOST >= lowtide_less(now, b->since);
}

// Forgets what was before: a train comes back.
INLINE void lowtide_bunches_begin(struct lowtide_bunches *b, u64 now)
{
	lowtide_bunches_init(b);
	b->since = b->last = now;
	b->first = 1;
}

// A sample of the delay of a flow that sends steadily.
INLINE void lowtide_bunches_take(struct lowtide_bunches *b, u64 now, u64 rtt, u64 srtt, u64 serialisation)
{
	u64 window = larger_u63(LOWTIDE_BUNCHES_WINDOW, 2 * srtt), least = LOWTIDE_FALL_LEAST + 2 * serialisation, part;

	if (lowtide_less(now, b->last) > window) {
		b->high = b->low = rtt;
		b->falling = b->fallen = b->teeth = b->tooth = 0;
		b->since = now;
		b->first = 1;
	}
	b->last = now;
	if (b->falling) {
		if (rtt < b->low) {
			b->fallen += b->low - rtt;
			b->low = rtt;
		} else if (rtt > b->low + least) {
			b->tooth = lesser_u63(larger_u63(b->tooth, b->high - b->low), LOWTIDE_TOOTH_MOST);
			b->falling = 0;
			b->high = rtt;
			b->teeth++;
		}
	} else if (rtt > b->high) {
		b->high = rtt;
	} else if (rtt + least < b->high) {
		b->fallen += b->high - rtt;
		b->falling = 1;
		b->low = rtt;
	}
	if (lowtide_less(now, b->since) > window) {
		part = lowtide_bunches_often(b, now) ? lowtide_ratio(b->fallen, lowtide_less(now, b->since)) : 0;
		b->part = b->part ? (b->part + part) / 2 : part;
		b->fallen = b->teeth = b->first = 0;
		b->since = now;
	}
}

// Whether the line sends in bunches.
INLINE int lowtide_bunches_many(const struct lowtide_bunches *b) { return b->part >= LOWTIDE_BUNCHES_PART; }

// Whether the line sends in bunches, by what has been seen since `begin` even if its window is not over.
INLINE int lowtide_bunches_conclude(struct lowtide_bunches *b, u64 now)
{
	if (b->first)
		b->part = lowtide_bunches_often(b, now) ? lowtide_ratio(b->fallen, lowtide_less(now, b->since)) : 0;
	return lowtide_bunches_many(b);
}

// Whether it may turn out so when the first window is over: what looks like somebody's queue need not be one.
INLINE int lowtide_bunches_undecided(const struct lowtide_bunches *b, u64 now)
{
	return b->first && !lowtide_bunches_many(b) && b->teeth > 1 && lowtide_bunches_often(b, now);
}

#endif
