// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The kernel's check that an IPv4 packet arrives on the interface with the route to its source (`rp_filter` in
/// ip-sysctl.rst).
///
/// It also applies to ARP requests, which have no mark. A host whose tunnel has the route to a neighbour does not
/// answer the neighbour's requests under a strict filter.
struct ReversePathFilter {
    /// The setting that drops a packet only if no interface has a route to its source.
    static let loose = "2"
    private static let strict = 1
    /// The setting of all interfaces.
    private let everywhere: Int

    init() throws(LinuxNetworkError) { everywhere = try Self.value("all") }

    /// The file of an interface's setting.
    static func path(_ interface: String) -> String { "/proc/sys/net/ipv4/conf/\(interface)/rp_filter" }

    private static func value(_ interface: String) throws(LinuxNetworkError) -> Int {
        Int(try SmallFile.text(path(interface)) ?? "") ?? 0
    }

    /// Whether an interface drops packets whose source is routed to another interface. The greater of both settings
    /// applies.
    func isStrict(_ interface: String) throws(LinuxNetworkError) -> Bool {
        max(everywhere, try Self.value(interface)) == Self.strict
    }

    /// Returns the files of settings that are looser than those of a new interface, because a tunnel may have loosened
    /// them.
    static func loosened(_ links: [RouteSocket.Link]) throws(LinuxNetworkError) -> [String] {
        guard max(try value("all"), try value("default")) == strict else { return [] }
        var paths: [String] = []
        for link in links where try SmallFile.text(path(link.name)) == loose { paths.append(path(link.name)) }
        return paths
    }
}
