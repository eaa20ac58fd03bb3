// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// What the control knows of its path: base RTT, queue, own rate, the line's rate, a packet's time on it, its jitter; the twin of
// crates/cc/src/scavenger/lowtide/signals.rs. Knows no window law.
#ifndef LOWTIDE_LOWTIDE_SIGNALS_H
#define LOWTIDE_LOWTIDE_SIGNALS_H

#include "../control_events.h"
#include "bunches.h"
#include "spacing.h"
#include "unevenness.h"

#define LOWTIDE_ROUND_LEAST 4000           // us: so that a queue's minimum is one of several samples
#define LOWTIDE_RATE_WINDOW 100000         // us: less would take the bursts of a scheduler for the line's rate
#define LOWTIDE_RATE_BUCKET 20000000       // us: a rate not reached again is forgotten after one to two of these
#define LOWTIDE_KNEE_LEAST 2500            // us of own queue at which a line is in full use, at least
#define LOWTIDE_FREE 1000                  // us: a lone packet's queue is free below this
#define LOWTIDE_STALL 25000                // us: a silence longer than this and four usual ones is a pause of the line
#define LOWTIDE_UNEVEN_QUIET 10000000      // us: after a loss or a mark no unevenness is learned for so long
#define LOWTIDE_STALL_APART 2000000        // us: pauses of a line are at least this far apart, and eight round trips
#define LOWTIDE_GAP_MOST 30000             // us: the usual silence of a line that aggregates is taken to be at most this long
#define LOWTIDE_RECENT 8                   // samples

// What the running round has seen.
struct lowtide_round {
	u64 since, delivered, least_rtt, lost, marked, longest_gap;
	u64 total;                         // bytes that had arrived when it began
};

// Times in us, rates in bytes a second.
struct lowtide_signals {
	u64 mss, now, srtt;
	u64 base;                          // 0 before the first sample
	u64 behind;                        // a queue of others' on the way back, which the host has left out of the RTTs (way_back.h)
	u64 base_seen;
	u64 queue, rate;
	u64 smooth_rate;                   // 0: not yet measured
	u64 drained;                       // the least RTT since it was last reset
	u64 total;                         // bytes that have arrived in all
	struct lowtide_round round;
	u64 receiver;                      // the form of a receive window: positions are of edges, and arrivals come in trains
	u64 least_before;                  // receiver: the least RTT of the round before
	u64 least_long_before;             // and of the one before that
	u64 bin_least, bin_count;          // receiver: of the samples that make the next one of `recent`
	u64 serialisation, knee, alarm, gap;
	struct lowtide_bunches bunches;    // sender: how such a line is told
	struct lowtide_unevenness uneven;  // sender
	struct lowtide_spacing spacing;    // receiver
	u64 line[2], bucket_since, window_since, window_delivered;
	u64 sample_delivered, sample_interval;
	u64 dispersion[2];
	u64 recent[LOWTIDE_RECENT], samples; // the newest first
	u64 last_ack, stall_until;
	u64 waits;                         // the last acknowledgement had waited on its way
	u64 next_stall;                    // the next silence from then on may be taken for a pause of the line
};

// Whether it is a receiver's. An object of the kernel's has one form, to which the verifier is spared the other; elsewhere a flow says which it has.
INLINE int lowtide_receives(const struct lowtide_signals *s)
{
#ifdef CONTROL_RECEIVES
	(void)s;
	return CONTROL_RECEIVES;
#else
	return s->receiver;
#endif
}

// What a round trip takes without a queue on the way there.
INLINE u64 lowtide_round_trip(const struct lowtide_signals *s) { return s->base + s->behind; }

INLINE void lowtide_new_round(struct lowtide_round *r, u64 since, u64 delivered, u64 total)
{
	r->since = since;
	r->delivered = delivered;
	r->total = total;
	r->least_rtt = LOWTIDE_NONE;
	r->lost = r->marked = r->longest_gap = 0;
}

// The newest delivery-rate sample.
INLINE u64 lowtide_sample_rate(const struct lowtide_signals *s)
{
	return s->sample_delivered ? lowtide_rate_of(s->sample_delivered, s->sample_interval) : 0;
}

// The most the line has delivered lately; a guess before that is known.
INLINE u64 lowtide_line_rate(const struct lowtide_signals *s)
{
	u64 rate = larger_u63(s->line[0], s->line[1]);

	return rate ? rate : larger_u63(larger_u63(lowtide_sample_rate(s), s->rate), 10 * s->mss);
}

