// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// The receiver in the kernel: which packets belong to a managed flow, and what the header code makes of them. Knows
// nothing of how a window is computed (path.h, receiver.h, control.h).
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_core_read.h>

#include "types.h"
#include "dscp.h"
#include "parse.h"
#include "publish.h"
#include "state.h"

#define SOL_TCP 6
#define TCP_WINDOW_CLAMP 10
#define RTAX_WINDOW 3                      // linux/rtnetlink.h
#define DST_METRICS_FLAGS 3UL              // include/net/dst.h
#define MAX_OFFER ((1 << 24) - 1)
#define ALIVE_NS (5 * NS_PER_S)
#define OVERTAKEN_NS (2 * NS_PER_MS)

// A function of its own for the verifier, which follows it once, not once for every way that leads to it; and for the
// processor, which need not have it at hand for packets that are like the last one.
__attribute__((noinline)) int parse_any(struct __sk_buff *skb, struct segment *s)
{
	return s ? parse(skb, s) : -1;
}

// ---- incoming ----------------------------------------------------------------------------------------------------

// Here a packet begins with its network header.
INLINE int parse_received(struct __sk_buff *skb, struct place *place, struct segment *seg)
{
	if (parse_alike(skb, place, seg) > 0) {
		seg->ce = is_ce(skb);
		return 0;
	}
	if (parse_any(skb, seg))
		return -1;
	remember(skb, 0, seg, place);
	return 0;
}

// Reports to the path and lets it set the flow's window. A function of its own for the verifier, as above; it looks the socket up again,
// for older kernels pass no socket to such a function.
__attribute__((noinline)) int report_to_path(struct __sk_buff *skb, struct flow *flow, const struct rx_report *report, u64 now)
{
	struct bpf_sock *sk = skb->sk;
	struct bpf_tcp_sock *tp = sk ? bpf_tcp_sock(sk) : 0;
	struct path_entry *entry;
	u64 queueing, yielded, loss;
	struct rx *f;
	u32 slowdowns;

	if (!tp || !flow || !report)
		return 0;
	f = &flow->rx;
	if (went_unseen(flow, tp))
		does_not_yield(flow, LEFT_UNSEEN);
	entry = path_of(sk);
	if (!entry) { // No room for another path: this flow is left to the kernel.
		f->flow_window = CONTROL_MAX_WINDOW;
		does_not_yield(flow, LEFT_PATHS);
		return 0;
	}
	bpf_spin_lock(&entry->lock);
	slowdowns = entry->path.slowdowns;
	yielded = entry->path.yielded;
	loss = entry->path.last_loss;
	path_receive(&entry->path, f, report, now, &config);
	slowdowns = entry->path.slowdowns - slowdowns;
	yielded = entry->path.yielded - yielded;
	loss = entry->path.last_loss != loss;
	bpf_spin_unlock(&entry->lock);
	queueing = control_queueing(config.algorithm, &entry->path.control);
	count_path(report, queueing, slowdowns, yielded, loss);
	if (now - f->published > PUBLISH_NS && !flow->released) {
		f->published = now;
		publish(skb, sk, tp, flow, &entry->path);
	}
	return 0;
}

INLINE void received(struct __sk_buff *skb, struct bpf_tcp_sock *tp, struct flow *flow, struct segment *seg)
{
	struct rx *f = &flow->rx;
	struct rx_in in = {};
	struct rx_report report = {};

	in.now = bpf_ktime_get_ns();
	in.seq = seg->seq;
	in.len = seg->payload;
	in.wire = skb->gso_size ? skb->gso_size : seg->payload;
	in.tsval = seg->tsval;
	in.tsecr = seg->tsecr;
	in.rcv_nxt = tp->rcv_nxt;
	in.ce = seg->ce;
	rx_receive(f, &in, &report);
	if (report.ignored)
		return;
	if (rx_collect(f, &report, in.now, config.report)) {
		count_flow(flow, report.got - flow->counted);
		flow->counted = 0;
		report_to_path(skb, flow, &report, in.now);
	}
}

// A packet of a managed connection.
INLINE void arrived(struct __sk_buff *skb, struct bpf_tcp_sock *tp, struct flow *f)
{
	struct segment seg = {};

	if (parse_received(skb, &f->received, &seg)) {
		struct group_totals *g = group();

		if (g)
			g->unparsed++;
		return;
	}
	if (seg.payload && !(seg.flags & (TCP_SYN | TCP_RST)) && (seg.timestamps || !f->rx.timestamps))
		received(skb, tp, f, &seg);
	if (seg.flags & (TCP_FIN | TCP_RST))
		count_rest(f);
}

