// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import FoundationEssentials
import NetworkAddresses
import PasswordHashing
import TunnelSystem

/// A user of the server.
struct User: Hashable, Sendable, Codable {
    /// 1 to 128 bytes of UTF-8 without control characters.
    var login: String
    var password: PasswordHash
    /// The addresses that are this user's alone, at most one of each family.
    var addresses: [IPAddress]
    /// When it was added, in UTC.
    var added: String

    /// Why this cannot be a user; nil where it can.
    static func problem(login: String) -> String? {
        guard (1...128).contains(login.utf8.count) else { return "a login has 1 to 128 bytes" }
        return login.unicodeScalars.contains(where: \.isControl) ? "a login has no control characters" : nil
    }
}

/// All users: one file of JSON that its owner alone may read.
struct UserFile: Sendable, Codable {
    var version = 1
    var users: [User] = []

    static let name = "users.json"

    subscript(login: String) -> User? { users.first { $0.login == login } }

    /// Reads the file; no file is no users.
    static func read(_ directory: PrivateDirectory<CommandFailure>) throws(CommandFailure) -> UserFile {
        guard let bytes = try directory.read(name) else { return UserFile() }
        let file: UserFile
        do {
            file = try JSONDecoder().decode(UserFile.self, from: Data(bytes))
        } catch {
            throw CommandFailure(
                "\(name) cannot be read: it is not the JSON that it should be", fix: "restore it from a copy")
        }
        guard file.version == 1 else {
            throw CommandFailure(
                "\(name) is of version \(file.version), which this program does not know", fix: "update it")
        }
        if let user = file.users.first(where: { !$0.password.isValid }) {
            throw CommandFailure("\(name): the password of '\(user.login)' is damaged", fix: "remove and add the user")
        }
        return file
    }

    func write(_ directory: PrivateDirectory<CommandFailure>) throws(CommandFailure) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(self) else { throw CommandFailure("\(Self.name) cannot be written") }
        try directory.write(Array(data) + [UInt8(ascii: "\n")], to: Self.name)
    }
}

extension IPAddress {
    /// For lists that people read and write.
    static func list(_ addresses: [IPAddress]) -> String { addresses.map(\.description).joined(separator: ", ") }
}
