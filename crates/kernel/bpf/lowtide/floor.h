// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// FLOOR: nearly silent. Pairs of packets show whether the line is free, busy, held by one of our kind, or slower than before; the twin of
// crates/cc/src/scavenger/lowtide/floor.rs.
#ifndef LOWTIDE_LOWTIDE_FLOOR_H
#define LOWTIDE_LOWTIDE_FLOOR_H

#include "receiver.h"

#define LOWTIDE_SAMPLES 4                  // that a first visit takes; relapses take 2, 4, 8 times as many
#define LOWTIDE_LEVELS 8                   // relapses beyond this change nothing
#define LOWTIDE_HOLD_LEAST 200000ULL       // us
#define LOWTIDE_HOLD_MOST 8000000ULL

#define LOWTIDE_EVEN 6                     // samples in a row that were even: nobody sends
#define LOWTIDE_PRECISE 32                 // samples that tell how much of the line somebody uses
#define LOWTIDE_DOUBT 20000000ULL          // us: a floor that is uneven, but where no queue is seen, is left after this long

// After a train that met no bunches the next one waits so long, and then twice as long each time.
#define LOWTIDE_LISTEN_AGAIN 4000000ULL    // us
#define LOWTIDE_LISTEN_LATEST 128000000ULL
#define LOWTIDE_CHANGES 8                  // of 32 samples so many differ from the one before

// us: who has waited for a channel has waited longer, whoever has not less; a lone segment between other packets waits for any time.
#define LOWTIDE_WAITED 500

// By how much pairs differ on an empty line before that has been seen: network cards hold interrupts back by up to 125 us at either end
// (Intel's drivers: at most 8000 a second), mostly less.
#define LOWTIDE_NOISE 200
#define LOWTIDE_NOISE_MOST 5000

// Pairs of a visit that have all been delayed alike, and not by the least time of this path: the line has become slower, or the path longer.
#define LOWTIDE_ALIKE 8

INLINE void lowtide_enter_law(struct lowtide *c, u64 rate); // law.h
INLINE void lowtide_begin_probe(struct lowtide *c);         // probe.h
INLINE void lowtide_begin_listening(struct lowtide *c, const struct control_ack *a);

// The line was listened to in vain.
INLINE void lowtide_heard_nothing(struct lowtide_floor *f, u64 now)
{
	f->listen_from = larger_u63(f->listen_from, now + f->listen_again);
	f->listen_again = lesser_u63(2 * f->listen_again, LOWTIDE_LISTEN_LATEST);
}

// Leaves the line to others. `relapse`: a probe has just found them.
INLINE void lowtide_yield_line(struct lowtide *c, const struct control_ack *a, int relapse)
{
	struct lowtide_signals *s = &c->signals;
	struct lowtide_floor *f = &c->floor;
	u64 hold;

	if (f->trusted) { // Somebody was met before LAW had lasted until a drain: the waits were his.
		f->trusted = 0;
		lowtide_heard_nothing(f, s->now);
		lowtide_forget_jitter(s);
	}
	f->level = relapse || s->now < f->relapse_until ? lesser_u63(f->level + 1, LOWTIDE_LEVELS) : 0;
	if (NOW_IS(c->state) != LOWTIDE_PROBE)
		f->left_at = s->rate;
	f->random = lowtide_shuffle(f->random);
	f->noisy = f->noisy && !relapse;
	f->met = f->doubted = f->samples = f->busy = f->uneven = f->between = f->pairs = 0;
	f->arrived = 0;
	f->least = LOWTIDE_NONE;
	f->most = 0;
	f->mark = lowtide_mark(s, a);
	// Up to half more at random: two of ours that left together must not come back together.
	hold = (larger_u63(10 * s->base, LOWTIDE_HOLD_LEAST) << (f->level & 15)) / 1024 * (1024 + f->random % 512);
	f->hold_until = s->now + lesser_u63(hold, larger_u63(LOWTIDE_HOLD_MOST, 10 * s->base));
	f->doubt_at = s->now + larger_u63(LOWTIDE_DOUBT, 4 * hold);
	c->state = LOWTIDE_FLOOR;
	c->calm = 0;
	c->yields++;
}

// The window of FLOOR in bytes, below one segment: 1.2 % of the line, twice that while nobody is seen. The first samples of a first visit come as
// fast as they can.
INLINE u64 lowtide_floor_window(const struct lowtide *c)
{
	const struct lowtide_signals *s = &c->signals;
	u64 most = s->mss * 9 / 10;

	if (lowtide_receives(s)) // The own delayed acknowledgement (RFC 9293 3.8.6.3) spaces lone segments.
		return s->mss;
	if (c->floor.level == 0 && c->floor.samples < LOWTIDE_SAMPLES)
		return most;
	return lowtide_clamp(lowtide_bytes_in(lowtide_line_rate(s), s->srtt) / 1000 * (c->floor.uneven & 1 ? 12 : 24), lesser_u63(s->mss / 100, most), most);
}