// The jitter of the line: half its usual longest silence, or twice what its deliveries usually range over in a round.
INLINE u64 lowtide_jitter(const struct lowtide_signals *s)
{
	return lowtide_receives(s) ? s->gap / 2 : larger_u63(s->gap / 2, 2 * s->uneven.usual);
}

// Computes what follows from base, line rate, dispersion and jitter.
INLINE void lowtide_refresh(struct lowtide_signals *s)
{
	u64 of_mean = lowtide_time_of(s->mss, lesser_u63(lowtide_line_rate(s), LOWTIDE_RATE_MAX));

	s->serialisation = s->dispersion[1] < LOWTIDE_NONE ? lesser_u63(s->dispersion[1], of_mean) : lesser_u63(of_mean, 2000);
	s->knee = larger_u63(larger_u63(LOWTIDE_KNEE_LEAST, s->base / 50), 3 * s->serialisation) + 2 * lowtide_jitter(s);
	s->alarm = 2 * s->knee + larger_u63(2 * s->serialisation, 2000);
}

// A round has had none of the line's silences.
INLINE void lowtide_decay_jitter(struct lowtide_signals *s)
{
	s->gap -= (s->gap + 15) / 16;
	lowtide_refresh(s);
}

// What packets usually wait for the line.
INLINE void lowtide_expect_jitter(struct lowtide_signals *s, u64 wait)
{
	s->gap = larger_u63(s->gap, lesser_u63(wait, LOWTIDE_GAP_MOST));
	lowtide_refresh(s);
}

// What looked like the line's silences may be somebody else's.
INLINE void lowtide_forget_jitter(struct lowtide_signals *s)
{
	s->gap = 0;
	lowtide_refresh(s);
}

INLINE void lowtide_signals_init(struct lowtide_signals *s, const struct control_start *start)
{
	s->mss = larger_u63(start->mss, 1);
	s->now = s->base_seen = s->bucket_since = s->window_since = s->last_ack = start->now / 1000;
	s->srtt = 100000;
	s->base = s->behind = s->queue = s->rate = s->smooth_rate = s->gap = 0;
	s->drained = s->dispersion[0] = s->dispersion[1] = s->least_before = s->least_long_before = s->bin_least = LOWTIDE_NONE;
	s->receiver = start->receiver;
	lowtide_bunches_init(&s->bunches);
	lowtide_unevenness_init(&s->uneven);
	s->total = s->bin_count = 0;
	lowtide_new_round(&s->round, s->now, 0, 0);
	lowtide_spacing_init(&s->spacing);
	s->line[0] = s->line[1] = s->window_delivered = s->sample_delivered = s->sample_interval = 0;
	for (int i = 0; i < LOWTIDE_RECENT; i++)
		s->recent[i] = LOWTIDE_NONE;
	s->samples = s->stall_until = s->next_stall = s->waits = 0;
	lowtide_refresh(s);
}

// The line is slower than was believed.
INLINE void lowtide_lower_line_rate(struct lowtide_signals *s, u64 rate)
{
	s->line[0] = s->line[1] = rate;
	lowtide_refresh(s);
}

// The line was seen to deliver this.
INLINE void lowtide_raise_line_rate(struct lowtide_signals *s, u64 rate)
{
	if (rate > s->line[1]) {
		s->line[1] = rate;
		lowtide_refresh(s);
	}
}

// The own queue aimed at, in bytes, at `rate`: max(3, 4 sqrt(rate / 1667 packets/s)) packets, and what hides in the jitter.
INLINE u64 lowtide_share_of_queue(const struct lowtide_signals *s, u64 rate)
{
	u64 packets = larger_u63(lowtide_sqrt((rate << 20) / (1667 * s->mss)), 3 << 8); // in 1/256 packets

	return packets * s->mss / 256 + lowtide_bytes_in(rate, 2 * lowtide_jitter(s));
}

// The least queue of the last `count` samples, at most eight; 0 before there are as many.
INLINE u64 lowtide_queue_of_last(const struct lowtide_signals *s, u64 count)
{
	u64 least = LOWTIDE_NONE;

	if (s->samples < count)
		return 0;
	for (u64 back = 1; back <= LOWTIDE_RECENT; back++)
		if (back <= count)
			least = lesser_u64(least, s->recent[back - 1]);
	return lowtide_less(least, s->base);
}

