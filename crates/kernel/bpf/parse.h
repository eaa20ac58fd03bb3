// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Where the TCP header of a packet is and what it says. What nearly every packet looks like is read in place; the rest is
// copied relative to the network header, so the device's kind does not matter. Incomplete or odd means "not parsed": the
// packet goes on untouched. Knows no flow.
#ifndef LOWTIDE_PARSE_H
#define LOWTIDE_PARSE_H

#include "types.h"

#define IP_TCP 6
#define MAX_EXTENSIONS 6                   // IPv6 extension headers followed
#define FIRST 20                           // bytes of the network header kept
#define MAX_OPTIONS 40                     // RFC 9293 §3.1: bytes of options a TCP header can hold

#define NOP_NOP_TIMESTAMPS 0x0101080a      // RFC 7323 appendix A: how nearly everybody lays them out

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

struct ipv4 {
	u8 version_ihl, tos;
	u16 length, id, fragment;
	u8 ttl, protocol;
	u16 check;
	u32 from, to;
};

struct ipv6 {
	u8 version_class, class_flow;
	u16 flow, length;
	u8 next, hops;
	u8 from[16], to[16];
};

struct tcp {
	u16 source, dest;
	u32 seq, ack;
	u8 offset, flags;
	u16 window, check, urgent;
};

struct segment {
	u32 l4;                            // bytes from the network header to the TCP header
	u32 payload;
	u32 seq, ack, tsval, tsecr;
	u16 window;
	u8 flags, ce, timestamps;
	u64 first[3];                      // 20 bytes of the network header, to recognise it by
};

// Where a flow's last packet had its TCP header, and what stood there: the last word before it and the ports. The next one
// will most likely be alike. `at` is that word's place.
struct place {
	u64 mark;
	u32 at, pad;
};

INLINE int load(struct __sk_buff *skb, u32 at, void *to, u32 length)
{
	return bpf_skb_load_bytes_relative(skb, at, to, length, BPF_HDR_START_NET);
}

// TCP options (RFC 7323 §3.2). 0: well formed.
INLINE int parse_options(struct __sk_buff *skb, struct segment *s, u32 length)
{
	u8 o[MAX_OPTIONS + 12] = {};
	u32 at = 0, last = length - 1;

	if (length == 0)
		return 0;
	OPAQUE(last); // Older verifiers learn nothing from "not zero", but something from "not above".
	if (last >= MAX_OPTIONS || load(skb, s->l4 + sizeof(struct tcp), o, last + 1))
		return -1;
	for (int i = 0; i < MAX_OPTIONS; i++) {
		u32 kind, nop, size;

		if (at >= length || at >= MAX_OPTIONS || o[at] == 0)
			return 0;
		// A NOP is one byte and has no length. Without branches, for the verifier follows both ways of each, forty times over.
		kind = o[at];
		nop = ((kind ^ 1) - 1) >> 31;
		OPAQUE(nop);
		size = o[at + 1] * (1 - nop) + nop;
		if (size + nop < 2 || at + size > length)
			return -1;
		if (kind == 8) {
			if (size != 10)
				return -1;
			s->timestamps = 1;
			s->tsval = (u32)o[at + 2] << 24 | (u32)o[at + 3] << 16 | (u32)o[at + 4] << 8 | o[at + 5];
			s->tsecr = (u32)o[at + 6] << 24 | (u32)o[at + 7] << 16 | (u32)o[at + 8] << 8 | o[at + 9];
			return 0;
		}
		at += size;
	}
	return 0;
}

// Follows the extension headers that may stand before TCP (RFC 8200 §4). The TCP header's place, 0 if there is none.
INLINE u32 skip_extensions(struct __sk_buff *skb, u8 next)
{
	u32 at = sizeof(struct ipv6);

	for (int i = 0; i <= MAX_EXTENSIONS; i++) {
		u8 head[2];

		if (next == IP_TCP)
			return at;
		if ((next != 0 && next != 43 && next != 60 && next != 51) || load(skb, at, head, 2))
			return 0;
		at += next == 51 ? ((u32)head[1] + 2) * 4 : ((u32)head[1] + 1) * 8;
		next = head[0];
	}
	return 0;
}

