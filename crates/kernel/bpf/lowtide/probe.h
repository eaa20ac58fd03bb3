// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// START and PROBE: growth by doubling until a queue appears or, in PROBE, most of the known rate is reached; then a measurement. Before it a train
// of segments may show whether the line sends in bunches. The twin of crates/cc/src/scavenger/lowtide/probe.rs.
#ifndef LOWTIDE_LOWTIDE_PROBE_H
#define LOWTIDE_LOWTIDE_PROBE_H

#include "law.h"

#define LOWTIDE_QUEUE_ENDS 1500            // us: a queue that ends growth, three fifths of the least T
#define LOWTIDE_TRAIN_APART 2000           // us: half a turn of another station lies between two segments of a train
#define LOWTIDE_TRAIN_MOST 30              // segments at once
#define LOWTIDE_LISTEN_FOR 180000          // us: a window of the bunches at round trips of up to 90 ms

INLINE void lowtide_set_step(struct lowtide *c, u64 step, u64 mark, u64 delivered, u64 since)
{
	c->probe.step = step;
	c->probe.mark = mark;
	c->probe.delivered = delivered;
	c->probe.since = since;
}

// 0.85 of the line: the rest shows whether somebody else has it.
INLINE u64 lowtide_probe_cap(const struct lowtide *c)
{
	const struct lowtide_signals *s = &c->signals;

	return larger_u63(lowtide_bytes_in(lowtide_line_rate(s), lowtide_round_trip(s)) / 20 * 17, 4 * s->mss);
}

INLINE void lowtide_begin_probe(struct lowtide *c)
{
	int empty = !c->floor.met && c->floor.level == 0;

	c->state = LOWTIDE_PROBE;
	lowtide_set_step(c, LOWTIDE_GROWING, 0, 0, 0);
	// A receive window does not pace: its probes always begin small.
	lowtide_set_window(c, larger_u63(empty && !lowtide_receives(&c->signals) ? lowtide_probe_cap(c) / 4 : 0, 4 * c->signals.mss));
	lowtide_forget_rate(&c->signals);
}

INLINE void lowtide_measure(struct lowtide *c, u64 step, const struct control_ack *a)
{
	lowtide_set_step(c, step, lowtide_mark(&c->signals, a), c->signals.total, c->signals.now);
}

INLINE u64 lowtide_measured(const struct lowtide *c)
{
	return lowtide_rate_of(c->signals.total - c->probe.delivered, lowtide_less(c->signals.now, c->probe.since));
}

// The first queue of a connection is taken for its own.
INLINE void lowtide_end_start(struct lowtide *c)
{
	struct lowtide_signals *s = &c->signals;
	u64 queue = lowtide_queue_of_last(s, 1);
	u64 rate = larger_u63(larger_u63(lowtide_sample_rate(s), s->rate), lowtide_rate_of(c->window / 2, lowtide_round_trip(s) + queue));

	s->queue = queue;
	lowtide_raise_line_rate(s, rate);
	lowtide_enter_law(c, rate);
}

// With at least 0.6 of the line the queue was our own doing, or nobody's who would give way.
INLINE void lowtide_judge(struct lowtide *c, const struct control_ack *a, u64 rate)
{
	if (rate >= lowtide_line_rate(&c->signals) / 10 * 6) {
		c->signals.queue = lowtide_queue_of_last(&c->signals, 1);
		// A queue below the rate known before: somebody may be there, and an alarm soon is a relapse.
		c->floor.met = 1;
		lowtide_enter_law(c, rate);
		return;
	}
	c->floor.left_at = rate;
	if (lowtide_line_is_slower(c, rate)) {
		lowtide_lower_line_rate(&c->signals, rate);
		lowtide_enter_law(c, rate);
		return;
	}
	lowtide_yield_line(c, a, 1);
}

