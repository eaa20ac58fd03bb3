// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// What the programs remember: a state per socket, a controller per remote address, the group's counters. Knows no packet.
#ifndef LOWTIDE_STATE_H
#define LOWTIDE_STATE_H

#include "intf.h"
#include "parse.h"
#include "path.h"

#define MAX_LEFT_ALONE 4096
#define AF_INET 2
#define AF_INET6 10

// The few kernel types in use; the loader relocates the fields (CO-RE).
struct tcp_options_received {
	u16 tstamp_ok : 1, rcv_wscale : 4;
} __attribute__((preserve_access_index));

struct dst_entry {
	unsigned long _metrics;
} __attribute__((preserve_access_index));

struct sock_common {
	volatile unsigned char skc_state;
} __attribute__((preserve_access_index));

struct sock {
	void *sk_bpf_storage;
	struct dst_entry *sk_dst_cache;
} __attribute__((preserve_access_index));

struct inet_sock {
	struct sock sk;
} __attribute__((preserve_access_index));

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	void *icsk_ulp_data;
} __attribute__((preserve_access_index));

struct mptcp_subflow_context {
	u32 mp_capable : 1, mp_join : 1;
} __attribute__((preserve_access_index));

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 mss_cache, segs_out;
	u16 advmss;
	struct tcp_options_received rx_opt;
	_Bool is_mptcp;
} __attribute__((preserve_access_index));

struct sk_buff {
	struct sock *sk;
	u8 ip_summed : 2;
} __attribute__((preserve_access_index));

#define CHECKSUM_PARTIAL 3                 // include/linux/skbuff.h

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym __weak; // since Linux 6.2

// Written by the loader before the programs load.
const volatile struct group_config config SEC(".rodata.config");
// CLOCK_MONOTONIC of the owner's last sign of life. clsact filters outlive a killed owner; they must not keep acting.
u64 alive SEC(".data.alive");

// A connection.
struct flow {
	struct place received, sent;       // its packets' headers
	u64 left;                          // when its last segment left that the outgoing program saw
	u32 lowered;                       // segments, not yet counted
	u32 counted;                       // of rx.pending, the bytes that the group's counters have
	u8 left_alone;                     // bits of enum left_alone, counted
	u8 released;                       // the program has closed it
	u8 joined;                         // made in another cgroup, before its process joined the group (receive_joined.h)
	u8 pad[5];
	struct rx rx;
};

struct path_entry {
	struct bpf_spin_lock lock;
	u32 pad;
	struct path path;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flow_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PATHS);
	__type(key, struct path_key);
	__type(value, struct path_entry);
} paths SEC(".maps");

// Connections that are not managed and have been counted, by cookie.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_LEFT_ALONE);
	__type(key, u64);
	__type(value, u32);
} left_alone SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct group_totals);
} totals SEC(".maps");

static const u8 empty_path[sizeof(struct path_entry)];

INLINE struct group_totals *group(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&totals, &zero);
}

// ---- flows and paths ---------------------------------------------------------------------------------------------

// Counts a connection that is not managed, once.
RARELY void leave_alone(u64 cookie, u32 why)
{
	struct group_totals *g = group();
	u32 kept = why;

	if (g && why < LEFT_KINDS && !bpf_map_update_elem(&left_alone, &cookie, &kept, BPF_NOEXIST))
		g->left_alone[why]++;
}

// The same for one that is managed and does not yield.
RARELY void does_not_yield(struct flow *f, u32 why)
{
	struct group_totals *g = group();

	if (!g || why >= LEFT_KINDS || (f->left_alone >> why & 1))
		return;
	f->left_alone |= 1U << why;
	f->rx.published = 0; // To be shown at once.
	g->left_alone[why]++;
}

// Whether its windows belong to a connection of several subflows. A client whose peer knows no MPTCP keeps the mark, though what it has is
// plain TCP (RFC 8684 section 3.7): subflow_finish_connect of net/mptcp/subflow.c then leaves both bits of the subflow unset.
INLINE int is_multipath(struct tcp_sock *full)
{
	struct mptcp_subflow_context *subflow;

	if (!bpf_core_field_exists(full->is_mptcp) || !full->is_mptcp)
		return 0;
	if (!bpf_core_type_exists(struct mptcp_subflow_context))
		return 1;
	subflow = BPF_CORE_READ(full, inet_conn.icsk_ulp_data);
	return !subflow || BPF_CORE_READ_BITFIELD_PROBED(subflow, mp_capable) || BPF_CORE_READ_BITFIELD_PROBED(subflow, mp_join);
}

// A connection's state, from what the kernel agreed with the peer; none if it cannot be managed. `sk` is the socket as the kernel lets the
// program at hand keep something with it.
INLINE struct flow *adopt_as(void *sk, struct tcp_sock *full, u32 mss, u32 segs_out, u8 joined, u64 cookie)
{
	struct group_totals *g = group();
	struct flow *f;

	if (!g)
		return 0;
	if (is_multipath(full)) {
		leave_alone(cookie, LEFT_MPTCP);
		return 0;
	}
	f = bpf_sk_storage_get(&flow_states, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!f) {
		leave_alone(cookie, LEFT_STORAGE);
		return 0;
	}
	if (!f->rx.managed) {
		f->joined = joined;
		rx_init(&f->rx, bpf_ktime_get_ns(), mss, full->advmss, BPF_CORE_READ_BITFIELD(full, rx_opt.rcv_wscale),
			BPF_CORE_READ_BITFIELD(full, rx_opt.tstamp_ok));
		f->rx.segs_out = segs_out;
		g->flows++;
	}
	return f;
}

INLINE struct flow *adopt(struct bpf_sock *sk, u64 cookie)
{
	struct bpf_tcp_sock *tp = bpf_tcp_sock(sk);
	struct tcp_sock *full = bpf_skc_to_tcp_sock(sk);

	if (!tp || !full) {
		leave_alone(cookie, LEFT_SCALE);
		return 0;
	}
	return adopt_as(sk, full, tp->mss_cache, tp->segs_out, 0, cookie);
}

// Addresses are copied word by word: the kernel lets a program read a socket's only so.
INLINE void address(u32 *to, u32 family, u32 v4, u32 a, u32 b, u32 c, u32 d)
{
	int four = family == AF_INET;

	OPAQUE(v4);
	OPAQUE(a);
	OPAQUE(b);
	OPAQUE(c);
	OPAQUE(d);
	to[0] = four ? 0 : a;
	to[1] = four ? 0 : b;
	to[2] = four ? bpf_htonl(0xffff) : c;
	to[3] = four ? v4 : d;
}

INLINE void remote_of(struct bpf_sock *sk, u32 *to)
{
	address(to, sk->family, sk->dst_ip4, sk->dst_ip6[0], sk->dst_ip6[1], sk->dst_ip6[2], sk->dst_ip6[3]);
}

INLINE void local_of(struct bpf_sock *sk, u32 *to)
{
	address(to, sk->family, sk->src_ip4, sk->src_ip6[0], sk->src_ip6[1], sk->src_ip6[2], sk->src_ip6[3]);
}

INLINE struct path_entry *path_of(struct bpf_sock *sk)
{
	struct path_key key;
	struct path_entry *entry;

	remote_of(sk, key.remote);
	entry = bpf_map_lookup_elem(&paths, &key);
	if (entry)
		return entry;
	bpf_map_update_elem(&paths, &key, empty_path, BPF_NOEXIST);
	return bpf_map_lookup_elem(&paths, &key);
}

#endif