// The queue up to which a lone pair of packets has met nobody, and that of a line without jitter.
INLINE u64 lowtide_least_queue(const struct lowtide_signals *s) { return LOWTIDE_FREE + s->serialisation * 3 / 2; }
INLINE u64 lowtide_free(const struct lowtide_signals *s) { return lowtide_least_queue(s) + 2 * lowtide_jitter(s); }

// Starts the measurement of a probe afresh.
INLINE void lowtide_forget_rate(struct lowtide_signals *s)
{
	s->rate = s->samples = 0;
	s->round.least_rtt = s->least_before = s->least_long_before = s->bin_least = LOWTIDE_NONE;
	s->bin_count = 0;
	s->sample_delivered = s->sample_interval = 0;
}

// What is sent from now on has this in `prior_delivered`, or more.
INLINE u64 lowtide_mark(const struct lowtide_signals *s, const struct control_ack *a)
{
	return lowtide_receives(s) ? a->delivered : a->delivered + a->in_flight;
}

// The least queue of this round and the one before; 0 before there are samples.
INLINE u64 lowtide_queue_of_two_rounds(const struct lowtide_signals *s)
{
	u64 least = lesser_u64(s->round.least_rtt, s->least_before);

	return least == LOWTIDE_NONE ? 0 : lowtide_less(least, s->base);
}

// The second smallest is kept: the smallest may be an accident of acknowledgements that were sent together.
INLINE void lowtide_take_dispersion(struct lowtide_signals *s, u64 time)
{
	if (time < s->dispersion[0]) {
		s->dispersion[1] = s->dispersion[0];
		s->dispersion[0] = time;
	} else if (time < s->dispersion[1]) {
		s->dispersion[1] = time;
	} else {
		return;
	}
	lowtide_refresh(s);
}

// What every acknowledgement tells, whatever the state: times, gaps, losses.
INLINE void lowtide_observe(struct lowtide_signals *s, const struct control_ack *a, int steady)
{
	u64 gap, hole;
	int prompt;

	// As if acknowledgements had not waited: those that come together after a wait (ACK compression) say nothing of the line.
	s->now = larger_u63(s->now, lowtide_less(a->now / 1000, a->waited / 1000));
	s->total = lowtide_receives(s) ? s->total + a->acked : a->delivered;
	s->srtt = lowtide_clamp(a->srtt / 1000, 100, LOWTIDE_TIME_MAX);
	s->behind = lesser_u63(a->way_back / 1000, LOWTIDE_TIME_MAX);
	gap = lowtide_less(s->now, s->last_ack);
	s->last_ack = s->now;
	// How long one has waited is known to a tick of the peer's clock, which may be longer than a packet's time.
	prompt = !(a->waited | s->waits);
	s->waits = a->waited > 0;
	if (gap > 0 && gap < LOWTIDE_TIME_MAX && a->acked > 0 && prompt) {
		lowtide_take_dispersion(s, gap * s->mss / a->acked);
		if (lowtide_receives(s))
			lowtide_spacing_take(&s->spacing, gap * s->mss / a->acked);
	}
	// A window's trains leave a hole in each round trip.
	hole = lowtide_receives(s) ? lowtide_round_trip(s) / 5 * 2 : 0;
	if (steady && gap > larger_u63(LOWTIDE_STALL + 4 * s->gap, hole) && s->now >= s->next_stall) {
		s->stall_until = lowtide_mark(s, a);
		// A burst of somebody else's, once a round trip, looks the same.
		s->next_stall = s->now + larger_u63(LOWTIDE_STALL_APART, 8 * s->srtt);
	}
	s->round.longest_gap = larger_u63(s->round.longest_gap, lesser_u63(gap, LOWTIDE_TIME_MAX));
	if (!lowtide_receives(s))
		lowtide_unevenness_note(&s->uneven, lesser_u63(s->now - s->round.since, LOWTIDE_TIME_MAX), lesser_u63(s->total - s->round.total, LOWTIDE_WINDOW_MAX));
	s->round.lost += a->lost;
	s->round.marked |= a->ce > 0;
	if (a->rate_interval) {
		s->sample_delivered = a->rate_delivered;
		s->sample_interval = a->rate_interval / 1000;
	}
	if (!s->line[0] && !s->line[1])
		lowtide_refresh(s);
}

