// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import NetworkAddresses
    import PacketTunnelLinux

    extension IPv6Outside {
        /// Whether this host has IPv6 beyond its links: a global address, or a default route. Not, where the kernel does not
        /// say.
        static var isThere: Bool {
            do throws(LinuxNetworkError) {
                let netlink = try RouteSocket()
                // No packet is sent to it: it is for documentation (RFC 3849), and somewhere behind a default route.
                let somewhere = IPAddress.v6(0x2001_0db8 << 32, 1)
                let hasDefaultRoute = try netlink.way(to: somewhere) != nil
                return isThere(try netlink.addresses().map(\.address.address), hasDefaultRoute: hasDefaultRoute)
            } catch {
                return false
            }
        }
    }
#endif
