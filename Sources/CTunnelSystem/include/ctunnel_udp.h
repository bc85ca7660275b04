// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Declarations for UDP sockets, event loops and threads that Swift cannot import: GNU extensions, constants whose types
// differ between C libraries, and variadic functions. Wrappers only: each calls one function and returns its result.

#ifndef CTUNNEL_UDP_H
#define CTUNNEL_UDP_H

#include <stdint.h>
#include <sys/types.h>
#include <sys/socket.h>
#include <netinet/in.h>

// MARK: Threads

/// Starts a joinable thread; the return value is an error number or zero.
int ctunnel_thread_start(uintptr_t *handle, void *(*body)(void *), void *context);
/// Waits for a thread to end; the return value is an error number or zero.
int ctunnel_thread_join(uintptr_t handle);
int ctunnel_thread_detach(uintptr_t handle);
/// The calling thread's handle.
uintptr_t ctunnel_thread_self(void);
/// Names the calling thread (at most 15 characters on Linux); the return value is an error number or zero.
int ctunnel_thread_set_name(const char *name);

#if defined(__linux__)

#include <sys/epoll.h>
#include <sys/uio.h>

/// The cores that the calling thread may run on, as bits: `sched_getaffinity`. It takes a multiple of eight bytes.
int ctunnel_affinity(void *set, size_t size);

// MARK: UDP

/// `struct mmsghdr`, which the C library declares for GNU sources only.
struct ctunnel_mmsghdr {
    struct msghdr msg_hdr;
    unsigned int msg_len;
};

/// `struct in_pktinfo`.
struct ctunnel_in_pktinfo {
    uint32_t ipi_ifindex;
    uint32_t ipi_spec_dst;
    uint32_t ipi_addr;
};

/// `struct in6_pktinfo`, which the C library declares for GNU sources only.
struct ctunnel_in6_pktinfo {
    uint8_t ipi6_addr[16];
    uint32_t ipi6_ifindex;
};

/// A non-blocking UDP socket that is closed on exec.
int ctunnel_udp_socket(int family);
/// A Unix stream socket, non-blocking and close-on-exec. Swift's view of SOCK_STREAM depends on what else a module imports.
int ctunnel_unix_stream_socket(void);
/// Two of these that are connected, blocking: `socketpair`.
int ctunnel_unix_pair(int *ends);

/// Makes a pipe whose ends are closed on exec. 0, or -1 with errno.
int ctunnel_pipe(int *ends);

// The system calls of a lane. No thread is cancelled, so they do without the C library's cancellation points, whose code is
// in more pages.

int ctunnel_recvmmsg(int descriptor, struct ctunnel_mmsghdr *messages, unsigned int count);
int ctunnel_sendmmsg(int descriptor, struct ctunnel_mmsghdr *messages, unsigned int count);
ssize_t ctunnel_read(int descriptor, void *bytes, size_t count);
ssize_t ctunnel_writev(int descriptor, const struct iovec *vectors, int count);
int ctunnel_epoll_wait(int epoll, struct epoll_event *events, int count);

static const int CTUNNEL_SO_MARK = 36;
static const int CTUNNEL_SO_SNDBUFFORCE = 32;
static const int CTUNNEL_SO_RCVBUFFORCE = 33;
static const int CTUNNEL_SO_RXQ_OVFL = 40;
static const int CTUNNEL_IP_PKTINFO = 8;
static const int CTUNNEL_IPV6_V6ONLY = 26;
static const int CTUNNEL_IPV6_RECVPKTINFO = 49;
static const int CTUNNEL_IPV6_PKTINFO = 50;
static const int CTUNNEL_MSG_TRUNC = 0x20;
static const int CTUNNEL_UDP_SEGMENT = 103;
static const int CTUNNEL_UDP_GRO = 104;

// MARK: Waiting

static const uint32_t CTUNNEL_EPOLLIN = 0x001;
static const uint32_t CTUNNEL_EPOLLPRI = 0x002;
static const uint32_t CTUNNEL_EPOLLOUT = 0x004;
static const uint32_t CTUNNEL_EPOLLERR = 0x008;
static const uint32_t CTUNNEL_EPOLLHUP = 0x010;

/// An epoll instance that is closed on exec.
int ctunnel_epoll_create(void);
int ctunnel_epoll_add(int epoll, int descriptor, uint32_t events, uint64_t data);
int ctunnel_epoll_modify(int epoll, int descriptor, uint32_t events, uint64_t data);
int ctunnel_epoll_remove(int epoll, int descriptor);

/// A non-blocking eventfd, closed on exec, that starts at zero.
int ctunnel_eventfd(void);

/// A non-blocking timerfd, closed on exec, on the clock that counts while the machine sleeps.
int ctunnel_timerfd(void);
/// Arms it once, at an absolute time; both zero disarm it.
int ctunnel_timerfd_set(int descriptor, int64_t seconds, int64_t nanoseconds);
/// A non-blocking descriptor, closed on exec, that is readable after the wall clock was set, and after the machine slept:
/// the kernel sets the wall clock then. Reading it fails with ECANCELED, and clears it (timerfd_create(2)).
int ctunnel_clock_changes(void);

#endif

#endif
