// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// One flow seen by its receiver (RFC 9840): the record of what was offered to the sender, RTT and loss from what arrives, and
// the window field that never moves the right edge to the left. docs/algorithms/receiver.md. Knows no packet, no kernel, no control.
//
// Who writes what: egress (rx_send, under the socket's lock) writes `edge`, `ack_last`, `arrived_before`, `sending`, `whole`, `segs_out`, `gaps`,
// `first`, `head`, `last` and the ring; ingress (everything else, which may run at the same time on another processor) writes all other fields.
#ifndef LOWTIDE_RECEIVER_H
#define LOWTIDE_RECEIVER_H

#include "flows.h"
#include "types.h"
#include "way_back.h"

#define RX_RECORDS 1024
#define RX_LABEL_NS (2 * NS_PER_S)         // older records say nothing about today's RTT
#define RX_UNKNOWN (~0ULL)
#define RX_TICK 10                         // times in records: 2^10 ns, 30 bits, wraps in 18 minutes
#define RX_STEPS 4                         // records looked at from where the last search ended
#define RX_MIN_SEGMENTS 2
#define RX_SAMPLE_BYTES 512                // a small packet is serialised faster than a full one
#define RX_PAIRS 16                        // packet pairs that the time of a segment is averaged over
#define RX_MAX_FIELD 65535U

// An outgoing segment: its TSval, the right edge that it showed, when it left.
struct rx_record {
	u32 tsval, edge, t;                // t: ticks << 2 | RX_BY_KERNEL | RX_WITH_DATA
};

#define RX_WITH_DATA 1U                    // it carried payload: its echo includes the time the peer took to answer
#define RX_BY_KERNEL 2U                    // the kernel's own window was smaller than ours: the reader is slow
#define RX_FLAGS 3U

struct rx {
	u32 edge, ack_last;                // the right edge on the wire, and the ACK that drew it
	u32 highest, highest_tsval;        // RCV.HGH and TSV.HGH of RFC 9840: the highest byte received, and its segment's TSval
	u32 recover;                       // a loss below this belongs to the last episode
	u32 flow_window;                   // bytes this flow may have in flight
	u32 step;                          // 0, or by how much more than what has arrived the edge may move on one ACK, then also across holes
	u32 arrived, arrived_before;       // new bytes in all, and when the edge last moved by a step
	u32 received;                      // what is in order, and the bytes held above holes
	u32 mss, largest, most;            // segment size in use, the largest that arrived on the wire, the largest that we allowed the peer
	u32 head, first;                   // records ever made, and the first that counts
	u32 segs_out;                      // segments that the kernel had sent when we last saw one
	u32 gaps;                          // times that some had left which we did not see
	u32 epoch, slowdown;               // of the path's, when this flow was last counted
	u64 hole_at, last_data, sample_after, born;
	u64 segments, retransmissions, rtt, published;
	u64 counted, counted_retransmissions; // what the group knows of these
	u32 found[2];                      // where the last searches ended, by edge and by TSval
	u64 srtt;                          // the path's, as of the last report
	u64 reported, pending_rtt, pending_there; // see rx_collect
	u64 segment;                       // how long one takes at the bottleneck, 0: unknown
	u32 pair_end, pair_tsecr;          // where the last one ended, and what it echoed
	u32 pending, pending_limited;
	u64 resumed, pending_paused;       // when the last silence ended; rx_report.paused
	struct rx_record last;             // the newest record; its slot in the ring is a line of memory of its own
	u8 ws, timestamps, sending, receiving, hole, recovering, managed;
	u8 way_back;                       // the path tells a server that stalls from a queue on the way back (way_back.h)
	u8 whole;                          // nothing that permits data left before the first record
	struct rx_record ring[RX_RECORDS];
};

// An outgoing segment as the header shows it, and what the kernel counted.
struct rx_out {
	u64 now;
	u32 ack, tsval;
	u32 before, segs;                  // segments that the kernel had sent before, and that this packet is
	u16 field;
	u8 data;
};

// An incoming segment with payload, and what the kernel had received before it.
struct rx_in {
	u64 now;
	u32 seq, len, wire, tsval, tsecr, rcv_nxt;
	u8 ce;
};

