// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// LAW, the own share of a small standing queue, and DRAIN, which shows everybody the empty line; the twin of
// crates/cc/src/scavenger/lowtide/law.rs.
#ifndef LOWTIDE_LOWTIDE_LAW_H
#define LOWTIDE_LOWTIDE_LAW_H

#include "floor.h"

#define LOWTIDE_DRAIN_AFTER 10000000       // us: a base that was not seen for this long is looked for
#define LOWTIDE_CALM_ROUNDS 3              // with hardly any queue, after which growth becomes faster
#define LOWTIDE_ALARM_SAMPLES 6            // in a row that are above the alarm before the round's end

// Enters LAW at a rate that was measured: its bandwidth-delay product and half of the own queue.
INLINE void lowtide_enter_law(struct lowtide *c, u64 rate)
{
	struct lowtide_signals *s = &c->signals;
	u64 before = c->window;

	lowtide_set_window(c, lowtide_bytes_in(rate, lowtide_round_trip(s)) + lowtide_share_of_queue(s, rate) / 2);
	c->calm = 0;
	c->calm_step = 0;
	s->smooth_rate = rate;
	c->no_alarm_before = s->now + 2 * larger_u63(lowtide_round_trip(s) + s->queue, lowtide_time_of(before, rate)) + 20000;
	// Somebody was there a moment ago: a queue in the next thirty round trips is a relapse.
	if (NOW_IS(c->state) == LOWTIDE_PROBE && c->floor.met)
		c->floor.relapse_until = s->now + larger_u63(30 * s->base, 1000000);
	c->state = LOWTIDE_LAW;
}

// Whether the spacing of our packets may be the line's: with less than a fourth of its rate others' come between all of them. Not a sender's, which
// is a pace, and which acknowledgements for two segments each show in steps that hosts' jitter blurs.
INLINE int lowtide_may_follow(const struct lowtide_signals *s, u64 rate)
{
	return lowtide_time_of(s->mss, rate) <= 4 * s->serialisation;
}

// Yields at the rate delivered last.
INLINE void lowtide_raise_alarm(struct lowtide *c, const struct control_ack *a)
{
	u64 rate = lowtide_sample_rate(&c->signals);

	if (rate > 0)
		c->signals.rate = rate;
	lowtide_yield_line(c, a, 0);
}

// Between rounds: somebody who comes with a burst is seen at once.
INLINE void lowtide_watch(struct lowtide *c, const struct control_ack *a)
{
	struct lowtide_signals *s = &c->signals;
	// 1.2 T2, because six samples in a row are weaker evidence than the minimum of a round.
	u64 bound = s->alarm + s->alarm / 5, queue;

	if (s->now <= c->no_alarm_before || lowtide_queue_of_last(s, 1) <= bound || lowtide_in_bunches(s) || lowtide_undecided(s) ||
	    lowtide_rounds_are_trains(c))
		return;
	queue = lowtide_queue_of_last(s, LOWTIDE_ALARM_SAMPLES);
	if (queue > bound && s->round.longest_gap < queue / 2) {
		s->queue = queue;
		if (lowtide_receives(s) && lowtide_spacing_grows_now(&s->spacing) && lowtide_may_follow(s, lowtide_rate_in_round(s)))
			lowtide_enter_law(c, lowtide_rate_in_round(s));
		else
			lowtide_raise_alarm(c, a);
	}
}

// The line has become faster, or somebody has left.
INLINE void lowtide_grow_when_calm(struct lowtide *c, u64 used, u64 share)
{
	struct lowtide_signals *s = &c->signals;
	u64 most;

	// A window that is not used makes the bound none.
	if (s->queue * 10 >= s->knee * 3 * used) {
		c->calm = 0;
		c->calm_step = 0;
		return;
	}
	c->calm++;
	if (c->calm < LOWTIDE_CALM_ROUNDS)
		return;
	most = s->rate * 4 > lowtide_line_rate(s) * 3 ? share / 4 : c->window / 8;
	c->calm_step = lesser_u63(larger_u63(c->calm_step * 3 / 2, share / 4), most);
	c->no_alarm_before = s->now + 3 * (lowtide_round_trip(s) + s->queue) + 10000;
	lowtide_set_window(c, c->window + c->calm_step);
}

// Takes more than the own queue away for a round trip. Others of our kind see the same minimum: their drains fall together.
INLINE void lowtide_drain(struct lowtide *c)
{
	struct lowtide_signals *s = &c->signals;
	u64 less;

	c->floor.noisy |= c->floor.doubted; // Nobody came since.
	c->floor.listen_again = LOWTIDE_LISTEN_AGAIN;
	c->floor.trusted = 0;
	s->drained = LOWTIDE_NONE;
	c->saved = c->window;
	c->drain_until = s->now + (lowtide_round_trip(s) + s->queue) * 13 / 10 + 4 * s->serialisation;
	less = lowtide_bytes_in(lowtide_line_rate(s), larger_u63(s->queue, 500) * 3 / 2) + 2 * s->mss;
	c->state = LOWTIDE_DRAIN;
	lowtide_set_window(c, larger_u63(lowtide_less(c->window, less), c->window / 10 * 3));
}

