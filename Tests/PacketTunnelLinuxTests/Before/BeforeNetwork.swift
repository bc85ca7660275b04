// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import NetworkAddresses
import PacketTunnel

@testable import PacketTunnelLinux

/// A network that is a few tables, with the rules of the real one, which can be cut off after any number of operations.
final class BeforeNetwork: BeforeSystem {
    typealias State = FakeNetwork.State
    typealias RouteKey = FakeNetwork.RouteKey
    typealias Entry = FakeNetwork.Entry

    var state: State
    /// The operations so far.
    private(set) var log: [NetworkOperation] = []
    /// How many operations there may be before it is dead; and whether the last one is still done.
    var life: (operations: Int, doesLast: Bool) = (.max, false)
    /// Steps that fail once they are reached.
    var failing: (NetworkOperation) -> Bool = { _ in false }
    /// What they fail with.
    var failure: Int32 = 1

    init(_ state: State = State()) {
        self.state = state
    }

    static let death = LinuxNetworkError(.netlink(operation: "live on"))

    /// How often the ledger asked what steps are, and so had lists made.
    private(set) var questions = 0

    func changes(for steps: [NetworkStep]) throws(LinuxNetworkError) -> [NetworkChange?] {
        questions += 1
        var changes: [NetworkChange?] = []
        for step in steps { changes.append(try change(for: step)) }
        return changes
    }

    func change(for step: NetworkStep) throws(LinuxNetworkError) -> NetworkChange? {
        guard life.operations > 0 else { throw Self.death }
        switch step {
        case .interface(let name): return .interface(name: name)
        case .address(let prefix, let interface): return .address(prefix, interface)
        case .link(let interface, _): return .link(interface)
        case .route(let route):
            guard case .foreign(let foreign) = state.routes[RouteKey(route)] else {
                return .route(route, before: nil)
            }
            return .route(route, before: foreign)
        case .rule(let rule): return state.rules.contains(rule) ? nil : .rule(rule)
        case .setting(let path, let value):
            let before = state.settings[path] ?? ""
            return before == value ? nil : .setting(SettingChange(path: path, value: value, before: before))
        case .firewall(let table): return .firewall(name: table.name)
        case .resolver(let plan):
            return .resolver(
                ResolverRecord(
                    manager: plan.manager, interface: plan.interface, label: plan.interface.name, before: nil))
        }
    }

    func perform(_ operation: NetworkOperation) throws(LinuxNetworkError) {
        guard life.operations > 0 else { throw Self.death }
        life.operations -= 1
        if life.operations == 0, !life.doesLast { throw Self.death }
        if failing(operation) { throw LinuxNetworkError(.netlink(operation: "do this"), errno: failure) }
        log.append(operation)
        carryOut(operation)
        if life.operations == 0 { throw Self.death }
    }

    func missing(of steps: [NetworkStep]) throws(LinuxNetworkError) -> [NetworkStep] {
        steps.filter { step in
            switch step {
            case .interface, .link, .resolver: false
            case .address(let prefix, let interface): state.addresses[interface.name]?.contains(prefix) != true
            case .route(let route): state.routes[RouteKey(route)] != .ours(route)
            case .rule(let rule): !state.rules.contains(rule)
            case .setting(let path, let value): state.settings[path] != value
            case .firewall(let table): state.tables[table.name] != table.body
            }
        }
    }

    private func carryOut(_ operation: NetworkOperation) {
        switch operation {
        case .none, .bringUp: break
        case .addAddress(let prefix, let interface): state.addresses[interface.name, default: []].insert(prefix)
        case .removeAddress(let prefix, let interface):
            state.addresses[interface.name]?.remove(prefix)
            if state.addresses[interface.name]?.isEmpty == true { state.addresses[interface.name] = nil }
        case .addRoute(let route): state.routes[RouteKey(route)] = .ours(route)
        case .removeRoute(let route):
            if state.routes[RouteKey(route)] == .ours(route) { state.routes[RouteKey(route)] = nil }
        case .restoreRoute(let before, let ours):
            if case .foreign = state.routes[RouteKey(ours)] { break }
            state.routes[RouteKey(ours)] = .foreign(before)
        case .addRule(let rule): state.rules.insert(rule)
        case .removeRule(let rule): state.rules.remove(rule)
        case .writeSetting(let path, let value): state.settings[path] = value
        case .restoreSetting(let path, let value, let ours):
            if state.settings[path] == ours { state.settings[path] = value }
        case .loadTable(let table): state.tables[table.name] = table.body
        case .removeTable(let name): state.tables[name] = nil
        case .setResolver(let plan, _): state.resolver[plan.interface.name] = plan.settings
        case .clearResolver(let record): state.resolver[record.interface.name] = nil
        }
    }
}
