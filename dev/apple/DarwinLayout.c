// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Compares Darwin values that the package declares itself with Apple's headers: scripts/apple compiles this for each system.
#define __APPLE_USE_RFC_3542 1
#include <TargetConditionals.h>
#include <errno.h>
#include <net/if.h>
#include <net/if_var.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/sockio.h>
#include <sys/sysctl.h>
#include <sys/un.h>

#include "CTunnelSystem.h"

#define SAME(ours, theirs) _Static_assert((ours) == (theirs), #ours " is not " #theirs)

// CTunnelSystem/include/ctunnel_tun.h. Phones have the calls, but no header for them.
#if TARGET_OS_OSX
#include <net/route.h>
#include <sys/kern_control.h>
SAME(CTUNNEL_CTLIOCGINFO, CTLIOCGINFO);
SAME(sizeof(struct ctunnel_ctl_info), sizeof(struct ctl_info));
SAME(offsetof(struct ctunnel_ctl_info, id), offsetof(struct ctl_info, ctl_id));
SAME(offsetof(struct ctunnel_ctl_info, name), offsetof(struct ctl_info, ctl_name));
SAME(sizeof(struct ctunnel_sockaddr_ctl), sizeof(struct sockaddr_ctl));
SAME(offsetof(struct ctunnel_sockaddr_ctl, length), offsetof(struct sockaddr_ctl, sc_len));
SAME(offsetof(struct ctunnel_sockaddr_ctl, family), offsetof(struct sockaddr_ctl, sc_family));
SAME(offsetof(struct ctunnel_sockaddr_ctl, system_address), offsetof(struct sockaddr_ctl, ss_sysaddr));
SAME(offsetof(struct ctunnel_sockaddr_ctl, id), offsetof(struct sockaddr_ctl, sc_id));
SAME(offsetof(struct ctunnel_sockaddr_ctl, unit), offsetof(struct sockaddr_ctl, sc_unit));
// TunnelIO/Tun/Darwin/UtunFraming.swift: the message about an interface.
SAME(0x0e, RTM_IFINFO);
SAME(3, offsetof(struct if_msghdr, ifm_type));
SAME(8, offsetof(struct if_msghdr, ifm_flags));
SAME(12, offsetof(struct if_msghdr, ifm_index));
SAME(24, offsetof(struct if_msghdr, ifm_data) + offsetof(struct if_data, ifi_mtu));
// TunnelIO/Tun/Darwin/UtunAddressRequest.swift
SAME(CTUNNEL_SIOCAIFADDR, SIOCAIFADDR);
SAME(64, sizeof(struct ifaliasreq));
SAME(16, offsetof(struct ifaliasreq, ifra_addr));
SAME(32, offsetof(struct ifaliasreq, ifra_broadaddr));
SAME(48, offsetof(struct ifaliasreq, ifra_mask));
#if __has_include(<netinet6/in6_var.h>)
#include <netinet6/in6_var.h>
#else
// The open headers lack it: as in Apple's sources of the kernel (xnu, bsd/netinet6/in6_var.h).
struct in6_addrlifetime {
    time_t ia6t_expire, ia6t_preferred;
    uint32_t ia6t_vltime, ia6t_pltime;
};
struct in6_aliasreq {
    char ifra_name[IFNAMSIZ];
    struct sockaddr_in6 ifra_addr, ifra_dstaddr, ifra_prefixmask;
    int ifra_flags;
    struct in6_addrlifetime ifra_lifetime;
};
#define SIOCAIFADDR_IN6 _IOW('i', 26, struct in6_aliasreq)
#endif
SAME(CTUNNEL_SIOCAIFADDR_IN6, SIOCAIFADDR_IN6);
SAME(128, sizeof(struct in6_aliasreq));
SAME(16, offsetof(struct in6_aliasreq, ifra_addr));
SAME(44, offsetof(struct in6_aliasreq, ifra_dstaddr));
SAME(72, offsetof(struct in6_aliasreq, ifra_prefixmask));
SAME(100, offsetof(struct in6_aliasreq, ifra_flags));
SAME(120, offsetof(struct in6_aliasreq, ifra_lifetime) + offsetof(struct in6_addrlifetime, ia6t_vltime));
SAME(124, offsetof(struct in6_aliasreq, ifra_lifetime) + offsetof(struct in6_addrlifetime, ia6t_pltime));
#endif
SAME(CTUNNEL_PF_SYSTEM, PF_SYSTEM);
SAME(CTUNNEL_SIOCGIFFLAGS, SIOCGIFFLAGS);
SAME(CTUNNEL_SIOCSIFFLAGS, SIOCSIFFLAGS);
SAME(CTUNNEL_SIOCGIFMTU, SIOCGIFMTU);
SAME(CTUNNEL_SIOCSIFMTU, SIOCSIFMTU);
SAME(1, IFF_UP);

// TunnelIO/UDP/Darwin/DarwinDatagramLayout.swift
SAME(2, AF_INET);
SAME(30, AF_INET6);
SAME(16, sizeof(struct sockaddr_in));
SAME(28, sizeof(struct sockaddr_in6));
SAME(0, offsetof(struct sockaddr_in, sin_len));
SAME(1, offsetof(struct sockaddr_in, sin_family));
SAME(2, offsetof(struct sockaddr_in, sin_port));
SAME(4, offsetof(struct sockaddr_in, sin_addr));
SAME(0, offsetof(struct sockaddr_in6, sin6_len));
SAME(1, offsetof(struct sockaddr_in6, sin6_family));
SAME(2, offsetof(struct sockaddr_in6, sin6_port));
SAME(4, offsetof(struct sockaddr_in6, sin6_flowinfo));
SAME(8, offsetof(struct sockaddr_in6, sin6_addr));
SAME(24, offsetof(struct sockaddr_in6, sin6_scope_id));
SAME(12, sizeof(struct cmsghdr));
SAME(12, (size_t)CMSG_LEN(0));
SAME(0, offsetof(struct cmsghdr, cmsg_len));
SAME(4, offsetof(struct cmsghdr, cmsg_level));
SAME(8, offsetof(struct cmsghdr, cmsg_type));
SAME(0, IPPROTO_IP);
SAME(41, IPPROTO_IPV6);
SAME(26, IP_PKTINFO);
SAME(26, IP_RECVPKTINFO);
SAME(46, IPV6_PKTINFO);
SAME(61, IPV6_RECVPKTINFO);
SAME(12, sizeof(struct in_pktinfo));
SAME(0, offsetof(struct in_pktinfo, ipi_ifindex));
SAME(4, offsetof(struct in_pktinfo, ipi_spec_dst));
SAME(8, offsetof(struct in_pktinfo, ipi_addr));
SAME(20, sizeof(struct in6_pktinfo));
SAME(0, offsetof(struct in6_pktinfo, ipi6_addr));
SAME(16, offsetof(struct in6_pktinfo, ipi6_ifindex));

// WireGuardCore/Configuration/UAPIErrno+Darwin.swift
SAME(1, EPERM);
SAME(2, ENOENT);
SAME(5, EIO);
SAME(12, ENOMEM);
SAME(19, ENODEV);
SAME(22, EINVAL);
SAME(100, EPROTO);
SAME(48, EADDRINUSE);
SAME(49, EADDRNOTAVAIL);
