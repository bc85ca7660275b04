// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnelLinux

@testable import TunnelServer

/// A kernel that is one firewall table and some routes. It runs nft's commands as the kernel does: all of a script or nothing. Its
/// operations fail as a test demands.
final class FakeClientSystem: ClientSystem {
    struct Table: Equatable {
        /// The rules of each chain.
        var chains: [String: [String]] = [:]
        /// The elements of each set or map; each element of a map has its chain.
        var elements: [String: [String: String]] = [:]
    }

    struct Fault {
        /// The calls that fail, counted from 1.
        var calls: ClosedRange<Int>
        var takesEffect: Bool
        var error: LinuxNetworkError
    }

    /// The table without clients.
    private let base: Table
    private(set) var table: Table?
    private(set) var routes: Set<Route> = []
    private(set) var possibleRoutes: Set<Route> = []
    private(set) var calls = 0
    var fault: Fault?
    /// A text that the kernel refuses in a command.
    var refusedText: String?
    var refusedRoute: Route?

    static let failure = LinuxNetworkError(.programFailed(path: "nft", status: 1, output: ""))
    static let timeout = LinuxNetworkError(.programTimedOut(path: "nft", seconds: 10))

    /// - Parameter base: The table without clients, which is loaded.
    init(_ base: Table) { (self.base, table) = (base, base) }

    /// The table that a firewall's script makes, without clients.
    static func table(of firewall: ServerFirewall) throws -> Table {
        var table: Table? = Table()
        try run(firewall.table.script, &table)
        return table ?? Table()
    }

    /// Makes another process change the table; a body that does nothing stands for a change of another table.
    func tamper(_ body: (inout Table?) -> Void) {
        body(&table)
        transactions += 1
    }
    private var transactions: UInt32 = 0
    /// The number of times that chains were listed.
    private(set) var chainLists = 0

    /// The lines of each chain for a list of rules.
    var chainLines: [String: [UInt8]] {
        (table?.chains ?? [:]).filter { $0.key.hasPrefix("rules-") }.mapValues(Self.lines)
    }

    private static func lines(_ rules: [String]) -> [UInt8] { Array(rules.joined(separator: "\n").utf8) }

    private func perform(_ operation: () throws(LinuxNetworkError) -> Void) throws(LinuxNetworkError) {
        calls += 1
        guard let fault, fault.calls.contains(calls) else { return try operation() }
        if fault.takesEffect { try operation() }
        throw fault.error
    }

    private func answer<Result>(_ result: () throws(LinuxNetworkError) -> Result) throws(LinuxNetworkError) -> Result {
        try perform {}
        return try result()
    }

    // MARK: - ClientSystem

    func ownAddresses() throws(LinuxNetworkError) -> [IPAddress] { try answer { [.v4(192, 0, 2, 2)] } }

    func loadTable() throws(LinuxNetworkError) {
        try perform {
            table = base
            transactions += 1
        }
    }

    func load(_ commands: [String]) throws(LinuxNetworkError) {
        try perform { () throws(LinuxNetworkError) in
            table = try result(of: commands)
            transactions += 1
        }
    }

    func generation() throws(LinuxNetworkError) -> UInt32? { try answer { transactions } }

    func check(_ commands: [String]) throws(LinuxNetworkError) {
        try perform { () throws(LinuxNetworkError) in _ = try result(of: commands) }
    }

    private func result(of commands: [String]) throws(LinuxNetworkError) -> Table? {
        if let refusedText, commands.contains(where: { $0.contains(refusedText) }) { throw Self.failure }
        var new = table
        try Self.run(NFT.script(commands), &new)
        return new
    }

    func contents(lines _: Int) throws(LinuxNetworkError) -> TableContents {
        try answer { () throws(LinuxNetworkError) in
            guard let table else { throw Self.failure }
            var contents = TableContents()
            for (name, elements) in table.elements where !elements.isEmpty {
                for (text, chain) in elements {
                    if let pair = try? Self.pair(text) {
                        contents.pairs[name, default: []].insert(pair)
                        continue
                    }
                    guard let prefix = try? IPPrefix(text) else {
                        contents.others[name, default: []].insert(text)
                        continue
                    }
                    contents.elements[name, default: [:]][prefix] = chain
                }
            }
            return contents
        }
    }

