// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import NetworkAddresses
import PacketTunnelLinux
import Testing

@testable import TunnelServer

@Suite struct ClientNetworkTests {
    private let firewall: ServerFirewall
    private let base: FakeClientSystem.Table
    private let expectations = Expectations()
    private let interfaces = ClientNetwork.Interfaces(
        first: InterfaceReference(name: "srv0", index: 7),
        others: ["login0": InterfaceReference(name: "login0", index: 8)])

    init() throws {
        var settings = try ServerNetworkSettings(
            name: "srv0", mtu: 1400, addresses: [InterfaceAddress("10.66.0.1/16"), InterfaceAddress("fd66::1/64")])
        settings.furtherTunnels = ["login0"]
        firewall = ServerFirewall(settings, forwardedForClients: [])
        base = try FakeClientSystem.table(of: firewall)
    }

    private func made() throws -> (ClientNetwork, FakeClientSystem) {
        let system = FakeClientSystem(base)
        let network = ClientNetwork(
            firewall, system, interfaces, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        try network.listTable()
        return (network, system)
    }

    private func rules(_ networks: String..., direction: AccessRule.Direction = .out) throws -> [AccessRule] {
        try networks.map { network in
            AccessRule(
                .deny, direction: direction, networks: [try IPPrefix(network)], transport: .tcp, ports: [80...90])
        }
    }

    private func clients(_ access: [String: ClientAccess?]) throws -> [IPPrefix: ClientAccess?] {
        Dictionary(uniqueKeysWithValues: try access.map { (try IPPrefix($0.key), $0.value) })
    }

    /// The expected state of the kernel, of each set of clients.
    private final class Expectations {
        var known: [[IPPrefix: ClientAccess]: (FakeClientSystem.Table?, Set<Route>)] = [:]
    }

    /// The expected state of the kernel with these clients.
    private func expected(_ desired: [IPPrefix: ClientAccess]) throws -> (FakeClientSystem.Table?, Set<Route>) {
        if let known = expectations.known[desired] { return known }
        let system = FakeClientSystem(base)
        var clients = ServerClients()
        let change = clients.change(desired.mapValues { $0 }, firewall)
        try system.load(firewall.commands(for: change))
        let routes = desired.compactMap { prefix, access -> Route? in
            guard access.tunnel != nil || !firewall.isClient(prefix) else { return nil }
            return Route(to: prefix, interface: access.tunnel == nil ? 7 : 8)
        }
        expectations.known[desired] = (system.table, Set(routes))
        return (system.table, Set(routes))
    }

    private func expect(
        _ system: FakeClientSystem, _ desired: [IPPrefix: ClientAccess], _ comment: Comment,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let (table, routes) = try expected(desired)
        #expect(system.table == table, comment, sourceLocation: sourceLocation)
        #expect(system.routes == routes, comment, sourceLocation: sourceLocation)
    }

    /// Clients, chains, sets and routes that are added, changed and removed.
    private func steps() throws -> [[IPPrefix: ClientAccess?]] {
        let (one, two) = (try rules("198.51.100.0/24"), try rules("203.0.113.0/24"))
        return [
            try clients([
                "10.66.0.2": ClientAccess(rules: one), "10.66.0.3": ClientAccess(rules: one),
                "fd66::2": ClientAccess(rules: one), "192.168.7.0/24": ClientAccess(rules: one),
                "10.66.0.4": ClientAccess(tunnel: "login0"),
            ]),
            try clients([
                "10.66.0.2": ClientAccess(rules: two), "10.66.0.3": ClientAccess(),
                "10.66.0.4": ClientAccess(rules: two),
                "10.66.0.5": ClientAccess(rules: try rules("10.66.0.2", direction: .in)),
            ]),
            try clients([
                "10.66.0.3": nil, "192.168.7.0/24": nil, "192.168.8.0/24": ClientAccess(rules: two),
                "10.66.0.4": ClientAccess(rules: two), "fd66::2": nil,
            ]),
            try clients([
                "10.66.0.2": ClientAccess(rules: one), "10.66.0.4": nil, "10.66.0.5": nil, "192.168.8.0/24": nil,
            ]),
        ]
    }

    /// The most rounds until everything is applied after faults have ended.
    private static let mostRounds = 3

    /// Runs all steps, and compares the kernel after each.
    private func run(_ network: ClientNetwork, _ system: FakeClientSystem, _ comment: Comment) throws -> Bool {
        var desired: [IPPrefix: ClientAccess] = [:]
        var hasFailed = false
        for changes in try steps() {
            for (prefix, access) in changes { desired[prefix] = access }
            network.setDesired(changes)
            var rounds = 0
            while rounds < Self.mostRounds, rounds == 0 || !network.isCurrent || !network.refusals.isEmpty {
                rounds += 1
                do { try network.reconcile(retryingRefused: true) } catch {
                    hasFailed = true
                    #expect(!network.isCurrent, comment)
                    // A fault that lasts ends before the next round.
                    if let calls = system.fault?.calls, calls.upperBound > system.calls {
                        system.fault?.calls = calls.lowerBound...max(system.calls, calls.lowerBound)
                    }
                }
            }
            #expect(network.isCurrent && network.refusals.isEmpty, comment)
            try expect(system, desired, comment)
        }
        return hasFailed
    }

    @Test(
        "A network that fails at any call, before or after the call takes effect, once or for a while, is as desired in the end",
        arguments: [FakeClientSystem.failure, FakeClientSystem.timeout])
    func faults(_ error: LinuxNetworkError) throws {
        let (network, system) = try made()
        #expect(try !run(network, system, "without a fault"))
        let calls = system.calls
        try #require(calls > 10)
        var failures = 0
        for call in 1...calls {
            for takesEffect in [false, true] {
                for duration in [0, 1000] {
                    let (network, system) = try made()
                    let first = call + system.calls
                    system.fault = .init(calls: first...first + duration, takesEffect: takesEffect, error: error)
                    let comment: Comment = "call \(call), \(duration) more, takes effect: \(takesEffect)"
                    if try run(network, system, comment) { failures += 1 }
                    // Nor is a change of another client lost.
                    system.fault = nil
                    let other = ClientAccess(rules: try rules("192.0.2.0/24"))
                    network.setDesired(try clients(["10.66.0.9": other]))
                    try network.reconcile(retryingRefused: false)
                    try expect(
                        system,
                        [
                            try IPPrefix("10.66.0.2"): ClientAccess(rules: try rules("198.51.100.0/24")),
                            try IPPrefix("10.66.0.9"): other,
                        ], comment)
                }
            }
        }
        #expect(failures > calls)
    }

    @Test("A rule whose first change fails is in the firewall after the next round, though nothing else changed")
    func lostRule() throws {
        let (network, system) = try made()
        let address = try IPPrefix("10.66.0.2")
        network.setDesired([address: ClientAccess()])
        try network.reconcile(retryingRefused: false)
        let denied = ClientAccess(rules: try rules("203.0.113.0/24"))
        network.setDesired([address: denied])
        system.fault = .init(calls: 1...100, takesEffect: false, error: FakeClientSystem.failure)
        #expect(throws: LinuxNetworkError.self) { try network.reconcile(retryingRefused: false) }
        #expect(!network.isCurrent && !network.isFirewallKnown)
        // The same again is a change.
        network.setDesired([address: denied])
        #expect(!network.isCurrent)
        system.fault = nil
        try network.reconcile(retryingRefused: false)
        #expect(network.isCurrent)
        try expect(system, [address: denied], "after the fault")
    }

    @Test("A value that the kernel refuses excludes only its clients, whose traffic is denied, until it is accepted")
    func refusedRules() throws {
        let (network, system) = try made()
        var desired: [IPPrefix: ClientAccess] = [:]
        for number in 0..<60 as Range<UInt32> {
            let rules = number % 2 == 0 ? [] : try rules("198.51.\(number).0/24")
            desired[IPPrefix(host: .v4(0x0a42_0100 + number))] = ClientAccess(rules: rules)
        }
        network.setDesired(desired.mapValues { Optional($0) })
        try network.reconcile(retryingRefused: false)
        try expect(system, desired, "at the beginning")
        system.refusedText = "203.0.113.0"
        let refused = ClientAccess(rules: try rules("203.0.113.0/24"))
        let changes = try clients([
            "10.66.1.3": refused, "10.66.9.9": refused, "10.66.9.8": ClientAccess(),
        ])
        network.setDesired(changes)
        for (prefix, access) in changes { desired[prefix] = access }
        try network.reconcile(retryingRefused: false)
        #expect(Set(network.refusals.keys) == [try IPPrefix("10.66.1.3"), try IPPrefix("10.66.9.9")])
        #expect(network.isCurrent)
        let others = desired.filter { network.refusals[$0.key] == nil }
        try expect(system, others, "without the refused ones")
        network.invalidateFirewall()
        let calls = system.calls
        try network.reconcile(retryingRefused: false)
        #expect(system.calls - calls < 60)
        #expect(network.refusals.count == 2)
        try expect(system, others, "after everything was loaded again")
        system.refusedText = nil
        try network.reconcile(retryingRefused: true)
        #expect(network.refusals.isEmpty)
        try expect(system, desired, "after the kernel has accepted it")
    }

    @Test("An address that the kernel refuses excludes no other client with the same rules")
    func refusedAddress() throws {
        let (network, system) = try made()
        system.refusedText = "10.66.0.7"
        let access = ClientAccess(rules: try rules("198.51.100.0/24"))
        let desired = Dictionary(
            uniqueKeysWithValues: (2...9 as ClosedRange<UInt32>).map { (IPPrefix(host: .v4(0x0a42_0000 + $0)), access) }
        )
        network.setDesired(desired.mapValues { Optional($0) })
        try network.reconcile(retryingRefused: false)
        let refused = try IPPrefix("10.66.0.7")
        #expect(Array(network.refusals.keys) == [refused])
        try expect(system, desired.filter { $0.key != refused }, "without the refused one")
        network.setDesired([refused: nil])
        try network.reconcile(retryingRefused: false)
        #expect(network.refusals.isEmpty && network.isCurrent)
    }

    @Test("A route that the kernel refuses excludes only its network")
    func refusedRoute() throws {
        let (network, system) = try made()
        let (one, two) = (try IPPrefix("192.168.7.0/24"), try IPPrefix("192.168.8.0/24"))
        system.refusedRoute = Route(to: one, interface: 7)
        network.setDesired([one: ClientAccess(), two: ClientAccess()])
        try network.reconcile(retryingRefused: false)
        #expect(Array(network.refusals.keys) == [one] && network.isCurrent)
        #expect(system.routes == [Route(to: two, interface: 7)])
        system.refusedRoute = nil
        try network.reconcile(retryingRefused: true)
        #expect(network.refusals.isEmpty && system.routes.count == 2)
    }

    @Test("A failed check of networks is thrown even while the interfaces are down")
    func failedCheck() throws {
        let (network, system) = try made()
        network.setDesired([try IPPrefix("192.168.7.0/24"): ClientAccess()])
        system.fault = .init(
            calls: system.calls + 1...system.calls + 1, takesEffect: false, error: FakeClientSystem.failure)
        #expect(throws: FakeClientSystem.failure) {
            try network.reconcile(retryingRefused: false, hasLinks: false, bringUp: { false })
        }
        #expect(network.isFirewallKnown && !network.isCurrent)
    }

