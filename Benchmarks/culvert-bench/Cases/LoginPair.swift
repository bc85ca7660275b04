// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Synchronization
import TunnelIO
import WireGuardCore

/// A client and a server of the login tunnel in one process, as two devices of WireGuard are in ``DevicePair``.
final class LoginPair {
    private let client: CredentialClientDevice
    private let server: CredentialServerDevice
    private let stream: PacketStream

    /// Accepts every login.
    private struct OpenStore: CredentialStore {
        func verdict(on attempt: LoginAttempt) async -> LoginVerdict {
            .accepted(Body.Assignment(addresses: [InterfaceAddress(host: .v4(10, 0, 0, 1))], keepalive: 0))
        }

        func ended(_ session: ClientID, _ reason: EndReason, _: SessionTraffic) async {}
    }

    init() throws {
        var random = SeededGenerator(seed: 37)
        let key = PrivateKey(using: &random)
        let presharedKey = PresharedKey(using: &random)
        stream = try PacketStream()
        server = CredentialServerDevice(
            privateKey: key, presharedKey: presharedKey, store: OpenStore(), tun: stream.target,
            network: SystemDatagramNetwork())
        try server.start()
        client = try CredentialClientDevice(network: SystemDatagramNetwork())
        guard let port = server.port else { throw BenchmarkError("the server has no port") }
        client.logIn(
            CredentialClient.Configuration(
                keys: SharedKeys(server: key.publicKey, presharedKey: presharedKey),
                login: Body.ClientAuthRequest(login: "kean", password: "123456")),
            at: [Endpoint(address: .v4(0x7f00_0001), port: port)])
        let client = client
        try PacketStream.wait("come to a session") { client.isEstablished }
        try client.attach(stream.source)
        try stream.send(1)
    }

    /// Sends packets until `wanted` more have arrived.
    func send(_ wanted: Int) throws { try stream.send(wanted) }

    func close() {
        client.close()
        let server = server
        Task { await server.stop() }
    }
}

/// The login tunnel compared with WireGuard: the same packets through two whole devices each, alternately.
enum LoginTunnel {
    static let suite = "Login tunnel beside WireGuard, two devices each, 1420-byte packets"
    static let ratio = "login tunnel / WireGuard"

    static func suites(isQuick: Bool) -> [Suite] {
        var ratios: [Double] = []
        var result = Suite(name: suite) { _ in
            let (wireGuard, login) = (try DevicePair(), try LoginPair())
            var run: Turns?
            return [
                Case(name: "WireGuard", unit: .nanosecondsPerPacket) { duration in
                    let turns = Turns(2 * duration, wireGuard.send, login.send)
                    run = turns
                    ratios.append(turns.ratio)
                    return turns.first
                },
                // Measured in the same turns.
                Case(name: "login tunnel", unit: .nanosecondsPerPacket) { _ in run?.second ?? .nan },
            ]
        }
        result.derive = { _ in [Row(suite, ratio, .ratio, samples: ratios)] }
        return [result]
    }
}
