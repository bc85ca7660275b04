// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import NetworkAddresses
    import PacketTunnelLinux

    extension IPv6Outside {
        /// Whether this host has IPv6 beyond its links: a global address, or a default route. False if the kernel does
        /// not report them.
        static var isThere: Bool {
            do throws(LinuxNetworkError) {
                let netlink = try RouteSocket()
                // A documentation address (RFC 3849), to which only a default route leads. No packet is sent to it.
                let somewhere = IPAddress.v6(0x2001_0db8 << 32, 1)
                let hasDefaultRoute = try netlink.way(to: somewhere) != nil
                return isThere(try netlink.addresses().map(\.address.address), hasDefaultRoute: hasDefaultRoute)
            } catch {
                return false
            }
        }
    }
#endif