    @Test("A network that overlaps another client's is excluded, and admitted once the other one is removed")
    func overlaps() throws {
        let (network, system) = try made()
        let (one, two) = (try IPPrefix("192.168.7.0/24"), try IPPrefix("192.168.0.0/16"))
        let access = ClientAccess()
        network.setDesired([one: access])
        try network.reconcile(retryingRefused: false)
        network.setDesired([two: access, try IPPrefix("192.0.2.0/24"): access])
        try network.reconcile(retryingRefused: false)
        #expect(network.refusals.count == 2)
        // The first network stays admitted, even if everything is loaded again.
        network.invalidateFirewall()
        try network.reconcile(retryingRefused: true)
        try expect(system, [one: access], "while the first one is there")
        network.setDesired([one: nil])
        try network.reconcile(retryingRefused: true)
        #expect(Array(network.refusals.keys) == [try IPPrefix("192.0.2.0/24")])
        try expect(system, [two: access], "after the first one has gone")
    }

    @Test("Replacing the elements makes the chains that they name")
    func replaces() throws {
        let (network, system) = try made()
        let desired = [
            try IPPrefix("10.66.0.2"): ClientAccess(rules: try rules("198.51.100.0/24")),
            try IPPrefix("192.168.7.0/24"): ClientAccess(rules: try rules("10.66.0.2", direction: .in)),
        ]
        network.setDesired(desired.mapValues { Optional($0) })
        try network.reconcile(retryingRefused: false)
        system.tamper { table in
            for name in ["clients4", "clientsNets4", "towardsNets4", "behind4"] { table?.elements[name] = [:] }
            for name in table?.chains.keys.filter({ $0.hasPrefix("rules-") }) ?? [] { table?.chains[name] = nil }
        }
        try network.restoreElements()
        try expect(system, desired, "after chains were deleted")
        try network.restoreElements()
        try expect(system, desired, "after nothing was changed")
    }

