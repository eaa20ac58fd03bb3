// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// The receiver in the kernel: which packets belong to a managed flow, and what the header code makes of them. Knows
// nothing of how a window is computed (path.h, receiver.h, cc.h).
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_core_read.h>

#include "types.h"
#include "intf.h"
#include "parse.h"
#include "path.h"

#define AF_INET 2
#define AF_INET6 10
#define TCP_PROTOCOL 6
#define SOL_IP 0
#define SOL_IPV6 41
#define IP_TOS 1
#define IPV6_TCLASS 67
#define DSCP_LE (1 << 2)                   // RFC 8622: 000001, above the two ECN bits
#define PUBLISH_NS (50 * NS_PER_MS)
#define ALIVE_NS (5 * NS_PER_S)

// The few kernel types in use; the loader relocates the fields (CO-RE).
struct tcp_options_received {
	u16 tstamp_ok : 1, rcv_wscale : 4;
} __attribute__((preserve_access_index));

struct tcp_sock {
	struct tcp_options_received rx_opt;
} __attribute__((preserve_access_index));

// Written by the loader before the programs load.
const volatile struct group_config config SEC(".rodata.config");
// CLOCK_MONOTONIC of the owner's last sign of life. clsact filters outlive a killed owner; they must not keep acting.
u64 alive SEC(".data.alive");

struct path_entry {
	struct bpf_spin_lock lock;
	u32 pad;
	struct path path;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct rx);
} flow_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PATHS);
	__type(key, struct path_key);
	__type(value, struct path_entry);
} paths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_FLOWS);
	__type(key, u64);
	__type(value, struct flow_snapshot);
} snapshots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct group_totals);
} totals SEC(".maps");

static const u8 empty_path[sizeof(struct path_entry)];
static const struct flow_snapshot empty_snapshot;

INLINE struct group_totals *group(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&totals, &zero);
}

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

// ---- flows and paths ---------------------------------------------------------------------------------------------

// A connection's state, from what the kernel agreed with the peer; none if it does not say.
INLINE struct rx *adopt(struct bpf_sock *sk)
{
	struct bpf_tcp_sock *tp = bpf_tcp_sock(sk);
	struct tcp_sock *full = bpf_skc_to_tcp_sock(sk);
	struct group_totals *g = group();
	struct rx *f;

	if (!g)
		return 0;
	if (!tp || !full) {
		g->unmanaged++;
		return 0;
	}
	f = bpf_sk_storage_get(&flow_states, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!f) {
		g->unmanaged++;
		return 0;
	}
	if (!f->managed) {
		rx_init(f, bpf_ktime_get_ns(), tp->mss_cache, BPF_CORE_READ_BITFIELD(full, rx_opt.rcv_wscale),
			BPF_CORE_READ_BITFIELD(full, rx_opt.tstamp_ok));
		g->flows++;
	}
	return f;
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

// ---- what people see ---------------------------------------------------------------------------------------------

// A flow's snapshot in place; the stack has no room for one.
INLINE struct flow_snapshot *snapshot_of(u64 cookie)
{
	struct flow_snapshot *s = bpf_map_lookup_elem(&snapshots, &cookie);

	if (s)
		return s;
	bpf_map_update_elem(&snapshots, &cookie, &empty_snapshot, BPF_NOEXIST);
	return bpf_map_lookup_elem(&snapshots, &cookie);
}

INLINE void publish(struct __sk_buff *skb, struct bpf_sock *sk, struct bpf_tcp_sock *tp, struct rx *f, const struct path *p,
		    u64 now)
{
	struct flow_snapshot *s = snapshot_of(bpf_get_socket_cookie(skb));

	if (!s)
		return;
	remote_of(sk, s->remote);
	local_of(sk, s->local);
	s->local_port = sk->src_port;
	s->remote_port = bpf_ntohs(sk->dst_port);
	s->timestamps = f->timestamps;
	s->window_scale = f->ws;
	s->phase = p->cc.phase;
	s->bytes = tp->bytes_received;
	s->segments = f->segments;
	s->retransmissions = f->retransmissions;
	s->slowdowns = p->cc.slowdowns;
	s->base_rtt = p->cc.base_min;
	s->rtt = f->rtt;
	s->queueing = cc_queueing(&p->cc);
	s->window = f->share;
	s->path_window = cc_window(&p->cc);
	s->path_flows = path_flows(p);
	s->last = now;
	s->born = f->born;
}

INLINE void count(const struct rx_seen *s, u64 queueing, u32 slowdowns, u64 yielded, int lost)
{
	struct group_totals *g = group();

	if (!g)
		return;
	g->bytes += s->got;
	g->segments++;
	g->retransmissions += s->retransmitted;
	g->losses += lost;
	g->slowdowns += slowdowns;
	g->yielded += yielded;
	g->samples += s->rtt != RX_UNKNOWN;
	if (queueing != CC_NONE) {
		g->queueing_sum += queueing;
		g->queueing_count++;
	}
}

// ---- incoming ----------------------------------------------------------------------------------------------------

INLINE void received(struct __sk_buff *skb, struct bpf_sock *sk, struct bpf_tcp_sock *tp, struct rx *f, struct segment *seg)
{
	struct path_entry *entry = path_of(sk);
	struct rx_in in = {};
	struct rx_seen seen = {};
	u64 queueing, yielded, loss;
	u32 slowdowns;

	if (!entry)
		return;
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
	queueing = cc_queueing(&entry->path.cc);
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
