// LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus-01) and its enhanced target (Bagnulo 2023 §7) in integers: the mirror of
// crates/cc/src/ledbat_pp.rs, event by event. Knows no kernel, no clock, no packet.
//
// Bounds: windows < 2^30 bytes, spans < 2^33 ns, one acknowledgement <= 2^20 bytes; unsigned 64-bit division only.
#ifndef LOWTIDE_CC_H
#define LOWTIDE_CC_H

#include "delay.h"

#define CC_TARGET_NS (60 * NS_PER_MS)      // -01 §4.2: T, unless the user wants less
#define CC_MAX_DIVISOR 16                  // -01 §4.3
#define CC_MIN_SEGMENTS 2                  // -01 §4.4: initial window, floor, freeze
#define CC_FREEZE_RTTS 2                   // -01 §4.4
#define CC_FIRST_SLOWDOWN_RTTS 2           // -01 §4.4
#define CC_PERIOD 9                        // -01 §4.4
#define CC_DRAIN_RTTS 4                    // spec F.5 step 7: a sender that has nothing to drain
#define CC_MAX_WINDOW (1ULL << 30)
#define CC_MAX_ACKED (1ULL << 20)
#define CC_NONE DELAY_NONE
#define CC_ONE 16                          // windows are kept in 2^-16 bytes

enum cc_phase { CC_SLOW_START, CC_AVOIDANCE, CC_DRAIN, CC_FREEZE, CC_RAMP, CC_SLOW_START_RTO };

struct cc {
	struct delay delay;
	u64 mss;                           // bytes
	u64 target;                        // ns: T
	u64 least_target;                  // ns: what the host can tell from noise
	u64 burst;                         // segments that one acknowledgement releases; 0: as the draft
	u64 cwnd, ssthresh, quota, saved;  // 2^-16 bytes
	u64 round_end, next_slowdown, slowdown_start, freeze_end, drained;
	u64 peak, peak_before;             // bytes in flight, this round and the last
	u32 phase;
	u32 slowdowns;
	u8 enhanced;
	u8 receiver;                       // reductions are paid with received bytes: a slowdown begins with a drain
	u8 saved_halved, time_first_slowdown, in_recovery;
};

// One acknowledgement (cc::Ack), or at a receiver one segment with payload.
struct cc_ack {
	u64 now, acked, in_flight;
	u64 rtt;                           // CC_NONE: no sample
	u64 srtt;
	u64 segment;                       // how long a segment takes at the bottleneck; 0: unknown
	u64 delivered, prior_delivered;    // any clock that rises with delivery: the clock of rounds
	u8 limited, in_recovery;
	u8 drained;                        // receiver only: the old permission has been used up
};

INLINE u64 cc_floor(const struct cc *c) { return (CC_MIN_SEGMENTS * c->mss) << CC_ONE; }

INLINE u64 cc_window(const struct cc *c) { return c->cwnd >> CC_ONE; }

INLINE u64 cc_half(u64 window, u64 floor) { return max_u64(window >> 1, floor); }

INLINE void cc_init(struct cc *c, u64 now, u64 mss, u64 window, u8 enhanced, u8 receiver)
{
	delay_init(&c->delay);
	c->next_slowdown = c->drained = CC_NONE;
	c->round_end = c->freeze_end = c->saved = c->peak = c->peak_before = 0;
	c->mss = mss;
	c->target = CC_TARGET_NS;
	c->least_target = c->burst = 0;
	c->cwnd = window << CC_ONE;
	c->ssthresh = CC_NONE;
	c->quota = c->cwnd >> 1;
	c->slowdown_start = now;
	c->phase = CC_SLOW_START;
	c->slowdowns = 0;
	c->enhanced = enhanced;
	c->receiver = receiver;
	c->saved_halved = c->time_first_slowdown = c->in_recovery = 0;
}

// ---- delay -------------------------------------------------------------------------------------------------------

// D.3: without a sample the delay stays as it was for one RTT, then it counts as unknown.
INLINE u64 cc_fresh_queueing(const struct cc *c, const struct cc_ack *a)
{
	if (c->delay.sampled == CC_NONE || (a->rtt == CC_NONE && a->now - c->delay.sampled > a->srtt))
		return CC_NONE;
	return delay_queueing(&c->delay);
}

