// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// A control that sets a window and a pace, and goes on by them in recovery, too: the kernel's `cong_control`, which takes the place of PRR. Included
// by send.bpf.c.
#ifndef LOWTIDE_SEND_PACED_H
#define LOWTIDE_SEND_PACED_H

INLINE void set_pace(struct sock *sk, u64 rate)
{
	u64 most = sk->sk_max_pacing_rate; // SO_MAX_PACING_RATE

	sk->sk_pacing_rate = rate < most ? rate : most;
}

// Reno, without PRR: what is above the threshold waits, and the pace lets the window pass in half a round trip.
INLINE void as_reno(struct sock *sk, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u8 state = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
	u64 srtt = tp->srtt_us >> 3;

	if (state == TCP_CA_CWR || state == TCP_CA_Recovery)
		tp->snd_cwnd = tp->snd_ssthresh > TX_MIN_SEGMENTS ? tp->snd_ssthresh : TX_MIN_SEGMENTS;
	else
		tcp_reno_cong_avoid(sk, tp->snd_una, acked);
	if (srtt)
		set_pace(sk, 2 * (u64)tp->snd_cwnd * tp->mss_cache * 1000000 / srtt);
}

// The RTT of a retransmission is the kernel's by timestamps, which count milliseconds (net/ipv4/tcp_input.c, tcp_rtt_tsopt_us): up to one too
// low, it would stay the base, on which a pair then always meets a queue. Of the others, which are taken in microseconds, one in a thousand is a
// whole number of milliseconds.
INLINE int is_by_timestamps(long rtt_us) { return (u64)rtt_us % 1000 == 0; }

// The sample of this acknowledgement, unless it is of a retransmission, or of a segment that is shorter than others. What is acknowledged out of
// order has not moved the left edge: its size is not known, and is a full segment's in all but the last.
INLINE u64 sample_of(struct tcp_sock *tp, struct flow *f, const struct rate_sample *rs)
{
	u32 bytes = (u32)tp->bytes_acked - f->bytes, n = rs->acked_sacked;
	long rtt = rs->rtt_us;

	f->bytes += bytes;
	if (rtt <= 0 || is_by_timestamps(rtt) || !n || (bytes && !tx_is_full(&f->largest, min_u64(bytes / n, f->tx.mss))))
		return CONTROL_NONE;
	return (u64)rtt * 1000;
}

INLINE void acknowledged(struct tcp_sock *tp, struct flow *f, const struct rate_sample *rs, struct tx_paced *t)
{
	u64 mss = f->tx.mss;
	s32 delivered = rs->delivered;
	long interval = rs->interval_us;
	u32 ce = tp->delivered_ce;

	// Read once more: the verifier would carry what it has learned of the first reading through the whole control, three times as far.
	t->now = bpf_ktime_get_ns();
	t->rtt = sample_of(tp, f, rs);
	t->there = config.way_back ? way_there(tp, t->now, t->rtt) : CONTROL_NONE;
	t->acked = rs->acked_sacked * mss;
	t->lost = f->lost * mss;
	t->ce = (u32)(ce - f->ce) * mss;
	t->in_flight = rs->prior_in_flight * mss;
	if (rs->prior_mstamp)
		t->since = (u32)(tp->delivered - rs->prior_delivered) * mss;
	if (delivered > 0 && interval > 0) {
		t->rate_delivered = (u32)delivered * mss;
		t->rate_interval = (u64)interval * 1000;
	}
	t->unacked = tp->write_seq - tp->snd_una;
	t->limited = BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
	f->ce = ce;
	f->lost = 0;
	f->last_ack = t->now;
	if (t->rtt != CONTROL_NONE)
		f->rtt = t->rtt;
}

__attribute__((noinline)) static u32 control(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *f = flow_of(sk);
	struct tx_entry *entry;
	struct tx_paced t = {};
	struct tally tally;
	struct tx tx;
	u64 pace;

	if (f->known != FLOW_KNOWN || !is_owned(bpf_ktime_get_ns())) {
		as_reno(sk, rs->acked_sacked);
		return 0;
	}
	f->lost += rs->losses;
	if (!rs->acked_sacked)
		return 0;
	entry = path_of(sk, 1);
	if (!entry)
		return 0;
	acknowledged(tp, f, rs, &t);
	load_tx(&tx, &f->tx);
	bpf_spin_lock(&entry->lock);
	if (!entry->path.known) // It was forgotten, and this connection has woken up.
		tx_init(&entry->path, ALGORITHM, t.now, tx.mss, &config);
	tally_begin(&tally, &entry->path);
	pace = tx_on_paced(&entry->path, ALGORITHM, &tx, &t, &config);
	tally_end(&tally, &entry->path);
	bpf_spin_unlock(&entry->lock);
	store_tx(&f->tx, &tx);
	tp->snd_cwnd = segments(tx.window, tx.mss);
	set_pace(sk, pace);
	tally_count(&tally, t.rtt);
	return 0;
}

// Since Linux 6.10.
SEC("struct_ops")
void BPF_PROG(send_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	control(sk, rs);
}

// Before.
SEC("struct_ops")
void BPF_PROG(send_cong_control_old, struct sock *sk, const struct rate_sample *rs)
{
	control(sk, rs);
}

// A spurious episode changes nothing here: the window is the control's at the next acknowledgement.
SEC("struct_ops")
u32 BPF_PROG(send_undo_cwnd, struct sock *sk)
{
	struct flow *f = flow_of(sk);
	struct send_totals *g = totals();

	if (f->known != FLOW_KNOWN || !is_owned(bpf_ktime_get_ns()))
		return tcp_reno_undo_cwnd(sk);
	if (g)
		g->undone++;
	return segments(f->tx.window, f->tx.mss);
}

#define PACED_OPS(control_of) { \
	.name = "lowtide", \
	.init = (void *)send_init, \
	.release = (void *)send_release, \
	.ssthresh = (void *)send_ssthresh, \
	.set_state = (void *)send_set_state, \
	.cong_control = (void *)control_of, \
	.undo_cwnd = (void *)send_undo_cwnd, \
}

// The loader makes the one that the kernel takes.
SEC(".struct_ops")
struct tcp_congestion_ops lowtide = PACED_OPS(send_cong_control);

SEC(".struct_ops")
struct tcp_congestion_ops lowtide_old = PACED_OPS(send_cong_control_old);

#endif
