// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// TCP-NICE (Venkataramani 2002) in integers: Vegas that halves its window when many RTTs of a round lie high in the range seen; the twin of
// crates/cc/src/scavenger/tcp_nice.rs with its default parameters. Knows no kernel, no clock, no packet: its window goes down to 1/48 of a
// segment, which a host spaces as it can.
//
// Bounds: windows < 2^30 bytes, delays and spans < 2^33 ns, one acknowledgement <= 2^20 bytes; unsigned 64-bit division only.
#ifndef LOWTIDE_TCP_NICE_H
#define LOWTIDE_TCP_NICE_H

#include "control_events.h"

#define TCP_NICE_THRESHOLD 5                       // t = 1/5 (the paper's prototype, Carofiglio 2010)
#define TCP_NICE_FRACTION 2                        // f = 1/2
#define TCP_NICE_ALPHA 1                           // segments in the queue: Vegas grows below,
#define TCP_NICE_BETA 3                            // shrinks above,
#define TCP_NICE_GAMMA 1                           // and leaves slow start above
#define TCP_NICE_MIN_DIVISOR 48                    // the least window is 1/48 segment
#define TCP_NICE_LEAST_SPREAD_NS (1 * NS_PER_MS)   // of RTTs: below it the threshold drowns in noise
#define TCP_NICE_LEAST_SAMPLES 3                   // Linux tcp_vegas.c, unless the window itself is smaller
#define TCP_NICE_PAIR 2                            // below this window a round is a period with two segments in it
#define TCP_NICE_INITIAL_SEGMENTS 10               // RFC 6928
#define TCP_NICE_MIN_SSTHRESH 2                    // RFC 5681 (4), segments

enum { tcp_nice_hears_owd = 0, tcp_nice_yields_to_others_only = 0 };

struct tcp_nice {
	u64 least, most;                               // ns: the range of RTTs; least CONTROL_NONE before the first one
	u64 mss;                                       // bytes
	u64 cwnd, ssthresh, undo_cwnd, undo_ssthresh;  // 2^-16 bytes
	u64 round_end;
	u64 seen, high;                                // bytes of this round with an RTT, and of those with a high one
	u64 round_least, last_round_least;             // ns: the smallest RTT of this round and of the one before
	u32 samples;                                   // of this round
	u8 lost, limited, pad[2];
};

INLINE u64 tcp_nice_segments(const struct tcp_nice *c, u64 segments) { return (segments * c->mss) << CONTROL_ONE; }

INLINE void tcp_nice_clamp(struct tcp_nice *c)
{
	c->cwnd = min_u64(max_u64(c->cwnd, tcp_nice_segments(c, 1) / TCP_NICE_MIN_DIVISOR), CONTROL_MAX_WINDOW << CONTROL_ONE);
}

INLINE void tcp_nice_start_round(struct tcp_nice *c)
{
	if (c->round_least != CONTROL_NONE)
		c->last_round_least = c->round_least;
	c->round_least = CONTROL_NONE;
	c->seen = c->high = 0;
	c->samples = 0;
	c->lost = c->limited = 0;
}

INLINE void tcp_nice_init(struct tcp_nice *c, const struct control_start *start)
{
	c->least = c->round_least = c->last_round_least = CONTROL_NONE;
	c->most = c->round_end = 0;
	c->mss = start->mss;
	c->cwnd = c->undo_cwnd = (start->window ? start->window : TCP_NICE_INITIAL_SEGMENTS * c->mss) << CONTROL_ONE;
	c->ssthresh = c->undo_ssthresh = CONTROL_NONE;
	tcp_nice_start_round(c);
}

// By bytes rather than by acknowledgements: with delayed ones no more than half the window could ever be high.
INLINE void tcp_nice_observe(struct tcp_nice *c, const struct control_ack *a)
{
	if (a->rtt == CONTROL_NONE)
		return;
	c->least = min_u64(c->least, a->rtt);
	c->most = max_u64(c->most, a->rtt);
	c->round_least = min_u64(c->round_least, a->rtt);
	c->samples++;
	c->seen += a->acked;
	// rtt > (1 - t) least + t most
	if (c->most - c->least >= TCP_NICE_LEAST_SPREAD_NS &&
	    TCP_NICE_THRESHOLD * a->rtt > (TCP_NICE_THRESHOLD - 1) * c->least + c->most)
		c->high += a->acked;
}

// Segments of the window that stand in the queue, W (1 - least / round's least), as 2^-16 bytes.
INLINE u64 tcp_nice_queued(const struct tcp_nice *c)
{
	u64 round_least = max_u64(c->round_least, 1);
	u64 part = (round_least - min_u64(c->least, round_least)) << 30;

	return ((c->cwnd >> 12) * (part / round_least)) >> 18;
}