// The RTT of an acknowledgement as the base; whether it counts as a sample of the queue, too, is the caller's to say.
INLINE void lowtide_take_base(struct lowtide_signals *s, u64 rtt)
{
	u64 near = lowtide_clamp(s->serialisation / 2, 100, 5000) + lowtide_jitter(s) / 2;

	if (!s->base || rtt < s->base) {
		s->base = rtt;
		lowtide_refresh(s);
	}
	// Whose train follows the hole sees no queue though one stands: behind a receive window only a drain tells.
	if (!lowtide_receives(s) && rtt <= s->base + near)
		s->base_seen = s->now;
}

// Whether packets of this acknowledgement were under way during a pause of the line.
INLINE int lowtide_met_a_stall(const struct lowtide_signals *s, const struct control_ack *a) { return a->prior_delivered < s->stall_until; }

// A sample of the queue; behind a receive window one is one of the last eight only as the least of a 32nd of `window`.
INLINE void lowtide_take_rtt(struct lowtide_signals *s, u64 rtt, u64 window)
{
	s->round.least_rtt = lesser_u64(s->round.least_rtt, rtt);
	s->drained = lesser_u64(s->drained, rtt);
	if (lowtide_receives(s)) {
		s->bin_least = lesser_u64(s->bin_least, rtt);
		s->bin_count++;
		if (s->bin_count * 32 * s->mss < window)
			return;
		rtt = s->bin_least;
		s->bin_least = LOWTIDE_NONE;
		s->bin_count = 0;
	}
	for (int i = LOWTIDE_RECENT - 1; i > 0; i--)
		s->recent[i] = s->recent[i - 1];
	s->recent[0] = rtt;
	s->samples++;
}

// Measures the line's rate while `law` runs, over windows of at least LOWTIDE_RATE_WINDOW and an RTT.
INLINE void lowtide_measure_line(struct lowtide_signals *s, int law)
{
	u64 lasted = lowtide_less(s->now, s->window_since), rate;

	if (lasted < larger_u63(s->srtt, LOWTIDE_RATE_WINDOW))
		return;
	rate = lowtide_rate_of(s->total - s->window_delivered, lasted);
	s->window_since = s->now;
	s->window_delivered = s->total;
	if (!law)
		return;
	s->line[1] = larger_u63(s->line[1], rate);
	if (s->now - s->bucket_since > LOWTIDE_RATE_BUCKET) {
		s->line[0] = s->line[1];
		s->line[1] = rate;
		s->bucket_since = s->now;
	}
	lowtide_refresh(s);
}

// Whether the round is over that began when `delivered` of it had arrived.
INLINE int lowtide_round_over(const struct lowtide_signals *s, const struct control_ack *a)
{
	return a->prior_delivered >= s->round.delivered &&
	       lowtide_less(s->now, s->round.since) >= larger_u63(larger_u63(s->base, LOWTIDE_ROUND_LEAST), 4 * s->gap);
}

// Delivered per second since the round began.
INLINE u64 lowtide_rate_in_round(const struct lowtide_signals *s)
{
	return lowtide_rate_of(s->total - s->round.total, lowtide_less(s->now, s->round.since));
}

// Whether a packet alone takes less than 0.35 of its mean time: data comes in trains.
INLINE int lowtide_in_trains(const struct lowtide_signals *s)
{
	return s->dispersion[1] < LOWTIDE_NONE && s->dispersion[1] * 20 < lowtide_time_of(s->mss, s->rate) * 7;
}

// The least queue of the two rounds before this one; huge before there were two.
INLINE u64 lowtide_queue_before(const struct lowtide_signals *s)
{
	u64 least = lesser_u64(s->least_before, s->least_long_before);

	return least == LOWTIDE_NONE ? LOWTIDE_NONE : lowtide_less(least, s->base);
}

// Learns the silences of a line that aggregates: while we have the whole of it nobody else can have caused them.
INLINE void lowtide_learn_jitter(struct lowtide_signals *s, u64 longest)
{
	int full = s->rate * 4 > lowtide_line_rate(s) * 3;
	u64 excess;

	if (!full || !lowtide_in_trains(s) || longest >= LOWTIDE_GAP_MOST)
		return;
	excess = lowtide_less(longest, 6 * larger_u63(s->serialisation, lowtide_time_of(s->mss, s->rate)));
	s->gap = excess > s->gap ? s->gap + (excess - s->gap) / 4 : s->gap - (s->gap - excess) / 16;
	lowtide_refresh(s);
}