    @Test("A change with new lists of rules does not list them; the next comparison does")
    func listsLater() throws {
        let (network, system) = try made()
        let one = ClientAccess(rules: try rules("198.51.100.0/24"))
        let two = ClientAccess(rules: try rules("203.0.113.0/24"))
        for access in [one, two] {
            network.setDesired(try clients(["10.66.0.2": access, "10.66.0.3": one]))
            try network.reconcile(retryingRefused: false)
            #expect(network.listed.chains.isEmpty)
        }
        #expect(system.chainLists == 0)
        try network.listNewChains(system.chainLines)
        #expect(network.listed.chains == system.chainLines && network.listed.chains.count == 2)
        network.setDesired(try clients(["10.66.0.2": one]))
        try network.reconcile(retryingRefused: false)
        #expect(network.listed.chains == system.chainLines && network.listed.chains.count == 1)
        #expect(system.chainLists == 0)
    }

    @Test("A new list of rules that another process changes before it is listed is noticed and repaired")
    func changedBeforeListed() throws {
        let (network, system) = try made()
        let desired = [try IPPrefix("10.66.0.2"): ClientAccess(rules: try rules("198.51.100.0/24"))]
        network.setDesired(desired.mapValues { Optional($0) })
        try network.reconcile(retryingRefused: false)
        system.tamper { table in
            for name in table?.chains.keys.filter({ $0.hasPrefix("rules-") }) ?? [] {
                let changed = table?.chains[name]?.map { _ in "return" }
                table?.chains[name] = changed
            }
        }
        let present = system.chainLines
        try network.listNewChains(present)
        #expect(network.listed.chains != present && network.listed.chains == system.chainLines)
        try expect(system, desired, "after a chain was changed before it was listed")
    }

