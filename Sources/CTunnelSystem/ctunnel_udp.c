// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if defined(__linux__)
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#endif

#include "ctunnel_udp.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>

int ctunnel_thread_start(uintptr_t *handle, void *(*body)(void *), void *context) {
    return pthread_create((pthread_t *)handle, NULL, body, context);
}

int ctunnel_thread_detach(uintptr_t handle) { return pthread_detach((pthread_t)handle); }

int ctunnel_thread_join(uintptr_t handle) { return pthread_join((pthread_t)handle, NULL); }

uintptr_t ctunnel_thread_self(void) { return (uintptr_t)pthread_self(); }

_Static_assert(sizeof(pthread_t) == sizeof(uintptr_t), "a thread's handle is the size of a pointer");

#if defined(__APPLE__)

int ctunnel_thread_set_name(const char *name) { return pthread_setname_np(name); }

#elif defined(__linux__)

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

_Static_assert(sizeof(struct ctunnel_mmsghdr) == sizeof(struct mmsghdr), "mmsghdr");
_Static_assert(offsetof(struct ctunnel_mmsghdr, msg_len) == offsetof(struct mmsghdr, msg_len), "mmsghdr.msg_len");
_Static_assert(sizeof(struct ctunnel_in_pktinfo) == sizeof(struct in_pktinfo), "in_pktinfo");
_Static_assert(sizeof(struct ctunnel_in6_pktinfo) == sizeof(struct in6_pktinfo), "in6_pktinfo");
_Static_assert(MSG_TRUNC == 0x20 && SO_RXQ_OVFL == 40 && IP_PKTINFO == 8 && IPV6_PKTINFO == 50, "constants");
_Static_assert(SO_MARK == 36 && SO_SNDBUFFORCE == 32 && SO_RCVBUFFORCE == 33 && IPV6_RECVPKTINFO == 49, "constants");
_Static_assert(EPOLLIN == 1 && EPOLLPRI == 2 && EPOLLOUT == 4 && EPOLLERR == 8 && EPOLLHUP == 16, "epoll");

int ctunnel_thread_set_name(const char *name) { return pthread_setname_np(pthread_self(), name); }

int ctunnel_affinity(void *set, size_t size) { return sched_getaffinity(0, size, (cpu_set_t *)set); }

int ctunnel_udp_socket(int family) {
    return socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP);
}

int ctunnel_unix_stream_socket(void) {
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int ctunnel_unix_pair(int *ends) { return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends); }

int ctunnel_pipe(int *ends) { return pipe2(ends, O_CLOEXEC); }

// Sanitizers know the C library's functions only.
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CALL_SYSTEM(name, ...) name(__VA_ARGS__)
#else
#define CALL_SYSTEM(name, ...) syscall(SYS_##name, __VA_ARGS__)
#endif

// For a single message, sendmsg and recvmsg are faster.

int ctunnel_recvmmsg(int descriptor, struct ctunnel_mmsghdr *messages, unsigned int count) {
    if (count == 1) {
        ssize_t length = CALL_SYSTEM(recvmsg, descriptor, (struct msghdr *)&messages->msg_hdr, MSG_DONTWAIT);
        if (length < 0) return -1;
        messages->msg_len = (unsigned int)length;
        return 1;
    }
    return (int)CALL_SYSTEM(recvmmsg, descriptor, (struct mmsghdr *)messages, count, MSG_DONTWAIT, NULL);
}

int ctunnel_sendmmsg(int descriptor, struct ctunnel_mmsghdr *messages, unsigned int count) {
    if (count == 1) {
        return CALL_SYSTEM(sendmsg, descriptor, (struct msghdr *)&messages->msg_hdr, MSG_DONTWAIT) < 0 ? -1 : 1;
    }
    return (int)CALL_SYSTEM(sendmmsg, descriptor, (struct mmsghdr *)messages, count, MSG_DONTWAIT);
}

ssize_t ctunnel_read(int descriptor, void *bytes, size_t count) { return CALL_SYSTEM(read, descriptor, bytes, count); }

ssize_t ctunnel_writev(int descriptor, const struct iovec *vectors, int count) {
    return CALL_SYSTEM(writev, descriptor, vectors, count);
}

int ctunnel_epoll_wait(int epoll, struct epoll_event *events, int count) {
    return (int)CALL_SYSTEM(epoll_pwait, epoll, events, count, -1, NULL);
}

int ctunnel_epoll_create(void) { return epoll_create1(EPOLL_CLOEXEC); }

int ctunnel_epoll_add(int epoll, int descriptor, uint32_t events, uint64_t data) {
    struct epoll_event event = {.events = events, .data = {.u64 = data}};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
}

int ctunnel_epoll_modify(int epoll, int descriptor, uint32_t events, uint64_t data) {
    struct epoll_event event = {.events = events, .data = {.u64 = data}};
    return epoll_ctl(epoll, EPOLL_CTL_MOD, descriptor, &event);
}

int ctunnel_epoll_remove(int epoll, int descriptor) { return epoll_ctl(epoll, EPOLL_CTL_DEL, descriptor, NULL); }

int ctunnel_eventfd(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

int ctunnel_timerfd(void) { return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK); }

int ctunnel_timerfd_set(int descriptor, int64_t seconds, int64_t nanoseconds) {
    struct itimerspec time = {.it_value = {.tv_sec = seconds, .tv_nsec = nanoseconds}};
    return timerfd_settime(descriptor, TFD_TIMER_ABSTIME, &time, NULL);
}

int ctunnel_clock_changes(void) {
    int descriptor = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    // In the year 2242.
    struct itimerspec never = {.it_value = {.tv_sec = INT64_C(1) << 33}};
    if (descriptor < 0 || timerfd_settime(descriptor, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL) == 0)
        return descriptor;
    int error = errno;
    close(descriptor);
    errno = error;
    return -1;
}

#endif
