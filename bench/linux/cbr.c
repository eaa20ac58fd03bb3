// Datagrams at constant rates, and what became of them, for comparing Linux's queue disciplines with ours (scripts/bench-linux).
//   cbr send ADDRESS SECONDS BYTES KBPS...         one flow a rate, packets of BYTES with IP and UDP headers. Flow n starts n × 137 µs late
//   cbr receive                                    until two seconds pass without a packet: a line a flow, number, packets, and the mean,
//                                                  median, 95th and 99th percentile of the one-way delays in ms; last all flows together
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

enum { PORT = 5000, FLOWS = 16, HEADERS = 28, MOST = 2000000 };

struct stamp {
	uint64_t sent;
	uint32_t flow;
};

static uint64_t now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int send_all(int argc, char **argv)
{
	int flows = argc - 3, bytes = atoi(argv[2]), sockets[FLOWS];
	double seconds = atof(argv[1]);
	uint64_t due[FLOWS], sent[FLOWS] = { 0 }, start = now(CLOCK_MONOTONIC) + 100000000;
	struct sockaddr_in to = { .sin_family = AF_INET };
	char packet[1500] = { 0 };
	if (flows < 1 || flows > FLOWS || bytes > 1500 || !inet_aton(argv[0], &to.sin_addr))
		return 2;
	for (int i = 0; i < flows; i++) {
		int space = 64 << 20;
		sockets[i] = socket(AF_INET, SOCK_DGRAM, 0);
		setsockopt(sockets[i], SOL_SOCKET, SO_SNDBUFFORCE, &space, sizeof space);
		due[i] = start + i * 137000;
	}
	for (;;) {
		int next = 0;
		for (int i = 1; i < flows; i++)
			if (due[i] < due[next])
				next = i;
		if (due[next] > start + seconds * 1e9)
			return 0;
		struct timespec at = { due[next] / 1000000000, due[next] % 1000000000 };
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
		struct stamp stamp = { now(CLOCK_REALTIME), next };
		memcpy(packet, &stamp, sizeof stamp);
		to.sin_port = htons(PORT);
		sendto(sockets[next], packet, bytes - HEADERS, 0, (struct sockaddr *)&to, sizeof to);
		sent[next]++;
		due[next] = start + next * 137000 + (uint64_t)(sent[next] * bytes * 8e6 / atof(argv[3 + next]));
	}
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void report(const char *name, double *delays, int count)
{
	double sum = 0;
	for (int i = 0; i < count; i++)
		sum += delays[i];
	qsort(delays, count, sizeof *delays, ascending);
	printf("%s %d %.3f %.3f %.3f %.3f\n", name, count, sum / count, delays[count / 2], delays[(int)(count * 0.95)], delays[(int)(count * 0.99)]);
}

static int receive_all(void)
{
	static double all[MOST], of[FLOWS][MOST / 4];
	int counts[FLOWS] = { 0 }, total = 0, yes = 1, space = 64 << 20, fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	struct timeval first = { 20, 0 }, later = { 2, 0 };
	setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &yes, sizeof yes);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &space, sizeof space);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &first, sizeof first);
	if (bind(fd, (struct sockaddr *)&here, sizeof here))
		return 1;
	for (;;) {
		struct stamp stamp;
		char control[256];
		struct iovec data = { &stamp, sizeof stamp };
		struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
		if (recvmsg(fd, &message, 0) < 0)
			break;
		if (!total)
			setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &later, sizeof later);
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
			struct timespec t;
			if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS || stamp.flow >= FLOWS || total >= MOST / 4)
				continue;
			memcpy(&t, CMSG_DATA(c), sizeof t);
			double ms = ((uint64_t)t.tv_sec * 1000000000 + t.tv_nsec - stamp.sent) / 1e6;
			all[total++] = ms;
			of[stamp.flow][counts[stamp.flow]++] = ms;
		}
	}
	for (int i = 0; i < FLOWS; i++) {
		char name[8];
		snprintf(name, sizeof name, "%d", i);
		if (counts[i])
			report(name, of[i], counts[i]);
	}
	if (total)
		report("all", all, total);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 5 && !strcmp(argv[1], "send"))
		return send_all(argc - 2, argv + 2);
	if (argc == 2 && !strcmp(argv[1], "receive"))
		return receive_all();
	return 2;
}
