// The flows of one group to one remote address: one controller for all of them, each active flow an equal part of its
// window. A group yields as one flow would. Knows no packet and no kernel; whoever calls holds the path's lock.
#ifndef LOWTIDE_PATH_H
#define LOWTIDE_PATH_H

#include "cc.h"
#include "receiver.h"

#define PATH_EPOCH_RTTS 2                  // a flow that received nothing for this long has no part of the window
#define PATH_MIN_EPOCH_NS (10 * NS_PER_MS)
#define PATH_MIN_TARGET_NS (1 * NS_PER_MS) // spec E: below it a target on a LAN would chase the host's own noise
#define PATH_TELL_NS 200000ULL             // a sender hears of every second segment; up to 100 Mbit/s this is no rarer
#define PATH_BURST 3                       // RFC 1122 §4.2.3.2: an ACK for two segments, and one more by which the window grew
#define PATH_MIN_RTO_NS (200 * NS_PER_MS)  // Linux TCP_RTO_MIN

struct path {
	struct cc cc;
	u64 srtt, epoch_end, last_data, last_loss, yielded;
	u64 used, used_before;             // bytes received in this round and the last
	u32 epoch, active, active_before, drained;
	u8 limited, limited_before, known, pad[5];
};

INLINE u32 path_flows(const struct path *p)
{
	u32 n = p->active > p->active_before ? p->active : p->active_before;

	return n ? n : 1;
}

// Counts the flows that receive: those of the last whole epoch, or of this one if they are more by now.
INLINE void path_count(struct path *p, struct rx *f, u64 now)
{
	u64 length = max_u64(PATH_EPOCH_RTTS * p->srtt, PATH_MIN_EPOCH_NS);

	if (now >= p->epoch_end) {
		p->active_before = now < p->epoch_end + length ? p->active : 0;
		p->active = 0;
		p->epoch++;
		p->epoch_end = now + length;
	}
	if (f->epoch != p->epoch) {
		f->epoch = p->epoch;
		p->active++;
	}
}

// A flow's part: equal, never below a segment. The floor of two is the group's: twenty flows must not hold forty segments.
INLINE u32 path_share(const struct path *p, const struct rx *f)
{
	return max_u64(cc_window(&p->cc) / path_flows(p), f->mss);
}

// A flow that has used up its old permission says so once per slowdown.
INLINE u8 path_drained(struct path *p, struct rx *f, u8 drained)
{
	if (drained && f->slowdown != p->cc.slowdowns) {
		f->slowdown = p->cc.slowdowns;
		p->drained++;
	}
	return p->drained >= path_flows(p);
}

// Rounds are timed by permission: one ends with the first segment that was permitted after it began.
INLINE void path_round(struct path *p, const struct rx_seen *s, u64 prior, int exact)
{
	if (prior >= p->cc.round_end) {
		p->used_before = p->used;
		p->limited_before = p->limited;
		p->used = 0;
		p->limited = 0;
	}
	p->used += s->got;
	if (exact)
		p->limited |= s->limited;
	else
		p->limited |= max_u64(p->used, p->used_before) + 2 * p->cc.mss >= cc_window(&p->cc);
}

// Segments of a flow that come closer together than PATH_TELL_NS are told to its path as one, as an ACK tells a sender of
// several: the path's work is not done for each packet of a fast flow. True if `s` now says all that has not been told.
INLINE int path_tells(struct rx *f, struct rx_seen *s, u64 now)
{
	f->untold += s->got;
	f->untold_rtt = f->told ? min_u64(f->untold_rtt, s->rtt) : s->rtt;
	f->untold_limited |= s->limited;
	if (now - f->told < PATH_TELL_NS && !s->lost)
		return 0;
	s->got = f->untold;
	s->rtt = f->untold_rtt;
	s->limited = f->untold_limited;
	f->told = now;
	f->untold = f->untold_limited = 0;
	f->untold_rtt = RX_UNKNOWN;
	return 1;
}

// One segment with payload arrived, or several (spec F.5, steps 5 to 9). Sets the flow's share.
INLINE void path_receive(struct path *p, struct rx *f, const struct rx_seen *s, u64 now, u64 target, u8 enhanced)
{
	struct cc_ack a;
	u64 queueing;
	u32 slowdowns;

	if (!p->known) {
		cc_init(&p->cc, now, f->mss, (u64)rx_floor(f), enhanced, 1);
		p->cc.target = target;
		p->cc.least_target = PATH_MIN_TARGET_NS;
		p->cc.burst = PATH_BURST;
		p->known = 1;
		p->last_data = now;
	}
	if (f->mss > p->cc.mss)
		cc_on_mss(&p->cc, f->mss);
	if (p->srtt && now > p->last_data + p->srtt + max_u64(p->srtt, PATH_MIN_RTO_NS))
		cc_on_restart(&p->cc, now);
	path_count(p, f, now);
	if (s->rtt != RX_UNKNOWN)
		p->srtt = p->srtt ? p->srtt - (p->srtt >> 3) + (s->rtt >> 3) : s->rtt;
	a.now = now;
	a.acked = min_u64(s->got, CC_MAX_ACKED);
	a.rtt = s->rtt;
	a.srtt = p->srtt;
	a.segment = f->segment;
	a.delivered = now;
	// Without a label to tell, a round lasts two smoothed RTTs.
	a.prior_delivered = s->sent != RX_UNKNOWN ? s->sent : now > 2 * p->srtt ? now - 2 * p->srtt : 0;
	path_round(p, s, a.prior_delivered, f->timestamps);
	a.in_flight = max_u64(p->used, p->used_before);
	// Slow start would overshoot an unused window by two rounds' growth: there the last round does not count.
	a.limited = p->limited | (p->limited_before && p->cc.phase == CC_AVOIDANCE);
	a.in_recovery = 0;
	a.drained = path_drained(p, f, s->drained);
	queueing = delay_queueing(&p->cc.delay);
	if (queueing != CC_NONE && queueing > cc_target(&p->cc) && now > p->last_data)
		p->yielded += min_u64(now - p->last_data, p->srtt);
	slowdowns = p->cc.slowdowns;
	if (s->lost && now >= p->last_loss + p->srtt) {
		p->last_loss = now;
		if (s->rtt != RX_UNKNOWN)
			delay_sample(&p->cc.delay, now, s->rtt);
		cc_on_loss(&p->cc, now, p->srtt);
	} else {
		cc_on_ack(&p->cc, &a);
	}
	if (p->cc.slowdowns != slowdowns)
		p->drained = 0;
	p->last_data = max_u64(p->last_data, now);
	f->share = path_share(p, f);
}

#endif
