// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Lower Effort (RFC 8622) on what a group sends, whatever the protocol and whenever its sockets were opened. Knows no flow.
#ifndef LOWTIDE_DSCP_H
#define LOWTIDE_DSCP_H

#include "parse.h"

#define DSCP_LE (1 << 2)                   // RFC 8622: 000001, above the two ECN bits
#define ECN_BITS 3

// The group's cgroup, written by the loader.
struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} members SEC(".maps");

// The header's first two bytes with that code point in them.
INLINE u16 with_dscp_le(u16 head)
{
	u8 *byte = (u8 *)&head, class;

	if (byte[0] >> 4 == 4) {
		byte[1] = DSCP_LE | (byte[1] & ECN_BITS);
	} else { // IPv6: the class lies across both bytes.
		class = DSCP_LE | (byte[1] >> 4 & ECN_BITS);
		byte[0] = (byte[0] & 0xf0) | class >> 4;
		byte[1] = (u8)(class << 4) | (byte[1] & 0x0f);
	}
	return head;
}

INLINE void set_dscp_le(struct __sk_buff *skb)
{
	struct segment s = {};
	int network;
	u16 from, to;

	if (bpf_skb_under_cgroup(skb, &members, 0) != 1 || load(skb, 0, s.first, FIRST))
		return;
	from = *(u16 *)s.first;
	to = with_dscp_le(from);
	network = network_offset(skb, &s);
	if (to == from || network < 0)
		return;
	if ((*(u8 *)s.first >> 4) == 4 && bpf_l3_csum_replace(skb, network + offsetof(struct ipv4, check), from, to, sizeof(to)))
		return;
	bpf_skb_store_bytes(skb, network, &to, sizeof(to), 0);
}

#endif
