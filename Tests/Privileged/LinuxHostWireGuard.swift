// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import HostConformance
    import Logging
    import NetworkAddresses
    import Synchronization
    import Testing
    import TunnelIO
    import WireGuardCore
    import WireGuardTunnel

    @testable import PacketTunnel
    @testable import PacketTunnelLinux

    /// Sockets of a namespace that any thread can open.
    struct NamespaceNetwork: DatagramNetwork {
        let namespace: Namespace

        func bind(_ binding: DatagramBinding, count: Int) throws(TunnelIOError) -> [DatagramSockets] {
            do {
                return try namespace.perform { try LinuxDatagramNetwork().bind(binding, count: 1) }
            } catch let error as TunnelIOError {
                throw error
            } catch {
                throw TunnelIOError(.closed)
            }
        }
    }

    /// A wireguard-go behind the router, and the parts of a tunnel to it.
    final class WireGuardServerWorld {
        static let port: UInt16 = 51_820
        static let inner = "10.9.0.1"

        let world: LinuxHostWorld
        let keys = StaticKeys()
        let clientKeys = StaticKeys()
        private var daemon: DaemonProcess?

        init() throws {
            world = try LinuxHostWorld()
            // The destinations of packets from the tunnel.
            for address in ["8.8.8.8/32", "\(Self.inner)/32"] {
                try world.router.run("ip", "address", "add", address, "dev", "lo")
            }
            try world.router.run("ip", "address", "add", "fd55::1/128", "dev", "lo", "nodad")
        }

        /// Starts the server, or restarts it.
        func startServer() throws {
            let daemon = try DaemonProcess(.wireguardGo, in: world.router)
            try Wg.configure(
                daemon.name,
                """
                [Interface]
                PrivateKey = \(keys.text)
                ListenPort = \(Self.port)
                [Peer]
                PublicKey = \(clientKeys.publicKey.base64)
                AllowedIPs = 10.9.0.2/32, fd09::2/128
                """)
            try world.router.run(
                "sh", "-ec",
                """
                ip link set \(daemon.name) mtu 1420 up
                ip route add 10.9.0.2/32 dev \(daemon.name)
                ip -6 route add fd09::2/128 dev \(daemon.name)
                """)
            self.daemon = daemon
        }

        /// Kills the server, so that it cannot notify its peer.
        func killServer() {
            daemon?.process.kill()
            daemon = nil
        }

        /// Returns a configuration that routes everything into the tunnel, with short monitoring intervals.
        func configuration(
            _ policy: LeakPolicy, endpoint: String = "203.0.113.7:51820"
        ) throws -> WireGuardTunnelConfiguration {
            WireGuardTunnelConfiguration(
                addresses: [try InterfaceAddress("10.9.0.2/24"), try InterfaceAddress("fd09::2/64")],
                dns: DNSSettings(servers: [.v4(10, 9, 0, 1)]), leakPolicy: policy,
                peers: [
                    try .init(
                        publicKey: keys.publicKey.base64, endpoint: endpoint, allowedIPs: [.allIPv4, .allIPv6],
                        persistentKeepalive: 1)
                ],
                connectivity: ConnectivityOptions(
                    connectivityInterval: 0.5, maxConnectionAttempts: 3, pingAddress: Self.inner, pingInterval: 0.3,
                    healingInterval: 10), resolutionTimeout: 5)
        }

        static let profile = "profile"

        /// The provider's secrets.
        func secrets() async throws -> MemorySecretStore {
            let store = MemorySecretStore()
            try await store.write(
                SecretBytes(Array(clientKeys.text.utf8)), WireGuardTunnelConfiguration.defaultPrivateKeyName,
                of: Self.profile)
            return store
        }

        /// Makes a host for the tunnel. The test's threads are not in the host's namespace, so the sockets must be
        /// opened there explicitly.
        func host(
            resolver: ResolverControl = ResolverControl()
        ) async throws -> (host: LinuxHost<WireGuardTunnelProvider>, provider: WireGuardTunnelProvider) {
            var environment = WireGuardEnvironment()
            environment.network = NamespaceNetwork(namespace: world.host)
            let provider = WireGuardTunnelProvider(environment: environment)
            let secrets = try await secrets()
            let host = try world.host.perform {
                var options = world.options
                options.nameServers = .required
                let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
                let platform = try LinuxPlatform(
                    name: LinuxHostWorld.tunnel, options: options, logger: logger, owner: .current, resolver: resolver
                ) { $0 }
                return try LinuxHost<WireGuardTunnelProvider>(
                    platform, secrets: secrets, logger: logger, wrap: { $0 }, makeProvider: { provider })
            }
            return (host, provider)
        }
    }

    extension TunnelHost {
        /// Waits until the status is one of these, or was one of these since the call.
        @discardableResult
        func reaches(_ statuses: TunnelStatus...) async -> TunnelStatus? {
            for await update in statusUpdates() where statuses.contains(update.status) { return update.status }
            return nil
        }
    }
#endif