INLINE void tcp_nice_vegas(struct tcp_nice *c)
{
	u64 enough = c->cwnd < tcp_nice_segments(c, TCP_NICE_LEAST_SAMPLES) ? 1 : TCP_NICE_LEAST_SAMPLES;
	u64 segment = tcp_nice_segments(c, 1), queued;

	if (c->samples < enough)
		return;
	queued = tcp_nice_queued(c);
	if (c->cwnd < c->ssthresh) {
		if (queued > TCP_NICE_GAMMA * segment)
			c->ssthresh = c->cwnd = min_u64(c->cwnd, c->cwnd - queued + segment);
	} else if (queued < TCP_NICE_ALPHA * segment) {
		if (c->limited)
			c->cwnd += segment;
	} else if (queued > TCP_NICE_BETA * segment) {
		c->cwnd -= min_u64(segment, c->cwnd);
	}
}

// A loss rules the round, then NICE, then Vegas.
INLINE void tcp_nice_end_round(struct tcp_nice *c)
{
	// Below a pair a round is as many segments as the host sends in a period: two, or one.
	u64 pair = min_u64(tcp_nice_segments(c, TCP_NICE_PAIR), c->seen << CONTROL_ONE);

	if (!c->lost) {
		if (TCP_NICE_FRACTION * (c->high << CONTROL_ONE) > max_u64(c->cwnd, pair))
			c->ssthresh = c->cwnd = c->cwnd >> 1;
		else
			tcp_nice_vegas(c);
	}
	tcp_nice_clamp(c);
	tcp_nice_start_round(c);
}

INLINE void tcp_nice_on_ack(struct tcp_nice *c, const struct control_ack *a)
{
	tcp_nice_observe(c, a);
	// A window below one segment is always the limit: its pace is.
	c->limited |= a->limited || c->cwnd < tcp_nice_segments(c, 1);
	if (a->in_recovery)
		c->lost = 1;
	else if (c->cwnd < c->ssthresh && (a->limited || a->in_flight * 2 > c->cwnd >> CONTROL_ONE))
		c->cwnd = min_u64(min_u64(c->cwnd + (a->acked << CONTROL_ONE), c->ssthresh), CONTROL_MAX_WINDOW << CONTROL_ONE);
	if (a->prior_delivered >= c->round_end) {
		c->round_end = a->delivered;
		tcp_nice_end_round(c);
	}
}

INLINE void tcp_nice_on_congestion(struct tcp_nice *c, const struct control_congestion *e)
{
	c->undo_cwnd = c->cwnd;
	c->undo_ssthresh = c->ssthresh;
	c->lost = 1;
	if (e->cause == CONTROL_TIMEOUT) {
		c->ssthresh = max_u64(e->in_flight << (CONTROL_ONE - 1), tcp_nice_segments(c, TCP_NICE_MIN_SSTHRESH));
		c->cwnd = min_u64(c->cwnd, tcp_nice_segments(c, 1));
	} else {
		c->cwnd >>= 1;
		tcp_nice_clamp(c);
		c->ssthresh = c->cwnd;
	}
}

INLINE void tcp_nice_on_restart(struct tcp_nice *c, const struct control_restart *r)
{
	if (r->idle <= r->rto)
		return;
	tcp_nice_start_round(c);
	c->cwnd = min_u64(c->cwnd, tcp_nice_segments(c, TCP_NICE_INITIAL_SEGMENTS));
}

INLINE void tcp_nice_on_undo(struct tcp_nice *c, u64 now)
{
	(void)now;
	c->cwnd = c->undo_cwnd;
	c->ssthresh = c->undo_ssthresh;
}

INLINE void tcp_nice_on_mss(struct tcp_nice *c, u32 mss)
{
	c->mss = mss;
	tcp_nice_clamp(c);
}

INLINE u64 tcp_nice_cwnd(const struct tcp_nice *c) { return c->cwnd; }
INLINE u64 tcp_nice_ssthresh(const struct tcp_nice *c) { return c->ssthresh; }
INLINE u64 tcp_nice_base(const struct tcp_nice *c) { return c->least; }
INLINE u64 tcp_nice_phase(const struct tcp_nice *c) { return c->cwnd < c->ssthresh ? CONTROL_SLOW_START : CONTROL_AVOIDANCE; }

INLINE u64 tcp_nice_queueing(const struct tcp_nice *c)
{
	u64 least = c->round_least != CONTROL_NONE ? c->round_least : c->last_round_least;

	return least == CONTROL_NONE ? CONTROL_NONE : least - min_u64(c->least, least);
}

// How far above the least RTT a high one begins.
INLINE u64 tcp_nice_target(const struct tcp_nice *c)
{
	return c->least == CONTROL_NONE ? CONTROL_NONE : (c->most - c->least) / TCP_NICE_THRESHOLD;
}

// What it has not: a pace, slowdowns.
INLINE u64 tcp_nice_pacing_rate(const struct tcp_nice *c) { (void)c; return 0; }
INLINE u64 tcp_nice_edge_step(const struct tcp_nice *c) { (void)c; return 0; }
INLINE u64 tcp_nice_slowdowns(const struct tcp_nice *c) { (void)c; return 0; }

#endif
