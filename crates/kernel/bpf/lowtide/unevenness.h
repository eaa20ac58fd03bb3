// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// How unevenly the line delivers to a flow that has all of it; the twin of crates/cc/src/scavenger/lowtide/unevenness.rs. Knows no window and
// no line rate.
#ifndef LOWTIDE_LOWTIDE_UNEVENNESS_H
#define LOWTIDE_LOWTIDE_UNEVENNESS_H

#include "arithmetic.h"

#define LOWTIDE_RANGE_MOST 50000           // us
#define LOWTIDE_STEP_LEAST 60              // us
#define LOWTIDE_ON_TIME (1ULL << 61)       // neither behind nor ahead: without signs nothing has to be compared by branches

// Times in us, rates in bytes a second.
struct lowtide_unevenness {
	u64 rate;                          // what the running round is compared with; 0: it is not
	u64 least, most;                   // by which deliveries have been behind it, in bytes * us/s above LOWTIDE_ON_TIME
	u64 usual;                         // the lower quartile of the rounds' ranges
	u64 quiet_until;                   // no round counts before
};

INLINE void lowtide_unevenness_init(struct lowtide_unevenness *u)
{
	u->rate = u->usual = u->quiet_until = 0;
	u->least = u->most = LOWTIDE_ON_TIME;
}

// `bytes` have arrived in the first `elapsed` of the running round.
INLINE void lowtide_unevenness_note(struct lowtide_unevenness *u, u64 elapsed, u64 bytes)
{
	u64 behind = LOWTIDE_ON_TIME + elapsed * u->rate - bytes * 1000000;

	u->least = lesser_u63(u->least, behind);
	u->most = larger_u63(u->most, behind);
}

// Ends a round, and begins one that is compared with `rate`. By how much deliveries were now behind, now ahead; LOWTIDE_NONE if the round was
// not compared.
INLINE u64 lowtide_unevenness_end_round(struct lowtide_unevenness *u, u64 rate)
{
	u64 range = u->rate ? lesser_u63((u->most - u->least) / u->rate, LOWTIDE_RANGE_MOST) : LOWTIDE_NONE;

	u->rate = rate;
	u->least = u->most = LOWTIDE_ON_TIME;
	return range;
}

// A quarter of the rounds are below `usual` in the long run.
INLINE void lowtide_unevenness_learn(struct lowtide_unevenness *u, u64 now, u64 range)
{
	u64 step = larger_u63(u->usual / 16, LOWTIDE_STEP_LEAST);

	if (now >= u->quiet_until)
		u->usual = range > u->usual ? u->usual + step : lowtide_less(u->usual, 3 * step);
}

// What was learned may be somebody else's doing.
INLINE void lowtide_unevenness_forget(struct lowtide_unevenness *u, u64 quiet_until)
{
	u->usual = 0;
	u->quiet_until = quiet_until;
}

#endif
