// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import NetworkAddresses
import PacketTunnelLinux

/// The operations of a host that a server's clients need. Each may fail, before or after it took effect.
protocol ClientSystem: AnyObject {
    /// Returns the host's own addresses.
    func ownAddresses() throws(LinuxNetworkError) -> [IPAddress]
    /// Loads the firewall's table without clients, in place of the present one.
    func loadTable() throws(LinuxNetworkError)
    /// Runs commands of nft in one transaction.
    func load(_ commands: [String]) throws(LinuxNetworkError)
    /// Has nft and the kernel validate commands, which changes nothing.
    func check(_ commands: [String]) throws(LinuxNetworkError)
    /// Returns the elements of the table's sets and maps.
    /// - Parameter lines: The number of lines to expect, in addition to those without clients.
    func contents(lines: Int) throws(LinuxNetworkError) -> TableContents
    /// Returns the number of the firewall's last transaction, of any process; `nil` if it is not known. Each transaction adds 1.
    func generation() throws(LinuxNetworkError) -> UInt32?
    /// Returns the lines that nft lists for each of these chains. nft reads all clients for that.
    /// - Throws: `EBUSY` if another process has changed one already.
    func lines(of chains: [RuleChain]) throws(LinuxNetworkError) -> [String: [UInt8]]

    /// The routes that this object has added, or tried to, and not removed.
    var possibleRoutes: Set<Route> { get }
    /// Removes routes, if they exist. All are tried.
    func remove(_ routes: [Route]) throws(LinuxNetworkError)
    /// Adds routes that were not added before.
    func add(_ routes: [Route]) throws(LinuxNetworkError)
    /// Restores routes, among some that were added, that another process has removed.
    func restore(_ routes: [Route]) throws(LinuxNetworkError)
}

extension LinuxNetworkError {
    /// Whether nft or the kernel has refused its input. Other errors do not depend on the input.
    var isRefusal: Bool {
        switch code {
        case .programFailed: true
        case .netlink: [EINVAL, EEXIST, ERANGE, EOPNOTSUPP].contains(errno)
        default: false
        }
    }

    /// Whether the process or the system has no descriptors left. The network may be unchanged.
    var isOutOfDescriptors: Bool { errno == EMFILE || errno == ENFILE }
}

/// The host, in the network namespace of the calling thread.
final class HostClientSystem: ClientSystem {
    private let network: LinuxNetwork
    private let ledger: ChangeLedger
    private let firewall: ServerFirewall
    private(set) var possibleRoutes: Set<Route> = []
    /// The routes whose addition failed. They may exist nevertheless.
    private var uncertainRoutes: Set<Route> = []

    init(_ network: LinuxNetwork, _ ledger: ChangeLedger, _ firewall: ServerFirewall) {
        (self.network, self.ledger, self.firewall) = (network, ledger, firewall)
    }

    func ownAddresses() throws(LinuxNetworkError) -> [IPAddress] {
        try network.netlink.addresses().map(\.address.address)
    }

    func loadTable() throws(LinuxNetworkError) { try ledger.restore([.firewall(firewall.table)]) }

    func load(_ commands: [String]) throws(LinuxNetworkError) {
        if let change = KernelCommands(commands, hostSets: firewall.hostSets) {
            do throws(LinuxNetworkError) { return try network.changeFirewall(change.requests) } catch {
                // nft reports the refused command. If the change took effect nevertheless, nft fails, and the caller loads
                // the table again.
            }
        }
        try nft(["-j", "-f", "-"], commands)
    }

    /// Runs nft. The kernel's notices about the firewall are read while it runs.
    private func nft(_ options: [String], _ commands: [String]) throws(LinuxNetworkError) {
        try SystemProgram.required("nft").check(
            options, input: NFT.script(commands), meanwhile: network.whileWaiting)
    }

    func check(_ commands: [String]) throws(LinuxNetworkError) {
        try nft(["--check", "-j", "-f", "-"], commands)
    }

    /// The most bytes that nft lists of a client, in all maps.
    private static let listedClient = 512
    /// The greatest number of lines of a table without clients.
    private static let tableLines = 4096

    func contents(lines: Int) throws(LinuxNetworkError) -> TableContents {
        TableContents(
            listing: try SystemProgram.required("nft").check(
                ["--stateless", "list", "table", "inet", firewall.tableName],
                outputLimit: (lines + Self.tableLines) * Self.listedClient, meanwhile: network.whileWaiting))
    }

    func generation() throws(LinuxNetworkError) -> UInt32? { try network.firewallGeneration() }

    func lines(of chains: [RuleChain]) throws(LinuxNetworkError) -> [String: [UInt8]] {
        let table = firewall.tableName
        let listing = try network.present(table).listing
        var found: [String: [UInt8]] = [:]
        for chain in chains {
            guard let lines = listing.owned[chain.name], listing.ruleCount(chain.name) == chain.rules.count else {
                throw LinuxNetworkError(
                    .netlink(operation: "keep chain \(chain.name) of table \(table)"), errno: EBUSY)
            }
            found[chain.name] = lines
        }
        return found
    }

    func remove(_ routes: [Route]) throws(LinuxNetworkError) {
        try ledger.remove(routes.map { .route($0) })
        // The ledger undoes only those changes of which it knows that they were made.
        for route in routes where uncertainRoutes.contains(route) { try network.undo(.route(route), .nothing) }
        uncertainRoutes.subtract(routes)
        possibleRoutes.subtract(routes)
    }

    func add(_ routes: [Route]) throws(LinuxNetworkError) {
        possibleRoutes.formUnion(routes)
        do throws(LinuxNetworkError) { try ledger.add(routes.map { .route($0) }) } catch {
            uncertainRoutes.formUnion(routes)
            throw error
        }
    }

    func restore(_ routes: [Route]) throws(LinuxNetworkError) {
        try ledger.restore(ledger.undone(of: routes.map { .route($0) }))
    }
}
