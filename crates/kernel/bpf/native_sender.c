// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// The sender's arithmetic as ordinary functions: what the tests and the simulator run is what the kernel runs.
#include "send_intf.h"
#include "sender.h"

#include <stddef.h>

// Sizes and places that src/send_wire.rs must agree with.
const u64 lowtide_send_layout[] = {
	sizeof(struct send_config), offsetof(struct send_config, cgroup), offsetof(struct send_config, name),
	offsetof(struct send_config, algorithm), offsetof(struct send_config, owned), offsetof(struct send_config, alone), sizeof(struct send_snapshot),
	offsetof(struct send_snapshot, local_port), offsetof(struct send_snapshot, bytes), sizeof(struct send_totals),
	offsetof(struct tx_path, last_ack),
};