SEC("cgroup_skb/ingress")
int receive(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct bpf_tcp_sock *tp;
	struct flow *f;

	if (!sk)
		return 1;
	f = bpf_sk_storage_get(&flow_states, sk, 0, 0);
	tp = bpf_tcp_sock(sk);
	if (!tp)
		return 1;
	if (!f && sk->state != BPF_TCP_LISTEN && sk->state != BPF_TCP_SYN_SENT && sk->state != BPF_TCP_SYN_RECV)
		f = adopt(sk, bpf_get_socket_cookie(skb)); // Open before we were here.
	if (f)
		arrived(skb, tp, f);
	return 1;
}

// ---- outgoing ----------------------------------------------------------------------------------------------------

// The TCP header's place in the packet; negative: not parsed.
INLINE int parse_sent(struct __sk_buff *skb, struct place *place, struct segment *seg)
{
	int at = parse_alike(skb, place, seg), network;

	if (at > 0)
		return at;
	if (parse_any(skb, seg))
		return -1;
	network = network_offset(skb, seg);
	if (network < 0)
		return -1;
	remember(skb, network, seg, place);
	return network + seg->l4;
}

// Whether a device, or the kernel at the last moment, will compute the checksum: nearly always. Linux before 6.2 does not say.
INLINE int is_unsummed(struct __sk_buff *skb)
{
	struct sk_buff *full;

	if (!bpf_cast_to_kern_ctx)
		return 0;
	full = bpf_cast_to_kern_ctx(skb);
	return BPF_CORE_READ_BITFIELD(full, ip_summed) == CHECKSUM_PARTIAL;
}

// Whether the packet now shows the window field `to`. Where the checksum could be written, so can the window, which stands before it.
INLINE int lower(struct __sk_buff *skb, u32 tcp, u16 from, u16 to)
{
	from = bpf_htons(from);
	to = bpf_htons(to);
	if (!is_unsummed(skb) && bpf_l4_csum_replace(skb, tcp + offsetof(struct tcp, check), from, to, sizeof(to)))
		return 0;
	return !bpf_skb_store_bytes(skb, tcp + offsetof(struct tcp, window), &to, sizeof(to), 0);
}

// When TCP has it leave, on the clock of bpf_ktime_get_ns: TCP writes that into each packet it sends (Linux 4.20 on, for fq),
// and to read the clock once more would be a quarter of what this program costs.
INLINE u64 departure(struct __sk_buff *skb)
{
	u64 at = skb->tstamp;

	return at ? at : bpf_ktime_get_ns();
}

INLINE void sent(struct __sk_buff *skb, struct flow *f, struct bpf_tcp_sock *tp)
{
	struct segment seg = {};
	struct rx_out out = {};
	int tcp = parse_sent(skb, &f->sent, &seg);
	u16 field;

	if (tcp < 0) {
		struct group_totals *g = group();

		if (g && tp && tp->segs_out != f->rx.segs_out) // Else it was seen where it had no other header around it, as on a tunnel's device.
			g->unparsed_sent++;
		return;
	}
	if ((seg.flags & (TCP_SYN | TCP_RST)) || !(seg.flags & TCP_ACK))
		return;
	out.now = departure(skb);
	out.ack = seg.ack;
	out.tsval = seg.tsval;
	out.field = seg.window;
	out.data = seg.payload > 0;
	if (tp) {
		out.segs = seg.payload && skb->gso_segs ? skb->gso_segs : 1; // Of a pure ACK that memory is not touched.
		out.before = tp->segs_out - out.segs; // TCP counts a segment before it passes it on.
		// One that left a moment ago was overtaken by TCP, not missed: a queue to user space (nfqueue), encryption on another processor.
		if (after(out.before, f->rx.segs_out) && out.now - f->left < OVERTAKEN_NS)
			out.before = f->rx.segs_out;
		f->left = out.now;
	}
	field = rx_send(&f->rx, &out);
	if (field == seg.window)
		return;
	if (lower(skb, tcp, seg.window, field))
		f->lowered++;
	else
		rx_not_lowered(&f->rx, &out);
}

// Whether any BPF program keeps anything with this packet's socket. What lowtide does not manage mostly ends here, without a call.
INLINE int remembers(struct __sk_buff *skb)
{
	struct sk_buff *full;
	struct sock *sk;

	if (!bpf_cast_to_kern_ctx)
		return 1;
	full = bpf_cast_to_kern_ctx(skb);
	sk = full->sk;
	return sk && sk->sk_bpf_storage;
}

