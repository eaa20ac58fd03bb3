// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// A control that sets a window: recovery stays the kernel's (PRR), and so does pacing. Included by send.bpf.c.
#ifndef LOWTIDE_SEND_WINDOW_H
#define LOWTIDE_SEND_WINDOW_H

#define PAUSE_NS (1 * NS_PER_MS)           // a flow that had nothing in flight for less has not paused; below any epoch of flows.h and any RTO

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

// The one-way delay of the sample of this acknowledgement; its RTT where there are no timestamps to tell.
INLINE u64 one_way(struct tcp_sock *tp, struct flow *f)
{
	int usec = bpf_core_field_exists(tp->tcp_usec_ts) && BPF_CORE_READ_BITFIELD(tp, tcp_usec_ts);

	if (usec || !BPF_CORE_READ_BITFIELD(tp, rx_opt.saw_tstamp))
		return f->rtt_us * 1000ULL;
	return tx_owd(&f->clock, tp->rx_opt.rcv_tsval, tp->rx_opt.rcv_tsecr, f->rtt_us);
}

// Tells the path of an acknowledgement, and takes over the window it gives.
__attribute__((noinline)) static u32 told(struct sock *sk, struct flow *f, u64 now, u32 acked, u32 recovering)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct tx_entry *entry = path_of(sk, 1);
	struct tx_ack a = {};
	struct tally tally;
	struct tx tx;
	u32 phase, mss;
	u64 none;

	if (!entry)
		return CONTROL_AVOIDANCE;
	load_tx(&tx, &f->tx);
	mss = tx.mss;
	a.now = now;
	none = ((u64)f->rtt_us + 1) >> 32; // NONE_US
	OPAQUE(none);
	a.rtt = (u64)f->rtt_us * 1000 | (0 - none); // All ones: CONTROL_NONE.
	a.owd = control_hears_owd(ALGORITHM) && f->rtt_us != NONE_US ? one_way(tp, f) : 0;
	f->rtt_us = NONE_US;
	a.there = config.way_back ? way_there(tp, now, a.rtt) : CONTROL_NONE;
	// What a connection that was open before had in flight tells of delays; it was not permitted here, so it earns no growth.
	a.acked = ((u64)acked * mss) & (0 - is_less_u63(f->old_until, tp->bytes_acked));
	a.in_flight = (u64)(in_flight(tp) + acked) * mss;
	a.limited = is_less_u63(0, a.acked) & BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
	a.in_recovery = recovering;
	a.unacked = tp->write_seq - tp->snd_una;
	f->rtt += (a.rtt - f->rtt) & (none - 1);
	f->last_ack = a.now;
	bpf_spin_lock(&entry->lock);
	if (!entry->path.known) // It was forgotten, and this connection has woken up.
		tx_init(&entry->path, ALGORITHM, a.now, mss, &config);
	tally_begin(&tally, &entry->path);
	tx_on_ack(&entry->path, ALGORITHM, &tx, &a, &config);
	tally_end(&tally, &entry->path);
	phase = control_phase(ALGORITHM, &entry->path.control);
	bpf_spin_unlock(&entry->lock);
	store_tx(&f->tx, &tx);
	tally_count(&tally, a.rtt);
	return phase;
}

SEC("struct_ops")
void BPF_PROG(send_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct flow *f = flow_of(sk);
	s32 rtt = sample->rtt_us;
	u64 now;
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
	if (state == TCP_CA_CWR || state == TCP_CA_Recovery) {
		now = tcp_now(tcp_sk(sk));
		if (is_owned(now))
			told(sk, f, now, sample->pkts_acked, 1);
	}
}

SEC("struct_ops")
void BPF_PROG(send_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct flow *f = flow_of(sk);
	u64 now = tcp_now(tcp_sk(sk));
	struct tx tx;
	u32 phase;

	if (f->known != FLOW_KNOWN || !is_owned(now)) {
		tcp_reno_cong_avoid(sk, ack, acked);
		return;
	}
	phase = told(sk, f, now, acked, 0);
	load_tx(&tx, &f->tx);
	set_window(tcp_sk(sk), &tx, phase);
}

SEC("struct_ops")
void BPF_PROG(send_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct flow *f = flow_of(sk);
	struct tx_entry *entry;
	struct tx tx;
	u64 now;
	u32 phase;

	if (event != CA_EVENT_TX_START || f->known != FLOW_KNOWN)
		return;
	now = tcp_now(tcp_sk(sk));
	// On a fast path all that is in flight is acknowledged time and again: what follows at once is no pause, and its window is of just now.
	if (f->last_ack != f->born && (s64)(now - f->last_ack) < (s64)PAUSE_NS)
		return;
	entry = is_owned(now) ? path_of(sk, 0) : 0;
	if (!entry)
		return;
	load_tx(&tx, &f->tx);
	bpf_spin_lock(&entry->lock);
	tx_restart(&entry->path, ALGORITHM, &tx, now);
	phase = control_phase(ALGORITHM, &entry->path.control);
	bpf_spin_unlock(&entry->lock);
	store_tx(&f->tx, &tx);
	set_window(tcp_sk(sk), &tx, phase);
}

SEC("struct_ops")
u32 BPF_PROG(send_undo_cwnd, struct sock *sk)
{
	struct flow *f = flow_of(sk);
	struct send_totals *g = totals();
	struct tx_entry *entry;
	u64 now = bpf_ktime_get_ns();
	struct tx tx;

	if (f->known != FLOW_KNOWN || !is_owned(now))
		return tcp_reno_undo_cwnd(sk);
	load_tx(&tx, &f->tx);
	entry = path_of(sk, 0);
	if (entry) {
		bpf_spin_lock(&entry->lock);
		tx_on_undo(&entry->path, ALGORITHM, &tx, now);
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
	.init = (void *)send_init,
	.release = (void *)send_release,
	.ssthresh = (void *)send_ssthresh,
	.cong_avoid = (void *)send_cong_avoid,
	.set_state = (void *)send_set_state,
	.cwnd_event = (void *)send_cwnd_event,
	.pkts_acked = (void *)send_pkts_acked,
	.undo_cwnd = (void *)send_undo_cwnd,
};

#endif
