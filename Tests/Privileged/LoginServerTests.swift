// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Testing

    @testable import CredentialTunnel

    @Suite(
        "A gateway with the login tunnel alone, as a program", .enabled(if: Privileged.isAvailable), .serialized,
        .timeLimit(.minutes(5)))
    struct LoginServerTests {
        private let password = "correct horse battery"

        private func started(loginTunnel: [String: Any] = LoginGatewayScene.cheapPasswords) throws -> LoginGatewayScene
        {
            let scene = try LoginGatewayScene()
            try scene.initialize(loginTunnel: loginTunnel)
            try scene.start()
            return scene
        }

        @Test("A gateway whose socket's folder belongs to another user names the commands that correct it")
        func foreignFolder() throws {
            let scene = try LoginGatewayScene()
            let folder = "\(scene.folder.path)/run"
            try scene.initialize(["socket": "\(folder)/admin.sock"])
            try PrivilegedTests.run(["install", "-d", "-m", "0700", "-o", "65534", folder])
            let run = try scene.command("run", "--journal", scene.world.folder)
            #expect(run.status == 4, "\(run)")
            #expect(run.output.contains("chown 0 \(folder) && chmod 0755 \(folder)"), "\(run)")
        }

        @Test("A gateway that was killed leaves nothing behind once it runs again, and its client comes back by itself")
        func killed() throws {
            let scene = try LoginGatewayScene()
            try scene.initialize()
            let before = try scene.world.snapshot()
            try scene.start()
            try scene.add("anna", password)
            let client = try scene.client()
            try client.configure(client.logIn("anna", password).get())
            #expect(try client.pings("203.0.113.7"))
            scene.process?.kill()
            #expect(try !client.pings("203.0.113.7", patience: 1))
            // The killed gateway has left its rules and its journal.
            try scene.start()
            let began = ContinuousClock.now
            try eventually("packets pass again", within: .seconds(60)) { try client.pings("203.0.113.7", patience: 1) }
            print("restart: packets passed \(ContinuousClock.now - began) after the new gateway served")
            try scene.stop()
            try scene.world.expectUnchanged(since: before)
        }

        @Test("A client that moves to another address keeps its session")
        func roams() throws {
            let scene = try started()
            try scene.add("anna", password, "--address", "10.66.0.77")
            let client = try scene.client()
            let assignment = try client.logIn("anna", password).get()
            #expect(assignment.addresses.first?.description == "10.66.0.77/32")
            try client.configure(assignment)
            #expect(try client.pings("203.0.113.7"))
            try scene.outside.run("ip", "address", "delete", "198.51.100.2/24", "dev", "eth0")
            try scene.outside.run("ip", "address", "add", "198.51.100.3/24", "dev", "eth0")
            try scene.outside.run("ip", "route", "add", "192.0.2.0/24", "via", "198.51.100.1")
            let began = ContinuousClock.now
            try eventually("packets pass from the new address") { try client.pings("203.0.113.7") }
            print("roam: packets passed \(ContinuousClock.now - began) after the address changed")
            #expect(client.events.count == 1, "no second login: \(client.events)")
        }

        @Test("A journal's folder of another user and an unknown setting keep a gateway from starting, and are named")
        func refusesToStart() throws {
            let scene = try LoginGatewayScene()
            try scene.initialize()
            // The gateway would undo changes in a journal of another user.
            let taken = "\(scene.folder.path)/journal"
            try run(["mkdir", "-m", "700", taken])
            try run(["chown", "65534", taken])
            let refused = try scene.command("run", "--journal", taken)
            #expect(refused.status == 4 && refused.output.contains("belongs to user 65534"), "\(refused)")
            #expect(try run(["stat", "-c", "%u", taken]).output.hasPrefix("65534"))
            try FileManager.default.removeItem(atPath: scene.directory)
            try FileManager.default.removeItem(atPath: "\(scene.folder.path)/backup.key")
            try scene.initialize(["adresses": []])
            let wrong = try scene.command("run", "--journal", scene.world.folder)
            #expect(wrong.status == 2 && wrong.output.contains("adresses"), "\(wrong)")
        }

        @Test("A wrong password and an unknown login take the same time at the cost of earnest")
        func sameTime() throws {
            let scene = try started(loginTunnel: [:])
            try scene.add("anna", password)
            let client = try scene.client()
            let clock = ContinuousClock()
            var times: [String: [Duration]] = [:]
            // Five failures of one source do not cause a delay.
            for login in ["anna", "nobody", "anna", "nobody"] {
                var result: Result<Body.Assignment, CredentialError>?
                let time = try clock.measure { result = try client.logIn(login, "wrong horse battery") }
                #expect(result == .failure(.refused(Body.Refusal(.credentials))))
                times[login, default: []].append(time)
            }
            let right = try clock.measure { _ = try client.logIn("anna", password).get() }
            let (known, unknown) = (try #require(times["anna"]?.min()), try #require(times["nobody"]?.min()))
            print("login at real cost: wrong password \(known), unknown login \(unknown), good login \(right)")
            // Both need one hash; without it the answer would arrive a hundred times sooner. The difference depends on
            // the machine's load.
            #expect(unknown > known * 0.2 && unknown < known / 0.2)
        }
    }
#endif
