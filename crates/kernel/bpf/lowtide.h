// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Our own control (docs/algorithms/lowtide.md) for a sender that paces, and for a receive window; bit for bit the twin of
// crates/cc/src/scavenger/lowtide.rs; lowtide/*.h stand for the files of the same names there. Knows no kernel, no clock, no packet.
//
// Bounds: windows < 2^40 bytes, delays < 2^34 ns, one acknowledgement <= 2^20 bytes; unsigned 64-bit division only.
#ifndef LOWTIDE_LOWTIDE_H
#define LOWTIDE_LOWTIDE_H

#include "lowtide/probe.h"

enum { lowtide_hears_owd = 0, lowtide_yields_to_others_only = 1 };

INLINE void lowtide_init(struct lowtide *c, const struct control_start *start)
{
	lowtide_signals_init(&c->signals, start);
	c->floor.relapse_until = c->floor.left_at = c->floor.mark = c->floor.hold_until = c->floor.most = 0;
	c->floor.doubt_at = c->floor.arrived = 0;
	c->floor.pairs = c->floor.uneven = c->floor.between = c->floor.trusted = c->floor.doubted = c->floor.noisy = 0;
	c->floor.least = LOWTIDE_NONE;
	c->floor.noise = LOWTIDE_NOISE;
	c->floor.listen_from = 0;
	c->floor.listen_again = LOWTIDE_LISTEN_AGAIN;
	for (int i = 0; i < LOWTIDE_QUEUES; i++)
		c->floor.queues[i] = 0;
	c->floor.random = start->seed | 1;
	c->floor.level = c->floor.met = c->floor.samples = c->floor.busy = 0;
	lowtide_set_step(c, LOWTIDE_GROWING, 0, 0, 0);
	lowtide_receiving_init(c);
	c->window = 2 * c->signals.mss;
	c->no_alarm_before = c->calm_step = c->saved = c->drain_until = 0;
	c->state = LOWTIDE_START;
	c->calm = c->pauses = c->yields = 0;
}

// Whether the RTT of `a` is one of the queue. In the small windows of growth a lone segment's acknowledgement may have waited for a second.
INLINE int lowtide_is_sample(const struct lowtide *c, const struct control_ack *a)
{
	if (NOW_IS(c->state) == LOWTIDE_START || NOW_IS(c->state) == LOWTIDE_PROBE)
		return lowtide_receives(&c->signals) || !(a->acked <= c->signals.mss && c->window < 24 * c->signals.mss);
	return NOW_IS(c->state) != LOWTIDE_LAW || !lowtide_met_a_stall(&c->signals, a);
}

INLINE void lowtide_on_ack(struct lowtide *c, const struct control_ack *a)
{
	struct lowtide_signals *s = &c->signals;
	u64 rtt = a->rtt != CONTROL_NONE ? lowtide_clamp(a->rtt / 1000, 1, LOWTIDE_TIME_MAX) : 0;

	if (lowtide_receives(s))
		lowtide_note_arrival(c, a);
	lowtide_observe(s, a, NOW_IS(c->state) == LOWTIDE_LAW && c->window > 8 * s->mss);
	if (rtt) {
		lowtide_take_base(s, rtt);
		if (lowtide_is_sample(c, a)) {
			lowtide_take_rtt(s, rtt, c->window);
			if (!lowtide_receives(s) && NOW_IS(c->state) != LOWTIDE_FLOOR && NOW_IS(c->state) != LOWTIDE_DRAIN)
				lowtide_bunches_take(&s->bunches, s->now, rtt, s->srtt, s->serialisation);
		}
	}
	if (!s->base)
		return;
	if ((NOW_IS(c->state) == LOWTIDE_FLOOR || NOW_IS(c->state) == LOWTIDE_PROBE) && (a->lost > 0 || a->ce > 0))
		lowtide_refuse_to_listen(&c->floor, s->now);
	if (!lowtide_receives(s) && (a->lost > 0 || a->ce > 0))
		lowtide_forget_unevenness(s);
	lowtide_measure_line(s, NOW_IS(c->state) == LOWTIDE_LAW);
	if (NOW_IS(c->state) == LOWTIDE_START || NOW_IS(c->state) == LOWTIDE_PROBE)
		lowtide_grow(c, a);
	else if (NOW_IS(c->state) == LOWTIDE_LAW)
		lowtide_watch(c, a);
	else if (NOW_IS(c->state) == LOWTIDE_DRAIN)
		lowtide_in_drain(c);
	else if (rtt)
		lowtide_in_floor(c, a, rtt);
	if (lowtide_round_over(s, a))
		lowtide_on_round(c, a);
	if (lowtide_receives(s))
		lowtide_keep_to_what_is_used(c, a);
}

