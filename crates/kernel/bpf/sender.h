// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// The flows of one group that send to one remote address: one controller for all of them, each active flow an equal part of its
// window (docs/group-window.md). Knows no kernel; whoever calls holds the path's lock.
#ifndef LOWTIDE_SENDER_H
#define LOWTIDE_SENDER_H

#include "control.h"
#include "flows.h"
#include "send_intf.h"
#include "way_back.h"

#define TX_SAMPLE_BYTES 512                // as RX_SAMPLE_BYTES of receiver.h
#define TX_MIN_SEGMENTS 2                  // a flow that joins others, or wakes up among them (draft-irtf-iccrg-ledbat-plus-plus-01 §4.4)
#define TX_PAIR_SEGMENTS 4                 // the window at which the kernel sends two segments at once (tcp_cwnd_test: half the window)
#define TX_MOST_SPACE_NS NS_PER_S          // between two pairs of a flow at the floor
#define TX_CLOCK_CHECK_MS 1000             // so long the peer's clock is compared with ours

struct tx_path {
	u64 srtt, last_ack;                // ns
	u64 last_loss, yielded;            // ns
	u64 round_end;
	u64 in_flight, delivered;          // bytes, all flows
	u32 episode;                       // counts episodes, so that only the last one is undone
	u32 mss, members;                  // members: flows that have joined and not left
	u8 limited, limited_before, known;
	u8 at_floor;                       // of a control that paces: pairs of segments are spaced by time
	u64 floor_since;                   // ns
	struct flows flows;
	struct way_back way_back;
	union control control;
};

// A flow: what its path remembers of it.
struct tx {
	u32 mss, in_flight;                // bytes; as last told, none once it has nothing to send
	u32 window;                        // bytes: its part of the path's window
	u32 epoch, episode;
	u32 rank;                          // the how-manieth of its epoch
};

struct tx_ack {
	u64 now, rtt, owd;                 // ns; no sample: CONTROL_NONE, 0
	u64 there;                         // ns: of the sample, the way of the data (way_back.h); CONTROL_NONE: not known, or not asked for
	u64 acked, in_flight;              // bytes; in flight before this acknowledgement
	u8 limited, in_recovery;
	u32 unacked;                       // bytes that the flow has yet to get acknowledged, those that it has not sent too
};

// The clock in the peer's timestamps (RFC 7323).
struct tx_clock {
	u32 tsval, tsecr;                  // the first pair
	u32 lag;                           // us, modulo 2^32: the peer's clock against ours, less the way back when that was shortest
	u8 state, pad[3];                  // enum tx_clock_state
};

enum tx_clock_state { TX_CLOCK_NEW, TX_CLOCK_CHECKED, TX_CLOCK_MS, TX_CLOCK_OTHER };

INLINE u32 tx_flows(const struct tx_path *p) { return flows_active(&p->flows); }

// Equal parts, none below a segment. The floor of two is the group's: twenty flows must not hold forty segments. Where there are fewer
// than two for each, some flow has two all the same, and each is it in turn: the acknowledgement of a segment alone in flight may wait
// at the peer (RFC 5681 §4.2), and the group would take that for a queue that never empties.
INLINE void tx_divide(const struct tx_path *p, u32 algorithm, struct tx *f)
{
	u64 window = control_window(algorithm, &p->control);
	u32 flows = tx_flows(p), whole = window / larger_u63(f->mss, 1);

	f->window = larger_u63(window / flows, f->mss);
	if (flows > 1 && f->window < TX_MIN_SEGMENTS * f->mss && (f->rank + p->flows.epoch) % flows < (whole > flows ? whole - flows : 1))
		f->window = TX_MIN_SEGMENTS * f->mss;
}

// Whether a sample tells of the queue, 1 or 0: that of a group's segment that was alone in flight may be too high.
INLINE u64 tx_is_sample(const struct tx_path *p, u32 algorithm, u64 alone, const struct tx *f, const struct tx_ack *t, u64 delay)
{
	return alone | is_less_u63(f->mss, t->in_flight) | (1 - is_less_u64(control_base(algorithm, &p->control), delay));
}

INLINE void tx_tell_in_flight(struct tx_path *p, struct tx *f, u32 bytes)
{
	p->in_flight += bytes;
	p->in_flight -= lesser_u63(p->in_flight, f->in_flight);
	f->in_flight = bytes;
}