INLINE void lowtide_double(struct lowtide *c, const struct control_ack *a)
{
	struct lowtide_signals *s = &c->signals;
	int probing = NOW_IS(c->state) == LOWTIDE_PROBE, lost, somebody, careful, slow;
	u64 most = LOWTIDE_QUEUE_ENDS + 2 * lowtide_jitter(s) + (probing ? s->knee / 2 : 0), queue, cap;
	u64 acked = a->acked * a->limited; // A window that is not used does not grow.

	// On a line that sends in bunches four samples are one of them.
	if (lowtide_receives(s) || lowtide_in_bunches(s) || lowtide_undecided(s))
		queue = lowtide_queue_of_two_rounds(s);
	else
		queue = c->window < 8 * s->mss ? lowtide_queue_of_last(s, 2) : lowtide_queue_of_last(s, 4);
	// A server that is held back by its own control, not by our window, shows no queue of ours: its losses end growth, too.
	lost = a->lost > 0 && (queue > most / 2 || (lowtide_receives(s) && !probing));
	somebody = queue > larger_u63(most, s->serialisation * 6 / 5) || lost || (probing && a->ce > 0);
	if (somebody && probing) {
		lowtide_measure(c, LOWTIDE_JUDGING, a);
		return;
	}
	if (somebody) {
		lowtide_end_start(c);
		return;
	}
	if (!probing) {
		slow = lowtide_receives(s) && c->window * s->serialisation > s->mss * lowtide_round_trip(s) / 2;
		lowtide_set_window(c, c->window + (slow ? acked / 4 : acked));
		return;
	}
	cap = lowtide_probe_cap(c);
	// Where somebody was met before, a small step builds a small queue: doubling would cost them two reductions.
	careful = lowtide_receives(s) | is_less_u63(0, c->floor.met + c->floor.level);
	lowtide_set_window(c, c->window + (careful && c->window * 2 > cap ? acked / 4 : acked));
	if (c->window >= cap) {
		lowtide_set_window(c, cap);
		lowtide_measure(c, LOWTIDE_FILLING, a);
	}
}

// Sends a train from the floor, whose pairs are too rare to show bunches.
INLINE void lowtide_begin_listening(struct lowtide *c, const struct control_ack *a)
{
	const struct lowtide_signals *s = &c->signals;

	lowtide_begin_probe(c);
	lowtide_set_window(c, lowtide_clamp(s->srtt / larger_u63(LOWTIDE_TRAIN_APART, 4 * s->serialisation), 4, LOWTIDE_TRAIN_MOST) * s->mss);
	lowtide_measure(c, LOWTIDE_CALLING, a);
}

// On a line that sends in bunches their waits are nobody's queue, and a probe allows for them.
INLINE void lowtide_listen(struct lowtide *c, const struct control_ack *a)
{
	struct lowtide_signals *s = &c->signals;

	if (c->probe.step == LOWTIDE_CALLING) {
		if (a->prior_delivered < c->probe.mark)
			return;
		lowtide_bunches_begin(&s->bunches, s->now);
		lowtide_set_step(c, LOWTIDE_LISTENING, 0, 0, s->now);
		return;
	}
	if (lowtide_less(s->now, c->probe.since) <= LOWTIDE_LISTEN_FOR)
		return;
	lowtide_begin_probe(c);
	if (lowtide_bunches_conclude(&s->bunches, s->now))
		return;
	lowtide_heard_nothing(&c->floor, s->now);
	// Somebody made the samples come and go. The train may have cost him a reduction: what was seen before says nothing now.
	lowtide_yield_line(c, a, 1);
}

// START and PROBE, each acknowledgement.
INLINE void lowtide_grow(struct lowtide *c, const struct control_ack *a)
{
	u64 rate, line;

	if (c->probe.step == LOWTIDE_GROWING) {
		lowtide_double(c, a);
		return;
	}
	if (c->probe.step >= LOWTIDE_CALLING) {
		lowtide_listen(c, a);
		return;
	}
	if (a->prior_delivered < c->probe.mark)
		return;
	if (c->probe.step == LOWTIDE_FILLING) {
		lowtide_measure(c, LOWTIDE_MEASURING, a);
		return;
	}
	// A round trip, and four of the line's usual silences.
	if (!lowtide_receives(&c->signals) && lowtide_less(c->signals.now, c->probe.since) < 8 * lowtide_jitter(&c->signals))
		return;
	rate = lowtide_measured(c);
	line = lowtide_line_rate(&c->signals);
	if (c->probe.step == LOWTIDE_MEASURING && rate > line / 100 * 79) {
		lowtide_nobody_was_here(&c->floor);
		lowtide_enter_law(c, line); // All that was sent came through: the line is what it was.
		return;
	}
	c->signals.rate = rate;
	lowtide_judge(c, a, rate);
}

#endif