    @Test("A change before or after another table's change is listed without a repair", arguments: [true, false])
    func othersChange(_ isBefore: Bool) throws {
        let (network, system) = try made()
        if isBefore { system.tamper { _ in } }
        let desired = [try IPPrefix("10.66.0.2"): ClientAccess(rules: try rules("198.51.100.0/24"))]
        network.setDesired(desired.mapValues { Optional($0) })
        try network.reconcile(retryingRefused: false)
        if !isBefore { system.tamper { _ in } }
        let present = system.chainLines
        try network.listNewChains(present)
        #expect(network.listed.chains == present && system.chainLists == (isBefore ? 0 : 1))
        try expect(system, desired, "after another table was changed")
    }

    @Test(
        "The table needs no comparison after this process's own changes, and needs one after those of other processes")
    func untouched() throws {
        let (network, system) = try made()
        func change(_ address: String) throws {
            network.setDesired(try clients([address: ClientAccess(rules: try rules("198.51.100.0/24"))]))
            try network.reconcile(retryingRefused: false)
        }
        try change("10.66.0.2")
        #expect(!network.isUntouched, "it was never compared")
        let generation = network.generation
        network.recordCompared(since: generation)
        #expect(network.isUntouched)
        try change("10.66.0.3")
        #expect(network.isUntouched)
        system.tamper { _ in }
        #expect(!network.isUntouched)
        network.recordCompared(since: generation)
        #expect(!network.isUntouched, "another process changed a table during the comparison")
        network.recordCompared(since: network.generation)
        #expect(network.isUntouched)
        system.tamper { _ in }
        try change("10.66.0.4")
        #expect(!network.isUntouched, "another process changed a table before the change")
        network.recordCompared(since: network.generation)
        network.invalidateFirewall()
        try network.reconcile(retryingRefused: false)
        #expect(!network.isUntouched, "the table was loaded again")
    }

