// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Logging
import NetworkAddresses
import PacketTunnelTesting
import PasswordHashing
import Provisioning
import Synchronization
import WireGuardCore

@testable import Gateway

/// The gateway's keys in memory.
final class MemoryKeys: ServerKeyStore {
    private let keys: Mutex<ServerKeys>
    private let master: PresharedKey

    init(_ random: RandomSource) {
        var random = random
        keys = Mutex(ServerKeys(current: PrivateKey(using: &random)))
        master = PresharedKey(using: &random)
    }

    func serverKeys() throws(GatewayError) -> ServerKeys { keys.withLock { $0 } }
    func write(_ new: ServerKeys) throws(GatewayError) { keys.withLock { $0 = new } }
    func presharedMaster() throws(GatewayError) -> PresharedKey { master }
}

/// A gateway's service on a store in memory, with a fake clock and seeded randomness.
struct ServiceFixture {
    let clock: FakeClock
    let random: RandomSource
    let store: GatewayStore
    let keys: MemoryKeys
    let service: GatewayService
    let home = IPAddress.v4(192, 0, 2, 7)
    let admin = Caller.local(0)

    init(
        seed: UInt64 = 1, store: GatewayStore? = nil, keys: MemoryKeys? = nil,
        clock: FakeClock = FakeClock(wall: FakeClock.Wall(seconds: 1_767_225_600)),
        _ change: (inout GatewaySettings) -> Void = { _ in },
        whenCompared: @escaping @Sendable () async -> Void = {}
    ) throws {
        random = RandomSource(SeededGenerator(seed: seed))
        self.store = try store ?? GatewayStore.inMemory()
        self.keys = keys ?? MemoryKeys(random)
        var settings = GatewaySettings()
        settings.host = "vpn.example.com"
        settings.addresses = [try InterfaceAddress("10.66.0.1/16"), try InterfaceAddress("fd66::1/64")]
        settings.dns = [try IPAddress("10.66.0.1")]
        change(&settings)
        self.clock = clock
        service = try GatewayService(
            store: self.store, keys: self.keys, settings: settings,
            clock: Self.gatewayClock(clock),
            random: random, passwordCost: PasswordHash.Cost(n: 16, r: 8, p: 1),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, whenCompared: whenCompared)
    }

    /// The fake clock for parts of a gateway.
    var gatewayClock: GatewayClock { Self.gatewayClock(clock) }

    private static func gatewayClock(_ clock: FakeClock) -> GatewayClock {
        GatewayClock(
            now: { Date(timeIntervalSince1970: Double(clock.wall.seconds) + Double(clock.wall.nanoseconds) / 1e9) },
            nanoseconds: { clock.nanoseconds })
    }

    func secret(_ kind: BearerSecret.Kind) -> BearerSecret {
        var random = random
        return BearerSecret(kind, using: &random)
    }

    func key() -> PrivateKey {
        var random = random
        return PrivateKey(using: &random)
    }

    func user(_ login: String = "anna") async throws -> User {
        try await service.addUser(UserDraft(login: login), admin).item
    }

    func token(_ scope: Token.Scope, of user: User? = nil) async throws -> Issued<Token> {
        try await service.addToken(TokenDraft(scope: scope, userID: user?.id, name: "test"), admin)
    }

    /// A device that has enrolled.
    struct Enrolled {
        var key: PrivateKey
        var credential: BearerSecret
        var grant: EnrolmentGrant
        var caller: Caller
        var id: DeviceID { grant.device.id }
    }

    func enrolled(_ user: User) async throws -> Enrolled {
        let invitation = try await service.addInvitation(InvitationDraft(userID: user.id), admin)
        let (key, credential) = (key(), secret(.device))
        let grant = try await service.enrol(
            bearer: invitation.secret.exportedText,
            EnrolmentRequest(publicKey: key.publicKey, credential: credential), from: home
        ).item
        return Enrolled(
            key: key, credential: credential, grant: grant,
            caller: try await service.caller(bearer: credential.exportedText, from: home))
    }
}
