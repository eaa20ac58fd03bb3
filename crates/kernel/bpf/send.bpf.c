// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// The sender in the kernel: a congestion control, of a group or of whoever asks for it by name. Knows nothing of how a window is
// computed (sender.h), of what it becomes (send_window.h, send_paced.h) or of who gets the control (send_group.h).
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "types.h"
#include "tcp.h"
#include "sender.h"
#include "send_intf.h"
#include "send_state.h"

// ---- the control -------------------------------------------------------------------------------------------------

INLINE u32 segments(u32 bytes, u32 mss)
{
	u32 n = mss ? bytes / mss : 0;

	return n ? n : 1;
}

SEC("struct_ops")
void BPF_PROG(send_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct tx_entry *entry = path_of(sk, 1);
	struct flow *f = flow_of(sk);
	struct send_totals *g = totals();
	u64 now = bpf_ktime_get_ns();
	struct tx tx = {};
	u32 mss = tp->mss_cache;

	f->known = 0;
	if (!entry) { // No room for another path: this flow is left to Reno.
		if (g)
			g->unmanaged++;
		return;
	}
	bpf_spin_lock(&entry->lock);
	tx_join(&entry->path, ALGORITHM, &tx, now, mss, &config);
	bpf_spin_unlock(&entry->lock);
	f->tx.mss = tx.mss;
	store_tx(&f->tx, &tx);
	f->rtt_us = NONE_US;
	f->largest = 0;
#if IS_PACED
	f->ce = tp->delivered_ce;
	f->lost = 0;
#else
	f->clock.state = TX_CLOCK_NEW;
#endif
	f->bytes = tp->bytes_acked;
	f->reducing = 0;
	f->retrans_before = tp->total_retrans;
	f->bytes_before = tp->bytes_acked;
	f->old_until = tp->bytes_acked + (tp->snd_nxt - tp->snd_una);
	f->born = f->last_ack = now;
	f->rtt = CONTROL_NONE;
	f->known = FLOW_KNOWN;
	if (config.paces && sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	tp->snd_cwnd = segments(tx.window, tx.mss);
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	if (g)
		g->flows++;
}

SEC("struct_ops")
void BPF_PROG(send_release, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *f = flow_of(sk);
	struct send_totals *g = totals();
	struct tx_entry *entry;
	struct tx tx;
	u32 left;

	if (f->known != FLOW_KNOWN)
		return;
	f->known = 0;
	if (g) {
		g->bytes += tp->bytes_acked - f->bytes_before;
		g->retransmissions += tp->total_retrans - f->retrans_before;
	}
	entry = path_of(sk, 0);
	if (!entry)
		return;
	tx.in_flight = f->tx.in_flight;
	bpf_spin_lock(&entry->lock);
	left = tx_leave(&entry->path, &tx);
	bpf_spin_unlock(&entry->lock);
	// An owner forgets paths that have been idle for long; where there is none, a path goes with its last connection.
	if (!left && !config.owned) {
		struct tx_key key;

		key_of(sk, &key);
		bpf_map_delete_elem(&send_paths, &key);
	}
}

// Called before the kernel says what has happened; what it is told here is what a loss would leave.
SEC("struct_ops")
u32 BPF_PROG(send_ssthresh, struct sock *sk)
{
	struct flow *f = flow_of(sk);
	u32 half;

	if (f->known != FLOW_KNOWN || !is_owned(bpf_ktime_get_ns()))
		return tcp_reno_ssthresh(sk);
	f->reducing = 1;
	half = tcp_sk(sk)->snd_cwnd >> 1;
	return half > TX_MIN_SEGMENTS ? half : TX_MIN_SEGMENTS;
}

SEC("struct_ops")
void BPF_PROG(send_set_state, struct sock *sk, u8 state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *f = flow_of(sk);
	struct send_totals *g = totals();
	struct tx_entry *entry;
	struct tx tx;
	u64 now, flight;
	u32 cause = state == TCP_CA_Loss ? CONTROL_TIMEOUT : state == TCP_CA_CWR ? CONTROL_ECN : CONTROL_LOSS;

	if (f->known != FLOW_KNOWN || !f->reducing || state < TCP_CA_CWR)
		return;
	f->reducing = 0;
	entry = path_of(sk, 0);
	if (!entry)
		return;
	load_tx(&tx, &f->tx);
	// At a timeout all is marked lost by now; what was in flight is what had been sent.
	flight = (u64)(tp->packets_out) * tx.mss;
	now = bpf_ktime_get_ns();
	bpf_spin_lock(&entry->lock);
	tx_on_congestion(&entry->path, ALGORITHM, &tx, now, cause, flight);
	bpf_spin_unlock(&entry->lock);
	store_tx(&f->tx, &tx);
	if (state != TCP_CA_Loss)
		tp->snd_ssthresh = segments(tx.window, tx.mss);
	if (g)
		g->losses++;
}

#if IS_PACED
#include "send_paced.h"
#else
#include "send_window.h"
#endif
#include "send_group.h"

char LICENSE[] SEC("license") = "GPL";
