// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Testing

    @testable import CredentialTunnel

    @Suite(
        "The login tunnel's server after a restart", .enabled(if: Privileged.isAvailable), .serialized,
        .timeLimit(.minutes(3)))
    struct CredentialServerRestartTests {
        private let password = "correct horse battery"

        /// The connections that the server's host tracks of an address.
        private func connections(_ scene: CredentialServerScene, of address: String) throws -> [Substring] {
            try ["ipv4", "ipv6"].flatMap { family in
                try scene.world.host.run("conntrack", "-L", "-f", family).output.split(separator: "\n")
                    .filter { $0.split(separator: " ").contains { $0.hasSuffix("=\(address)") } }
            }
        }

        /// In earlier versions the next user got the same address, and with it the segments that the other end still sent.
        @Test(
            "After a restart a user gets neither another user's address nor the rest of its TCP stream",
            arguments: [SIGKILL, SIGTERM])
        func stream(_ signal: Int32) throws {
            let scene = try CredentialServerScene()
            try scene.initialize()
            for login in ["anna", "ben"] { try scene.add(login, password) }
            try scene.start()
            let anna = try scene.client("cli0")
            let first = try anna.logIn("anna", password).get()
            try anna.configure(first)
            // A stream from the internet that never ends.
            let source = try scene.world.router.start(
                "sh", "-c", "while echo segment; do sleep 0.05; done | ncat -v -l 203.0.113.7 5001")
            try source.waitForOutput(containing: "Listening on 203.0.113.7:5001")
            let sink = try anna.namespace.start("ncat", "203.0.113.7", "5001")
            try sink.waitForOutput(containing: "segment")
            let address = try #require(first.addresses.first).address.description
            #expect(try !connections(scene, of: address).isEmpty)

            // The server ends, and then Anna's machine, which does not tell the other end.
            scene.process?.signal(signal)
            _ = try scene.process?.wait()
            anna.close()
            sink.kill()
            try scene.start()
            #expect(try connections(scene, of: address).isEmpty)

            let ben = try scene.client("cli1")
            try ben.namespace.run("nft", "add table inet watch")
            try ben.namespace.run("nft", "add chain inet watch input { type filter hook input priority 0; }")
            try ben.namespace.run("nft", "add rule inet watch input iifname cli1 tcp sport 5001 counter")
            let second = try ben.logIn("ben", password).get()
            try ben.configure(second)
            // The server's host resets the stream.
            try eventually("the other end of the stream has heard of its end", within: .seconds(60)) {
                try !scene.world.router.run("ss", "-Htn", "state", "established", "sport", "=", ":5001").output
                    .contains("203.0.113.7")
            }
            let counted = try ben.namespace.run("nft", "list", "chain", "inet", "watch", "input").output
            print("restart: anna had \(first.addresses), ben has \(second.addresses); ben's counter: \(counted)")
            #expect(counted.contains("counter packets 0 "))
            #expect(Set(first.addresses).isDisjoint(with: second.addresses))
            // Anna's own address is hers again.
            let again = try scene.client("cli0")
            #expect(try again.logIn("anna", password).get().addresses == first.addresses)
            let file = "\(scene.directory)/addresses.json"
            #expect(try run(["stat", "-c", "%a", file]).output.hasPrefix("600"))
            source.kill()
        }

        @Test("The connections of a client end with its session, and other clients keep theirs")
        func release() throws {
            let scene = try CredentialServerScene()
            try scene.initialize()
            for login in ["anna", "ben"] { try scene.add(login, password) }
            try scene.start()
            let (anna, ben) = (try scene.client("cli0"), try scene.client("cli1"))
            var addresses: [[String]] = []
            for (client, login) in [(anna, "anna"), (ben, "ben")] {
                let assignment = try client.logIn(login, password).get()
                try client.configure(assignment)
                #expect(try client.pings("203.0.113.7") && client.pings("2001:db8:7::7"))
                addresses.append(assignment.addresses.map(\.address.description))
            }
            for address in addresses.flatMap(\.self) {
                #expect(try !connections(scene, of: address).isEmpty, "\(address)")
            }
            anna.close()
            for address in addresses[0] {
                try eventually("the connections of \(address) are gone") { try connections(scene, of: address).isEmpty }
            }
            for address in addresses[1] { #expect(try !connections(scene, of: address).isEmpty, "\(address)") }
        }
    }
#endif
