// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// The parts of TUN devices, netlink and network namespaces that Swift cannot import: macros with casts, variadic functions and
// functions behind _GNU_SOURCE. Constants and one-call wrappers only.

#ifndef CTUNNEL_TUN_H
#define CTUNNEL_TUN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/// `ioctl` whose argument is a pointer.
static inline int ctunnel_tun_ioctl_pointer(int descriptor, unsigned long request, void *argument) {
    return ioctl(descriptor, request, argument);
}

/// `ioctl` whose argument is the value itself.
static inline int ctunnel_tun_ioctl_value(int descriptor, unsigned long request, unsigned long argument) {
    return ioctl(descriptor, request, argument);
}

#if defined(__linux__)

#include <string.h>
#include <sys/eventfd.h>

// MARK: - /dev/net/tun (linux/if_tun.h)

#define CTUNNEL_TUNSETIFF 0x400454caUL
#define CTUNNEL_TUNSETOFFLOAD 0x400454d0UL
#define CTUNNEL_TUNSETPERSIST 0x400454cbUL
#define CTUNNEL_TUNSETOWNER 0x400454ccUL
#define CTUNNEL_TUNSETGROUP 0x400454ceUL
#define CTUNNEL_TUNGETIFF 0x800454d2UL
#define CTUNNEL_TUNSETVNETHDRSZ 0x400454d8UL
#define CTUNNEL_TUNSETVNETLE 0x400454dcUL
/// A descriptor of the network namespace that the device is in now (Linux 5.8). SIOCGSKNS on a TUN descriptor gives the
/// one that it was opened in.
#define CTUNNEL_TUNGETDEVNETNS 0x54e3UL

#define CTUNNEL_IFF_TUN 0x0001
#define CTUNNEL_IFF_MULTI_QUEUE 0x0100
#define CTUNNEL_IFF_NO_PI 0x1000
#define CTUNNEL_IFF_VNET_HDR 0x4000

#define CTUNNEL_TUN_F_CSUM 0x01UL
#define CTUNNEL_TUN_F_TSO4 0x02UL
#define CTUNNEL_TUN_F_TSO6 0x04UL
/// Linux 6.2; older headers lack these two.
#define CTUNNEL_TUN_F_USO4 0x20UL
#define CTUNNEL_TUN_F_USO6 0x40UL

// MARK: - Interfaces (linux/sockios.h, linux/if.h)

#define CTUNNEL_SIOCGIFFLAGS 0x8913UL
#define CTUNNEL_SIOCSIFFLAGS 0x8914UL
#define CTUNNEL_SIOCGIFMTU 0x8921UL
#define CTUNNEL_SIOCSIFMTU 0x8922UL
#define CTUNNEL_SIOCGIFINDEX 0x8933UL
#define CTUNNEL_SIOCGIFTXQLEN 0x8942UL
#define CTUNNEL_SIOCSIFTXQLEN 0x8943UL
/// A descriptor of the network namespace that a socket is in.
#define CTUNNEL_SIOCGSKNS 0x894CUL

#define CTUNNEL_IFF_UP 0x1
#define CTUNNEL_IFF_RUNNING 0x40

// MARK: - Netlink (linux/netlink.h, linux/rtnetlink.h)

#define CTUNNEL_AF_NETLINK 16
#define CTUNNEL_NETLINK_ROUTE 0
#define CTUNNEL_NETLINK_NETFILTER 12
#define CTUNNEL_SOL_NETLINK 270
#define CTUNNEL_NETLINK_ADD_MEMBERSHIP 1
#define CTUNNEL_NETLINK_LISTEN_ALL_NSID 8
#define CTUNNEL_RTNLGRP_LINK 1
#define CTUNNEL_RTNLGRP_IPV4_IFADDR 5
#define CTUNNEL_RTNLGRP_IPV4_ROUTE 7
#define CTUNNEL_RTNLGRP_IPV4_RULE 8
#define CTUNNEL_RTNLGRP_IPV6_IFADDR 9
#define CTUNNEL_RTNLGRP_IPV6_ROUTE 11
#define CTUNNEL_RTNLGRP_IPV6_RULE 19
#define CTUNNEL_RTNLGRP_NSID 28
/// linux/netfilter/nfnetlink.h
#define CTUNNEL_NFNLGRP_NFTABLES 7

