// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// The receiver in the kernel: which packets belong to a managed flow, and what the header code makes of them. Knows
// nothing of how a window is computed (path.h, receiver.h, cc.h).
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_core_read.h>

#include "types.h"
#include "parse.h"
#include "publish.h"
#include "state.h"

#define TCP_PROTOCOL 6
#define SOL_IP 0
#define SOL_IPV6 41
#define IP_TOS 1
#define IPV6_TCLASS 67
#define DSCP_LE (1 << 2)                   // RFC 8622: 000001, above the two ECN bits
#define ALIVE_NS (5 * NS_PER_S)

// Functions of their own for the verifier: it follows each once, not once for every way that leads to it.
__attribute__((noinline)) int parse_packet(struct __sk_buff *skb, struct segment *s)
{
	return s ? parse(skb, s) : -1;
}

__attribute__((noinline)) int flow_received(struct rx *f, const struct rx_in *i, struct rx_seen *s)
{
	if (!f || !i || !s)
		return -1;
	rx_receive(f, i, s);
	return 0;
}

__attribute__((noinline)) int flow_sends(struct rx *f, const struct rx_out *o)
{
	return f && o ? rx_send(f, o) : 0xffff;
}

// ---- incoming ----------------------------------------------------------------------------------------------------

INLINE void received(struct __sk_buff *skb, struct bpf_sock *sk, struct bpf_tcp_sock *tp, struct rx *f, struct segment *seg)
{
	struct path_entry *entry = path_of(sk);
	struct rx_in in = {};
	struct rx_seen seen = {};
	u64 queueing, yielded, loss;
	u32 slowdowns;

	if (!entry) { // No room for another path: this flow is left to the kernel.
		f->share = CC_MAX_WINDOW;
		return;
	}
	in.now = bpf_ktime_get_ns();
	in.srtt = entry->path.srtt;
	in.seq = seg->seq;
	in.len = seg->payload;
	in.wire = skb->gso_size ? skb->gso_size : seg->payload;
	in.tsval = seg->tsval;
	in.tsecr = seg->tsecr;
	in.rcv_nxt = tp->rcv_nxt;
	in.ce = seg->ce;
	if (flow_received(f, &in, &seen) || seen.old)
		return;
	bpf_spin_lock(&entry->lock);
	slowdowns = entry->path.cc.slowdowns;
	yielded = entry->path.yielded;
	loss = entry->path.last_loss;
	path_receive(&entry->path, f, &seen, in.now, config.enhanced);
	slowdowns = entry->path.cc.slowdowns - slowdowns;
	yielded = entry->path.yielded - yielded;
	loss = entry->path.last_loss != loss;
	bpf_spin_unlock(&entry->lock);
	queueing = delay_queueing(&entry->path.cc.delay);
	count(&seen, queueing, slowdowns, yielded, loss);
	if (in.now - f->published > PUBLISH_NS) {
		f->published = in.now;
		publish(skb, sk, tp, f, &entry->path, in.now);
	}
}

SEC("cgroup_skb/ingress")
int receive(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct bpf_tcp_sock *tp;
	struct segment seg = {};
	struct rx *f;

	if (!sk)
		return 1;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->protocol != TCP_PROTOCOL)
		return 1;
	tp = bpf_tcp_sock(sk);
	if (!tp || sk->state == BPF_TCP_LISTEN || sk->state == BPF_TCP_SYN_SENT || sk->state == BPF_TCP_SYN_RECV)
		return 1;
	f = bpf_sk_storage_get(&flow_states, sk, 0, 0);
	if (!f)
		f = adopt(sk); // Open before we were here.
	if (!f)
		return 1;
	if (parse_packet(skb, &seg)) {
		struct group_totals *g = group();

		if (g)
			g->unparsed++;
		return 1;
	}
	if (seg.payload && !(seg.flags & (TCP_SYN | TCP_RST)) && (seg.timestamps || !f->timestamps))
		received(skb, sk, tp, f, &seg);
	return 1;
}

// ---- outgoing ----------------------------------------------------------------------------------------------------

INLINE void lower(struct __sk_buff *skb, const struct segment *seg, u16 field)
{
	int network = network_offset(skb, seg);
	u16 from = bpf_htons(seg->window), to = bpf_htons(field);
	struct group_totals *g = group();
	u32 tcp;

	if (network < 0)
		return;
	tcp = network + seg->l4;
	if (bpf_l4_csum_replace(skb, tcp + 16, from, to, sizeof(to)))
		return;
	bpf_skb_store_bytes(skb, tcp + 14, &to, sizeof(to), 0);
	if (g)
		g->lowered++;
}

INLINE void sent(struct __sk_buff *skb, struct rx *f)
{
	struct segment seg = {};
	struct rx_out out = {};
	u16 field;

	if (parse_packet(skb, &seg) || (seg.flags & (TCP_SYN | TCP_RST)) || !(seg.flags & TCP_ACK))
		return;
	out.now = bpf_ktime_get_ns();
	out.ack = seg.ack;
	out.tsval = seg.tsval;
	out.field = seg.window;
	out.data = seg.payload > 0;
	field = flow_sends(f, &out);
	if (field < seg.window)
		lower(skb, &seg, field);
}

INLINE int transmit(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct rx *f;

	if (!sk)
		return -1; // TC_ACT_UNSPEC, TCX_NEXT
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return -1;
	f = bpf_sk_storage_get(&flow_states, sk, 0, 0);
	if (f)
		sent(skb, f);
	return -1;
}

SEC("tcx/egress")
int transmit_tcx(struct __sk_buff *skb)
{
	return transmit(skb);
}

SEC("tc")
int transmit_clsact(struct __sk_buff *skb)
{
	if (bpf_ktime_get_ns() - alive > ALIVE_NS)
		return -1;
	return transmit(skb);
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct rx);
} test_flow SEC(".maps");

// The outgoing path on one fixed flow, for BPF_PROG_TEST_RUN; attached nowhere.
SEC("tc")
int transmit_test(struct __sk_buff *skb)
{
	u32 zero = 0;
	struct rx *f = bpf_map_lookup_elem(&test_flow, &zero);

	if (f) { // Each packet is the first that a flow of two segments sends.
		rx_init(f, 0, 1460, 0, 1);
		f->head = 0;
		f->sending = 1;
		f->edge = f->ack_last = 0;
		sent(skb, f);
	}
	return 0;
}

// ---- connections -------------------------------------------------------------------------------------------------

INLINE void mark(struct bpf_sock_ops *ops)
{
	int class = DSCP_LE;

	if (!config.dscp_le)
		return;
	bpf_setsockopt(ops, SOL_IP, IP_TOS, &class, sizeof(class));
	if (ops->family == AF_INET6)
		bpf_setsockopt(ops, SOL_IPV6, IPV6_TCLASS, &class, sizeof(class));
}

SEC("sockops")
int connection(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	u64 cookie;

	switch (ops->op) {
	case BPF_SOCK_OPS_RWND_INIT: // What the SYN may permit: LEDBAT++'s initial window (-01 §4.4).
		ops->reply = CC_MIN_SEGMENTS;
		return 1;
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		mark(ops);
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		mark(ops);
		/* fallthrough */
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
		if (sk)
			adopt(sk);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		if (ops->args[1] == BPF_TCP_CLOSE) {
			cookie = bpf_get_socket_cookie(ops);
			bpf_map_delete_elem(&snapshots, &cookie);
		}
		break;
	}
	ops->reply = -1;
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
