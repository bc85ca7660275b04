// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The kernel settings that make a host forward packets between its interfaces. All programs of a host share them.
package enum HostForwarding {
    /// The setting's file. It contains 1 if the host forwards, and 0 if it does not.
    package static func path(isIPv6: Bool) -> String {
        "/proc/sys/net/\(isIPv6 ? "ipv6/conf/all/forwarding" : "ipv4/ip_forward")"
    }

    package static var paths: [String] { [path(isIPv6: false), path(isIPv6: true)] }

    /// Whether a setting makes an interface accept router advertisements.
    static func isRouterAdvertisement(_ path: String) -> Bool {
        path.hasPrefix("/proc/sys/net/ipv6/conf/") && path.hasSuffix("/accept_ra")
    }

    /// A setting that was not restored.
    package struct Kept: Hashable, Sendable {
        package var path: String
        /// The names of the interfaces that need it.
        package var interfaces: [String]
    }

    /// Whether an interface exists in order that the host forwards its packets: those of containers and virtual machines, and those
    /// of clients of the kernel's WireGuard.
    static func isNeeded(by link: RouteSocket.Link) -> Bool {
        link.isUp && ["bridge", "veth", "wireguard"].contains(link.kind)
    }
}