// The bytes from the network header to the packet's end; 0: not TCP, a fragment, or not complete.
INLINE u32 parse_network(struct __sk_buff *skb, struct segment *s)
{
	u8 version;

	if (load(skb, 0, s->first, FIRST))
		return 0;
	version = *(u8 *)s->first >> 4;
	if (version == 4) {
		struct ipv4 *ip = (struct ipv4 *)s->first;

		if (ip->protocol != IP_TCP || (ip->version_ihl & 15) < 5 || (ip->fragment & bpf_htons(0x3fff)))
			return 0;
		s->ce = (ip->tos & 3) == 3;
		s->l4 = (ip->version_ihl & 15) * 4;
		return ip->length ? bpf_ntohs(ip->length) : skb->len; // BIG TCP has no length.
	}
	if (version == 6) {
		struct ipv6 *ip = (struct ipv6 *)s->first; // Only its first 20 bytes are here.

		s->ce = (ip->class_flow >> 4 & 3) == 3;
		s->l4 = skip_extensions(skb, ip->next);
		if (s->l4 == 0)
			return 0;
		return ip->length ? bpf_ntohs(ip->length) + sizeof(struct ipv6) : skb->len;
	}
	return 0;
}

// What the fixed part of the TCP header says, `total` bytes being left from its first one on; the bytes of its options, or -1.
INLINE int parse_tcp(const struct tcp *tcp, u32 total, struct segment *s)
{
	u32 header = (tcp->offset >> 4) * 4;

	if (header < sizeof(*tcp) || header > total)
		return -1;
	s->payload = total - header;
	s->seq = bpf_ntohl(tcp->seq);
	s->ack = bpf_ntohl(tcp->ack);
	s->window = bpf_ntohs(tcp->window);
	s->flags = tcp->flags;
	return header - sizeof(*tcp);
}

// 0: parsed completely.
INLINE int parse(struct __sk_buff *skb, struct segment *s)
{
	struct tcp tcp;
	u32 total;
	int options;

	__builtin_memset(s, 0, sizeof(*s));
	total = parse_network(skb, s);
	if (total < s->l4 || total == 0 || load(skb, s->l4, &tcp, sizeof(tcp)))
		return -1;
	options = parse_tcp(&tcp, total - s->l4, s);
	return options < 0 ? -1 : parse_options(skb, s, options);
}

// ---- packets like the last one -----------------------------------------------------------------------------------

// Remembers a packet that was parsed, whose network header is `network` bytes from its first.
INLINE void remember(struct __sk_buff *skb, u32 network, const struct segment *s, struct place *p)
{
	u32 at = network + s->l4 - 4;

	if (at > 255 || bpf_skb_load_bytes(skb, at, &p->mark, sizeof(p->mark)))
		p->at = 0;
	else
		p->at = at;
}

// What `parse` says, of a packet whose header is where the last one's was and whose options are timestamps first, or none,
// as nearly everybody lays them out: read in place. The TCP header's place; -1: another kind of packet.
INLINE int parse_alike(struct __sk_buff *skb, const struct place *p, struct segment *s)
{
	u32 before = *(volatile const u32 *)&p->at & 255, from = before + 4; // Another processor may remember meanwhile.
	u8 *at = (u8 *)(long)skb->data + before, *end = (u8 *)(long)skb->data_end;
	u32 *options = (u32 *)(at + 4 + sizeof(struct tcp));
	int length;

	if ((u8 *)options > end || *(u64 *)at != p->mark || !before || skb->len < from)
		return -1;
	length = parse_tcp((struct tcp *)(at + 4), skb->len - from, s);
	if (length == 0)
		return from;
	if (length < 12 || (u8 *)(options + 3) > end || options[0] != bpf_htonl(NOP_NOP_TIMESTAMPS))
		return -1;
	s->timestamps = 1;
	s->tsval = bpf_ntohl(options[1]);
	s->tsecr = bpf_ntohl(options[2]);
	return from;
}

// Whether a packet that begins with its network header is marked CE (RFC 3168).
INLINE int is_ce(struct __sk_buff *skb)
{
	u8 *ip = (u8 *)(long)skb->data;

	if (ip + 2 > (u8 *)(long)skb->data_end)
		return 0;
	return ((*ip >> 4 == 4 ? ip[1] : ip[1] >> 4) & 3) == 3;
}

// ---- where it begins ---------------------------------------------------------------------------------------------

// How far the network header lies behind the packet's first byte: Ethernet, with one or two VLAN tags, or nothing before
// it. -1: elsewhere.
INLINE int network_offset(struct __sk_buff *skb, const struct segment *s)
{
	const int places[] = { 14, 0, 18, 22 };

	for (int i = 0; i < 4; i++) {
		u64 have[3] = {};

		if (bpf_skb_load_bytes(skb, places[i], have, FIRST))
			continue;
		if (have[0] == s->first[0] && have[1] == s->first[1] && have[2] == s->first[2])
			return places[i];
	}
	return -1;
}

#endif