// What an incoming segment says, or several that are reported as one.
struct rx_report {
	u64 rtt, sent;                     // ns: the sample, and when the segment was permitted; RX_UNKNOWN
	u64 there;                         // ns: the way of the data (way_back_since); RX_UNKNOWN: no sample, or no timestamps
	u64 paused;                        // ns: an RTT, or how long the peer had nothing to send; 0: none
	u32 got;                           // new bytes
	u8 ignored;                        // old, or nothing that the peer may have sent: changes nothing
	u8 lost, marked, ce;               // a loss or a CE mark that begins an episode; any CE mark
	u8 retransmitted, limited, drained, pad;
};

#include "records.h"

INLINE u32 rx_floor(const struct rx *f) { return RX_MIN_SEGMENTS * f->mss; }

// ---- outgoing ----------------------------------------------------------------------------------------------------

// What this segment, and any that left without our seeing it, may have promised: the kernel's own edge. What was recorded before
// gives no RTT any more, for a segment that we did not see may have released what arrives next.
INLINE void rx_resume(struct rx *f, u32 kernel)
{
	if (!f->sending || after(kernel, f->edge))
		f->edge = kernel;
	f->sending = 1;
	f->first = f->head;
}

// What lies above a hole has left the path: the edge moves on, but never by a burst.
INLINE u32 rx_step_to(struct rx *f, u32 ack)
{
	u32 arrived = NOW_IS(f->arrived), received = NOW_IS(f->received);
	u32 most = (after(f->edge, ack) ? f->edge : ack) + (arrived - f->arrived_before) + f->step;
	u32 want = (f->receiving && after(received, ack) ? received : ack) + f->flow_window;

	f->arrived_before = arrived;
	return after(want, most) ? most : want;
}

// The window field to send: at most the kernel's, zero only if that is, and no edge to the left of one sent.
INLINE u16 rx_send(struct rx *f, const struct rx_out *o)
{
	u32 kernel = o->ack + ((u32)o->field << f->ws), edge, units, flags = o->data ? RX_WITH_DATA : 0;
	u16 field = o->field;

	if (!f->sending || after(o->before, f->segs_out)) { // Something left that we did not see.
		f->whole = !f->sending && o->before <= 1; // But for the SYN.
		f->gaps += f->sending;
		rx_resume(f, kernel);
		f->segs_out = o->before;
	}
	if (after(o->before + o->segs, f->segs_out)) // Not so at the second device of a stack.
		f->segs_out = o->before + o->segs;
	if (after(o->ack + f->flow_window, kernel))
		flags |= RX_BY_KERNEL;
	if (not_before(kernel, f->edge)) {
		// A duplicate ACK keeps its field: a changed window would not count as a duplicate.
		u32 want = o->ack == f->ack_last && after(f->highest, o->ack) ? f->edge : o->ack + f->flow_window;

		if (f->step)
			want = rx_step_to(f, o->ack);
		edge = after(want, f->edge) ? want : f->edge;
		edge = after(edge, kernel) ? kernel : edge;
		units = ((edge - o->ack) + (1U << f->ws) - 1) >> f->ws;
		field = units < field ? units : field;
		if (field == 0 && o->field > 0)
			field = 1;
	}
	edge = o->ack + ((u32)field << f->ws);
	if (after(edge, f->edge))
		f->edge = edge;
	f->ack_last = o->ack;
	rx_record(f, o, flags);
	return field;
}

// The segment left with the kernel's own field after all.
INLINE void rx_not_lowered(struct rx *f, const struct rx_out *o)
{
	f->whole = 0;
	rx_resume(f, o->ack + ((u32)o->field << f->ws));
}

// ---- incoming ----------------------------------------------------------------------------------------------------

// The first record with the TSval that this segment echoes; `head` if we sent none.
INLINE u32 rx_echoed(struct rx *f, const struct rx_in *i, u32 head)
{
	u32 at = rx_find(f, head, i->tsecr, RX_BY_TSVAL);

	return at == head || rx_key(f, at, RX_BY_TSVAL) != i->tsecr ? head : at;
}

// The highest byte that has arrived.
INLINE u32 rx_highest(const struct rx *f, const struct rx_in *i)
{
	return f->receiving && after(f->highest, i->rcv_nxt) ? f->highest : i->rcv_nxt;
}

// Programs see a segment before the kernel has checked its checksum, timestamp and window. What lies beyond the right edge was
// never permitted; what leaves a hole must echo a TSval of ours, or one forged segment would make losses of all that follow.
INLINE int rx_is_plausible(const struct rx *f, const struct rx_in *i, int echoed)
{
	u32 edge = f->sending ? f->edge : i->rcv_nxt + (RX_MAX_FIELD << f->ws);

	if (after(i->seq + i->len, edge))
		return 0;
	return !f->timestamps || echoed || !after(i->seq, rx_highest(f, i));
}

