// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
import PacketTunnel

/// What a tunnel wants of the host's network, one thing at a time.
package enum NetworkStep: Hashable, Sendable {
    /// A TUN interface of this name, which its process makes.
    case interface(name: String)
    case address(InterfaceAddress, InterfaceReference)
    /// The interface up, with this MTU.
    case link(InterfaceReference, mtu: Int)
    case route(Route)
    case rule(PolicyRule)
    case setting(path: String, value: String)
    case firewall(FirewallTable)
    case resolver(ResolverPlan)
}

/// A change of the host's network with all that undoing it takes: what was there before.
///
/// Undoing is idempotent, and leaves alone what somebody else changed since.
package enum NetworkChange: Hashable, Sendable, Codable {
    case interface(name: String)
    case address(InterfaceAddress, InterfaceReference)
    case link(InterfaceReference)
    case route(Route, before: ForeignRoute?)
    case rule(PolicyRule)
    case setting(SettingChange)
    /// The text of the table is not needed for undoing it.
    case firewall(name: String)
    case resolver(ResolverRecord)
    /// The number of a routing table, and mark of packets, that the tunnel alone uses, before there is a route or rule with it.
    case number(UInt32)

    /// What undoes the change.
    package var inverse: NetworkOperation {
        switch self {
        case .interface, .link, .number: .none
        case .address(let prefix, let interface): .removeAddress(prefix, interface)
        case .route(let route, nil): .removeRoute(route)
        case .route(let route, let before?): .restoreRoute(before, inPlaceOf: route)
        case .rule(let rule): .removeRule(rule)
        case .setting(let change):
            .restoreSetting(path: change.path, value: change.before, ifStill: change.value)
        case .firewall(let name): .removeTable(name: name)
        case .resolver(let record): .clearResolver(record)
        }
    }

    /// What it is, for people.
    package var summary: String {
        switch self {
        case .interface(let name): NetworkStep.interface(name: name).summary
        case .address(let prefix, let interface): NetworkStep.address(prefix, interface).summary
        case .link(let interface): "interface \(interface.name) up"
        case .route(let route, let before): "\(route)" + (before == nil ? "" : ", in place of another")
        case .rule(let rule): "\(rule)"
        case .setting(let change): "\(change.path) from \(change.before) to \(change.value)"
        case .firewall(let name): "firewall table \(name)"
        case .resolver(let record): "name servers through \(record.manager.rawValue)"
        case .number(let number): "the number \(number)"
        }
    }
}

extension NetworkStep {
    /// What it is, for people.
    package var summary: String {
        switch self {
        case .interface(let name): "interface \(name)"
        case .address(let prefix, let interface): "address \(prefix) of \(interface.name)"
        case .link(let interface, _): "interface \(interface.name) up"
        case .route(let route): "\(route)"
        case .rule(let rule): "\(rule)"
        case .setting(let path, let value): "\(path) as \(value)"
        case .firewall(let table): "firewall table \(table.name)"
        case .resolver(let plan): "name servers through \(plan.manager.rawValue)"
        }
    }

    /// What makes the change.
    package func operation(for change: NetworkChange) -> NetworkOperation {
        switch (self, change) {
        case (.interface, _): .none
        case (.address(let prefix, let interface), _): .addAddress(prefix, interface)
        case (.link(let interface, let mtu), _): .bringUp(interface, mtu: mtu)
        case (.route(let route), _): .addRoute(route)
        case (.rule(let rule), _): .addRule(rule)
        case (.setting(let path, let value), _): .writeSetting(path: path, value: value)
        case (.firewall(let table), _): .loadTable(table)
        case (.resolver(let plan), .resolver(let record)): .setResolver(plan, record)
        case (.resolver, _): .none
        }
    }
}

/// The host's network: what it is, and how it is changed.
package protocol NetworkSystem: AnyObject {
    /// The change that each step is at this moment, in their order; nil where all is so already, and nothing is to be done or
    /// undone. What the kernel lists as a whole is listed once for all of them.
    func changes(for steps: [NetworkStep]) throws(LinuxNetworkError) -> [NetworkChange?]
    /// Does it.
    func perform(_ operation: NetworkOperation) throws(LinuxNetworkError)
    /// The steps among these that are not in force, in their order. What holds nobody up is not looked at: whether the interface
    /// and the name servers are there.
    func missing(of steps: [NetworkStep]) throws(LinuxNetworkError) -> [NetworkStep]
}
