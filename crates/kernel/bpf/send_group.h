// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Which connections get the group's control, how they lose it again, and what it says of them. Included by send.bpf.c.
#ifndef LOWTIDE_SEND_GROUP_H
#define LOWTIDE_SEND_GROUP_H

#include "owners.h"

#define PAGE_BYTES 4096
#define MAX_DEAD_RUNS 64

// A connection that was given the group's control: what it had before, or what its program has asked for since.
struct origin {
	char control[TCP_CA_NAME_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct origin);
} send_origins SEC(".maps");

// The name of some run's control: lowtide_ and its process.
INLINE int is_a_runs(const char *name)
{
	return name[0] == 'l' && name[1] == 'o' && name[2] == 'w' && name[3] == 't' && name[4] == 'i' && name[5] == 'd' && name[6] == 'e' &&
	       name[7] == '_';
}

// Byte by byte: the name is written after compilation, and a copy of what is not volatile would be one of zeroes.
INLINE void own_name(char *to)
{
	for (int i = 0; i < TCP_CA_NAME_MAX; i++)
		to[i] = config.name[i];
}

// Gives a connection our control and notes what it had. The inner one of two groups comes first: its control stays.
SEC("sockops")
int choose(struct bpf_sock_ops *ops)
{
	char before[TCP_CA_NAME_MAX] = {}, ours[TCP_CA_NAME_MAX];
	struct send_totals *g = totals();
	struct bpf_sock *sk = ops->sk;
	struct origin *origin;

	if (ops->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && ops->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	if (!sk || bpf_getsockopt(ops, SOL_TCP, TCP_CONGESTION, before, sizeof(before)) || is_a_runs(before))
		return 1;
	bpf_get_socket_cookie(ops); // so that it has one
	own_name(ours);
	origin = bpf_sk_storage_get(&send_origins, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (origin && !origin->control[0])
		__builtin_memcpy(origin->control, before, sizeof(before));
	if ((!origin || bpf_setsockopt(ops, SOL_TCP, TCP_CONGESTION, ours, sizeof(ours))) && g)
		g->unmanaged++;
	return 1;
}

// A program of the group that asks for a control of its own is told that it has it, and gets it when the group ends.
SEC("cgroup/setsockopt")
int refuse(struct bpf_sockopt *ctx)
{
	struct send_totals *g = totals();
	struct bpf_sock *sk = ctx->sk;
	struct origin *origin;
	int length = ctx->optlen;

	if (ctx->level != SOL_TCP || ctx->optname != TCP_CONGESTION) {
		if (length > PAGE_BYTES)
			ctx->optlen = 0; // The kernel showed us a part only, and takes the whole if we say that we did not look.
		return 1;
	}
	origin = sk ? bpf_sk_storage_get(&send_origins, sk, 0, BPF_SK_STORAGE_GET_F_CREATE) : 0;
	if (origin) {
		__builtin_memset(origin->control, 0, sizeof(origin->control));
		// Not byte by byte: the verifier would follow each length. The kernel keeps at least 32 bytes (BPF_SOCKOPT_KERN_BUF_SIZE).
		if (length > 0)
			bpf_probe_read_kernel(origin->control, length < TCP_CA_NAME_MAX ? length : TCP_CA_NAME_MAX - 1, ctx->optval);
	}
	if (g)
		g->refused++;
	ctx->optlen = -1; // done: nothing is left for the kernel to do
	return 1;
}

// ---- connections that are open already ---------------------------------------------------------------------------

// Names of runs' controls that sockets have; those that user space leaves in it are of dead runs.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_DEAD_RUNS);
	__type(key, char[TCP_CA_NAME_MAX]);
	__type(value, u8);
} dead_runs SEC(".maps");

// Set by user space before `reclaim` runs: only list the names, or give the sockets the machine's default.
u64 listing SEC(".data.listing");

INLINE void name_of(struct tcp_sock *tp, char *name)
{
	bpf_probe_read_kernel_str(name, TCP_CA_NAME_MAX, (void *)BPF_CORE_READ(tp, inet_conn.icsk_ca_ops) +
		bpf_core_field_offset(struct tcp_congestion_ops, name));
}

INLINE int is_ours(const char *name)
{
	for (int i = 0; i < TCP_CA_NAME_MAX; i++) {
		if (name[i] != config.name[i])
			return 0;
		if (!name[i])
			return 1;
	}
	return 1;
}

SEC("iter/tcp")
int take_over(struct bpf_iter__tcp *ctx)
{
	struct sock_common *c = ctx->sk_common;
	char before[TCP_CA_NAME_MAX] = {}, ours[TCP_CA_NAME_MAX];
	struct send_totals *g = totals();
	struct origin *origin;
	struct tcp_sock *tp;
	int is_member;

	tp = c ? (struct tcp_sock *)bpf_skc_to_tcp_sock(c) : 0;
	if (!tp || !is_connected(c->skc_state))
		return 0;
	is_member = is_made_in(tp, config.cgroup);
	if (!is_member && !has_joined(tp))
		return 0;
	name_of(tp, before);
	if (is_a_runs(before))
		return 0;
	own_name(ours);
	bpf_get_socket_cookie(tp);
	origin = bpf_sk_storage_get(&send_origins, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (g && origin && !is_member && !origin->control[0])
		g->joined++;
	if (origin) // Also what it has asked for since it was taken over: it gets that when the group ends.
		__builtin_memcpy(origin->control, before, sizeof(before));
	if ((!origin || bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, ours, sizeof(ours))) && g)
		g->unmanaged++;
	return 0;
}

SEC("iter/tcp")
int give_back(struct bpf_iter__tcp *ctx)
{
	struct sock_common *c = ctx->sk_common;
	char now[TCP_CA_NAME_MAX] = {}, before[TCP_CA_NAME_MAX] = {}, reno[TCP_CA_NAME_MAX] = "reno";
	struct origin *origin;
	struct tcp_sock *tp;

	tp = c ? (struct tcp_sock *)bpf_skc_to_tcp_sock(c) : 0;
	if (!tp || !is_connected(c->skc_state))
		return 0;
	name_of(tp, now);
	if (!is_ours(now))
		return 0;
	origin = bpf_sk_storage_get(&send_origins, tp, 0, 0);
	if (origin)
		__builtin_memcpy(before, origin->control, sizeof(before));
	// A control that has gone meanwhile, or that nobody has: Reno is in every kernel.
	if (!origin || bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, before, sizeof(before)))
		bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
	return 0;
}

