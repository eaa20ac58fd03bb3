// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// LEDBAT (RFC 6817) in integers; the twin of crates/cc/src/scavenger/ledbat.rs with its default parameters. Knows no kernel, no clock, no
// packet.
//
// Bounds: windows < 2^30 bytes, delays and spans < 2^33 ns, one acknowledgement <= 2^20 bytes; unsigned 64-bit division only.
#ifndef LOWTIDE_LEDBAT_H
#define LOWTIDE_LEDBAT_H

#include "control_events.h"
#include "delay.h"

#define LEDBAT_TARGET_NS (100 * NS_PER_MS)         // RFC 6817 §3.3: at most 100 ms
#define LEDBAT_ALLOWED_INCREASE 1                  // §2.4.2: segments above what was in flight
#define LEDBAT_MIN_SEGMENTS 2                      // §2.4.2: MIN_CWND and INIT_CWND

enum { ledbat_hears_owd = 1, ledbat_yields_to_others_only = 0 };

struct ledbat {
	struct delay delay;                            // one-way delays
	u64 taken[DELAY_SAMPLES];                      // ns: when each sample of the current-delay filter came
	u64 mss;                                       // bytes
	u64 target;                                    // ns
	u64 cwnd, undo_cwnd;                           // 2^-16 bytes
};

INLINE u64 ledbat_floor(const struct ledbat *c) { return (LEDBAT_MIN_SEGMENTS * c->mss) << CONTROL_ONE; }

INLINE void ledbat_init(struct ledbat *c, const struct control_start *start)
{
	delay_init(&c->delay);
	for (int i = 0; i < DELAY_SAMPLES; i++)
		c->taken[i] = 0;
	c->mss = start->mss;
	c->target = max_u64(start->target ? start->target : LEDBAT_TARGET_NS, max_u64(start->least_target, 1));
	c->cwnd = c->undo_cwnd = (start->window ? start->window : LEDBAT_MIN_SEGMENTS * c->mss) << CONTROL_ONE;
}

// Base first, then the filter (§2.4.2), which holds nothing older than a smoothed RTT (§3.4.2).
INLINE void ledbat_observe(struct ledbat *c, const struct control_ack *a)
{
	if (a->owd) {
		c->taken[c->delay.current_at & (DELAY_SAMPLES - 1)] = a->now;
		delay_sample(&c->delay, a->now, a->owd);
	}
	for (int i = 0; i < DELAY_SAMPLES; i++)
		c->delay.current[i] |= 0 - is_less_u64(c->taken[i] + a->srtt, a->now); // DELAY_NONE
}

// cwnd += GAIN off_target acked MSS / cwnd with a GAIN of 1, within what was in flight and ALLOWED_INCREASE (§2.4.2).
INLINE void ledbat_steer(struct ledbat *c, const struct control_ack *a, u64 queueing)
{
	u64 most = (min_u64(a->in_flight, CONTROL_MAX_WINDOW) + LEDBAT_ALLOWED_INCREASE * c->mss) << CONTROL_ONE;
	u64 distance = queueing > c->target ? queueing - c->target : c->target - queueing;
	u64 whole = distance / c->target, part = ((distance - whole * c->target) << 24) / c->target; // of off_target
	u64 change = min_u64((a->acked * ((c->mss << 40) / max_u64(c->cwnd >> 8, 1))) >> 16, 1ULL << 39);

	change = change * whole + ((change * part) >> 24);
	if (queueing > c->target)
		c->cwnd -= min_u64(change, c->cwnd);
	else
		c->cwnd += change;
	c->cwnd = max_u64(min_u64(c->cwnd, most), ledbat_floor(c));
	c->cwnd = min_u64(c->cwnd, CONTROL_MAX_WINDOW << CONTROL_ONE);
}

INLINE void ledbat_on_ack(struct ledbat *c, const struct control_ack *a)
{
	u64 queueing;

	ledbat_observe(c, a);
	queueing = delay_queueing(&c->delay);
	if (!a->in_recovery && queueing != CONTROL_NONE)
		ledbat_steer(c, a, queueing);
}

// The outer minimum: a window of one segment after a timeout is not raised to MIN_CWND (§2.4.2).
INLINE void ledbat_on_congestion(struct ledbat *c, const struct control_congestion *e)
{
	c->undo_cwnd = c->cwnd;
	if (e->cause == CONTROL_TIMEOUT)
		c->cwnd = min_u64(c->cwnd, c->mss << CONTROL_ONE);
	else
		c->cwnd = min_u64(c->cwnd, max_u64(c->cwnd >> 1, ledbat_floor(c)));
}

// The window stays: the first acknowledgement bounds it by what is in flight.
INLINE void ledbat_on_restart(struct ledbat *c, const struct control_restart *r)
{
	if (r->idle > r->rto)
		delay_forget_current(&c->delay);
}

INLINE void ledbat_on_undo(struct ledbat *c, u64 now)
{
	(void)now;
	c->cwnd = c->undo_cwnd;
}

INLINE void ledbat_on_mss(struct ledbat *c, u32 mss) { c->mss = mss; }

INLINE u64 ledbat_cwnd(const struct ledbat *c) { return c->cwnd; }
INLINE u64 ledbat_base(const struct ledbat *c) { return c->delay.base_min; }
INLINE u64 ledbat_queueing(const struct ledbat *c) { return delay_queueing(&c->delay); }
INLINE u64 ledbat_target(const struct ledbat *c) { return c->target; }

// What it has not: a threshold, a pace, states, slowdowns.
INLINE u64 ledbat_ssthresh(const struct ledbat *c) { (void)c; return CONTROL_NONE; }
INLINE u64 ledbat_pacing_rate(const struct ledbat *c) { (void)c; return 0; }
INLINE u64 ledbat_edge_step(const struct ledbat *c) { (void)c; return 0; }
INLINE u64 ledbat_phase(const struct ledbat *c) { (void)c; return CONTROL_AVOIDANCE; }
INLINE u64 ledbat_slowdowns(const struct ledbat *c) { (void)c; return 0; }

#endif
