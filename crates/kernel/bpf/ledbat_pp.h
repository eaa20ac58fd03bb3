// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus-01, "-01") and its enhanced target (Bagnulo 2023 §7) in integers, as docs/algorithms/ledbat_pp.md
// has them; the twin of crates/cc/src/scavenger/ledbat_pp.rs. Knows no kernel, no clock, no packet.
//
// Bounds: windows < 2^30 bytes, spans < 2^33 ns, one acknowledgement <= 2^20 bytes; unsigned 64-bit division only.
#ifndef LOWTIDE_LEDBAT_PP_H
#define LOWTIDE_LEDBAT_PP_H

#include "control_events.h"
#include "delay.h"

#define LEDBAT_PP_TARGET_NS (60 * NS_PER_MS)       // -01 §4.2: T, unless the user wants less
#define LEDBAT_PP_MAX_DIVISOR 16                   // -01 §4.3
#define LEDBAT_PP_MIN_SEGMENTS 2                   // -01 §4.4: initial window, floor, freeze
#define LEDBAT_PP_FREEZE_RTTS 2                    // -01 §4.4
#define LEDBAT_PP_FIRST_SLOWDOWN_RTTS 2            // -01 §4.4
#define LEDBAT_PP_SLOWDOWN_INTERVAL_FACTOR 9       // -01 §4.4
#define LEDBAT_PP_DRAIN_RTTS 4                     // a receiver's sender that has nothing to drain

#define LEDBAT_PP_MOST_STRETCH 1024ULL              // more is no round trip of a network, but a sample that is none

enum { ledbat_pp_hears_owd = 0, ledbat_pp_yields_to_others_only = 0 };

struct ledbat_pp {
	struct delay delay;
	u64 mss;                           // bytes
	u64 target;                        // ns: T
	u64 least_target;                  // ns: what the host can tell from noise
	u64 burst;                         // segments that one acknowledgement releases; 0: as the draft
	u64 cwnd, ssthresh, quota, saved;  // 2^-16 bytes
	u64 round_end, next_slowdown, slowdown_start, freeze_end, drained;
	u64 way_back;                      // ns of the smoothed RTT: a queue on the way back that the samples leave out
	u64 peak, peak_before;             // bytes in flight, this round and the last
	u32 phase;
	u32 slowdowns;
	u8 enhanced;
	u8 receiver;                       // reductions are paid with received bytes: a slowdown begins with a drain
	u8 saved_halved, time_first_slowdown, in_recovery;
	u64 undo_cwnd, undo_ssthresh;      // what the last congestion episode changed
};

INLINE u64 ledbat_pp_floor(const struct ledbat_pp *c) { return (LEDBAT_PP_MIN_SEGMENTS * c->mss) << CONTROL_ONE; }

INLINE u64 ledbat_pp_half(u64 window, u64 floor) { return larger_u63(window >> 1, floor); }

INLINE void ledbat_pp_init(struct ledbat_pp *c, const struct control_start *start)
{
	delay_init(&c->delay);
	c->next_slowdown = c->drained = CONTROL_NONE;
	c->round_end = c->freeze_end = c->saved = c->way_back = c->peak = c->peak_before = 0;
	c->mss = start->mss;
	c->target = start->target ? start->target : LEDBAT_PP_TARGET_NS;
	c->least_target = start->least_target;
	c->burst = start->burst;
	c->cwnd = c->undo_cwnd = (start->window ? start->window : LEDBAT_PP_MIN_SEGMENTS * c->mss) << CONTROL_ONE;
	c->ssthresh = c->undo_ssthresh = CONTROL_NONE;
	c->quota = c->cwnd >> 1;
	c->slowdown_start = start->now;
	c->phase = CONTROL_SLOW_START;
	c->slowdowns = 0;
	c->enhanced = start->enhanced;
	c->receiver = start->receiver;
	c->saved_halved = c->time_first_slowdown = c->in_recovery = 0;
}

// ---- delay -------------------------------------------------------------------------------------------------------

// Without a sample the delay stays as it was for one RTT, then it counts as unknown.
INLINE u64 ledbat_pp_fresh_queueing(const struct ledbat_pp *c, const struct control_ack *a)
{
	if (c->delay.sampled == CONTROL_NONE || (a->rtt == CONTROL_NONE && a->now - c->delay.sampled > a->srtt))
		return CONTROL_NONE;
	return delay_queueing(&c->delay);
}