INLINE void tx_init(struct tx_path *p, u32 algorithm, u64 now, u32 mss, const volatile struct send_config *config)
{
	struct control_start start = {};

	start.now = start.seed = now;
	start.target = config->target;
	start.least_target = PATH_MIN_TARGET_NS;
	start.mss = p->mss = mss;
	start.enhanced = config->enhanced;
	control_init(algorithm, &p->control, &start);
	p->known = 1;
	p->last_ack = now;
}

// A flow joins. Until something of it is acknowledged it has what a first one would get.
INLINE void tx_join(struct tx_path *p, u32 algorithm, struct tx *f, u64 now, u32 mss, const volatile struct send_config *config)
{
	f->mss = mss;
	f->in_flight = 0;
	f->episode = f->rank = 0;
	f->window = TX_MIN_SEGMENTS * mss;
	p->members++;
	if (!p->known) {
		tx_init(p, algorithm, now, mss, config);
		f->window = control_window(algorithm, &p->control);
	}
	if (mss > p->mss) {
		p->mss = mss;
		control_on_mss(algorithm, &p->control, mss);
	}
	f->epoch = p->flows.epoch - 2;
}

// Returns how many are left.
INLINE u32 tx_leave(struct tx_path *p, struct tx *f)
{
	tx_tell_in_flight(p, f, 0);
	p->members -= p->members > 0;
	return p->members;
}

// Before a flow that had nothing in flight sends again. Only a pause of the whole path has drained the queue.
INLINE void tx_restart(struct tx_path *p, u32 algorithm, struct tx *f, u64 now)
{
	struct control_restart r = {};

	r.now = now;
	r.idle = now > p->last_ack ? now - p->last_ack : 0;
	r.rto = path_rto(p->srtt);
	if (p->srtt && r.idle > r.rto) {
		control_on_restart(algorithm, &p->control, &r);
		p->last_ack = now;
	}
	if (p->flows.epoch - f->epoch > 1) // The window was divided among the others meanwhile.
		f->window = TX_MIN_SEGMENTS * f->mss;
	else
		tx_divide(p, algorithm, f);
}

// Rounds are timed: one ends with the first segment acknowledged that was sent after it began.
INLINE void tx_round(struct tx_path *p, const struct tx_ack *t, u64 sent)
{
	if (sent >= p->round_end) {
		p->round_end = t->now;
		p->limited_before = p->limited;
		p->limited = 0;
	}
	p->limited |= t->limited;
}

// One segment a flow, and of several another one, is in flight whatever the control wants: of that the group can drain nothing.
INLINE u64 tx_drainable(const struct tx_path *p, u64 flows, u64 alone)
{
	u64 least = (flows + 1 - alone) * p->mss;

	return p->in_flight - lesser_u63(p->in_flight, least - lesser_u63(least, TX_MIN_SEGMENTS * p->mss));
}

// Whether the delay of segments of `size` bytes is a full segment's. A request's few bytes cross the line sooner: at 1 Mbit/s by
// 12 ms. As a base they would turn the time that each full segment takes into a queue, of one flow and not of the other.
INLINE int tx_is_full(u32 *largest, u32 size)
{
	if (size > *largest)
		*largest = size;
	return size >= TX_SAMPLE_BYTES && size >= *largest - *largest / 4;
}

// The delay of the way there: how much later by its clock the peer has answered than we had sent by ours, less the difference of the
// clocks, which is known up to the least delay of the way back. So it is the RTT without a queue on the way back, and the same for all flows of
// a path, whose clocks may have offsets of their own (RFC 7323 §5.4). A peer's clock need not count milliseconds (RFC 7323 §4.1): until it is
// seen to, and where it does not, the RTT stands in.
INLINE u64 tx_owd(struct tx_clock *c, u32 tsval, u32 tsecr, u32 rtt_us)
{
	u32 passed = tsecr - c->tsecr, theirs = tsval - c->tsval, raw = (tsval - tsecr) * 1000;

	if (c->state == TX_CLOCK_NEW) {
		c->tsval = tsval;
		c->tsecr = tsecr;
		c->lag = raw - rtt_us;
		c->state = TX_CLOCK_CHECKED;
	} else if (c->state == TX_CLOCK_CHECKED && (s32)passed >= TX_CLOCK_CHECK_MS) {
		// Delays move the difference by what the path can queue, a clock of another rate by all the time that passes.
		c->state = after(theirs, passed - passed / 2) && after(passed + passed / 2, theirs) ? TX_CLOCK_MS : TX_CLOCK_OTHER;
	}
	if (after(raw - rtt_us, c->lag))
		c->lag = raw - rtt_us;
	if (c->state != TX_CLOCK_MS)
		return rtt_us * 1000ULL;
	return after(raw, c->lag) ? (raw - c->lag) * 1000ULL : 1;
}

