// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Testing
    import TunnelIO
    import WireGuardCore

    @testable import CredentialTunnel

    @Suite("The login tunnel's server", .enabled(if: Privileged.isAvailable), .serialized, .timeLimit(.minutes(5)))
    struct CredentialServerTests {
        private let password = "correct horse battery"

        @Test(
            "A client logs in, reaches server and internet, is refused with another password, and is put out when its user is removed"
        )
        func endToEnd() throws {
            let scene = try CredentialServerScene()
            try scene.initialize()
            try scene.add("anna", password)
            let (before, forwarding) = (try scene.world.snapshot(), try forwarding(scene))
            try scene.start()
            let client = try scene.client()
            let assignment = try client.logIn("anna", password).get()
            print("login: \(assignment)")
            #expect(assignment.addresses.map(\.description) == ["10.66.0.2/32", "fd66::2/128"])
            #expect(assignment.dns.map(\.description) == ["9.9.9.9"] && assignment.mtu == 1420)
            try client.configure(assignment)
            for address in ["10.66.0.1", "fd66::1", "203.0.113.7", "2001:db8:7::7"] {
                #expect(try client.pings(address, count: 5), "\(address)")
            }
            #expect(try !client.pings("10.55.1.1", patience: 1), "a private network behind the server")
            // As bulk through the server's address translation.
            let listener = try scene.world.router.start("iperf3", "-s", "-1", "-B", "203.0.113.7", "--forceflush")
            try listener.waitForOutput(containing: "listening")
            let transfer = try client.namespace.run("iperf3", "-c", "203.0.113.7", "-t", "2", deadline: .seconds(60))
                .output
            print("iperf3: " + (transfer.split(separator: "\n").last { $0.contains("receiver") } ?? "nothing"))

            // A source that the client was not given does not get past the server.
            try client.namespace.run("ip", "address", "add", "10.66.0.9/32", "dev", "cli0")
            #expect(
                try client.namespace.runAllowingFailure(
                    "ping", "-n", "-q", "-c", "1", "-W", "1", "-I", "10.66.0.9", "203.0.113.7"
                ).status != 0)

            let stranger = try scene.client("cli1")
            #expect(try stranger.logIn("anna", "wrong horse battery") == .failure(.refused(Body.Refusal(.credentials))))
            #expect(try stranger.logIn("nobody", password) == .failure(.refused(Body.Refusal(.credentials))))
            print("refusal: \(stranger.events)")

            let clock = ContinuousClock()
            let removed = try clock.measure {
                try scene.command("user", "remove", "anna")
                try eventually("the session of a removed user is over") { client.events.contains(.ended(.removed)) }
            }
            print("user remove: the session was over \(removed) later")
            #expect(removed < .seconds(4))
            #expect(try client.logIn("anna", password) == .failure(.refused(Body.Refusal(.credentials))))

            let log = scene.log
            for secret in [password, "wrong horse", scene.presharedKey] { #expect(!log.contains(secret)) }
            scene.process?.signal(SIGTERM)
            let end = try #require(try scene.process?.wait())
            #expect(end.status == 0, "\(end)")
            print("server:\n\(end.output)")
            try scene.world.expectUnchanged(since: before)
            #expect(try self.forwarding(scene) == forwarding)
        }

        private func forwarding(_ scene: CredentialServerScene) throws -> String {
            try scene.world.host.run(
                "sh", "-c", "cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/*/forwarding"
            ).output
        }

        @Test("A server that was killed leaves nothing behind once it runs again, and its client comes back by itself")
        func killed() throws {
            let scene = try CredentialServerScene()
            try scene.initialize()
            try scene.add("anna", password)
            let before = try scene.world.snapshot()
            try scene.start()
            let client = try scene.client()
            try client.configure(client.logIn("anna", password).get())
            #expect(try client.pings("203.0.113.7"))
            scene.process?.kill()
            #expect(try !client.pings("203.0.113.7", patience: 1))
            // One like it, while what the other one left is there.
            try scene.start()
            let began = ContinuousClock.now
            try eventually("packets pass again", within: .seconds(60)) { try client.pings("203.0.113.7", patience: 1) }
            print("restart: packets passed \(ContinuousClock.now - began) after the new server served")
            scene.process?.signal(SIGTERM)
            #expect(try scene.process?.wait().status == 0)
            try scene.world.expectUnchanged(since: before)
        }

        @Test("A client that moves to another address goes on with its session")
        func roams() throws {
            let scene = try CredentialServerScene()
            try scene.initialize()
            try scene.add("anna", password, "--address", "10.66.0.77")
            try scene.start()
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

        @Test(
            "A second server of the same interface is told that one runs; settings that cannot be, and a journal's folder that is another's, are named"
        )
        func refusesToStart() throws {
            let scene = try CredentialServerScene()
            try scene.initialize()
            try scene.start()
            let second = try scene.command("run", "--journal", scene.world.folder)
            #expect(second.status == 5, "\(second)")
            scene.process?.signal(SIGTERM)
            _ = try scene.process?.wait()
            // What somebody else has put there would be undone.
            let taken = "\(scene.folder.path)/journal"
            try run(["mkdir", "-m", "700", taken])
            try run(["chown", "65534", taken])
            let refused = try scene.command("run", "--journal", taken)
            #expect(refused.status == 4 && refused.output.contains("belongs to user 65534"), "\(refused)")
            #expect(try run(["stat", "-c", "%u", taken]).output.hasPrefix("65534"))
            try FileManager.default.removeItem(atPath: scene.directory)
            try scene.initialize(["mtu": 100, "adresses": []])
            let wrong = try scene.command("run", "--journal", scene.world.folder)
            #expect(wrong.status == 2 && wrong.output.contains("adresses"), "\(wrong)")
        }

        @Test(
            "The server runs as its folder's owner, with the capabilities that it needs and no others",
            .enabled(if: Privileged.isSandbox, "needs scripts/sandbox"))
        func runsAsOwner() throws {
            let scene = try CredentialServerScene()
            // As udev makes it: open for everybody.
            let node = "/run/culvert-tun-\(UUID().uuidString)"
            try run(["mknod", "-m", "666", node, "c", "10", "200"])
            try run(["mount", "--bind", node, "/dev/net/tun"])
            defer { _ = try? run(["umount", "/dev/net/tun"]) }
            try run(["chmod", "755", scene.folder.path])
            let made = try scene.command("init", "--owner", "nobody", "--address6", "none", "--json")
            #expect(made.status == 0, "\(made)")
            try scene.add("anna", password)
            #expect(FileManager.default.fileExists(atPath: "\(scene.directory)/users.json"))
            try scene.start()
            let process = try #require(scene.process)
            #expect(DaemonRemains.status("Uid", of: process.processID)?.split(separator: "\t").first == "65534")
            // CAP_NET_ADMIN and CAP_NET_BIND_SERVICE.
            for kind in ["CapEff", "CapPrm", "CapAmb"] {
                #expect(DaemonRemains.status(kind, of: process.processID) == "0000000000001400", "\(kind)")
            }
            // It repairs its rules as that user.
            try scene.world.host.run("nft", "flush", "ruleset")
            try process.waitForOutput(containing: "made again: firewall table culvert_cred0")
            process.signal(SIGTERM)
            let end = try process.wait()
            #expect(end.status == 0, "\(end)")
        }

        @Test("A wrong password and an unknown login take the same time at the cost of earnest")
        func sameTime() throws {
            let scene = try CredentialServerScene()
            try scene.initialize([:])
            try scene.add("anna", password)
            try scene.start()
            let client = try scene.client()
            let clock = ContinuousClock()
            var times: [String: [Duration]] = [:]
            // As many as nobody waits for: five failures in all from one source.
            for login in ["anna", "nobody", "anna", "nobody"] {
                var result: Result<Body.Assignment, CredentialError>?
                let time = try clock.measure { result = try client.logIn(login, "wrong horse battery") }
                #expect(result == .failure(.refused(Body.Refusal(.credentials))))
                times[login, default: []].append(time)
            }
            let right = try clock.measure { _ = try client.logIn("anna", password).get() }
            let (known, unknown) = (try #require(times["anna"]?.min()), try #require(times["nobody"]?.min()))
            print("login at real cost: wrong password \(known), unknown login \(unknown), good login \(right)")
            // One hash each: without one the answer is there a hundred times sooner. How close they are, the machine's load decides.
            #expect(unknown > known * 0.2 && unknown < known / 0.2)
        }
    }
#endif
