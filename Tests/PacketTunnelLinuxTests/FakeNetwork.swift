// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel

@testable import PacketTunnelLinux

/// A network that is a few tables, with the rules of the real one, which can be cut off after any number of operations.
final class FakeNetwork: NetworkSystem {
    /// The whole state of the network.
    struct State: Equatable {
        var addresses: [String: Set<InterfaceAddress>] = [:]
        var routes: [RouteKey: Entry] = [:]
        var rules: Set<PolicyRule> = []
        var settings: [String: String] = [:]
        var tables: [String: String] = [:]
        var resolver: [String: DNSSettings] = [:]
    }

    struct RouteKey: Hashable {
        var destination: IPPrefix
        var table: UInt32
        var metric: UInt32
    }

    enum Entry: Equatable {
        case ours(Route)
        case foreign(ForeignRoute)
    }

    var state: State
    /// A change that was made or undone.
    enum Operation: Equatable {
        case make(Change)
        case undo(Change)
    }

    /// The operations so far.
    private(set) var log: [Operation] = []
    /// How many operations there may be before it is dead; and whether the last one is still done.
    var life: (operations: Int, doesLast: Bool) = (.max, false)
    /// Steps that fail once they are reached.
    var failing: (Operation) -> Bool = { _ in false }
    /// The error number of failing calls.
    var failure: Int32 = 1

    init(_ state: State = State()) {
        self.state = state
    }

    static let death = LinuxNetworkError(.netlink(operation: "live on"))

    /// The number of times that the ledger asked for previous states, so that lists were made.
    private(set) var questions = 0

    func previousStates(for changes: [Change]) throws(LinuxNetworkError) -> [PreviousState?] {
        questions += 1
        guard life.operations > 0 else { throw Self.death }
        return changes.map(previousState)
    }

    func previousState(_ change: Change) -> PreviousState? {
        switch change {
        case .route(let route):
            if case .foreign(let foreign) = state.routes[RouteKey(route)] { .route(foreign) } else { .nothing }
        case .rule(let rule): state.rules.contains(rule) ? nil : .nothing
        case .setting(let path, let value): state.settings[path] == value ? nil : .setting(state.settings[path] ?? "")
        case .resolver(let plan):
            .resolver(
                ResolverRecord(
                    manager: plan.manager, interface: plan.interface, label: plan.interface.name, before: nil))
        case .interface, .address, .link, .firewall, .number: .nothing
        }
    }

    func make(_ change: Change, _ previous: PreviousState) throws(LinuxNetworkError) {
        try perform(.make(change)) {
            switch change {
            case .interface, .link, .number: break
            case .address(let address, let interface): state.addresses[interface.name, default: []].insert(address)
            case .route(let route): state.routes[RouteKey(route)] = .ours(route)
            case .rule(let rule): state.rules.insert(rule)
            case .setting(let path, let value): state.settings[path] = value
            case .firewall(let table): state.tables[table.name] = table.body
            case .resolver(let plan): state.resolver[plan.interface.name] = plan.settings
            }
        }
    }

    func undo(_ change: Change, _ previous: PreviousState) throws(LinuxNetworkError) {
        try perform(.undo(change)) {
            switch change {
            case .interface, .link, .number: break
            case .address(let address, let interface):
                state.addresses[interface.name]?.remove(address)
                if state.addresses[interface.name]?.isEmpty == true { state.addresses[interface.name] = nil }
            case .route(let route):
                if case .route(let before) = previous {
                    state.routes[RouteKey(route)] = .foreign(before)
                } else if state.routes[RouteKey(route)] == .ours(route) {
                    state.routes[RouteKey(route)] = nil
                }
            case .rule(let rule): state.rules.remove(rule)
            case .setting(let path, let value):
                if state.settings[path] == value, case .setting(let before) = previous { state.settings[path] = before }
            case .firewall(let table): state.tables[table.name] = nil
            case .resolver(let plan): state.resolver[plan.interface.name] = nil
            }
        }
    }

    private func perform(_ operation: Operation, _ carryOut: () -> Void) throws(LinuxNetworkError) {
        guard life.operations > 0 else { throw Self.death }
        life.operations -= 1
        if life.operations == 0, !life.doesLast { throw Self.death }
        if failing(operation) { throw LinuxNetworkError(.netlink(operation: "do this"), errno: failure) }
        log.append(operation)
        carryOut()
        if life.operations == 0 { throw Self.death }
    }

    /// The changes that the kernel shows of killed servers, by server.
    var remains: [String: [(Change, PreviousState)]] = [:]
    /// The servers that run and need the setting of a sample, with or without a journal.
    var servers: Set<String> = []

    func remains(of name: String) -> [(Change, PreviousState)] { remains[name] ?? [] }

    func isNeeded(_ change: Change, byOthersThan name: String) -> Bool {
        guard case .setting = change else { return false }
        return !servers.subtracting([name]).isEmpty
    }

    func missing(of changes: [Change]) throws(LinuxNetworkError) -> [Change] {
        changes.filter { change in
            switch change {
            case .interface, .link, .resolver, .number: false
            case .address(let address, let interface): state.addresses[interface.name]?.contains(address) != true
            case .route(let route): state.routes[RouteKey(route)] != .ours(route)
            case .rule(let rule): !state.rules.contains(rule)
            case .setting(let path, let value): state.settings[path] != value
            case .firewall(let table): state.tables[table.name] != table.body
            }
        }
    }
}

extension FakeNetwork.RouteKey {
    init(_ route: Route) {
        self.init(destination: route.destination, table: route.table, metric: route.metric)
    }
}