// How much even samples may differ; none where the path's noise hides a packet's time.
INLINE u64 lowtide_even(const struct lowtide *c)
{
	u64 within = larger_u63(c->signals.serialisation / 4, c->floor.noise) + 2 * lowtide_jitter(&c->signals);

	return within * 2 < c->signals.serialisation && !c->floor.noisy ? within : LOWTIDE_NONE;
}

// Whether `rate` is all that the line has now. With r = line rate / rate, a slow line delays both packets of a pair, together by (2r - 1) packets'
// times, a fair queue that serves somebody else in turn only by r. Where the jitter hides the difference a slow line is assumed.
INLINE int lowtide_line_is_slower(const struct lowtide *c, u64 rate)
{
	const struct lowtide_signals *s = &c->signals;
	u64 r = lesser_u63(lowtide_ratio(lowtide_line_rate(s), rate), 1 << 20), delay, spread, within;

	if (r < 269 || lowtide_jitter(s) * 1024 > (r - 256) * s->serialisation)
		return 1;
	if (c->floor.pairs < 3)
		return 0;
	// A packet of somebody else's in service would have delayed one of them more than another.
	within = lowtide_even(c);
	if (is_less_u63(LOWTIDE_ALIKE, c->floor.pairs) & (is_less_u63(within, c->floor.most - c->floor.least) ^ 1))
		return 1;
	delay = lowtide_less(c->floor.least, s->base) << 8;
	spread = (c->floor.most - c->floor.least) << 8;
	if (lowtide_receives(s)) // A lone segment: r - 1 packets' times on a slow line.
		return delay + 333 * s->serialisation > r * s->serialisation && delay + 128 * s->serialisation < r * s->serialisation &&
		       spread < 38 * s->serialisation;
	// Between 1.5 r - 0.7 and 2 r - 0.3 packets' times, and within 0.3.
	return delay > (r * 3 / 2 - 179) * s->serialisation && delay < (2 * r - 77) * s->serialisation && spread < 77 * s->serialisation;
}

INLINE int lowtide_meets_a_friend(const struct lowtide *c)
{
	const struct lowtide_signals *s = &c->signals;
	u64 count = lesser_u63(c->floor.pairs, LOWTIDE_SAMPLES << lesser_u63(c->floor.level, 1)), least = LOWTIDE_NONE, most = 0;

	if (count < 3)
		return 0;
	for (u64 i = 0; i < LOWTIDE_QUEUES; i++) {
		if (i < count) {
			least = lesser_u64(least, c->floor.queues[i]);
			most = larger_u63(most, c->floor.queues[i]);
		}
	}
	// Between 0.6 T and 0.85 T2, and within 1.5 ms.
	return least > s->knee * 3 / 5 + s->serialisation && most < s->alarm * 17 / 20 &&
	       most - least < 1500 + 2 * lowtide_jitter(s) + s->serialisation;
}

// One of our kind holds a small, steady queue: enter its law from two packets. A probe would drive both above the alarm.
INLINE void lowtide_join_a_friend(struct lowtide *c)
{
	struct lowtide_signals *s = &c->signals;

	s->queue = c->floor.queues[0];
	lowtide_enter_law(c, lowtide_rate_of(2 * s->mss, s->base + s->queue));
	lowtide_set_window(c, 2 * s->mss);
}

INLINE u32 lowtide_ones(u32 x)
{
	x = x - ((x >> 1) & 0x55555555);
	x = (x & 0x33333333) + ((x >> 2) & 0x33333333);
	return (((x + (x >> 4)) & 0x0f0f0f0f) * 0x01010101) >> 24;
}

// A loss or a mark: a line that makes a station wait does neither, so that somebody fills a queue, and a train would cost him one.
INLINE void lowtide_refuse_to_listen(struct lowtide_floor *f, u64 now)
{
	f->listen_from = larger_u63(f->listen_from, now + LOWTIDE_LISTEN_LATEST);
}

// Whether samples come and go as they do where a station waits for its channel, and nothing speaks against a train.
INLINE int lowtide_may_listen(const struct lowtide_floor *f, u64 now)
{
	return f->samples >= 32 && now >= f->listen_from && lowtide_ones((f->busy ^ (f->busy >> 1)) & 0x7fffffffU) >= LOWTIDE_CHANGES;
}

// Waits for a channel are nobody's queue: the usual one is the line's jitter until somebody is met. A receiver's way to listen, whose trains wait as
// one.
INLINE void lowtide_trust_the_waits(struct lowtide *c)
{
	u64 sum = 0;

	for (int i = 0; i < LOWTIDE_QUEUES; i++)
		sum += c->floor.queues[i];
	lowtide_expect_jitter(&c->signals, sum / LOWTIDE_QUEUES);
	c->floor.trusted = 1;
	lowtide_validated(c, 0);
	lowtide_begin_probe(c);
}

