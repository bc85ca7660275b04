// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CompatibilityFixtures
import Foundation
import NetworkAddresses
import PasswordHashing
import Testing

@testable import culvert_credential_server

/// A credential server's folder, as an earlier commit has written it.
@Suite("A credential server's folder of an earlier version") struct ServerFixtureTests {
    @Test("Settings, keys and users are read, a password is accepted, and users are added and removed")
    func folder() throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "culvert-server-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        let directory = try ServerDirectory(existing: Fixtures.copy("credential-server", to: path))
        let configuration = try directory.configuration()
        #expect(configuration.problem == nil)
        #expect(configuration.nameServers == [.v4(9, 9, 9, 9)])
        #expect(try ServerConfiguration(json: configuration.text()) == configuration)
        #expect(throws: Never.self) { _ = try directory.keys() }
        let users = try directory.users()
        #expect(users.users.map(\.login) == ["anna", "ben"])
        #expect(users["anna"]?.addresses == [.v4(10, 66, 0, 77)])
        let password = Array(try Fixtures.line("credential-server-admin/anna.password").utf8)
        #expect(users["anna"]?.password.matches(password) == true)
        #expect(users["anna"]?.password.matches(password + [1]) == false)
        let changed = try directory.changeUsers { file in
            file.users.removeAll { $0.login == "ben" }
            return file.users
        }
        #expect(try directory.users().users == changed && changed.map(\.login) == ["anna"])
    }
}
