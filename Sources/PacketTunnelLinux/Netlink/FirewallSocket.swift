// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelSystem

/// Messages about nftables, by their names in linux/netfilter/nf_tables.h.
package enum FirewallMessage {
    static let newTable: UInt16 = 10 << 8
    static let getTable: UInt16 = 10 << 8 | 1
    static let deleteTable: UInt16 = 10 << 8 | 2
    package static let newChain: UInt16 = 10 << 8 | 3
    static let getChain: UInt16 = 10 << 8 | 4
    package static let deleteChain: UInt16 = 10 << 8 | 5
    package static let newRule: UInt16 = 10 << 8 | 6
    static let getRule: UInt16 = 10 << 8 | 7
    package static let deleteRule: UInt16 = 10 << 8 | 8
    package static let newElement: UInt16 = 10 << 8 | 12
    package static let deleteElement: UInt16 = 10 << 8 | 14
    static let newGeneration: UInt16 = 10 << 8 | 15
    static let getGeneration: UInt16 = 10 << 8 | 16
    /// `NFNL_MSG_BATCH_BEGIN` and `NFNL_MSG_BATCH_END`.
    static let begin: UInt16 = 16
    static let end: UInt16 = 17

    /// `struct nfgenmsg` of the family `inet`.
    package static let header: [UInt8] = [1, 0, 0, 0]
}

/// A netlink socket for requests about nftables tables in the calling thread's network namespace. It answers in
/// microseconds and needs no program, so a table can be found and deleted even if nft is missing or hangs. Only one
/// thread at a time may use it.
///
/// Sources: linux/netfilter/nfnetlink.h and nf_tables.h.
final class FirewallSocket {
    private let socket: NetlinkSocket

    /// - Returns: `nil` if the kernel has no nfnetlink, and so no tables either.
    init?() throws(LinuxNetworkError) {
        do throws(SystemError) {
            socket = try NetlinkSocket(protocolNumber: CTUNNEL_NETLINK_NETFILTER)
        } catch {
            guard error.errno == EPROTONOSUPPORT else { throw RouteSocket.failure(error.operation, error.errno) }
            return nil
        }
    }

    private typealias Message = FirewallMessage
    private static let header = Message.header
    /// `struct nfgenmsg` of a transaction of the subsystem, whose number is big-endian.
    private static let batchHeader: [UInt8] = [0, 0, 0, 10]
    /// `NFTA_TABLE_NAME`, `NFTA_CHAIN_TABLE` and `NFTA_RULE_TABLE`.
    private static let nameAttribute: UInt16 = 1
    /// `NFTA_TABLE_FLAGS`, `NFTA_CHAIN_NAME` and `NFTA_CHAIN_POLICY`.
    private static let tableFlags: UInt16 = 2
    private static let chainAttribute: UInt16 = 3
    private static let chainPolicy: UInt16 = 5
    /// `NFTA_TABLE_HANDLE`, `NFTA_CHAIN_HANDLE` and `NFTA_RULE_HANDLE`, whose values are big-endian.
    private static let tableHandle: UInt16 = 4
    private static let chainHandle: UInt16 = 2
    private static let ruleHandle: UInt16 = 3
    /// `NFTA_RULE_CHAIN` and `NFTA_RULE_EXPRESSIONS`.
    private static let ruleChain: UInt16 = 2
    private static let ruleExpressions: UInt16 = 4
    /// `NFTA_GEN_ID`, whose value is big-endian.
    private static let generationAttribute: UInt16 = 1
    /// The errors of a kernel without nf_tables for a change.
    private static let unsupported = [EOPNOTSUPP, EPROTONOSUPPORT, EAFNOSUPPORT]
    /// The errors of a kernel without nf_tables for a question.
    private static let unanswered = unsupported + [EINVAL]
    /// The errors of a table that the kernel would not load at another attempt either. A kernel without one of the table's
    /// expressions answers `ENOENT`.
    fileprivate static let refusals = unsupported + [EINVAL, ENOENT, EPERM, EACCES]

    /// The names of the tables of the family `inet`.
    func tables() throws(LinuxNetworkError) -> [String] {
        try listTables().compactMap { $0.text(Self.nameAttribute) }
    }

    private func listTables() throws(LinuxNetworkError) -> [NetlinkAttributes] {
        try list(Message.getTable, answer: Message.newTable, "list the firewall tables")
    }

    private func listChains() throws(LinuxNetworkError) -> [NetlinkAttributes] {
        try list(Message.getChain, answer: Message.newChain, "list the firewall chains")
    }

    /// The names of all chains in tables of the family `inet`, each with its table.
    func chains() throws(LinuxNetworkError) -> [(table: String, chain: String)] {
        try listChains().compactMap { attributes in
            guard let table = attributes.text(Self.nameAttribute), let chain = attributes.text(Self.chainAttribute)
            else {
                return nil
            }
            return (table, chain)
        }
    }

    /// The kernel's numbers of a table and of its rules, in their order. A new table and a new rule get a new number, and a
    /// rule cannot be changed. So if the handles are equal at two times, no rule was added, replaced or deleted in between.
    struct Handles: Hashable {
        var table: UInt64
        var rules: [UInt64] = []
    }

