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

// Elapsed time rolls the buckets: idle ones age the history too.
INLINE void delay_roll(struct delay *d, u64 now)
{
	for (int i = 0; i < DELAY_BUCKETS; i++) {
		if (now < d->base_start + DELAY_BUCKET_NS)
			return;
		d->base_start += DELAY_BUCKET_NS;
		d->base_at = d->base_at + 1 < DELAY_BUCKETS ? d->base_at + 1 : 0;
		if (d->base_at < DELAY_BUCKETS)
			d->base[d->base_at] = DELAY_NONE;
		d->base_min = DELAY_NONE;
		for (int j = 0; j < DELAY_BUCKETS; j++)
			d->base_min = min_u64(d->base_min, d->base[j]);
	}
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
	d->base_min = min_u64(d->base_min, rtt);
	d->current[d->current_at & (DELAY_SAMPLES - 1)] = rtt;
	d->current_at++;
	d->sampled = now;
}

// What the queue adds to the base; DELAY_NONE: unknown.
INLINE u64 delay_queueing(const struct delay *d)
{
	u64 current = DELAY_NONE;

	for (int i = 0; i < DELAY_SAMPLES; i++)
		current = min_u64(current, d->current[i]);
	if (current == DELAY_NONE || d->base_min == DELAY_NONE)
		return DELAY_NONE;
	return current > d->base_min ? current - d->base_min : 0;
}

#endif