INLINE int transmit(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct flow *f;

	if (config.dscp_le)
		set_dscp_le(skb);
	if (!sk || !remembers(skb))
		return -1; // TC_ACT_UNSPEC, TCX_NEXT
	f = bpf_sk_storage_get(&flow_states, sk, 0, 0);
	if (f && f->rx.managed) // Another processor may be about to adopt it.
		sent(skb, f, bpf_tcp_sock(sk));
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
	if ((s64)(bpf_ktime_get_ns() - alive) > (s64)ALIVE_NS) // `alive` may have been written since.
		return -1;
	return transmit(skb);
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct flow);
} test_flow SEC(".maps");

// The outgoing path on one fixed flow, for BPF_PROG_TEST_RUN; attached nowhere.
SEC("tc")
int transmit_test(struct __sk_buff *skb)
{
	u32 zero = 0;
	struct flow *f = bpf_map_lookup_elem(&test_flow, &zero);

	if (f) { // Each packet is the first that a flow of two segments sends.
		rx_init(&f->rx, 0, 1460, 1460, 0, 1);
		f->rx.head = f->rx.first = 0;
		f->rx.sending = 1;
		f->rx.edge = f->rx.ack_last = 0;
		sent(skb, f, 0);
	}
	return 0;
}

// ---- connections -------------------------------------------------------------------------------------------------

// The clamp of the route to the peer (ip-route(8), window); 0: it has none.
INLINE int route_clamp(struct bpf_sock *sk)
{
	struct tcp_sock *full = sk ? bpf_skc_to_tcp_sock(sk) : 0;
	unsigned long metrics;
	u32 window = 0;

	if (!full || !full->inet_conn.icsk_inet.sk.sk_dst_cache)
		return 0;
	metrics = full->inet_conn.icsk_inet.sk.sk_dst_cache->_metrics & ~DST_METRICS_FLAGS;
	if (bpf_probe_read_kernel(&window, sizeof(window), (void *)(metrics + sizeof(window) * (RTAX_WINDOW - 1))))
		return 0;
	return window < MAX_OFFER ? window : 0;
}

// A right edge that never moves left moves right at each acknowledgement by what the window's unit rounds up, and with units
// above two segments a window would never shrink at all. The kernel takes its unit from the largest window it may have to
// offer (tcp_select_initial_window): 16 MB give one of 256 bytes.
// A clamp that the program has set, or that the route has, stays. A scale is for life: what was connected under lowtide may offer
// 16 MB afterwards too, not more.
INLINE void bound_scale(struct bpf_sock_ops *ops)
{
	int most = MAX_OFFER, own = 0;

	if (bpf_getsockopt(ops, SOL_TCP, TCP_WINDOW_CLAMP, &own, sizeof(own)) || own || route_clamp(ops->sk))
		return;
	bpf_setsockopt(ops, SOL_TCP, TCP_WINDOW_CLAMP, &most, sizeof(most));
}

// What a listening socket accepts has the listener's clamp, which is ours: the kernel asks the route only where that has none
// (tcp_openreq_init_rwin).
INLINE void keep_route_clamp(struct bpf_sock_ops *ops)
{
	int route = route_clamp(ops->sk), own = 0;

	if (route && !bpf_getsockopt(ops, SOL_TCP, TCP_WINDOW_CLAMP, &own, sizeof(own)) && own > route)
		bpf_setsockopt(ops, SOL_TCP, TCP_WINDOW_CLAMP, &route, sizeof(route));
}

SEC("sockops")
int connection(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct flow *f;
	u64 cookie;

	switch (ops->op) {
	case BPF_SOCK_OPS_RWND_INIT: // What the SYN may permit: a flow's floor.
		ops->reply = RX_MIN_SEGMENTS;
		return 1;
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		bound_scale(ops);
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		keep_route_clamp(ops);
		/* fallthrough */
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
		if (sk)
			adopt(sk, bpf_get_socket_cookie(ops));
		break;
	case BPF_SOCK_OPS_STATE_CB:
		if (ops->args[1] == BPF_TCP_CLOSE) {
			cookie = bpf_get_socket_cookie(ops);
			bpf_map_delete_elem(&snapshots, &cookie);
			f = sk ? bpf_sk_storage_get(&flow_states, sk, 0, 0) : 0;
			if (f)
				count_rest(f);
		}
		break;
	}
	ops->reply = -1;
	return 1;
}

// The program closes the socket. Connections that were adopted tell nothing of their states.
SEC("cgroup/sock_release")
int released(struct bpf_sock *sk)
{
	u64 cookie = bpf_get_socket_cookie(sk);
	struct flow *f = bpf_sk_storage_get(&flow_states, sk, 0, 0);

	if (f) {
		f->released = 1;
		count_rest(f);
		bpf_map_delete_elem(&snapshots, &cookie);
	}
	return 1;
}

#include "receive_joined.h"

char LICENSE[] SEC("license") = "GPL";
