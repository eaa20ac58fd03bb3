// The kernel's arithmetic as ordinary functions, for src/native.rs: what the tests and the simulator run is what the
// kernel runs.
#include "intf.h"
#include "path.h"

#include <stddef.h>
#include <stdlib.h>

struct cc *lowtide_cc_new(u64 now, u64 mss, u64 window, u8 enhanced, u8 receiver)
{
	struct cc *c = calloc(1, sizeof(*c));

	if (c)
		cc_init(c, now, mss, window, enhanced, receiver);
	return c;
}

void lowtide_cc_set_target(struct cc *c, u64 target) { c->target = target; }
void lowtide_cc_set_burst(struct cc *c, u64 segments) { c->burst = segments; }
void lowtide_cc_free(struct cc *c) { free(c); }
void lowtide_cc_on_ack(struct cc *c, const struct cc_ack *a) { cc_on_ack(c, a); }
void lowtide_cc_on_loss(struct cc *c, u64 now, u64 srtt) { cc_on_loss(c, now, srtt); }
void lowtide_cc_on_timeout(struct cc *c, u64 in_flight) { cc_on_timeout(c, in_flight); }
void lowtide_cc_on_restart(struct cc *c, u64 now) { cc_on_restart(c, now); }
u64 lowtide_cc_window(const struct cc *c) { return c->cwnd; }
u32 lowtide_cc_phase(const struct cc *c) { return c->phase; }
u64 lowtide_cc_queueing(const struct cc *c) { return delay_queueing(&c->delay); }
u64 lowtide_cc_base(const struct cc *c) { return c->delay.base_min; }
u64 lowtide_cc_divisor(const struct cc *c) { return cc_divisor(c); }
u64 lowtide_cc_next_slowdown(const struct cc *c) { return c->next_slowdown; }

struct path *lowtide_path_new(void) { return calloc(1, sizeof(struct path)); }
void lowtide_path_free(struct path *p) { free(p); }
const struct cc *lowtide_path_cc(const struct path *p) { return &p->cc; }
u64 lowtide_path_srtt(const struct path *p) { return p->srtt; }
u32 lowtide_path_flows(const struct path *p) { return p->known ? path_flows(p) : 0; }

struct rx *lowtide_rx_new(u64 now, u32 mss, u8 ws, u8 timestamps)
{
	struct rx *f = calloc(1, sizeof(*f));

	if (f)
		rx_init(f, now, mss, ws, timestamps);
	return f;
}

void lowtide_rx_free(struct rx *f) { free(f); }
u16 lowtide_rx_send(struct rx *f, const struct rx_out *o) { return rx_send(f, o); }
void lowtide_rx_receive(struct rx *f, const struct rx_in *i, struct rx_seen *s) { rx_receive(f, i, s); }
void lowtide_path_receive(struct path *p, struct rx *f, const struct rx_seen *s, u64 now, u8 enhanced)
{
	struct rx_seen all = *s;

	if (path_tells(f, &all, now))
		path_receive(p, f, &all, now, CC_TARGET_NS, enhanced);
}
u32 lowtide_rx_edge(const struct rx *f) { return f->edge; }
u32 lowtide_rx_share(const struct rx *f) { return f->share; }
void lowtide_rx_set_share(struct rx *f, u32 share) { f->share = share; }

// Sizes and places that src/wire.rs must agree with.
const u64 lowtide_layout[] = {
	sizeof(struct flow_snapshot), offsetof(struct flow_snapshot, local_port), offsetof(struct flow_snapshot, bytes),
	offsetof(struct flow_snapshot, born), sizeof(struct group_totals), offsetof(struct group_totals, unparsed),
	sizeof(struct path_key), sizeof(struct group_config), sizeof(struct cc_ack), sizeof(struct rx_out),
	sizeof(struct rx_in), sizeof(struct rx_seen), offsetof(struct path, last_data),
};
