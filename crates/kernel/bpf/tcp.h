// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// The kernel's TCP as congestion controls see it: the types and functions in use, relocated by the loader (CO-RE). Knows no
// algorithm.
#ifndef LOWTIDE_TCP_H
#define LOWTIDE_TCP_H

#include "types.h"

// BPF_PROG passes every program its raw context beside its arguments.
#pragma clang diagnostic ignored "-Wunused-parameter"

#define AF_INET 2
#define AF_INET6 10
#define SOL_TCP 6
#define TCP_CONGESTION 13
#define TCP_CA_NAME_MAX 16
#define TCP_INFINITE_SSTHRESH 0x7fffffff
#define SK_PACING_NONE 0                   // include/net/sock.h, enum sk_pacing
#define SK_PACING_NEEDED 1
#define CA_PRIV_BYTES 104                  // ICSK_CA_PRIV_SIZE

// include/net/tcp.h and include/uapi/linux/tcp.h
enum tcp_ca_state { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };
enum tcp_ca_event { CA_EVENT_TX_START, CA_EVENT_CWND_RESTART };

struct in6_addr {
	union {
		u32 u6_addr32[4];
	} in6_u;
} __attribute__((preserve_access_index));

struct net {
	u64 net_cookie;
} __attribute__((preserve_access_index));

typedef struct {
	struct net *net;
} possible_net_t;

typedef struct {
	long counter;
} atomic64_t;

struct sock_common {
	u32 skc_daddr, skc_rcv_saddr;
	u16 skc_dport, skc_num;
	u16 skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
} __attribute__((preserve_access_index));

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate, sk_max_pacing_rate;
	u32 sk_pacing_status;
} __attribute__((preserve_access_index));

struct inet_sock {
	struct sock sk;
} __attribute__((preserve_access_index));

struct tcp_congestion_ops;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	u8 icsk_ca_state : 5;
	u64 icsk_ca_priv[CA_PRIV_BYTES / 8];
} __attribute__((preserve_access_index));

struct tcp_options_received {
	u32 rcv_tsval, rcv_tsecr;
	u16 saw_tstamp : 1;
} __attribute__((preserve_access_index));

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 snd_una, snd_nxt, write_seq, mss_cache;
	u32 snd_cwnd, snd_ssthresh;
	u32 packets_out, retrans_out, sacked_out, lost_out;
	u32 total_retrans;
	u32 srtt_us;                       // eight times the smoothed RTT
	u64 bytes_acked;
	u64 tcp_clock_cache;               // ns, CLOCK_MONOTONIC: read when TCP began with the packet at hand (tcp_mstamp_refresh)
	u32 delivered, delivered_ce;       // segments
	u8 is_cwnd_limited : 1;
	u8 tcp_usec_ts : 1;                // since Linux 6.7: the timestamps count microseconds
	struct tcp_options_received rx_opt;
} __attribute__((preserve_access_index));

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;                        // -1: none
} __attribute__((preserve_access_index));

struct rate_sample {
	u64 prior_mstamp;                  // 0: nothing was delivered
	u32 prior_delivered;
	s32 delivered;                     // segments, over `interval_us`
	long interval_us, rtt_us;          // below 0: no sample
	int losses;
	u32 acked_sacked, prior_in_flight;
} __attribute__((preserve_access_index));

struct tcp_congestion_ops {
	u32 flags;
	char name[TCP_CA_NAME_MAX];
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*cong_control)(struct sock *sk);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
} __attribute__((preserve_access_index));

struct bpf_iter_meta;

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
} __attribute__((preserve_access_index));

extern u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;
extern u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

INLINE struct tcp_sock *tcp_sk(struct sock *sk) { return (struct tcp_sock *)sk; }

// What a control keeps with a socket: CA_PRIV_BYTES, zeroed by nobody but its `init`.
INLINE void *ca_priv(struct sock *sk) { return tcp_sk(sk)->inet_conn.icsk_ca_priv; }

// The time, as TCP has read it already for the acknowledgement or the segment at hand: to read it again would be a fifth of a control's work.
INLINE u64 tcp_now(struct tcp_sock *tp)
{
	return bpf_core_field_exists(tp->tcp_clock_cache) ? tp->tcp_clock_cache : bpf_ktime_get_ns();
}

// Segments in the network now (tcp_packets_in_flight).
INLINE u32 in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

#endif
