// The flows of one group to one remote address: one controller for all of them, each active flow an equal part of its
// window. A group yields as one flow would. Knows no packet and no kernel; whoever calls holds the path's lock.
#ifndef LOWTIDE_PATH_H
#define LOWTIDE_PATH_H

#include "control.h"
#include "intf.h"
#include "receiver.h"

#define PATH_EPOCH_RTTS 2                  // a flow that received nothing for this long has no part of the window
#define PATH_MIN_EPOCH_NS (10 * NS_PER_MS)
#define PATH_MIN_TARGET_NS (1 * NS_PER_MS) // spec E: below it a target on a LAN would chase the host's own noise
#define PATH_TELL_NS 200000ULL             // a sender hears of every second segment; up to 100 Mbit/s this is no rarer
#define PATH_MIN_RTO_NS (200 * NS_PER_MS)  // Linux TCP_RTO_MIN

struct path {
	u64 srtt, last_data;               // ns
	u64 epoch_end, last_loss, yielded; // ns
	u64 round_end;                     // permission given up to here belongs to this round
	u64 used, used_before;             // bytes received in this round and the last
	u32 epoch, active, active_before, drained;
	u32 mss, slowdowns;
	u8 limited, limited_before, known, pad[5];
	union control control;
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
INLINE u32 path_share(const struct path *p, u32 algorithm, const struct rx *f)
{
	return max_u64(control_window(algorithm, &p->control) / path_flows(p), f->mss);
}

// A flow that has used up its old permission says so once per slowdown.
INLINE u8 path_drained(struct path *p, struct rx *f, u8 drained)
{
	if (drained && f->slowdown != p->slowdowns) {
		f->slowdown = p->slowdowns;
		p->drained++;
	}
	return p->drained >= path_flows(p);
}

// Rounds are timed by permission: one ends with the first segment that was permitted after it began.
INLINE void path_round(struct path *p, u32 algorithm, const struct rx_seen *s, u64 now, u64 prior, int exact)
{
	if (prior >= p->round_end) {
		p->round_end = now;
		p->used_before = p->used;
		p->limited_before = p->limited;
		p->used = 0;
		p->limited = 0;
	}
	p->used += s->got;
	if (exact)
		p->limited |= s->limited;
	else
		p->limited |= max_u64(p->used, p->used_before) + 2 * p->mss >= control_window(algorithm, &p->control);
}

// Segments of a flow that come closer together than PATH_TELL_NS are told to its path as one, as an ACK tells a sender of
// several: the path's work is not done for each packet of a fast flow. True if `s` now says all that has not been told.
INLINE int path_tells(struct rx *f, struct rx_seen *s, u64 now)
{
	f->untold += s->got;
	f->untold_rtt = f->told ? min_u64(f->untold_rtt, s->rtt) : s->rtt;
	f->untold_limited |= s->limited;
	if (now - f->told < PATH_TELL_NS && !s->lost && !s->marked)
		return 0;
	s->got = f->untold;
	s->rtt = f->untold_rtt;
	s->limited = f->untold_limited;
	f->told = now;
	f->untold = f->untold_limited = 0;
	f->untold_rtt = RX_UNKNOWN;
	return 1;
}

INLINE void path_init(struct path *p, const struct rx *f, u64 now, const volatile struct group_config *config)
{
	struct control_start start = {};

	start.now = now;
	start.window = rx_floor(f);
	start.target = config->target;
	start.least_target = PATH_MIN_TARGET_NS;
	start.mss = p->mss = f->mss;
	start.burst = config->burst;
	start.enhanced = config->enhanced;
	start.receiver = 1;
	control_init(config->algorithm, &p->control, &start);
	p->known = 1;
	p->last_data = now;
}

// The first data after a pause longer than the sender's retransmission timeout.
INLINE void path_pause(struct path *p, u32 algorithm, u64 now)
{
	struct control_restart r = {};

	r.now = now;
	r.idle = now > p->last_data ? now - p->last_data : 0;
	r.rto = p->srtt + max_u64(p->srtt, PATH_MIN_RTO_NS);
	if (p->srtt && r.idle > r.rto)
		control_on_restart(algorithm, &p->control, &r);
}

// A loss or a CE mark, at most one reaction per RTT of all flows together.
INLINE void path_congestion(struct path *p, u32 algorithm, const struct rx_seen *s, u64 now, u64 in_flight)
{
	struct control_congestion e = {};

	if (!(s->lost | s->marked) || now < p->last_loss + p->srtt)
		return;
	p->last_loss = now;
	e.now = now;
	e.in_flight = in_flight;
	e.srtt = p->srtt;
	e.cause = s->lost ? CONTROL_LOSS : CONTROL_ECN;
	control_on_congestion(algorithm, &p->control, &e);
}

// One data segment arrived, or several. Sets the flow's share. The order of events: docs/algorithms/receiver.md.
INLINE void path_receive(struct path *p, struct rx *f, const struct rx_seen *s, u64 now, const volatile struct group_config *config)
{
	u32 algorithm = config->algorithm;
	struct control_ack a = {};
	u64 queueing, slowdowns;

	if (!p->known)
		path_init(p, f, now, config);
	if (f->mss > p->mss) {
		p->mss = f->mss;
		control_on_mss(algorithm, &p->control, f->mss);
	}
	path_pause(p, algorithm, now);
	path_count(p, f, now);
	if (s->rtt != RX_UNKNOWN)
		p->srtt = p->srtt ? p->srtt - (p->srtt >> 3) + (s->rtt >> 3) : s->rtt;
	a.now = now;
	a.acked = min_u64(s->got, CONTROL_MAX_ACKED);
	a.ce = s->ce ? a.acked : 0;
	a.rtt = s->rtt;
	a.srtt = p->srtt;
	a.segment = f->segment;
	a.delivered = now;
	// Without a label to tell, a round lasts two smoothed RTTs.
	a.prior_delivered = s->sent != RX_UNKNOWN ? s->sent : now > 2 * p->srtt ? now - 2 * p->srtt : 0;
	path_round(p, algorithm, s, now, a.prior_delivered, f->timestamps);
	a.in_flight = max_u64(p->used, p->used_before);
	// Slow start would overshoot an unused window by two rounds' growth: there the last round does not count.
	a.limited = p->limited | (p->limited_before && control_phase(algorithm, &p->control) == CONTROL_AVOIDANCE);
	a.drained = path_drained(p, f, s->drained);
	queueing = control_queueing(algorithm, &p->control);
	if (queueing != CONTROL_NONE && queueing > control_target(algorithm, &p->control) && now > p->last_data)
		p->yielded += min_u64(now - p->last_data, p->srtt);
	path_congestion(p, algorithm, s, now, a.in_flight);
	control_on_ack(algorithm, &p->control, &a);
	slowdowns = control_slowdowns(algorithm, &p->control);
	if (p->slowdowns != slowdowns) {
		p->slowdowns = slowdowns;
		p->drained = 0;
	}
	p->last_data = max_u64(p->last_data, now);
	f->share = path_share(p, algorithm, f);
}

#endif
