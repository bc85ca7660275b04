// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Logging
import NetworkAddresses
import PacketTunnel
import PasswordHashing
import Synchronization
import Testing
import TunnelSystem

@testable import culvert_credential_server

@Suite struct LoginDeskTests {
    /// Cheap enough for tests; as expensive as it is in earnest it is measured elsewhere.
    private static let cost = PasswordHash.Cost(n: 16, r: 8, p: 1)
    private static let home = IPAddress.v4(192, 0, 2, 1)

    private struct Pool: AddressSource {
        var free: [IPAddress] = (2...4).map { .v4(10, 66, 0, $0) }
        mutating func keep(_ addresses: [IPAddress]) { free.removeAll(where: addresses.contains) }
        mutating func take(own: [IPAddress], for _: String, at _: Int64) -> [IPAddress]? {
            own.isEmpty ? (free.isEmpty ? nil : [free.removeFirst()]) : own
        }
        mutating func give(back addresses: [IPAddress], of _: String, at _: Int64) {
            free += addresses.filter { $0.bytes[3] < 10 }
        }
        func file(at _: Int64, isLast: Bool) -> AddressFile {
            AddressFile(addresses: free.map { AddressFile.Entry(address: $0) })
        }
    }

    private final class World: Sendable {
        let desk: LoginDesk<Int>
        let disconnected = Shared()
        final class Shared: Sendable {
            let ids = Mutex<[Int]>([])
            let expired = Mutex<[Int]>([])
            let lines = Mutex<[String]>([])
            let shutOut = Mutex<[IPAddress]>([])
            let now = Mutex<Int64>(0)
            /// Called with the number of the hash while a password is hashed.
            let whileHashing = Mutex<(@Sendable (Int) -> Void)?>(nil)
            let hashes = Mutex<Int>(0)
        }

        init(sessionsPerUser: Int = 2) {
            let shared = disconnected
            let logger = Logger(label: "test") { _ in LineHandler(shared) }
            desk = LoginDesk(
                cost: cost, limits: LoginLimiter.Limits(), sessionsPerUser: sessionsPerUser, addresses: Pool(),
                logger: logger,
                effects: LoginDesk.Effects(
                    disconnect: { id in shared.ids.withLock { $0.append(id) } },
                    expire: { id in shared.expired.withLock { $0.append(id) } },
                    shutOut: { addresses in shared.shutOut.withLock { $0 += addresses } },
                    now: { shared.now.withLock { $0 } },
                    matches: { hash, password in
                        let number = shared.hashes.withLock { hashes in
                            hashes += 1
                            return hashes
                        }
                        shared.whileHashing.withLock { $0 }?(number)
                        return hash.matches(password)
                    }))
        }

        func log(_ id: Int, _ login: String, _ password: String, from source: IPAddress = home)
            -> LoginDesk<Int>.Judgement
        {
            desk.judge(id, login: login, password: SecretBytes(Array(password.utf8)), from: source)
        }
    }

