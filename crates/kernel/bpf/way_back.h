// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// How much of a round trip is a queue on the way back, that of the acknowledgements, by the clock in the peer's timestamps: that queue is not the
// one that a window makes or empties. Ours, for RFC 9840 and LEDBAT++ measure round trips. docs/algorithms/way-back.md; the reference is
// crates/cc/src/rledbat/way_back.rs. Knows no packet and no control.
#ifndef LOWTIDE_WAY_BACK_H
#define LOWTIDE_WAY_BACK_H

#include "flows.h"

#define WAY_BACK_NONE (~0ULL)
#define WAY_BACK_TICK_NS NS_PER_MS                // of the clock in the timestamps
#define WAY_BACK_FELL_ZERO (1ULL << 48)           // fell: it may be negative
#define WAY_BACK_MINUTE_NS (60 * NS_PER_S)
#define WAY_BACK_DRIFT_NS (9 * NS_PER_MS)         // in a minute and 20 s: a clock that is 100 ppm fast or slow, and a tick
#define WAY_BACK_FALL_NS (60 * NS_PER_MS)         // in a minute, of a clock that has settled: 0.1 %; other clocks are 10 % off and more
#define WAY_BACK_SETTLED_NS (2 * NS_PER_S)        // from the beginning; until then it may fall by no more than WAY_BACK_DRIFT_NS
#define WAY_BACK_MINUTES 10                       // as long as a base delay lives (RFC 6817 §3.4.2)
#define WAY_BACK_STRANGE_NS (10 * NS_PER_S)       // of nothing but another clock: it is taken
#define WAY_BACK_STOOD_RTTS 8                     // so long a floor is looked at
#define WAY_BACK_STRANGE 16                       // and so many samples of it in a row without queues

struct way_back {
	u64 least_rtt, least_there;        // ns; `there`: its zero is the difference of the clocks
	u64 heard, minute_end, settled;    // ns
	u64 fell;                          // ns that least_there is lower than when this minute began, and WAY_BACK_FELL_ZERO
	u64 there, back;                   // ns: the least of this minute, above the base
	u64 stale;                         // minutes in which the way there was never empty, since both ways were
	u64 strange;                       // samples in a row that another clock tells, of round trips without queues
	u64 known;                         // there is a base
	u64 queue;                         // ns: on the way back, of the last sample
	u64 waited;                        // the same, whosever queue it is
	u64 mean;                          // the same, smoothed
	u64 behind;                        // ns of the path's smoothed RTT: what of that queue others made
	u64 stands, until, before, least;  // the window is at its floor; looked at again then; the queue on the way back when that began, and the least since
	u64 ours;                          // that queue was of this flow's own acknowledgements
};

// How much later the peer's TSval has arrived `now` than it was written; the zero is the difference of the clocks. Where the difference in ms
// passes 2^31 it jumps, as if a clock had been set.
INLINE u64 way_back_since(u64 now, u32 tsval)
{
	u64 ms = now / NS_PER_MS;

	return (u64)(s64)(s32)((u32)ms - tsval) * NS_PER_MS + (now - ms * NS_PER_MS);
}

INLINE void way_back_begin_minute(struct way_back *w, u64 now)
{
	w->minute_end = now + WAY_BACK_MINUTE_NS;
	w->fell = WAY_BACK_FELL_ZERO;
	w->there = w->back = WAY_BACK_NONE;
}

// A minute in which the way there was never empty leaves it open whether a fast clock has hidden a part of the queue there; if it was nearly
// empty, and a queue stood on the way back all the time so that round trips told of nothing, it is taken for a slow clock's drift.
INLINE void way_back_end_minute(struct way_back *w, u64 now)
{
	if (w->there > 2 * WAY_BACK_TICK_NS) {
		if (!w->stale && w->there <= WAY_BACK_DRIFT_NS && w->back > WAY_BACK_DRIFT_NS)
			w->least_there += w->there;
		else
			w->stale++;
	}
	w->known &= is_less_u63(w->stale, WAY_BACK_MINUTES);
	way_back_begin_minute(w, now);
}

// Whether another clock has written this sample: another flow's. Or ours was set, or began with a queue on the way there; that the next round
// trips without queues tell, or ten seconds of nothing else, and all begins anew.
INLINE u64 way_back_is_strange(struct way_back *w, u64 now, u64 rtt, u64 later)
{
	u64 strange = w->known & is_less_u64(rtt + NS_PER_S + WAY_BACK_FALL_NS, later + WAY_BACK_FALL_NS);
	u64 taken;

	w->strange = (w->strange + 1 - is_less_u63(w->least_rtt + WAY_BACK_TICK_NS, rtt)) * strange;
	taken = strange & (is_less_u63(w->heard + WAY_BACK_STRANGE_NS - 1, now) | is_less_u63(WAY_BACK_STRANGE - 1, w->strange));
	w->known &= 1 - taken;
	return strange & (1 - taken);
}

