// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// A build for another system has an empty file.
#ifdef __linux__

#define _GNU_SOURCE
#include "stage_calls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#define HAS_CALLGRIND 1
#else
#define HAS_CALLGRIND 0
#endif

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

static int tun_descriptor = -1;
static int udp_descriptor = -1;
static struct {
    const void *bytes;
    size_t length;
    size_t segment;
} frame, datagrams;
static int64_t excluded;
static uint64_t frames;
static uint64_t messages;
static bool is_collecting;

void stage_calls_begin(int tun, int udp) {
    tun_descriptor = tun;
    udp_descriptor = udp;
}

void stage_calls_offer_frame(const void *bytes, size_t length) {
    frame.bytes = bytes;
    frame.length = length;
}

void stage_calls_offer_datagrams(const void *bytes, size_t length, size_t segment) {
    datagrams.bytes = bytes;
    datagrams.length = length;
    datagrams.segment = segment;
}

int64_t stage_calls_excluded(void) { return excluded; }
uint64_t stage_calls_frames(void) { return frames; }
uint64_t stage_calls_messages(void) { return messages; }

int stage_callgrind_is_known(void) { return HAS_CALLGRIND; }

void stage_callgrind_toggle(void) {
    is_collecting = !is_collecting;
#if HAS_CALLGRIND
    CALLGRIND_TOGGLE_COLLECT;
#endif
}

void stage_callgrind_dump(const char *name) {
#if HAS_CALLGRIND
    CALLGRIND_DUMP_STATS_AT(name);
#else
    (void)name;
#endif
}

#if defined(__x86_64__)
int stage_has_avx2(void) { return __builtin_cpu_supports("avx2") != 0; }
int stage_has_avx512(void) { return __builtin_cpu_supports("avx512f") != 0; }
#else
int stage_has_avx2(void) { return 0; }
int stage_has_avx512(void) { return 0; }
#endif

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/// Excludes the following work from time and instructions.
static int64_t pause_counting(void) {
#if HAS_CALLGRIND
    if (is_collecting) CALLGRIND_TOGGLE_COLLECT;
#endif
    return now();
}

static void resume_counting(int64_t since) {
    excluded += now() - since;
#if HAS_CALLGRIND
    if (is_collecting) CALLGRIND_TOGGLE_COLLECT;
#endif
}

/// Copies `length` bytes to the vectors, one after the other.
static void scatter(const struct iovec *vectors, size_t count, const void *bytes, size_t length) {
    size_t done = 0;
    for (size_t index = 0; index < count && done < length; index++) {
        size_t part = vectors[index].iov_len < length - done ? vectors[index].iov_len : length - done;
        memcpy(vectors[index].iov_base, (const char *)bytes + done, part);
        done += part;
    }
}

static ssize_t total(const struct iovec *vectors, int count) {
    size_t sum = 0;
    for (int index = 0; index < count; index++) sum += vectors[index].iov_len;
    return (ssize_t)sum;
}

extern ssize_t __real_ctunnel_read(int, void *, size_t);
extern ssize_t __real_ctunnel_writev(int, const struct iovec *, int);
extern int __real_ctunnel_recvmmsg(int, struct mmsghdr *, unsigned int);
extern int __real_ctunnel_sendmmsg(int, struct mmsghdr *, unsigned int);

ssize_t __wrap_ctunnel_read(int descriptor, void *bytes, size_t count) {
    if (descriptor != tun_descriptor || descriptor < 0) return __real_ctunnel_read(descriptor, bytes, count);
    if (frame.bytes == NULL) {
        errno = EAGAIN;
        return -1;
    }
    int64_t since = pause_counting();
    struct iovec vector = {bytes, count};
    scatter(&vector, 1, frame.bytes, frame.length);
    frame.bytes = NULL;
    resume_counting(since);
    return (ssize_t)frame.length;
}

ssize_t __wrap_ctunnel_writev(int descriptor, const struct iovec *vectors, int count) {
    if (descriptor != tun_descriptor || descriptor < 0) return __real_ctunnel_writev(descriptor, vectors, count);
    frames++;
    return total(vectors, count);
}

int __wrap_ctunnel_sendmmsg(int descriptor, struct mmsghdr *headers, unsigned int count) {
    if (descriptor != udp_descriptor || descriptor < 0) return __real_ctunnel_sendmmsg(descriptor, headers, count);
    for (unsigned int index = 0; index < count; index++) {
        headers[index].msg_len = (unsigned int)total(headers[index].msg_hdr.msg_iov, (int)headers[index].msg_hdr.msg_iovlen);
    }
    messages += count;
    return (int)count;
}

int __wrap_ctunnel_recvmmsg(int descriptor, struct mmsghdr *headers, unsigned int count) {
    if (descriptor != udp_descriptor || descriptor < 0) return __real_ctunnel_recvmmsg(descriptor, headers, count);
    if (datagrams.bytes == NULL || count == 0) {
        errno = EAGAIN;
        return -1;
    }
    int64_t since = pause_counting();
    struct msghdr *header = &headers[0].msg_hdr;
    scatter(header->msg_iov, header->msg_iovlen, datagrams.bytes, datagrams.length);
    headers[0].msg_len = (unsigned int)datagrams.length;
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_port = htons(51820)};
    from.sin_addr.s_addr = htonl(0xc0000201);
    if (header->msg_name != NULL && header->msg_namelen >= sizeof from) memcpy(header->msg_name, &from, sizeof from);
    header->msg_namelen = sizeof from;
    header->msg_flags = 0;
    size_t room = header->msg_controllen;
    size_t wanted = CMSG_SPACE(sizeof(struct in_pktinfo)) + CMSG_SPACE(sizeof(int));
    if (header->msg_control != NULL && room >= wanted) {
        memset(header->msg_control, 0, wanted);
        struct cmsghdr *control = CMSG_FIRSTHDR(header);
        struct in_pktinfo info = {.ipi_ifindex = 1};
        info.ipi_addr.s_addr = htonl(0xc0000202);
        info.ipi_spec_dst = info.ipi_addr;
        control->cmsg_level = IPPROTO_IP;
        control->cmsg_type = IP_PKTINFO;
        control->cmsg_len = CMSG_LEN(sizeof info);
        memcpy(CMSG_DATA(control), &info, sizeof info);
        control = CMSG_NXTHDR(header, control);
        int segment = (int)datagrams.segment;
        control->cmsg_level = IPPROTO_UDP;
        control->cmsg_type = UDP_GRO;
        control->cmsg_len = CMSG_LEN(sizeof segment);
        memcpy(CMSG_DATA(control), &segment, sizeof segment);
        header->msg_controllen = wanted;
    } else {
        header->msg_controllen = 0;
    }
    datagrams.bytes = NULL;
    resume_counting(since);
    return 1;
}

#endif
