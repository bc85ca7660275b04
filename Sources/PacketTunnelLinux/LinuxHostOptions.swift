// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// What to do where a host cannot do something that a tunnel's settings ask for.
public enum Requirement: String, Hashable, Sendable, Codable, CaseIterable {
    /// The settings are refused.
    case required
    /// The rest of the settings is brought into force, and the log has a warning.
    case wanted
}

/// How a tunnel is set up on Linux, beside its settings.
public struct LinuxHostOptions: Hashable, Sendable {
    /// Whether a tunnel may come up without its name servers where nothing manages them.
    public var nameServers: Requirement
    /// The folder of the journals. Nobody else may write to it.
    public var journalFolder: String
    /// The mark of the tunnel's own packets and the number of its routing table; nil takes the first that is free from
    /// 51820 on.
    public var mark: UInt32?
    /// The table that the routes go to, other than the host's choice. There are no policy rules then: who names a table
    /// says which packets it is for, and the strict leak policies, which promise more, are refused. nil, and the main table's number 254: the main table
    /// and, where it is due, one of the tunnel's own with rules, so that the host's default route stays what it is.
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

    /// The table that the routes go to without rules; nil where the host chooses.
    var namedTable: UInt32? { routeTable == Route.mainTable ? nil : routeTable }
}
