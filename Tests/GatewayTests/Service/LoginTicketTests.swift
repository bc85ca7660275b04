// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import FoundationEssentials
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Provisioning
import Synchronization
import Testing
import TunnelSystem
import WireGuardCore

@testable import Gateway

@Suite("Tickets of a gateway's login tunnel") struct LoginTicketTests {
    private static let password = "correct horse"

    /// A gateway with a user who has logged in.
    private struct Scene {
        let fixture: ServiceFixture
        let user: User
        let device: DeviceID
        let addresses: [IPAddress]
        let resumption: LoginResumption

        init(
            _ change: (inout GatewaySettings) -> Void = { _ in },
            whenCompared: @escaping @Sendable () async -> Void = {}
        ) async throws {
            fixture = try ServiceFixture(change, whenCompared: whenCompared)
            user = try await fixture.user()
            _ = try await fixture.service.setPassword(of: user.id, Array(password.utf8), fixture.admin)
            let request = LoginRequest(
                login: "anna", password: SecretBytes(Array(password.utf8)), source: try Endpoint("192.0.2.7:4000"),
                busy: [])
            guard
                case .accepted(let device, let stored, let addresses) = try await fixture.service.logIn(
                    request, .gateway)
            else { throw StoreFixture.Unexpected(what: "the login was refused") }
            (self.device, self.addresses) = (device, addresses)
            resumption = LoginResumption(
                device: device, session: 7, password: stored,
                verifiedAt: Int64(fixture.service.now.timeIntervalSince1970))
        }

        func resume(
            busy: [DeviceID] = [], isOwnSession: Bool = false, login: String = "anna"
        ) async throws -> LoginJudgement? {
            try await fixture.service.resume(
                resumption,
                LoginRequest(
                    login: login, password: SecretBytes([]), source: try Endpoint("192.0.2.9:1"), busy: busy),
                isOwnSession: isOwnSession, .gateway)
        }

        /// The device that a login with the ticket gets, or `nil` if the ticket is void.
        func resumedDevice(busy: [DeviceID] = [], isOwnSession: Bool = false) async throws -> DeviceID? {
            switch try await resume(busy: busy, isOwnSession: isOwnSession) {
            case .accepted(let device, _, _)?: return device
            case nil: return nil
            case let other?: throw StoreFixture.Unexpected(what: "\(other)")
            }
        }
    }

    @Test("A login with a ticket gets the same device, and its password is not compared")
    func device() async throws {
        let compared = Mutex(0)
        let scene = try await Scene(whenCompared: { compared.withLock { $0 += 1 } })
        // A later device at this source would be preferred without the ticket.
        let service = scene.fixture.service
        let other = LoginRequest(
            login: "anna", password: SecretBytes(Array(Self.password.utf8)), source: try Endpoint("192.0.2.9:1"),
            busy: [scene.device])
        guard case .accepted(let second, _, _) = try await service.logIn(other, .gateway) else {
            Issue.record("the second login was refused")
            return
        }
        #expect(second != scene.device && compared.withLock { $0 } == 2)
        guard case .accepted(let device, _, let addresses)? = try await scene.resume() else {
            Issue.record("the ticket is void")
            return
        }
        #expect(device == scene.device && addresses == scene.addresses && compared.withLock { $0 } == 2)
        // The source is known from now on.
        #expect(service.isKnownLogin("anna", from: .v4(192, 0, 2, 9)))
    }

    @Test("A ticket takes its device from its own session, and from no other session")
    func busy() async throws {
        let scene = try await Scene()
        #expect(try await scene.resumedDevice(busy: [scene.device], isOwnSession: true) == scene.device)
        let other = try #require(try await scene.resumedDevice(busy: [scene.device]))
        #expect(other != scene.device)
    }

    @Test("A ticket is void after the user's password changes, even to the same one, or is removed")
    func passwords() async throws {
        for password in [Self.password, "battery staple", nil] {
            let scene = try await Scene()
            let service = scene.fixture.service
            _ = try await service.setPassword(of: scene.user.id, password.map { Array($0.utf8) }, scene.fixture.admin)
            #expect(try await scene.resumedDevice() == nil, "\(password ?? "-")")
        }
    }

