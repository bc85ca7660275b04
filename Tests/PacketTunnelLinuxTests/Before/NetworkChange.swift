// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import NetworkAddresses
import PacketTunnel

@testable import PacketTunnelLinux

/// What a tunnel wants of the host's network, one thing at a time.
enum NetworkStep: Hashable, Sendable {
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
enum NetworkChange: Hashable, Sendable {
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
    var inverse: NetworkOperation {
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
    var summary: String {
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
    var summary: String {
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
    func operation(for change: NetworkChange) -> NetworkOperation {
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
protocol BeforeSystem: AnyObject {
    /// The change that each step is at this moment, in their order; nil where all is so already, and nothing is to be done or
    /// undone. What the kernel lists as a whole is listed once for all of them.
    func changes(for steps: [NetworkStep]) throws(LinuxNetworkError) -> [NetworkChange?]
    /// Does it.
    func perform(_ operation: NetworkOperation) throws(LinuxNetworkError)
    /// The steps among these that are not in force, in their order. What holds nobody up is not looked at: whether the interface
    /// and the name servers are there.
    func missing(of steps: [NetworkStep]) throws(LinuxNetworkError) -> [NetworkStep]
}

/// What makes a kernel setting another: a file under /proc/sys.
struct SettingChange: Hashable, Sendable {
    var path: String
    var value: String
    /// What it was.
    var before: String

    init(path: String, value: String, before: String) {
        self.path = path
        self.value = value
        self.before = before
    }
}

/// What is done to the host's network in one step.
enum NetworkOperation: Hashable, Sendable {
    /// Gives the interface an address.
    case addAddress(InterfaceAddress, InterfaceReference)
    /// Takes it away. Nothing where it, or the interface, is gone.
    case removeAddress(InterfaceAddress, InterfaceReference)
    /// Brings the interface up with this MTU. It goes down with the interface.
    case bringUp(InterfaceReference, mtu: Int)
    /// Makes a route in place of one with the same destinations, table and metric.
    case addRoute(Route)
    /// Deletes the route. Nothing where it is gone.
    case removeRoute(Route)
    /// Makes the foreign route again that was there in place of ours. Nothing where ours is gone and another there, or
    /// what the foreign route led to is gone.
    case restoreRoute(ForeignRoute, inPlaceOf: Route)
    /// Makes a policy rule.
    case addRule(PolicyRule)
    /// Deletes it. Nothing where it is gone.
    case removeRule(PolicyRule)
    /// Writes a kernel setting.
    case writeSetting(path: String, value: String)
    /// Writes what it was before. Nothing where it is no longer what this program wrote.
    case restoreSetting(path: String, value: String, ifStill: String)
    /// Puts a table of nftables in place of the one of that name, or makes it.
    case loadTable(FirewallTable)
    /// Deletes the table. Nothing where it is gone.
    case removeTable(name: String)
    /// Tells the manager of name servers of the tunnel's.
    case setResolver(ResolverPlan, ResolverRecord)
    /// Makes it forget them.
    case clearResolver(ResolverRecord)
    /// Nothing: the interface is made by who holds its descriptor, and goes with it.
    case none
}
