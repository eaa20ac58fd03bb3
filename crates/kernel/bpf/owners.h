// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Whose a TCP socket is: the cgroup that it was made in, for life, and the processes that have it open. For the iterators of
// receiver and sender over TCP sockets. Knows no packet and no window.
#ifndef LOWTIDE_OWNERS_H
#define LOWTIDE_OWNERS_H

#include "types.h"

#define MAX_SOCKETS 65536
#define MAX_DEPTH 32                       // of cgroups

struct inode {
	unsigned long i_ino;
} __attribute__((preserve_access_index));

struct file {
	struct inode *f_inode;
} __attribute__((preserve_access_index));

struct socket {
	struct file *file;
} __attribute__((preserve_access_index));

struct kernfs_node {
	u64 id;
} __attribute__((preserve_access_index));

struct cgroup_subsys_state {
	struct cgroup_subsys_state *parent;
} __attribute__((preserve_access_index));

struct cgroup {
	struct cgroup_subsys_state self;   // at offset 0: a parent's `self` is the parent
	struct kernfs_node *kn;
} __attribute__((preserve_access_index));

struct sock_cgroup_data {
	struct cgroup *cgroup;
} __attribute__((preserve_access_index));

// The kernel's struct sock: the loader ignores what follows three underscores.
struct sock___owned {
	struct socket *sk_socket;
	struct sock_cgroup_data sk_cgrp_data;
} __attribute__((preserve_access_index));

struct seq_file;
struct sock_common;

struct bpf_iter_meta {
	struct seq_file *seq;
} __attribute__((preserve_access_index));

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
} __attribute__((preserve_access_index));

// Inodes of the sockets that the group's processes have open. Some were made before their process joined, and belong to another group.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_SOCKETS);
	__type(key, u64);
	__type(value, u8);
} joined SEC(".maps");

INLINE int has_joined(const void *sk)
{
	const struct sock___owned *of = sk;
	u64 inode = BPF_CORE_READ(of, sk_socket, file, f_inode, i_ino);

	return inode && bpf_map_lookup_elem(&joined, &inode);
}

INLINE struct cgroup *made_in(const void *sk)
{
	const struct sock___owned *of = sk;

	return BPF_CORE_READ(of, sk_cgrp_data.cgroup);
}

INLINE struct cgroup *above(struct cgroup *group) { return (struct cgroup *)BPF_CORE_READ(group, self.parent); }

// Whether a socket was made in the cgroup with that id, or below it.
INLINE int is_made_in(const void *sk, u64 id)
{
	struct cgroup *group = made_in(sk);

	for (int i = 0; i < MAX_DEPTH && group; i++) {
		if (BPF_CORE_READ(group, kn, id) == id)
			return 1;
		group = above(group);
	}
	return 0;
}

// Sockets that listen, or wait for an answer, are looked at when they are established.
INLINE int is_connected(u8 state)
{
	return state == BPF_TCP_ESTABLISHED || state == BPF_TCP_FIN_WAIT1 || state == BPF_TCP_FIN_WAIT2 || state == BPF_TCP_CLOSE_WAIT ||
	       state == BPF_TCP_LAST_ACK || state == BPF_TCP_CLOSING;
}

#endif