// Learns the jitter of a line that sends in bunches from the delay's teeth.
INLINE void lowtide_learn_teeth(struct lowtide_signals *s)
{
	u64 tooth = s->bunches.tooth;

	s->bunches.tooth = 0;
	if (!lowtide_bunches_many(&s->bunches))
		s->gap -= s->gap / 16;
	else if (tooth > s->gap)
		s->gap = s->gap ? s->gap + (tooth - s->gap) / 4 : tooth;
	else if (tooth)
		s->gap -= (s->gap - tooth) / 16;
	lowtide_refresh(s);
}

// Learns how unevenly the line delivers, from rounds that had three quarters of it: what others send would have taken more. It is no line of one
// rate, on which others come between our packets: there none of them takes less than a packet's time, a sixteenth of the mean.
INLINE void lowtide_learn_unevenness(struct lowtide_signals *s, int law)
{
	u64 range = lowtide_unevenness_end_round(&s->uneven, law ? s->smooth_rate : 0), mean;

	if (!law || range == LOWTIDE_NONE)
		return;
	mean = lowtide_time_of(s->mss, s->rate);
	if (s->dispersion[1] == LOWTIDE_NONE || s->dispersion[1] * 16 >= mean)
		lowtide_unevenness_learn(&s->uneven, s->now, 0);
	else if (s->rate * 4 > lowtide_line_rate(s) * 3)
		lowtide_unevenness_learn(&s->uneven, s->now, lowtide_less(range, 2 * mean));
	lowtide_refresh(s);
}

// A loss or a mark: a radio line delivers late and does not drop, so that somebody fills a queue.
INLINE void lowtide_forget_unevenness(struct lowtide_signals *s)
{
	lowtide_unevenness_forget(&s->uneven, s->now + LOWTIDE_UNEVEN_QUIET);
	lowtide_refresh(s);
}

// Whether the line sends what waits in bunches, and whether that may turn out so within a window of its measurement.
INLINE int lowtide_in_bunches(const struct lowtide_signals *s) { return !lowtide_receives(s) && lowtide_bunches_many(&s->bunches); }
INLINE int lowtide_undecided(const struct lowtide_signals *s) { return !lowtide_receives(s) && lowtide_bunches_undecided(&s->bunches, s->now); }

// Ends the round and tells what it saw; `steady`: the law holds more than six packets, so that silences are the line's, and `law`, so that deliveries
// are.
INLINE void lowtide_end_round(struct lowtide_signals *s, const struct control_ack *a, int steady, int law, struct lowtide_round *seen)
{
	*seen = s->round;
	s->rate = lowtide_rate_in_round(s);
	if (seen->least_rtt < LOWTIDE_NONE)
		s->queue = lowtide_less(seen->least_rtt, s->base);
	if (!lowtide_receives(s)) {
		lowtide_learn_unevenness(s, law);
		lowtide_learn_teeth(s);
	} else if (steady) {
		lowtide_learn_jitter(s, seen->longest_gap);
	}
	s->least_long_before = s->least_before;
	s->least_before = seen->least_rtt;
	if (lowtide_receives(s))
		lowtide_spacing_end_round(&s->spacing);
	lowtide_new_round(&s->round, s->now, a->delivered, s->total);
}

// After a drain that did not reach the base: the path may have become longer, by at most 0.2 ms a time, lest a standing queue of others' be
// taken for the path.
INLINE void lowtide_settle_base(struct lowtide_signals *s)
{
	if (s->drained < LOWTIDE_NONE && s->drained > s->base)
		s->base += lesser_u63((s->drained - s->base) / 8, 200);
	s->base_seen = s->now;
	lowtide_refresh(s);
}

// The segment size changed; times of a packet change with it.
INLINE void lowtide_signals_on_mss(struct lowtide_signals *s, u64 mss)
{
	for (int i = 0; i < 2; i++)
		if (s->dispersion[i] < LOWTIDE_NONE)
			s->dispersion[i] = lowtide_clamp(s->dispersion[i] * mss / larger_u63(s->mss, 1), 1, LOWTIDE_TIME_MAX);
	s->mss = mss;
	lowtide_refresh(s);
}

#endif