INLINE u64 cc_target(const struct cc *c)
{
	u64 target = c->enhanced ? min_u64(c->target, c->delay.base_min) : c->target;

	return max_u64(target, max_u64(c->least_target, 1));
}

// A burst is a queue to whoever comes behind it, which its first segment does not see: the queueing delay of that one at which
// the burst's last bit is at the target. Below the time of the window's floor there is nothing to aim at.
INLINE u64 cc_aim(const struct cc *c, u64 segment)
{
	u64 target = cc_target(c);

	return max_u64(target - min_u64(c->burst * segment, target), min_u64(CC_MIN_SEGMENTS * segment, target));
}

// The divisor of GAIN = 1 / min(16, ceil(2T / base)); T, also where the base RTT is the target.
INLINE u64 cc_divisor(const struct cc *c)
{
	if (c->delay.base_min == CC_NONE || c->delay.base_min == 0)
		return CC_MAX_DIVISOR;
	return min_u64(CC_MAX_DIVISOR, (2 * c->target + c->delay.base_min - 1) / c->delay.base_min);
}

// ---- window ------------------------------------------------------------------------------------------------------

// A sender's slow start may go on while half the window is in use; a receiver knows whether its window was the limit.
INLINE int cc_may_slow_start(const struct cc *c, const struct cc_ack *a)
{
	return a->limited || (!c->receiver && a->in_flight * 2 > cc_window(c));
}

INLINE void cc_slow_start(struct cc *c, const struct cc_ack *a)
{
	if (c->cwnd < c->ssthresh && cc_may_slow_start(c, a))
		c->cwnd = min_u64(c->cwnd + (a->acked << CC_ONE) / cc_divisor(c), c->ssthresh);
}

// Per RTT: + GAIN up to the target, + max(GAIN - W (qd/T - 1), -W/2) above it, in proportion to what was acknowledged.
INLINE void cc_avoid(struct cc *c, const struct cc_ack *a, u64 queueing)
{
	u64 target = cc_aim(c, a->segment), excess = 0, growth, due;

	if (queueing == CC_NONE)
		return;
	growth = (c->mss << 40) / (cc_divisor(c) * (c->cwnd >> 8)); // GAIN / W in 2^-32
	if (queueing > target) // Four times the target is past the cap of one half already.
		excess = (min_u64(queueing - target, 4 * target) << 32) / target;
	if (excess <= growth) {
		if (a->limited)
			c->cwnd += (a->acked * (growth - excess)) >> 16;
		return;
	}
	due = (a->acked * (excess - growth)) >> 16;
	due = min_u64(due, a->acked << (CC_ONE - 1));
	due = min_u64(due, c->quota);
	c->cwnd -= due;
	c->quota -= due;
}

// log2(x / 2^16) in 2^-16, for 2^16 <= x < 2^46; by repeated squaring. Without branches, for each would double what the
// kernel's verifier has to follow.
INLINE u64 cc_log2(u64 x)
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
INLINE u64 cc_ramp_rtts(const struct cc *c)
{
	// 1 / ln(1 + 1/D) in 2^-16, D = 1 .. 16.
	static const u32 inverse[CC_MAX_DIVISOR] = { 94548, 161632, 227807, 293694, 359453, 425142, 490791, 556413,
		622017, 687608, 753189, 818763, 884331, 949895, 1015456, 1081013 };
	u64 ratio = c->ssthresh / max_u64(CC_MIN_SEGMENTS * c->mss, 1);
	u64 ln = ratio > 1ULL << 16 ? (cc_log2(min_u64(ratio, 1ULL << 46)) * 2977044472ULL) >> 32 : 0;

	return (max_u64(ln, 1ULL << 16) * inverse[(cc_divisor(c) - 1) & (CC_MAX_DIVISOR - 1)]) >> 16;
}

// ---- states (spec D.5) -------------------------------------------------------------------------------------------