    /// Returns the handles of a table of the family `inet`; `nil` if the table does not exist.
    func handles(of table: String) throws(LinuxNetworkError) -> Handles? {
        guard let present = try listTables().first(where: { $0.text(Self.nameAttribute) == table }) else { return nil }
        return Handles(
            table: present.handle(Self.tableHandle),
            rules: try listedRules(of: table).map { $0.handle(Self.ruleHandle) })
    }

    /// Returns the marks of packets and connections that a table's rules compare or set.
    func marks(in table: String) throws(LinuxNetworkError) -> Set<UInt32> {
        try listedRules(of: table).reduce(into: []) { marks, rule in
            marks.formUnion(KernelExpression.marks(in: rule[Self.ruleExpressions] ?? []))
        }
    }

    /// Returns the name of the first expression of each rule in a chain; nothing if there is no such chain.
    func firstExpressions(inChain chain: String, of table: String) throws(LinuxNetworkError) -> [String] {
        try listedRules(of: table, in: chain).compactMap { rule in
            var first: String?
            NetlinkReader(bytes: rule[Self.ruleExpressions] ?? []).forEachAttribute(from: 0) { _, expression in
                first = first ?? NetlinkReader(bytes: expression).attributes(from: 0).text(1)
            }
            return first
        }
    }

    /// - Parameter chain: `nil` for the rules of all chains.
    private func listedRules(
        of table: String, in chain: String? = nil
    ) throws(LinuxNetworkError) -> [NetlinkAttributes] {
        try list(
            Message.getRule, answer: Message.newRule, Self.listRules,
            only: [(Self.nameAttribute, table)] + (chain.map { [(Self.ruleChain, $0)] } ?? []))
    }

    private static let listRules = "list the firewall rules"

    /// Whether a table of the family `inet` has the rules with these handles.
    ///
    /// Transactions of other processes cannot prevent an answer: a handle is not used again, so a rule in an interrupted list
    /// had not been deleted when the list began.
    /// - Parameter wanted: `nil` if any rule suffices.
    func hasRules(_ wanted: Set<UInt64>?, in table: String) throws(LinuxNetworkError) -> Bool {
        var missing = wanted
        for _ in 0..<Self.mostLists {
            let (found, isInterrupted) = try listOnce(
                Message.getRule, answer: Message.newRule, Self.listRules, only: [(Self.nameAttribute, table)])
            if wanted == nil, !found.isEmpty { return true }
            missing?.subtract(found.map { $0.handle(Self.ruleHandle) })
            if missing?.isEmpty == true { return true }
            if !isInterrupted { return false }
        }
        return false
    }

    /// Whether a chain of a table of the family `inet` has a rule.
    func hasRules(inChain chain: String, of table: String) throws(LinuxNetworkError) -> Bool {
        try !listedRules(of: table, in: chain).isEmpty
    }

    /// The kernel's number of a table, and its flags, such as `dormant`.
    struct Identity: Hashable {
        var handle: UInt64
        var flags: UInt32?
    }

    /// Returns the identity of a table of the family `inet`; `nil` if the table does not exist. Unlike a list, the answer
    /// does not depend on the number of tables, and a transaction of another process cannot interrupt it.
    func identity(of table: String) throws(LinuxNetworkError) -> Identity? {
        var request = NetlinkRequest(type: Message.getTable, body: Self.header)
        request.append(Self.nameAttribute, table)
        do throws(SystemError) {
            let reply = try socket.exchange(request, "find the firewall table \(table)")
                .first { $0.type == Message.newTable }
            let attributes = reply.map { NetlinkReader(bytes: $0.body).attributes(from: Self.header.count) }
            return attributes.map {
                Identity(handle: $0.handle(Self.tableHandle), flags: $0.number(Self.tableFlags))
            }
        } catch {
            guard error.errno != ENOENT, !Self.unanswered.contains(error.errno) else { return nil }
            throw RouteSocket.failure(error.operation, error.errno)
        }
    }

    /// The parts of a table that a process can change in place, without a new handle: the table's flags, such as `dormant`, and
    /// the policy of each chain.
    struct Frame: Hashable {
        struct Chain: Hashable {
            var handle: UInt64
            var policy: UInt32?
        }

        var flags: UInt32?
        var chains: Set<Chain> = []
    }

    /// Returns the frame of a table of the family `inet`; `nil` if the table does not exist.
    func frame(of table: String) throws(LinuxNetworkError) -> Frame? {
        guard let present = try listTables().first(where: { $0.text(Self.nameAttribute) == table }) else { return nil }
        let chains = try listChains().filter { $0.text(Self.nameAttribute) == table }
        return Frame(
            flags: present.number(Self.tableFlags),
            chains: Set(
                chains.map {
                    Frame.Chain(handle: $0.handle(Self.chainHandle), policy: $0.number(Self.chainPolicy))
                }))
    }