    @Test("A known chain that differs is reported without a rewrite of the new ones")
    func knownChainFirst() throws {
        let (network, system) = try made()
        let one = ClientAccess(rules: try rules("198.51.100.0/24"))
        network.setDesired(try clients(["10.66.0.2": one]))
        try network.reconcile(retryingRefused: false)
        #expect(try network.hasChains(system.chainLines))
        network.setDesired(try clients(["10.66.0.3": ClientAccess(rules: try rules("203.0.113.0/24"))]))
        try network.reconcile(retryingRefused: false)
        system.tamper { table in for name in table?.chains.keys ?? [:].keys { table?.chains[name] = [] } }
        let calls = system.calls
        #expect(try !network.hasChains(system.chainLines) && system.calls == calls && system.chainLists == 0)
    }

    @Test(
        "A listing of new chains that times out is repeated, and one that nft refuses is a difference",
        arguments: [true, false])
    func failedListing(_ isTimeout: Bool) throws {
        let (network, system) = try made()
        let desired = [try IPPrefix("10.66.0.2"): ClientAccess(rules: try rules("198.51.100.0/24"))]
        network.setDesired(desired.mapValues { Optional($0) })
        try network.reconcile(retryingRefused: false)
        system.tamper { _ in }
        // The generation is read first, then the chains are loaded.
        let error = isTimeout ? FakeClientSystem.timeout : FakeClientSystem.failure
        system.fault = .init(calls: system.calls + 2...system.calls + 2, takesEffect: false, error: error)
        if isTimeout {
            #expect(throws: error) { try network.hasChains(system.chainLines) }
            #expect(try network.hasChains(system.chainLines) && system.chainLists == 1)
        } else {
            #expect(try !network.hasChains(system.chainLines))
        }
        try expect(system, desired, "after a failed listing")
    }

    @Test("A chain that another process created under the name of a new one gets only the client's rules")
    func foreignChain() throws {
        let (network, system) = try made()
        let access = ClientAccess(rules: try rules("198.51.100.0/24"))
        network.setDesired(try clients(["10.66.0.2": access]))
        try network.reconcile(retryingRefused: false)
        let name = try #require(system.chainLines.keys.first)
        let (second, other) = try made()
        other.tamper { table in table?.chains[name] = ["accept"] }
        second.setDesired(try clients(["10.66.0.2": access]))
        try second.reconcile(retryingRefused: false)
        #expect(other.chainLines == system.chainLines)
        #expect(try second.hasChains(other.chainLines))
    }

    @Test("A complete change removes all other clients")
    func complete() throws {
        let (network, system) = try made()
        let access = ClientAccess()
        network.setDesired(try clients(["10.66.0.2": access, "192.168.7.0/24": access]))
        try network.reconcile(retryingRefused: false)
        network.setDesired(try clients(["10.66.0.3": access]), isComplete: true)
        try network.reconcile(retryingRefused: false)
        try expect(system, [try IPPrefix("10.66.0.3"): access], "after a complete change")
    }
}
