// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import NetworkAddresses
import PacketTunnel
import PasswordHashing
import TunnelSystem
import WireGuardCore

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// What the commands other than `run` do. Each gives the exit status.
struct ServerTool {
    var console: Console
    var directory: String
    /// Becomes who a folder belongs to; tests are nobody else.
    var become: (String) throws(CommandFailure) -> Void = { path throws(CommandFailure) in
        try FolderOwner.become(path, keeping: 0)
    }

    private func carryOut(_ body: () throws(CommandFailure) -> Void) -> Int32 {
        do throws(CommandFailure) {
            try body()
            return ExitStatus.success
        } catch {
            return error.tell(console)
        }
    }

    // MARK: - init

    func initialize(
        endpoint: String?, address4: String, address6: String?, dns: [String], owner: String?, json: Bool
    ) -> Int32 {
        carryOut { () throws(CommandFailure) in
            var configuration = ServerConfiguration()
            configuration.addresses = try [address4, address6 ?? Self.ownNetwork()].filter { $0 != "none" }
                .map { text throws(CommandFailure) in try Self.address(text) }
            for text in dns { configuration.nameServers.append(try Self.host(text)) }
            var host = endpoint
            if let endpoint, let (name, port) = try Self.split(endpoint) {
                (host, configuration.port) = (name, port)
            }
            if let problem = configuration.problem { throw CommandFailure(problem, status: ExitStatus.usage) }
            if let owner { try FolderOwner.make(directory, owner: owner) }
            try become(directory)
            let made = try ServerDirectory.make(directory, configuration)
            let keys = try made.keys()
            show(configuration, keys, host: host ?? "SERVER", json: json)
        }
    }

    private func show(_ configuration: ServerConfiguration, _ keys: ServerDirectory.Keys, host: String, json: Bool) {
        let place = (host.contains(":") ? "[\(host)]" : host) + ":\(configuration.port)"
        let (publicKey, presharedKey) = (keys.privateKey.publicKey.base64, keys.presharedKey.exportedBase64)
        if json {
            let document: JSON = [
                "directory": .string(directory), "endpoint": .string(place), "serverKey": .string(publicKey),
                "presharedKey": .string(presharedKey),
                "addresses": .array(configuration.addresses.map { .string($0.description) }),
            ]
            return console.line(document.text)
        }
        console.line("The server's folder is \(directory): settings, keys and users.")
        console.line()
        console.line("Each client needs, beside its login and password:")
        console.line("  server          \(place)")
        console.line("  server's key    \(publicKey)")
        console.line("  pre-shared key  \(presharedKey)")
        console.line()
        console.line("On Linux, with the pre-shared key in a file:")
        console.line(
            "  culvert profile add-login NAME --server \(place) --server-key \(publicKey) --login LOGIN --preshared-key-file FILE"
        )
        console.line()
        console.line("Whoever has the pre-shared key can try passwords: give it to your users alone.")
        if configuration.nameServers.isEmpty {
            console.line("Clients are given no name servers; --dns, or nameServers in server.json, does that.")
        }
        console.line("Next: culvert credential-server user add LOGIN, then culvert credential-server run")
    }

    /// A network of the server's own (RFC 4193 section 3.2): with 40 bits that no other network has, it collides with none.
    private static func ownNetwork() -> String {
        let bits = UInt64.random(in: 0..<1 << 40)
        return "\(IPAddress.v6(0xfd << 56 | bits << 16, 1))/64"
    }

    private static func address(_ text: String) throws(CommandFailure) -> InterfaceAddress {
        do throws(AddressTextError) { return try InterfaceAddress(text) } catch {
            throw CommandFailure("'\(text)' is no address with a prefix length: \(error)", status: ExitStatus.usage)
        }
    }

    private static func host(_ text: String) throws(CommandFailure) -> IPAddress {
        do throws(AddressTextError) { return try IPAddress(text) } catch {
            throw CommandFailure("'\(text)' is no address: \(error)", status: ExitStatus.usage)
        }
    }

    /// Host and port of `HOST:PORT` and `[ADDRESS]:PORT`; nil without a port.
    private static func split(_ text: String) throws(CommandFailure) -> (String, UInt16)? {
        guard let colon = text.lastIndex(of: ":"), (try? IPAddress(text)) == nil else { return nil }
        guard let port = UInt16(text[text.index(after: colon)...]), port > 0 else {
            throw CommandFailure("'\(text)' has no port from 1 to 65535 behind its colon", status: ExitStatus.usage)
        }
        let host = text[..<colon]
        return (host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : String(host), port)
    }