// A sample of this path's clock, whose way there took so much `later` than the base.
INLINE void way_back_hear(struct way_back *w, u64 now, u64 rtt, u64 there, u64 later)
{
	u64 falls = later >> 63, most, anew, keep, above, ahead, back;

	w->fell += (0 - later) & (0 - falls);
	// The way there was not empty when it was the least, or the clock is another.
	most = WAY_BACK_DRIFT_NS + (WAY_BACK_FALL_NS - WAY_BACK_DRIFT_NS) * is_less_u63(w->settled, now);
	anew = (1 - w->known) | is_less_u63(WAY_BACK_FELL_ZERO + most, w->fell);
	keep = anew - 1;
	later &= keep & (falls - 1);
	w->least_rtt = lesser_u64(w->least_rtt | ~keep, rtt);
	above = rtt - w->least_rtt;
	w->stale &= keep & (0 - is_less_u63(WAY_BACK_TICK_NS, above));
	w->known = 1;
	w->heard = now;
	w->strange = 0;
	if (anew) {
		w->settled = now + WAY_BACK_SETTLED_NS;
		way_back_begin_minute(w, now);
	}
	ahead = lesser_u63(later, above + WAY_BACK_TICK_NS); // No more than the round trip: what is above that is a slow clock.
	// Hosts' jitter makes both ways now and then shorter than they are together at the least, and so does a queue that stood on the way back from
	// the beginning and is now shorter, beside one on the way there: then the base goes up and down. No clock did that.
	w->fell -= later - ahead;
	w->least_there = there - ahead;
	back = above - lesser_u63(above, ahead);
	w->there = lesser_u64(w->there, ahead);
	w->back = lesser_u64(w->back, back);
	w->queue = back - lesser_u63(back, WAY_BACK_TICK_NS + w->stale * WAY_BACK_DRIFT_NS);
}

// A round trip of `rtt` whose way there took `there` (WAY_BACK_NONE: not known): ns of it that are a queue on the way back, never more than the
// round trip is above the least. Almost without branches, and those only for what is kept: the kernel's verifier would follow each both ways
// through all that the control then does.
INLINE u64 way_back_queue(struct way_back *w, u64 now, u64 rtt, u64 there)
{
	u64 later;

	if ((s64)(now - w->minute_end) >= 0)
		way_back_end_minute(w, now);
	ORDERED();
	later = there - w->least_there;
	w->queue = 0;
	if (there != WAY_BACK_NONE && !way_back_is_strange(w, now, rtt, later))
		way_back_hear(w, now, rtt, there, later);
	ORDERED();
	return w->queue;
}

// Of the queue of the last sample what others made; `floor`: 1 if with the window that the path has now its acknowledgements make none. A queue that
// empties when the flow stands back was that of its own acknowledgements, on a way back too narrow for them: that counts. `doubts`: 1 where the
// control yields to others only (control.h): each queue counts until a floor has shown that it stays.
INLINE u64 way_back_of_others(struct way_back *w, u64 now, u64 floor, u64 srtt, u64 doubts)
{
	u64 begins = floor & (1 - w->stands), ends, known;

	w->mean += (w->queue >> 3) - (w->mean >> 3);
	w->ours |= doubts & is_less_u63(w->mean, WAY_BACK_DRIFT_NS + 1);
	w->until += (now + WAY_BACK_STOOD_RTTS * srtt - w->until) & (0 - begins);
	w->before += (w->mean - w->before) & (0 - begins);
	w->least = lesser_u64(w->least | (0 - begins), w->queue | (floor - 1));
	w->stands |= begins;
	ends = w->stands & ((1 - floor) | is_less_u63(w->until, now));
	known = ends & is_less_u63(WAY_BACK_DRIFT_NS, w->before);
	w->ours += (is_less_u64(w->least, w->before >> 2) - w->ours) & (0 - known);
	w->stands -= ends;
	w->queue &= w->ours - 1;
	ORDERED();
	return w->queue;
}

// A sample of a path whose control holds `window` bytes: what it is told less; `doubts` as above.
INLINE u64 way_back_take(struct way_back *w, u64 now, u64 rtt, u64 there, u64 window, u64 mss, u64 srtt, u64 doubts)
{
	u64 floor = is_less_u63(window, PATH_FLOOR_SEGMENTS * mss + 1), queue;

	w->waited = way_back_queue(w, now, rtt, there);
	queue = way_back_of_others(w, now, floor, srtt, doubts);
	w->behind = path_followed(w->behind, queue);
	return queue;
}

#endif
