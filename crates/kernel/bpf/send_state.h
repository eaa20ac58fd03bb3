// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// What the sending programs remember: a window per path, what a socket keeps, the counters. Included by send.bpf.c, after the kernel's
// types. Knows no event.
#ifndef LOWTIDE_SEND_STATE_H
#define LOWTIDE_SEND_STATE_H

#define ALIVE_NS (5 * NS_PER_S)
#define NONE_US 0xffffffffU

// The number of this object's control in control.h (build.rs): what the other controls need is not in it.
#ifndef ALGORITHM
#error "-DALGORITHM=NUMBER"
#endif

// lowtide (control.h) paces, and limits recovery itself; for the others both are the kernel's.
#define IS_PACED (ALGORITHM == 5)

// Written by the loader before the programs load.
const volatile struct send_config config SEC(".rodata.config");
// CLOCK_MONOTONIC of the owner's last sign of life. Sockets keep a control whose owner was killed; it must not keep acting.
u64 alive SEC(".data.alive");

struct tx_key {
	u64 netns;
	u32 remote[4];
	u16 local_port, remote_port;       // zero where all connections to an address share a window
	u32 pad;
};

struct tx_entry {
	struct bpf_spin_lock lock;
	u32 pad;
	struct tx_path path;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SEND_MAX_PATHS);
	__type(key, struct tx_key);
	__type(value, struct tx_entry);
} send_paths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct send_totals);
} send_totals SEC(".maps");

static const u8 empty_path[sizeof(struct tx_entry)];

// What the control keeps in the socket itself (ca_priv).
struct flow {
	struct tx tx;
	u32 rtt_us;                        // the sample of the acknowledgement at hand; NONE_US: none
	u32 largest;                       // bytes: the largest segment that was acknowledged
	u32 bytes;                         // the low half of bytes_acked at the acknowledgement before
	u32 reducing;                      // an episode begins: set_state will say of what kind
	u32 retrans_before;
	u32 known;                         // FLOW_KNOWN: what is here was written by our init
	u64 bytes_before;                  // bytes_acked when the control came
	u64 born, last_ack, rtt;           // ns
	u64 old_until;                     // bytes_acked at which all is acknowledged that was sent before
	union {
		struct tx_clock clock;     // of a control that hears of one-way delays
		struct {
			u32 ce, lost;      // of one that paces: delivered_ce as last seen; segments lost and not yet told of
		};
	};
};

#define FLOW_KNOWN 0x6c6f7774U

_Static_assert(sizeof(struct flow) <= CA_PRIV_BYTES, "the kernel has no more room in a socket");

INLINE struct send_totals *totals(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&send_totals, &zero);
}

// `alive` may have been written since `now` was read. Of the difference, for the verifier would carry what it learns of `now` along.
INLINE int is_owned(u64 now) { return !config.owned || (s64)(now - alive) < (s64)ALIVE_NS; }

INLINE struct flow *flow_of(struct sock *sk) { return ca_priv(sk); }

INLINE void key_of(struct sock *sk, struct tx_key *key)
{
	struct sock_common *c = &sk->__sk_common;

	key->netns = c->skc_net.net->net_cookie;
	if (c->skc_family == AF_INET) {
		key->remote[0] = key->remote[1] = 0;
		key->remote[2] = bpf_htonl(0xffff);
		key->remote[3] = c->skc_daddr;
	} else {
		for (int i = 0; i < 4; i++)
			key->remote[i] = c->skc_v6_daddr.in6_u.u6_addr32[i];
	}
	key->local_port = config.alone ? c->skc_num : 0;
	key->remote_port = config.alone ? c->skc_dport : 0;
	key->pad = 0;
}

INLINE struct tx_entry *path_of(struct sock *sk, int make)
{
	struct tx_key key;
	struct tx_entry *entry;

	key_of(sk, &key);
	entry = bpf_map_lookup_elem(&send_paths, &key);
	if (entry || !make)
		return entry;
	bpf_map_update_elem(&send_paths, &key, empty_path, BPF_NOEXIST);
	return bpf_map_lookup_elem(&send_paths, &key);
}

// ---- what a flow keeps, as the path's code takes it --------------------------------------------------------------

INLINE void load_tx(struct tx *to, const struct tx *from)
{
	to->mss = from->mss;
	to->in_flight = from->in_flight;
	to->window = from->window;
	to->epoch = from->epoch;
	to->episode = from->episode;
	to->rank = from->rank;
}

INLINE void store_tx(struct tx *to, const struct tx *from)
{
	to->in_flight = from->in_flight;
	to->window = from->window;
	to->epoch = from->epoch;
	to->episode = from->episode;
	to->rank = from->rank;
}

// Of the sample of this acknowledgement, the way there: the RTT less the way back, whose end is now and whose beginning the peer tells in ms.
INLINE u64 way_there(struct tcp_sock *tp, u64 now, u64 rtt)
{
	u64 usec = bpf_core_field_exists(tp->tcp_usec_ts) ? BPF_CORE_READ_BITFIELD(tp, tcp_usec_ts) : 0;
	u64 told = BPF_CORE_READ_BITFIELD(tp, rx_opt.saw_tstamp) & ~usec & 1;

	return (rtt - way_back_since(now, tp->rx_opt.rcv_tsval)) | (told - 1);
}

// ---- counters ----------------------------------------------------------------------------------------------------

// What an acknowledgement adds to the group's counters: between `tally_begin` and `tally_end` its path is told of it.
struct tally {
	u64 yielded, queueing;
	u32 slowdowns, pad;
};

INLINE void tally_begin(struct tally *t, const struct tx_path *p)
{
	t->slowdowns = control_slowdowns(ALGORITHM, &p->control);
	t->yielded = p->yielded;
}

INLINE void tally_end(struct tally *t, const struct tx_path *p)
{
	t->slowdowns = control_slowdowns(ALGORITHM, &p->control) - t->slowdowns;
	t->yielded = p->yielded - t->yielded;
	t->queueing = control_queueing(ALGORITHM, &p->control);
}

INLINE void tally_count(const struct tally *t, u64 rtt)
{
	struct send_totals *g = totals();

	if (!g)
		return;
	g->slowdowns += t->slowdowns;
	g->yielded += t->yielded;
	if (rtt != CONTROL_NONE && t->queueing != CONTROL_NONE) {
		g->queueing_sum += t->queueing;
		g->queueing_count++;
	}
}

#endif