INLINE u64 ledbat_pp_target(const struct ledbat_pp *c)
{
	u64 target = c->enhanced ? lesser_u64(c->target, c->delay.base_min + (c->way_back & (0 - is_less_u64(c->delay.base_min, CONTROL_NONE)))) : c->target;

	return larger_u63(target, larger_u63(c->least_target, 1));
}

// A burst is a queue to whoever comes behind it, which its first segment does not see: the queueing delay of that one at which
// the burst's last bit is at the target. Below the time of the window's floor there is nothing to aim at.
INLINE u64 ledbat_pp_aim(const struct ledbat_pp *c, u64 segment)
{
	u64 target = ledbat_pp_target(c);

	return larger_u63(target - lesser_u63(c->burst * segment, target), lesser_u63(LEDBAT_PP_MIN_SEGMENTS * segment, target));
}

// The divisor of GAIN = 1 / min(16, ceil(2T / base)); T, also where the base RTT is the target.
INLINE u64 ledbat_pp_divisor(const struct ledbat_pp *c)
{
	if (c->delay.base_min == CONTROL_NONE || c->delay.base_min == 0)
		return LEDBAT_PP_MAX_DIVISOR;
	return lesser_u63(LEDBAT_PP_MAX_DIVISOR, (2 * c->target + c->delay.base_min - 1) / c->delay.base_min);
}

// ---- window ------------------------------------------------------------------------------------------------------

// A sender's slow start may go on while half the window is in use; a receiver knows whether its window was the limit.
INLINE int ledbat_pp_may_slow_start(const struct ledbat_pp *c, const struct control_ack *a)
{
	return a->limited || (!c->receiver && a->in_flight * 2 > c->cwnd >> CONTROL_ONE);
}

INLINE void ledbat_pp_slow_start(struct ledbat_pp *c, const struct control_ack *a)
{
	if (c->cwnd < c->ssthresh && ledbat_pp_may_slow_start(c, a))
		c->cwnd = lesser_u64(c->cwnd + (a->acked << CONTROL_ONE) / ledbat_pp_divisor(c), c->ssthresh);
}

// GAIN / W in 2^-32. Where round trips are s times longer by a queue on the way back, they are fewer and each has to carry more for the same rate:
// s^2 times as much keeps the rate growing as it would without that queue. Never by more than slow start's (1 + GAIN).
INLINE u64 ledbat_pp_growth(const struct ledbat_pp *c, const struct control_ack *a)
{
	u64 divisor = ledbat_pp_divisor(c), growth = (c->mss << 40) / (divisor * (c->cwnd >> 8)), most = larger_u63((1ULL << 32) / divisor, growth);
	u64 way_there = larger_u63(a->srtt - lesser_u63(c->way_back, a->srtt), 1);
	u64 stretch = lesser_u63((larger_u63(a->srtt, way_there) << 16) / way_there, LEDBAT_PP_MOST_STRETCH << 16);

	growth = lesser_u63((growth * stretch) >> 16, most);
	return lesser_u63((growth * stretch) >> 16, most);
}

// Per RTT: + GAIN up to the target, + max(GAIN - W (qd/T - 1), -W/2) above it, in proportion to what was acknowledged.
INLINE void ledbat_pp_avoid(struct ledbat_pp *c, const struct control_ack *a, u64 queueing)
{
	u64 target = ledbat_pp_aim(c, a->segment), excess, growth, due;

	if (queueing == CONTROL_NONE)
		return;
	growth = ledbat_pp_growth(c, a);
	// 16 times the target is past the cap of one half, also where an undo has brought back a window of fewer bytes than a segment has now.
	excess = (lesser_u63(larger_u63(queueing, target) - target, 16 * target) << 32) / target;
	if (excess <= growth) {
		c->cwnd += ((a->acked * (growth - excess)) >> 16) & (0 - (u64)a->limited);
		return;
	}
	due = (a->acked * (excess - growth)) >> 16;
	due = lesser_u63(due, a->acked << (CONTROL_ONE - 1));
	due = lesser_u63(due, c->quota);
	c->cwnd -= lesser_u63(due, c->cwnd); // A timeout leaves less window than this round may still take away.
	c->quota -= due;
}