// W += (alpha min(1, (T/q)^2) - W q / (base + q)) / 2: at the fixed point alpha bytes of the queue are ours, whatever the round trip.
INLINE void lowtide_steer(struct lowtide *c, const struct control_ack *a, const struct lowtide_round *seen)
{
	struct lowtide_signals *s = &c->signals;
	u64 used = lowtide_receives(s) ? 1 : a->limited, share, wanted, held;

	if (seen->lost * 25 > lowtide_less(s->total, seen->total)) // More than 4 % is no random loss.
		lowtide_set_window(c, c->window / 20 * 17);
	share = lowtide_share_of_queue(s, s->smooth_rate);
	// A window that is not used does not grow (RFC 9438 section 5.8). What a receiver permits is bounded by what comes.
	wanted = s->queue > s->knee ? share * s->knee / s->queue * s->knee / s->queue : share;
	wanted *= used;
	held = c->window / 256 * ((s->queue << 8) / larger_u63(lowtide_round_trip(s) + s->queue, 1));
	lowtide_set_window(c, lowtide_less(c->window + wanted / 2, held / 2));
	lowtide_grow_when_calm(c, used, share);
	if (s->now - s->base_seen > LOWTIDE_DRAIN_AFTER)
		lowtide_drain(c);
}

// The floor shows who is there.
INLINE void lowtide_validate(struct lowtide *c, const struct control_ack *a)
{
	lowtide_yield_line(c, a, 0);
	c->floor.level = larger_u63(c->floor.level, 1);
	c->receiving.validating = 1;
}

// The application or the peer's window, and not ours, is the limit, and no queue is seen. Such a probe says nothing of others.
INLINE void lowtide_end_unused_probe(struct lowtide *c, const struct control_ack *a)
{
	u64 other_step = (c->state ^ LOWTIDE_PROBE) | (c->probe.step ^ LOWTIDE_GROWING), unknown_rate = (c->signals.rate - 1) >> 63;

	// One branch: the verifier would follow five each by itself.
	if (!lowtide_receives(&c->signals) && !(other_step | unknown_rate | a->limited))
		lowtide_enter_law(c, c->signals.rate);
}

// Once a round.
INLINE void lowtide_on_round(struct lowtide *c, const struct control_ack *a)
{
	struct lowtide_signals *s = &c->signals;
	int in_law = NOW_IS(c->state) == LOWTIDE_LAW, steady = in_law && c->window > 6 * s->mss, paused, managed, may_yield;
	int law = steady;
	struct lowtide_round seen;
	u64 hole = 0, before = lowtide_queue_before(s);

	if (lowtide_receives(s) && steady)
		steady = lowtide_gaps_are_the_lines(c);
	lowtide_end_round(s, a, steady, law, &seen);
	if (lowtide_receives(s)) {
		lowtide_refine_queue(c);
		hole = lowtide_usual_hole(c, &seen);
	}
	paused = seen.longest_gap > larger_u63(10000 + hole, s->queue / 2) && c->window > 8 * s->mss && c->pauses < 2;
	c->pauses = paused ? c->pauses + 1 : 0;
	if (!in_law) {
		lowtide_end_unused_probe(c, a);
		return;
	}
	if (paused)
		return;
	s->smooth_rate = s->smooth_rate == 0 ? s->rate : (3 * s->smooth_rate + s->rate) / 4;
	may_yield = s->now > c->no_alarm_before;
	// CoDel holds the queue at 5 ms, below the alarm: there a mark is the sign, or a loss with more queue than we make.
	managed = seen.marked || (seen.lost > 0 && s->queue * 2 > s->knee * 3);
	if (managed)
		lowtide_refuse_to_listen(&c->floor, s->now);
	if (managed && may_yield)
		lowtide_yield_line(c, a, 0);
	else if (lowtide_receives(s) && may_yield && lowtide_wants_to_validate(c, &seen))
		lowtide_validate(c, a);
	else if (s->queue <= s->alarm)
		lowtide_steer(c, a, &seen);
	else if (lowtide_rounds_are_trains(c) && before <= s->alarm)
		c->calm = c->calm_step = 0;
	else if (may_yield && lowtide_receives(s) && lowtide_spacing_has_grown(&s->spacing) && lowtide_may_follow(s, s->rate))
		lowtide_enter_law(c, s->rate);
	else if (may_yield && !lowtide_undecided(s))
		lowtide_raise_alarm(c, a);
	else // Our own growth may have built it.
		lowtide_set_window(c, lowtide_bytes_in(s->rate, lowtide_round_trip(s)));
}

INLINE void lowtide_in_drain(struct lowtide *c)
{
	struct lowtide_signals *s = &c->signals;

	if (s->now < c->drain_until)
		return;
	lowtide_settle_base(s);
	c->no_alarm_before = s->now + 4 * lowtide_round_trip(s) + 20000;
	c->state = LOWTIDE_LAW;
	lowtide_set_window(c, lowtide_less(c->saved, lowtide_share_of_queue(s, s->smooth_rate) / 2));
}

#endif