// What the path learns of every acknowledgement before its control is told.
INLINE void tx_hear(struct tx_path *p, struct tx *f, u64 now, u64 rtt, u64 in_flight)
{
	// At the floor each flow is heard of once in TX_MOST_SPACE_NS.
	if (flows_count(&p->flows, &f->epoch, larger_u63(p->srtt, p->at_floor * TX_MOST_SPACE_NS), now))
		f->rank = p->flows.active - 1;
	p->srtt += (path_smoothed(p->srtt, rtt) - p->srtt) & (0 - is_less_u64(rtt, CONTROL_NONE));
	tx_tell_in_flight(p, f, in_flight);
}

// What the control is told of a sample: that less what a queue of others' on the way back added (way_back.h).
INLINE u64 tx_less_way_back(struct tx_path *p, u32 algorithm, u64 now, u64 rtt, u64 there, const volatile struct send_config *config)
{
	if (config->way_back && is_less_u64(rtt, CONTROL_NONE))
		rtt -= way_back_take(&p->way_back, now, rtt, there, control_window(algorithm, &p->control), p->mss, p->srtt,
		                     control_yields_to_others_only(algorithm));
	return rtt;
}

// Tells the control; `unacked` is that of struct tx_ack.
INLINE void tx_tell_control(struct tx_path *p, u32 algorithm, struct tx *f, const struct control_ack *a, u32 unacked)
{
	u64 queueing = control_queueing(algorithm, &p->control);

	if (queueing != CONTROL_NONE && queueing > control_target(algorithm, &p->control) && a->now > p->last_ack)
		p->yielded += lesser_u63(a->now - p->last_ack, p->srtt);
	control_on_ack(algorithm, &p->control, a);
	p->last_ack = larger_u63(p->last_ack, a->now);
	// It will tell of nothing for long, and what was acknowledged is not in flight: the others' freeze would wait for it.
	if (!unacked)
		tx_tell_in_flight(p, f, 0);
}

// An acknowledgement. Sets the flow's window.
INLINE void tx_on_ack(struct tx_path *p, u32 algorithm, struct tx *f, const struct tx_ack *t, const volatile struct send_config *config)
{
	struct control_ack a = {};
	u64 delay, flows, alone;

	tx_hear(p, f, t->now, t->rtt, t->in_flight);
	flows = tx_flows(p);
	alone = is_less_u63(flows, 2);
	delay = tx_less_way_back(p, algorithm, t->now, t->rtt, t->there, config);
	a.now = t->now;
	a.acked = lesser_u63(t->acked, CONTROL_MAX_ACKED);
	a.rtt = delay | (tx_is_sample(p, algorithm, alone, f, t, delay) - 1); // All ones: CONTROL_NONE.
	a.owd = t->owd;
	a.srtt = p->srtt;
	a.way_back = p->way_back.behind;
	a.waited = p->way_back.waited;
	a.delivered = t->now;
	a.prior_delivered = t->now - lesser_u63(t->now, 2 * p->srtt + ((t->rtt - 2 * p->srtt) & (0 - is_less_u64(t->rtt, CONTROL_NONE))));
	tx_round(p, t, a.prior_delivered);
	a.in_flight = tx_drainable(p, flows, alone);
	a.limited = p->limited | (p->limited_before && control_phase(algorithm, &p->control) == CONTROL_AVOIDANCE);
	// One flow's recovery is not the group's: its own window waits for it, the path's goes on.
	a.in_recovery = t->in_recovery & alone;
	tx_tell_control(p, algorithm, f, &a, t->unacked);
	tx_divide(p, algorithm, f);
}

// An acknowledgement of a flow whose control paces and limits recovery itself: it counts in bytes, for the path as for one flow.
struct tx_paced {
	u64 now, rtt, there;               // ns; rtt CONTROL_NONE: no sample; there: as in struct tx_ack
	u64 acked, lost, ce, in_flight;    // bytes; in flight before this acknowledgement
	u64 since;                         // bytes that the flow delivered since what is acknowledged was sent
	u64 rate_delivered, rate_interval; // bytes, ns; 0: no sample
	u32 unacked, limited;              // limited: the window was used up (`tcp_is_cwnd_limited`)
};

