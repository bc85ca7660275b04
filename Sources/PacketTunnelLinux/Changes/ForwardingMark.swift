// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A chain without rules in a server's firewall table, whose name records that the host forwards a family only since a server
/// started.
///
/// The kernel keeps the table of a killed server, and loses it at a reboot, together with the setting. All servers of a
/// network namespace see it, even if they have different journals, and a journal may have been deleted.
package struct ForwardingMark: Hashable, Sendable {
    package var isIPv6: Bool
    /// The highest index of an interface before the first server changed the setting.
    package var newestInterface: UInt32

    package init(isIPv6: Bool, newestInterface: UInt32) {
        (self.isIPv6, self.newestInterface) = (isIPv6, newestInterface)
    }

    private static let prefixes = [(name: "forwards4-", isIPv6: false), (name: "forwards6-", isIPv6: true)]

    /// The name of the chain.
    package var chain: String { Self.prefixes[isIPv6 ? 1 : 0].name + "\(newestInterface)" }

    /// The mark that a chain is; `nil` for other chains.
    package init?(chain: String) {
        for prefix in Self.prefixes where chain.hasPrefix(prefix.name) {
            guard let number = UInt32(chain.dropFirst(prefix.name.count)) else { return nil }
            self.init(isIPv6: prefix.isIPv6, newestInterface: number)
            return
        }
        return nil
    }

    /// The mark that a server's journal contains as a change; `nil` for other changes.
    package init?(_ entry: ChangeEntry) {
        for isIPv6 in [false, true] where entry.change == Self.change(isIPv6: isIPv6) {
            guard case .forwarding("0", let newest) = entry.previous else { return nil }
            self.init(isIPv6: isIPv6, newestInterface: newest)
            return
        }
        return nil
    }

    private static func change(isIPv6: Bool) -> Change {
        .setting(path: HostForwarding.path(isIPv6: isIPv6), value: "1")
    }

    /// The change of the setting that the mark records.
    var change: Change { Self.change(isIPv6: isIPv6) }
    /// The state before that change.
    var previous: PreviousState { .forwarding(before: "0", newestInterface: newestInterface) }
}

extension LinuxNetwork {
    /// The marks in the tables of all servers, of killed ones too, each with its table.
    package func forwardingMarks() throws(LinuxNetworkError) -> [(table: String, mark: ForwardingMark)] {
        try firewallSocket()?.chains().compactMap { table, chain in
            ForwardingMark(chain: chain).map { (table, $0) }
        } ?? []
    }

    /// The highest index of an interface.
    package func newestInterface() throws(LinuxNetworkError) -> UInt32 {
        try netlink.links().map(\.index).max() ?? 0
    }

    package func remains(of name: String) -> [(Change, PreviousState)] {
        let table = LeakGuard.tableName(name)
        do throws(LinuxNetworkError) {
            // A process with another journal may use the interface.
            guard try netlink.link(named: name) == nil else { return [] }
            let marks = try forwardingMarks().filter { $0.table == table }.map(\.mark)
            guard !marks.isEmpty else { return [] }
            return [(.firewall(FirewallTable(name: table, body: "")), .nothing)]
                + marks.map { ($0.change, $0.previous) }
        } catch {
            // A process that may not list tables has made none.
            return []
        }
    }

    package func isNeeded(_ change: Change, byOthersThan name: String) -> Bool {
        guard let path = change.settingPath, HostForwarding.paths.contains(path) else { return false }
        do throws(LinuxNetworkError) {
            let others = try forwardingMarks().filter {
                $0.mark.change == change && $0.table != LeakGuard.tableName(name)
            }
            guard !others.isEmpty else { return false }
            // The table of a killed server has no interface.
            let tables = Set(try netlink.links().map { LeakGuard.tableName($0.name) })
            for (table, _) in others where tables.contains(table) {
                // A flush leaves the chains, but without rules that server's table drops nothing.
                if try firewallSocket()?.hasRules(inChain: "forwarding", of: table) == true { return true }
            }
            return false
        } catch {
            // The setting is restored. A server that needs it makes the change again.
            return false
        }
    }
}
