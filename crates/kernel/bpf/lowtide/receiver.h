// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// What the form of a receive window adds: data comes in trains that no pace smooths, a lone loss may be all that tells of a rival, and the
// sender may want less than it is granted; the twin of crates/cc/src/scavenger/lowtide/receiver.rs. Called only where lowtide_receives().
#ifndef LOWTIDE_LOWTIDE_RECEIVER_H
#define LOWTIDE_LOWTIDE_RECEIVER_H

#include "state.h"

#define LOWTIDE_QUANTILE_SAMPLES 32        // of a round
#define LOWTIDE_TRAIN 1200                 // us that a quarter of them may be above the least: what the host's own trains build
#define LOWTIDE_VALIDATE_LEAST 4000000ULL  // us: a loss sends to the floor again after this at first
#define LOWTIDE_VALIDATE_MOST 80000000ULL
// Rounds in a row with more queue than ours at less than 0.6 of the line, after which the floor is asked.
#define LOWTIDE_PRESSED 8
// us after a loss or a mark without learning jitter: a loss-based flow on a line of tens of Mbit/s is back at its maximum after 3 to 9 s
// (RFC 9438 4.2, K), and silences that its packets make are not the line's.
#define LOWTIDE_QUIET 10000000ULL
#define LOWTIDE_HOLE_MOST 100000           // us that the usual hole is taken to be at most

INLINE void lowtide_receiving_init(struct lowtide *c)
{
	struct lowtide_receiving *r = &c->receiving;

	for (int i = 0; i < LOWTIDE_LEAST; i++)
		r->least[i] = LOWTIDE_NONE;
	r->taken = r->skip = r->gaps = r->hole = r->quiet_from = r->pressed = r->validate_from = r->validating = 0;
	r->last_arrival = c->signals.now;
	r->validate_every = LOWTIDE_VALIDATE_LEAST;
}

// Puts `sample` among the smallest. Without branches, for the kernel's verifier would follow each both ways.
INLINE void lowtide_keep_least(struct lowtide_receiving *r, u64 sample)
{
	for (int i = 0; i < LOWTIDE_LEAST; i++) {
		u64 least = lesser_u64(r->least[i], sample);

		sample ^= r->least[i] ^ least; // the larger of the two
		r->least[i] = least;
	}
}

// Each segment, before the signals have seen it.
INLINE void lowtide_note_arrival(struct lowtide *c, const struct control_ack *a)
{
	struct lowtide_signals *s = &c->signals;
	struct lowtide_receiving *r = &c->receiving;
	u64 now = a->now / 1000, gap = lowtide_less(now, r->last_arrival);

	r->last_arrival = now;
	if (a->lost | a->ce) {
		r->quiet_from = now + LOWTIDE_QUIET;
		lowtide_forget_jitter(s);
	}
	r->gaps += gap > larger_u63(1000, 6 * s->serialisation);
	if (a->rtt == CONTROL_NONE || NOW_IS(c->state) != LOWTIDE_LAW || r->taken >= LOWTIDE_QUANTILE_SAMPLES)
		return;
	if (r->skip) {
		r->skip--;
		return;
	}
	// A window gives twenty-four samples.
	r->skip = lowtide_less(c->window / (24 * larger_u63(s->mss, 1)), 1);
	r->taken++;
	lowtide_keep_least(r, a->rtt / 1000);
}

// A window makes one hole a round trip by itself, and a rival makes others. A round at full rate without the line's own takes back what was learned
// beside somebody.
INLINE int lowtide_gaps_are_the_lines(struct lowtide *c)
{
	u64 gaps = c->receiving.gaps;

	c->receiving.gaps = 0;
	if (gaps <= 1 && c->signals.rate * 4 > lowtide_line_rate(&c->signals) * 3)
		lowtide_decay_jitter(&c->signals);
	return gaps > 1 && c->signals.now > c->receiving.quiet_from;
}

// The round's minimum alone is unfair: whose train follows the hole sees no queue. A quarter of the samples must see little.
INLINE void lowtide_refine_queue(struct lowtide *c)
{
	struct lowtide_receiving *r = &c->receiving;
	u64 taken = r->taken, quarter;

	quarter = r->least[(lowtide_less(taken, 1) / 4) & (LOWTIDE_LEAST - 1)];
	for (int i = 0; i < LOWTIDE_LEAST; i++)
		r->least[i] = LOWTIDE_NONE;
	r->taken = r->skip = 0;
	if (taken > 3)
		c->signals.queue += lowtide_less(lowtide_less(quarter, c->signals.base), c->signals.queue + LOWTIDE_TRAIN);
}

// Whether a round's samples are of one train, which wait alike: on a line that makes it wait for its channel one round says nothing of a queue that
// stands.
INLINE int lowtide_rounds_are_trains(const struct lowtide *c) { return lowtide_receives(&c->signals) && lowtide_in_trains(&c->signals); }

// What a silence may be longer for than on a sender's path.
INLINE u64 lowtide_usual_hole(struct lowtide *c, const struct lowtide_round *seen)
{
	u64 before = c->receiving.hole;

	c->receiving.hole = (3 * before + lesser_u63(seen->longest_gap, LOWTIDE_HOLE_MOST)) / 4;
	return before + before / 2;
}

// Whether somebody may be there whose queue is no alarm. A late-comer beside one who fills a small buffer takes his queue for the path: only losses
// tell. One whom an AQM holds below our alarm pushes us back, round by round.
INLINE int lowtide_wants_to_validate(struct lowtide *c, const struct lowtide_round *seen)
{
	const struct lowtide_signals *s = &c->signals;
	struct lowtide_receiving *r = &c->receiving;
	int pressed = s->queue * 5 > s->knee * 6 && s->smooth_rate * 5 < lowtide_line_rate(s) * 3;

	r->pressed = pressed ? r->pressed + 1 : 0;
	return (seen->lost > 0 || r->pressed >= LOWTIDE_PRESSED) && s->now > r->validate_from;
}

// The floor is left; a friend is nobody.
INLINE void lowtide_validated(struct lowtide *c, int is_friend)
{
	struct lowtide_receiving *r = &c->receiving;

	if (!r->validating)
		return;
	r->validating = 0;
	r->validate_every = c->floor.met && !is_friend ? LOWTIDE_VALIDATE_LEAST : lesser_u63(2 * r->validate_every, LOWTIDE_VALIDATE_MOST);
	r->validate_from = c->signals.now + r->validate_every;
	c->floor.level = 0;
}

// A sender that does not use its permission would keep a window that says nothing: at most twice what arrives in a round trip. Not of the last one
// alone: BBR sends four segments for 200 ms each ten seconds (PROBE_RTT), and loses nothing by it.
INLINE void lowtide_keep_to_what_is_used(struct lowtide *c, const struct control_ack *a)
{
	const struct lowtide_signals *s = &c->signals;

	if (a->limited || !s->rate || NOW_IS(c->state) == LOWTIDE_FLOOR || NOW_IS(c->state) == LOWTIDE_DRAIN)
		return;
	c->window = lesser_u63(c->window, 2 * lowtide_bytes_in(larger_u63(s->rate, s->smooth_rate), lowtide_round_trip(s) + s->queue) + 4 * s->mss);
}

#endif
