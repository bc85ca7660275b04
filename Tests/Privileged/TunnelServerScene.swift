// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Logging
    import NetworkAddresses
    import PacketTunnel
    import PacketTunnelTesting
    import Testing
    import TunnelIO

    @testable import PacketTunnelLinux
    @testable import TunnelServer

    /// Forwards packets between two devices unchanged, until this object is released: a tunnel without a protocol.
    final class TunCable: Sendable {
        private let loop: EventLoop

        /// The state that only the loop's thread uses.
        private final class Way: @unchecked Sendable {
            let batch: PacketBatch
            init(_ batch: PacketBatch) { self.batch = batch }
        }

        init(_ ends: [LinuxTun]) throws {
            loop = try EventLoop()
            for (from, to) in [(ends[0], ends[1]), (ends[1], ends[0])] {
                let way = Way(try PacketBatch())
                _ = try loop.register(from.readiness) { _ in
                    way.batch.removeAll()
                    guard let count = try? from.receive(into: way.batch), count > 0 else { return }
                    _ = try? to.send(way.batch)
                }
            }
            try loop.startThread(name: "cable")
        }

        deinit { loop.stop() }
    }

    /// Records the log of a server.
    struct RecordedLog: LogSink {
        let records = Eavesdropper<LogRecord>()
        func write(_ record: LogRecord) { records.observe(record) }
    }

    /// A server between a router with the internet behind it, a local network, and a client in a separate namespace.
    /// The client's packets arrive through the server's tunnel.
    final class TunnelServerScene {
        static let name = "srv0"
        let world: LinuxHostWorld
        let client: Namespace
        /// A machine on the server's local network that uses the server as its router.
        let neighbour: Namespace
        private(set) var network: ServerNetwork?
        private var cable: TunCable?
        private var ends: [LinuxTun] = []

        init() throws {
            world = try LinuxHostWorld()
            client = try Namespace()
            neighbour = try Namespace()
            // Addresses behind the router that clients must not reach.
            for address in ["192.168.77.1/32", "169.254.169.254/32", "100.64.1.1/32"] {
                try world.router.run("ip", "address", "add", address, "dev", "lo")
            }
            try world.router.run("ip", "address", "add", "fd55::1/128", "dev", "lo", "nodad")
            // Every refusal must be sent, without a rate limit.
            try world.host.run("sysctl", "-qw", "net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0")
            try world.host.run(
                "ip", "link", "add", "eth1", "type", "veth", "peer", "name", "eth0", "netns", neighbour.name)
            for (namespace, link, last) in [(world.host, "eth1", 1), (neighbour, "eth0", 2)] {
                try namespace.run("ip", "address", "add", "198.51.100.\(last)/24", "dev", link)
                try namespace.run("ip", "link", "set", link, "up")
            }
            try neighbour.run("ip", "route", "add", "default", "via", "198.51.100.1")
            try world.router.run("ip", "route", "add", "198.51.100.0/24", "via", "192.0.2.2")
            for (namespace, link, last) in [(world.host, "eth1", 1), (neighbour, "eth0", 2)] {
                try namespace.run("ip", "address", "add", "2001:db8:51::\(last)/64", "dev", link, "nodad")
            }
            try neighbour.run("ip", "-6", "route", "add", "default", "via", "2001:db8:51::1")
            try world.router.run("ip", "-6", "route", "add", "2001:db8:51::/64", "via", "2001:db8:2::2")
        }

        func settings() throws -> ServerNetworkSettings {
            var settings = ServerNetworkSettings(
                name: Self.name, mtu: 1400,
                addresses: [try InterfaceAddress("10.66.0.1/24"), try InterfaceAddress("fd66::1/64")])
            settings.nameServers = [try IPAddress("10.55.1.1"), try IPAddress("fd55::1")]
            settings.services = [.init(.tcp, 8080)]
            settings.journalFolder = world.folder
            return settings
        }

        /// Starts the server with the client 10.66.0.2 and fd66::2, and with another client that does not exist.
        /// - Parameter endConnections: Replaces the function that ends connections.
        func start(
            _ settings: ServerNetworkSettings, logger: Logger = Logger(label: "server"),
            endConnections: ServerNetworkCore.EndConnections? = nil
        ) async throws {
            let network = try world.host.perform {
                guard let endConnections else { return try ServerNetwork(settings, logger: logger) }
                return try ServerNetwork(settings, logger: logger, endConnections: endConnections)
            }
            self.network = network
            let (device, _, _) = try await network.start(isMultiQueue: false)
            let end = try client.perform { try LinuxTun(name: "tun0", mtu: 1400) }
            try client.perform { try end.setUp(true) }
            for command in [
                ["address", "add", "10.66.0.2/24", "dev", "tun0"], ["route", "add", "default", "dev", "tun0"],
                ["-6", "address", "add", "fd66::2/64", "dev", "tun0", "nodad"],
                ["-6", "route", "add", "default", "dev", "tun0"],
            ] {
                try run(["ip", "netns", "exec", client.name, "ip"] + command)
            }
            ends = [device, end]
            cable = try TunCable(ends)
            try await network.allow(["10.66.0.2", "fd66::2", "10.66.0.3", "fd66::3"].map { try IPAddress($0) })
        }

        /// A second server on the same host, with a client in another namespace.
        final class AddedServer {
            let client: Namespace
            private let network: ServerNetwork
            private var cable: TunCable?
            private let ends: [LinuxTun]

            fileprivate init(_ network: ServerNetwork, _ client: Namespace, _ ends: [LinuxTun]) throws {
                (self.network, self.client, self.ends) = (network, client, ends)
                cable = try TunCable(ends)
            }

            func stop() async throws {
                cable = nil
                await network.stop()
                for end in ends { end.close() }
            }
        }

        /// Starts a second server, with a client of 10.67.0.2 and fd67::2 behind it.
        /// - Parameter journalFolder: The folder of its journal; `nil` for that of the first server.
        func addServer(journalFolder: String? = nil) async throws -> AddedServer {
            var settings = ServerNetworkSettings(
                name: "srv1", mtu: 1400,
                addresses: [try InterfaceAddress("10.67.0.1/24"), try InterfaceAddress("fd67::1/64")])
            settings.journalFolder = journalFolder ?? world.folder
            let network = try world.host.perform { [settings] in try ServerNetwork(settings) }
            let (device, _, _) = try await network.start(isMultiQueue: false)
            let client = try Namespace()
            let end = try client.perform { try LinuxTun(name: "tun0", mtu: 1400) }
            try client.perform { try end.setUp(true) }
            for command in [
                ["address", "add", "10.67.0.2/24", "dev", "tun0"], ["route", "add", "default", "dev", "tun0"],
                ["-6", "address", "add", "fd67::2/64", "dev", "tun0", "nodad"],
                ["-6", "route", "add", "default", "dev", "tun0"],
            ] {
                try run(["ip", "netns", "exec", client.name, "ip"] + command)
            }
            let server = try AddedServer(network, client, [device, end])
            try await network.allow(["10.67.0.2", "fd67::2"].map { try IPAddress($0) })
            return server
        }

        func stop() async {
            cable = nil
            await network?.stop()
            for end in ends { end.close() }
        }

        // MARK: - Attempts of the client

        /// Whether pings are answered.
        func pings(_ address: String, from: Namespace? = nil, source: String? = nil, patience: Int = 1) throws -> Bool {
            var command = ["ping", "-n", "-q", "-c", "1", "-W", "\(patience)"]
            if let source { command += ["-I", source] }
            let result = try runAllowingFailure(
                ["ip", "netns", "exec", (from ?? client).name] + command + [address])
            return result.status == 0
        }

        enum Outcome: String {
            /// The port has no listener. Only the machine itself can report this.
            case reached = "Connection refused"
            /// A firewall on the path refused the connection.
            case refused = "No route to host"
            case silent
        }

        /// The outcome of a TCP connection to a port without a listener.
        func connects(to address: String, port: Int) throws -> Outcome {
            let output = try client.runAllowingFailure(
                "timeout", "2", "bash", "-c", "exec 3<>/dev/tcp/\(address)/\(port)"
            ).output
            if output.contains(Outcome.reached.rawValue) { return .reached }
            if output.contains(Outcome.refused.rawValue) || output.contains("Permission denied") { return .refused }
            return .silent
        }

        /// The host's settings that a server may change, in addition to interfaces, routes and rules.
        func kernelSettings() throws -> String {
            try world.host.run(
                "sh", "-c",
                "cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/*/forwarding "
                    + "/proc/sys/net/ipv6/conf/*/forwarding /proc/sys/net/ipv6/conf/*/accept_ra"
            ).output
        }
    }

    extension LinuxHostWorld {
        /// The number of packets that the rules of a chain of the server's table have counted.
        func counted(_ chain: String) throws -> Int {
            let table = "culvert_\(TunnelServerScene.name)"
            let text = try host.run("nft", "list", "chain", "inet", table, chain).output
            return text.split(separator: "packets ").dropFirst().compactMap { Int($0.prefix { $0.isNumber }) }
                .reduce(0, +)
        }
    }

    extension ServerNetwork {
        /// Admits a client, or changes its rules.
        /// - Throws: The reason why an address or network was excluded; it is then removed.
        func allow(
            _ addresses: [IPAddress], subnets: [IPPrefix] = [], rules: [AccessRule] = []
        ) async throws {
            let prefixes = addresses.map { IPPrefix(host: $0) } + subnets
            // Only a client with networks needs the list of all its prefixes.
            let access = ClientAccess(rules: rules, prefixes: subnets.isEmpty ? [] : prefixes)
            let excluded = try await apply(
                Dictionary(uniqueKeysWithValues: prefixes.map { ($0, ClientAccess?.some(access)) }))
            let refused = prefixes.filter { excluded[$0] != nil }
            guard let error = refused.first.flatMap({ excluded[$0] }) else { return }
            _ = try await apply(Dictionary(uniqueKeysWithValues: refused.map { ($0, ClientAccess?.none) }))
            throw error
        }

        /// Removes a client, and networks behind it.
        func remove(_ addresses: [IPAddress], subnets: [IPPrefix] = []) async throws {
            let prefixes = addresses.map { IPPrefix(host: $0) } + subnets
            _ = try await apply(
                Dictionary(uniqueKeysWithValues: prefixes.map { ($0, ClientAccess?.none) }), released: Set(prefixes))
        }
    }
#endif
