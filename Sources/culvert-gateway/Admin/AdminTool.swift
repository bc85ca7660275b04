// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import Gateway
import Provisioning
import TunnelSystem

/// The common parts of the administrators' commands: finding users and devices, and printing answers.
struct AdminTool {
    var client: AdminClient
    var console: Console
    var json: Bool

    init(_ options: ListOptions, _ console: Console) {
        (client, self.console, json) = (options.client, console, options.json)
    }

    init(_ options: SocketOptions, _ console: Console) {
        (client, self.console, json) = (options.client, console, false)
    }

    // MARK: - Users and devices

    /// The ID of the user with this login or ID.
    func user(_ name: String) throws(CommandFailure) -> String {
        let found = try client.send(UserRoutes.list, query: [(UserRoutes.login, name)])["items"]?.list ?? []
        if let id = found.first?["id"]?.string { return id }
        guard RandomID(name) != nil else {
            throw CommandFailure(
                "the user '\(name)' does not exist", status: ExitStatus.notFound, fix: "culvert gateway user list")
        }
        return name
    }

    func userID(_ name: String) throws(CommandFailure) -> UserID {
        guard let id = UserID(try user(name)) else { throw CommandFailure("the gateway's answer contains no user") }
        return id
    }

    /// The device with this ID, or the only device with this name.
    func device(_ name: String) throws(CommandFailure) -> JSON {
        if RandomID(name) != nil { return try client.send(PeerRoutes.show, name) }
        let found = try client.all(PeerRoutes.list).filter { $0["name"]?.string == name }
        guard let device = found.first else {
            throw CommandFailure(
                "the peer '\(name)' does not exist", status: ExitStatus.notFound, fix: "culvert gateway peer list")
        }
        guard found.count == 1 else {
            throw CommandFailure(
                "\(found.count) peers have the name '\(name)'", status: ExitStatus.usage,
                fix: "use an ID: " + found.compactMap { $0["id"]?.string }.joined(separator: ", "))
        }
        return device
    }

    func deviceID(_ name: String) throws(CommandFailure) -> String { try device(name)["id"]?.string ?? name }

    // MARK: - Answers

    /// Returns the items of all pages of a list, with the columns of its route.
    func list<Item>(
        _ route: Route<Void, Page<Item>>, as name: String, query: AdminClient.Query = []
    ) throws(CommandFailure) {
        show(try client.all(route, query: query), as: name, route.reply.columns)
    }

    /// Prints a list as a table or as JSON.
    func show(_ items: [JSON], as name: String, _ columns: [(title: String, member: String)]) {
        if json {
            let document: JSON = .object(of: [(name, .array(items.map(\.sorted)))])
            return console.line(document.text)
        }
        guard !items.isEmpty else { return console.line("none") }
        var table = TextTable(columns.map(\.title))
        for item in items { table.add(columns.map { item[$0.member]?.cell ?? "-" }) }
        for line in table.lines { console.line(line) }
    }

    /// Prints one object: a line for each member, or JSON.
    func show(_ item: JSON) {
        if json { return console.line(item.sorted.text) }
        guard case .object(let members) = item else { return }
        let width = members.map(\.name.count).max() ?? 0
        for member in members.sorted(by: { $0.name < $1.name }) {
            console.line("\(member.name.padded(to: width))  \(member.value.cell)")
        }
    }

    /// Prints a message, or the changed object as JSON.
    func done(_ text: String, _ item: JSON = .null) {
        if item["isSaved"]?.flag == false {
            console.problem(
                "this is in effect but not saved yet: the database refuses writes, and a restart of the gateway would undo it"
            )
        }
        if json { show(item == .null ? .object(["isDone": .bool(true)]) : item) } else { console.line(text) }
    }
}

extension FieldValues where Root: Declared {
    /// Sets a member if the command line contains a value for it.
    mutating func set(
        _ path: any PartialKeyPath<Root> & Sendable, option: JSON?
    ) throws(CommandFailure) {
        guard let option else { return }
        do throws(ContractError) { try set(path, to: option) } catch {
            throw CommandFailure("\(GatewayError(error))", status: ExitStatus.usage)
        }
    }
}

extension JSON? {
    /// The texts of an option that can be repeated; `nil` if there are none.
    static func option(_ texts: [String]) -> JSON? { texts.isEmpty ? nil : .array(texts.map { .string($0) }) }
    static func option(_ text: String?) -> JSON? { text.map { .string($0) } }
    /// The value of a pair of flags; `nil` if neither is set.
    static func option(on: Bool, off: Bool) -> JSON? { on || off ? .bool(on) : nil }
}

/// Durations from now.
enum Lifetime {
    /// Returns the seconds of a text such as `90m`, `12h` or `30d`.
    static func seconds(_ text: String) throws(CommandFailure) -> Int64 {
        let units: [Character: Int64] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
        guard let unit = text.last.flatMap({ units[$0] }), let number = Int64(text.dropLast()), number > 0,
            number <= 36_500 * 86_400 / unit
        else {
            throw CommandFailure("'\(text)' is not a time such as 90m, 12h or 30d", status: ExitStatus.usage)
        }
        return number * unit
    }
}