// The machine's default in this network namespace, as user space read it.
char fallback[TCP_CA_NAME_MAX] SEC(".data.fallback");

SEC("iter/tcp")
int reclaim(struct bpf_iter__tcp *ctx)
{
	struct sock_common *c = ctx->sk_common;
	char now[TCP_CA_NAME_MAX] = {}, then[TCP_CA_NAME_MAX];
	struct tcp_sock *tp;
	u8 one = 1;

	tp = c ? (struct tcp_sock *)bpf_skc_to_tcp_sock(c) : 0;
	if (!tp || !is_connected(c->skc_state))
		return 0;
	name_of(tp, now);
	if (!is_a_runs(now) || is_ours(now))
		return 0;
	if (listing) {
		bpf_map_update_elem(&dead_runs, now, &one, BPF_ANY);
		return 0;
	}
	if (!bpf_map_lookup_elem(&dead_runs, now))
		return 0;
	__builtin_memcpy(then, fallback, sizeof(then));
	bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, then, sizeof(then));
	return 0;
}

// ---- what is shown -----------------------------------------------------------------------------------------------

INLINE void addresses(struct sock_common *c, struct send_snapshot *s)
{
	if (c->skc_family == AF_INET) {
		s->local[2] = s->remote[2] = bpf_htonl(0xffff);
		s->local[3] = c->skc_rcv_saddr;
		s->remote[3] = c->skc_daddr;
	} else {
		for (int i = 0; i < 4; i++) {
			s->local[i] = c->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
			s->remote[i] = c->skc_v6_daddr.in6_u.u6_addr32[i];
		}
	}
	s->local_port = c->skc_num;
	s->remote_port = bpf_ntohs(c->skc_dport);
	s->cookie = c->skc_cookie.counter;
}

// Runs over the sockets of `send_origins`, whatever network namespace they are in.
SEC("iter/bpf_sk_storage_map")
int report(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock *sk = ctx->sk;
	struct send_snapshot s = {};
	char name[TCP_CA_NAME_MAX] = {};
	struct tx_entry *entry;
	struct tcp_sock *tp;
	struct flow *f;

	tp = sk && ctx->value ? (struct tcp_sock *)bpf_skc_to_tcp_sock(sk) : 0;
	if (!tp)
		return 0;
	name_of(tp, name);
	f = flow_of((struct sock *)tp);
	if (!is_ours(name) || f->known != FLOW_KNOWN)
		return 0;
	addresses(&tp->inet_conn.icsk_inet.sk.__sk_common, &s);
	s.bytes = tp->bytes_acked - f->bytes_before;
	s.retransmissions = tp->total_retrans - f->retrans_before;
	s.rtt = f->rtt;
	s.last = f->last_ack;
	s.born = f->born;
	s.window = (u64)tp->snd_cwnd * f->tx.mss;
	s.base_rtt = s.queueing = CONTROL_NONE;
	entry = path_of((struct sock *)tp, 0);
	if (entry) { // Read without the lock: numbers for people.
		s.phase = control_phase(ALGORITHM, &entry->path.control);
		s.slowdowns = control_slowdowns(ALGORITHM, &entry->path.control);
		s.base_rtt = control_base(ALGORITHM, &entry->path.control);
		s.queueing = control_queueing(ALGORITHM, &entry->path.control);
		s.path_window = control_window(ALGORITHM, &entry->path.control);
		s.path_flows = tx_flows(&entry->path);
	}
	bpf_seq_write(ctx->meta->seq, &s, sizeof(s));
	return 0;
}

// Sockets that have the control of our name, those that listen with it too.
SEC("iter/tcp")
int users(struct bpf_iter__tcp *ctx)
{
	struct sock_common *c = ctx->sk_common;
	struct send_snapshot s = {};
	char name[TCP_CA_NAME_MAX] = {};
	struct tcp_sock *tp;

	tp = c ? (struct tcp_sock *)bpf_skc_to_tcp_sock(c) : 0;
	if (!tp)
		return 0;
	name_of(tp, name);
	if (!is_ours(name))
		return 0;
	addresses(&tp->inet_conn.icsk_inet.sk.__sk_common, &s);
	bpf_seq_write(ctx->meta->seq, &s, sizeof(s));
	return 0;
}

#endif
