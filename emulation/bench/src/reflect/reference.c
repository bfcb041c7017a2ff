// What `emulate bench reflect` measures ours beside: each datagram to N ports, three ways.
//   reference WAY PORT ADDRESS FIRST N
//     naive     recvfrom, and sendto for each target
//     sendmmsg  recvmmsg of 64, and all copies by sendmmsg
//     gso       recvmmsg of 64; packets of one size as one UDP_SEGMENT message for each target, all by sendmmsg
// Ends on SIGTERM and prints a line of JSON; times are since the first datagram.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { BATCH = 64, TARGETS = 1024, SLOT = 2048, RUN_BYTES = 65000, CALL = 1024 };

static volatile sig_atomic_t stop;
static uint64_t received, sent, failed;
static int fd, count;
static struct sockaddr_in targets[TARGETS];
static char slots[BATCH][SLOT];
static struct iovec in_vectors[BATCH], out_vectors[BATCH];
static struct mmsghdr in[BATCH], out[TARGETS * BATCH];
static int packets_of[TARGETS * BATCH];

static struct run {
    int first, packets, segment;
    union { char bytes[CMSG_SPACE(sizeof(uint16_t))]; struct cmsghdr align; } control;
} runs[BATCH];

static void on_signal(int number) { (void)number; stop = 1; }

static double seconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void send_all(int messages) {
    for (int at = 0; at < messages;) {
        int some = messages - at > CALL ? CALL : messages - at;
        int done = sendmmsg(fd, out + at, some, 0);
        if (done <= 0) { failed += packets_of[at++]; continue; }
        for (int i = 0; i < done; i++) sent += packets_of[at + i];
        at += done;
    }
}

// Runs of one size, the last of each possibly shorter; without gso of one packet each.
static int split(int got, int gso) {
    int number = 0;
    for (int i = 0; i < got; i++) {
        int length = in[i].msg_len;
        out_vectors[i] = (struct iovec){slots[i], length};
        struct run *run = number ? &runs[number - 1] : NULL;
        if (gso && run && (int)in[i - 1].msg_len == run->segment && length <= run->segment &&
            (run->packets + 1) * run->segment <= RUN_BYTES) {
            run->packets++;
            continue;
        }
        runs[number] = (struct run){.first = i, .packets = 1, .segment = length};
        struct cmsghdr *head = &runs[number].control.align;
        head->cmsg_level = SOL_UDP;
        head->cmsg_type = UDP_SEGMENT;
        head->cmsg_len = CMSG_LEN(sizeof(uint16_t));
        uint16_t segment = length;
        memcpy(CMSG_DATA(head), &segment, sizeof segment);
        number++;
    }
    return number;
}

static void reflect_batch(int got, int gso) {
    int number = split(got, gso), messages = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < number; k++, messages++) {
            struct msghdr *head = &out[messages].msg_hdr;
            int cuts = runs[k].packets > 1;
            *head = (struct msghdr){.msg_name = &targets[i], .msg_namelen = sizeof targets[i],
                .msg_iov = &out_vectors[runs[k].first], .msg_iovlen = runs[k].packets,
                .msg_control = cuts ? runs[k].control.bytes : NULL,
                .msg_controllen = cuts ? sizeof runs[k].control.bytes : 0};
            packets_of[messages] = runs[k].packets;
        }
    send_all(messages);
}

int main(int argc, char **argv) {
    if (argc != 6 || (count = atoi(argv[5])) < 1 || count > TARGETS) return 64;
    int naive = !strcmp(argv[1], "naive"), gso = !strcmp(argv[1], "gso"), room = 4 << 20;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
    fd = socket(AF_INET, SOCK_DGRAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    if (bind(fd, (struct sockaddr *)&at, sizeof at)) { perror("bind"); return 1; }
    for (int i = 0; i < count; i++) {
        targets[i] = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(atoi(argv[4]) + i)};
        inet_aton(argv[3], &targets[i].sin_addr);
    }
    for (int i = 0; i < BATCH; i++) {
        in_vectors[i] = (struct iovec){slots[i], SLOT};
        in[i].msg_hdr = (struct msghdr){.msg_iov = &in_vectors[i], .msg_iovlen = 1};
    }
    double cpu = 0, wall = 0;
    while (!stop) {
        int length = naive ? (int)recvfrom(fd, slots[0], SLOT, 0, NULL, NULL) : 0;
        int got = naive ? length >= 0 : recvmmsg(fd, in, BATCH, MSG_WAITFORONE, NULL);
        if (got <= 0) continue;
        if (!received) { cpu = seconds(CLOCK_PROCESS_CPUTIME_ID); wall = seconds(CLOCK_MONOTONIC); }
        received += got;
        if (!naive) { reflect_batch(got, gso); continue; }
        for (int i = 0; i < count; i++)
            if (sendto(fd, slots[0], length, 0, (struct sockaddr *)&targets[i], sizeof targets[i]) == length) sent++;
            else failed++;
    }
    if (received) { cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu; wall = seconds(CLOCK_MONOTONIC) - wall; }
    printf("{\"in\":%lu,\"out\":%lu,\"err\":%lu,\"cpu\":%.4f,\"wall\":%.4f}\n",
        (unsigned long)received, (unsigned long)sent, (unsigned long)failed, cpu, wall);
    return 0;
}
