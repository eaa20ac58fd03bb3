// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// The kernel's arithmetic as ordinary functions, for crates/window: what the tests and the simulator run is what the
// kernel runs.
#include "intf.h"
#include "path.h"

#include <stddef.h>
#include <stdlib.h>

// What a control shows of itself.
struct lowtide_shown {
	u64 cwnd, ssthresh, pacing_rate, base, queueing, target, slowdowns, edge_step;
	u32 phase, pad;
};

void lowtide_show(u32 algorithm, const union control *c, struct lowtide_shown *s);
void lowtide_show(u32 algorithm, const union control *c, struct lowtide_shown *s)
{
	s->cwnd = control_cwnd(algorithm, c);
	s->ssthresh = control_ssthresh(algorithm, c);
	s->pacing_rate = control_pacing_rate(algorithm, c);
	s->base = control_base(algorithm, c);
	s->queueing = control_queueing(algorithm, c);
	s->target = control_target(algorithm, c);
	s->slowdowns = control_slowdowns(algorithm, c);
	s->edge_step = control_edge_step(algorithm, c);
	s->phase = control_phase(algorithm, c);
}

// ---- a control on its own ------------------------------------------------------------------------------------------

struct lowtide_control {
	u32 algorithm;
	union control state;
};

#define NAME(number, name, op) if (algorithm == (number)) return #name;
const char *lowtide_control_name(u32 algorithm)
{
	CONTROLS(NAME, )
	return 0;
}

struct lowtide_control *lowtide_control_new(u32 algorithm, const struct control_start *start)
{
	struct lowtide_control *c = calloc(1, sizeof(*c));

	if (c) {
		c->algorithm = algorithm;
		control_init(algorithm, &c->state, start);
	}
	return c;
}

void lowtide_control_free(struct lowtide_control *c) { free(c); }
void lowtide_control_on_ack(struct lowtide_control *c, const struct control_ack *a) { control_on_ack(c->algorithm, &c->state, a); }
void lowtide_control_on_congestion(struct lowtide_control *c, const struct control_congestion *e)
{
	control_on_congestion(c->algorithm, &c->state, e);
}
void lowtide_control_on_restart(struct lowtide_control *c, const struct control_restart *r)
{
	control_on_restart(c->algorithm, &c->state, r);
}
void lowtide_control_on_undo(struct lowtide_control *c, u64 now) { control_on_undo(c->algorithm, &c->state, now); }
void lowtide_control_on_mss(struct lowtide_control *c, u32 mss) { control_on_mss(c->algorithm, &c->state, mss); }
void lowtide_control_show(const struct lowtide_control *c, struct lowtide_shown *s) { lowtide_show(c->algorithm, &c->state, s); }

// ---- a receiver ------------------------------------------------------------------------------------------------------

struct lowtide_path {
	struct group_config config;
	struct path state;
};

struct lowtide_path *lowtide_path_new(u32 algorithm, u64 target, u32 burst, u32 report, u8 enhanced, u8 way_back)
{
	struct lowtide_path *p = calloc(1, sizeof(*p));

	if (p) {
		p->config.algorithm = algorithm;
		p->config.target = target;
		p->config.burst = burst;
		p->config.report = report;
		p->config.enhanced = enhanced;
		p->config.way_back = way_back;
	}
	return p;
}

void lowtide_path_free(struct lowtide_path *p) { free(p); }
void lowtide_path_show(const struct lowtide_path *p, struct lowtide_shown *s) { lowtide_show(p->config.algorithm, &p->state.control, s); }
u64 lowtide_path_srtt(const struct lowtide_path *p) { return p->state.srtt; }
u32 lowtide_path_flows(const struct lowtide_path *p) { return p->state.known ? path_flows(&p->state) : 0; }

struct rx *lowtide_rx_new(u64 now, u32 mss, u32 most, u8 ws, u8 timestamps)
{
	struct rx *f = calloc(1, sizeof(*f));

	if (f)
		rx_init(f, now, mss, most, ws, timestamps);
	return f;
}

void lowtide_rx_free(struct rx *f) { free(f); }
u16 lowtide_rx_send(struct rx *f, const struct rx_out *o) { return rx_send(f, o); }
void lowtide_rx_not_lowered(struct rx *f, const struct rx_out *o) { rx_not_lowered(f, o); }
void lowtide_rx_receive(struct rx *f, const struct rx_in *i, struct rx_report *r) { rx_receive(f, i, r); }
int lowtide_path_receive(struct lowtide_path *p, struct rx *f, const struct rx_report *r, u64 now)
{
	struct rx_report all = *r;

	if (r->ignored || !rx_collect(f, &all, now, p->config.report))
		return 0;
	path_receive(&p->state, f, &all, now, &p->config);
	return 1;
}
u32 lowtide_rx_edge(const struct rx *f) { return f->edge; }
u32 lowtide_rx_flow_window(const struct rx *f) { return f->flow_window; }
// Half of what writes the next record: its time is in the ring, the rest is not, and nobody knows of it yet.
void lowtide_rx_tear(struct rx *f, u64 now) { f->ring[f->head & (RX_RECORDS - 1)].t = rx_ticks(now); }
void lowtide_rx_set_srtt(struct rx *f, u64 srtt) { f->srtt = srtt; }
void lowtide_rx_set_flow_window(struct rx *f, u32 bytes) { f->flow_window = bytes; }

// ---- the way back ----------------------------------------------------------------------------------------------------

struct way_back *lowtide_way_back_new(void) { return calloc(1, sizeof(struct way_back)); }
void lowtide_way_back_free(struct way_back *w) { free(w); }
u64 lowtide_way_back_queue(struct way_back *w, u64 now, u64 rtt, u64 there) { return way_back_queue(w, now, rtt, there); }
u64 lowtide_way_back_of_others(struct way_back *w, u64 now, u8 floor, u64 srtt, u8 doubts)
{
	return way_back_of_others(w, now, floor, srtt, doubts);
}
u64 lowtide_way_back_since(u64 now, u32 tsval) { return way_back_since(now, tsval); }

// Sizes and places that src/wire.rs must agree with.
const u64 lowtide_layout[] = {
	sizeof(struct flow_snapshot), offsetof(struct flow_snapshot, local_port), offsetof(struct flow_snapshot, bytes),
	offsetof(struct flow_snapshot, born), sizeof(struct group_totals), offsetof(struct group_totals, left_alone),
	sizeof(struct path_key), sizeof(struct group_config), sizeof(struct control_ack), sizeof(struct rx_out),
	sizeof(struct rx_in), sizeof(struct rx_report), offsetof(struct path, last_data), sizeof(struct control_start), sizeof(struct control_congestion),
	sizeof(struct control_restart), sizeof(struct lowtide_shown),
};