// log2(x / 2^16) in 2^-16, for 2^16 <= x < 2^46; by repeated squaring. Without branches, for each would double what the
// kernel's verifier has to follow.
INLINE u64 ledbat_pp_log2(u64 x)
{
	u64 whole = 0, part = 0, over;

	for (u32 step = 16; step; step >>= 1) {
		over = ((1ULL << (16 + step)) - 1 - x) >> 63; // 1 if x / 2^16 >= 2^step
		OPAQUE(over);
		x >>= over * step;
		whole += over * step;
	}
	x <<= 15; // [2^31, 2^32)
	for (int i = 0; i < 16; i++) {
		x = (x * x) >> 31;
		over = x >> 32;
		OPAQUE(over);
		x >>= over;
		part = part << 1 | over;
	}
	return (whole << 16) | part;
}

// RTTs that a ramp from the floor to ssthresh takes, in 2^-16: max(ln(ssthresh / floor), 1) / ln(1 + GAIN).
INLINE u64 ledbat_pp_ramp_rtts(const struct ledbat_pp *c)
{
	// 1 / ln(1 + 1/D) in 2^-16, D = 1 .. 16.
	static const u32 inverse[LEDBAT_PP_MAX_DIVISOR] = { 94548, 161632, 227807, 293694, 359453, 425142, 490791, 556413,
		622017, 687608, 753189, 818763, 884331, 949895, 1015456, 1081013 };
	u64 ratio = c->ssthresh / larger_u63(LEDBAT_PP_MIN_SEGMENTS * c->mss, 1);
	u64 ln = ratio > 1ULL << 16 ? (ledbat_pp_log2(lesser_u63(ratio, 1ULL << 46)) * 2977044472ULL) >> 32 : 0;

	return (larger_u63(ln, 1ULL << 16) * inverse[(ledbat_pp_divisor(c) - 1) & (LEDBAT_PP_MAX_DIVISOR - 1)]) >> 16;
}

// ---- states (docs/algorithms/ledbat_pp.md) -------------------------------------------------------------------------

INLINE void ledbat_pp_end_initial_slow_start(struct ledbat_pp *c, u64 now, u64 srtt)
{
	c->next_slowdown = now + LEDBAT_PP_FIRST_SLOWDOWN_RTTS * srtt;
	c->phase = CONTROL_AVOIDANCE;
}

INLINE void ledbat_pp_end_slowdown(struct ledbat_pp *c, u64 now)
{
	c->next_slowdown = now + LEDBAT_PP_SLOWDOWN_INTERVAL_FACTOR * (now - c->slowdown_start);
	c->phase = CONTROL_AVOIDANCE;
}

INLINE void ledbat_pp_start_slowdown(struct ledbat_pp *c, const struct control_ack *a)
{
	c->saved = c->ssthresh = c->cwnd;
	c->saved_halved = 0;
	c->cwnd = ledbat_pp_floor(c);
	c->slowdown_start = a->now;
	c->drained = c->next_slowdown = CONTROL_NONE;
	c->freeze_end = a->now + LEDBAT_PP_FREEZE_RTTS * a->srtt;
	c->phase = c->receiver ? CONTROL_DRAIN : CONTROL_FREEZE;
	c->slowdowns++;
}

// The smoothed RTT may be shorter than the old flight needs to drain: ask for one acknowledgement of something that was
// sent when no more than the floor was left.
INLINE int ledbat_pp_has_seen_the_drained_queue(struct ledbat_pp *c, const struct control_ack *a)
{
	u64 left = a->in_flight > a->acked ? a->in_flight - a->acked : 0, floor = LEDBAT_PP_MIN_SEGMENTS * c->mss;

	if (c->receiver) // The drain came before the freeze.
		return 1;
	if (c->drained == CONTROL_NONE && left <= floor)
		c->drained = a->delivered;
	return c->drained != CONTROL_NONE && (a->prior_delivered >= c->drained || a->in_flight <= floor);
}

