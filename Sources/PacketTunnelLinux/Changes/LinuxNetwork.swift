// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import NetworkAddresses
import PacketTunnel
package import TunnelSystem

/// The network of this host, or of the calling thread's network namespace. Only that thread may use it.
package final class LinuxNetwork: NetworkSystem {
    /// Links, addresses, routes and rules.
    package let netlink: RouteSocket
    let resolver: ResolverControl
    /// The listing of each table by nft, read immediately after the table was loaded.
    private var listings: [String: Listing] = [:]
    /// The state in the kernel of each loaded table that consists of chains, which nft need not list.
    private var loadedChains: [String: LoadedChains] = [:]

    /// The state of each table immediately after it was loaded.
    private var loaded: [String: Loaded] = [:]
    /// The socket for the firewall. It stays open, so that a lost table is found even if no descriptor is free.
    private var openFirewall: FirewallSocket?
    /// The settings of forwarding that were changed. Their files stay open for the same reason.
    private var heldSettings: [String: HeldSetting] = [:]
    /// The settings that were not restored, since interfaces need them, until ``takeKeptForwarding()``.
    private var keptForwarding: [HostForwarding.Kept] = []
    /// Called every few milliseconds, on the same thread, while a program runs. It makes and restores changes that need
    /// no program.
    package var whileWaiting: (() -> Void)?

    private struct Loaded {
        /// `nil` while nft replaces the table, and for a table of an earlier process.
        var identity: FirewallSocket.Identity?
        /// The handles of its rules, which do not include rules that were added later; `nil` while nft replaces the table.
        var rules: Set<UInt64>?
    }

    private struct Listing {
        /// The loaded text.
        var body: String
        /// The part of nft's listing that stays constant while the table exists.
        var text: [UInt8]
    }

    private struct LoadedChains: Hashable {
        /// The loaded text.
        var body: String
        /// The handles of its rules, and its frame, immediately after the table was loaded.
        var handles: FirewallSocket.Handles
        var frame: FirewallSocket.Frame
    }

    package convenience init() throws(LinuxNetworkError) {
        try self.init(resolver: ResolverControl())
    }

    init(resolver: ResolverControl) throws(LinuxNetworkError) {
        netlink = try RouteSocket()
        self.resolver = resolver
    }

    package func previousStates(for changes: [Change]) throws(LinuxNetworkError) -> [PreviousState?] {
        var routes: [Bool: [ForeignRoute.Key: ForeignRoute]] = [:]
        var states: [PreviousState?] = []
        for change in changes {
            switch change {
            case .route(let route):
                let isIPv6 = route.destination.isIPv6
                if routes[isIPv6] == nil { routes[isIPv6] = try presentRoutes(isIPv6: isIPv6) }
                states.append(routes[isIPv6]?[ForeignRoute.Key(of: route)].map { .route($0) } ?? .nothing)
            case .rule(let rule):
                let isThere = try netlink.rules(isIPv6: rule.isIPv6).contains { $0.isWhole && $0.rule == rule }
                states.append(isThere ? nil : .nothing)
            case .setting(let path, let value):
                guard let before = try SmallFile.text(path) else {
                    throw LinuxNetworkError(.kernelSetting(path: path), errno: ENOENT)
                }
                if HostForwarding.paths.contains(path) {
                    // Another server may have made the change, and may have another journal.
                    if let mark = try forwardingMarks().first(where: { $0.mark.change == change })?.mark {
                        states.append(mark.previous)
                        continue
                    }
                    let newest = try newestInterface()
                    states.append(before == value ? nil : .forwarding(before: before, newestInterface: newest))
                } else if before == value {
                    states.append(nil)
                } else {
                    states.append(.setting(before))
                }
            case .resolver(let plan):
                let record = try askResolver { (resolver) throws(LinuxNetworkError) in try resolver.record(for: plan) }
                states.append(.resolver(record))
            case .interface, .address, .link, .firewall, .number: states.append(.nothing)
            }
        }
        return states
    }

    private func presentRoutes(isIPv6: Bool) throws(LinuxNetworkError) -> [ForeignRoute.Key: ForeignRoute] {
        var routes: [ForeignRoute.Key: ForeignRoute] = [:]
        for route in try netlink.routes(isIPv6: isIPv6) {
            if let key = route.key, routes[key] == nil { routes[key] = route }
        }
        return routes
    }

    package func make(_ change: Change, _ previous: PreviousState) throws(LinuxNetworkError) {
        switch change {
        // The owner of the descriptor creates the interface.
        case .interface, .number: break
        case .address(let address, let interface): try netlink.add(address, index: interface.index)
        case .link(let interface, let mtu): try netlink.bringUp(index: interface.index, mtu: mtu)
        case .route(let route): try netlink.replace(route)
        case .rule(let rule): try netlink.add(rule)
        case .setting(let path, let value):
            if HostForwarding.paths.contains(path), heldSettings[path] == nil {
                heldSettings[path] = try HeldSetting(path)
            }
            try overwrite(path, with: value)
        case .firewall(let table): try load(table)
        case .resolver(let plan):
            guard case .resolver(let record) = previous else { return }
            try askResolver { (resolver) throws(LinuxNetworkError) in try resolver.set(plan, record) }
        }
    }

    private func setting(_ path: String) throws(LinuxNetworkError) -> String? {
        if let held = heldSettings[path] { return try held.text() }
        return try SmallFile.text(path)
    }

    private func overwrite(_ path: String, with text: String) throws(LinuxNetworkError) {
        if let held = heldSettings[path] { return try held.overwrite(with: text) }
        try SmallFile.overwrite(path, with: Array(text.utf8))
    }

    /// Returns the socket for the firewall; `nil` if the kernel has no tables.
    func firewallSocket() throws(LinuxNetworkError) -> FirewallSocket? {
        if let openFirewall { return openFirewall }
        openFirewall = try FirewallSocket()
        return openFirewall
    }

    /// Calls the manager of name servers. Its programs may take long.
    func askResolver<Value: Sendable>(
        _ body: @escaping @Sendable (ResolverControl) throws(LinuxNetworkError) -> Value
    ) throws(LinuxNetworkError) -> Value {
        let resolver = resolver
        guard let whileWaiting else { return try body(resolver) }
        return try BackgroundWork(name: "culvert-wait") { () throws(LinuxNetworkError) in try body(resolver) }
            .wait(meanwhile: whileWaiting).get()
    }

    /// The number of attempts to load a table that another process deletes while nft runs.
    private static let mostLoads = 3

    /// Loads a table. Repeats this if the table is not complete when nft lists it.
    private func load(_ table: FirewallTable) throws(LinuxNetworkError) {
        for number in 1...Self.mostLoads {
            do throws(LinuxNetworkError) {
                return try loadOnce(table)
            } catch {
                guard error.errno == EBUSY, number < Self.mostLoads else { throw error }
            }
        }
    }

    private func loadOnce(_ table: FirewallTable) throws(LinuxNetworkError) {
        // The rules of the new table have other handles. While nft runs, a table with at least one rule counts as present.
        let former = loaded[table.name]
        if let former { loaded[table.name] = Loaded(rules: former.rules == [] ? [] : nil) }
        do throws(LinuxNetworkError) { try replace(table) } catch {
            loaded[table.name] = former
            throw error
        }
        (listings[table.name], loadedChains[table.name]) = (nil, nil)
        let lost = LinuxNetworkError(.netlink(operation: "keep the firewall table \(table.name)"), errno: EBUSY)
        if let socket = try firewallSocket() {
            guard let identity = try socket.identity(of: table.name), let handles = try socket.handles(of: table.name),
                identity.handle == handles.table
            else { throw lost }
            loaded[table.name] = Loaded(identity: identity, rules: Set(handles.rules))
            if let chains = table.chains {
                guard handles.rules.count == chains.reduce(0, { $0 + $1.rules.count }),
                    let present = try inKernel(table, handles)
                else { throw lost }
                loadedChains[table.name] = present
                return
            }
        }
        let text = try listing(table.name, table.form)
        // Another process has already flushed the table, completely or in part: a complete table has all its chains.
        guard table.isWhole(in: text) else { throw lost }
        // Another process may have deleted the table since nft listed it.
        if try lacksRules(table.name) { throw lost }
        listings[table.name] = Listing(body: table.body, text: Self.fixed(text, table.form))
    }

    /// Loads a table in place of one of that name.
    private func replace(_ table: FirewallTable) throws(LinuxNetworkError) {
        let socket = try firewallSocket()
        if let chains = table.chains { return try FirewallSocket.load(table.name, chains, by: socket) }
        let nft = try SystemProgram.required("nft")
        if try socket?.tables().contains(table.name) == false {
            let outcome = try nft.run(table.options, input: table.firstScript, meanwhile: whileWaiting)
            // If it fails because another process has just created the table, the next run replaces that table. Otherwise
            // the next run reports the error.
            if outcome.status == 0 { return }
        }
        try nft.check(table.options, input: table.script, meanwhile: whileWaiting)
    }

    /// Returns the state of a table of chains; `nil` if it does not exist.
    private func inKernel(
        _ table: FirewallTable, _ handles: FirewallSocket.Handles?
    ) throws(LinuxNetworkError) -> LoadedChains? {
        guard let handles, let frame = try firewallSocket()?.frame(of: table.name) else { return nil }
        return LoadedChains(body: table.body, handles: handles, frame: frame)
    }

    package func undo(_ change: Change, _ previous: PreviousState) throws(LinuxNetworkError) {
        switch (change, previous) {
        // The kernel deletes the interface when its descriptor is closed.
        case (.interface, _), (.link, _), (.number, _): break
        case (.address(let address, let interface), _):
            try ignoring([EADDRNOTAVAIL, ENODEV]) { () throws(LinuxNetworkError) in
                try netlink.remove(address, index: interface.index)
            }
        case (.route(let route), .route(let before)): try restore(before, inPlaceOf: route)
        case (.route(let route), _):
            try ignoring([ESRCH, ENOENT, ENODEV, EAFNOSUPPORT]) { () throws(LinuxNetworkError) in
                try netlink.remove(route)
            }
        case (.rule(let rule), _):
            try ignoring([ENOENT, ESRCH, EAFNOSUPPORT]) { () throws(LinuxNetworkError) in try netlink.remove(rule) }
        case (.setting(let path, let value), .setting(let before)):
            guard try setting(path) == value else { return }
            // A host that still forwards IPv6 would ignore router advertisements, and lose its address.
            let forwardsIPv6 = keptForwarding.contains { $0.path == HostForwarding.path(isIPv6: true) }
            guard !forwardsIPv6 || !HostForwarding.isRouterAdvertisement(path) else { return }
            try overwrite(path, with: before)
        case (.setting(let path, let value), .forwarding(let before, let newest)):
            guard try setting(path) == value else { return }
            let interfaces = try netlink.links().filter { $0.index > newest && HostForwarding.isNeeded(by: $0) }
            guard interfaces.isEmpty else {
                return keptForwarding.append(HostForwarding.Kept(path: path, interfaces: interfaces.map(\.name)))
            }
            try overwrite(path, with: before)
        case (.firewall(let table), _):
            // This does not use nft, which may have been removed or may hang.
            try firewallSocket()?.delete(table.name)
            (listings[table.name], loadedChains[table.name], loaded[table.name]) = (nil, nil, nil)
        case (.resolver, .resolver(let record)):
            try askResolver { (resolver) throws(LinuxNetworkError) in try resolver.clear(record) }
        case (.setting, _), (.resolver, _): break
        }
    }

    /// Returns, and forgets, the settings that were not restored because interfaces need them.
    package func takeKeptForwarding() -> [HostForwarding.Kept] {
        defer { keptForwarding = [] }
        return keptForwarding
    }

    package func missing(of changes: [Change]) throws(LinuxNetworkError) -> [Change] {
        var present = Present(netlink: netlink)
        var missing: [Change] = []
        for change in changes where try !isInEffect(change, &present) { missing.append(change) }
        return missing
    }

    /// Returns the present table of this name, or `nil` if it does not exist. Later checks compare with this listing.
    func presentTable(_ name: String) throws(LinuxNetworkError) -> FirewallTable? {
        let listing = try listing(name)
        // table inet NAME { ... }
        guard let start = listing.firstIndex(of: "\n"), let end = listing.lastIndex(of: "}"), start < end else {
            return nil
        }
        let table = FirewallTable(name: name, body: String(listing[listing.index(after: start)..<end]))
        (listings[name], loadedChains[name]) = (Listing(body: table.body, text: Array(listing.utf8)), nil)
        loaded[name] = (try? firewallSocket()?.handles(of: name)).map { Loaded(rules: Set($0.rules)) }
        return table
    }

    /// Whether a loaded table is missing, was replaced or switched off, or lacks a rule that it had when it was loaded. It
    /// takes microseconds and runs no program.
    /// - Throws: The error of the kernel if it refuses to list the rules.
    package func lacksRules(_ name: String) throws(LinuxNetworkError) -> Bool {
        guard let wanted = loaded[name] else { return false }
        guard let socket = try firewallSocket(), let identity = try socket.identity(of: name) else { return true }
        guard wanted.identity == nil || identity == wanted.identity else { return true }
        return try !socket.hasRules(wanted.rules, in: name)
    }

    /// Whether the table exists and blocks packets in each of the chains for outgoing packets.
    func holdsBack(_ name: String) throws(LinuxNetworkError) -> Bool {
        let text = try listing(name)
        guard !text.isEmpty else {
            // If nft cannot list tables, the answer is unknown.
            try SystemProgram.required("nft").check(["list", "tables"])
            return false
        }
        return ["hook output", "hook forward", "hook postrouting", "reject", "drop"].allSatisfy(text.contains)
    }

    private func isInEffect(_ change: Change, _ present: inout Present) throws(LinuxNetworkError) -> Bool {
        switch change {
        case .address(let address, let interface):
            try present.addresses.contains(RouteSocket.Assignment(interface: interface.index, address: address))
        case .link(let interface, let mtu): try present.upLinks[interface.index] == mtu
        case .route(let route): try present.routes(isIPv6: route.destination.isIPv6).contains(RouteState(route))
        case .rule(let rule): try present.rules(isIPv6: rule.isIPv6).contains(rule)
        // The settings of an interface disappear with it, and need no repair then.
        case .setting(let path, let value): try SmallFile.text(path) ?? value == value
        case .firewall(let table): try isLoaded(table)
        case .interface, .resolver, .number: true
        }
    }

    private func isLoaded(_ table: FirewallTable) throws(LinuxNetworkError) -> Bool {
        if let chains = loadedChains[table.name] {
            return try inKernel(table, firewallSocket()?.handles(of: table.name)) == chains
        }
        // A table that another process has put in its place may look the same. If the kernel does not answer, nft compares.
        guard (try? lacksRules(table.name)) != true else { return false }
        // The elements of maps change without loading the table again.
        guard let listed = listings[table.name], table.form == .json || listed.body == table.body else { return false }
        return Self.fixed(try listing(table.name, table.form), table.form) == listed.text
    }

    /// Returns the part of a listing that stays constant while the table exists.
    private static func fixed(_ text: String, _ form: FirewallTable.Form) -> [UInt8] {
        form == .json ? TableListing(text).fixed : Array(text.utf8)
    }

    /// Lists a table as it is now, without the elements of sets and maps.
    /// - Returns: The listing, and whether its fixed part equals that of the loaded table.
    package func present(_ table: String) throws(LinuxNetworkError) -> (listing: TableListing, isFixed: Bool) {
        let listing = TableListing(try listing(table, .json))
        return (listing, listings[table]?.text == listing.fixed && (try? lacksRules(table)) != true)
    }

    /// The number of the firewall's last transaction by any process; `nil` if it is not known. It takes microseconds
    /// and runs no program.
    package func firewallGeneration() throws(LinuxNetworkError) -> UInt32? { try firewallSocket()?.generation() }

    /// Applies changes of the firewall in one transaction, without a program.
    package func changeFirewall(_ changes: [NetlinkRequest]) throws(LinuxNetworkError) {
        let operation = "change the firewall"
        guard let socket = try firewallSocket() else {
            throw LinuxNetworkError(.netlink(operation: operation), errno: EPROTONOSUPPORT)
        }
        try socket.commit(changes, operation)
    }

    /// Returns nft's listing of a table without counters; empty if the table does not exist.
    private func listing(
        _ name: String, _ form: FirewallTable.Form = .statements
    ) throws(LinuxNetworkError) -> String {
        let options = ["--stateless"] + (form == .json ? ["--terse"] : [])
        let outcome = try SystemProgram.required("nft").run(
            options + ["list", "table", "inet", name], outputLimit: 1 << 24, meanwhile: whileWaiting)
        return outcome.status == 0 ? outcome.output : ""
    }

    private func restore(_ before: ForeignRoute, inPlaceOf ours: Route) throws(LinuxNetworkError) {
        let key = before.key
        let present = try netlink.routes(isIPv6: ours.destination.isIPv6).first { $0.key == key }
        // A third process has set its own route since.
        if let present, present.wayOut != ours.interface { return }
        let lost = [ENODEV, ENETUNREACH, EHOSTUNREACH, ENETDOWN, EINVAL]
        try ignoring(lost) { () throws(LinuxNetworkError) in try netlink.restore(before) }
    }

    private func ignoring(
        _ numbers: [Int32], _ body: () throws(LinuxNetworkError) -> Void
    ) throws(LinuxNetworkError) {
        do throws(LinuxNetworkError) {
            try body()
        } catch {
            guard numbers.contains(error.errno) else { throw error }
        }
    }
}
