// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing
import WireGuardCore

@testable import CredentialTunnel

/// A server and many clients in virtual time, with a hasher that takes 78 ms for each password.
private final class LoginStorm {
    /// The time that a password takes at the standard cost.
    static let hash = Duration.milliseconds(78)

    enum Outcome: Equatable {
        case accepted, refused, unanswered
    }

    final class Member {
        var client: CredentialClient
        let login: String
        let source: Endpoint
        let start: Instant
        var outcome: Outcome?

        init(_ client: consuming CredentialClient, _ login: String, _ source: Endpoint, start: Instant) {
            self.client = client
            self.login = login
            self.source = source
            self.start = start
        }
    }

    private let clock = FakeClock()
    private var server: CredentialServer
    private let hashers: Int
    private let hashTime: Duration
    private var members: [Member] = []
    private var bySource: [Endpoint: Member] = [:]
    /// The logins that wait for a hasher, and the logins that are being hashed, with the time at which each hash ends.
    private var queue: [(client: ClientID, login: Body.ClientAuthRequest)] = []
    private var running: [(end: Instant, client: ClientID, login: Body.ClientAuthRequest)] = []
    /// The names of the logins in the order in which they were hashed.
    private(set) var hashed: [String] = []

    init(hashers: Int = 1, hash: Duration = LoginStorm.hash, limits: ServerLimits = ServerLimits()) {
        var limits = limits
        limits.verifiers = hashers
        (self.hashers, hashTime) = (hashers, hash)
        server = CredentialServer(
            privateKey: FixedKeys.privateKey(), presharedKey: FixedKeys.preshared(), limits: limits,
            random: SeededGenerator(seed: 7))
    }

    private var now: Instant { Instant(nanoseconds: clock.nanoseconds) }

    var statistics: ServerStatistics { server.statistics }

    /// Marks a login as known from an address.
    func setKnown(_ login: String, from address: IPAddress) {
        server.isKnown = { $0 == login && $1 == address }
    }

    /// Sets the logins that are known from each address.
    func setKnown(_ isKnown: @escaping (String, IPAddress) -> Bool) { server.isKnown = isKnown }

    /// Adds a client that begins after a delay. The correct password is "right".
    func add(_ login: String, _ password: String, from address: IPAddress, after delay: Duration = .zero) {
        let source = Endpoint(address: address, port: UInt16(4000 + members.count))
        let client = CredentialClient(
            .init(
                keys: SharedKeys(
                    server: FixedKeys.privateKey().publicKey, presharedKey: FixedKeys.preshared()),
                login: Body.ClientAuthRequest(login: login, password: password)),
            random: SeededGenerator(seed: UInt64(100 + members.count)))
        let member = Member(client, login, source, start: now + delay)
        members.append(member)
        bySource[source] = member
    }

    /// Advances the time until each client has its outcome, and no password is hashed.
    func run() {
        var begun: Set<Endpoint> = []
        while members.contains(where: { $0.outcome == nil }) || !running.isEmpty || !queue.isEmpty {
            for member in members where member.start <= now && begun.insert(member.source).inserted {
                perform(member.client.start(at: now), of: member)
            }
            for done in running.filter({ $0.end <= now }) {
                running.removeAll { $0.client == done.client }
                let verdict: LoginVerdict =
                    done.login.password == "right"
                    ? .accepted(World.assignment) : .refused(Body.Refusal(.credentials))
                perform(server.answer(done.client, verdict, at: now))
            }
            for member in members where member.outcome == nil && begun.contains(member.source) {
                perform(member.client.deadlineReached(at: now), of: member)
            }
            perform(server.deadlineReached(at: now))
            while running.count < hashers, !queue.isEmpty {
                let next = queue.removeFirst()
                hashed.append(next.login.login)
                running.append((now + hashTime, next.client, next.login))
            }
            let times =
                members.filter { $0.outcome == nil }.compactMap {
                    begun.contains($0.source) ? $0.client.nextDeadline : $0.start
                } + running.map(\.end) + [server.nextDeadline].compactMap(\.self)
            guard let next = times.min() else { break }
            if next > now { clock.advance(by: .nanoseconds(next.nanoseconds - clock.nanoseconds)) }
        }
    }

    private func perform(_ actions: [ClientAction], of member: Member) {
        for action in actions {
            switch action {
            case .send(var datagram):
                let (now, source) = (now, member.source)
                perform(unsafe datagram.withUnsafeMutableBytes { unsafe server.received($0, from: source, at: now) })
            case .established: member.outcome = .accepted
            case .failed(.refused): member.outcome = .refused
            case .failed: member.outcome = .unanswered
            case .deliver, .mayBeUnknown, .ended: break
            }
        }
    }

    private func perform(_ actions: [ServerAction]) {
        for action in actions {
            switch action {
            case .send(var datagram, let endpoint):
                guard let member = bySource[endpoint] else { continue }
                let now = now
                perform(
                    unsafe datagram.withUnsafeMutableBytes { unsafe member.client.received($0, at: now) }, of: member)
            case .verify(let id, let login, _), .resume(let id, let login, _, _): queue.append((id, login))
            case .joined, .left, .moved, .deliver: break
            }
        }
    }

    func outcomes(of logins: [String]) -> [Outcome?] {
        members.filter { logins.contains($0.login) }.map(\.outcome)
    }
}

@Suite("Concurrent logins") struct LoginStormTests {
    private let honest = ["anna", "ben", "cleo", "dora"]

    private func addHonest(to storm: LoginStorm, after delay: Duration = .milliseconds(300)) {
        for (index, login) in honest.enumerated() {
            storm.add(login, "right", from: .v4(192, 0, UInt8(10 + index), 7), after: delay)
        }
    }