// True if a slowdown starts here.
INLINE int ledbat_pp_time_transitions(struct ledbat_pp *c, const struct control_ack *a)
{
	u64 floor = LEDBAT_PP_MIN_SEGMENTS * c->mss;

	if (c->phase == CONTROL_AVOIDANCE && !a->in_recovery && c->next_slowdown != CONTROL_NONE && a->now >= c->next_slowdown) {
		if (c->cwnd > ledbat_pp_floor(c) && (c->peak > floor || c->peak_before > floor)) {
			ledbat_pp_start_slowdown(c, a);
			return 1;
		}
		c->next_slowdown = a->now + 2 * LEDBAT_PP_SLOWDOWN_INTERVAL_FACTOR * a->srtt;
	} else if (c->phase == CONTROL_DRAIN) {
		if (a->drained) {
			c->phase = CONTROL_FREEZE;
			c->freeze_end = a->now + LEDBAT_PP_FREEZE_RTTS * a->srtt;
		} else if (a->now - c->slowdown_start > LEDBAT_PP_DRAIN_RTTS * a->srtt) {
			c->phase = CONTROL_RAMP; // The sender has nothing left to drain.
		}
	} else if (c->phase == CONTROL_FREEZE && a->now >= c->freeze_end && ledbat_pp_has_seen_the_drained_queue(c, a)) {
		c->phase = CONTROL_RAMP;
	}
	return 0;
}

INLINE void ledbat_pp_on_initial_slow_start(struct ledbat_pp *c, const struct control_ack *a, u64 queueing)
{
	if (queueing != CONTROL_NONE && 4 * queueing > 3 * ledbat_pp_target(c)) { // -01 §4.3: 3/4 of the target
		c->ssthresh = c->cwnd;
		ledbat_pp_end_initial_slow_start(c, a->now, a->srtt);
		return;
	}
	ledbat_pp_slow_start(c, a);
	if (c->cwnd >= c->ssthresh)
		ledbat_pp_end_initial_slow_start(c, a->now, a->srtt);
}

INLINE void ledbat_pp_on_ramp(struct ledbat_pp *c, const struct control_ack *a)
{
	ledbat_pp_slow_start(c, a);
	if (c->cwnd >= c->ssthresh) {
		ledbat_pp_end_slowdown(c, a->now);
	} else if (!ledbat_pp_may_slow_start(c, a)) {
		// A flow that does not use its window would never reach the old one: give up after twice the time it should take.
		u64 rtts = 2 * ledbat_pp_ramp_rtts(c) + (LEDBAT_PP_FREEZE_RTTS << 16);

		if (a->now - c->slowdown_start > (a->srtt * rtts) >> 16)
			ledbat_pp_end_slowdown(c, a->now);
	}
}

INLINE void ledbat_pp_on_slow_start_rto(struct ledbat_pp *c, const struct control_ack *a, u64 queueing)
{
	if (queueing != CONTROL_NONE && queueing > ledbat_pp_target(c)) {
		c->phase = CONTROL_AVOIDANCE;
		return;
	}
	ledbat_pp_slow_start(c, a);
	if (c->cwnd >= c->ssthresh)
		c->phase = CONTROL_AVOIDANCE;
}

// ---- events ------------------------------------------------------------------------------------------------------

// The order is that of docs/algorithms/ledbat_pp.md.
INLINE void ledbat_pp_on_ack(struct ledbat_pp *c, const struct control_ack *a)
{
	u64 queueing;

	c->way_back = a->way_back;
	if (a->rtt != CONTROL_NONE)
		delay_sample(&c->delay, a->now, a->rtt);
	if (a->prior_delivered >= c->round_end) {
		c->round_end = a->delivered;
		c->quota = c->cwnd >> 1;
		c->peak_before = c->peak;
		c->peak = a->in_flight;
	}
	c->peak = larger_u63(c->peak, a->in_flight);
	if (c->in_recovery && !a->in_recovery && c->time_first_slowdown) {
		ledbat_pp_end_initial_slow_start(c, a->now, a->srtt);
		c->time_first_slowdown = 0;
	}
	c->in_recovery = a->in_recovery;
	if (ledbat_pp_time_transitions(c, a) || a->in_recovery)
		return;
	queueing = ledbat_pp_fresh_queueing(c, a);
	if (c->phase == CONTROL_SLOW_START)
		ledbat_pp_on_initial_slow_start(c, a, queueing);
	else if (c->phase == CONTROL_AVOIDANCE)
		ledbat_pp_avoid(c, a, queueing);
	else if (c->phase == CONTROL_RAMP)
		ledbat_pp_on_ramp(c, a);
	else if (c->phase == CONTROL_SLOW_START_AFTER_TIMEOUT)
		ledbat_pp_on_slow_start_rto(c, a, queueing);
	else
		c->cwnd = ledbat_pp_floor(c);
	c->cwnd = lesser_u63(larger_u63(c->cwnd, ledbat_pp_floor(c)), CONTROL_MAX_WINDOW << CONTROL_ONE);
}

