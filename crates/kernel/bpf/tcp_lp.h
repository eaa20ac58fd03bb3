// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// TCP-LP (Kuzmanovic 2003, RFC 6297 §4.1) in integers: Reno that withdraws when the smoothed one-way delay passes 15 % of the range seen; the
// twin of crates/cc/src/scavenger/tcp_lp.rs with its default parameters. It is not Linux's `lp`, whose range starts afresh at every
// indication (net/ipv4/tcp_lp.c). Knows no kernel, no clock, no packet.
//
// Bounds: windows < 2^30 bytes, delays and spans < 2^33 ns, one acknowledgement <= 2^20 bytes; unsigned 64-bit division only.
#ifndef LOWTIDE_TCP_LP_H
#define LOWTIDE_TCP_LP_H

#include "control_events.h"

#define TCP_LP_THRESHOLD_PERCENT 15                // RFC 6297 §4.1
#define TCP_LP_SMOOTHING 3                         // RFC 6297 §4.1: a new delay weighs 2^-3
#define TCP_LP_INFERENCE_RTTS 3                    // tcp_lp.c, tcp_lp_pkts_acked: three round trips
#define TCP_LP_MIN_SEGMENTS 1                      // RFC 6297 §4.1
#define TCP_LP_MIN_SSTHRESH 2                      // RFC 5681 (4), segments
#define TCP_LP_INITIAL_SEGMENTS 10                 // RFC 6928

enum { tcp_lp_hears_owd = 1, tcp_lp_yields_to_others_only = 0 };

struct tcp_lp {
	u64 least, most;                               // ns: the range of the delay; least CONTROL_NONE before the first one
	u64 smoothed;                                  // 2^-16 ns
	u64 mss;                                       // bytes
	u64 cwnd, ssthresh, undo_cwnd, undo_ssthresh;  // 2^-16 bytes
	u64 reacted;                                   // ns: to an indication or a loss; CONTROL_NONE: never
	u64 inference;                                 // ns after `reacted`
	u8 learning;                                   // until the first loss the largest delay is still being learned
	u8 inferring;                                  // the window is held
	u8 pad[6];
};

INLINE u64 tcp_lp_floor(const struct tcp_lp *c) { return (TCP_LP_MIN_SEGMENTS * c->mss) << CONTROL_ONE; }

INLINE void tcp_lp_init(struct tcp_lp *c, const struct control_start *start)
{
	c->least = c->reacted = CONTROL_NONE;
	c->most = c->smoothed = c->inference = 0;
	c->mss = start->mss;
	c->cwnd = c->undo_cwnd = (start->window ? start->window : TCP_LP_INITIAL_SEGMENTS * c->mss) << CONTROL_ONE;
	c->ssthresh = c->undo_ssthresh = CONTROL_NONE;
	c->learning = 1;
	c->inferring = 0;
}

INLINE void tcp_lp_observe(struct tcp_lp *c, u64 owd)
{
	if (!owd)
		return;
	if (c->least == CONTROL_NONE)
		c->smoothed = owd << 16;
	c->least = min_u64(c->least, owd);
	c->most = max_u64(c->most, owd);
	c->smoothed += (owd << (16 - TCP_LP_SMOOTHING)) - (c->smoothed >> TCP_LP_SMOOTHING);
}

// How far above the least delay an indication begins, ns; CONTROL_NONE before the first.
INLINE u64 tcp_lp_target(const struct tcp_lp *c)
{
	return c->least == CONTROL_NONE ? CONTROL_NONE : (c->most - c->least) * TCP_LP_THRESHOLD_PERCENT / 100;
}

// The smoothed delay is above 15 % of its range; never without a new delay.
INLINE int tcp_lp_indicated(const struct tcp_lp *c, const struct control_ack *a)
{
	u64 range = c->most - c->least;

	return a->owd && 100 * (c->smoothed - (c->least << 16)) > TCP_LP_THRESHOLD_PERCENT * (range << 16);
}

INLINE void tcp_lp_react(struct tcp_lp *c, u64 now, u64 rtt, int persistent)
{
	c->cwnd = persistent ? tcp_lp_floor(c) : max_u64(c->cwnd >> 1, tcp_lp_floor(c));
	c->ssthresh = max_u64(c->cwnd, (TCP_LP_MIN_SSTHRESH * c->mss) << CONTROL_ONE);
	c->reacted = now;
	c->inference = TCP_LP_INFERENCE_RTTS * rtt;
}

