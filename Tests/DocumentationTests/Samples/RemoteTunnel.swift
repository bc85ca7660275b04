// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import NetworkAddresses
import PacketTunnel
import TunnelIO

/// A tunnel in datagrams, either end of it. Parts of it are in docs/provider.md.
actor RemoteTunnel: PacketTunnelProvider {
    struct Configuration: Codable, Sendable {
        var server: Endpoint
        var address: IPAddress
        var port: UInt16 = 0
    }

    private var work: Task<Void, any Error>?
    private let network: any DatagramNetwork

    init() { network = SystemDatagramNetwork() }
    init(_ network: any DatagramNetwork) { self.network = network }  // For tests.

    private func bind(_ port: UInt16, _ context: ProviderContext) throws(TunnelError) -> DatagramPort {
        do throws(TunnelIOError) {
            return try DatagramPort(port, on: network, mark: context.socketMark)  // 0 is a free port.
        } catch {
            throw TunnelError(.providerFailed, error.description)
        }
    }

    func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
        let key = try await context.secret("key").bytes
        guard !key.isEmpty else { throw TunnelError(.configurationInvalid, "the key is empty") }
        let port = try bind(configuration.port, context)
        try await context.apply(
            TunnelSettings(
                remoteAddress: "\(configuration.server)", addresses: [InterfaceAddress(host: configuration.address)]))
        work = Task { try await carry(context.packetFlow, over: port, to: configuration.server) }
    }

    func stop(_ reason: StopReason) async { work?.cancel() }
}

// docs/provider.md
func carry(_ flow: PacketFlow, over port: DatagramPort, to server: Endpoint) async throws {
    try await withThrowingTaskGroup { group in
        group.addTask {
            for try await packet in flow.packets { try port.send(packet, to: server) }  // Seal it here.
        }
        group.addTask {
            for try await datagram in port.datagrams where datagram.endpoint == server {
                try await flow.write(datagram.bytes)  // Open it here.
            }
        }
        try await group.next()
        group.cancelAll()
    }
}

// docs/provider.md
func makeRemote() async throws -> (MemoryHost<RemoteTunnel>, MemoryInternet) {
    let internet = MemoryInternet()
    let network = try internet.attach("192.0.2.1")  // One host of it. The server is another.
    let host = MemoryHost { RemoteTunnel(network) }
    return (host, internet)
}

// docs/provider.md
func start(_ host: MemoryHost<RemoteTunnel>, _ profile: TunnelProfile) async throws -> TunnelManager {
    let manager = TunnelManager(host)
    try await manager.create(profile, secrets: ["key": SecretBytes("a key".utf8)])
    try await manager.start(profile.id)
    return manager
}

// docs/provider.md
func makeManager(_ folder: String, _ socket: String) async throws -> TunnelManager {
    let manager = TunnelManager(
        store: try FileProfileStore(path: folder + "/profiles"),
        secrets: try FileSecretStore(path: folder + "/secrets")
    ) { _ in UnixTunnelChannel(path: socket) }
    try await manager.load()
    return manager
}

#if os(Linux)
    import PacketTunnelLinux

    // docs/provider.md
    func run(_ configuration: RemoteTunnel.Configuration, key: String, _ logger: Logger) async throws {
        let store = MemorySecretStore()  // A FileSecretStore(path:) keeps them.
        try await store.write(SecretBytes(key.utf8), "key", of: "remote")
        let host = try LinuxHost<RemoteTunnel>(name: "remote0", secrets: store, logger: logger)
        try await host.run(configuration, profileID: "remote")
    }

    // docs/provider.md
    func serve(_ logger: Logger) -> Never {
        TunnelProgram.run {
            let host = try LinuxHost<RemoteTunnel>(
                name: "remote0", secrets: FileSecretStore(path: "/etc/remote/secrets"), logger: logger)
            let service = try TunnelService(host: host, path: "/run/remote/remote0.sock")
            for await _ in host.statusUpdates() {}  // Until SIGTERM: the app starts and stops the tunnel.
            await host.stop(.userInitiated)
            await service.close()
        }
    }
#endif