    /// Returns the number of the last transaction of any process in any table; `nil` if the kernel does not report it.
    /// Each transaction adds 1.
    func generation() throws(LinuxNetworkError) -> UInt32? {
        let request = NetlinkRequest(type: Message.getGeneration, body: Self.header)
        do throws(SystemError) {
            let reply = try socket.exchange(request, "read the firewall's generation")
                .first { $0.type == Message.newGeneration }
            let attributes = reply.map { NetlinkReader(bytes: $0.body).attributes(from: Self.header.count) }
            return attributes?.number(Self.generationAttribute).map { UInt32(bigEndian: $0) }
        } catch {
            guard !Self.unanswered.contains(error.errno) else { return nil }
            throw RouteSocket.failure(error.operation, error.errno)
        }
    }

    /// Loads a table of the family `inet`, in place of one of that name, in one transaction.
    /// - Parameter socket: `nil` if the kernel has no tables.
    static func load(
        _ table: String, _ chains: [FirewallChain], by socket: FirewallSocket?
    ) throws(LinuxNetworkError) {
        guard let socket else { throw RouteSocket.failure(loading(table), EPROTONOSUPPORT) }
        do throws(LinuxNetworkError) { try socket.load(table, chains) } catch {
            // Another process may have created or deleted the table since the socket found it.
            guard [EEXIST, ENOENT].contains(error.errno) else { throw error }
            try socket.load(table, chains)
        }
    }

    private static func loading(_ table: String) -> String { "load the firewall table \(table)" }

    /// Loads a table in one transaction. If it deletes a former table, it waits until no processor uses that.
    private func load(_ table: String, _ chains: [FirewallChain]) throws(LinuxNetworkError) {
        let new = Message.request(Message.newTable, Netlink.create | Netlink.exclusive, table: table)
        let delete = try tables().contains(table) ? [Message.request(Message.deleteTable, table: table)] : []
        try commit(delete + [new] + chains.flatMap { $0.requests(table: table) }, Self.loading(table))
    }

    /// Deletes a table of the family `inet` with its contents, if it exists.
    func delete(_ table: String) throws(LinuxNetworkError) {
        do throws(LinuxNetworkError) {
            try commit([Message.request(Message.deleteTable, table: table)], "delete the firewall table \(table)")
        } catch {
            guard error.errno != ENOENT, !Self.unsupported.contains(error.errno) else { return }
            throw error
        }
    }

    /// Applies changes in one transaction: all of them or none.
    func commit(_ changes: [NetlinkRequest], _ operation: String) throws(LinuxNetworkError) {
        do throws(SystemError) {
            try socket.exchange(
                changes, between: NetlinkRequest(type: Message.begin, body: Self.batchHeader),
                and: NetlinkRequest(type: Message.end, body: Self.batchHeader), operation)
        } catch {
            throw RouteSocket.failure(error.operation, error.errno)
        }
    }

    /// The number of attempts to read a list that changes while it is read.
    private static let mostLists = 16

    /// - Parameter names: The attributes that the listed objects must have, each with its text.
    private func list(
        _ type: UInt16, answer: UInt16, _ operation: String, only names: [(UInt16, String)] = []
    ) throws(LinuxNetworkError) -> [NetlinkAttributes] {
        for _ in 0..<Self.mostLists {
            let (found, isInterrupted) = try listOnce(type, answer: answer, operation, only: names)
            if !isInterrupted { return found }
        }
        throw RouteSocket.failure("\(operation): they change all the time", EAGAIN)
    }

    /// - Returns: The list, and whether a transaction of any process interrupted it. It may then be incomplete.
    private func listOnce(
        _ type: UInt16, answer: UInt16, _ operation: String, only names: [(UInt16, String)]
    ) throws(LinuxNetworkError) -> (found: [NetlinkAttributes], isInterrupted: Bool) {
        var request = NetlinkRequest(type: type, flags: Netlink.dump, body: Self.header)
        for (kind, text) in names { request.append(kind, text) }
        let replies: [NetlinkReply]
        do throws(SystemError) {
            replies = try socket.exchange(request, operation)
        } catch {
            guard !Self.unanswered.contains(error.errno) else { return ([], false) }
            throw RouteSocket.failure(error.operation, error.errno)
        }
        // Not all kernels apply the names.
        let found = replies.filter { $0.type == answer }
            .map { NetlinkReader(bytes: $0.body).attributes(from: Self.header.count) }
            .filter { attributes in names.allSatisfy { attributes.text($0.0) == $0.1 } }
        return (found, replies.contains(where: \.isInterrupted))
    }
}

extension NetlinkAttributes {
    /// The big-endian 64-bit attribute of this kind; 0 if it is missing.
    fileprivate func handle(_ kind: UInt16) -> UInt64 {
        self[kind].flatMap { NetlinkReader(bytes: $0).number(at: 0, as: UInt64.self) }.map { UInt64(bigEndian: $0) }
            ?? 0
    }
}

extension LinuxNetworkError {
    /// Whether the kernel cannot load a firewall table, or does not permit it, so that another attempt would fail too.
    /// Meant for an error of loading a table.
    var refusesTable: Bool {
        guard case .netlink = code else { return false }
        return FirewallSocket.refusals.contains(errno)
    }
}
