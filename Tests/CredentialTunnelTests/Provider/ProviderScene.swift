// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import HostConformance
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Synchronization
import TunnelIO
import WireGuardCore

@testable import CredentialTunnel

/// A provider in a memory host, with its server.
final class ProviderScene: Sendable {
    static let wifi = NetworkPath(interfaces: [.init(name: "en0", kind: .wifi, index: 1)], supportsIPv6: false)
    static let cellular = NetworkPath(interfaces: [.init(name: "pdp0", kind: .cellular, index: 2)], supportsIPv6: false)
    static let inner = IPAddress.v4(10, 7, 0, 2)

    let internet = MemoryInternet()
    let network: MemoryDatagramNetwork
    let resolver: ScriptedResolver
    let server: LoginServer
    let secrets = MemorySecretStore()
    let host: MemoryHost<CredentialTunnelProvider>
    let configuration: CredentialTunnelConfiguration
    /// Notified of changes of the status, of logins and ended sessions at the server, and of packets that the tunnel
    /// delivers.
    let changes: Changes

    /// - Parameter other: The network of the tunnel, instead of the one with the server.
    init(
        clock: any Clock<Duration> = ContinuousClock(), path: NetworkPath = ProviderScene.wifi,
        serverKey: [UInt8] = FixedKeys.server, loginDeadline: Duration = .seconds(10), rekeyAfter: Duration? = nil,
        doubtAfter: Duration? = nil, network other: (any DatagramNetwork)? = nil,
        _ adjust: (inout CredentialTunnelConfiguration) -> Void = { _ in }
    ) throws {
        let changes = Changes()
        self.changes = changes
        var options = CredentialServerDevice.Options()
        options.limits.rekeyGap = .milliseconds(1)
        server = try LoginServer(
            on: internet, changes: changes, keepalive: 1, key: FixedKeys.privateKey(serverKey), options: options)
        network = internet.attach([.v4(0xc000_020a)])
        resolver = ScriptedResolver(["vpn.example": [LoginServer.address]], changes: changes)
        var environment = CredentialEnvironment()
        environment.network = other ?? network
        environment.resolver = resolver
        environment.timing.loginDeadline = loginDeadline
        if let rekeyAfter { environment.timing.rekeyAfter = rekeyAfter }
        if let doubtAfter {
            (environment.timing.pingAfter, environment.timing.doubtAfter) = (doubtAfter / 2, doubtAfter)
        }
        let used = environment
        host = MemoryHost(path: path, secrets: secrets, clock: clock) { CredentialTunnelProvider(environment: used) }
        host.platform.setDeliveryHandler { [changes] in changes.notify() }
        changes.follow(host.statusUpdates())
        var configuration = CredentialTunnelConfiguration(
            server: "vpn.example:\(LoginServer.port)", serverKey: FixedKeys.privateKey().publicKey.base64, login: "kean"
        )
        adjust(&configuration)
        self.configuration = configuration
    }

    func start(password: String = "123456", presharedKey: [UInt8] = FixedKeys.presharedKey) async throws {
        try await secrets.write(SecretBytes(Array(password.utf8)), "password", of: "test")
        try await secrets.write(SecretBytes(presharedKey), "preshared-key", of: "test")
        try await host.runner.start(configuration, profileID: "test")
    }

    /// Starts the tunnel and returns the error.
    func failure(password: String = "123456", presharedKey: [UInt8] = FixedKeys.presharedKey) async -> TunnelError? {
        do {
            try await start(password: password, presharedKey: presharedKey)
            return nil
        } catch {
            return error as? TunnelError
        }
    }

    func stop() async {
        await host.stop(.userInitiated)
        await server.running.stop()
    }

    /// Returns whether a ping through the tunnel is answered.
    func passes(_ sequence: UInt16 = 1, within attempts: Int = 300) async -> Bool {
        let request = PacketBuilder.icmpEcho(
            from: Self.inner, to: LoginClient.target, identifier: 99, sequence: sequence, payload: [1, 2, 3])
        let reply = VirtualNetwork().receive(request)
        for _ in 0..<attempts {
            host.platform.inject(request)
            let isThere = await changes.wait(within: .milliseconds(100)) {
                host.platform.takeDelivered().contains { $0 == reply }
            }
            if isThere { return true }
        }
        return false
    }

    func reaches(_ status: TunnelStatus) async -> Bool { await changes.wait { self.host.status.status == status } }

    var logins: Int { server.store.state.withLock { $0.attempts.count } }

    func status() async throws -> CredentialStatusRequest.Reply {
        try await MessageClient(channel: host, timeout: .seconds(60)).send(CredentialStatusRequest())
    }
}

/// Converts values to and from JSON text.
enum JSONCoding {
    static func decode<Value: Decodable>(_ type: Value.Type, _ text: String) throws -> Value {
        try JSONDecoder().decode(type, from: Data(text.utf8))
    }

    static func encode(_ value: some Encodable) throws -> String {
        String(decoding: try JSONEncoder().encode(value), as: UTF8.self)
    }
}