    func lines(of chains: [RuleChain]) throws(LinuxNetworkError) -> [String: [UInt8]] {
        chainLists += 1
        return try answer { () throws(LinuxNetworkError) in
            var lines: [String: [UInt8]] = [:]
            for chain in chains {
                guard let rules = table?.chains[chain.name], rules.count == chain.rules.count else {
                    throw LinuxNetworkError(.netlink(operation: "keep chain \(chain.name)"), errno: EBUSY)
                }
                lines[chain.name] = Self.lines(rules)
            }
            return lines
        }
    }

    func remove(_ ended: [Route]) throws(LinuxNetworkError) {
        try perform { routes.subtract(ended) }
        possibleRoutes.subtract(ended)
    }

    func add(_ new: [Route]) throws(LinuxNetworkError) {
        possibleRoutes.formUnion(new)
        try perform { () throws(LinuxNetworkError) in
            if let refusedRoute, new.contains(refusedRoute) {
                throw LinuxNetworkError(.netlink(operation: "add the route"), errno: EINVAL)
            }
            routes.formUnion(new)
        }
    }

    func restore(_ some: [Route]) throws(LinuxNetworkError) { try perform { routes.formUnion(some) } }

    // MARK: - nft

    private static func run(_ script: String, _ table: inout Table?) throws(LinuxNetworkError) {
        guard let document = try? JSONSerialization.jsonObject(with: Data(script.utf8)) as? [String: Any],
            let commands = document["nftables"] as? [[String: Any]]
        else { throw failure }
        for command in commands {
            guard let (verb, object) = command.first, let (kind, value) = (object as? [String: Any])?.first,
                let members = value as? [String: Any]
            else { throw failure }
            if kind == "table" { continue }
            guard var new = table else { throw failure }
            try run(verb, kind, members, &new)
            table = new
        }
    }

    private static func run(
        _ verb: String, _ kind: String, _ members: [String: Any], _ table: inout Table
    ) throws(LinuxNetworkError) {
        let name = members[kind == "rule" ? "chain" : "name"] as? String ?? ""
        switch (verb, kind) {
        case ("add", "chain"): table.chains[name, default: []] += []
        case ("add", "rule"):
            guard table.chains[name] != nil,
                let text = try? JSONSerialization.data(withJSONObject: members["expr"] ?? [], options: .sortedKeys)
            else { throw failure }
            table.chains[name]?.append(String(decoding: text, as: UTF8.self))
        case ("flush", "chain"):
            guard table.chains[name] != nil else { throw failure }
            table.chains[name] = []
        case ("delete", "chain"):
            let isUsed = table.elements.values.contains { $0.values.contains(name) }
            guard table.chains.removeValue(forKey: name) != nil, !isUsed else { throw failure }
        case ("add", "set"), ("add", "map"):
            table.elements[name] = [:]
            for (key, _) in try elements(members) { table.elements[name]?[key] = "" }
        case ("flush", "set"), ("flush", "map"):
            guard table.elements[name] != nil else { throw failure }
            table.elements[name] = [:]
        case ("add", "element"):
            for (key, chain) in try elements(members) {
                guard let present = table.elements[name], present[key] ?? chain == chain,
                    chain.isEmpty || table.chains[chain] != nil
                else { throw failure }
                table.elements[name]?[key] = chain
            }
        case ("delete", "element"):
            for (key, chain) in try elements(members) {
                guard table.elements[name]?[key] == chain else { throw failure }
                table.elements[name]?[key] = nil
            }
        default: throw failure
        }
    }

    private static func elements(_ members: [String: Any]) throws(LinuxNetworkError) -> [(String, String)] {
        var found: [(String, String)] = []
        for element in members["elem"] as? [Any] ?? [] {
            let pair = element as? [Any]
            let goto = (pair?.last as? [String: Any])?["goto"] as? [String: Any]
            found.append((try key(pair?.first ?? element), goto?["target"] as? String ?? ""))
        }
        return found
    }

    private static func pair(_ text: String) throws -> PrefixPair? {
        let parts = text.components(separatedBy: " . ")
        return parts.count == 2 ? PrefixPair(try IPPrefix(parts[0]), try IPPrefix(parts[1])) : nil
    }

    private static func key(_ value: Any) throws(LinuxNetworkError) -> String {
        if let text = value as? String { return text }
        if let parts = (value as? [String: Any])?["concat"] as? [Any], parts.count == 2 {
            return try key(parts[0]) + " . " + key(parts[1])
        }
        guard let prefix = (value as? [String: Any])?["prefix"] as? [String: Any],
            let address = prefix["addr"] as? String,
            let length = prefix["len"] as? Int
        else { throw failure }
        return "\(address)/\(length)"
    }
}
