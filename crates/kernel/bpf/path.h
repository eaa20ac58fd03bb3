// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// The flows of one group to one remote address: one controller for all of them, each active flow an equal part of its
// window. A group yields as one flow would. Knows no packet and no kernel; whoever calls holds the path's lock.
#ifndef LOWTIDE_PATH_H
#define LOWTIDE_PATH_H

#include "control.h"
#include "flows.h"
#include "intf.h"
#include "receiver.h"

struct path {
	u64 srtt, last_data;               // ns
	u64 last_loss, yielded;            // ns
	u64 round_end;                     // permission given up to here belongs to this round
	u64 used, used_before;             // bytes received in this round and the last
	u32 drained, mss, slowdowns;
	u8 limited, limited_before, known, pad;
	struct flows flows;
	struct way_back way_back;
	union control control;
};

INLINE u32 path_flows(const struct path *p) { return flows_active(&p->flows); }

// A flow's part: equal, never below a segment. The floor of two is the group's: twenty flows must not hold forty segments.
INLINE u32 path_flow_window(const struct path *p, u32 algorithm, const struct rx *f)
{
	return larger_u63(control_window(algorithm, &p->control) / path_flows(p), f->mss);
}

// A flow whose data of before the reduction has arrived says so once per slowdown.
INLINE u8 path_drained(struct path *p, struct rx *f, u8 drained)
{
	if (drained && f->slowdown != p->slowdowns) {
		f->slowdown = p->slowdowns;
		p->drained++;
	}
	return p->drained >= path_flows(p);
}

// A round ends with the first segment that was permitted after it began.
INLINE void path_round(struct path *p, u32 algorithm, const struct rx_report *r, u64 now, u64 prior, int exact)
{
	if (prior >= p->round_end) {
		p->round_end = now;
		p->used_before = p->used;
		p->limited_before = p->limited;
		p->used = 0;
		p->limited = 0;
	}
	p->used += r->got;
	if (exact)
		p->limited |= r->limited;
	else
		p->limited |= larger_u63(p->used, p->used_before) + 2 * p->mss >= control_window(algorithm, &p->control);
}

INLINE void path_init(struct path *p, const struct rx *f, u64 now, const volatile struct group_config *config)
{
	struct control_start start = {};

	start.now = start.seed = now;
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
	struct control_restart e = {};

	e.now = now;
	e.idle = now > p->last_data ? now - p->last_data : 0;
	e.rto = path_rto(p->srtt);
	if (p->srtt && e.idle > e.rto)
		control_on_restart(algorithm, &p->control, &e);
}

// A loss or a CE mark, at most one reaction per RTT of all flows together.
INLINE void path_congestion(struct path *p, u32 algorithm, const struct rx_report *r, u64 now, u64 in_flight)
{
	struct control_congestion e = {};

	if (!(r->lost | r->marked) || now < p->last_loss + p->srtt)
		return;
	p->last_loss = now;
	e.now = now;
	e.in_flight = in_flight;
	e.srtt = p->srtt;
	e.cause = r->lost ? CONTROL_LOSS : CONTROL_ECN;
	control_on_congestion(algorithm, &p->control, &e);
}

// A round trip that may have been a pause of the peer: at most twice the smoothed RTT of it counts, so that one pause moves that by an eighth, and
// a rise that lasts is followed within some tens of samples. Only where the way back's filter knows the peer's clock: it takes a pause out of
// the samples that a longer smoothed RTT lets pass.
INLINE u64 path_risen(const struct path *p, u64 paused)
{
	return p->srtt + (lesser_u63(paused - lesser_u63(paused, p->srtt), p->srtt) >> 3) * p->way_back.known;
}

// One data segment arrived, or several. Sets the flow's window. The order of events: docs/algorithms/receiver.md.
INLINE void path_receive(struct path *p, struct rx *f, const struct rx_report *r, u64 now, const volatile struct group_config *config)
{
	u32 algorithm = config->algorithm;
	struct control_ack a = {};
	u64 queueing, slowdowns, step;

	if (!p->known)
		path_init(p, f, now, config);
	if (f->mss > p->mss) {
		p->mss = f->mss;
		control_on_mss(algorithm, &p->control, f->mss);
	}
	path_pause(p, algorithm, now);
	flows_count(&p->flows, &f->epoch, p->srtt, now);
	a.rtt = r->rtt;
	p->srtt = path_risen(p, r->paused);
	step = control_edge_step(algorithm, &p->control) > 0;
	if (r->rtt != RX_UNKNOWN) {
		p->srtt = path_smoothed(p->srtt, r->rtt);
		if (config->way_back)
			a.rtt -= way_back_take(&p->way_back, now, r->rtt, r->there, control_window(algorithm, &p->control), p->mss, p->srtt,
			                       control_yields_to_others_only(algorithm));
	}
	a.now = now;
	a.acked = lesser_u63(r->got, CONTROL_MAX_ACKED);
	a.lost = step && r->lost ? a.acked : 0;
	a.ce = r->ce ? a.acked : 0;
	a.srtt = p->srtt;
	a.way_back = p->way_back.behind;
	a.segment = f->segment;
	a.delivered = now;
	// Without a label to tell, a round lasts two smoothed RTTs.
	a.prior_delivered = r->sent != RX_UNKNOWN ? r->sent : now > 2 * p->srtt ? now - 2 * p->srtt : 0;
	path_round(p, algorithm, r, now, a.prior_delivered, f->timestamps);
	a.in_flight = larger_u63(p->used, p->used_before);
	// Slow start would overshoot an unused window by two rounds' growth: there the last round does not count.
	a.limited = p->limited | (p->limited_before && (step || control_phase(algorithm, &p->control) == CONTROL_AVOIDANCE));
	a.drained = path_drained(p, f, r->drained);
	queueing = control_queueing(algorithm, &p->control);
	if (queueing != CONTROL_NONE && queueing > control_target(algorithm, &p->control) && now > p->last_data)
		p->yielded += lesser_u63(now - p->last_data, p->srtt);
	path_congestion(p, algorithm, r, now, a.in_flight);
	control_on_ack(algorithm, &p->control, &a);
	slowdowns = control_slowdowns(algorithm, &p->control);
	if (p->slowdowns != slowdowns) {
		p->slowdowns = slowdowns;
		p->drained = 0;
	}
	p->last_data = larger_u63(p->last_data, now);
	f->flow_window = path_flow_window(p, algorithm, f);
	f->step = control_edge_step(algorithm, &p->control);
	f->srtt = p->srtt;
	f->way_back = config->way_back;
}

#endif