INLINE void ledbat_pp_on_loss(struct ledbat_pp *c, const struct control_congestion *e)
{
	if (c->phase == CONTROL_FREEZE || c->phase == CONTROL_DRAIN) {
		if (!c->saved_halved)
			c->ssthresh = ledbat_pp_half(c->saved, ledbat_pp_floor(c));
		c->saved_halved = 1;
		return;
	}
	c->ssthresh = c->cwnd = ledbat_pp_half(c->cwnd, ledbat_pp_floor(c));
	if (c->phase == CONTROL_SLOW_START) {
		ledbat_pp_end_initial_slow_start(c, e->now, e->srtt);
		c->time_first_slowdown = 1;
	} else if (c->phase == CONTROL_RAMP) {
		ledbat_pp_end_slowdown(c, e->now);
	} else {
		c->phase = CONTROL_AVOIDANCE;
	}
}

// Senders only: a receiver sees no timer but its own.
INLINE void ledbat_pp_on_timeout(struct ledbat_pp *c, u64 in_flight)
{
	c->ssthresh = ledbat_pp_half(c->phase == CONTROL_FREEZE ? c->saved : in_flight << CONTROL_ONE, ledbat_pp_floor(c));
	if (c->phase == CONTROL_AVOIDANCE)
		c->phase = CONTROL_SLOW_START_AFTER_TIMEOUT;
	else if (c->phase == CONTROL_FREEZE)
		c->phase = CONTROL_RAMP;
	c->cwnd = lesser_u63(c->cwnd, c->mss << CONTROL_ONE);
}

// A CE mark counts as a loss (RFC 3168 §5); the draft does not say.
INLINE void ledbat_pp_on_congestion(struct ledbat_pp *c, const struct control_congestion *e)
{
	c->undo_cwnd = c->cwnd;
	c->undo_ssthresh = c->ssthresh;
	if (e->cause == CONTROL_TIMEOUT)
		ledbat_pp_on_timeout(c, e->in_flight);
	else
		ledbat_pp_on_loss(c, e);
}

// The state stays: a slowdown that the episode has put off or begun goes on.
INLINE void ledbat_pp_on_undo(struct ledbat_pp *c, u64 now)
{
	(void)now;
	c->cwnd = c->undo_cwnd;
	c->ssthresh = c->undo_ssthresh;
}

// A pause longer than the retransmission timeout has drained the queue: what follows is the ramp of a slowdown that began now.
INLINE void ledbat_pp_on_restart(struct ledbat_pp *c, const struct control_restart *r)
{
	u64 old = c->cwnd, part = (old >> 2) * 3 + ((old & 3) * 3 >> 2);

	if (r->idle <= r->rto)
		return;
	delay_forget_current(&c->delay);
	c->cwnd = lesser_u63(old, ledbat_pp_floor(c));
	if (c->phase == CONTROL_SLOW_START || c->phase == CONTROL_FREEZE || c->phase == CONTROL_DRAIN)
		return;
	c->ssthresh = c->ssthresh == CONTROL_NONE ? part : larger_u63(c->ssthresh, part);
	c->slowdown_start = r->now;
	c->phase = CONTROL_RAMP;
}

// The peer's segments have another size: windows keep their bytes.
INLINE void ledbat_pp_on_mss(struct ledbat_pp *c, u32 mss)
{
	c->mss = mss;
	c->cwnd = larger_u63(c->cwnd, ledbat_pp_floor(c));
}

// ---- answers -----------------------------------------------------------------------------------------------------

INLINE u64 ledbat_pp_cwnd(const struct ledbat_pp *c) { return c->cwnd; }
INLINE u64 ledbat_pp_ssthresh(const struct ledbat_pp *c) { return c->ssthresh; }
INLINE u64 ledbat_pp_phase(const struct ledbat_pp *c) { return c->phase; }
INLINE u64 ledbat_pp_base(const struct ledbat_pp *c) { return c->delay.base_min; }
INLINE u64 ledbat_pp_queueing(const struct ledbat_pp *c) { return delay_queueing(&c->delay); }
INLINE u64 ledbat_pp_slowdowns(const struct ledbat_pp *c) { return c->slowdowns; }

// It leaves pacing to its host.
INLINE u64 ledbat_pp_edge_step(const struct ledbat_pp *c) { (void)c; return 0; }
INLINE u64 ledbat_pp_pacing_rate(const struct ledbat_pp *c)
{
	(void)c;
	return 0;
}

#endif
