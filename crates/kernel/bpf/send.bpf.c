// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// The sender in the kernel: a congestion control, of a group or of whoever asks for it by name. Knows nothing of how a window is
// computed (sender.h) or of who gets the control (send_group.h). Recovery stays the kernel's (PRR), and so does pacing.
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

INLINE int is_slow_start(u32 phase)
{
	return phase == CONTROL_SLOW_START || phase == CONTROL_RAMP || phase == CONTROL_SLOW_START_AFTER_TIMEOUT;
}

// The window, and where the kernel believes slow start to end: it paces by that, and judges by it who uses his window.
INLINE void set_window(struct tcp_sock *tp, const struct tx *tx, u32 phase)
{
	u32 cwnd = segments(tx->window, tx->mss);

	tp->snd_cwnd = cwnd;
	tp->snd_ssthresh = is_slow_start(phase) ? TCP_INFINITE_SSTHRESH : cwnd;
}

SEC("struct_ops")
void BPF_PROG(lowtide_init, struct sock *sk)
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
	tx_join(&entry->path, &tx, now, mss, &config);
	bpf_spin_unlock(&entry->lock);
	f->tx.mss = tx.mss;
	f->tx.in_flight = tx.in_flight;
	f->tx.window = tx.window;
	f->tx.epoch = tx.epoch;
	f->tx.episode = tx.episode;
	f->tx.rank = tx.rank;
	f->rtt_us = NONE_US;
	f->largest = 0;
	f->clock.state = TX_CLOCK_NEW;
	f->bytes = tp->bytes_acked;
	f->reducing = 0;
	f->retrans_before = tp->total_retrans;
	f->bytes_before = tp->bytes_acked;
	f->old_until = tp->bytes_acked + (tp->snd_nxt - tp->snd_una);
	f->born = f->last_ack = now;
	f->rtt = CONTROL_NONE;
	f->known = FLOW_KNOWN;
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	set_window(tp, &tx, CONTROL_SLOW_START);
	if (g)
		g->flows++;
}

SEC("struct_ops")
void BPF_PROG(lowtide_release, struct sock *sk)
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

// The one-way delay of the sample of this acknowledgement; its RTT where there are no timestamps to tell.
INLINE u64 one_way(struct tcp_sock *tp, struct flow *f)
{
	int usec = bpf_core_field_exists(tp->tcp_usec_ts) && BPF_CORE_READ_BITFIELD(tp, tcp_usec_ts);

	if (usec || !BPF_CORE_READ_BITFIELD(tp, rx_opt.saw_tstamp))
		return f->rtt_us * 1000ULL;
	return tx_owd(&f->clock, tp->rx_opt.rcv_tsval, tp->rx_opt.rcv_tsecr, f->rtt_us);
}

// Tells the path of an acknowledgement, and takes over the window it gives.
__attribute__((noinline)) static u32 told(struct sock *sk, struct flow *f, u32 acked, u32 recovering)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct tx_entry *entry = path_of(sk, 1);
	struct send_totals *g = totals();
	struct tx_ack a = {};
	struct tx tx;
	u64 queueing, yielded;
	u32 phase, slowdowns, mss;

	if (!entry)
		return CONTROL_AVOIDANCE;
	load_tx(&tx, &f->tx);
	mss = tx.mss;
	a.now = bpf_ktime_get_ns();
	a.rtt = f->rtt_us == NONE_US ? CONTROL_NONE : (u64)f->rtt_us * 1000;
	a.owd = control_hears_owd(config.algorithm) && f->rtt_us != NONE_US ? one_way(tp, f) : 0;
	f->rtt_us = NONE_US;
	// What a connection that was open before had in flight tells of delays; it was not permitted here, so it earns no growth.
	if (tp->bytes_acked > f->old_until)
		a.acked = (u64)acked * mss;
	a.in_flight = (u64)(in_flight(tp) + acked) * mss;
	a.limited = a.acked && BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
	a.in_recovery = recovering;
	a.unacked = tp->write_seq - tp->snd_una;
	if (a.rtt != CONTROL_NONE)
		f->rtt = a.rtt;
	f->last_ack = a.now;
	bpf_spin_lock(&entry->lock);
	if (!entry->path.known) // It was forgotten, and this connection has woken up.
		tx_init(&entry->path, a.now, mss, &config);
	slowdowns = control_slowdowns(config.algorithm, &entry->path.control);
	yielded = entry->path.yielded;
	tx_on_ack(&entry->path, config.algorithm, &tx, &a);
	slowdowns = control_slowdowns(config.algorithm, &entry->path.control) - slowdowns;
	yielded = entry->path.yielded - yielded;
	phase = control_phase(config.algorithm, &entry->path.control);
	queueing = control_queueing(config.algorithm, &entry->path.control);
	bpf_spin_unlock(&entry->lock);
	store_tx(&f->tx, &tx);
	if (g) {
		g->slowdowns += slowdowns;
		g->yielded += yielded;
		if (a.rtt != CONTROL_NONE && queueing != CONTROL_NONE) {
			g->queueing_sum += queueing;
			g->queueing_count++;
		}
	}
	return phase;
}

