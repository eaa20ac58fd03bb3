// One flow seen by its receiver (RFC 9840): the record of what it permitted, RTT and loss from what arrives, and the window
// field that never moves the right edge to the left. Knows no packet, no kernel, no controller.
#ifndef LOWTIDE_RECEIVER_H
#define LOWTIDE_RECEIVER_H

#include "types.h"

#define RX_RECORDS 1024                    // spec F.2: one record per ACK
#define RX_LABEL_NS (2 * NS_PER_S)         // spec F.2: labels live 2 s
#define RX_UNKNOWN (~0ULL)
#define RX_TICK 10                         // times in records: 2^10 ns, 31 bits, wraps in 36 minutes
#define RX_STEPS 4                         // records looked at from where the last search ended
#define RX_MIN_SEGMENTS 2
#define RX_SAMPLE_BYTES 512                // spec D.3: a small packet is serialised faster than a full one
#define RX_MAX_MSS 65535
#define RX_PAIRS 16                        // packet pairs that the time of a segment is averaged over

// An outgoing segment: when it left, what it permitted and what its echo will be called.
struct rx_record {
	u32 tsval, edge, t;                // t: ticks << 1 | carried data
};

struct rx {
	u32 edge, ack_last;                // the right edge on the wire, and the ACK that drew it
	u32 rcv_hgh, tsv_hgh;              // the highest byte received, and the TSval it came with
	u32 recover;                       // a loss below this belongs to the last episode
	u32 share;                         // bytes this flow may have in flight
	u32 mss, largest;                  // segment size in use, and the largest that arrived on the wire
	u32 head;                          // records ever made
	u64 hole_at, last_data, sample_after, born;
	u64 segments, retransmissions, rtt, published;
	u64 counted, counted_retransmissions; // what the group knows of these
	u32 epoch, slowdown;               // of the path's, when this flow was last counted
	u32 found[2];                      // where the last searches ended, by edge and by TSval
	u64 srtt;                          // the path's, when last told
	u64 told, untold_rtt;              // see path_tells
	u64 segment;                       // how long one takes at the bottleneck, 0: unknown
	u32 pair_end, pair_tsecr;          // where the last one ended, and what it echoed
	u32 untold, untold_limited;
	struct rx_record last;             // the newest record; its place in the ring is a line of memory of its own
	u8 ws, timestamps, sending, receiving, hole, recovering, managed, pad;
	struct rx_record ring[RX_RECORDS];
};

// An outgoing segment as the header shows it.
struct rx_out {
	u64 now;
	u32 ack, tsval;
	u16 field;
	u8 data;
};

// An incoming segment with payload, and what the kernel had received before it.
struct rx_in {
	u64 now, srtt;
	u32 seq, len, wire, tsval, tsecr, rcv_nxt;
	u8 ce;
};

// What an incoming segment told.
struct rx_seen {
	u64 rtt, sent;                     // ns: the sample, and when the segment was permitted; RX_UNKNOWN
	u32 got;                           // new bytes
	u8 old, lost, marked, ce;          // lost, marked: a loss or a CE mark that begins an episode
	u8 retransmitted, limited, drained, pad;
};

INLINE u32 rx_ticks(u64 now) { return (u32)(now >> RX_TICK) << 1; }

INLINE u64 rx_age(u64 now, u32 t) { return (u64)((u32)(rx_ticks(now) - (t & ~1U)) >> 1) << RX_TICK; }

INLINE u32 rx_floor(const struct rx *f) { return RX_MIN_SEGMENTS * f->mss; }

// ---- records -----------------------------------------------------------------------------------------------------

// The index in `found`.
enum rx_by { RX_BY_EDGE, RX_BY_TSVAL };

INLINE u32 rx_key(const struct rx *f, u32 at, enum rx_by by)
{
	const struct rx_record *r = &f->ring[at & (RX_RECORDS - 1)];

	return by == RX_BY_EDGE ? r->edge : r->tsval;
}