// RTT by timestamps and edge: a segment cannot have left before the first ACK that permitted it arrived, nor before the first
// with the TSval it echoes (RFC 7323 §4.3).
INLINE void rx_measure(struct rx *f, const struct rx_in *i, u32 head, u32 label, struct rx_report *r)
{
	u32 end = i->seq + i->len, oldest = rx_oldest(f, head), at = rx_find(f, head, end, RX_BY_EDGE);
	struct rx_record found;
	u64 age;

	if (f->timestamps) {
		if (label == head || (label == oldest && !(f->whole && oldest == f->first)))
			return; // It need not be the first with its TSval.
		found = f->ring[label & (RX_RECORDS - 1)];
		r->limited = after(end + f->mss, found.edge) && !(found.t & RX_BY_KERNEL);
		if ((found.t & RX_WITH_DATA) && !r->limited)
			return; // An answer to data of ours: the time the peer thought about it is in there too.
		at = (s32)(at - label) > 0 ? at : label;
	} else if (at == oldest || after(i->seq, rx_highest(f, i))) {
		return; // Permitted before the ring begins, or not next in order: nothing vouches for it.
	}
	if (at == head)
		return;
	found = f->ring[at & (RX_RECORDS - 1)];
	ORDERED();
	if (NOW_IS(f->head) - at >= RX_RECORDS)
		return; // Written over while it was read.
	age = rx_age(i->now, found.t);
	if (age > RX_LABEL_NS)
		return;
	r->sent = i->now - age;
	if (r->sent <= f->sample_after || i->wire < RX_SAMPLE_BYTES || i->wire < f->largest - f->largest / 4)
		return;
	if (r->sent <= f->resumed) {
		if (f->way_back && f->timestamps && r->limited)
			r->paused = age;
		return;
	}
	r->rtt = age;
	r->there = way_back_since(i->now, i->tsval) | ((u64)f->timestamps - 1);
}

// Whether the silence before this segment was ours: it was permitted after the last one had arrived. At a floor of one segment each waits for a
// delayed acknowledgement. A silence longer than the sender's timer is a pause all the same.
INLINE int rx_was_held_back(struct rx *f, const struct rx_in *i, u32 head)
{
	u32 at = rx_find(f, head, i->seq + i->len, RX_BY_EDGE);
	u64 age;

	if (!f->step || at == head)
		return 0;
	age = rx_age(i->now, f->ring[at & (RX_RECORDS - 1)].t);
	ORDERED();
	return NOW_IS(f->head) - at < RX_RECORDS && age <= RX_LABEL_NS && age < i->now - f->last_data && age <= path_rto(f->srtt);
}

// RFC 9840 §4.3: below the highest byte and sent after it. Within one tick of the TSval clock the age of the hole decides: younger than half
// an RTT it may be reordering. So it does without timestamps, where three segments above the hole are needed too.
INLINE int rx_is_retransmission(const struct rx *f, const struct rx_in *i, int echoed)
{
	int ripe = f->hole && i->now - f->hole_at > f->srtt / 2;

	if (!f->receiving || not_before(i->seq, f->highest))
		return 0;
	if (!f->timestamps)
		return ripe && f->highest - i->seq > 3 * f->mss;
	return echoed && (after(i->tsval, f->highest_tsval) || (i->tsval == f->highest_tsval && ripe));
}

// Whether this loss or mark begins a new episode: at most one per window of data.
INLINE int rx_new_episode(struct rx *f, u32 seq)
{
	if (f->recovering && !not_before(seq, f->recover))
		return 0;
	f->recover = f->edge;
	f->recovering = 1;
	return 1;
}

INLINE void rx_advance(struct rx *f, const struct rx_in *i, struct rx_report *r)
{
	u32 end = i->seq + i->len, from = i->seq;

	if (!f->receiving || after(i->rcv_nxt, f->received))
		f->received = i->rcv_nxt;
	if (!f->receiving || not_before(i->rcv_nxt, f->highest)) {
		f->highest = i->rcv_nxt;
		f->hole = 0;
	}
	if (!f->hole && after(i->seq, f->highest)) {
		f->hole = 1;
		f->hole_at = i->now;
	}
	if (not_before(end, f->highest)) {
		if (after(f->highest, from))
			from = f->highest;
		f->highest = end;
		f->highest_tsval = i->tsval;
	} else if (after(i->rcv_nxt, from)) {
		from = i->rcv_nxt;
	}
	f->receiving = 1;
	r->got = end - from;
	f->received += r->got;
	f->arrived += r->got;
}