    @Test("Honest users log in while 150 wrong logins arrive from one /48")
    func oneNetwork() {
        let storm = LoginStorm()
        for number in 0..<150 as Range<UInt64> {
            storm.add("user\(number)", "wrong", from: .v6(0x2001_0db8_0001_0000 | number, 1))
        }
        addHonest(to: storm)
        storm.run()
        let accepted = storm.outcomes(of: honest).count { $0 == .accepted }
        print("login storm: \(accepted) of 4 honest users beside 150 wrong logins of one /48; \(storm.statistics)")
        #expect(accepted == 4)
        // Each honest user has a turn as soon as the current login of the crowd ends.
        let turns = storm.hashed.enumerated().filter { honest.contains($0.element) }.map(\.offset)
        #expect((turns.max() ?? .max) < 20, "\(turns)")
    }

    @Test("Honest users log in while one user floods the server with the right password")
    func oneUser() {
        let storm = LoginStorm()
        for number in 0..<150 as Range<UInt8> {
            storm.add("mallory", "right", from: .v4(203, 0, 113, number))
        }
        addHonest(to: storm)
        storm.run()
        let accepted = storm.outcomes(of: honest).count { $0 == .accepted }
        print("login storm: \(accepted) of 4 honest users beside 150 right logins of one user; \(storm.statistics)")
        #expect(accepted == 4)
    }

    @Test(
        "Users log in while a few users flood the server from many sources where they have logged in before",
        arguments: [1, 8, 16], [false, true])
    func knownUsers(_ names: Int, _ areHonestKnown: Bool) {
        let storm = LoginStorm()
        storm.setKnown { login, _ in login.hasPrefix("mallory") || areHonestKnown }
        for number in 0..<240 {
            storm.add("mallory\(number % names)", "right", from: .v4(203, UInt8(number), 113, 1))
        }
        addHonest(to: storm)
        storm.run()
        #expect(storm.outcomes(of: honest) == [.accepted, .accepted, .accepted, .accepted])
        // Known users have a turn after each name of the crowd. Unknown users have one of every four turns.
        let turns = storm.hashed.enumerated().filter { honest.contains($0.element) }.map(\.offset)
        #expect((turns.max() ?? .max) < (areHonestKnown ? names + 12 : 26), "\(turns)")
    }

    @Test("The waiting logins of one name are limited over all sources where it is known")
    func knownName() {
        var limits = ServerLimits()
        limits.verifications = 64
        let storm = LoginStorm(limits: limits)
        storm.setKnown { login, _ in login == "mallory" }
        for number in 0..<20 as Range<UInt8> { storm.add("mallory", "right", from: .v4(203, number, 113, 1)) }
        storm.run()
        #expect(storm.statistics.verificationsFull > 0, "\(storm.statistics)")
        // No source displaces another one.
        #expect(storm.statistics.verificationsReplaced == 0, "\(storm.statistics)")
    }

    @Test("Two logins with the same name are not verified at the same time")
    func oneAtATime() {
        let storm = LoginStorm(hashers: 4)
        for number in 1...8 as ClosedRange<UInt8> {
            storm.add("mallory", "wrong", from: .v4(203, 0, 113, number))
        }
        addHonest(to: storm, after: .milliseconds(10))
        storm.run()
        // Honest users only waited for the crowd's first hash, which was already running.
        #expect(storm.hashed.prefix(5).filter { honest.contains($0) }.count == 4, "\(storm.hashed)")
    }

    @Test("A login that has succeeded from its source recently is verified before all other logins")
    func knownFirst() {
        let storm = LoginStorm()
        let home = IPAddress.v4(198, 51, 100, 1)
        storm.setKnown("anna", from: home)
        for number in 0..<20 as Range<UInt8> {
            storm.add("user\(number)", "wrong", from: .v4(203, number, 113, 1))
        }
        // Another client behind the same address fills the places of the source.
        for number in 0..<40 { storm.add("neighbour\(number)", "wrong", from: home) }
        storm.add("anna", "right", from: home, after: .milliseconds(100))
        storm.run()
        #expect(storm.outcomes(of: ["anna"]) == [.accepted])
        #expect((storm.hashed.firstIndex(of: "anna") ?? .max) <= 2, "\(storm.hashed)")
    }

    @Test("A login is not verified after its client has stopped waiting")
    func expired() {
        let storm = LoginStorm(hash: .seconds(4))
        for number in 0..<10 as Range<UInt8> {
            storm.add("user\(number)", "right", from: .v4(203, number, 113, 1))
        }
        storm.run()
        // Only three hashes begin within the ten seconds after which the clients time out.
        #expect(storm.hashed.count == 3, "\(storm.hashed)")
        #expect(storm.statistics.verificationsExpired == 7, "\(storm.statistics)")
    }

    @Test("A login from a network without any replaces one of the network that has the most")
    func replaces() {
        var limits = ServerLimits()
        limits.verifications = 8
        let storm = LoginStorm(limits: limits)
        for number in 0..<20 as Range<UInt8> { storm.add("user\(number)", "wrong", from: .v4(203, 0, 113, number)) }
        addHonest(to: storm, after: .milliseconds(10))
        storm.run()
        #expect(storm.outcomes(of: honest) == [.accepted, .accepted, .accepted, .accepted])
        #expect(storm.statistics.verificationsReplaced > 0 && storm.statistics.verificationsFull > 0)
        #expect(storm.hashed.prefix(9).filter { honest.contains($0) }.count == 4, "\(storm.hashed)")
    }
}