    private struct LineHandler: LogHandler {
        let shared: World.Shared
        init(_ shared: World.Shared) { self.shared = shared }
        var logLevel = Logger.Level.trace
        var metadata: Logger.Metadata = [:]
        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { nil }
            set {}
        }
        func log(event: LogEvent) { shared.lines.withLock { $0.append("\(event.message)") } }
    }

    private static func user(
        _ login: String, _ password: String, _ addresses: [IPAddress] = [], cost: PasswordHash.Cost = cost
    ) throws -> User {
        var random = SystemRandomNumberGenerator()
        let hash = try #require(PasswordHash(Array(password.utf8), cost: cost, using: &random))
        return User(login: login, password: hash, addresses: addresses, added: "")
    }

    @Test("The right password is let in; a wrong one and an unknown login get the same answer")
    func judges() throws {
        let world = World()
        world.desk.use(UserFile(users: [try Self.user("anna", "correct horse")]))
        #expect(world.log(1, "anna", "correct horse") == .accepted([.v4(10, 66, 0, 2)]))
        #expect(world.log(2, "anna", "correct hors") == .wrong)
        #expect(world.log(3, "nobody", "correct horse") == .wrong)
        #expect(world.log(4, "anna", "") == .wrong)
        // No password gives what unknown logins are compared with.
        #expect(world.log(5, "nobody", "") == .wrong)
    }

    @Test("Unknown logins and wrong passwords are counted alike, and the right password works after the wait")
    func limits() throws {
        for login in ["anna", "nobody"] {
            let world = World()
            world.desk.use(UserFile(users: [try Self.user("anna", "correct horse")]))
            for number in 0..<6 { #expect(world.log(number, login, "wrong") == .wrong) }
            #expect(world.log(7, login, "wrong") == .tooEarly(seconds: 1))
            #expect(world.log(8, login, "correct horse") == .tooEarly(seconds: 1))
        }
    }

    @Test("The log has neither passwords nor what somebody typed for a login that nobody has")
    func logsNoSecrets() throws {
        let world = World()
        world.desk.use(UserFile(users: [try Self.user("anna", "correct horse")]))
        _ = world.log(1, "correct horse", "anna")
        _ = world.log(2, "anna", "wrong horse")
        _ = world.log(3, "anna", "correct horse")
        let lines = world.disconnected.lines.withLock { $0 }
        #expect(lines.count == 3)
        #expect(!lines.contains { $0.contains("horse") }, "\(lines)")
        #expect(lines[1].contains("'anna'"))
    }

    @Test("One session more than a user may have ends the oldest, and a full pool is said to be full")
    func sessions() throws {
        let world = World(sessionsPerUser: 2)
        world.desk.use(
            UserFile(users: [try Self.user("anna", "correct horse"), try Self.user("ben", "battery staple")]))
        for id in 1...3 {
            guard case .accepted = world.log(id, "anna", "correct horse") else { return #expect(Bool(false)) }
        }
        #expect(world.disconnected.ids.withLock { $0 } == [1])
        #expect(world.desk.sessionCount == 2)
        #expect(world.log(4, "ben", "battery staple") == .full)
        world.desk.ended(1, "removed")
        guard case .accepted = world.log(5, "ben", "battery staple") else { return #expect(Bool(false)) }
    }

    @Test("A user's own address goes to whoever of its sessions logged in last")
    func ownAddress() throws {
        let world = World()
        let own = IPAddress.v4(10, 66, 0, 99)
        world.desk.use(UserFile(users: [try Self.user("anna", "correct horse", [own])]))
        #expect(world.log(1, "anna", "correct horse") == .accepted([own]))
        #expect(world.log(2, "anna", "correct horse") == .accepted([own]))
        #expect(world.disconnected.ids.withLock { $0 } == [1])
        // What the first one had is the second one's by now, and stays let in.
        world.desk.ended(1, "removed")
        #expect(world.disconnected.shutOut.withLock { $0 }.isEmpty)
        world.desk.ended(2, "removed")
        #expect(world.disconnected.shutOut.withLock { $0 } == [own])
    }

    @Test("An address is shut out before anybody gets it, and not at all when everything ends")
    func shutsOut() throws {
        let world = World()
        world.desk.use(UserFile(users: [try Self.user("anna", "correct horse")]))
        #expect(world.log(1, "anna", "correct horse") == .accepted([.v4(10, 66, 0, 2)]))
        #expect(world.log(2, "anna", "correct horse") == .accepted([.v4(10, 66, 0, 3)]))
        world.desk.ended(1, "removed")
        #expect(world.disconnected.shutOut.withLock { $0 } == [.v4(10, 66, 0, 2)])
        world.desk.ended(1, "removed")
        world.desk.ended(2, "shutdown", isLast: true)
        #expect(world.disconnected.shutOut.withLock { $0 } == [.v4(10, 66, 0, 2)])
        #expect(world.desk.sessionCount == 0)
    }

    @Test(
        "A password that changes while it is hashed is compared once more, and is not called wrong if it changes again",
        arguments: [
            (["battery staple"], "battery staple", .accepted([.v4(10, 66, 0, 2)])),
            (["battery staple"], "correct horse", .wrong),
            (["correct horse", "battery staple"], "correct horse", .changed),
        ] as [([String], String, LoginDesk<Int>.Judgement)])
    func changedMeanwhile(_ later: [String], _ typed: String, _ expected: LoginDesk<Int>.Judgement) throws {
        let world = World()
        let desk = world.desk
        desk.use(UserFile(users: [try Self.user("anna", "correct horse")]))
        let files = try later.map { UserFile(users: [try Self.user("anna", $0)]) }
        world.disconnected.whileHashing.withLock {
            $0 = { number in if number <= files.count { desk.use(files[number - 1]) } }
        }
        #expect(world.log(1, "anna", typed) == expected)
        #expect(world.disconnected.hashes.withLock { $0 } == 2)
    }

    @Test("A user whose addresses change while its password is hashed gets the new ones")
    func addressesChangedMeanwhile() throws {
        let world = World()
        let desk = world.desk
        let anna = try Self.user("anna", "correct horse")
        desk.use(UserFile(users: [anna]))
        var changed = anna
        changed.addresses = [.v4(10, 66, 0, 99)]
        let file = UserFile(users: [changed])
        world.disconnected.whileHashing.withLock { $0 = { _ in desk.use(file) } }
        #expect(world.log(1, "anna", "correct horse") == .accepted([.v4(10, 66, 0, 99)]))
    }

    @Test("Sessions end whose user is removed or has another password, and no others")
    func removal() throws {
        let world = World()
        let (anna, ben) = (try Self.user("anna", "correct horse"), try Self.user("ben", "battery staple"))
        world.desk.use(UserFile(users: [anna, ben]))
        _ = world.log(1, "anna", "correct horse")
        _ = world.log(2, "ben", "battery staple")
        world.desk.use(UserFile(users: [anna, ben]))
        #expect(world.disconnected.ids.withLock { $0 }.isEmpty)
        world.desk.use(UserFile(users: [ben]))
        #expect(world.disconnected.ids.withLock { $0 } == [1])
        world.desk.use(UserFile(users: [try Self.user("ben", "another password")]))
        #expect(world.disconnected.ids.withLock { Set($0) } == [1, 2])
    }

    @Test("A session whose user was removed before its client had the answer is told to end until it does")
    func removedWhileAnswered() throws {
        let world = World()
        world.desk.use(UserFile(users: [try Self.user("anna", "correct horse")]))
        guard case .accepted = world.log(1, "anna", "correct horse") else { return #expect(Bool(false)) }
        // The tunnel does not know the session yet: this is not heard.
        world.desk.use(UserFile(users: []))
        world.desk.look()
        world.desk.look()
        #expect(world.disconnected.ids.withLock { $0 } == [1, 1, 1])
        world.desk.ended(1, "removed")
        world.desk.look()
        #expect(world.disconnected.ids.withLock { $0 } == [1, 1, 1])
    }

    @Test("A session ends that has lasted long enough, and one that made room for another is told again")
    func lifetime() throws {
        let world = World(sessionsPerUser: 1)
        world.desk.use(UserFile(users: [try Self.user("anna", "correct horse")]))
        _ = world.log(1, "anna", "correct horse")
        world.desk.look(lifetime: 60)
        #expect(world.disconnected.ids.withLock { $0 }.isEmpty)
        world.disconnected.now.withLock { $0 = 61_000_000_000 }
        world.desk.look()
        #expect(world.disconnected.ids.withLock { $0 }.isEmpty)
        world.desk.look(lifetime: 60)
        // Its client may log in again.
        #expect(world.disconnected.expired.withLock { $0 } == [1] && world.disconnected.ids.withLock { $0 }.isEmpty)
        _ = world.log(2, "anna", "correct horse")
        world.desk.look(lifetime: 60)
        #expect(world.disconnected.ids.withLock { $0 } == [1, 1])
    }

    @Test("A user behind the address of a neighbour who fails logs in where it has logged in before")
    func neighbour() throws {
        let world = World(sessionsPerUser: 5)
        world.desk.use(
            UserFile(users: [try Self.user("anna", "correct horse"), try Self.user("ben", "battery staple")]))
        guard case .accepted = world.log(1, "anna", "correct horse") else { return #expect(Bool(false)) }
        for number in 0..<6 { #expect(world.log(10 + number, "ben", "wrong") == .wrong) }
        #expect(world.log(20, "ben", "battery staple") == .tooEarly(seconds: 1))
        guard case .accepted = world.log(2, "anna", "correct horse") else { return #expect(Bool(false)) }
        #expect(world.desk.isKnown("anna", from: Self.home) && !world.desk.isKnown("ben", from: Self.home))
    }

    @Test("A user that logs in again and again waits, and other users do not")
    func charges() throws {
        let world = World(sessionsPerUser: 1)
        world.desk.use(
            UserFile(users: [try Self.user("anna", "correct horse"), try Self.user("ben", "battery staple")]))
        for id in 1...10 {
            guard case .accepted = world.log(id, "anna", "correct horse") else { return #expect(Bool(false), "\(id)") }
            world.desk.ended(id, "closed")
        }
        #expect(world.log(11, "anna", "correct horse") == .tooEarly(seconds: 6))
        guard case .accepted = world.log(12, "ben", "battery staple") else { return #expect(Bool(false)) }
        world.disconnected.now.withLock { $0 = 6_000_000_000 }
        guard case .accepted = world.log(13, "anna", "correct horse") else { return #expect(Bool(false)) }
    }

    @Test("The uses of addresses are given once for each change")
    func changedAddresses() throws {
        let world = World()
        world.desk.use(UserFile(users: [try Self.user("anna", "correct horse")]))
        let first = try #require(world.desk.changedAddresses(since: nil))
        #expect(first.file.addresses.count == 3)
        #expect(world.desk.changedAddresses(since: first.revision) == nil)
        _ = world.log(1, "anna", "correct horse")
        let second = try #require(world.desk.changedAddresses(since: first.revision))
        #expect(second.file.addresses.count == 2)
        world.desk.ended(1, "closed")
        #expect(world.desk.changedAddresses(since: second.revision)?.file.addresses.count == 3)
    }

    @Test("A password is UTF-8 of 8 characters at least and 512 bytes at most, and its hash is read as it was written")
    func passwords() throws {
        for good in ["12345678", String(repeating: "x", count: 512), "pässwört"] {
            #expect(PasswordHash.isAcceptable(Array(good.utf8)))
        }
        for bad in [[], Array("1234567".utf8), [UInt8](repeating: 120, count: 513), [0xff] + Array("12345678".utf8)] {
            #expect(!PasswordHash.isAcceptable(bad))
        }
        let hash = try Self.user("anna", "correct horse").password
        let read = try JSONDecoder().decode(PasswordHash.self, from: JSONEncoder().encode(hash))
        #expect(read == hash && read.isValid && read.matches(Array("correct horse".utf8)))
        #expect(!read.matches(Array("correct hors".utf8)) && !"\(hash)".contains(hash.key.base64EncodedString()))
    }

    @Test("A wrong password and an unknown login take the same time, whatever costs the users' hashes have")
    func sameTime() throws {
        let world = World()
        let expensive = PasswordHash.Cost(n: 4096, r: 8, p: 1)
        world.desk.use(UserFile(users: [try Self.user("anna", "correct horse", cost: expensive)]))
        let cheap = ContinuousClock().measure {
            _ = PasswordHash.dummy(Self.cost).matches([1])
        }
        // Waits would begin after five failures of one login.
        var known: [Duration] = []
        var unknown: [Duration] = []
        let clock = ContinuousClock()
        for number in 0..<5 as Range<UInt8> {
            known.append(clock.measure { _ = world.log(1, "anna", "wrong", from: .v4(198, 51, 100, number)) })
            unknown.append(
                clock.measure { _ = world.log(1, "nobody\(number)", "wrong", from: .v4(203, 0, 113, number)) })
        }
        let (a, b) = (known.sorted()[2], unknown.sorted()[2])
        print("login: wrong password \(a), unknown login \(b); a cheap hash takes \(cheap)")
        #expect(b > a / 2 && b < a * 2 && b > cheap)
    }
}
