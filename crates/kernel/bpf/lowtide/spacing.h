// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// How far apart packets leave the line, and whether it has become slower; the twin of crates/cc/src/scavenger/lowtide/spacing.rs.
#ifndef LOWTIDE_LOWTIDE_SPACING_H
#define LOWTIDE_LOWTIDE_SPACING_H

#include "arithmetic.h"

#define LOWTIDE_SPACING_COUNT 5            // a round of fewer times says nothing

// Times of a segment in us.
struct lowtide_spacing {
	u64 least[2];                      // the two smallest of the running round
	u64 count;
	u64 before[3];                     // the second smallest of the rounds before, the newest first; LOWTIDE_NONE where there were too few
};

INLINE void lowtide_spacing_init(struct lowtide_spacing *p)
{
	p->least[0] = p->least[1] = p->before[0] = p->before[1] = p->before[2] = LOWTIDE_NONE;
	p->count = 0;
}

INLINE void lowtide_spacing_take(struct lowtide_spacing *p, u64 time)
{
	p->count++;
	if (time < p->least[0]) {
		p->least[1] = p->least[0];
		p->least[0] = time;
	} else {
		p->least[1] = lesser_u64(p->least[1], time);
	}
}

INLINE void lowtide_spacing_end_round(struct lowtide_spacing *p)
{
	p->before[2] = p->before[1];
	p->before[1] = p->before[0];
	p->before[0] = p->count < LOWTIDE_SPACING_COUNT ? LOWTIDE_NONE : p->least[1];
	p->least[0] = p->least[1] = LOWTIDE_NONE;
	p->count = 0;
}

// By at least 5 and at most 30 %: the next flow of a fair queue adds a packet's time to one, two or three, a third or more.
INLINE int lowtide_spacing_grown(u64 least, u64 before)
{
	return least < LOWTIDE_NONE && before < LOWTIDE_NONE && least * 20 >= before * 21 && least * 10 <= before * 13;
}

// Whether segments were further apart in the running round than in the two before.
INLINE int lowtide_spacing_grows_now(const struct lowtide_spacing *p)
{
	return p->count >= LOWTIDE_SPACING_COUNT && lowtide_spacing_grown(p->least[1], lesser_u64(p->before[0], p->before[1]));
}

// The same of the round that ended last.
INLINE int lowtide_spacing_has_grown(const struct lowtide_spacing *p)
{
	return lowtide_spacing_grown(p->before[0], lesser_u64(p->before[1], p->before[2]));
}

#endif