// The floor begins, or ends: who waits for his next pair then has no part of the window until he sends.
INLINE void tx_at_floor(struct tx_path *p, u8 floor, u64 now)
{
	if (floor == p->at_floor)
		return;
	p->at_floor = floor;
	p->floor_since = now;
	if (!floor) {
		p->flows.active = 0;
		p->flows.epoch_end = now;
	}
}

// ns between two pairs of a flow at the floor. Flows that came to it together would send their pairs together, and none in between: in the first
// round trip they are sent off one after another, and keep that order.
INLINE u64 tx_space(const struct tx_path *p, const struct tx *f, u64 window, u64 flows, u64 now)
{
	// The window is spread over its round trip: below a segment that is what bounds it.
	u64 pair = TX_MIN_SEGMENTS * f->mss * larger_u63(p->srtt, 1) / larger_u63(window, 1);
	// A segment that is spaced out cannot be called back.
	u64 all = lesser_u63(pair * flows, TX_MOST_SPACE_NS);

	if (now >= p->floor_since + p->srtt)
		return larger_u63(all, 1);
	return larger_u63(all * lesser_u63(f->rank + 2, flows + 1) / (flows + 1), 1);
}

// Sets the flow's window and returns its pace in bytes/s.
INLINE u64 tx_on_paced(struct tx_path *p, u32 algorithm, struct tx *f, const struct tx_paced *t, const volatile struct send_config *config)
{
	struct control_ack a = {};
	u64 flows, window, pace, others;

	tx_hear(p, f, t->now, t->rtt, t->in_flight);
	flows = tx_flows(p);
	a.now = t->now;
	a.acked = lesser_u63(t->acked, CONTROL_MAX_ACKED);
	a.lost = t->lost;
	a.ce = t->ce;
	a.rtt = tx_less_way_back(p, algorithm, t->now, t->rtt, t->there, config);
	a.srtt = p->srtt;
	a.way_back = p->way_back.behind;
	a.waited = p->way_back.waited;
	a.in_flight = p->in_flight;
	p->delivered += a.acked;
	a.delivered = p->delivered;
	// The others have delivered as much meanwhile: their parts are equal.
	a.prior_delivered = p->delivered - lesser_u63(p->delivered, t->since * flows);
	a.rate_delivered = t->rate_delivered * flows;
	a.rate_interval = t->rate_interval;
	a.limited = t->limited;
	tx_tell_control(p, algorithm, f, &a, t->unacked);
	window = control_window(algorithm, &p->control);
	pace = control_pacing_rate(algorithm, &p->control);
	tx_at_floor(p, !pace, t->now);
	if (!pace) {
		f->window = TX_PAIR_SEGMENTS * f->mss;
		return TX_MIN_SEGMENTS * f->mss * NS_PER_S / tx_space(p, f, window, flows, t->now);
	}
	// Of many that wake up one after another each would take what the last ones count as their part: together they have the window.
	others = lesser_u63(window, p->in_flight - lesser_u63(p->in_flight, f->in_flight));
	f->window = larger_u63(lesser_u63(window / flows, window - others), TX_MIN_SEGMENTS * f->mss);
	// A segment that is spaced out cannot be called back: no flow waits for longer than its round trip.
	return larger_u63(pace / flows, TX_MIN_SEGMENTS * f->mss * NS_PER_S / larger_u63(p->srtt, 1));
}

// The start of an episode of a flow: at most one a round trip for the path. A timeout is the path's only if no other flow goes
// on meanwhile.
INLINE void tx_on_congestion(struct tx_path *p, u32 algorithm, struct tx *f, u64 now, u32 cause, u64 in_flight)
{
	struct control_congestion e = {};

	if (now >= p->last_loss + p->srtt || cause == CONTROL_TIMEOUT) {
		p->last_loss = now;
		p->episode++;
		f->episode = p->episode;
		e.now = now;
		e.in_flight = in_flight;
		e.srtt = p->srtt;
		e.cause = cause == CONTROL_TIMEOUT && tx_flows(p) > 1 ? CONTROL_LOSS : cause;
		control_on_congestion(algorithm, &p->control, &e);
	}
	tx_divide(p, algorithm, f);
}

// The flow's last episode was spurious.
INLINE void tx_on_undo(struct tx_path *p, u32 algorithm, struct tx *f, u64 now)
{
	if (f->episode && f->episode == p->episode) {
		control_on_undo(algorithm, &p->control, now);
		p->episode++; // once
	}
	tx_divide(p, algorithm, f);
}

#endif