// True if the window is not to grow. Within the inference phase an indication means persistent congestion. One reaction an RTT: what a
// reaction does shows one RTT later.
INLINE int tcp_lp_withdraw(struct tcp_lp *c, const struct control_ack *a)
{
	u64 rtt = a->rtt != CONTROL_NONE ? a->rtt : a->srtt;
	int ever = c->reacted != CONTROL_NONE, inside = ever && a->now < c->reacted + c->inference;

	if (tcp_lp_indicated(c, a) && (!ever || a->now >= c->reacted + rtt)) {
		tcp_lp_react(c, a->now, rtt, inside);
		return 1;
	}
	return inside;
}

// RFC 5681 by bytes.
INLINE void tcp_lp_grow(struct tcp_lp *c, const struct control_ack *a)
{
	if (c->cwnd < c->ssthresh) {
		if (a->limited || a->in_flight * 2 > c->cwnd >> CONTROL_ONE)
			c->cwnd = min_u64(c->cwnd + (a->acked << CONTROL_ONE), c->ssthresh);
	} else if (a->limited) {
		c->cwnd += (a->acked * ((c->mss << 40) / max_u64(c->cwnd >> 8, 1))) >> 16;
	}
	c->cwnd = min_u64(c->cwnd, CONTROL_MAX_WINDOW << CONTROL_ONE);
}

INLINE void tcp_lp_on_ack(struct tcp_lp *c, const struct control_ack *a)
{
	tcp_lp_observe(c, a->owd);
	if (a->in_recovery)
		return;
	c->inferring = !c->learning && tcp_lp_withdraw(c, a);
	if (!c->inferring)
		tcp_lp_grow(c, a);
}

INLINE void tcp_lp_on_congestion(struct tcp_lp *c, const struct control_congestion *e)
{
	u64 least = (TCP_LP_MIN_SSTHRESH * c->mss) << CONTROL_ONE;

	c->undo_cwnd = c->cwnd;
	c->undo_ssthresh = c->ssthresh;
	c->learning = 0;
	c->reacted = e->now;
	if (e->cause == CONTROL_TIMEOUT) {
		c->ssthresh = max_u64(e->in_flight << (CONTROL_ONE - 1), least);
		c->cwnd = min_u64(c->cwnd, c->mss << CONTROL_ONE);
	} else {
		c->ssthresh = max_u64(c->cwnd >> 1, least);
		c->cwnd = min_u64(c->cwnd, c->ssthresh);
	}
}

INLINE void tcp_lp_on_restart(struct tcp_lp *c, const struct control_restart *r)
{
	if (r->idle > r->rto)
		c->cwnd = min_u64(c->cwnd, (TCP_LP_INITIAL_SEGMENTS * c->mss) << CONTROL_ONE);
}

INLINE void tcp_lp_on_undo(struct tcp_lp *c, u64 now)
{
	(void)now;
	c->cwnd = c->undo_cwnd;
	c->ssthresh = c->undo_ssthresh;
}

INLINE void tcp_lp_on_mss(struct tcp_lp *c, u32 mss) { c->mss = mss; }

INLINE u64 tcp_lp_cwnd(const struct tcp_lp *c) { return c->cwnd; }
INLINE u64 tcp_lp_ssthresh(const struct tcp_lp *c) { return c->ssthresh; }
INLINE u64 tcp_lp_base(const struct tcp_lp *c) { return c->least; }

INLINE u64 tcp_lp_queueing(const struct tcp_lp *c)
{
	u64 smoothed = c->smoothed >> 16;

	return c->least == CONTROL_NONE ? CONTROL_NONE : smoothed - min_u64(smoothed, c->least);
}

INLINE u64 tcp_lp_phase(const struct tcp_lp *c)
{
	return c->inferring ? CONTROL_INFERENCE : c->cwnd < c->ssthresh ? CONTROL_SLOW_START : CONTROL_AVOIDANCE;
}

// What it has not: a pace, slowdowns.
INLINE u64 tcp_lp_pacing_rate(const struct tcp_lp *c) { (void)c; return 0; }
INLINE u64 tcp_lp_edge_step(const struct tcp_lp *c) { (void)c; return 0; }
INLINE u64 tcp_lp_slowdowns(const struct tcp_lp *c) { (void)c; return 0; }

#endif
