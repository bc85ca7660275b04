// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelLinux

extension HostForwarding {
    /// A mark for each family of a server that the host does not forward, or only since another server started. Without
    /// rules, the host would forward between all networks, even after the end of that server.
    /// - Parameter others: The changes of the other servers and tunnels of the host.
    static func forServers(
        _ settings: ServerNetworkSettings, _ network: LinuxNetwork, others: @autoclosure () -> [ChangeEntry]
    ) throws(LinuxNetworkError) -> Set<ForwardingMark> {
        try marks(
            Set(settings.addresses.map(\.isIPv6)),
            isOff: { (isIPv6) throws(LinuxNetworkError) in try SmallFile.text(path(isIPv6: isIPv6)) ?? "0" == "0" },
            present: { () throws(LinuxNetworkError) in
                try network.forwardingMarks().map(\.mark) + others().compactMap { ForwardingMark($0) }
            },
            newestInterface: { () throws(LinuxNetworkError) in try network.newestInterface() })
    }

    /// A mark for each of the families that the host does not forward, or only since another server started.
    ///
    /// Another server may start or stop at the same time. It makes its mark before it changes the setting, and removes it after
    /// it has restored the setting. Therefore the setting is read before the marks, and again if it is on and has no mark.
    /// - Parameters:
    ///   - families: `true` for IPv6, `false` for IPv4.
    ///   - isOff: Whether the host does not forward the family.
    ///   - present: The marks of the other servers.
    static func marks(
        _ families: Set<Bool>, isOff: (_ isIPv6: Bool) throws(LinuxNetworkError) -> Bool,
        present: () throws(LinuxNetworkError) -> [ForwardingMark],
        newestInterface: () throws(LinuxNetworkError) -> UInt32
    ) throws(LinuxNetworkError) -> Set<ForwardingMark> {
        var wereOff: Set<Bool> = []
        for isIPv6 in families where try isOff(isIPv6) { wereOff.insert(isIPv6) }
        let present = try present()
        var marks: Set<ForwardingMark> = []
        for isIPv6 in families {
            if let mark = present.first(where: { $0.isIPv6 == isIPv6 }) {
                marks.insert(mark)
            } else if try wereOff.contains(isIPv6) ? true : isOff(isIPv6) {
                marks.insert(ForwardingMark(isIPv6: isIPv6, newestInterface: try newestInterface()))
            }
        }
        return marks
    }

    /// The families of a server in which no interface outside of its tunnels forwards, each with a problem.
    static func problems(
        _ settings: ServerNetworkSettings, links: [RouteSocket.Link]
    ) throws(LinuxNetworkError) -> [(part: String, what: String)] {
        let outside = links.filter { $0.isUp && !$0.isLoopback && !settings.tunnels.contains($0.name) }.map(\.name)
        var problems: [(part: String, what: String)] = []
        for isIPv6 in settings.addresses.map(\.isIPv6) where !outside.isEmpty {
            var forwards = false
            for name in outside where !forwards {
                let path = "/proc/sys/net/\(isIPv6 ? "ipv6" : "ipv4")/conf/\(name)/forwarding"
                // An interface that has just been removed has no setting.
                forwards = try SmallFile.text(path).map { $0 != "0" } ?? false
            }
            guard !forwards else { continue }
            let part = "forwarding of \(isIPv6 ? "IPv6" : "IPv4")"
            problems.append((part, "\(part): it is off on \(outside.joined(separator: ", "))"))
        }
        return problems
    }
}