// The first of the `length` records from `at` on that is not before `key`. Without branches, for each would double what the
// kernel's verifier has to follow.
RARELY u32 rx_bisect(const struct rx *f, u32 at, u32 length, u32 key, enum rx_by by)
{
	for (int i = 0; i < 11; i++) {
		u32 half = length >> 1;
		u32 before = ((rx_key(f, at + half, by) - key) >> 31) & ((0 - length) >> 31);

		OPAQUE(before);
		at += before * (half + 1);
		length = half - before * (1 - (length & 1));
	}
	return at;
}

// The first record, oldest first, whose edge (or TSval) is not before `key`; head if there is none. Segments mostly arrive in
// order: it is where the last search ended or a few records on, and to look there touches one line of memory, not ten.
INLINE u32 rx_find(struct rx *f, u32 key, enum rx_by by)
{
	u32 length = f->head < RX_RECORDS ? f->head : RX_RECORDS, oldest = f->head - length;
	u32 at = f->found[by] - oldest <= length ? f->found[by] : oldest;

	for (int i = 0; i < RX_STEPS; i++) {
		u32 before = ((rx_key(f, at, by) - key) >> 31) & ((at - f->head) >> 31);

		OPAQUE(before);
		at += before;
	}
	if ((at != f->head && !not_before(rx_key(f, at, by), key)) || (at != oldest && not_before(rx_key(f, at - 1, by), key)))
		at = rx_bisect(f, oldest, length, key, by);
	f->found[by] = at;
	return at;
}

INLINE void rx_record(struct rx *f, const struct rx_out *o)
{
	struct rx_record *next = &f->ring[f->head & (RX_RECORDS - 1)], *last = &f->last;

	if (f->head && last->tsval == o->tsval && last->edge == f->edge)
		return;
	last->edge = f->edge;
	// A ring that would not span an RTT is thinned: the edge moves back to the last record, at most 1/512 RTT too early.
	if (f->head > RX_RECORDS && last->tsval == o->tsval && f->rtt != RX_UNKNOWN && rx_age(o->now, last->t) < f->rtt >> 9 &&
	    rx_age(o->now, next->t) < 2 * f->rtt) {
		f->ring[(f->head - 1) & (RX_RECORDS - 1)].edge = f->edge;
		return;
	}
	last->tsval = o->tsval;
	last->t = rx_ticks(o->now) | (o->data & 1);
	*next = *last;
	f->head++;
}

// ---- outgoing ----------------------------------------------------------------------------------------------------

