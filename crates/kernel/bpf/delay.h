// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Base and current delay: minimum filters over RTT samples (crates/cc/src/delay.rs). Knows no window.
#ifndef LOWTIDE_DELAY_H
#define LOWTIDE_DELAY_H

#include "types.h"

#define DELAY_BUCKETS 10                   // RFC 6817 §3.4.2: ten one-minute minima
#define DELAY_BUCKET_NS (60 * NS_PER_S)
#define DELAY_SAMPLES 4                    // -01 §4.1: the current-delay filter
#define DELAY_NONE (~0ULL)

struct delay {
	u64 base[DELAY_BUCKETS], base_min, base_start;
	u64 current[DELAY_SAMPLES], sampled;
	u32 base_at, current_at;
	u64 any;                           // a sample has ever been taken
};

INLINE void delay_forget_current(struct delay *d)
{
	for (int i = 0; i < DELAY_SAMPLES; i++)
		d->current[i] = DELAY_NONE;
	d->sampled = DELAY_NONE;
}

INLINE void delay_init(struct delay *d)
{
	for (int i = 0; i < DELAY_BUCKETS; i++)
		d->base[i] = DELAY_NONE;
	delay_forget_current(d);
	d->base_min = DELAY_NONE;
	d->base_start = d->any = 0;
	d->base_at = d->current_at = 0;
}

// Elapsed time rolls the buckets: idle ones age the history too. Each bucket is looked at once and without branches, for the
// kernel's verifier would follow each both ways: with a loop in a loop this was a third of its work.
INLINE void delay_roll(struct delay *d, u64 now)
{
	u64 passed, least = DELAY_NONE;

	if (now < d->base_start + DELAY_BUCKET_NS)
		return;
	passed = min_u64((now - d->base_start) / DELAY_BUCKET_NS, DELAY_BUCKETS);
	for (u32 i = 0; i < DELAY_BUCKETS; i++) {
		u64 wrapped = is_less_u63(i, d->base_at + 1);
		u64 next = i + wrapped * DELAY_BUCKETS - d->base_at; // 1: the one after the current
		u64 old = is_less_u63(next, passed + 1);

		d->base[i] |= 0 - old; // DELAY_NONE
		least = lesser_u64(d->base[i], least);
	}
	d->base_min = least;
	d->base_at = (d->base_at + passed) % DELAY_BUCKETS;
	d->base_start += passed * DELAY_BUCKET_NS;
	if (now >= d->base_start + DELAY_BUCKET_NS)
		d->base_start = now;
}

INLINE void delay_sample(struct delay *d, u64 now, u64 rtt)
{
	if (d->any)
		delay_roll(d, now);
	else
		d->base_start = now;
	d->any = 1;
	if (d->base_at < DELAY_BUCKETS)
		d->base[d->base_at] = min_u64(d->base[d->base_at], rtt);
	d->base_min = lesser_u64(d->base_min, rtt);
	d->current[d->current_at & (DELAY_SAMPLES - 1)] = rtt;
	d->current_at++;
	d->sampled = now;
}

// What the queue adds to the base; DELAY_NONE: unknown.
INLINE u64 delay_queueing(const struct delay *d)
{
	u64 current = DELAY_NONE;

	for (int i = 0; i < DELAY_SAMPLES; i++)
		current = lesser_u64(current, d->current[i]);
	if (current == DELAY_NONE || d->base_min == DELAY_NONE)
		return DELAY_NONE;
	return current > d->base_min ? current - d->base_min : 0;
}

#endif
