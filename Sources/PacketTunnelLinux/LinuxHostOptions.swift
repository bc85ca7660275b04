// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The behaviour if the host cannot apply a part of a tunnel's settings.
public enum Requirement: String, Hashable, Sendable, Codable, CaseIterable {
    /// The whole settings are refused.
    case required
    /// The rest of the settings is applied, and a warning is logged.
    case wanted
}

/// The setup of a tunnel on Linux beyond its settings.
public struct LinuxHostOptions: Hashable, Sendable {
    /// Whether a tunnel may come up without its name servers if no program manages them.
    public var nameServers: Requirement
    /// The folder of the journals. No other user may have write permission.
    public var journalFolder: String
    /// The mark of the tunnel's own packets, which is also the number of its routing table. `nil` selects the first
    /// free number from 51820 on.
    public var mark: UInt32?
    /// The routing table of the tunnel's routes. With an explicit table the host makes no policy rules: your own rules
    /// select the packets for it, and the strict leak policies, which need the rules, are refused. `nil` or 254, the
    /// main table, selects the main table and, if necessary, a separate table with rules, so that the host's default
    /// route stays unchanged.
    public var routeTable: UInt32?

    /// Options.
    public init(
        nameServers: Requirement = .required, journalFolder: String = "/run/culvert", mark: UInt32? = nil,
        routeTable: UInt32? = nil
    ) {
        self.nameServers = nameServers
        self.journalFolder = journalFolder
        self.mark = mark
        self.routeTable = routeTable
    }

    /// The table that the user chose for routes without policy rules, or `nil` if the host chooses.
    var namedTable: UInt32? { routeTable == Route.mainTable ? nil : routeTable }
}