// Two segments that one ACK released arrive as far apart as the bottleneck sent them.
INLINE void rx_pair(struct rx *f, const struct rx_in *i)
{
	u64 gap = i->now - f->last_data;

	if (f->timestamps && i->seq == f->pair_end && i->tsecr == f->pair_tsecr && i->len == i->wire &&
	    i->wire >= f->largest - f->largest / 4 && gap < RX_LABEL_NS)
		f->segment = f->segment ? f->segment - f->segment / RX_PAIRS + gap / RX_PAIRS : gap;
	f->pair_end = i->seq + i->len;
	f->pair_tsecr = i->tsecr;
}

// Everything an incoming segment with payload says. The order is that of docs/algorithms/receiver.md.
INLINE void rx_receive(struct rx *f, const struct rx_in *i, struct rx_report *r)
{
	u32 end = i->seq + i->len, head = NOW_IS(f->head), label;

	r->rtt = r->sent = r->there = RX_UNKNOWN;
	r->got = 0;
	r->paused = 0;
	r->lost = r->marked = r->ce = r->retransmitted = r->limited = r->drained = 0;
	r->ignored = not_before(i->rcv_nxt, end); // A spurious retransmission, or our ACK was lost: not a loss.
	if (r->ignored)
		return;
	label = f->timestamps ? rx_echoed(f, i, head) : head;
	r->ignored = !rx_is_plausible(f, i, label != head);
	if (r->ignored)
		return;
	if (i->wire > f->largest && i->wire <= f->most)
		f->largest = i->wire;
	if (f->largest > f->mss)
		f->mss = f->largest;
	if (f->recovering && not_before(i->rcv_nxt, f->recover))
		f->recovering = 0;
	// After a pause the first labels tell how long the peer had nothing to send.
	if (f->last_data && i->now - f->last_data > 2 * f->srtt && f->srtt && !rx_was_held_back(f, i, head))
		f->resumed = i->now;
	r->retransmitted = rx_is_retransmission(f, i, label != head);
	if (r->retransmitted) {
		f->sample_after = i->now;
		f->retransmissions++;
	} else {
		rx_measure(f, i, head, label, r);
		rx_pair(f, i);
	}
	// Before the first segment of ours there is no edge to tell a window of data by, nor what has been drained.
	r->ce = i->ce && (!f->timestamps || label != head);
	if (f->sending && (r->retransmitted || r->ce) && rx_new_episode(f, i->seq)) {
		r->lost = r->retransmitted;
		r->marked = !r->retransmitted;
	}
	rx_advance(f, i, r);
	r->drained = f->sending && !after(f->edge - rx_floor(f), end + (1U << f->ws));
	f->last_data = i->now;
	f->segments++;
	if (r->rtt != RX_UNKNOWN)
		f->rtt = r->rtt;
}

// Segments that come closer together than `interval` are reported to the path as one, as an ACK tells a sender of several: the path's
// work is not done for each packet of a fast flow. True if `r` is to be reported now; it then says all that was pending.
INLINE int rx_collect(struct rx *f, struct rx_report *r, u64 now, u64 interval)
{
	f->pending += r->got;
	if (!f->reported || r->rtt < f->pending_rtt) {
		f->pending_rtt = r->rtt;
		f->pending_there = r->there;
	}
	f->pending_limited |= r->limited;
	f->pending_paused = larger_u63(f->pending_paused, r->paused);
	if (now - f->reported < interval && !r->lost && !r->marked)
		return 0;
	r->got = f->pending;
	r->rtt = f->pending_rtt;
	r->there = f->pending_there;
	r->limited = f->pending_limited;
	r->paused = f->pending_paused;
	f->reported = now;
	f->pending = f->pending_limited = 0;
	f->pending_paused = 0;
	f->pending_rtt = RX_UNKNOWN;
	return 1;
}

// A connection whose peer has been told to send at most `most` bytes a segment (RFC 9293 §3.7.1).
INLINE void rx_init(struct rx *f, u64 now, u32 mss, u32 most, u8 ws, u8 timestamps)
{
	f->born = f->sample_after = now;
	f->mss = mss;
	f->most = most;
	f->flow_window = rx_floor(f);
	f->ws = ws;
	f->timestamps = timestamps;
	f->rtt = f->pending_rtt = RX_UNKNOWN;
	f->managed = 1;
}

#endif