// The window field to send (spec F.5): at most the kernel's, zero only if that is, and no edge to the left of one sent.
INLINE u16 rx_send(struct rx *f, const struct rx_out *o)
{
	u32 kernel = o->ack + ((u32)o->field << f->ws), edge, units;
	u16 field = o->field;

	if (!f->sending) { // What left before we looked permitted no more than this.
		f->edge = kernel;
		f->sending = 1;
	}
	if (not_before(kernel, f->edge)) {
		// A duplicate ACK keeps its field: a changed window would not count as a duplicate.
		u32 want = o->ack == f->ack_last && after(f->rcv_hgh, o->ack) ? f->edge : o->ack + f->share;

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
	rx_record(f, o);
	return field;
}

// ---- incoming ----------------------------------------------------------------------------------------------------

// RTT by timestamps and edge (spec F.2): a segment cannot have left before the first ACK that permitted it arrived, nor
// before the first with the TSval it echoes.
INLINE void rx_measure(struct rx *f, const struct rx_in *i, struct rx_seen *s)
{
	u32 end = i->seq + i->len, oldest = f->head < RX_RECORDS ? 0 : f->head - RX_RECORDS;
	u32 at = rx_find(f, end, RX_BY_EDGE), t;
	u64 age;

	if (f->timestamps) {
		u32 label = rx_find(f, i->tsecr, RX_BY_TSVAL);
		const struct rx_record *r = &f->ring[label & (RX_RECORDS - 1)];

		if (label == f->head || r->tsval != i->tsecr || (label == oldest && oldest))
			return;
		s->limited = after(end + f->mss, r->edge);
		if ((r->t & 1) && !s->limited)
			return; // An answer to data of ours: the time the peer thought about it is in there too.
		at = (s32)(at - label) > 0 ? at : label;
	} else if (at == oldest) {
		return; // Permitted before the ring begins.
	}
	if (at == f->head)
		return;
	t = f->ring[at & (RX_RECORDS - 1)].t;
	age = rx_age(i->now, t);
	if (age > RX_LABEL_NS)
		return;
	s->sent = i->now - age;
	if (s->sent > f->sample_after && i->wire >= RX_SAMPLE_BYTES && i->wire >= f->largest - f->largest / 4)
		s->rtt = age;
}

// Spec F.3. A hole younger than half an RTT may be reordering; without timestamps it also needs three segments above it.
INLINE int rx_is_retransmission(const struct rx *f, const struct rx_in *i)
{
	int ripe = f->hole && i->now - f->hole_at > i->srtt / 2;

	if (!f->receiving || not_before(i->seq, f->rcv_hgh))
		return 0;
	if (!f->timestamps)
		return ripe && f->rcv_hgh - i->seq > 3 * f->mss;
	return after(i->tsval, f->tsv_hgh) || (i->tsval == f->tsv_hgh && ripe);
}

// Whether this loss begins a new episode: at most one per window of data.
INLINE int rx_new_episode(struct rx *f, u32 seq)
{
	if (f->recovering && !not_before(seq, f->recover))
		return 0;
	f->recover = f->edge;
	f->recovering = 1;
	return 1;
}

INLINE void rx_advance(struct rx *f, const struct rx_in *i, struct rx_seen *s)
{
	u32 end = i->seq + i->len, from = i->seq;

	if (!f->receiving || not_before(i->rcv_nxt, f->rcv_hgh)) {
		f->rcv_hgh = i->rcv_nxt;
		f->hole = 0;
	}
	if (!f->hole && after(i->seq, f->rcv_hgh)) {
		f->hole = 1;
		f->hole_at = i->now;
	}
	if (not_before(end, f->rcv_hgh)) {
		if (after(f->rcv_hgh, from))
			from = f->rcv_hgh;
		f->rcv_hgh = end;
		f->tsv_hgh = i->tsval;
	} else if (after(i->rcv_nxt, from)) {
		from = i->rcv_nxt;
	}
	f->receiving = 1;
	s->got = end - from;
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

// Everything an incoming segment with payload says (spec F.5, steps 1 to 4).
INLINE void rx_receive(struct rx *f, const struct rx_in *i, struct rx_seen *s)
{
	u32 end = i->seq + i->len;

	s->rtt = s->sent = RX_UNKNOWN;
	s->got = 0;
	s->lost = s->marked = s->retransmitted = s->limited = s->drained = 0;
	s->ce = i->ce;
	s->old = not_before(i->rcv_nxt, end);
	if (s->old)
		return; // A spurious retransmission, or a lost ACK: not a loss.
	if (i->wire > f->largest && i->wire <= RX_MAX_MSS)
		f->largest = i->wire;
	if (f->largest > f->mss)
		f->mss = f->largest;
	if (f->recovering && not_before(i->rcv_nxt, f->recover))
		f->recovering = 0;
	// After a pause the first labels tell how long the peer had nothing to send.
	if (f->last_data && i->now - f->last_data > 2 * i->srtt && i->srtt)
		f->sample_after = i->now;
	s->retransmitted = rx_is_retransmission(f, i);
	if (s->retransmitted) {
		f->sample_after = i->now;
		f->retransmissions++;
	} else {
		rx_measure(f, i, s);
		rx_pair(f, i);
	}
	if ((s->retransmitted || i->ce) && rx_new_episode(f, i->seq)) {
		s->lost = s->retransmitted;
		s->marked = !s->retransmitted;
	}
	rx_advance(f, i, s);
	s->drained = !after(f->edge - rx_floor(f), end + (1U << f->ws));
	f->last_data = i->now;
	f->segments++;
	if (s->rtt != RX_UNKNOWN)
		f->rtt = s->rtt;
}

INLINE void rx_init(struct rx *f, u64 now, u32 mss, u8 ws, u8 timestamps)
{
	f->born = f->sample_after = now;
	f->mss = mss;
	f->share = rx_floor(f);
	f->ws = ws;
	f->timestamps = timestamps;
	f->rtt = RX_UNKNOWN;
	f->managed = 1;
}

#endif