INLINE void cc_end_initial_slow_start(struct cc *c, u64 now, u64 srtt)
{
	c->next_slowdown = now + CC_FIRST_SLOWDOWN_RTTS * srtt;
	c->phase = CC_AVOIDANCE;
}

INLINE void cc_end_slowdown(struct cc *c, u64 now)
{
	c->next_slowdown = now + CC_PERIOD * (now - c->slowdown_start);
	c->phase = CC_AVOIDANCE;
}

INLINE void cc_start_slowdown(struct cc *c, const struct cc_ack *a)
{
	c->saved = c->ssthresh = c->cwnd;
	c->saved_halved = 0;
	c->cwnd = cc_floor(c);
	c->slowdown_start = a->now;
	c->drained = c->next_slowdown = CC_NONE;
	c->freeze_end = a->now + CC_FREEZE_RTTS * a->srtt;
	c->phase = c->receiver ? CC_DRAIN : CC_FREEZE;
	c->slowdowns++;
}

// The smoothed RTT may be shorter than the old flight needs to drain: ask for one acknowledgement of something that was
// sent when no more than the floor was left.
INLINE int cc_has_seen_the_drained_queue(struct cc *c, const struct cc_ack *a)
{
	u64 left = a->in_flight > a->acked ? a->in_flight - a->acked : 0, floor = CC_MIN_SEGMENTS * c->mss;

	if (c->receiver) // The drain came before the freeze.
		return 1;
	if (c->drained == CC_NONE && left <= floor)
		c->drained = a->delivered;
	return c->drained != CC_NONE && (a->prior_delivered >= c->drained || a->in_flight <= floor);
}

// True if a slowdown starts here.
INLINE int cc_time_transitions(struct cc *c, const struct cc_ack *a)
{
	u64 floor = CC_MIN_SEGMENTS * c->mss;

	if (c->phase == CC_AVOIDANCE && !a->in_recovery && c->next_slowdown != CC_NONE && a->now >= c->next_slowdown) {
		if (c->cwnd > cc_floor(c) && (c->peak > floor || c->peak_before > floor)) {
			cc_start_slowdown(c, a);
			return 1;
		}
		c->next_slowdown = a->now + 2 * CC_PERIOD * a->srtt;
	} else if (c->phase == CC_DRAIN) {
		if (a->drained) {
			c->phase = CC_FREEZE; // The drain was the first of its RTTs.
			c->freeze_end = a->now + (CC_FREEZE_RTTS - 1) * a->srtt;
		} else if (a->now - c->slowdown_start > CC_DRAIN_RTTS * a->srtt) {
			c->phase = CC_RAMP; // The sender has nothing left to drain.
		}
	} else if (c->phase == CC_FREEZE && a->now >= c->freeze_end && cc_has_seen_the_drained_queue(c, a)) {
		c->phase = CC_RAMP;
	}
	return 0;
}

INLINE void cc_on_initial_slow_start(struct cc *c, const struct cc_ack *a, u64 queueing)
{
	if (queueing != CC_NONE && 4 * queueing > 3 * cc_target(c)) { // -01 §4.3: 3/4 of the target
		c->ssthresh = c->cwnd;
		cc_end_initial_slow_start(c, a->now, a->srtt);
		return;
	}
	cc_slow_start(c, a);
	if (c->cwnd >= c->ssthresh)
		cc_end_initial_slow_start(c, a->now, a->srtt);
}

INLINE void cc_on_ramp(struct cc *c, const struct cc_ack *a)
{
	cc_slow_start(c, a);
	if (c->cwnd >= c->ssthresh) {
		cc_end_slowdown(c, a->now);
	} else if (!cc_may_slow_start(c, a)) {
		// A flow that does not use its window would never reach the old one: give up after twice the time it should take.
		u64 rtts = 2 * cc_ramp_rtts(c) + (CC_FREEZE_RTTS << 16);

		if (a->now - c->slowdown_start > (a->srtt * rtts) >> 16)
			cc_end_slowdown(c, a->now);
	}
}