/// Socket types with their flags: an enumeration in one C library and macros in another.
enum {
    ctunnel_tun_datagram_socket = SOCK_DGRAM | SOCK_CLOEXEC,
    ctunnel_tun_raw_nonblocking_socket = SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
};

/// `struct sockaddr_nl`.
struct ctunnel_sockaddr_nl {
    uint16_t family;
    uint16_t padding;
    uint32_t port;
    uint32_t groups;
};

/// Receives one datagram from a netlink socket, without blocking.
///
/// `sender` is set to the sending port, zero for the kernel. `namespace_id` is set to the ID of the namespace that the
/// message concerns, or -1 if the kernel gives none, which means the socket's own.
static inline ptrdiff_t ctunnel_tun_netlink_receive(
    int descriptor, void *buffer, size_t size, uint32_t *sender, int32_t *namespace_id) {
    struct ctunnel_sockaddr_nl from = {0};
    struct iovec vector = {.iov_base = buffer, .iov_len = size};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int32_t)) + CMSG_SPACE(64)];
    } control;
    struct msghdr message = {
        .msg_name = &from,
        .msg_namelen = sizeof(from),
        .msg_iov = &vector,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    *namespace_id = -1;
    ptrdiff_t count = recvmsg(descriptor, &message, MSG_DONTWAIT);
    if (count < 0) return count;
    *sender = from.port;
    for (struct cmsghdr *item = CMSG_FIRSTHDR(&message); item != NULL; item = CMSG_NXTHDR(&message, item)) {
        if (item->cmsg_level == CTUNNEL_SOL_NETLINK && item->cmsg_type == CTUNNEL_NETLINK_LISTEN_ALL_NSID)
            memcpy(namespace_id, CMSG_DATA(item), sizeof(int32_t));
    }
    return count;
}

// MARK: - Network namespaces (sched.h, behind _GNU_SOURCE)

extern int setns(int descriptor, int kind);

/// Puts the calling thread into the network namespace of `descriptor`.
static inline int ctunnel_tun_enter_network_namespace(int descriptor) { return setns(descriptor, 0x40000000); }

#elif defined(__APPLE__)

// MARK: - utun (net/if_utun.h, sys/kern_control.h, which the iOS SDK does not have)

#define CTUNNEL_PF_SYSTEM 32
#define CTUNNEL_AF_SYS_CONTROL 2
#define CTUNNEL_SYSPROTO_CONTROL 2
#define CTUNNEL_CTLIOCGINFO 0xC0644E03UL
#define CTUNNEL_UTUN_OPT_IFNAME 2
#define CTUNNEL_UTUN_OPT_MAX_PENDING_PACKETS 16
#define CTUNNEL_SIOCGIFFLAGS 0xC0206911UL
#define CTUNNEL_SIOCSIFFLAGS 0x80206910UL
#define CTUNNEL_SIOCGIFMTU 0xC0206933UL
#define CTUNNEL_SIOCSIFMTU 0x80206934UL
#define CTUNNEL_SIOCAIFADDR 0x8040691AUL
#define CTUNNEL_SIOCAIFADDR_IN6 0x8080691AUL

/// `struct ctl_info`.
struct ctunnel_ctl_info {
    uint32_t id;
    char name[96];
};

/// `struct sockaddr_ctl`.
struct ctunnel_sockaddr_ctl {
    uint8_t length;
    uint8_t family;
    uint16_t system_address;
    uint32_t id;
    uint32_t unit;
    uint32_t reserved[5];
};

#endif

#endif