INLINE void lowtide_leave_floor(struct lowtide *c, const struct control_ack *a)
{
	const struct lowtide_signals *s = &c->signals;
	struct lowtide_floor *f = &c->floor;
	u32 few = LOWTIDE_SAMPLES << lesser_u63(f->level, 3);
	int precise = lowtide_even(c) != LOWTIDE_NONE, held = s->now >= f->hold_until;
	u32 wanted = precise && f->met ? LOWTIDE_PRECISE : few;
	u32 recent = 0xffffffffU >> ((32 - wanted) & 31);
	u32 tolerated = precise || lowtide_jitter(s) > 1000 ? wanted / 4 : wanted / 8;
	int is_friend = lowtide_meets_a_friend(c);
	int first_visit = f->level == 0 && f->samples >= 3 && (!f->met || is_friend);
	int nobody = precise && f->samples > LOWTIDE_EVEN && !(f->uneven & ((1U << LOWTIDE_EVEN) - 1));
	int enough = held && f->samples >= wanted;
	int is_free = (enough && lowtide_ones(f->uneven & recent) <= tolerated) || (held && f->samples >= few && is_friend);
	int doubt = enough && s->now >= f->doubt_at && lowtide_ones(f->busy & recent) <= wanted / 8;

	if (!first_visit && !nobody && !is_free && !doubt) {
		if (!lowtide_may_listen(f, s->now))
			return;
		if (!lowtide_receives(s))
			lowtide_begin_listening(c, a);
		else if (!f->between) // Each of 32 samples has either waited for long or not at all, as for a channel.
			lowtide_trust_the_waits(c);
		return;
	}
	if (lowtide_receives(s))
		lowtide_validated(c, is_friend);
	if (f->met && is_friend) {
		lowtide_join_a_friend(c);
		return;
	}
	f->met = f->met && !nobody;
	f->doubted = doubt && !is_free;
	lowtide_begin_probe(c);
}

// The probe after this visit found all of the line, so that nobody has delayed these pairs; the first may have met our own queue. Of delays whose
// noise has the triangular distribution of two equal ones' sum the differences are 0.23 of its breadth in the mean.
INLINE void lowtide_nobody_was_here(struct lowtide_floor *f)
{
	u64 count = lesser_u63(lowtide_less(f->pairs, 1), LOWTIDE_QUEUES), sum = 0;

	for (u64 i = 1; i < LOWTIDE_QUEUES; i++) {
		u64 a = f->queues[i - 1], b = f->queues[i];

		// No branch: each would double what the kernel's verifier has to follow.
		sum += lesser_u63(lowtide_less(a, b) + lowtide_less(b, a), LOWTIDE_NOISE_MOST) & -is_less_u63(i, count);
	}
	f->noise = (8 * f->noise + 4 * sum) / (8 + lowtide_less(count, 1));
}

// Whether `a` completes a pair. After a loss segments travel alone and wait less.
INLINE int lowtide_completes_a_pair(struct lowtide *c, const struct control_ack *a)
{
	u64 arrived = a->lost > 0 ? 0 : c->floor.arrived + a->acked;
	int complete = a->in_flight <= a->acked + a->lost;

	c->floor.arrived = complete ? 0 : arrived;
	return complete && arrived >= 2 * c->signals.mss;
}

INLINE void lowtide_in_floor(struct lowtide *c, const struct control_ack *a, u64 rtt)
{
	struct lowtide_floor *f = &c->floor;
	u64 queue = rtt - c->signals.base, within;
	u32 busy, uneven;
	int pair;

	// What was permitted before comes in trains, even if it was sent later.
	if (a->prior_delivered < f->mark + lowtide_receives(&c->signals) || (lowtide_receives(&c->signals) && !a->drained))
		return;
	pair = lowtide_receives(&c->signals) ? 1 : lowtide_completes_a_pair(c, a);
	if (pair) {
		f->most &= -is_less_u63(1, f->pairs); // The first may have met our own queue.
		f->pairs += f->pairs < 0xffffffffU;
		f->least = lesser_u64(f->least, rtt);
		f->most = larger_u63(f->most, rtt);
		for (int i = LOWTIDE_QUEUES - 1; i > 0; i--)
			f->queues[i] = f->queues[i - 1];
		f->queues[0] = queue;
	}
	busy = queue > lowtide_free(&c->signals) && !(f->samples >= 2 && lowtide_line_is_slower(c, f->left_at));
	within = lowtide_even(c);
	// On an empty line all pairs take the same time. One that waited for a packet in service tells of somebody who sends.
	uneven = busy || (pair && within != LOWTIDE_NONE && rtt > f->least + within);
	f->met |= uneven && f->samples > 0;
	f->busy = (f->busy << 1) | busy;
	f->uneven = (f->uneven << 1) | uneven;
	f->between = (f->between << 1) | (queue > LOWTIDE_WAITED && queue <= lowtide_least_queue(&c->signals));
	f->samples += f->samples < 0xffffffffU;
	lowtide_leave_floor(c, a);
}

#endif