// A loss alone says nothing here: `lost` of acknowledgements counts them by round. A timeout leaves one segment (RFC 5681 3.1, RFC 6817 2.4.2),
// from which it grows anew; FLOOR sends less than that already.
INLINE void lowtide_on_congestion(struct lowtide *c, const struct control_congestion *e)
{
	if (e->cause != CONTROL_TIMEOUT || NOW_IS(c->state) == LOWTIDE_FLOOR)
		return;
	if (NOW_IS(c->state) != LOWTIDE_START)
		lowtide_begin_probe(c);
	c->window = c->signals.mss;
}

// Data again after a pause: a receiver does not know what the line has now. A sender's own pace tells.
INLINE void lowtide_on_restart(struct lowtide *c, const struct control_restart *r)
{
	(void)r;
	if (lowtide_receives(&c->signals) && (NOW_IS(c->state) == LOWTIDE_LAW || NOW_IS(c->state) == LOWTIDE_DRAIN))
		lowtide_begin_probe(c);
}

// A spurious episode changes nothing.
INLINE void lowtide_on_undo(struct lowtide *c, u64 now) { (void)c; (void)now; }

INLINE void lowtide_on_mss(struct lowtide *c, u32 mss) { lowtide_signals_on_mss(&c->signals, larger_u63(mss, 1)); }

INLINE u64 lowtide_cwnd(const struct lowtide *c)
{
	return (NOW_IS(c->state) == LOWTIDE_FLOOR ? larger_u63(lowtide_floor_window(c), 1) : c->window) << CONTROL_ONE;
}

// Pairs at the floor are the host's to space. Growth must outrun the window's own round trip; beyond it a tenth lets the window, not the pace,
// decide.
INLINE u64 lowtide_pacing_rate(const struct lowtide *c)
{
	const struct lowtide_signals *s = &c->signals;
	u64 percent = NOW_IS(c->state) == LOWTIDE_LAW || NOW_IS(c->state) == LOWTIDE_DRAIN ? 110 : 130;

	if (NOW_IS(c->state) == LOWTIDE_FLOOR)
		return 0;
	return lowtide_rate_of(c->window, s->base ? lowtide_round_trip(s) + s->queue : s->srtt) * 8 / 100 * percent / 8;
}

// Growth by doubling needs two segments for one that arrived.
INLINE u64 lowtide_edge_step(const struct lowtide *c)
{
	if (!lowtide_receives(&c->signals))
		return 0;
	return NOW_IS(c->state) == LOWTIDE_START || NOW_IS(c->state) == LOWTIDE_PROBE ? 2 * c->signals.mss : c->signals.mss;
}

INLINE u64 lowtide_phase(const struct lowtide *c)
{
	return NOW_IS(c->state) == LOWTIDE_START ? CONTROL_SLOW_START : NOW_IS(c->state) == LOWTIDE_LAW ? CONTROL_ALONE : NOW_IS(c->state) == LOWTIDE_DRAIN ? CONTROL_DRAIN
	       : NOW_IS(c->state) == LOWTIDE_FLOOR ? CONTROL_YIELDING : CONTROL_PROBING;
}

INLINE u64 lowtide_base(const struct lowtide *c) { return c->signals.base ? c->signals.base * 1000 : CONTROL_NONE; }
INLINE u64 lowtide_queueing(const struct lowtide *c) { return c->signals.base ? c->signals.queue * 1000 : CONTROL_NONE; }
INLINE u64 lowtide_target(const struct lowtide *c) { return c->signals.alarm * 1000; }
INLINE u64 lowtide_slowdowns(const struct lowtide *c) { return c->yields; }
INLINE u64 lowtide_ssthresh(const struct lowtide *c) { (void)c; return CONTROL_NONE; }

#endif
