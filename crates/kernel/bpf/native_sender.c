// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// The sender's arithmetic as ordinary functions: what the tests and the simulator run is what the kernel runs.
#include "send_intf.h"
#include "sender.h"

#include <stddef.h>
#include <stdlib.h>

struct lowtide_shown;
void lowtide_show(u32 algorithm, const union control *c, struct lowtide_shown *s); // native.c

struct lowtide_tx_path {
	struct send_config config;
	struct tx_path state;
};

struct lowtide_tx_path *lowtide_tx_path_new(u32 algorithm, u64 target, u8 enhanced)
{
	struct lowtide_tx_path *p = calloc(1, sizeof(*p));

	if (p) {
		p->config.algorithm = algorithm;
		p->config.target = target;
		p->config.enhanced = enhanced;
		p->config.way_back = 1; // Of samples that tell the way there.
	}
	return p;
}

void lowtide_tx_path_free(struct lowtide_tx_path *p) { free(p); }
void lowtide_tx_path_show(const struct lowtide_tx_path *p, struct lowtide_shown *s) { lowtide_show(p->config.algorithm, &p->state.control, s); }
u64 lowtide_tx_path_srtt(const struct lowtide_tx_path *p) { return p->state.srtt; }

struct tx *lowtide_tx_new(struct lowtide_tx_path *p, u64 now, u32 mss)
{
	struct tx *f = calloc(1, sizeof(*f));

	if (f)
		tx_join(&p->state, p->config.algorithm, f, now, mss, &p->config);
	return f;
}

void lowtide_tx_free(struct tx *f) { free(f); }
u32 lowtide_tx_window(const struct tx *f) { return f->window; }
void lowtide_tx_on_ack(struct lowtide_tx_path *p, struct tx *f, const struct tx_ack *a)
{
	tx_on_ack(&p->state, p->config.algorithm, f, a, &p->config);
}
void lowtide_tx_restart(struct lowtide_tx_path *p, struct tx *f, u64 now) { tx_restart(&p->state, p->config.algorithm, f, now); }
struct tx_clock *lowtide_tx_clock_new(void) { return calloc(1, sizeof(struct tx_clock)); }
void lowtide_tx_clock_free(struct tx_clock *c) { free(c); }
u64 lowtide_tx_owd(struct tx_clock *c, u32 tsval, u32 tsecr, u32 rtt_us) { return tx_owd(c, tsval, tsecr, rtt_us); }
u64 lowtide_tx_on_paced(struct lowtide_tx_path *p, struct tx *f, const struct tx_paced *t)
{
	return tx_on_paced(&p->state, p->config.algorithm, f, t, &p->config);
}
u8 lowtide_tx_is_full(u32 *largest, u32 size) { return tx_is_full(largest, size); }
void lowtide_tx_on_undo(struct lowtide_tx_path *p, struct tx *f, u64 now) { tx_on_undo(&p->state, p->config.algorithm, f, now); }
void lowtide_tx_on_congestion(struct lowtide_tx_path *p, struct tx *f, u64 now, u32 cause, u64 in_flight)
{
	tx_on_congestion(&p->state, p->config.algorithm, f, now, cause, in_flight);
}

// Sizes and places that src/send_wire.rs must agree with.
const u64 lowtide_send_layout[] = {
	sizeof(struct send_config), offsetof(struct send_config, cgroup), offsetof(struct send_config, name),
	offsetof(struct send_config, algorithm), offsetof(struct send_config, owned), offsetof(struct send_config, alone), offsetof(struct send_config, paces), sizeof(struct send_snapshot),
	offsetof(struct send_snapshot, local_port), offsetof(struct send_snapshot, bytes), sizeof(struct send_totals),
	offsetof(struct tx_path, last_ack), sizeof(struct tx_ack), sizeof(struct tx_paced),
};
