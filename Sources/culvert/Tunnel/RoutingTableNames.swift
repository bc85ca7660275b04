// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import PacketTunnel
import TunnelSystem
import WireGuardTunnel

extension WireGuardTunnelConfiguration {
    /// - Parameter source: the source, for people.
    /// - Throws: if the leak policy requires more than the configuration's routes can ensure: the routes are in a table
    ///   that only the user's own rules use, or the user adds all routes.
    func checkRouteTable(_ source: String) throws(CommandProblem) {
        if !makesRoutes, leakPolicy.routesEverything {
            throw CommandProblem(
                ExitStatus.usage,
                "\(source): 'Table = off' leaves the routes to you, and the leak policy 'everything' routes everything into the "
                    + "tunnel\n  fix: remove 'Table', or choose another --leak-policy")
        }
        guard let routeTable, routeTable != RoutingTableNames.main, !leakPolicy.leavesDecisionToRoutes else { return }
        throw CommandProblem(
            ExitStatus.usage,
            "\(source): 'Table' names a routing table that only rules of your own ask for, and no strict leak policy can "
                + "hold with that\n  fix: remove 'Table', or choose --leak-policy route-based")
    }
}

/// The names that ip(8) knows for routing tables.
struct RoutingTableNames {
    /// The folders of ip(8); the first one has priority.
    var folders = ["/etc/iproute2", "/usr/share/iproute2", "/usr/lib/iproute2"]

    /// The number of the main table, in which the system looks up every packet by default.
    static let main: UInt32 = 254

    /// The number of a table; `nil` if no table has this name.
    func number(_ name: String) -> UInt32? {
        for path in folders.flatMap(files) {
            let text = String(decoding: CheckedFile(path: path).bytes ?? [], as: UTF8.self)
            for line in text.split(whereSeparator: \.isNewline) {
                let words = line.prefix { $0 != "#" }.split(whereSeparator: \.isWhitespace)
                guard words.count == 2, words[1] == name else { continue }
                if let number = Self.number(words[0]) { return number }
            }
        }
        return ["default": 253, "main": Self.main][name]
    }

    private func files(_ folder: String) -> [String] {
        let own = FolderContents.names(folder + "/rt_tables.d") ?? []
        return [folder + "/rt_tables"]
            + own.filter { $0.hasSuffix(".conf") }.sorted().map { "\(folder)/rt_tables.d/\($0)" }
    }

    private static func number(_ word: Substring) -> UInt32? {
        word.hasPrefix("0x") ? UInt32(word.dropFirst(2), radix: 16) : UInt32(word)
    }
}
