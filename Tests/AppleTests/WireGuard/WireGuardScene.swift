// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import NetworkExtension
import PacketTunnelTesting
import WireGuardCore
import WireGuardDevice

@testable import PacketTunnel
@testable import PacketTunnelApple
@testable import TunnelIO
@testable import WireGuardTunnel

/// A WireGuard provider in an extension host, the system around it, and its server on an internet in memory.
final class WireGuardScene: Sendable {
    static let inner = IPAddress.v4(10, 0, 0, 2)
    static let target = IPAddress.v4(203, 0, 113, 7)

    let system: SystemSide<WireGuardTunnelProvider>
    let behind = VirtualNetwork()
    private let server: WireGuardDevice
    private let configuration: WireGuardTunnelConfiguration

    init(
        connectivity: ConnectivityOptions = .scarce, _ adjust: (inout NetworkExtensionOptions) -> Void = { _ in }
    ) async throws {
        var random = SeededGenerator(seed: 7)
        let (key, serverKey) = (PrivateKey(using: &random), PrivateKey(using: &random))
        let internet = MemoryInternet()
        server = try Self.makeServer(internet.attach([.v4(0xc633_6401)]), behind, serverKey, key.publicKey)
        var environment = WireGuardEnvironment()
        environment.network = internet.attach([.v4(0xc000_020a)])
        let used = environment
        var options = NetworkExtensionOptions.quiet
        let secrets = MemorySecretStore()
        let bytes = key.secret.withSpan { span in SecretBytes(span.indices.map { span[$0] }) }
        try await secrets.write(bytes, "private-key", of: "test")
        options.secrets = secrets
        adjust(&options)
        system = SystemSide(options) { WireGuardTunnelProvider(environment: used) }
        configuration = WireGuardTunnelConfiguration(
            addresses: [InterfaceAddress(host: Self.inner)],
            peers: [
                try .init(
                    publicKey: serverKey.publicKey.base64, endpoint: "198.51.100.1:51820",
                    allowedIPs: [.allIPv4, .allIPv6])
            ],
            connectivity: connectivity)
    }

    deinit { server.close() }

    private static func makeServer(
        _ network: MemoryDatagramNetwork, _ behind: VirtualNetwork, _ key: PrivateKey, _ client: PublicKey
    ) throws -> WireGuardDevice {
        let tun = try behind.makeTun(name: "server")
        let device = try WireGuardDevice(tun: tun, network: network)
        var update = UAPIDeviceUpdate()
        update.privateKey = .set(key)
        update.listenPort = 51_820
        var peer = UAPIPeerUpdate(publicKey: client)
        peer.allowedIPs.append(.add(IPPrefix(host: Self.inner)))
        update.peers = [peer]
        try device.apply(update)
        try device.start()
        return device
    }

    var flow: StandInFlow { system.tunnel.standIn.flow.standIn }

    func start() async throws {
        let json = try JSONEncoder().encode(configuration)
        try await system.start(TunnelStartRequest(configuration: Array(json), profileID: "test"))
    }

    /// A ping into the tunnel, and its reply if it passes.
    static func ping(_ sequence: UInt16) -> (request: [UInt8], reply: [UInt8]?) {
        let request = PacketBuilder.icmpEcho(
            from: inner, to: target, identifier: 99, sequence: sequence, payload: [1, 2, 3])
        return (request, VirtualNetwork().receive(request))
    }

    /// Whether a ping through the tunnel comes back.
    func passes(
        _ sequence: UInt16 = 1, send: (([UInt8]) -> Void)? = nil, take: (() -> [[UInt8]])? = nil
    ) async -> Bool {
        await system.passes(Self.ping(sequence).request, send: send, take: take)
    }

    func status() async throws -> StatusRequest.Reply {
        try await MessageClient(channel: system, timeout: .seconds(60)).send(StatusRequest())
    }
}

extension ConnectivityOptions {
    /// Constants by which nothing happens that a test does not want, on however slow a machine.
    static let scarce = ConnectivityOptions(
        connectivityInterval: 2, maxConnectionAttempts: 10, pingAddress: "203.0.113.1", pingInterval: 0.05)
}