    // MARK: - Users

    func add(
        _ login: String, passwordFile: String?, addresses: [String], replaces: Bool, json: Bool
    ) -> Int32 {
        carryOut { () throws(CommandFailure) in
            if let problem = User.problem(login: login) { throw CommandFailure(problem, status: ExitStatus.usage) }
            var own: [IPAddress] = []
            for text in addresses { own.append(try Self.host(text)) }
            // Before this is another user: the file may be one that only root can read.
            var password = try SecretInput(
                "password of '\(login)'", file: passwordFile, option: "--password-file"
            ).read(isNew: true)
            defer { wipe(&password) }
            guard PasswordHash.isAcceptable(password) else {
                throw CommandFailure(
                    "a password has \(PasswordHash.fewestCharacters) characters at least, \(PasswordHash.mostBytes) bytes at most, and is UTF-8",
                    status: ExitStatus.usage, fix: "choose another one")
            }
            try become(directory)
            let server = try ServerDirectory(existing: directory)
            let configuration = try server.configuration()
            try Self.check(own, configuration)
            var random = SystemRandomNumberGenerator()
            guard let hash = PasswordHash(password, cost: configuration.passwordCost, using: &random) else {
                throw CommandFailure("the password cannot be hashed: there is too little memory")
            }
            let isNew = try server.changeUsers { file throws(CommandFailure) in
                let index = file.users.firstIndex { $0.login == login }
                guard index == nil || replaces else {
                    throw CommandFailure(
                        "there is a user '\(login)' already", status: ExitStatus.usage,
                        fix: "--replace gives it this password")
                }
                if let other = file.users.first(where: {
                    $0.login != login && $0.addresses.contains(where: own.contains)
                }) {
                    throw CommandFailure("an address is '\(other.login)''s already", status: ExitStatus.usage)
                }
                let user = User(
                    login: login, password: hash, addresses: own,
                    added: index.map { file.users[$0].added } ?? Date.now.formatted(.iso8601))
                if let index { file.users[index] = user } else { file.users.append(user) }
                return index == nil
            }
            if json {
                let document: JSON = [
                    "login": .string(login), "isNew": .bool(isNew),
                    "addresses": .array(own.map { .string($0.description) }),
                ]
                console.line(document.text)
            } else {
                console.line("'\(login)' \(isNew ? "was added" : "has a new password")")
            }
        }
    }

    private static func check(_ own: [IPAddress], _ configuration: ServerConfiguration) throws(CommandFailure) {
        guard own.count == Set(own.map(\.isIPv6)).count else {
            throw CommandFailure("a user has one address of each family at most", status: ExitStatus.usage)
        }
        for address in own {
            let server = configuration.addresses.first { $0.network.contains(address) }
            guard let server, server.address != address, server.network.address != address || address.isIPv6 else {
                throw CommandFailure(
                    "\(address) is no client's address in "
                        + configuration.addresses.map(\.network.description).joined(separator: " or "),
                    status: ExitStatus.usage)
            }
        }
    }

    func list(json: Bool) -> Int32 {
        carryOut { () throws(CommandFailure) in
            try become(directory)
            let users = try ServerDirectory(existing: directory).users().users
            guard !json else {
                let items = users.map { user -> JSON in
                    [
                        "login": .string(user.login),
                        "addresses": .array(user.addresses.map { .string($0.description) }),
                        "added": .string(user.added), "passwordCost": .string(user.password.cost.description),
                    ]
                }
                return console.line(JSON.object(of: [("users", .array(items))]).text)
            }
            guard !users.isEmpty else { return console.line("no users") }
            for user in users {
                console.line(user.login + (user.addresses.isEmpty ? "" : "  \(IPAddress.list(user.addresses))"))
            }
        }
    }

    func remove(_ login: String, json: Bool) -> Int32 {
        carryOut { () throws(CommandFailure) in
            try become(directory)
            let server = try ServerDirectory(existing: directory)
            try server.changeUsers { file throws(CommandFailure) in
                guard let index = file.users.firstIndex(where: { $0.login == login }) else {
                    throw CommandFailure("there is no user '\(login)'", status: ExitStatus.notFound)
                }
                file.users.remove(at: index)
            }
            if json {
                console.line(JSON.object(of: [("login", .string(login)), ("isRemoved", true)]).text)
            } else {
                console.line("'\(login)' was removed")
            }
        }
    }
}