SEC("struct_ops")
void BPF_PROG(lowtide_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct flow *f = flow_of(sk);
	s32 rtt = sample->rtt_us;
	u32 n = sample->pkts_acked, bytes;
	u8 state = BPF_CORE_READ_BITFIELD(&tcp_sk(sk)->inet_conn, icsk_ca_state);

	if (f->known != FLOW_KNOWN)
		return;
	bytes = (u32)tcp_sk(sk)->bytes_acked - f->bytes;
	f->bytes += bytes;
	// No larger than a segment: what was SACKed before counts in bytes_acked now, and not in pkts_acked.
	if (rtt > 0 && n && tx_is_full(&f->largest, min_u64(bytes / n, f->tx.mss)))
		f->rtt_us = rtt;
	// The kernel asks for no window here, but the delays and the clock of the controller go on.
	if ((state == TCP_CA_CWR || state == TCP_CA_Recovery) && is_owned())
		told(sk, f, sample->pkts_acked, 1);
}

SEC("struct_ops")
void BPF_PROG(lowtide_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct flow *f = flow_of(sk);
	struct tx tx;
	u32 phase;

	if (f->known != FLOW_KNOWN || !is_owned()) {
		tcp_reno_cong_avoid(sk, ack, acked);
		return;
	}
	phase = told(sk, f, acked, 0);
	load_tx(&tx, &f->tx);
	set_window(tcp_sk(sk), &tx, phase);
}

// Called before the kernel says what has happened; what it is told here is what a loss would leave.
SEC("struct_ops")
u32 BPF_PROG(lowtide_ssthresh, struct sock *sk)
{
	struct flow *f = flow_of(sk);
	u32 half;

	if (f->known != FLOW_KNOWN || !is_owned())
		return tcp_reno_ssthresh(sk);
	f->reducing = 1;
	half = tcp_sk(sk)->snd_cwnd >> 1;
	return half > TX_MIN_SEGMENTS ? half : TX_MIN_SEGMENTS;
}

SEC("struct_ops")
void BPF_PROG(lowtide_set_state, struct sock *sk, u8 state)
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
	tx_on_congestion(&entry->path, config.algorithm, &tx, now, cause, flight);
	bpf_spin_unlock(&entry->lock);
	store_tx(&f->tx, &tx);
	if (state != TCP_CA_Loss)
		tp->snd_ssthresh = segments(tx.window, tx.mss);
	if (g)
		g->losses++;
}

SEC("struct_ops")
void BPF_PROG(lowtide_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct flow *f = flow_of(sk);
	struct tx_entry *entry;
	struct tx tx;
	u64 now;
	u32 phase;

	if (event != CA_EVENT_TX_START || f->known != FLOW_KNOWN || !is_owned())
		return;
	entry = path_of(sk, 0);
	if (!entry)
		return;
	load_tx(&tx, &f->tx);
	now = bpf_ktime_get_ns();
	bpf_spin_lock(&entry->lock);
	tx_restart(&entry->path, config.algorithm, &tx, now);
	phase = control_phase(config.algorithm, &entry->path.control);
	bpf_spin_unlock(&entry->lock);
	store_tx(&f->tx, &tx);
	set_window(tcp_sk(sk), &tx, phase);
}

SEC("struct_ops")
u32 BPF_PROG(lowtide_undo_cwnd, struct sock *sk)
{
	struct flow *f = flow_of(sk);
	struct send_totals *g = totals();
	struct tx_entry *entry;
	struct tx tx;
	u64 now;

	if (f->known != FLOW_KNOWN || !is_owned())
		return tcp_reno_undo_cwnd(sk);
	load_tx(&tx, &f->tx);
	entry = path_of(sk, 0);
	if (entry) {
		now = bpf_ktime_get_ns();
		bpf_spin_lock(&entry->lock);
		tx_on_undo(&entry->path, config.algorithm, &tx, now);
		bpf_spin_unlock(&entry->lock);
		store_tx(&f->tx, &tx);
	}
	if (g)
		g->undone++;
	return segments(tx.window, tx.mss);
}

SEC(".struct_ops")
struct tcp_congestion_ops lowtide = {
	.name = "lowtide",
	.init = (void *)lowtide_init,
	.release = (void *)lowtide_release,
	.ssthresh = (void *)lowtide_ssthresh,
	.cong_avoid = (void *)lowtide_cong_avoid,
	.set_state = (void *)lowtide_set_state,
	.cwnd_event = (void *)lowtide_cwnd_event,
	.pkts_acked = (void *)lowtide_pkts_acked,
	.undo_cwnd = (void *)lowtide_undo_cwnd,
};

#include "send_group.h"

char LICENSE[] SEC("license") = "GPL";
