// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import PacketTunnelTesting
import Provisioning
import WireGuardCore

@testable import Gateway

/// The records for tests of a store, all from one seed.
struct StoreFixture {
    let store: GatewayStore
    let random: RandomSource
    /// 2026-01-01 00:00:00 UTC.
    var start = Date(timeIntervalSince1970: 1_767_225_600)

    init(_ store: GatewayStore, seed: UInt64 = 1) {
        self.store = store
        random = RandomSource(SeededGenerator(seed: seed))
    }

    func id() -> RandomID {
        var random = random
        return RandomID(using: &random)
    }

    func hash() -> SecretHash { SecretHash(of: random.bytes(32)) }

    func key() -> PublicKey {
        var random = random
        return PrivateKey(using: &random).publicKey
    }

    func audit(_ action: AuditRecord.Action = .userAdded, _ subject: String = "test", after seconds: Double = 0)
        -> AuditRecord
    {
        AuditRecord(
            at: start.addingTimeInterval(seconds), actor: "local:0", source: nil, action: action, subject: subject)
    }

    func limits(
        _ servers: [String] = ["10.66.0.1/24", "fd66::1/64"], after seconds: Double = 0, rest: Double = 86_400,
        perUser: Int = 1000, devices: Int = 100_000
    ) throws -> DeviceLimits {
        DeviceLimits(
            servers: try servers.map { try InterfaceAddress($0) },
            restSince: start.addingTimeInterval(seconds - rest), devicesPerUser: perUser, devices: devices)
    }

    func user(_ login: String = "anna", limit: Int? = nil, expiresAfter seconds: Double? = nil) async throws -> User {
        let user = User(
            id: id(), login: login, expiresAt: seconds.map { start.addingTimeInterval($0) }, deviceLimit: limit,
            createdAt: start)
        return try await store.add(user, nil, audit(.userAdded, "user:\(user.id)")).item
    }

    func device(
        of user: User, _ addresses: [String] = [], limits: DeviceLimits? = nil, key: PublicKey? = nil,
        subnets: [String] = [], expiresAfter seconds: Double? = nil, at time: Double = 0
    ) async throws -> Device {
        let device = Device(
            id: id(), userID: user.id, kind: .exported, name: "laptop", publicKey: key ?? self.key(),
            keyAt: start.addingTimeInterval(time), addresses: try addresses.map { try IPAddress($0) },
            subnets: try subnets.map { try IPPrefix($0) }, expiresAt: seconds.map { start.addingTimeInterval($0) },
            createdAt: start.addingTimeInterval(time))
        return try await store.add(
            device, try limits ?? self.limits(after: time), nil, audit(.deviceAdded, "device:\(device.id)", after: time)
        ).item.device
    }

    func invitation(for user: User, lifetime: Double = 3600) async throws -> IssuedInvitation {
        let invitation = IssuedInvitation(
            id: id(), userID: user.id, deviceName: "", hash: hash(), hint: "ci_abcdef", createdAt: start,
            expiresAt: start.addingTimeInterval(lifetime))
        return try await store.add(invitation, nil, audit(.invitationAdded)).item
    }

    func enrolment(
        _ secret: Enrolment.Secret, key: PublicKey? = nil, credential: SecretHash? = nil, request: SecretHash? = nil,
        limits: DeviceLimits? = nil, at time: Double = 0
    ) throws -> Enrolment {
        Enrolment(
            secret: secret, request: request ?? hash(), deviceID: id(), publicKey: key ?? self.key(),
            credentialHash: credential ?? hash(), name: "phone", platform: "linux", expiresAt: nil,
            limits: try limits ?? self.limits(after: time), now: start.addingTimeInterval(time),
            source: .v4(192, 0, 2, 7))
    }

    /// The device that an enrolment has made.
    func made(_ outcome: EnrolmentOutcome) throws -> Device {
        guard case .made(let made) = outcome else { throw Unexpected(what: "\(outcome)") }
        return made.device
    }

    struct Unexpected: Error { var what: String }
}

/// The kind of store to test. All kinds pass the same suites; a further kind, such as a shared database, is added
/// here.
enum StoreKind: String, CaseIterable, Sendable {
    case memory, file

    /// Runs a test on an empty store.
    func run(_ body: (StoreFixture) async throws -> Void) async throws {
        switch self {
        case .memory: try await body(StoreFixture(try GatewayStore.inMemory()))
        case .file:
            try await TestFolder.use { folder in
                let store = try GatewayStore(path: "\(folder)/gateway.db")
                try await body(StoreFixture(store))
                try await store.check()
                try store.close()
            }
        }
    }
}
