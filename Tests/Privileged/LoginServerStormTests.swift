// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Testing
    import TunnelIO
    import WireGuardCore

    @testable import CredentialTunnel

    @Suite(
        "A gateway's login tunnel during a storm of logins", .enabled(if: Privileged.isAvailable), .serialized,
        .timeLimit(.minutes(3)))
    struct LoginServerStormTests {
        private let password = "correct horse battery"
        private let honest = ["anna", "ben", "cleo", "dora"]

        private func scene(_ more: String...) throws -> (LoginGatewayScene, LoginStorm) {
            let scene = try LoginGatewayScene()
            // Passwords have the default cost.
            try scene.initialize(loginTunnel: [:])
            // One machine has the networks of all clients.
            try scene.outside.run("ip", "address", "add", "172.20.0.1/14", "dev", "lo")
            try scene.world.router.run("ip", "route", "add", "172.20.0.0/14", "via", "198.51.100.2")
            try scene.start()
            for login in honest + more { try scene.add(login, password) }
            return (scene, try LoginStorm(scene))
        }

        private func addHonest(to storm: LoginStorm) throws {
            for (index, login) in honest.enumerated() {
                try storm.add(login, password, from: "172.21.\(index).7")
            }
        }

        private func report(_ storm: LoginStorm, _ title: String) -> Int {
            let times = honest.compactMap { storm.time(of: $0) }
            print(
                "login storm: \(title): \(times.count) of \(honest.count) honest users within "
                    + "\(times.max().map { "\($0)" } ?? "-")")
            return times.count
        }

        @Test("Honest users log in while 150 wrong logins arrive from one network")
        func oneNetwork() throws {
            let (scene, storm) = try scene()
            for number in 1...150 { try storm.add("user\(number)", "wrong horse battery", from: "172.20.0.\(number)") }
            try storm.run(for: .milliseconds(300))
            try addHonest(to: storm)
            try storm.run(for: .seconds(15)) { honest.allSatisfy { storm.hasEnded($0) } }
            #expect(report(storm, "150 wrong logins of one network") == honest.count)
            scene.process?.kill()
        }

        @Test("Honest users log in while one user floods the server with the right password")
        func oneUser() throws {
            let (scene, storm) = try scene("mallory")
            for _ in 0..<150 { try storm.add("mallory", password, from: "172.20.0.7") }
            try storm.run(for: .milliseconds(300))
            try addHonest(to: storm)
            try storm.run(for: .seconds(15)) { honest.allSatisfy { storm.hasEnded($0) } }
            #expect(report(storm, "150 right logins of one user") == honest.count)
            scene.process?.kill()
        }

        @Test("A user logs in while a neighbour with the same address waits after its failures")
        func neighbour() throws {
            let (scene, storm) = try scene()
            try storm.add("anna", password, from: "172.20.0.7")
            try storm.run(for: .seconds(15)) { storm.hasEnded("anna") }
            for _ in 0..<7 {
                try storm.add("ben", "wrong horse battery", from: "172.20.0.7")
                try storm.run(for: .seconds(15)) { storm.hasEnded("ben") }
            }
            try storm.add("anna", password, from: "172.20.0.7")
            try storm.run(for: .seconds(15)) { storm.hasEnded("anna") }
            #expect(storm.outcomes(of: "anna") == ["accepted", "accepted"])
            #expect(storm.outcomes(of: "ben").last?.contains("too many attempts") == true)
            scene.process?.kill()
        }
    }

    /// Clients of the login tunnel without interfaces. Each has its own socket and may have its own address.
    private final class LoginStorm {
        private final class Member {
            var client: CredentialClient
            let login: String
            let socket: TestSocket
            let began: Instant
            var outcome: (text: String, at: Instant)?

            init(_ client: consuming CredentialClient, _ login: String, _ socket: TestSocket, began: Instant) {
                self.client = client
                (self.login, self.socket, self.began) = (login, socket, began)
            }
        }

        private let namespace: Namespace
        private let server: SocketAddress
        private let keys: SharedKeys
        private var members: [Member] = []

        init(_ scene: LoginGatewayScene) throws {
            namespace = scene.outside
            server = try SocketAddress(LoginGatewayScene.address, LoginGatewayScene.port)
            keys = SharedKeys(
                server: try #require(PublicKey(base64: scene.serverKey)),
                presharedKey: try #require(PresharedKey(base64: scene.presharedKey)))
        }

        private var now: Instant { Instant(nanoseconds: LaneClock.now()) }

        /// Begins a login.
        func add(_ login: String, _ password: String, from address: String) throws {
            let client = CredentialClient(
                .init(keys: keys, login: Body.ClientAuthRequest(login: login, password: password)),
                random: SystemRandomNumberGenerator())
            let member = Member(
                client, login, try TestSocket.datagrams(in: namespace, at: address), began: now)
            members.append(member)
            perform(member.client.start(at: now), member)
        }

        /// Serves all clients until a condition holds or the time has passed.
        func run(for duration: Duration, until isDone: () -> Bool = { false }) throws {
            let end = ContinuousClock.now + duration
            while ContinuousClock.now < end, !isDone() {
                for member in members where member.outcome == nil {
                    while var (bytes, _) = member.socket.receive(within: .zero) {
                        perform(
                            unsafe bytes.withUnsafeMutableBytes { unsafe member.client.received($0, at: now) }, member)
                    }
                    if let deadline = member.client.nextDeadline, deadline <= now {
                        perform(member.client.deadlineReached(at: now), member)
                    }
                }
                let waiting = members.filter { $0.outcome == nil }.map(\.socket.descriptor)
                _ = Poll.readable(waiting, before: ContinuousClock.now + .milliseconds(20))
            }
        }

        private func perform(_ actions: [ClientAction], _ member: Member) {
            for action in actions {
                switch action {
                case .send(let bytes): member.socket.send(bytes, to: server)
                case .established: member.outcome = ("accepted", now)
                case .failed(let error): member.outcome = ("\(error)", now)
                case .deliver, .mayBeUnknown, .ended: break
                }
            }
        }

        /// Whether all logins with this name have an outcome.
        func hasEnded(_ login: String) -> Bool { members.allSatisfy { $0.login != login || $0.outcome != nil } }

        func outcomes(of login: String) -> [String] { members.filter { $0.login == login }.compactMap(\.outcome?.text) }

        /// The time that an accepted login took.
        func time(of login: String) -> Duration? {
            members.first { $0.login == login && $0.outcome?.text == "accepted" }.flatMap { member in
                member.outcome.map { .nanoseconds($0.at.nanoseconds - member.began.nanoseconds) }
            }
        }
    }
#endif
