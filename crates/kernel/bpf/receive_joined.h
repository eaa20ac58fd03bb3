// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Connections that were open when their process joined the group (`--pid`). A socket belongs for life to the cgroup that it was made in, so
// the group's own programs do not see what arrives for them: an iterator adopts them, and a program at that cgroup sees their packets. At
// egress they are found as all others are, by what is kept with the socket. Included by receive.bpf.c.
#ifndef LOWTIDE_RECEIVE_JOINED_H
#define LOWTIDE_RECEIVE_JOINED_H

#include "owners.h"

#define MAX_COVERED 1024

// Written by user space: the group's id.
u64 group_id SEC(".data.group_id");
// And before `open_before` runs: whether it tells of cgroups that are not covered, or counts what was made there.
u64 listing SEC(".data.listing");

// Ids of the cgroups that `receive_joined` is attached to.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_COVERED);
	__type(key, u64);
	__type(value, u8);
} covered SEC(".maps");

// It adopts none. Those of the group are left alone: where the cgroup lies above the group, their packets come by as well.
SEC("cgroup_skb/ingress")
int receive_joined(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct bpf_tcp_sock *tp;
	struct flow *f;

	if (!sk)
		return 1;
	f = bpf_sk_storage_get(&flow_states, sk, 0, 0);
	if (!f || !f->joined)
		return 1;
	tp = bpf_tcp_sock(sk);
	if (tp)
		arrived(skb, tp, f);
	return 1;
}

// The ids of the cgroup that a socket was made in and of those above it, then zeroes.
INLINE void tell_cgroups(struct seq_file *to, const void *sk)
{
	struct cgroup *group = made_in(sk);
	u64 ids[MAX_DEPTH] = {};

	for (int i = 0; i < MAX_DEPTH && group; i++) {
		ids[i] = BPF_CORE_READ(group, kn, id);
		group = above(group);
	}
	bpf_seq_write(to, ids, sizeof(ids));
}

INLINE int is_covered(const void *sk)
{
	struct cgroup *group = made_in(sk);

	for (int i = 0; i < MAX_DEPTH && group; i++) {
		u64 id = BPF_CORE_READ(group, kn, id);

		if (bpf_map_lookup_elem(&covered, &id))
			return 1;
		group = above(group);
	}
	return 0;
}

SEC("iter/tcp")
int open_before(struct bpf_iter__tcp *ctx)
{
	struct sock_common *c = ctx->sk_common;
	struct tcp_sock *full = c ? bpf_skc_to_tcp_sock(c) : 0;
	u64 cookie;

	if (!full || !is_connected(c->skc_state) || !has_joined(full) || is_made_in(full, group_id))
		return 0;
	cookie = bpf_get_socket_cookie(full);
	if (is_covered(full))
		adopt_as(full, full, full->mss_cache, full->segs_out, 1, cookie);
	else if (listing)
		tell_cgroups(ctx->meta->seq, full);
	else
		leave_alone(cookie, LEFT_ELSEWHERE);
	return 0;
}

#endif