    @Test("A ticket is void while its user is disabled, has expired or is removed, or without its device")
    func users() async throws {
        let scene = try await Scene()
        let (service, admin) = (scene.fixture.service, scene.fixture.admin)
        #expect(try await scene.resume(login: "ben") == nil)
        var update = UserUpdate()
        update.isEnabled = false
        _ = try await service.updateUser(scene.user.id, update, admin)
        #expect(try await scene.resumedDevice() == nil)
        update.isEnabled = true
        _ = try await service.updateUser(scene.user.id, update, admin)
        #expect(try await scene.resumedDevice() == scene.device)
        var device = DeviceUpdate()
        device.isEnabled = false
        _ = try await service.updateDevice(scene.device, device, admin)
        #expect(try await scene.resumedDevice() == nil)
        device.isEnabled = true
        _ = try await service.updateDevice(scene.device, device, admin)
        #expect(try await scene.resumedDevice() == scene.device)
        update.expiresAt = .some(service.now.addingTimeInterval(100))
        _ = try await service.updateUser(scene.user.id, update, admin)
        scene.fixture.clock.advance(by: .seconds(100))
        #expect(try await scene.resumedDevice() == nil)
        update.expiresAt = .some(nil)
        _ = try await service.updateUser(scene.user.id, update, admin)
        try await service.removeDevice(scene.device, admin)
        #expect(try await scene.resumedDevice() == nil)
    }

    @Test("A ticket is void after the lifetime of a session that began with its password")
    func lifetime() async throws {
        let scene = try await Scene({ $0.loginTunnel.sessionLifetimeSeconds = 60 })
        scene.fixture.clock.advance(by: .seconds(59))
        #expect(try await scene.resumedDevice() == scene.device)
        scene.fixture.clock.advance(by: .seconds(1))
        #expect(try await scene.resumedDevice() == nil)
    }

    @Test("Logins with a ticket count against the limit of logins, and wait for no failures")
    func limit() async throws {
        let scene = try await Scene()
        for _ in 0..<8 {
            let guess = LoginRequest(
                login: "anna", password: SecretBytes(Array("wrong horse".utf8)), source: try Endpoint("192.0.2.9:1"),
                busy: [])
            _ = try await scene.fixture.service.logIn(guess, .gateway)
        }
        // The limit is ten logins in a minute, and the first one was with the password.
        for _ in 0..<9 { #expect(try await scene.resumedDevice() == scene.device) }
        guard case .refused(.tooEarly)? = try await scene.resume() else {
            Issue.record("the limit of logins does not count tickets")
            return
        }
    }

    @Test("A ticket's content is read as it was written, and other bytes are refused")
    func content() async throws {
        let resumption = try await Scene().resumption
        let bytes = resumption.bytes
        #expect(LoginResumption(bytes) == resumption && bytes.count <= TicketGrant.maximumByteCount)
        for count in 0..<bytes.count { #expect(LoginResumption(Array(bytes.prefix(count))) == nil) }
        #expect(LoginResumption(bytes + [0]) == nil)
    }

    @Test("The keys of tickets survive a restart, are replaced daily, and are not in a backup")
    func keys() async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway"
            _ = try GatewayDirectory.make(
                path, try GatewayDirectoryTests.settings(), backupKey: "\(folder)/backup.pem")
            let directory = try GatewayDirectory(existing: path)
            let time = Mutex(1_800_000_000.0)
            let clock = GatewayClock(
                now: { Date(timeIntervalSince1970: time.withLock { $0 }) }, nanoseconds: { 0 })
            let first = try directory.loginTickets(clock: clock)
            let keys = first.sealer.keys
            #expect(FileStatus(of: "\(path)/login.tickets.key")?.mode == 0o600)
            #expect(try directory.loginTickets(clock: clock).sealer.keys == keys)
            time.withLock { $0 += 86_400 }
            try first.rotate()
            #expect(first.sealer.keys.previous == keys.current && first.sealer.keys.current.key != keys.current.key)
            #expect(try directory.loginTickets(clock: clock).sealer.keys == first.sealer.keys)
            // After a long time without a gateway.
            time.withLock { $0 += 1_000_000 }
            let later = try directory.loginTickets(clock: clock).sealer.keys
            #expect(later.previous == first.sealer.keys.current)
            #expect(!GatewayDirectory.Name.kept.contains(GatewayDirectory.Name.loginTicketKeys))
            // Damaged keys make tickets void, and nothing else.
            for text in ["", "x", "\(later.current.key.exportedBase64) soon\n", "a b\nc d\ne f\n"] {
                try Data(text.utf8).write(to: URL(filePath: "\(path)/login.tickets.key"))
                let new = try directory.loginTickets(clock: clock).sealer.keys
                #expect(new.current.key != later.current.key && new.previous == nil)
            }
        }
    }

    @Test("A key that cannot be saved does not replace the present one")
    func unsaved() throws {
        var random = SeededGenerator(seed: 1)
        let keys = TicketSealer.Keys(current: .init(PresharedKey(using: &random), madeAt: 0))
        let clock = GatewayClock(now: { Date(timeIntervalSince1970: 90_000) }, nanoseconds: { 0 })
        let tickets = LoginTickets(keys, clock: clock) { (_) throws(GatewayDirectoryError) in
            throw GatewayDirectoryError("the disk is full")
        }
        #expect(throws: GatewayDirectoryError.self) { try tickets.rotate() }
        #expect(tickets.sealer.keys == keys)
    }
}
