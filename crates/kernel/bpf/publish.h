// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// What people see: the group's counters and each flow's snapshot. Knows no packet.
#ifndef LOWTIDE_PUBLISH_H
#define LOWTIDE_PUBLISH_H

#include "state.h"

#define PUBLISH_NS (50 * NS_PER_MS)
#define UNSEEN_SEGMENTS 16                 // more than can be on their way from TCP to an interface

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_FLOWS);
	__type(key, u64);
	__type(value, struct flow_snapshot);
} snapshots SEC(".maps");

static const struct flow_snapshot empty_snapshot;

// A flow's snapshot in place; the stack has no room for one.
INLINE struct flow_snapshot *snapshot_of(u64 cookie)
{
	struct flow_snapshot *s = bpf_map_lookup_elem(&snapshots, &cookie);

	if (s)
		return s;
	bpf_map_update_elem(&snapshots, &cookie, &empty_snapshot, BPF_NOEXIST);
	return bpf_map_lookup_elem(&snapshots, &cookie);
}

// Whether segments leave this connection's socket that the outgoing program does not see, or cannot parse: another program took
// them first, an IPsec policy hides their headers, the interface is not covered yet.
INLINE int is_unseen(const struct flow *f, const struct bpf_tcp_sock *tp)
{
	return tp->segs_out - f->rx.segs_out >= UNSEEN_SEGMENTS;
}

// Now, or so often that its window is the kernel's own time and again (rx_resume).
INLINE int went_unseen(const struct flow *f, const struct bpf_tcp_sock *tp)
{
	return is_unseen(f, tp) || f->rx.gaps >= UNSEEN_SEGMENTS;
}

RARELY void publish(struct __sk_buff *skb, struct bpf_sock *sk, struct bpf_tcp_sock *tp, const struct flow *flow, const struct path *p)
{
	const struct rx *f = &flow->rx;
	struct flow_snapshot *s = snapshot_of(bpf_get_socket_cookie(skb));

	if (!s)
		return;
	remote_of(sk, s->remote);
	local_of(sk, s->local);
	s->local_port = sk->src_port;
	s->remote_port = bpf_ntohs(sk->dst_port);
	s->timestamps = f->timestamps;
	s->window_scale = f->ws;
	s->unseen = is_unseen(flow, tp);
	s->phase = control_phase(config.algorithm, &p->control);
	s->bytes = tp->bytes_received;
	s->segments = f->segments;
	s->retransmissions = f->retransmissions;
	s->slowdowns = p->slowdowns;
	s->base_rtt = control_base(config.algorithm, &p->control);
	s->rtt = f->rtt;
	s->queueing = control_queueing(config.algorithm, &p->control);
	s->window = f->flow_window;
	s->path_window = control_window(config.algorithm, &p->control);
	s->path_flows = path_flows(p);
	s->last = f->published;
	s->born = f->born;
}

// What has happened on a flow since it was last counted, `got` bytes of it new.
INLINE void count_flow(struct flow *flow, u64 got)
{
	struct group_totals *g = group();
	struct rx *f = &flow->rx;

	if (!g)
		return;
	g->bytes += got;
	g->segments += f->segments - f->counted;
	g->retransmissions += f->retransmissions - f->counted_retransmissions;
	g->lowered += flow->lowered;
	f->counted = f->segments;
	f->counted_retransmissions = f->retransmissions;
	flow->lowered = 0;
}

// A flow ends: what is still pending counts too. The path has yet to hear of it, for a FIN or RST may be forged.
INLINE void count_rest(struct flow *f)
{
	count_flow(f, f->rx.pending - f->counted);
	f->counted = f->rx.pending;
}

// What the path made of a report.
INLINE void count_path(const struct rx_report *r, u64 queueing, u32 slowdowns, u64 yielded, int lost)
{
	struct group_totals *g = group();

	if (!g)
		return;
	g->losses += lost;
	g->slowdowns += slowdowns;
	g->yielded += yielded;
	g->samples += r->rtt != RX_UNKNOWN;
	if (queueing != CONTROL_NONE) {
		g->queueing_sum += queueing;
		g->queueing_count++;
	}
}

#endif
