// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// The integers of the control: us, bytes and bytes a second in u64, bounded so that no product of two of them overflows; the twin of
// crates/cc/src/scavenger/lowtide/arithmetic.rs.
#ifndef LOWTIDE_LOWTIDE_ARITHMETIC_H
#define LOWTIDE_LOWTIDE_ARITHMETIC_H

#include "../types.h"

#define LOWTIDE_TIME_MAX (1ULL << 24)
#define LOWTIDE_RATE_MAX (1ULL << 38)
#define LOWTIDE_WINDOW_MAX (1ULL << 40)
#define LOWTIDE_SECOND 1000000ULL
#define LOWTIDE_NONE (~0ULL)

INLINE u64 lowtide_clamp(u64 x, u64 least, u64 most) { return lesser_u63(larger_u63(x, least), most); }

INLINE u64 lowtide_less(u64 a, u64 b) { return a - lesser_u63(a, b); } // a - b, not below nought

// Bytes in `us` at `rate`; both within their bounds.
INLINE u64 lowtide_bytes_in(u64 rate, u64 us) { return rate * lesser_u63(us, LOWTIDE_TIME_MAX) / LOWTIDE_SECOND; }

// Bytes a second, of `bytes` in `us`.
INLINE u64 lowtide_rate_of(u64 bytes, u64 us)
{
	return lesser_u63(lesser_u63(bytes, LOWTIDE_WINDOW_MAX) * LOWTIDE_SECOND / larger_u63(us, 1), LOWTIDE_RATE_MAX);
}

// The time of `bytes` at `rate`, in us.
INLINE u64 lowtide_time_of(u64 bytes, u64 rate)
{
	return lesser_u63(lesser_u63(bytes, LOWTIDE_WINDOW_MAX) * LOWTIDE_SECOND / larger_u63(rate, 1), LOWTIDE_TIME_MAX);
}

// 256 a / b: a ratio with eight binary places.
INLINE u64 lowtide_ratio(u64 a, u64 b) { return (a << 8) / larger_u63(b, 1); }

// A step of a xorshift generator (Marsaglia 2003, "Xorshift RNGs", 13-7-17).
INLINE u64 lowtide_shuffle(u64 x)
{
	x ^= x << 13;
	x ^= x >> 7;
	return x ^ (x << 17);
}

// The whole part of the square root, digit by digit. Without branches, for each would double what the kernel's verifier has to follow.
INLINE u64 lowtide_sqrt(u64 x)
{
	u64 root = 0, fits;

	for (u64 bit = 1ULL << 62; bit; bit >>= 2) {
		fits = is_less_u63(x, root + bit) - 1; // all ones: root + bit <= x
		x -= (root + bit) & fits;
		root = (root >> 1) + (bit & fits);
	}
	return root;
}

#endif
