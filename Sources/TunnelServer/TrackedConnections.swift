// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelLinux

/// The kernel's table of connections, which all flows of the calling thread's network namespace share.
///
/// Source: Documentation/networking/nf_conntrack-sysctl.rst of the kernel.
package enum TrackedConnections {
    private static let folder = "/proc/sys/net/netfilter"
    /// The share of the table from which it is reported.
    private static let threshold = 0.95

    /// The warning that the table is full, or nearly; `nil` if it is not, or if its size is not known.
    package static var warning: String? {
        func number(_ name: String) -> Int? { ((try? SmallFile.text("\(folder)/\(name)")) ?? nil).flatMap { Int($0) } }
        return warning(count: number("nf_conntrack_count"), limit: number("nf_conntrack_max"))
    }

    static func warning(count: Int?, limit: Int?) -> String? {
        guard let count, let limit, limit > 0, Double(count) >= Self.threshold * Double(limit) else { return nil }
        return """
            the host tracks \(count) connections of at most \(limit), and drops new flows if there are more; raise \
            net.netfilter.nf_conntrack_max
            """
    }
}
