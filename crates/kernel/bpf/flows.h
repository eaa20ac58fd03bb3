// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// What the path of a receiver (path.h) and that of a sender (sender.h) have in common: how many of its flows are active, its smoothed RTT.
// Knows no flow and no control.
#ifndef LOWTIDE_FLOWS_H
#define LOWTIDE_FLOWS_H

#include "types.h"

#define FLOWS_EPOCH_RTTS 2                 // a flow that nothing was heard of for this long has no part of the window
#define FLOWS_MIN_EPOCH_NS (10 * NS_PER_MS)
#define PATH_MIN_TARGET_NS (1 * NS_PER_MS) // below it the target of a LAN would be the host's own noise
#define PATH_FLOOR_SEGMENTS 8              // a window of a path that makes no queue
#define PATH_MIN_RTO_NS (200 * NS_PER_MS)  // Linux TCP_RTO_MIN

struct flows {
	u64 epoch_end;                     // ns
	u32 epoch, active, active_before;
	u32 pad;
};

// The active ones: those of the last whole epoch, or of this one if they are more by now.
INLINE u32 flows_active(const struct flows *s)
{
	u64 n = larger_u63(s->active, s->active_before);

	return n + is_less_u63(n, 1);
}

// A flow that was counted last in `epoch` is heard of. True if it is for the first time in this one.
INLINE int flows_count(struct flows *s, u32 *epoch, u64 srtt, u64 now)
{
	u64 length = larger_u63(FLOWS_EPOCH_RTTS * srtt, FLOWS_MIN_EPOCH_NS);

	if (now >= s->epoch_end) {
		s->active_before = s->active & (0 - is_less_u63(now, s->epoch_end + length));
		s->active = 0;
		s->epoch++;
		s->epoch_end = now + length;
	}
	if (*epoch == s->epoch)
		return 0;
	*epoch = s->epoch;
	s->active++;
	return 1;
}

// With one more sample (RFC 6298 §2.3).
INLINE u64 path_followed(u64 mean, u64 sample) { return mean - (mean >> 3) + (sample >> 3); }
INLINE u64 path_smoothed(u64 srtt, u64 rtt)
{
	u64 followed = path_followed(srtt, rtt);

	return followed + ((rtt - followed) & (0 - is_less_u63(srtt, 1)));
}

// The sender's retransmission timeout, 4 RTTVAR (RFC 6298 §2.3) taken for the RTT.
INLINE u64 path_rto(u64 srtt) { return srtt + larger_u63(srtt, PATH_MIN_RTO_NS); }

#endif