INLINE void cc_on_slow_start_rto(struct cc *c, const struct cc_ack *a, u64 queueing)
{
	if (queueing != CC_NONE && queueing > cc_target(c)) {
		c->phase = CC_AVOIDANCE;
		return;
	}
	cc_slow_start(c, a);
	if (c->cwnd >= c->ssthresh)
		c->phase = CC_AVOIDANCE;
}

// ---- events ------------------------------------------------------------------------------------------------------

// The order is spec D.4's.
INLINE void cc_on_ack(struct cc *c, const struct cc_ack *a)
{
	u64 queueing;

	if (a->rtt != CC_NONE)
		delay_sample(&c->delay, a->now, a->rtt);
	if (a->prior_delivered >= c->round_end) {
		c->round_end = a->delivered;
		c->quota = c->cwnd >> 1;
		c->peak_before = c->peak;
		c->peak = a->in_flight;
	}
	c->peak = max_u64(c->peak, a->in_flight);
	if (c->in_recovery && !a->in_recovery && c->time_first_slowdown) {
		cc_end_initial_slow_start(c, a->now, a->srtt);
		c->time_first_slowdown = 0;
	}
	c->in_recovery = a->in_recovery;
	if (cc_time_transitions(c, a) || a->in_recovery)
		return;
	queueing = cc_fresh_queueing(c, a);
	if (c->phase == CC_SLOW_START)
		cc_on_initial_slow_start(c, a, queueing);
	else if (c->phase == CC_AVOIDANCE)
		cc_avoid(c, a, queueing);
	else if (c->phase == CC_RAMP)
		cc_on_ramp(c, a);
	else if (c->phase == CC_SLOW_START_RTO)
		cc_on_slow_start_rto(c, a, queueing);
	else
		c->cwnd = cc_floor(c);
	c->cwnd = min_u64(max_u64(c->cwnd, cc_floor(c)), CC_MAX_WINDOW << CC_ONE);
}

// A loss or a CE mark, at most once per window (spec D.5).
INLINE void cc_on_loss(struct cc *c, u64 now, u64 srtt)
{
	if (c->phase == CC_FREEZE || c->phase == CC_DRAIN) {
		if (!c->saved_halved)
			c->ssthresh = cc_half(c->saved, cc_floor(c));
		c->saved_halved = 1;
		return;
	}
	c->ssthresh = c->cwnd = cc_half(c->cwnd, cc_floor(c));
	if (c->phase == CC_SLOW_START) {
		cc_end_initial_slow_start(c, now, srtt);
		c->time_first_slowdown = 1;
	} else if (c->phase == CC_RAMP) {
		cc_end_slowdown(c, now);
	} else {
		c->phase = CC_AVOIDANCE;
	}
}

// A retransmission timeout of the host: senders only, a receiver sees no timer but its own.
INLINE void cc_on_timeout(struct cc *c, u64 in_flight)
{
	c->ssthresh = cc_half(c->phase == CC_FREEZE ? c->saved : in_flight << CC_ONE, cc_floor(c));
	if (c->phase == CC_AVOIDANCE)
		c->phase = CC_SLOW_START_RTO;
	else if (c->phase == CC_FREEZE)
		c->phase = CC_RAMP;
	c->cwnd = min_u64(c->cwnd, c->mss << CC_ONE);
}

// A pause longer than the retransmission timeout has drained the queue: what follows is the ramp of a slowdown that began now.
INLINE void cc_on_restart(struct cc *c, u64 now)
{
	u64 old = c->cwnd, part = (old >> 2) * 3 + ((old & 3) * 3 >> 2);

	delay_forget_current(&c->delay);
	c->cwnd = min_u64(old, cc_floor(c));
	if (c->phase == CC_SLOW_START || c->phase == CC_FREEZE || c->phase == CC_DRAIN)
		return;
	c->ssthresh = c->ssthresh == CC_NONE ? part : max_u64(c->ssthresh, part);
	c->slowdown_start = now;
	c->phase = CC_RAMP;
}

// The peer's segments have grown: windows keep their bytes.
INLINE void cc_on_mss(struct cc *c, u64 mss)
{
	c->mss = mss;
	c->cwnd = max_u64(c->cwnd, cc_floor(c));
}

#endif
