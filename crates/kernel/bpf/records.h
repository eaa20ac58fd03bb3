// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// The ring of what a receiver's segments showed and when they left: written by egress, searched by ingress, perhaps at the same time.
// Included by receiver.h, whose struct rx it is in. Knows no incoming segment.
#ifndef LOWTIDE_RECORDS_H
#define LOWTIDE_RECORDS_H

INLINE u32 rx_ticks(u64 now) { return (u32)(now >> RX_TICK) << 2; }

INLINE u64 rx_age(u64 now, u32 t) { return (u64)((u32)(rx_ticks(now) - (t & ~RX_FLAGS)) >> 2) << RX_TICK; }

// The index in `found`.
enum rx_by { RX_BY_EDGE, RX_BY_TSVAL };

INLINE u32 rx_key(const struct rx *f, u32 at, enum rx_by by)
{
	const struct rx_record *r = &f->ring[at & (RX_RECORDS - 1)];

	return by == RX_BY_EDGE ? r->edge : r->tsval;
}

// The oldest record that may be read. The slot before it is the one that egress writes next, perhaps at this moment: a half-written
// record with a new time and an old edge would give an RTT that is too low.
INLINE u32 rx_oldest(const struct rx *f, u32 head)
{
	return head - f->first < RX_RECORDS ? f->first : head - (RX_RECORDS - 1);
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

// The first record, oldest first, whose edge (or TSval) is not before `key`; `head` if there is none. Segments mostly arrive in
// order: it is where the last search ended or a few records on, and to look there touches one line of memory, not ten.
INLINE u32 rx_find(struct rx *f, u32 head, u32 key, enum rx_by by)
{
	u32 oldest = rx_oldest(f, head), length = head - oldest;
	u32 at = f->found[by] - oldest <= length ? f->found[by] : oldest;

	for (int i = 0; i < RX_STEPS; i++) {
		u32 before = ((rx_key(f, at, by) - key) >> 31) & ((at - head) >> 31);

		OPAQUE(before);
		at += before;
	}
	if ((at != head && !not_before(rx_key(f, at, by), key)) || (at != oldest && not_before(rx_key(f, at - 1, by), key)))
		at = rx_bisect(f, oldest, length, key, by);
	f->found[by] = at;
	return at;
}

INLINE void rx_record(struct rx *f, const struct rx_out *o, u32 flags)
{
	struct rx_record *next = &f->ring[f->head & (RX_RECORDS - 1)], *last = &f->last;

	if (f->head != f->first && last->tsval == o->tsval && last->edge == f->edge)
		return;
	last->edge = f->edge;
	// A ring that would not span an RTT is thinned: the edge moves back to the last record, at most 1/512 RTT too early.
	if (f->head - f->first > RX_RECORDS && last->tsval == o->tsval && f->rtt != RX_UNKNOWN &&
	    rx_age(o->now, last->t) < f->rtt >> 9 && rx_age(o->now, next->t) < 2 * f->rtt) {
		f->ring[(f->head - 1) & (RX_RECORDS - 1)].edge = f->edge;
		return;
	}
	last->tsval = o->tsval;
	last->t = rx_ticks(o->now) | flags;
	*next = *last;
	ORDERED();
	f->head++;
}

#endif
