// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Integer names and helpers for code that runs both in the kernel and natively in tests. Knows neither.
#ifndef LOWTIDE_TYPES_H
#define LOWTIDE_TYPES_H

#ifdef __bpf__
#include <linux/types.h>
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
#define INLINE static inline __attribute__((always_inline))
#define RARELY static __attribute__((noinline)) // Out of the way of what each packet runs through.
#else
#include <stdint.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;
typedef int64_t s64;
#define INLINE static inline
#define RARELY static inline
#endif

// What the compiler shall not look through, lest it make a branch of it.
#define OPAQUE(x) __asm__ volatile("" : "+r"(x))

// The compiler neither moves a load or store across this nor keeps a value across it. A processor that does (not x86) may show another one a
// record before its contents; see rx_oldest.
#define ORDERED() __asm__ volatile("" ::: "memory")
#define NOW_IS(x) (*(const volatile __typeof__(x) *)&(x))

#define NS_PER_MS 1000000ULL
#define NS_PER_S 1000000000ULL

INLINE u64 min_u64(u64 a, u64 b) { return a < b ? a : b; }
INLINE u64 max_u64(u64 a, u64 b) { return a > b ? a : b; }

// 1 if a < b, else 0, without a branch: the borrow of a - b.
INLINE u64 is_less_u64(u64 a, u64 b)
{
	u64 borrow = ((~a & b) | ((~a | b) & (a - b))) >> 63;

	OPAQUE(borrow);
	return borrow;
}

// The same as min_u64 and max_u64 without a branch: for loops, and wherever many stand in a row. The kernel's verifier would follow each branch both
// ways, and with what it has learned from one past the next.
INLINE u64 lesser_u64(u64 a, u64 b) { return b ^ ((a ^ b) & (0 - is_less_u64(a, b))); }

// Of numbers below 2^63, as lengths of time and of data are, a third of the work.
INLINE u64 is_less_u63(u64 a, u64 b)
{
	u64 borrow = (a - b) >> 63;

	OPAQUE(borrow);
	return borrow;
}

INLINE u64 lesser_u63(u64 a, u64 b) { return b + ((a - b) & (0 - is_less_u63(a, b))); }
INLINE u64 larger_u63(u64 a, u64 b) { return a - ((a - b) & (0 - is_less_u63(a, b))); }

// Serial arithmetic (RFC 1982) for sequence numbers and timestamps: a is after b.
INLINE int after(u32 a, u32 b) { return (s32)(a - b) > 0; }
INLINE int not_before(u32 a, u32 b) { return (s32)(a - b) >= 0; }

#endif
