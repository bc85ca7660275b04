// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel

/// Version 1 of the journal's entries, only for reading: the program may be replaced by a later version while a tunnel
/// runs.
enum JournalVersion1: Decodable {
    case change(Change, id: Int)

    struct Setting: Decodable {
        var path, value, before: String
    }

    enum Change: Decodable {
        case interface(name: String)
        case address(InterfaceAddress, InterfaceReference)
        case link(InterfaceReference)
        case route(Route, before: ForeignRoute?)
        case rule(PolicyRule)
        case setting(Setting)
        case firewall(name: String)
        case resolver(ResolverRecord)
        case number(UInt32)
    }

    /// The entry in the present version.
    var entry: ChangeEntry {
        switch self {
        case .change(.interface(let name), let id): ChangeEntry(id: id, .interface(name: name), .nothing)
        case .change(.address(let address, let interface), let id):
            ChangeEntry(id: id, .address(address, interface), .nothing)
        case .change(.link(let interface), let id): ChangeEntry(id: id, .link(interface, mtu: 0), .nothing)
        case .change(.route(let route, let before), let id):
            ChangeEntry(id: id, .route(route), before.map { .route($0) } ?? .nothing)
        case .change(.rule(let rule), let id): ChangeEntry(id: id, .rule(rule), .nothing)
        case .change(.setting(let setting), let id):
            ChangeEntry(id: id, .setting(path: setting.path, value: setting.value), .setting(setting.before))
        case .change(.firewall(let name), let id):
            ChangeEntry(id: id, .firewall(FirewallTable(name: name, body: "")), .nothing)
        case .change(.resolver(let record), let id):
            ChangeEntry(
                id: id,
                .resolver(
                    ResolverPlan(
                        interface: record.interface, manager: record.manager, settings: DNSSettings(servers: []))),
                .resolver(record))
        case .change(.number(let number), let id): ChangeEntry(id: id, .number(number), .nothing)
        }
    }
}
