// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
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

/// All users.
struct UserFile: ServerFile, Sendable {
    var version = 1
    var users: [User] = []

    static let name = "users.json"

    subscript(login: String) -> User? { users.first { $0.login == login } }

    /// Reads the file; no file is no users.
    static func read(_ directory: PrivateDirectory<CommandFailure>) throws(CommandFailure) -> UserFile {
        let file = try UserFile(from: directory)
        if let user = file.users.first(where: { !$0.password.isValid }) {
            throw CommandFailure("\(name): the password of '\(user.login)' is damaged", fix: "remove and add the user")
        }
        return file
    }
}

extension IPAddress {
    /// For lists that people read and write.
    static func list(_ addresses: [IPAddress]) -> String { addresses.map(\.description).joined(separator: ", ") }
}
