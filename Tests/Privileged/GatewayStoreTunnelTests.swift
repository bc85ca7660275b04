// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Logging
    import NetworkAddresses
    import Provisioning
    import Synchronization
    import Testing
    import TunnelServer
    import WireGuardCore
    import WireGuardDevice

    @testable import Gateway

    /// A gateway's keys in memory.
    final class MemoryKeys: ServerKeyStore {
        private let keys: Mutex<ServerKeys>
        private let master: PresharedKey

        init() {
            var generator = SystemRandomNumberGenerator()
            keys = Mutex(ServerKeys(current: PrivateKey(using: &generator)))
            master = PresharedKey(using: &generator)
        }

        func serverKeys() throws(GatewayError) -> ServerKeys { keys.withLock { $0 } }
        func write(_ keys: ServerKeys) throws(GatewayError) { self.keys.withLock { $0 = keys } }
        func presharedMaster() throws(GatewayError) -> PresharedKey { master }
    }

    @Suite(
        "A gateway's tunnel and its store", .enabled(if: Privileged.isAvailable), .serialized, .timeLimit(.minutes(5)))
    struct GatewayStoreTunnelTests {
        private let admin = Caller.local(0)

        /// A gateway with its store in a file, and a client with its own key.
        private struct Made {
            let scene: GatewayTunnelScene
            let folder: TemporaryFolder
            let service: GatewayService
            let client: GatewayClient
            let id: DeviceID

            init(_ change: (inout GatewaySettings) throws -> Void = { _ in }) async throws {
                scene = try GatewayTunnelScene { settings in
                    settings.host = "192.0.2.2"
                    try change(&settings)
                }
                folder = try TemporaryFolder()
                service = try GatewayService(
                    store: try GatewayStore(path: "\(folder.path)/gateway.db"), keys: MemoryKeys(),
                    settings: scene.source.settings, logger: Logger(label: "gateway"))
                let admin = Caller.local(0)
                let user = try await service.addUser(UserDraft(login: "anna"), admin).item
                var generator = SystemRandomNumberGenerator()
                let key = PrivateKey(using: &generator)
                let draft = DeviceDraft(userID: user.id, name: "laptop", publicKey: key.publicKey)
                let grant = try await service.addDevice(draft, admin).item
                id = grant.device.id
                client = try GatewayClient(
                    in: scene.anna, key: key, addresses: grant.addresses.map(\.description),
                    presharedKey: grant.presharedKey)
                try client.use(grant.servers[0].publicKey)
                try await scene.start(service)
            }

            func reachesInternet() throws -> Bool {
                client.device.requestHandshake(with: service.serverKeys.current.publicKey)
                return try client.pings("203.0.113.7", patience: 9)
            }

            /// Returns the time for which packets still pass after `body`, in both directions.
            func cutOff(_ body: () async throws -> Void) async throws -> Duration {
                try await scene.cutOff(client.namespace, body)
            }
        }

        @Test("A device of the store connects; disabled, expired or removed it is cut off within a second")
        func cutsOff() async throws {
            let made = try await Made()
            let (service, id) = (made.service, made.id)
            #expect(try made.reachesInternet())
            func update(_ change: (inout DeviceUpdate) -> Void) async throws {
                var update = DeviceUpdate()
                change(&update)
                _ = try await service.updateDevice(id, update, admin)
            }
            let disabled = try await made.cutOff { try await update { $0.isEnabled = false } }
            #expect(disabled < .seconds(1))
            try await update { $0.isEnabled = true }
            #expect(try made.reachesInternet())
            let expired = try await made.cutOff {
                try await update { $0.expiresAt = .some(Date().addingTimeInterval(1)) }
            }
            #expect(expired < .seconds(2))
            try await update { $0.expiresAt = .some(nil) }
            #expect(try made.reachesInternet())
            let ruled = try await made.cutOff {
                _ = try await service.setRules(of: .device(id), [RuleDraft(AccessRule(.deny, transport: .udp))], admin)
            }
            #expect(ruled < .seconds(1))
            #expect(try made.reachesInternet())
            _ = try await service.setRules(of: .device(id), [], admin)
            let removed = try await made.cutOff { try await service.removeDevice(id, admin) }
            #expect(removed < .seconds(1))
            print(
                "gateway: the last datagram passed \(disabled) after the device was disabled, "
                    + "\(expired - .seconds(1)) after it had expired, \(ruled) after a rule, \(removed) after it was removed"
            )
            #expect(try !made.reachesInternet())
            try await made.scene.stop()
        }

        @Test(
            "After a restart a device continues with its earlier counters; its grant names the next server key in time"
        )
        func restartAndKey() async throws {
            let made = try await Made { $0.serverKeyOverlapSeconds = 2 }
            let service = made.service
            #expect(try made.reachesInternet())
            try await made.scene.stop()
            let first = try await service.device(made.id, admin)
            #expect(first.traffic.received > 0 && first.traffic.sent > 0 && first.lastSeenAt != nil)
            try await made.scene.start(service)
            #expect(try made.reachesInternet())
            let old = service.serverKeys.current.publicKey
            _ = try await service.announceServerKey(admin)
            let servers = try await service.exportedGrant(made.id, admin).servers
            #expect(servers.map(\.publicKey).first == old && servers.count == 2)
            let next = try #require(servers.last).publicKey
            #expect(try made.reachesInternet())
            try eventually("the key is switched") { service.serverKeys.current.publicKey == next }
            try made.client.use(next)
            #expect(try made.reachesInternet())
            try await made.scene.stop()
            let second = try await service.device(made.id, admin)
            #expect(second.traffic.received > first.traffic.received)
            #expect(second.lastEndpoint?.address == .v4(198, 51, 100, 2))
        }
    }
#endif
